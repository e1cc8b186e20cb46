"""Check that a command runs in the account and the region of its stage, before it changes anything.

Provisioning records the stream of the stage's table, whose ARN names both. In another region the commands
would create a second table, secret and API, and share the roles, which are global: a deletion would delete
them. A clone without the record asks each region for the table. No option allows a stage in two regions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import boto3
import click
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError, NoRegionError

from ops.aws.template import table_name

QUICK = Config(connect_timeout=3, read_timeout=5, retries={"total_max_attempts": 2}, max_pool_connections=1)


def check_account(client: Callable[..., Any], stage: str, variables: Mapping[str, str]) -> None:
    """Call STS, so that missing credentials are noticed, and compare its account and region with the stage's.

    `client` creates a client of an AWS service, optionally with other options.

    Raises: ClickException for another account or region than that of the stage.
    """
    sts = client("sts")
    if sts.meta.region_name == "aws-global":  # STS alone needs no region
        raise NoRegionError
    account = sts.get_caller_identity()["Account"]
    check_place(stage, variables, sts.meta.region_name, account)
    if not variables.get("HUBBUB_STREAM_ARN"):
        check_other_regions(client, stage, variables.get("HUBBUB_TABLE") or table_name(stage))


def check_other_regions(client: Callable[..., Any], stage: str, table: str) -> None:
    """Raise ClickException when the table of a stage exists in another region and not in this one.

    A region that the account has not enabled, or that the credentials may not read, is left out.

    Cost: one call, and for a new stage one for each region, all at once.
    """
    here = client("dynamodb")
    if _has_table(here, table):
        return
    session, own = boto3.session.Session(), here.meta.region_name
    names = session.get_available_regions("dynamodb", here.meta.partition)
    others = [client("dynamodb", region_name=name, config=QUICK) for name in names if name != own]
    with ThreadPoolExecutor(len(others) or 1) as pool:
        found = list(pool.map(lambda other: _has_table(other, table), others))
    for other, is_there in zip(others, found, strict=True):
        if is_there:
            region = other.meta.region_name
            raise click.ClickException(
                f"{stage} is in {region} (table {table}), and this session in {own}; nothing changed. "
                f"Set AWS_DEFAULT_REGION={region}, or use another stage in another region"
            )


def _has_table(dynamodb: Any, table: str) -> bool:
    try:
        dynamodb.describe_table(TableName=table)
    except (ClientError, BotoCoreError):
        return False
    return True


def check_place(stage: str, variables: Mapping[str, str], region: str | None, account: str = "") -> None:
    """Compare a region, and an account unless it is empty, with those where a stage is provisioned.

    Raises: ClickException when they differ.
    """
    stream = variables.get("HUBBUB_STREAM_ARN")
    if not stream:
        return
    own_region, own_account = stream.split(":")[3:5]
    if region != own_region:
        raise click.ClickException(
            f"{stage} is in {own_region} (HUBBUB_STREAM_ARN), and this session in {region or 'no region'}; "
            f"nothing changed. Set AWS_DEFAULT_REGION={own_region}, or use another stage in another region"
        )
    if account not in ("", own_account):
        raise click.ClickException(
            f"{stage} is in the account {own_account} (HUBBUB_STREAM_ARN), and these credentials are of "
            f"{account}; nothing changed"
        )
