"""Compare an existing table with the template, and plan the change sets from one to the other."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import click
from botocore.exceptions import ClientError

from chalicelib.dynamo.retries import error_code
from ops.aws.cloudformation import Template
from ops.aws.template import Properties

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_sqs import SQSClient

Live = dict[str, Any]


class Step(NamedTuple):
    """A change set to create; `reason` is shown to the operator.

    `releases` is true when the stack lets the table go, which is kept. `is_partial` is true for a change of
    the stack's own template, which keeps all parameters but the table's name.
    """

    reason: str
    template: Template
    imports: Sequence[Any] = ()
    releases: bool = False
    is_partial: bool = False


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
    types = {
        attribute["AttributeName"]: attribute["AttributeType"] for attribute in wanted["AttributeDefinitions"]
    }
    changed = [
        attribute["AttributeName"]
        for attribute in live["AttributeDefinitions"]
        if types.get(attribute["AttributeName"], attribute["AttributeType"]) != attribute["AttributeType"]
    ]
    return bool(changed) or _keys(live["KeySchema"]) != _keys(wanted["KeySchema"])


def _keys(schema: Sequence[Any]) -> set[tuple[str, str]]:
    return {(key["KeyType"], key["AttributeName"]) for key in schema}


def plan_import(template: Template, stage: str, live: Live | None, sqs: SQSClient) -> Step | None:
    """Return the import of resources that an earlier stack has left, or None without any.

    The import describes the table as it is, so that the following update knows what to change. An import must
    not have outputs.
    """
    kept = {
        name: resource
        for name, resource in template["Resources"].items()
        if str(resource.get("DeletionPolicy")).startswith("Retain")
    }
    resources, imports = {}, []
    for name, resource in kept.items():
        properties = resource.get("Properties", {})
        if resource["Type"] == "AWS::DynamoDB::Table" and live:
            resources[name], entry = _import_table(live)
            imports.append(entry)
        elif resource["Type"] == "AWS::SQS::Queue":
            url = find_queue_url(sqs, str(properties["QueueName"]["Fn::Sub"]).replace("${Stage}", stage))
            if url:
                resources[name] = resource
                imports.append(
                    {
                        "ResourceType": resource["Type"],
                        "LogicalResourceId": name,
                        "ResourceIdentifier": {"QueueUrl": url},
                    }
                )
    if not imports:
        return None
    parts = {key: template[key] for key in ("AWSTemplateFormatVersion", "Parameters", "Conditions")}
    return Step("adopt existing resources", {**parts, "Resources": resources}, imports)


def find_queue_url(sqs: SQSClient, name: str) -> str:
    """Return a queue's URL; empty if the queue does not exist, as on an engine without SQS."""
    try:
        return sqs.get_queue_url(QueueName=name)["QueueUrl"]
    except sqs.exceptions.QueueDoesNotExist:
        return ""
    except ClientError as error:
        if error_code(error) != "UnknownOperationException":
            raise
        return ""


def plan_swap(now: Template, live: Live) -> Iterator[Step]:
    """Yield the change sets after which a stack has another table, whose former table is kept.

    `now` is the stack's own template. CloudFormation renames no table and imports none in place of another.
    So the stack lets the former table go first: AWS CloudFormation User Guide, "Import AWS resources into a
    CloudFormation stack", and the attribute DeletionPolicy. Outputs of the table go with it, because an
    import must not change outputs. The last update to the template adds them again.

    Raises: ClickException for a stack that would delete the table.
    """
    rest = copy.deepcopy(now)
    table = rest["Resources"].pop("Table", None)
    for name in ("TableName", "StreamArn"):
        rest.get("Outputs", {}).pop(name, None)
    if table:
        if not str(table.get("DeletionPolicy")).startswith("Retain"):
            raise click.ClickException("the stack would delete its table: its DeletionPolicy is not Retain")
        yield Step("let the former table go, which is kept", rest, releases=True, is_partial=True)
    resource, entry = _import_table(live)
    whole = {**rest, "Resources": {**rest["Resources"], "Table": resource}}
    yield Step(f"adopt the table {live['TableName']}", whole, [entry], is_partial=True)


def _import_table(live: Live) -> tuple[Any, Any]:
    """Return a table as it is, as a resource of a template and as one to import."""
    kind = "AWS::DynamoDB::Table"
    policies = {"DeletionPolicy": "RetainExceptOnCreate", "UpdateReplacePolicy": "Retain"}
    properties = {key: value for key, value in live.items() if key != "StreamArn"}
    entry = {
        "ResourceType": kind,
        "LogicalResourceId": "Table",
        "ResourceIdentifier": {"TableName": live["TableName"]},
    }
    return {"Type": kind, **policies, "Properties": properties}, entry


def plan_index_updates(template: Template, before: Live | None, wanted: Properties) -> Iterator[Step]:
    """Yield the updates to the template. Each creates or deletes at most one index, as DynamoDB requires.

    `before` has the properties of the table that the stack knows.
    """
    indexes = {index["IndexName"]: index for index in wanted.get("GlobalSecondaryIndexes", ())}
    if before:
        now = {index["IndexName"]: index for index in before.get("GlobalSecondaryIndexes", ())}
        missing = [name for name in indexes if name not in now]
        surplus = [name for name in now if name not in indexes]
        for name in (missing + surplus)[:-1]:
            if name in indexes:
                now[name] = indexes[name]
            else:
                del now[name]
            verb = "create" if name in indexes else "delete"
            yield Step(f"{verb} index {name}", with_indexes(template, list(now.values()), before))
    yield Step("apply the template", template)


def with_indexes(template: Template, indexes: list[Any], before: Live) -> Template:
    """Copy a template with other indexes. It declares only key attributes, as DynamoDB requires."""
    found = copy.deepcopy(template)
    table = found["Resources"]["Table"]["Properties"]
    types = {
        attribute["AttributeName"]: attribute
        for attribute in (*before["AttributeDefinitions"], *table["AttributeDefinitions"])
    }
    schemas = (table["KeySchema"], *(index["KeySchema"] for index in indexes))
    names = {key["AttributeName"] for schema in schemas for key in schema}
    table["GlobalSecondaryIndexes"] = indexes
    table["AttributeDefinitions"] = [types[name] for name in types if name in names]
    return found
