"""The template defines the created resources, the same on every engine."""

from __future__ import annotations

import doctest
import json
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import boto3
import pytest
from moto import mock_aws

from local.engines.engine import Engine
from ops.aws import template as definitions
from ops.aws.template import Table, create_queue, create_table, definition, resolve

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_sqs import SQSClient

    from tests.conftest import EngineTable


def agrees_with_the_template(dynamodb: DynamoDBClient, name: str, stream_arn: str) -> None:
    wanted = definition("dev").table
    made: Any = dynamodb.describe_table(TableName=name)["Table"]
    assert made["KeySchema"] == wanted["KeySchema"]
    by_name = sorted(made["AttributeDefinitions"], key=lambda attribute: str(attribute["AttributeName"]))
    assert by_name == sorted(wanted["AttributeDefinitions"], key=lambda a: str(a["AttributeName"]))
    indexes = {index["IndexName"]: index for index in made["GlobalSecondaryIndexes"]}
    assert len(indexes) == len(wanted["GlobalSecondaryIndexes"]) == 2
    for index in wanted["GlobalSecondaryIndexes"]:
        assert {key: indexes[index["IndexName"]][key] for key in index} == index
    assert made["BillingModeSummary"]["BillingMode"] == wanted["BillingMode"]
    assert made["StreamSpecification"] == {"StreamEnabled": True, **wanted["StreamSpecification"]}
    assert made["LatestStreamArn"] == stream_arn
    assert made["TableStatus"] == "ACTIVE"
    expiry = dynamodb.describe_time_to_live(TableName=name)["TimeToLiveDescription"]
    assert expiry == {"TimeToLiveStatus": "ENABLED", "AttributeName": "ttl"}


def test_a_table_on_moto_agrees_with_the_template() -> None:
    with mock_aws():
        made = create_table(boto3.client("dynamodb"), "dev")
        assert made.name == "hubbub-dev"
        agrees_with_the_template(boto3.client("dynamodb"), made.name, made.stream_arn)


def test_a_table_on_an_engine_agrees_with_the_template(engine_table: EngineTable) -> None:
    engine, name, stream_arn = engine_table
    agrees_with_the_template(engine.client("dynamodb"), name, stream_arn)


def test_creating_a_table_again_leaves_it_and_its_items(engine_table: EngineTable) -> None:
    engine, name, stream_arn = engine_table
    dynamodb = engine.client("dynamodb")
    dynamodb.put_item(TableName=name, Item={"pk": {"S": "a"}, "sk": {"S": "b"}})
    assert create_table(dynamodb, "dev", name) == Table(name, stream_arn)
    assert dynamodb.scan(TableName=name)["Count"] == 1


def test_creating_a_table_again_completes_one_without_time_to_live(ministack: Engine) -> None:
    dynamodb, name = ministack.client("dynamodb"), f"test-{uuid4().hex}"
    create_table(dynamodb, "dev", name)
    off: Any = {"Enabled": False, "AttributeName": "ttl"}
    dynamodb.update_time_to_live(TableName=name, TimeToLiveSpecification=off)
    agrees_with_the_template(dynamodb, *vars(create_table(dynamodb, "dev", name)).values())
    dynamodb.delete_table(TableName=name)


@mock_aws
def test_point_in_time_recovery_is_on() -> None:
    dynamodb = boto3.client("dynamodb")
    backups = dynamodb.describe_continuous_backups(TableName=create_table(dynamodb, "dev").name)
    recovery = backups["ContinuousBackupsDescription"]["PointInTimeRecoveryDescription"]
    assert recovery["PointInTimeRecoveryStatus"] == "ENABLED"


@mock_aws
@pytest.mark.parametrize(
    ("stage", "protected"), [("dev", False), ("local", False), ("staging", True), ("prod", True)]
)
def test_all_stages_but_dev_and_local_have_deletion_protection(stage: str, protected: bool) -> None:
    dynamodb = boto3.client("dynamodb")
    table = create_table(dynamodb, stage)
    assert table.name == f"hubbub-{stage}"
    assert dynamodb.describe_table(TableName=table.name)["Table"]["DeletionProtectionEnabled"] is protected


def queue_agrees_with_the_template(sqs: SQSClient, name: str | None) -> None:
    queue = create_queue(sqs, "dev", name)
    assert queue.name == (name or "hubbub-dev-views")
    assert queue == create_queue(sqs, "dev", name)
    attributes = sqs.get_queue_attributes(QueueUrl=queue.url, AttributeNames=["All"])["Attributes"]
    assert attributes["QueueArn"] == queue.arn
    assert attributes["VisibilityTimeout"] == "180"
    assert attributes["MessageRetentionPeriod"] == str(4 * 86_400)
    assert attributes["SqsManagedSseEnabled"] == "true"
    dead_url = sqs.get_queue_url(QueueName=f"{queue.name}-dead")["QueueUrl"]
    dead = sqs.get_queue_attributes(QueueUrl=dead_url, AttributeNames=["All"])["Attributes"]
    assert dead["MessageRetentionPeriod"] == str(14 * 86_400)
    redrive = json.loads(attributes["RedrivePolicy"])
    assert redrive == {"maxReceiveCount": 5, "deadLetterTargetArn": dead["QueueArn"]}


@mock_aws
def test_the_queue_on_moto_agrees_with_the_template() -> None:
    queue_agrees_with_the_template(boto3.client("sqs"), None)


def test_the_queue_on_ministack_agrees_with_the_template(ministack: Engine) -> None:
    queue_agrees_with_the_template(ministack.client("sqs"), f"test-{uuid4().hex}")


def test_a_queue_with_other_attributes_is_left_as_it_is(ministack: Engine) -> None:
    sqs, name = ministack.client("sqs"), f"test-{uuid4().hex}"
    sqs.create_queue(QueueName=name, Attributes={"VisibilityTimeout": "7"})
    url = create_queue(sqs, "dev", name).url
    attributes = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["VisibilityTimeout"])["Attributes"]
    assert attributes == {"VisibilityTimeout": "7"}


def test_an_intrinsic_the_reader_does_not_know_is_refused() -> None:
    with pytest.raises(ValueError, match="Fn::Join"):
        resolve({"Name": {"Fn::Join": ["-", ["a", "b"]]}}, "dev", {})
    with pytest.raises(ValueError, match="Region"):
        resolve({"Ref": "AWS::Region"}, "dev", {})


def test_the_examples_in_the_docstrings_hold() -> None:
    assert doctest.testmod(definitions).failed == 0
