"""Restore the table of a stage to a point in time.

DynamoDB restores into a new table only, and never renames one. So the stage moves to the new table, whose
name is recorded as HUBBUB_TABLE, and the former table is kept as it is. The new table's name follows from the
stage and the time, so a restore that broke off continues when it is run again.

Sources: Amazon DynamoDB Developer Guide, "Point-in-time recovery: How it works", and API Reference,
RestoreTableToPointInTime.
"""

from __future__ import annotations

import contextlib
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from ops.aws import live_table
from ops.aws.template import table_name

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient


def target_name(stage: str, moment: datetime) -> str:
    """Return the name of the table of a stage as it was at a time.

    >>> target_name("prod", datetime(2026, 11, 25, 12, tzinfo=UTC))
    'hubbub-prod-20261125T120000Z'
    """
    return f"{table_name(stage)}-{moment.astimezone(UTC):%Y%m%dT%H%M%SZ}"


def check_moment(dynamodb: DynamoDBClient, table: str, moment: datetime) -> None:
    """Raise ClickException for a time to which a table cannot be restored.

    The latest time is usually five minutes ago.
    """
    try:
        found: Any = dynamodb.describe_continuous_backups(TableName=table)["ContinuousBackupsDescription"]
    except (dynamodb.exceptions.TableNotFoundException, dynamodb.exceptions.ResourceNotFoundException):
        raise click.ClickException(
            f"there is no table {table}. Restore the backup that DynamoDB keeps of a deleted table for 35 "
            "days: docs/operations.md, Restoring"
        ) from None
    recovery = found.get("PointInTimeRecoveryDescription", {})
    if recovery.get("PointInTimeRecoveryStatus") != "ENABLED":
        raise click.ClickException(f"{table} has no point-in-time recovery, so it cannot be restored")
    first, last = recovery["EarliestRestorableDateTime"], recovery["LatestRestorableDateTime"]
    if not first <= moment <= last:
        span = f"from {_format(first)} to {_format(last)}"
        raise click.ClickException(f"--to is {_format(moment)}; {table} can be restored to a time {span}")


def _format(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"


def restore(dynamodb: DynamoDBClient, table: str, target: str, moment: datetime) -> None:
    """Restore a table into a new one, and wait until it is complete. An existing target is waited for.

    Cost: USD 0.15 per GB, and up to some hours.

    Raises: ClientError when DynamoDB refuses the restore.
    """
    with contextlib.suppress(dynamodb.exceptions.TableAlreadyExistsException):
        dynamodb.restore_table_to_point_in_time(
            SourceTableName=table, TargetTableName=target, RestoreDateTime=moment
        )
    live_table.wait_until_active(dynamodb, target)
