"""Compares the table that is there with the template, and says how it gets from one to the other."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from ops.aws.cloudformation import Template
from ops.aws.template import Properties, definition

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_sqs import SQSClient

Live = dict[str, Any]


class Step(NamedTuple):
    """One change set on the way to the template."""

    why: str
    template: Template
    imports: Sequence[Any] = ()


def describe_table(dynamodb: DynamoDBClient, name: str) -> Live | None:
    """Describe a table as a template would, with the ARN of its stream; None when there is none.

    A stream that is off has an empty ARN.
    """
    try:
        found: Any = dynamodb.describe_table(TableName=name)["Table"]
    except dynamodb.exceptions.ResourceNotFoundException:
        return None
    live = {key: found[key] for key in ("TableName", "AttributeDefinitions", "KeySchema")}
    live["BillingMode"] = found.get("BillingModeSummary", {}).get("BillingMode", "PROVISIONED")
    live["DeletionProtectionEnabled"] = found.get("DeletionProtectionEnabled", False)
    if live["BillingMode"] == "PROVISIONED":
        units = found["ProvisionedThroughput"]
        live["ProvisionedThroughput"] = {
            key: units[key] for key in ("ReadCapacityUnits", "WriteCapacityUnits")
        }
    if indexes := found.get("GlobalSecondaryIndexes"):
        live["GlobalSecondaryIndexes"] = [
            {key: index[key] for key in ("IndexName", "KeySchema", "Projection")} for index in indexes
        ]
    stream = found.get("StreamSpecification") or {}
    if stream.get("StreamEnabled"):
        live["StreamSpecification"] = {"StreamViewType": stream["StreamViewType"]}
    expiry: Any = dynamodb.describe_time_to_live(TableName=name)["TimeToLiveDescription"]
    if expiry["TimeToLiveStatus"] in ("ENABLED", "ENABLING"):
        live["TimeToLiveSpecification"] = {"AttributeName": expiry["AttributeName"], "Enabled": True}
    backups: Any = dynamodb.describe_continuous_backups(TableName=name)["ContinuousBackupsDescription"]
    recovery = backups.get("PointInTimeRecoveryDescription", {}).get("PointInTimeRecoveryStatus")
    live["PointInTimeRecoverySpecification"] = {"PointInTimeRecoveryEnabled": recovery == "ENABLED"}
    live["StreamArn"] = found.get("LatestStreamArn", "") if stream.get("StreamEnabled") else ""
    return live


def check_keys(live: Live, wanted: Properties) -> None:
    """Raise ClickException for a table that only a new one could bring to the template."""
    if requires_replacement(live, wanted):
        raise click.ClickException(
            f"the table {live['TableName']} has other keys than Hubbub's, so it would be replaced: "
            f"nothing is changed. It belongs to something else, or to another version: docs/deployment.md"
        )


def requires_replacement(live: Live, wanted: Properties) -> bool:
    """Tell whether a table's keys, or the type of an attribute that it declares, would have to change."""
    types = {one["AttributeName"]: one["AttributeType"] for one in wanted["AttributeDefinitions"]}
    changed = [
        one["AttributeName"]
        for one in live["AttributeDefinitions"]
        if types.get(one["AttributeName"], one["AttributeType"]) != one["AttributeType"]
    ]
    return bool(changed) or _keys(live["KeySchema"]) != _keys(wanted["KeySchema"])


def _keys(schema: Sequence[Any]) -> set[tuple[str, str]]:
    return {(one["KeyType"], one["AttributeName"]) for one in schema}


def plan_import(template: Template, stage: str, live: Live | None, sqs: SQSClient) -> Step | None:
    """Write the import of what an earlier stack has left; None when nothing is there.

    The table is described as it is, so that the update that follows knows what to change. An import may bring
    no outputs.
    """
    kept = {name: one for name, one in template["Resources"].items() if one.get("DeletionPolicy") == "Retain"}
    resources, imports = {}, []
    for name, resource in kept.items():
        identifier, properties = {}, resource.get("Properties", {})
        if resource["Type"] == "AWS::DynamoDB::Table" and live:
            identifier = {"TableName": live["TableName"]}
            properties = {key: value for key, value in live.items() if key != "StreamArn"}
        elif resource["Type"] == "AWS::SQS::Queue":
            url = find_queue_url(sqs, str(properties["QueueName"]["Fn::Sub"]).replace("${Stage}", stage))
            identifier = {"QueueUrl": url} if url else {}
        if identifier:
            resources[name] = {**resource, "Properties": properties}
            imports.append(
                {
                    "ResourceType": resource["Type"],
                    "LogicalResourceId": name,
                    "ResourceIdentifier": identifier,
                }
            )
    if not imports:
        return None
    parts = {key: template[key] for key in ("AWSTemplateFormatVersion", "Parameters", "Conditions")}
    return Step("takes over what is there already", {**parts, "Resources": resources}, imports)


def find_queue_url(sqs: SQSClient, name: str) -> str:
    """Find a queue's URL; empty when there is no such queue."""
    try:
        return sqs.get_queue_url(QueueName=name)["QueueUrl"]
    except sqs.exceptions.QueueDoesNotExist:
        return ""


def plan_index_updates(template: Template, live: Live | None, stage: str) -> Iterator[Step]:
    """Lead to the template with no more than one index made or deleted at a time, as DynamoDB has it."""
    wanted = {one["IndexName"]: one for one in definition(stage).table.get("GlobalSecondaryIndexes", ())}
    if live:
        now = {one["IndexName"]: one for one in live.get("GlobalSecondaryIndexes", ())}
        missing = [name for name in wanted if name not in now]
        surplus = [name for name in now if name not in wanted]
        for name in (missing + surplus)[:-1]:
            if name in wanted:
                now[name] = wanted[name]
            else:
                del now[name]
            verb = "makes" if name in wanted else "deletes"
            yield Step(f"{verb} the index {name}", with_indexes(template, list(now.values()), live))
    yield Step("brings everything to the template", template)


def with_indexes(template: Template, indexes: list[Any], live: Live) -> Template:
    """Copy a template with other indexes; only attributes of a key are declared, or DynamoDB refuses."""
    found = copy.deepcopy(template)
    table = found["Resources"]["Table"]["Properties"]
    types = {
        one["AttributeName"]: one for one in (*live["AttributeDefinitions"], *table["AttributeDefinitions"])
    }
    schemas = (table["KeySchema"], *(index["KeySchema"] for index in indexes))
    names = {key["AttributeName"] for schema in schemas for key in schema}
    table["GlobalSecondaryIndexes"] = indexes
    table["AttributeDefinitions"] = [types[name] for name in types if name in names]
    return found
