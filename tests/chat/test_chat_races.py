"""Chat under threads, on the real engines: what always holds, checked in the history that a stream keeps."""

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
from local.engines.conflicts import InFlight
from proof.invariants import pairs, states
from proof.world import Killed
from tests.conftest import EngineTable
from tests.support.chatting import CONNECTED, DISCONNECTED, NOT_MATCHED, SETTINGS, Chat
from tests.support.records import Reader

NEVER_AGAIN = SETTINGS._replace(chat_again=timedelta(days=1), chat_frames=40, chat_span=timedelta(seconds=1))


@pytest.fixture
def chat(engine_table: EngineTable) -> Chat:
    engine, name, _ = engine_table
    return Chat(Table(name, engine.client("dynamodb")), NEVER_AGAIN)


def history(engine_table: EngineTable) -> list[Item]:
    """Every state that every connection was in, each connection's in order."""
    engine, _, stream_arn = engine_table
    return states(Reader(engine.client("dynamodbstreams"), stream_arn).read())


def at_once(count: int, work: Callable[[int], Any]) -> list[Any]:
    """Let threads begin at the same moment."""
    ready = threading.Barrier(count)

    def run(number: int) -> Any:
        ready.wait(60)
        return work(number)

    with ThreadPoolExecutor(count) as threads:
        return list(threads.map(run, range(count)))


@pytest.mark.parametrize("count", [2, 3, 16, 25])
def test_of_n_who_come_at_once_at_most_one_is_left(engine_table: EngineTable, chat: Chat, count: int) -> None:
    """No status and no sweep helps: whoever comes later sees whoever came before."""
    assert at_once(count, lambda i: chat.connect(f"c{i}")) == [200] * count
    states = [chat.state(f"c{i}") for i in range(count)]
    assert (states.count("matched"), states.count("waiting")) == (count - count % 2, count % 2)
    assert len(chat.pool()) == count % 2
    assert len(pairs(history(engine_table))) == count // 2
    for i in range(count):
        chat.say(f"c{i}", "status")
        assert chat.item(f"c{i}").get("untold", []) == []


def test_of_n_who_come_at_once_at_most_one_is_left_though_transactions_conflict(
    engine_table: EngineTable, chat: Chat
) -> None:
    """No local engine raises TransactionConflict: AWS's rule is held for them."""
    in_flight = InFlight(latency=0.002)
    with in_flight.attached(chat.table.client):
        at_once(12, lambda i: chat.connect(f"c{i}"))
        for i in range(12):
            chat.say(f"c{i}", "status")  # a newcomer whose retries ran out looks again
    assert in_flight.refused > 0
    assert [chat.state(f"c{i}") for i in range(12)] == ["matched"] * 12
    assert len(pairs(history(engine_table))) == 6


def test_two_who_both_go_on_at_once_part_once(engine_table: EngineTable, chat: Chat) -> None:
    for i in range(4):
        chat.connect(f"c{i}")
    at_once(4, lambda i: chat.say(f"c{i}", "next"))
    pairs(history(engine_table))
    partners = [chat.partner(f"c{i}") for i in range(4)]
    assert all(partner is None or chat.partner(partner) == f"c{i}" for i, partner in enumerate(partners))


def test_one_who_leaves_while_it_is_told_harms_nobody(engine_table: EngineTable, chat: Chat) -> None:
    """b is being told that a has gone, and goes itself before that has been taken note of."""
    went: list[str] = []

    def go(id: str) -> None:
        if id == "b" and not went:
            went.append(id)
            chat.disconnect("b")
            chat.wire.open.add("b")  # the post was on its way

    chat.connect("a")
    chat.connect("b")
    chat.say("b", "status")
    chat.wire.before_post = go
    chat.disconnect("a")
    assert went == ["b"]
    assert (chat.state("a"), chat.state("b"), chat.pool()) == ("gone", "gone", [])


class Client:
    """One client of many that do what comes into their mind; counts what it said to whom."""

    def __init__(self, chat: Chat, seed: int, number: int) -> None:
        self.chat, self.random, self.number = chat, random.Random(seed * 1000 + number), number
        self.lives = 0
        self.id = ""
        self.said = 0

    def live(self, steps: int) -> None:
        for _ in range(steps):
            if not self.id:
                self.lives += 1
                self.id = f"c{self.number}-{self.lives}"
                self.chat.connect(self.id, query={"interests": self.random.choice(["", "", "a", "b"])})
                self.chat.say_quietly(self.id, "status")
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
                self.said += 1
                self.chat.say_quietly(self.id, "message", text=f"{self.id} {self.said}")
            else:
                self.chat.say_quietly(self.id, what, reason="why")


@pytest.mark.parametrize(
    "faults", ["conflicts", *(pytest.param(one, marks=pytest.mark.long) for one in ("none", "throttles"))]
)
def test_whatever_many_do_at_once_nobody_is_in_two_chats(
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
    # In the end everybody says something more: nobody is left in a pair with a dead one, and all is told.
    chat.wire.before_post = lambda id: None
    chat.wait(60)
    alive = [client.id for client in clients if client.id]
    for _ in range(2):
        for id in alive:
            chat.say_quietly(id, "typing")
    for id in alive:
        item = chat.item(id)
        assert item.get("untold", []) == []
        if item["state"] == "matched":
            assert chat.partner(item["partner"]["id"]) == id
            assert item["partner"]["id"] in chat.wire.open


def throttled() -> Exception:
    from botocore.exceptions import ClientError

    return ClientError({"Error": {"Code": "LimitExceededException", "Message": ""}}, "PostToConnection")


def test_a_crash_after_any_call_is_healed_by_the_next_frame_or_the_sweep(
    engine_table: EngineTable, chat: Chat
) -> None:
    """The process of the one who comes dies after its 1st, 2nd, 3rd… call of the table or post."""
    for place in range(12):
        first, second = f"a{place}", f"b{place}"
        chat.come(first, lobby=f"l{place}")
        left = [place]

        def die(*_: Any, left: list[int] = left, **__: Any) -> None:
            left[0] -= 1
            if left[0] < 0:
                raise Killed

        events = chat.table.client.meta.events
        events.register("before-call.dynamodb", die)
        chat.wire.before_post = die
        try:
            chat.come(second, lobby=f"l{place}")
        except Killed:
            pass
        finally:
            events.unregister("before-call.dynamodb", die)
            chat.wire.before_post = lambda id: None
        chat.wire.open.add(second)
        chat.wait(46)  # until the claim of one who died has run out
        if chat.item(second):
            chat.say(second, "status")
            chat.say(first, "ping")
            assert (chat.partner(first), chat.partner(second)) == (second, first), place
            assert not chat.item(first).get("untold"), place
            assert not chat.item(second).get("untold"), place
        else:
            assert chat.state(first) == "waiting"
    pairs(history(engine_table))


def test_a_busy_table_is_told_and_the_connection_stays(engine_table: EngineTable, chat: Chat) -> None:
    def busy(*_: Any, **__: Any) -> None:
        raise Busy("as told")

    chat.come("a")
    chat.table.client.meta.events.register("before-call.dynamodb.UpdateItem", busy)
    try:
        assert chat.say("a", "next") == [{"type": "error", "code": "slow_down"}]
    finally:
        chat.table.client.meta.events.unregister("before-call.dynamodb.UpdateItem", busy)
    assert chat.say("a", "status")[0]["state"] == "waiting"


def test_two_notes_that_wait_are_each_told_once(engine_table: EngineTable, chat: Chat) -> None:
    """Also by an engine that takes the places of a list off one after the other, as ministack does."""

    def throttle(id: str) -> None:
        if id == "a":
            raise throttled()

    for id in "ab":
        chat.come(id)
    chat.wire.read("a")
    chat.wire.before_post = throttle
    chat.say("b", "next")
    chat.come("c")
    chat.wire.before_post = lambda id: None
    assert chat.item("a")["untold"] == ["partner_disconnected", "partner_connected"]
    assert chat.say("a", "typing") == [DISCONNECTED, CONNECTED]
    assert chat.item("a")["untold"] == []


@contextmanager
def taking_off(table: Table, seen: Callable[[Any], None]) -> Iterator[None]:
    """Show each call that takes notes off, before it is made."""

    def show(params: Any, **_: Any) -> None:
        if params["UpdateExpression"].startswith("REMOVE telling"):
            seen(dict(params))

    table.client.meta.events.register("before-parameter-build.dynamodb.UpdateItem", show)
    try:
        yield
    finally:
        table.client.meta.events.unregister("before-parameter-build.dynamodb.UpdateItem", show)


def test_a_retry_of_taking_notes_off_does_not_take_off_what_came_since(
    engine_table: EngineTable, chat: Chat
) -> None:
    """The answer was lost, and the SDK sends the call again: in the same second somebody else is telling."""
    requests: list[Any] = []

    def again(id: str) -> None:
        if id == "a":
            with pytest.raises(chat.table.client.exceptions.ConditionalCheckFailedException):
                chat.table.client.update_item(**requests[0])
            raise Killed

    with taking_off(chat.table, requests.append):
        chat.come("a")
        chat.connect("b")
    assert requests[0]["Key"]["pk"] == {"S": "CONN#a"}
    chat.wire.before_post = again
    with pytest.raises(Killed):
        chat.say("b", "next")
    chat.wire.before_post = lambda id: None
    chat.wait(46)
    chat.wire.read("a")
    assert chat.say("a", "typing") == [NOT_MATCHED, DISCONNECTED]


def test_what_came_while_the_answer_of_taking_notes_off_was_lost_is_told(
    engine_table: EngineTable, chat: Chat
) -> None:
    """The call is done, its answer is lost, its retry is refused: whoever told looks again."""
    left = [True]

    def lose(request: Any) -> None:
        if left and request["Key"]["pk"] == {"S": "CONN#a"}:
            left.clear()
            chat.say("b", "next")  # finds a being told, and leaves it to whoever is at it
            chat.table.client.update_item(**request)

    chat.come("a")
    with taking_off(chat.table, lose):
        chat.connect("b")
    assert chat.wire.read("a") == [CONNECTED, DISCONNECTED]
