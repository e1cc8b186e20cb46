"""Check that a command runs in the account and the region of its stage, before it changes anything.

Provisioning records the stream of the stage's table, whose ARN names both. In another region the commands
would create a second table, secret and API, and share the roles, which are global.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click
from botocore.exceptions import NoRegionError


def check_account(sts: Any, stage: str, variables: Mapping[str, str]) -> None:
    """Call STS, so that missing credentials are noticed, and compare its account and region with the stage's.

    Raises: ClickException for another account or region than the recorded one.
    """
    if sts.meta.region_name == "aws-global":  # STS alone needs no region
        raise NoRegionError
    account = sts.get_caller_identity()["Account"]
    check_place(stage, variables, sts.meta.region_name, account)


def check_place(stage: str, variables: Mapping[str, str], region: str | None, account: str = "") -> None:
    """Compare a region, and an account unless it is empty, with those where a stage is provisioned.

    Raises: ClickException when they differ.
    """
    stream = variables.get("HUBBUB_STREAM_ARN")
    if not stream:
        return
    of_region, of_account = stream.split(":")[3:5]
    if region != of_region:
        raise click.ClickException(
            f"{stage} is in {of_region} (HUBBUB_STREAM_ARN), and this session in {region or 'no region'}; "
            f"nothing changed. Set AWS_DEFAULT_REGION={of_region}, or use another stage in another region"
        )
    if account not in ("", of_account):
        raise click.ClickException(
            f"{stage} is in the account {of_account} (HUBBUB_STREAM_ARN), and these credentials are of "
            f"{account}; nothing changed"
        )
