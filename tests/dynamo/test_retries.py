"""The retry policy: bounded in time over all calls of a request, and no write is applied twice."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import boto3
import chalice.app
import pytest
from botocore.exceptions import (
    ClientError,
    ConnectionClosedError,
    ConnectTimeoutError,
    EndpointConnectionError,
)

import app
from chalicelib.concurrency import submit
from chalicelib.dynamo import retries
from chalicelib.dynamo.items import Key, pack
from chalicelib.dynamo.retries import CONNECT_TIMEOUT, EACH, EVENT, READ_TIMEOUT, REQUEST, budget
from chalicelib.dynamo.table import Table, connect
from chalicelib.errors import Busy
from chalicelib.settings import Settings
from chalicelib.views import events, queue
from chalicelib.views.events import View
from local.engines.engine import Engine
from ops.aws import template
from ops.stage import ROOT
from tests.support.contexts import new_context
from tests.support.faults import after, cancelled, done, instead, over_ceiling, refused, timed_out
from tests.support.site import Site
from tests.support.tables import store_on

HERE = Key("P", "1")
THERE = Key("P", "there")
NOW = datetime.now(UTC)
PUT = {"Put": {"Item": HERE._asdict()}}


class Clock:
    """A clock that only tests and pauses advance."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now

    def pause(self, seconds: float) -> None:
        self.now += seconds


class Trouble:
    """Replaces the network: each call takes `seconds` and fails. A fault may depend on the table's name."""

    def __init__(self, clock: Clock, table: Table, fault: Any, seconds: float) -> None:
        self.calls = 0
        self._clock, self._seconds = clock, seconds
        self._fault = fault(table.name) if callable(fault) else fault
        table.client.meta.events.register("before-call.dynamodb", self._answer)

    def _answer(self, **_: Any) -> Any:
        self.calls += 1
        self._clock.now += self._seconds
        if isinstance(self._fault, BaseException):
            raise self._fault
        return self._fault


THROTTLE = refused("ProvisionedThroughputExceededException")
NOT_REACHED = ConnectTimeoutError(endpoint_url="http://127.0.0.1")
CLOSED = ConnectionClosedError(endpoint_url="http://127.0.0.1")
FAULTS = {
    "throttles": (THROTTLE, 0.005),
    "slow throttles": (THROTTLE, READ_TIMEOUT),
    "calls above the ceiling": (over_ceiling(), 0.005),
    "conflicts": (cancelled("TransactionConflict"), 0.01),
    "throttled transactions": (cancelled("None", "ThrottlingError"), 0.01),
    "no connections": (NOT_REACHED, CONNECT_TIMEOUT),
    "refused connections": (EndpointConnectionError(endpoint_url="http://127.0.0.1"), 0.0),
    "lost answers": (timed_out(), CONNECT_TIMEOUT + READ_TIMEOUT),
    "server errors": (refused("InternalServerError"), 0.2),
    "unprocessed writes": (
        lambda name: done({"UnprocessedItems": {name: [{"PutRequest": {"Item": pack(HERE._asdict())}}]}}),
        0.01,
    ),
    "unprocessed reads": (
        lambda name: done({"Responses": {}, "UnprocessedKeys": {name: {"Keys": [pack(HERE._asdict())]}}}),
        0.01,
    ),
}


def call_of(name: str) -> Callable[[Table], Any]:
    if name == "unprocessed writes":
        return lambda table: table.batch_put([HERE._asdict()])
    if name == "unprocessed reads":
        return lambda table: table.get_many([HERE])
    return lambda table: table.transact([PUT])


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def table(dev_table: template.Table, clock: Clock) -> Table:
    return Table(dev_table.name, boto3.client("dynamodb"), pause=clock.pause, clock=clock)


@pytest.mark.parametrize("name", FAULTS)
def test_a_request_loses_at_most_3_seconds_whatever_fails(table: Table, clock: Clock, name: str) -> None:
    fault, seconds = FAULTS[name]
    trouble, began = Trouble(clock, table, fault, seconds), clock.now
    with budget(REQUEST), pytest.raises(Busy) as raised:
        call_of(name)(table)
    assert clock.now - began <= REQUEST == 3
    assert trouble.calls > 1, "it was tried again"
    assert raised.value.retry_after == 1


@pytest.mark.parametrize("name", FAULTS)
def test_all_calls_of_a_request_share_its_budget(table: Table, clock: Clock, name: str) -> None:
    fault, seconds = FAULTS[name]
    trouble, began = Trouble(clock, table, fault, seconds), clock.now
    with budget(REQUEST):
        for _ in range(5):
            with pytest.raises(Busy):
                call_of(name)(table)
        for answered in [submit(lambda: call_of(name)(table)) for _ in range(3)]:  # in threads too
            with pytest.raises(Busy):
                answered.result()
    assert clock.now - began <= REQUEST
    table.client.meta.events.unregister("before-call.dynamodb", trouble._answer)
    call_of(name)(table)  # the next request begins anew


def test_a_call_outside_a_request_is_bounded_too(table: Table, clock: Clock) -> None:
    began, _ = clock.now, Trouble(clock, table, THROTTLE, 0.005)
    with pytest.raises(Busy):
        table.get(HERE)
    assert REQUEST < clock.now - began <= EACH


def test_slow_work_without_failures_leaves_the_budget_unchanged(table: Table, clock: Clock) -> None:
    with budget(REQUEST):
        with instead(table, "GetItem", THROTTLE):
            table.get(HERE)
        clock.now += 60  # it computes, or reads many pages
        with instead(table, "GetItem", THROTTLE) as calls:
            table.get(HERE)
    assert len(calls) == 2


def test_a_false_condition_is_a_response_and_spends_nothing(table: Table, clock: Clock) -> None:
    def respond_slowly(**_: Any) -> None:
        clock.now += 2

    table.client.meta.events.register("before-call.dynamodb.TransactWriteItems", respond_slowly)
    with budget(REQUEST):
        for _ in range(5):
            with instead(table, "TransactWriteItems", cancelled("ConditionalCheckFailed")):
                assert table.transact([PUT]) == (0,)


def test_a_conflict_a_false_condition_and_a_throttle_are_distinguished(table: Table) -> None:
    with instead(table, "TransactWriteItems", cancelled("TransactionConflict"), THROTTLE) as calls:
        assert table.transact([PUT]) == ()
    assert len(calls) == 3
    with instead(table, "TransactWriteItems", cancelled("ConditionalCheckFailed")) as calls:
        assert table.transact([PUT]) == (0,)
    assert len(calls) == 1
    with instead(table, "TransactWriteItems", cancelled("ConditionalCheckFailed", "TransactionConflict")):
        assert table.transact([PUT, PUT]) == (0,)


STATEMENT = {
    "Responses": [{"Error": {"Code": "ThrottlingError", "Message": "Throughput exceeds the maximum"}}]
}
CEILING: dict[str, tuple[str, Any, Callable[[Table], Any], Any]] = {
    "a read": ("GetItem", over_ceiling("TableRead"), lambda table: table.get(HERE), None),
    "a put": ("PutItem", over_ceiling(), lambda table: table.put(HERE._asdict()), True),
    "an update": (
        "UpdateItem",
        over_ceiling("IndexWrite"),
        lambda table: table.update(HERE, "ADD n :n", values={":n": 1}),
        {**HERE._asdict(), "n": 1},
    ),
    "an update that shows the item": (
        "UpdateItem",
        over_ceiling(),
        lambda table: table.update_or_get(HERE, "SET n = :n", condition="n < :n", values={":n": 1}),
        (False, None),
    ),
    "a deletion": ("DeleteItem", over_ceiling(), lambda table: table.delete(HERE), {}),
    "a batch": ("BatchWriteItem", over_ceiling(), lambda table: table.batch_put([HERE._asdict()]), None),
    "a batch of statements": (
        "BatchExecuteStatement",
        done(STATEMENT),
        lambda table: table.put_new([HERE._asdict()]),
        [True],
    ),
    "a transaction": (
        "TransactWriteItems",
        cancelled("ThrottlingError"),
        lambda table: table.transact([PUT]),
        (),
    ),
}


@pytest.mark.parametrize("name", CEILING)
def test_a_call_above_the_ceiling_is_retried_and_then_503(table: Table, name: str) -> None:
    """It is neither a false condition nor a conflict: nothing was done, and the same call may succeed."""
    operation, reply, call, result = CEILING[name]
    with instead(table, operation, reply, reply) as calls:
        assert call(table) == result
    assert len(calls) >= 3
    with instead(table, operation, *[reply] * 1_000), budget(REQUEST), pytest.raises(Busy) as raised:
        call(table)
    assert str(raised.value) == "The table accepts no more requests at the moment. Please retry."


def test_a_refusal_says_what_has_lasted_too_long(table: Table) -> None:
    for reply, words in (
        (cancelled("TransactionConflict"), "changing the same items"),
        (NOT_REACHED, "reached"),
    ):
        replies = instead(table, "TransactWriteItems", *[reply] * 1_000)
        with replies, budget(REQUEST), pytest.raises(Busy, match=words):
            table.transact([PUT])


# -- what may have been done ---------------------------------------------------------------------------

LOST = {"a time-out": timed_out(), "a closed connection": CLOSED}
SAFE = {
    "a throttle": THROTTLE,
    "a conflict": refused("TransactionConflictException"),
    "no connection": NOT_REACHED,
}


@pytest.fixture
def store(engine: Engine, clock: Clock) -> Iterator[Table]:
    with store_on(engine, pause=clock.pause) as (made, _):
        yield made


@pytest.mark.parametrize("fault", LOST.values(), ids=LOST)
def test_an_addition_is_never_applied_twice(store: Table, fault: Exception) -> None:
    with after(store, "UpdateItem", fault), pytest.raises(Busy):
        store.update(HERE, "ADD n :n", values={":n": 1})
    assert (store.get(HERE, consistent=True) or {})["n"] == 1


def test_an_addition_is_not_repeated_after_a_500(store: Table) -> None:
    """A write whose response is 500 may have been applied (DynamoDB, "Error handling")."""
    with instead(store, "UpdateItem", refused("InternalServerError")) as calls, pytest.raises(Busy):
        store.update(HERE, "ADD n :n", values={":n": 1})
    assert len(calls) == 1


@pytest.mark.parametrize("fault", SAFE.values(), ids=SAFE)
def test_an_addition_that_was_not_applied_is_retried(store: Table, fault: Any) -> None:
    with instead(store, "UpdateItem", fault, fault) as calls:
        store.update(HERE, "ADD n :n", values={":n": 1})
    assert ((store.get(HERE, consistent=True) or {})["n"], len(calls)) == (1, 3)


@pytest.mark.parametrize("fault", LOST.values(), ids=LOST)
def test_a_transaction_is_repeated_under_its_token_and_applied_once(store: Table, fault: Exception) -> None:
    add = {
        "Update": {
            "Key": HERE._asdict(),
            "UpdateExpression": "ADD n :n",
            "ExpressionAttributeValues": {":n": 1},
        }
    }
    with after(store, "TransactWriteItems", fault):
        assert store.transact([add]) == ()
    assert (store.get(HERE, consistent=True) or {})["n"] == 1


@pytest.mark.parametrize("fault", LOST.values(), ids=LOST)
def test_idempotent_writes_are_retried(store: Table, fault: Exception) -> None:
    with after(store, "PutItem", fault):
        assert store.put({**HERE._asdict(), "n": 1})
    with after(store, "UpdateItem", fault):
        assert store.update(HERE, "SET n = :n", values={":n": 2}, idempotent=True) == {
            **HERE._asdict(),
            "n": 2,
        }
    with after(store, "GetItem", fault):
        assert store.get(HERE) == {**HERE._asdict(), "n": 2}
    with after(store, "BatchWriteItem", fault):
        store.batch_put([HERE._asdict()])
    with after(store, "BatchExecuteStatement", fault):
        assert store.put_new([HERE._asdict(), THERE._asdict()]) == [False, False]
    assert store.get(THERE) == THERE._asdict()
    with after(store, "DeleteItem", fault):
        assert store.delete(HERE) == {}


# -- through the handlers ------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", [THROTTLE, over_ceiling("TableRead")], ids=["throttle", "ceiling"])
def test_a_throttled_request_is_503_with_retry_after_within_3_seconds(
    site: Site, monkeypatch: pytest.MonkeyPatch, clock: Clock, fault: Any
) -> None:
    table = Table(site.table.name, boto3.client("dynamodb"), pause=clock.pause, clock=clock)
    monkeypatch.setattr(app, "connect", lambda: table)
    Trouble(clock, table, fault, 0.01)
    began = clock.now
    answer = site.http.get("/views?url=https://a.example/", headers={})
    assert (answer.status_code, answer.json_body["code"]) == (503, "Busy")
    assert int(answer.headers["Retry-After"]) >= 1
    assert clock.now - began <= REQUEST


@pytest.mark.parametrize("fault", [THROTTLE, over_ceiling()], ids=["throttle", "ceiling"])
def test_a_batch_of_the_stream_has_a_larger_budget(
    site: Site, monkeypatch: pytest.MonkeyPatch, clock: Clock, fault: Any
) -> None:
    events.write(new_context(site.table, NOW), [View("https://a.example/", NOW, "c")])
    records = site.stream.read()
    table = Table(site.table.name, boto3.client("dynamodb"), pause=clock.pause, clock=clock)
    monkeypatch.setattr(app, "connect", lambda: table)
    Trouble(clock, table, fault, 0.01)
    began = clock.now
    with pytest.raises(Busy):
        app.apply({"Records": records}, None)
    assert REQUEST < clock.now - began <= EVENT


def test_every_kind_of_event_has_a_bound_below_its_functions_timeout() -> None:
    """Lambda's time-outs are in .chalice/config.json; API Gateway waits 29 seconds at most."""
    config = json.loads((ROOT / ".chalice" / "config.json").read_text())
    stage = config["stages"]["dev"]
    functions, default = stage["lambda_functions"].items(), stage["lambda_timeout"]
    limits = {name: function.get("lambda_timeout", default) for name, function in functions}
    assert limits["apply"] > EVENT < limits["write_views"]
    assert set(retries.BUDGETS) <= set(vars(chalice.app)), "they are Chalice's classes"
    assert retries.BUDGETS["Request"] == retries.BUDGETS["WebsocketEvent"] == 3


def test_the_queue_is_sent_to_under_the_same_policy(monkeypatch: pytest.MonkeyPatch, clock: Clock) -> None:
    class Refusing:
        calls = 0

        def send_message_batch(self, **_: Any) -> Any:
            self.calls += 1
            raise ClientError({"Error": {"Code": "RequestThrottled"}}, "SendMessageBatch")

    fake = Refusing()
    monkeypatch.setattr(queue, "client", lambda _: fake)
    monkeypatch.setattr("time.sleep", clock.pause)
    began = clock.now
    with budget(REQUEST), pytest.raises(Busy, match="queue"):
        queue.send(Settings(queue_url="https://sqs/q"), [{"url": "u", "time": "t", "clientId": "c"}])
    assert clock.now - began <= REQUEST
    assert fake.calls > 1


def test_the_sdk_retries_nothing_by_itself() -> None:
    for client in (connect(Settings(table="t")).client, queue.client(Settings())):
        config: Any = client.meta.config
        assert config.retries["total_max_attempts"] == 1
        assert config.connect_timeout + config.read_timeout <= retries.SLOWEST
