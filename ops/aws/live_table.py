"""Compare the settings of a live table with the template's, and set those that differ.

CloudFormation compares templates only, so it does not see what a restore has left out or what somebody has
changed by hand. The stream, time to live and point-in-time recovery of a restored table must be set up
manually: DynamoDB API Reference, RestoreTableToPointInTime. Deletion protection and the ceiling of the write
units are not among what a restore includes either.

Each setting is a call of its own, because DynamoDB makes one change of a table at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from botocore.exceptions import ClientError

from chalicelib.dynamo.retries import error_code
from ops.aws.adopt import Live
from ops.aws.template import Properties
from ops.waiting import wait_until

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

TIMEOUT = 24 * 3600.0  # seconds: a large table is restored, and an index filled, for hours
PAUSE = 2.0
NOT_YET = {"ContinuousBackupsUnavailableException", "ResourceInUseException"}
"""The errors of DynamoDB for a table that was just created or changed."""


class Difference(NamedTuple):
    """A setting of the template that a live table does not have, and the call that sets it."""

    name: str
    operation: str
    arguments: dict[str, Any]


def find_differences(live: Live, wanted: Properties) -> Iterator[Difference]:
    """Yield the settings in which a live table differs from the template's resolved properties."""

    def update(name: str, **arguments: Any) -> Difference:
        return Difference(name, "update_table", arguments)

    if live["BillingMode"] != wanted["BillingMode"]:
        yield update("BillingMode", BillingMode=wanted["BillingMode"])
    stream = wanted["StreamSpecification"]
    if live.get("StreamSpecification") != stream:
        if "StreamSpecification" in live:  # its view type cannot be changed
            yield update("StreamSpecification", StreamSpecification={"StreamEnabled": False})
        yield update("StreamSpecification", StreamSpecification={"StreamEnabled": True, **stream})
    if wanted["DeletionProtectionEnabled"] and not live["DeletionProtectionEnabled"]:  # never removed
        yield update("DeletionProtectionEnabled", DeletionProtectionEnabled=True)
    for name, operation in (
        ("TimeToLiveSpecification", "update_time_to_live"),
        ("PointInTimeRecoverySpecification", "update_continuous_backups"),
    ):
        if live.get(name) != wanted[name]:
            yield Difference(name, operation, {name: wanted[name]})
    if _ceiling(live) != _ceiling(wanted):
        yield update("OnDemandThroughput", OnDemandThroughput=_ceiling_to_set(wanted))
    yield from _find_index_differences(live, wanted)


def _find_index_differences(live: Live, wanted: Properties) -> Iterator[Difference]:
    there = {index["IndexName"]: index for index in live.get("GlobalSecondaryIndexes", ())}
    types = {attribute["AttributeName"]: attribute for attribute in wanted["AttributeDefinitions"]}
    for index in wanted["GlobalSecondaryIndexes"]:
        name = index["IndexName"]
        if name not in there:
            made = {key: index[key] for key in ("IndexName", "KeySchema", "Projection")}
            if _ceiling(index):
                made["OnDemandThroughput"] = _ceiling(index)
            schemas = [
                wanted["KeySchema"],
                index["KeySchema"],
                *(index["KeySchema"] for index in there.values()),
            ]
            names = {key["AttributeName"] for schema in schemas for key in schema}
            attributes = [types[kind] for kind in types if kind in names]
            updates: Any = [{"Create": made}]
            there[name] = index
        elif _ceiling(there[name]) != _ceiling(index):
            updates = [{"Update": {"IndexName": name, "OnDemandThroughput": _ceiling_to_set(index)}}]
            attributes = []
        else:
            continue
        arguments = {"GlobalSecondaryIndexUpdates": updates}
        arguments |= {"AttributeDefinitions": attributes} if attributes else {}
        yield Difference(f"index {name}", "update_table", arguments)


def _ceiling(properties: Any) -> dict[str, int]:
    return {key: int(value) for key, value in properties.get("OnDemandThroughput", {}).items()}


def _ceiling_to_set(properties: Any) -> dict[str, int]:
    """Return a ceiling as the API takes it: -1 removes one."""
    return {"MaxWriteRequestUnits": -1} | _ceiling(properties)


def apply_difference(dynamodb: DynamoDBClient, table: str, difference: Difference) -> None:
    """Set a setting of a table, and wait until the table and its indexes are active.

    Raises: ClientError when DynamoDB refuses the change.
    """

    def is_accepted() -> bool:
        call: Callable[..., Any] = getattr(dynamodb, difference.operation)
        try:
            call(TableName=table, **difference.arguments)
        except ClientError as error:
            if error_code(error) not in NOT_YET:
                raise
            return False
        return True

    wait_until(is_accepted, f"{table} takes {difference.name}", TIMEOUT, PAUSE)
    wait_until_active(dynamodb, table)


def wait_until_active(dynamodb: DynamoDBClient, table: str) -> None:
    """Wait until a table and its indexes are active."""

    def is_active() -> bool:
        found: Any = dynamodb.describe_table(TableName=table)["Table"]
        parts = [found["TableStatus"]]
        parts += [index.get("IndexStatus", "ACTIVE") for index in found.get("GlobalSecondaryIndexes", ())]
        return set(parts) == {"ACTIVE"}

    wait_until(is_active, f"{table} is active", TIMEOUT, PAUSE)
