"""Makes what a stage needs on AWS before its first deploy: so far, the secret that signs its tokens."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mypy_boto3_ssm import SSMClient


def secret(ssm: SSMClient, name: str) -> bool:
    """Make a random secret in SSM's Parameter Store, encrypted; False when there is one, which stays.

    Two runs at once make one: SSM itself refuses to overwrite. The secret is never printed.
    """
    try:
        ssm.put_parameter(
            Name=name,
            Value=secrets.token_hex(32),
            Type="SecureString",
            Overwrite=False,
            Description="Signs Hubbub's tokens and cursors",
        )
    except ssm.exceptions.ParameterAlreadyExists:
        return False
    return True
