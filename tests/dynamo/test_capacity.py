"""Capacity follows AWS's published rules: the examples of the documentation, then each operation."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import uuid4

import boto3
import pytest
from botocore.exceptions import ClientError
from moto import mock_aws

from local.engines.engine import Engine
from tests.support.capacity import (
    EVENTUAL,
    STRONG,
    TRANSACTIONAL,
    Index,
    TableDefinition,
    index_units,
    item_size,
    read_units,
    table_units,
    write_units,
)
from tests.support.meter import Meter

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

T = TypeVar("T")
TABLE = "hubbub-test"
KB = 1024


@pytest.fixture
def client() -> Iterator[DynamoDBClient]:
    with mock_aws():
        dynamodb = boto3.client("dynamodb", region_name="eu-central-1")
        create_table(dynamodb, TABLE)
        yield dynamodb


@pytest.fixture
def meter(client: DynamoDBClient) -> Iterator[Meter]:
    with Meter(client) as counting:
        yield counting


def create_table(client: DynamoDBClient, table_name: str) -> None:
    client.create_table(
        TableName=table_name,
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[
            {"AttributeName": "pk", "AttributeType": "S"},
            {"AttributeName": "sk", "AttributeType": "S"},
            {"AttributeName": "gsi1pk", "AttributeType": "S"},
            {"AttributeName": "gsi1sk", "AttributeType": "N"},
        ],
        KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}, {"AttributeName": "sk", "KeyType": "RANGE"}],
        GlobalSecondaryIndexes=[
            {
                "IndexName": "gsi1",
                "KeySchema": [
                    {"AttributeName": "gsi1pk", "KeyType": "HASH"},
                    {"AttributeName": "gsi1sk", "KeyType": "RANGE"},
                ],
                "Projection": {"ProjectionType": "KEYS_ONLY"},
            }
        ],
    )


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


def put(client: DynamoDBClient, *items: dict[str, Any]) -> None:
    for one in items:
        client.put_item(TableName=TABLE, Item=one)


# --- sizes: "DynamoDB item sizes and formats" ---


@pytest.mark.parametrize(
    ("value", "size"),
    [
        ({"S": ""}, 0),
        ({"S": "views"}, 5),
        ({"S": "é€"}, 5),
        ({"N": "0"}, 1),
        ({"N": "7"}, 2),
        ({"N": "27"}, 2),
        ({"N": "-27"}, 3),
        ({"N": "461"}, 3),
        ({"N": "0012300"}, 3),
        ({"N": "0.00123"}, 3),
        ({"N": "100.50"}, 3),
        ({"N": "1.5E+20"}, 2),
        ({"N": "1" * 38}, 20),
        ({"N": "-" + "1" * 38}, 21),
        ({"B": b"\x00\x01\x02"}, 3),
        ({"B": "AAEC"}, 3),
        ({"BOOL": False}, 1),
        ({"NULL": True}, 1),
        ({"L": []}, 3),
        ({"M": {}}, 3),
        ({"L": [{"S": "ab"}, {"N": "1"}]}, 3 + 3 + 3),
        ({"M": {"key": {"S": "ab"}}}, 3 + 1 + 3 + 2),
        ({"M": {"a": {"L": [{"BOOL": True}]}}}, 3 + 1 + 1 + 3 + 1 + 1),
        ({"SS": ["ab", "cde"]}, 5),
        ({"NS": ["1", "100"]}, 4),
        ({"BS": [b"\x00", b"\x01\x02"]}, 3),
    ],
)
def test_a_value_has_its_published_size(value: dict[str, Any], size: int) -> None:
    assert item_size({"é": value}) == 2 + size


# --- units: "DynamoDB read and write operations", "Managing complex workflows with DynamoDB transactions" ---


def test_reading_three_and_a_half_kb_costs_as_much_as_four() -> None:
    assert read_units(3500, STRONG) == 1
    assert read_units(3500, EVENTUAL) == 0.5
    assert read_units(3500, TRANSACTIONAL) == 2


def test_reading_eight_kb_takes_two_units_strongly_one_eventually_four_in_a_transaction() -> None:
    assert [read_units(8 * KB, rate) for rate in (STRONG, EVENTUAL, TRANSACTIONAL)] == [2, 1, 4]


def test_a_query_of_ten_items_of_40_8_kb_together_is_rounded_once_to_44_kb() -> None:
    assert read_units(int(40.8 * KB), STRONG) == 11


def test_reading_nothing_costs_the_minimum() -> None:
    assert [read_units(0, rate) for rate in (STRONG, EVENTUAL, TRANSACTIONAL)] == [1, 0.5, 2]


@pytest.mark.parametrize(("size", "units"), [(500, 1), (1024, 1), (1025, 2), (3584, 4)])
def test_a_write_is_rounded_up_to_the_next_kb(size: int, units: int) -> None:
    assert table_units({}, item("S", size)) == units


def test_three_items_of_500_bytes_written_in_a_transaction_take_six_units() -> None:
    assert sum(write_units({}, item(sk, 500), transactional=True) for sk in "ABC") == 6


def test_a_write_is_billed_on_the_larger_of_before_and_after() -> None:
    assert table_units(item("S", 3 * KB), item("S", 100)) == 3
    assert table_units(item("S", 100), item("S", 3 * KB)) == 3


def test_a_false_condition_costs_what_the_larger_item_would_have() -> None:
    """The example of "DynamoDB read and write operations": an item of 300 KB, and a put of 310 KB."""
    assert table_units(item("S", 300 * KB), item("S", 310 * KB)) == 310
    assert table_units(item("S", 310 * KB), item("S", 300 * KB)) == 310


# --- index writes: "Using global secondary indexes", write capacity units ---


@pytest.mark.parametrize(
    ("before", "after", "units"),
    [
        ({}, item("S"), 0),
        ({}, item("S", score=1), 1),
        (item("S"), item("S", score=1), 1),
        (item("S", score=1), item("S"), 1),
        (item("S", score=1), {}, 1),
        (item("S", score=1), item("S", score=2), 2),
        (item("S", score=1), item("S", 3 * KB, score=1), 0),
    ],
)
def test_an_index_write_costs_what_happens_to_its_entry(
    before: dict[str, Any], after: dict[str, Any], units: int
) -> None:
    assert index_units(before, after) == units
    assert write_units(before, after) == table_units(before, after) + units
    indexes = index_units(before, after)
    assert write_units(before, after, transactional=True) == 2 * table_units(before, after) + indexes


def test_a_projected_attribute_that_changes_rewrites_its_entry_in_place() -> None:
    by_score = TableDefinition(indexes={"gsi1": Index("gsi1pk", "gsi1sk", projected=("text",))})
    assert index_units(item("S", 100, score=1), item("S", 1500, score=1), by_score) == 2


# --- the meter ---


def test_a_failed_condition_is_billed_on_the_larger_item_and_no_index(
    client: DynamoDBClient, meter: Meter
) -> None:
    put(client, item("A", 1500, score=1))
    meter.reset()
    with pytest.raises(ClientError):
        client.put_item(
            TableName=TABLE,
            Item=item("A", 2500, score=2),
            ConditionExpression="attribute_not_exists(pk)",
        )
    assert meter.by_operation == {"PutItem": 3}


def every_action(condition: str) -> list[Any]:
    check = {"TableName": TABLE, "Key": key("D"), "ConditionExpression": condition}
    update = {
        "TableName": TABLE,
        "Key": key("B"),
        "UpdateExpression": "SET gsi1sk = :two",
        "ExpressionAttributeValues": {":two": {"N": "2"}},
    }
    return [
        {"Put": {"TableName": TABLE, "Item": item("A", 1500)}},
        {"Update": update},
        {"Delete": {"TableName": TABLE, "Key": key("C")}},
        {"ConditionCheck": check},
    ]


def test_a_cancelled_transaction_is_billed_without_its_index_writes(
    client: DynamoDBClient, meter: Meter
) -> None:
    put(client, item("B", 100, score=1), item("C", 2500), item("D", 100))
    meter.reset()
    with pytest.raises(client.exceptions.TransactionCanceledException):
        client.transact_write_items(TransactItems=every_action("attribute_not_exists(pk)"))
    assert meter.write_units == 2 * (2 + 1 + 3 + 1)


def test_a_transaction_repeated_under_its_token_is_billed_as_a_read(
    client: DynamoDBClient, meter: Meter
) -> None:
    writes: list[Any] = [{"Put": {"TableName": TABLE, "Item": item("A", 1500)}}]
    for _ in range(2):
        client.transact_write_items(TransactItems=writes, ClientRequestToken="same")
    assert (meter.write_units, meter.read_units) == (4, 2)


# --- against an engine ---


def check_against_engine(client: DynamoDBClient, table_name: str) -> list[tuple[str, float, float]]:
    """Return (step, the engine's ConsumedCapacity, the meter's units) of single-item writes and reads.

    The table must have the shape of `create_table`; its partition `P` must be empty, and is again afterwards.
    Where the engine's single-item figures are exact, `assert all(engine == metered for _, engine, metered in
    ...)`. Items that are read stay within 4 KB: not every engine whose writes are exact sizes its reads.
    """
    indexed = {"UpdateExpression": "SET gsi1pk = :board, gsi1sk = :score"}
    board = {":board": {"S": "BOARD#b"}, ":score": {"N": "12"}}
    moved = {"UpdateExpression": "ADD gsi1sk :one", "ExpressionAttributeValues": {":one": {"N": "1"}}}
    grown = {"UpdateExpression": "SET #t = :t", "ExpressionAttributeNames": {"#t": "text"}}
    text = {":t": {"S": "x" * 3000}}
    one: dict[str, Any] = {"TableName": table_name, "Key": key("A")}
    steps: list[tuple[str, Callable[..., Any], dict[str, Any]]] = [
        ("get of nothing", client.get_item, one),
        ("delete of nothing", client.delete_item, one),
        ("put", client.put_item, {"TableName": table_name, "Item": item("A", 100)}),
        ("put of 1 KB over it", client.put_item, {"TableName": table_name, "Item": item("A", 1024)}),
        ("put of a byte more", client.put_item, {"TableName": table_name, "Item": item("A", 1025)}),
        ("put of less over it", client.put_item, {"TableName": table_name, "Item": item("A", 100)}),
        ("update into the index", client.update_item, one | indexed | {"ExpressionAttributeValues": board}),
        ("update of the index key", client.update_item, one | moved),
        (
            "update of another attribute",
            client.update_item,
            one | grown | {"ExpressionAttributeValues": text},
        ),
        ("update of 3 KB", client.update_item, one | moved),
        ("get", client.get_item, one),
        ("strongly consistent get", client.get_item, one | {"ConsistentRead": True}),
        ("update out of the index", client.update_item, one | {"UpdateExpression": "REMOVE gsi1sk"}),
        ("update into being", client.update_item, one | moved | {"Key": key("B")}),
        ("delete", client.delete_item, one),
        ("put in the index", client.put_item, {"TableName": table_name, "Item": item("A", score=1)}),
        ("delete from the index", client.delete_item, one),
        ("delete of a sparse item", client.delete_item, one | {"Key": key("B")}),
    ]
    figures = []
    with Meter(client) as meter:
        for step, call, arguments in steps:
            meter.reset()
            consumed = call(**arguments, ReturnConsumedCapacity="TOTAL")["ConsumedCapacity"]
            figures.append((step, consumed["CapacityUnits"], meter.read_units + meter.write_units))
    return figures


def on_engine(engine: Engine, check: Callable[[DynamoDBClient, str], T]) -> T:
    """Run the comparison on a separate table."""
    dynamodb, name = engine.client("dynamodb"), f"{TABLE}-{uuid4().hex}"
    create_table(dynamodb, name)
    try:
        return check(dynamodb, name)
    finally:
        dynamodb.delete_table(TableName=name)


def test_single_writes_and_small_reads_are_what_the_engine_reports(engine: Engine) -> None:
    for step, reported, metered in on_engine(engine, check_against_engine):
        assert reported == metered, step


def compare(dynamodb: DynamoDBClient, calls: list[tuple[Callable[..., Any], dict[str, Any]]]) -> None:
    """Make the calls and compare the units that the engine reports with the meter."""
    for number, (call, arguments) in enumerate(calls):
        with Meter(dynamodb) as meter:
            consumed = call(**arguments, ReturnConsumedCapacity="TOTAL")["ConsumedCapacity"]
        reported = consumed if isinstance(consumed, dict) else consumed[0]
        assert reported["CapacityUnits"] == meter.read_units + meter.write_units, (number, arguments)


def test_transactions_and_batches_are_what_the_engine_reports(engine: Engine) -> None:
    """A transaction doubles the units of the table, but not those of its indexes."""

    def check(dynamodb: DynamoDBClient, name: str) -> None:
        of = {"TableName": name}
        put = {"Put": of | {"Item": item("A", 3 * KB, score=1)}}
        move = {
            "UpdateExpression": "SET gsi1sk = :n",
            "ExpressionAttributeValues": {":n": {"N": "2"}},
        }
        update = {"Update": of | {"Key": key("A")} | move}
        leaves = {"Update": of | {"Key": key("A"), "UpdateExpression": "REMOVE gsi1sk"}}
        plain = {"Update": of | {"Key": key("B"), "UpdateExpression": "ADD n :n"}}
        plain["Update"]["ExpressionAttributeValues"] = {":n": {"N": "1"}}
        delete = {"Delete": of | {"Key": key("A")}}
        exists = {"ConditionExpression": "attribute_exists(pk)"}
        look = {"ConditionCheck": of | {"Key": key("B")} | exists}
        transactions = [[put, plain], [update, look], [update], [leaves], [put], [delete, plain], [delete]]
        batch = [{"PutRequest": {"Item": item(sk, 2 * KB, score=7)}} for sk in "CDE"]
        again = [*batch[:2], {"DeleteRequest": {"Key": key("E")}}, {"DeleteRequest": {"Key": key("F")}}]
        compare(dynamodb, [(dynamodb.transact_write_items, {"TransactItems": one}) for one in transactions])
        requests = [{"RequestItems": {name: some}} for some in (batch, again)]
        compare(dynamodb, [(dynamodb.batch_write_item, request) for request in requests])

    on_engine(engine, check)


def test_reads_are_what_the_engine_reports(engine: Engine) -> None:
    """Reads of any size, in batches, transactions, queries and scans."""

    def check(dynamodb: DynamoDBClient, name: str) -> None:
        for one in (item("A", 100, score=1), item("B", 5 * KB, score=2), item("C", 9 * KB)):
            dynamodb.put_item(TableName=name, Item=one)
        partition = {"KeyConditionExpression": "pk = :pk", "ExpressionAttributeValues": {":pk": {"S": "P"}}}
        board = {
            "IndexName": "gsi1",
            "KeyConditionExpression": "gsi1pk = :pk",
            "ExpressionAttributeValues": {":pk": {"S": "BOARD#b"}},
        }
        keys = [key(sk) for sk in ("A", "B", "C", "missing")]
        gets = [{"Get": {"TableName": name, "Key": one}} for one in keys]
        of = {"TableName": name}
        compare(
            dynamodb,
            [
                *((dynamodb.get_item, of | {"Key": one}) for one in keys),
                (dynamodb.get_item, of | {"Key": key("B"), "ConsistentRead": True}),
                (dynamodb.batch_get_item, {"RequestItems": {name: {"Keys": keys}}}),
                (dynamodb.batch_get_item, {"RequestItems": {name: {"Keys": keys, "ConsistentRead": True}}}),
                (dynamodb.transact_get_items, {"TransactItems": gets}),
                (dynamodb.query, of | partition),
                (dynamodb.query, of | partition | {"ConsistentRead": True, "Limit": 2}),
                (dynamodb.query, of | partition | {"Select": "COUNT"}),
                (dynamodb.query, of | board),
                (dynamodb.scan, of | {"ConsistentRead": True}),
            ],
        )

    on_engine(engine, check)
