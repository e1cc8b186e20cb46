"""The table: false conditions are results, transient errors are retried, and no item is lost."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError

from chalicelib.dynamo.items import Key, Range, pack, unpack
from chalicelib.dynamo.retries import CONNECT_TIMEOUT, EACH, READ_TIMEOUT
from chalicelib.dynamo.table import Table, connect
from chalicelib.errors import Busy, Rejected
from chalicelib.settings import Settings
from ops.aws import template
from tests.support.faults import cancelled, done, instead, refused


@pytest.fixture
def table(dev_table: template.Table) -> Table:
    return Table(dev_table.name, boto3.client("dynamodb"), pause=lambda _: None)


def item(place: int, **more: Any) -> dict[str, Any]:
    return {"pk": "P", "sk": f"{place:04}", **more}


def test_an_item_comes_back_as_it_was_written(table: Table) -> None:
    values = {
        "n": 7,
        "d": Decimal("1.5"),
        "s": "é",
        "b": b"\x00",
        "t": True,
        "z": None,
        "l": [1, "a"],
        "m": {"x": {"y": 2}},
        "ns": {1, 2},
        "bs": {b"a"},
    }
    table.put(item(1, **values))
    found = table.get(Key("P", "0001"))
    assert found == item(1, **values)
    assert type(found["n"]) is int
    assert table.get(Key("P", "0002")) is None


def test_a_float_is_refused_before_it_is_sent() -> None:
    with pytest.raises(TypeError):
        pack({"n": 0.1})
    assert unpack(pack({"n": 3})) == {"n": 3}


def test_many_items_are_written_and_read_in_as_many_calls_as_it_takes(table: Table) -> None:
    with instead(table, "BatchWriteItem") as writes:
        table.batch_put([item(n) for n in range(130)] + [item(0)])
    with instead(table, "BatchGetItem") as reads:
        found = table.get_many([Key("P", f"{n:04}") for n in range(150)])
    assert (len(found), len(writes), len(reads)) == (130, 6, 2)


def test_the_unprocessed_part_of_a_batch_is_sent_again(table: Table) -> None:
    left = {"UnprocessedItems": {table.name: [{"PutRequest": {"Item": pack(item(n))}} for n in (1, 2)]}}
    with instead(table, "BatchWriteItem", done(left)) as calls:
        table.batch_put([item(n) for n in range(3)])
    assert len(calls) == 2
    assert set(table.get_many([Key("P", f"{n:04}") for n in range(3)])) == {
        Key("P", "0001"),
        Key("P", "0002"),
    }


def test_new_items_are_written_and_existing_ones_are_left(table: Table) -> None:
    values = {"d": Decimal("1.5"), "s": "it's ?", "b": b"\x00", "l": [1, {"x": True}], "bs": {b"a"}}
    table.put(item(7, text="old"))
    with instead(table, "BatchExecuteStatement") as calls:
        written = table.put_new([item(n, **values) for n in range(60)])
    assert written == [n != 7 for n in range(60)]
    assert len(calls) == 3
    assert table.get(Key("P", "0007")) == item(7, text="old")
    assert table.get(Key("P", "0059")) == item(59, **values)


def test_only_the_statements_that_failed_are_sent_again(table: Table) -> None:
    """Source: API reference of DynamoDB, BatchExecuteStatement: a reply of 200 may have errors in it."""
    parts = done(
        {"Responses": [{}, {"Error": {"Code": "ThrottlingError"}}, {"Error": {"Code": "DuplicateItem"}}]}
    )
    with instead(table, "BatchExecuteStatement", parts) as calls:
        assert table.put_new(item(n) for n in range(3)) == [True, True, False]
    assert len(calls) == 2
    assert [table.get(Key("P", f"000{n}")) is not None for n in range(3)] == [False, True, False]
    for code, raised in (
        ("ThrottlingError", Busy),
        ("ValidationError", Rejected),
        ("AccessDenied", ClientError),
    ):
        failed = done({"Responses": [{"Error": {"Code": code, "Message": "no"}}]})
        with instead(table, "BatchExecuteStatement", *[failed] * 99), pytest.raises(raised):
            table.put_new([item(9)])


def test_a_query_follows_dynamodbs_own_pages(table: Table) -> None:
    table.batch_put(item(n, text="x" * 300_000) for n in range(10))
    page = table.query(Range("P"), limit=8)
    assert [item["sk"] for item in page.items] == [f"{n:04}" for n in range(8)]
    rest = table.query(Range("P"), limit=8, start=page.next)
    assert [item["sk"] for item in rest.items] == ["0008", "0009"]
    assert rest.next is None


def test_a_query_takes_both_bounds_and_either_direction(table: Table) -> None:
    table.batch_put(item(n) for n in range(10))
    page = table.query(Range("P", ("0003", "0005")), newest_first=True)
    assert [item["sk"] for item in page.items] == ["0005", "0004", "0003"]


def test_a_false_condition_is_a_result(table: Table) -> None:
    absent = "attribute_not_exists(pk)"
    assert table.put(item(1), condition=absent) is True
    assert table.put(item(1), condition=absent) is False


def test_a_transaction_returns_the_indexes_of_false_conditions(table: Table) -> None:
    table.put(item(1))
    put = [{"Put": {"Item": item(n), "ConditionExpression": "attribute_not_exists(pk)"}} for n in (0, 1, 2)]
    assert table.transact(put) == (1,)
    assert table.get(Key("P", "0000")) is None
    assert table.transact([put[0], put[2]]) == ()


def test_the_pauses_grow_with_jitter_and_end(dev_table: template.Table) -> None:
    pauses: list[float] = []
    table = Table(dev_table.name, boto3.client("dynamodb"), pause=pauses.append)
    with instead(table, "TransactWriteItems", *[cancelled("TransactionConflict")] * 99), pytest.raises(Busy):
        table.transact([{"Put": {"Item": item(1)}}])
    assert 5 < len(pauses) < 98
    assert sum(pauses) <= EACH
    assert all(pause <= min(1, 0.025 * 2**n) for n, pause in enumerate(pauses))
    assert len(set(pauses)) == len(pauses)


def test_every_attempt_of_a_transaction_has_the_same_token(table: Table) -> None:
    tokens = []

    def remember(params: Any, **_: Any) -> None:
        tokens.append(params["ClientRequestToken"])

    table.client.meta.events.register("before-parameter-build.dynamodb.TransactWriteItems", remember)
    with instead(table, "TransactWriteItems", cancelled("TransactionConflict")):
        table.transact([{"Put": {"Item": item(1)}}])
        table.transact([{"Put": {"Item": item(1)}}])
    assert tokens[0] == tokens[1] != tokens[2]


@pytest.mark.parametrize(
    "answer", [refused("ValidationException", "no"), cancelled("ValidationError", "None")]
)
def test_an_invalid_write_is_rejected_at_once(table: Table, answer: Any) -> None:
    with instead(table, "TransactWriteItems", answer) as calls, pytest.raises(Rejected):
        table.transact([{"Put": {"Item": item(1)}}])
    assert len(calls) == 1


def test_other_errors_are_raised(table: Table) -> None:
    with (
        instead(table, "GetItem", refused("AccessDeniedException")) as calls,
        pytest.raises(Exception, match="Denied"),
    ):
        table.get(Key("P", "1"))
    assert len(calls) == 1


def test_the_client_is_cached_and_has_the_configured_time_outs() -> None:
    settings = Settings(endpoint="http://127.0.0.1:1", table="t")
    table = connect(settings)
    assert connect(settings) is table
    config: Any = table.client.meta.config
    assert config.retries["total_max_attempts"] == 1
    deployed: Any = connect(Settings(table="t")).client.meta.config
    assert (deployed.connect_timeout, deployed.read_timeout) == (CONNECT_TIMEOUT, READ_TIMEOUT)


def test_an_update_returns_the_new_item_or_none_when_its_condition_is_false(table: Table) -> None:
    key = Key("P", "0001")
    assert table.update(key, "ADD n :n", values={":n": 2}) == item(1, n=2)
    values = {":n": 1, ":most": 3}
    assert table.update(key, "ADD n :n", condition="n < :most", values=values) == item(1, n=3)
    assert table.update(key, "ADD n :n", condition="n < :most", values=values) is None
    renamed = table.update(key, "SET #t = :n REMOVE n", names={"#t": "ttl"}, values={":n": 5})
    assert renamed == item(1, ttl=5)


def test_a_deletion_returns_the_old_item(table: Table) -> None:
    table.put(item(1, n=2))
    assert table.delete(Key("P", "0001"), condition="n = :n", values={":n": 1}) is None
    assert table.delete(Key("P", "0001"), condition="n = :n", values={":n": 2}) == item(1, n=2)
    assert table.delete(Key("P", "0001")) == {}
    assert table.get(Key("P", "0001")) is None
