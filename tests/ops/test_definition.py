"""The template defines the created resources."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import uuid4

import boto3
import pytest
from moto import mock_aws

from local.engines.engine import Engine
from ops.aws.template import Table, create_table, definition, resolve

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

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


def test_a_table_on_an_engine_agrees_with_the_template(engine_table: EngineTable) -> None:
    engine, name, stream_arn = engine_table
    agrees_with_the_template(engine.client("dynamodb"), name, stream_arn)


def test_creating_a_table_again_leaves_it_and_its_items(engine_table: EngineTable) -> None:
    engine, name, stream_arn = engine_table
    dynamodb = engine.client("dynamodb")
    dynamodb.put_item(TableName=name, Item={"pk": {"S": "a"}, "sk": {"S": "b"}})
    assert create_table(dynamodb, "dev", name) == Table(name, stream_arn)
    assert dynamodb.scan(TableName=name)["Count"] == 1


def test_creating_a_table_again_completes_one_without_time_to_live(account: Engine) -> None:
    dynamodb, name = account.client("dynamodb"), f"test-{uuid4().hex}"
    create_table(dynamodb, "dev", name)
    off: Any = {"Enabled": False, "AttributeName": "ttl"}
    dynamodb.update_time_to_live(TableName=name, TimeToLiveSpecification=off)
    agrees_with_the_template(dynamodb, *vars(create_table(dynamodb, "dev", name)).values())
    dynamodb.delete_table(TableName=name)


@mock_aws
@pytest.mark.parametrize(
    ("stage", "protected"), [("dev", False), ("local", False), ("staging", True), ("prod", True)]
)
def test_all_stages_but_dev_and_local_have_deletion_protection(stage: str, protected: bool) -> None:
    dynamodb = boto3.client("dynamodb")
    table = create_table(dynamodb, stage)
    assert table.name == f"hubbub-{stage}"
    assert dynamodb.describe_table(TableName=table.name)["Table"]["DeletionProtectionEnabled"] is protected


def test_a_message_of_the_queue_is_hidden_kept_and_given_up_as_documented() -> None:
    wanted = definition("dev")
    queue, dead_letters = wanted.views_queue, wanted.views_dead_letters
    assert (queue["QueueName"], dead_letters["QueueName"]) == ("hubbub-dev-views", "hubbub-dev-views-dead")
    assert (queue["VisibilityTimeout"], queue["RedrivePolicy"]["maxReceiveCount"]) == (180, 5)
    days = [made["MessageRetentionPeriod"] / 86_400 for made in (queue, dead_letters)]
    assert (days, queue["SqsManagedSseEnabled"]) == ([4, 14], True)


def test_an_intrinsic_the_reader_does_not_know_is_refused() -> None:
    with pytest.raises(ValueError, match="Fn::Join"):
        resolve({"Name": {"Fn::Join": ["-", ["a", "b"]]}}, {}, {})
    with pytest.raises(ValueError, match="Region"):
        resolve({"Ref": "AWS::Region"}, {"Stage": "dev"}, {})
