"""Compare an existing table with the template, and plan the change sets from one to the other."""

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
    """A change set to create; `reason` is shown to the operator."""

    reason: str
    template: Template
    imports: Sequence[Any] = ()


def describe_table(dynamodb: DynamoDBClient, name: str) -> Live | None:
    """Describe a table with the properties of a template and its `StreamArn`; None if it does not exist.

    The ARN is empty if the stream is disabled.
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
    live |= _ceiling(found)
    if indexes := found.get("GlobalSecondaryIndexes"):
        live["GlobalSecondaryIndexes"] = [
            {key: index[key] for key in ("IndexName", "KeySchema", "Projection")} | _ceiling(index)
            for index in indexes
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


def _ceiling(found: Any) -> Live:
    """Return the ceiling of a table or an index, if it has one. DynamoDB describes none as -1."""
    units = {key: value for key, value in found.get("OnDemandThroughput", {}).items() if value > 0}
    return {"OnDemandThroughput": units} if units else {}


def check_keys(live: Live, wanted: Properties) -> None:
    """Raise ClickException for a table whose update would replace it."""
    if requires_replacement(live, wanted):
        raise click.ClickException(
            f"the keys of table {live['TableName']} differ from Hubbub's, so an update would replace it. "
            "Nothing changed. The table belongs to another application or version: see docs/deployment.md"
        )


def requires_replacement(live: Live, wanted: Properties) -> bool:
    """Return whether a table's keys, or the type of a declared attribute, would have to change."""
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
    """Return the import of resources that an earlier stack has left, or None without any.

    The import describes the table as it is, so that the following update knows what to change. An import must
    not have outputs.
    """
    kept = {
        name: one
        for name, one in template["Resources"].items()
        if str(one.get("DeletionPolicy")).startswith("Retain")
    }
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
    return Step("adopt existing resources", {**parts, "Resources": resources}, imports)


def find_queue_url(sqs: SQSClient, name: str) -> str:
    """Return a queue's URL; empty if the queue does not exist."""
    try:
        return sqs.get_queue_url(QueueName=name)["QueueUrl"]
    except sqs.exceptions.QueueDoesNotExist:
        return ""


def plan_index_updates(template: Template, live: Live | None, stage: str) -> Iterator[Step]:
    """Yield the updates to the template. Each creates or deletes at most one index, as DynamoDB requires."""
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
            verb = "create" if name in wanted else "delete"
            yield Step(f"{verb} index {name}", with_indexes(template, list(now.values()), live))
    yield Step("apply the template", template)


def with_indexes(template: Template, indexes: list[Any], live: Live) -> Template:
    """Copy a template with other indexes. It declares only key attributes, as DynamoDB requires."""
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
