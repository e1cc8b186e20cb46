"""The published view counter counts, drops duplicates, and loses the views of conflicting transactions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import boto3
import pytest
from botocore.awsrequest import AWSResponse
from botocore.compat import HTTPHeaders
from moto import mock_aws

from bench.published.views import count_view, event_key, views
from local.engines.meter import Meter

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

TABLE = "published-views"
URL = "https://example.org/a"
TTL = 1_900_000_000


@pytest.fixture
def client() -> Iterator[DynamoDBClient]:
    with mock_aws():
        dynamodb = boto3.client("dynamodb", region_name="eu-central-1")
        dynamodb.create_table(
            TableName=TABLE,
            BillingMode="PAY_PER_REQUEST",
            AttributeDefinitions=[
                {"AttributeName": "pk", "AttributeType": "S"},
                {"AttributeName": "sk", "AttributeType": "S"},
            ],
            KeySchema=[
                {"AttributeName": "pk", "KeyType": "HASH"},
                {"AttributeName": "sk", "KeyType": "RANGE"},
            ],
        )
        yield dynamodb


def conflict(**_: object) -> Any:
    """Reply in DynamoDB's place: another transaction is writing the counter.

    A `before-call` hook, because a `before-send` answer would not keep moto from applying the transaction.
    """
    reasons = [
        {"Code": "None"},
        {"Code": "TransactionConflict", "Message": "Transaction is ongoing for the item"},
    ]
    message = "Transaction cancelled, please refer cancellation reasons for specific reasons"
    error = {
        "Code": "TransactionCanceledException",
        "Message": f"{message} [None, TransactionConflict]",
    }
    answer = AWSResponse("https://dynamodb.test", 400, HTTPHeaders(), None)
    return answer, {"Error": error, "CancellationReasons": reasons, "ResponseMetadata": {}}


def test_views_are_counted_for_each_page(client: DynamoDBClient) -> None:
    assert count_view(client, TABLE, URL, "2030-01-01T00:00:00Z", "c1", TTL)
    assert count_view(client, TABLE, URL, "2030-01-01T00:00:00Z", "c2", TTL)
    assert count_view(client, TABLE, URL, "2030-01-01T00:00:01Z", "c1", TTL)
    assert (views(client, TABLE, URL), views(client, TABLE, URL + "/other")) == (3, 0)


def test_an_event_is_kept_with_its_time_to_live(client: DynamoDBClient) -> None:
    count_view(client, TABLE, URL, "2030-01-01T00:00:00Z", "c1", TTL)
    event = event_key(URL, "2030-01-01T00:00:00Z", "c1")
    assert client.get_item(TableName=TABLE, Key=event)["Item"] == {**event, "ttl": {"N": str(TTL)}}


def test_a_view_delivered_twice_counts_once(client: DynamoDBClient) -> None:
    assert count_view(client, TABLE, URL, "2030-01-01T00:00:00Z", "c1", TTL)
    assert not count_view(client, TABLE, URL, "2030-01-01T00:00:00Z", "c1", TTL)
    assert views(client, TABLE, URL) == 1


def test_a_view_whose_transaction_conflicts_is_lost(client: DynamoDBClient) -> None:
    client.meta.events.register("before-call.dynamodb.TransactWriteItems", conflict)
    assert not count_view(client, TABLE, URL, "2030-01-01T00:00:00Z", "c1", TTL)
    client.meta.events.unregister("before-call.dynamodb.TransactWriteItems", conflict)
    assert views(client, TABLE, URL) == 0
    assert "Item" not in client.get_item(TableName=TABLE, Key=event_key(URL, "2030-01-01T00:00:00Z", "c1"))


def test_a_view_costs_four_write_units_and_so_does_its_duplicate(client: DynamoDBClient) -> None:
    with Meter(client) as meter:
        count_view(client, TABLE, URL, "2030-01-01T00:00:00Z", "c1", TTL)
        assert (meter.write_units, meter.read_units) == (4, 0)
        count_view(client, TABLE, URL, "2030-01-01T00:00:00Z", "c1", TTL)
        assert meter.by_operation == {"TransactWriteItems": 8}


def test_reading_the_views_costs_one_read_unit(client: DynamoDBClient) -> None:
    with Meter(client) as meter:
        views(client, TABLE, URL)
    assert (meter.write_units, meter.read_units) == (0, 1)
