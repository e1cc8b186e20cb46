"""Reads table and queue from `.chalice/resources.yaml`, and creates them where there is no CloudFormation.

The template is the only place that says what the table looks like. Deployment, the local run and the tests
all create it from there: on AWS by CloudFormation, elsewhere through the DynamoDB and SQS APIs with the
functions below.
"""

from __future__ import annotations

import contextlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from botocore.exceptions import ClientError

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_sqs import SQSClient

TEMPLATE = Path(__file__).parents[2] / ".chalice" / "resources.yaml"

Properties = dict[str, Any]

UNSUPPORTED = {"UnknownOperationException", "UnsupportedOperationException"}
"""What an engine answers to an operation it does not have, such as point-in-time recovery."""


@dataclass(frozen=True)
class Definition:
    """The properties of each resource for one stage, as CloudFormation names them.

    A reference to another resource (`Fn::GetAtt`) is left as it stands: its value is known once that resource
    exists.
    """

    table: Properties
    views_queue: Properties
    views_dead_letters: Properties


@dataclass(frozen=True)
class Table:
    """A table that exists: its name, and the ARN of the stream it has now."""

    name: str
    stream_arn: str


@dataclass(frozen=True)
class Queue:
    """A queue that exists."""

    name: str
    url: str
    arn: str


def definition(stage: str) -> Definition:
    """Return what the template says for `stage`, with parameters and conditions resolved."""
    template = yaml.safe_load(TEMPLATE.read_text(encoding="utf-8"))
    resources, conditions = template["Resources"], template.get("Conditions", {})
    kept = ("Table", "ViewsQueue", "ViewsDeadLetters")  # the rest watches them, and is CloudWatch's own
    return Definition(*(resolve(resources[name]["Properties"], stage, conditions) for name in kept))


def resolve(node: Any, stage: str, conditions: dict[str, Any]) -> Any:
    """Return a template's value with its intrinsics worked out.

    Knows those the template uses: `Ref` and `Fn::Sub` of the parameter Stage, `Fn::If`, `Fn::Equals`,
    `Fn::Not` and `Fn::Or`. `Fn::GetAtt` stays; any other raises ValueError.

    >>> resolve({"Fn::Sub": "hubbub-${Stage}"}, "dev", {})
    'hubbub-dev'
    >>> resolve({"Fn::If": ["Protected", True, False]}, "dev", {"Protected": False})
    False
    """
    if isinstance(node, list):
        return [resolve(part, stage, conditions) for part in node]
    if not isinstance(node, dict):
        return node
    match list(node.items()):
        case [("Ref", "Stage")]:
            return stage
        case [("Fn::Sub", str(text))]:
            return text.replace("${Stage}", stage)
        case [("Fn::If", [name, then, otherwise])]:
            is_true = resolve(conditions[name], stage, conditions)
            return resolve(then if is_true else otherwise, stage, conditions)
        case [("Fn::Equals", parts)]:
            left, right = resolve(parts, stage, conditions)
            return left == right
        case [("Fn::Not", [part])]:
            return not resolve(part, stage, conditions)
        case [("Fn::Or", parts)]:
            return any(resolve(parts, stage, conditions))
        case [("Fn::GetAtt", _)]:
            return node
        case [(str(name), _)] if name == "Ref" or name.startswith("Fn::"):
            raise ValueError(f"{TEMPLATE.name}: {node} is not an intrinsic this reader knows")
    return {key: resolve(value, stage, conditions) for key, value in node.items()}


def create_table(dynamodb: DynamoDBClient, stage: str, name: str | None = None) -> Table:
    """Create the stage's table, or one of another `name` like it, and return it once it is ACTIVE.

    A table that exists is not changed, but for time to live and point-in-time recovery: these are calls of
    their own on DynamoDB, so a run that stopped halfway is completed here. An engine without one of the two
    is accepted.
    """
    properties = definition(stage).table
    name = name or str(properties["TableName"])
    request = {
        key: value
        for key, value in properties.items()
        if key not in ("TimeToLiveSpecification", "PointInTimeRecoverySpecification")
    }
    # A view type alone means a stream in CloudFormation; the API wants it said.
    request["StreamSpecification"] = {"StreamEnabled": True, **properties["StreamSpecification"]}
    with contextlib.suppress(dynamodb.exceptions.ResourceInUseException):
        dynamodb.create_table(**{**request, "TableName": name})
    dynamodb.get_waiter("table_exists").wait(TableName=name, WaiterConfig={"Delay": 2, "MaxAttempts": 90})
    _enable_time_to_live(dynamodb, name, properties["TimeToLiveSpecification"])
    _enable_recovery(dynamodb, name, properties["PointInTimeRecoverySpecification"])
    table = dynamodb.describe_table(TableName=name)["Table"]
    return Table(name, table["LatestStreamArn"])


def _enable_time_to_live(dynamodb: DynamoDBClient, name: str, specification: Any) -> None:
    """Enable time to live unless it is: DynamoDB refuses that, and any second change within an hour."""
    try:
        status = dynamodb.describe_time_to_live(TableName=name)["TimeToLiveDescription"]["TimeToLiveStatus"]
        if status not in ("ENABLED", "ENABLING"):
            dynamodb.update_time_to_live(TableName=name, TimeToLiveSpecification=specification)
    except ClientError as error:
        _raise_unless_unsupported(error)


def _enable_recovery(dynamodb: DynamoDBClient, name: str, specification: Any) -> None:
    """Enable point-in-time recovery unless it is enabled."""
    try:
        found: Any = dynamodb.describe_continuous_backups(TableName=name)["ContinuousBackupsDescription"]
        recovery = found.get("PointInTimeRecoveryDescription", {})
        if recovery.get("PointInTimeRecoveryStatus") == "ENABLED":
            return
        dynamodb.update_continuous_backups(TableName=name, PointInTimeRecoverySpecification=specification)
    except ClientError as error:
        _raise_unless_unsupported(error)


def _raise_unless_unsupported(error: ClientError) -> None:
    if error.response["Error"]["Code"] not in UNSUPPORTED:
        raise error


def create_queue(sqs: SQSClient, stage: str, name: str | None = None) -> Queue:
    """Create the stage's queue, or one of another `name` like it, and its dead letters; return the queue.

    The dead letters of another `name` are called `<name>-dead`. A queue that exists is left as it is.
    """
    wanted = definition(stage)
    dead_name = f"{name}-dead" if name else str(wanted.views_dead_letters["QueueName"])
    dead_letters = _create(sqs, dead_name, wanted.views_dead_letters)
    redrive = {**wanted.views_queue["RedrivePolicy"], "deadLetterTargetArn": dead_letters.arn}
    properties = {**wanted.views_queue, "RedrivePolicy": redrive}
    return _create(sqs, name or str(properties["QueueName"]), properties)


def _create(sqs: SQSClient, name: str, properties: Properties) -> Queue:
    """Create one queue, or find the one of that name."""
    attributes: Any = {key: _text(value) for key, value in properties.items() if key != "QueueName"}
    try:
        url = sqs.create_queue(QueueName=name, Attributes=attributes)["QueueUrl"]
    except sqs.exceptions.QueueNameExists:
        # It exists with other attributes than these.
        url = sqs.get_queue_url(QueueName=name)["QueueUrl"]
    arn = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    return Queue(name, url, arn)


def _text(value: Any) -> str:
    """Write an attribute as SQS takes it: policies and booleans as JSON, numbers as digits."""
    return value if isinstance(value, str) else json.dumps(value)
