"""Chat under threads on the real engines: invariants, checked in the history of the stream."""

from __future__ import annotations

import random
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest

from chalicelib.dynamo.items import Item
from chalicelib.dynamo.table import Table
from chalicelib.errors import Busy
from tests.conftest import EngineTable
from tests.histories.invariants import pairs, states
from tests.histories.world import Killed
from tests.support.chatting import CONNECTED, DISCONNECTED, NOT_MATCHED, Chat
from tests.support.conflicts import InFlight
from tests.support.contexts import SETTINGS
from tests.support.records import Reader

NEVER_AGAIN = SETTINGS._replace(chat_again=timedelta(days=1), chat_frames=40, chat_span=timedelta(seconds=1))


@pytest.fixture
def chat(engine_table: EngineTable) -> Chat:
    engine, name, _ = engine_table
    return Chat(Table(name, engine.client("dynamodb")), NEVER_AGAIN)


def history(engine_table: EngineTable) -> list[Item]:
    """Return every state of every connection, in order for each connection."""
    engine, _, stream_arn = engine_table
    return states(Reader(engine.client("dynamodbstreams"), stream_arn).read_all())


def at_once(count: int, work: Callable[[int], Any]) -> list[Any]:
    """Run work in threads that begin at the same moment."""
    ready = threading.Barrier(count)

    def run(number: int) -> Any:
        ready.wait(60)
        return work(number)

    with ThreadPoolExecutor(count) as threads:
        return list(threads.map(run, range(count)))


@pytest.mark.parametrize("count", [2, 3, 16, 25])
def test_at_most_one_of_n_simultaneous_connections_is_left_over(
    engine_table: EngineTable, chat: Chat, count: int
) -> None:
    """Without a status frame or a sweep: each connection sees those that were there before it."""
    assert at_once(count, lambda i: chat.connect(f"c{i}")) == [200] * count
    states = [chat.state(f"c{i}") for i in range(count)]
    assert (states.count("matched"), states.count("waiting")) == (count - count % 2, count % 2)
    assert len(chat.pool()) == count % 2
    assert len(pairs(history(engine_table))) == count // 2
    for i in range(count):
        chat.send(f"c{i}", "status")
        assert chat.item(f"c{i}").get("notices", []) == []


def test_at_most_one_of_n_simultaneous_connections_is_left_over_despite_conflicts(
    engine_table: EngineTable, chat: Chat
) -> None:
    """No local engine raises TransactionConflict, so the test does it by AWS's rule."""
    in_flight = InFlight(latency=0.002)
    with in_flight.attached(chat.table.client):
        at_once(12, lambda i: chat.connect(f"c{i}"))
        for i in range(12):
            chat.send(f"c{i}", "status")  # a connection that has used up its retries tries again
    assert in_flight.refused > 0
    assert [chat.state(f"c{i}") for i in range(12)] == ["matched"] * 12
    assert len(pairs(history(engine_table))) == 6


def test_simultaneous_nexts_of_two_partners_separate_them_once(engine_table: EngineTable, chat: Chat) -> None:
    for i in range(4):
        chat.connect(f"c{i}")
    at_once(4, lambda i: chat.send(f"c{i}", "next"))
    pairs(history(engine_table))
    partners = [chat.partner(f"c{i}") for i in range(4)]
    assert all(partner is None or chat.partner(partner) == f"c{i}" for i, partner in enumerate(partners))


def test_a_connection_that_leaves_during_a_delivery_affects_no_other(
    engine_table: EngineTable, chat: Chat
) -> None:
    """b leaves while the notice that a has left is posted to it, before the notice is removed."""
    left: list[str] = []

    def leave(id: str) -> None:
        if id == "b" and not left:
            left.append(id)
            chat.disconnect("b")
            chat.wire.open.add("b")  # the post has been made already

    chat.connect("a")
    chat.connect("b")
    chat.send("b", "status")
    chat.wire.before_post = leave
    chat.disconnect("a")
    assert left == ["b"]
    assert (chat.state("a"), chat.state("b"), chat.pool()) == ("gone", "gone", [])


class Client:
    """A client that sends random actions, and numbers its messages."""

    def __init__(self, chat: Chat, seed: int, number: int) -> None:
        self.chat, self.random, self.number = chat, random.Random(seed * 1000 + number), number
        self.lives = 0
        self.id = ""
        self.sent = 0

    def live(self, steps: int) -> None:
        for _ in range(steps):
            if not self.id:
                self.lives += 1
                self.id = f"c{self.number}-{self.lives}"
                self.chat.connect(self.id, query={"interests": self.random.choice(["", "", "a", "b"])})
                self.chat.send_only(self.id, "status")
                continue
            what = self.random.choices(
                ("message", "next", "leave", "find", "report", "status", "disconnect", "again", "die"),
                (20, 6, 2, 4, 2, 4, 3, 1, 1),
            )[0]
            if what in ("disconnect", "again"):
                self.chat.disconnect(self.id)
                if what == "again":
                    self.chat.disconnect(self.id)
                self.id = ""
            elif what == "die":
                self.chat.die(self.id)
                self.id = ""
            elif what == "message":
                self.sent += 1
                self.chat.send_only(self.id, "message", text=f"{self.id} {self.sent}")
            else:
                self.chat.send_only(self.id, what, reason="why")


@pytest.mark.parametrize(
    "faults", ["conflicts", *(pytest.param(one, marks=pytest.mark.long) for one in ("none", "throttles"))]
)
def test_no_connection_is_in_two_chats_under_concurrent_random_actions(
    engine_table: EngineTable, chat: Chat, faults: str
) -> None:
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    clients = [Client(chat, seed, number) for number in range(8)]
    chance = random.Random(seed)

    def fail(id: str) -> None:
        if faults == "throttles" and chance.random() < 0.1:
            raise throttled()

    chat.wire.before_post = fail
    in_flight = InFlight(latency=0.001)
    if faults == "conflicts":
        with in_flight.attached(chat.table.client):
            at_once(8, lambda i: clients[i].live(40))
    else:
        at_once(8, lambda i: clients[i].live(40))
    met = pairs(history(engine_table))
    assert len(met) > 10
    partners = {frozenset(pair) for pair in met.values()}
    for id, frames in chat.wire.frames.items():
        heard: dict[str, list[int]] = defaultdict(list)
        for frame in frames:
            if frame["type"] == "message":
                sender, number = frame["text"].split()
                assert frozenset((sender, id)) in partners, "a message went to a stranger"
                heard[sender].append(int(number))
        for numbers in heard.values():
            assert numbers == sorted(set(numbers)), "a message came twice, or out of order"
    # At the end every client sends a frame: none is left with a dead partner, and every notice is delivered.
    chat.wire.before_post = lambda id: None
    chat.wait(60)
    alive = [client.id for client in clients if client.id]
    for _ in range(2):
        for id in alive:
            chat.send_only(id, "typing")
    for id in alive:
        item = chat.item(id)
        assert item.get("notices", []) == []
        if item["state"] == "matched":
            assert chat.partner(item["partner"]["id"]) == id
            assert item["partner"]["id"] in chat.wire.open


def throttled() -> Exception:
    from botocore.exceptions import ClientError

    return ClientError({"Error": {"Code": "LimitExceededException", "Message": ""}}, "PostToConnection")


def test_the_next_frame_or_the_sweep_recovers_from_a_crash_after_any_call(
    engine_table: EngineTable, chat: Chat
) -> None:
    """The process that handles a new connection dies at its first, second, third… call or post."""
    for number in range(12):
        first, second = f"a{number}", f"b{number}"
        chat.enter(first, lobby=f"l{number}")
        left = [number]

        def die(*_: Any, left: list[int] = left, **__: Any) -> None:
            left[0] -= 1
            if left[0] < 0:
                raise Killed

        events = chat.table.client.meta.events
        events.register("before-call.dynamodb", die)
        chat.wire.before_post = die
        try:
            chat.enter(second, lobby=f"l{number}")
        except Killed:
            pass
        finally:
            events.unregister("before-call.dynamodb", die)
            chat.wire.before_post = lambda id: None
        chat.wire.open.add(second)
        chat.wait(46)  # until the claim of the dead process has expired
        if chat.item(second):
            chat.send(second, "status")
            chat.send(first, "ping")
            assert (chat.partner(first), chat.partner(second)) == (second, first), number
            assert not chat.item(first).get("notices"), number
            assert not chat.item(second).get("notices"), number
        else:
            assert chat.state(first) == "waiting"
    pairs(history(engine_table))


def test_a_busy_table_is_reported_and_the_connection_stays_open(
    engine_table: EngineTable, chat: Chat
) -> None:
    def busy(*_: Any, **__: Any) -> None:
        raise Busy("a planted failure")

    chat.enter("a")
    chat.table.client.meta.events.register("before-call.dynamodb.UpdateItem", busy)
    try:
        assert chat.send("a", "next") == [{"type": "error", "code": "slow_down"}]
    finally:
        chat.table.client.meta.events.unregister("before-call.dynamodb.UpdateItem", busy)
    assert chat.send("a", "status")[0]["state"] == "waiting"


def test_two_pending_notices_are_each_delivered_once(engine_table: EngineTable, chat: Chat) -> None:
    def throttle(id: str) -> None:
        if id == "a":
            raise throttled()

    for id in "ab":
        chat.enter(id)
    chat.wire.read("a")
    chat.wire.before_post = throttle
    chat.send("b", "next")
    chat.enter("c")
    chat.wire.before_post = lambda id: None
    assert chat.item("a")["notices"] == ["partner_disconnected", "partner_connected"]
    assert chat.send("a", "typing") == [DISCONNECTED, CONNECTED]
    assert chat.item("a")["notices"] == []


@contextmanager
def watching_removals(table: Table, seen: Callable[[Any], None]) -> Iterator[None]:
    """Call `seen` with each request that removes notices, before it is sent."""

    def show(params: Any, **_: Any) -> None:
        if params["UpdateExpression"].startswith("REMOVE claimed_until"):
            seen(dict(params))

    table.client.meta.events.register("before-parameter-build.dynamodb.UpdateItem", show)
    try:
        yield
    finally:
        table.client.meta.events.unregister("before-parameter-build.dynamodb.UpdateItem", show)


def test_a_retried_removal_of_notices_does_not_remove_newer_ones(
    engine_table: EngineTable, chat: Chat
) -> None:
    """The SDK retries a call after a lost response, while another handler has a claim of the same second."""
    requests: list[Any] = []

    def again(id: str) -> None:
        if id == "a":
            with pytest.raises(chat.table.client.exceptions.ConditionalCheckFailedException):
                chat.table.client.update_item(**requests[0])
            raise Killed

    with watching_removals(chat.table, requests.append):
        chat.enter("a")
        chat.connect("b")
    assert requests[0]["Key"]["pk"] == {"S": "CONN#a"}
    chat.wire.before_post = again
    with pytest.raises(Killed):
        chat.send("b", "next")
    chat.wire.before_post = lambda id: None
    chat.wait(46)
    chat.wire.read("a")
    assert chat.send("a", "typing") == [NOT_MATCHED, DISCONNECTED]


def test_a_notice_that_comes_while_the_response_of_a_removal_is_lost_is_delivered(
    engine_table: EngineTable, chat: Chat
) -> None:
    """The removal is done, its response is lost, and its retry is refused. The handler looks again."""
    left = [True]

    def lose(request: Any) -> None:
        if left and request["Key"]["pk"] == {"S": "CONN#a"}:
            left.clear()
            chat.send("b", "next")  # another handler has the claim on a, so the notice is left to it
            chat.table.client.update_item(**request)

    chat.enter("a")
    with watching_removals(chat.table, lose):
        chat.connect("b")
    assert chat.wire.read("a") == [CONNECTED, DISCONNECTED]
