"""The units that the meter counts are those of AWS's documentation: its examples and rules, on the engine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

from local.engines.engine import Engine
from ops.aws.template import create_table
from tests.support.capacity import item_size
from tests.support.meter import Meter

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

KB = 1024


class Metered:
    """A table, and the units of each call on it."""

    def __init__(self, client: DynamoDBClient, name: str) -> None:
        self.client, self.name = client, name

    def units(self, operation: str, **request: Any) -> float:
        """Make a call on the table, and return its units."""
        refused = self.client.exceptions
        with (
            Meter(self.client) as meter,
            suppress(refused.ConditionalCheckFailedException, refused.TransactionCanceledException),
        ):
            getattr(self.client, operation)(**request)
        return meter.read_units + meter.write_units

    def put(self, item: dict[str, Any], **condition: Any) -> float:
        return self.units("put_item", TableName=self.name, Item=item, **condition)

    def get(self, sk: str, **request: Any) -> float:
        return self.units("get_item", TableName=self.name, Key=key(sk), **request)

    def write(self, *actions: dict[str, Any], **request: Any) -> float:
        """Write in a transaction."""
        for action in actions:
            for body in action.values():
                body["TableName"] = self.name
        return self.units("transact_write_items", TransactItems=actions, **request)


@pytest.fixture
def table(engine: Engine) -> Iterator[Metered]:
    client = engine.client("dynamodb")
    made = create_table(client, "dev", name=f"test-{uuid4().hex}")
    yield Metered(client, made.name)
    client.delete_table(TableName=made.name)


def key(sk: str) -> dict[str, Any]:
    return {"pk": {"S": "P"}, "sk": {"S": sk}}


def item(sk: str, size: int = 0, score: int | None = None) -> dict[str, Any]:
    """Return an item of exactly `size` bytes (0: as small as it gets), in the index when it has a score."""
    made = key(sk)
    if score is not None:
        made |= {"gsi1pk": {"S": "BOARD#b"}, "gsi1sk": {"N": str(score)}}
    if size:
        made["text"] = {"S": "x" * (size - item_size(made) - len("text"))}
    return made


@pytest.mark.parametrize(
    ("value", "size"),
    [
        ({"S": "é€"}, 5),
        ({"N": "0"}, 1),
        ({"N": "-27"}, 3),
        ({"N": "0012300"}, 3),
        ({"N": "1.5E+20"}, 2),
        ({"N": "-" + "1" * 38}, 21),
        ({"B": b"\x00\x01\x02"}, 3),
        ({"B": "AAEC"}, 3),
        ({"BOOL": False}, 1),
        ({"L": [{"S": "ab"}, {"N": "1"}]}, 3 + 3 + 3),
        ({"M": {"key": {"S": "ab"}}}, 3 + 1 + 3 + 2),
        ({"SS": ["ab", "cde"]}, 5),
    ],
)
def test_a_value_has_its_published_size(value: dict[str, Any], size: int) -> None:
    """DynamoDB item sizes and formats."""
    assert item_size({"é": value}) == 2 + size


def test_a_read_is_rounded_up_to_the_next_4_kb(table: Metered) -> None:
    """DynamoDB read and write operations: items of 3.5 and 8 KB, and none."""
    for name, size in (("A", 3500), ("B", 8 * KB)):
        table.put(item(name, size))
    assert [table.get(name, ConsistentRead=True) for name in ("A", "B", "none")] == [1, 2, 1]
    assert [table.get(name) for name in ("A", "B", "none")] == [0.5, 1, 0.5]
    gets = [{"Get": {"TableName": table.name, "Key": key(name)}} for name in ("A", "B")]
    assert table.units("transact_get_items", TransactItems=gets) == 2 + 4


def test_a_query_is_rounded_once_whatever_it_shows(table: Metered) -> None:
    for number in range(4):
        table.put(item(f"{number}", 1500, score=number))
    query: dict[str, Any] = {
        "TableName": table.name,
        "KeyConditionExpression": "pk = :pk",
        "ExpressionAttributeValues": {":pk": {"S": "P"}},
    }
    board = {"IndexName": "gsi1", "KeyConditionExpression": "gsi1pk = :pk"}
    board["ExpressionAttributeValues"] = {":pk": {"S": "BOARD#b"}}  # type: ignore[assignment]
    assert table.units("query", **query, ConsistentRead=True) == 2, "6,000 bytes are two blocks"
    for narrowing in ({}, {"Select": "COUNT"}, {"FilterExpression": "attribute_exists(nothing)"}):
        assert table.units("query", **query, **narrowing) == 1
    assert table.units("query", **query | board) == 0.5, "the entries are small"


@pytest.mark.parametrize(("size", "units"), [(500, 1), (1024, 1), (1025, 2), (3584, 4)])
def test_a_write_is_rounded_up_to_the_next_kb(table: Metered, size: int, units: int) -> None:
    assert table.put(item("A", size)) == units
    assert table.put(item("A", 100)) == units, "the larger of before and after"


def test_an_index_write_costs_what_happens_to_its_entry(table: Metered) -> None:
    """Using global secondary indexes, write capacity units."""
    for score, units in ((None, 0), (1, 1), (2, 2), (2, 0), (None, 1)):
        assert table.put(item("A", 100, score)) == 1 + units, score


def test_a_false_condition_costs_what_the_larger_item_would_have(table: Metered) -> None:
    """The example of "DynamoDB read and write operations": an item of 300 KB, and a put of 310 KB."""
    table.put(item("A", 300 * KB))
    condition = {"ConditionExpression": "attribute_not_exists(pk)"}
    assert table.put(item("A", 310 * KB, score=1), **condition) == 310
    assert table.put(item("A", 1 * KB), **condition) == 300
    check = {"ConditionCheck": {"Key": key("none"), "ConditionExpression": "attribute_exists(pk)"}}
    assert table.write({"Put": {"Item": item("B", 1500, score=1)}}, check) == 2 * (2 + 1)


def test_a_transaction_doubles_every_action_and_not_its_index_writes(table: Metered) -> None:
    """Managing complex workflows with DynamoDB transactions: three items of 500 bytes take six units."""
    assert table.write(*({"Put": {"Item": item(sk, 500)}} for sk in "ABC")) == 6
    put = {"Put": {"Item": item("D", 1500, score=1)}}
    assert table.write(put, ClientRequestToken="same") == 2 * 2 + 1
    assert table.write(put, ClientRequestToken="same") == 2, "repeated: a read of 4 KB"
