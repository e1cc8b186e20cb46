"""Chat: its cost beside the published design, the time to the notice of a partner, and messages a second."""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any

from bench.deployed import OpenGateway
from bench.published.chat import PublishedChat
from bench.report import Figures, Question, Report, Result
from bench.tables import fresh_table
from chalicelib.chat import handlers
from chalicelib.chat.gateway import ConnectionGateway
from chalicelib.dynamo.table import Table
from chalicelib.settings import Settings
from local.engines.engine import Engine
from local.engines.meter import Meter
from local.soak.target import Target

# A newcomer is stored, a pair is two items that change together, and a message need not be stored at all.
FLOORS = {"connect, nobody waits": 1.0, "connect, a match": 4.0, "disconnect, while waiting": 1.0}
SETTINGS = Settings(chat_frames=40, secret="0123456789abcdef0123456789abcdef")  # noqa: S106 (no secret)
METHOD = """Capacity. Write and read units (WCU, RCU) of each event, computed from the items before and \
after every call by AWS's published rules. The published design keeps less: no state for a status, no rate \
limit, no notice after a crash; a partner that is left does not wait again, and it has no sweep and no \
time to live. \
Time to the notice: from the second arrival's $connect to the post of the later notice, its status frame \
included, which it sends as soon as its $connect has returned. Handlers and engine share this machine, and \
posts cost nothing. Messages a second: pairs talk from {threads} threads of one process; a message is \
one update and one post."""


class OurChat:
    """Hubbub's chat on a table."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.gateway = OpenGateway()
        self.posts = ConnectionGateway(lambda: self.gateway)

    def connect(self, id: str) -> None:
        """Run `$connect`."""
        handlers.connect(self.table, self.posts, _event(id), datetime.now(UTC), SETTINGS)

    def say(self, id: str, body: str) -> None:
        """Run the handler of a frame."""
        handlers.receive_frame(
            self.table, self.posts, {}, _event(id) | {"body": body}, datetime.now(UTC), SETTINGS
        )

    def disconnect(self, id: str) -> None:
        """Run `$disconnect`."""
        handlers.disconnect(self.table, self.posts, _event(id), datetime.now(UTC), SETTINGS)


def _event(id: str) -> dict[str, Any]:
    return {"requestContext": {"connectionId": id, "apiId": "local", "stage": "local"}}


STATUS, MESSAGE = '{"action": "status"}', '{"action": "message", "text": "hello"}'


def capacity(engine: Engine) -> Figures:
    """Measure each event's units, ours and the published design's."""
    figures = Figures("Capacity of each event", ("event", "WCU", "RCU", "published WCU", "published RCU"))
    with fresh_table(engine) as (table, _), fresh_table(engine) as (other, _):
        us, them = OurChat(table), PublishedChat(other.client, other.name)
        events: list[tuple[str, Callable[[], Any], Callable[[], Any] | None]] = [
            ("connect, nobody waits", lambda: us.connect("a"), lambda: them.connect("a", "1")),
            ("status, while waiting", lambda: us.say("a", STATUS), None),
            ("connect, a match", lambda: us.connect("b"), lambda: them.connect("b", "2")),
            ("status, with a notice", lambda: us.say("b", STATUS), None),
            ("message, the first", lambda: us.say("a", MESSAGE), lambda: them.partner("a")),
            ("message", lambda: us.say("a", MESSAGE), lambda: them.partner("a")),
            ("next, nobody else waits", lambda: us.say("a", '{"action": "next"}'), None),
            ("disconnect, while waiting", lambda: us.disconnect("a"), None),
            ("connect, a match again", lambda: us.connect("c"), None),
            ("disconnect, of a pair", lambda: us.disconnect("c"), lambda: them.disconnect("b")),
        ]
        for name, ours, theirs in events:
            with Meter(table.client) as meter:
                ours()
            units = [meter.write_units, meter.read_units]
            with Meter(other.client) as meter:
                (theirs or (lambda: None))()
            published = (meter.write_units, meter.read_units) if theirs else ("–", "–")
            figures.rows.append((name, *units, *published))
    return figures


def seconds_to_notice(engine: Engine, pairs: int) -> list[float]:
    """Time each pair from the second arrival to the later of the two notices."""
    times = []
    with fresh_table(engine) as (table, _):
        us = OurChat(table)
        for number in range(pairs):
            first, second = f"a{number}", f"b{number}"
            us.connect(first)
            us.say(first, STATUS)
            begin = time.perf_counter()
            us.connect(second)
            us.say(second, STATUS)
            times.append(max(us.gateway.notified[first], us.gateway.notified[second]) - begin)
    return times


def messages_a_second(engine: Engine, threads: int, seconds: float, each: int = 64) -> float:
    """Send messages between pairs as fast as possible, each thread for its own `each` connections.

    A connection may send 30 frames in ten seconds, so a thread needs several of them.
    """
    with fresh_table(engine) as (table, _):
        us = OurChat(table)
        names = [f"{thread}-{number}" for thread in range(threads) for number in range(each)]
        for name in names:
            us.connect(name)
            us.say(name, STATUS)
        before, end = us.gateway.posts, time.monotonic() + seconds

        def talk(thread: int) -> int:
            sent = 0
            own = itertools.cycle(names[thread::threads])
            while time.monotonic() < end:
                us.say(next(own), MESSAGE)
                sent += 1
            return sent

        begin = time.perf_counter()
        with ThreadPoolExecutor(threads) as pool:
            sent = sum(pool.map(talk, range(threads)))
        elapsed = time.perf_counter() - begin
    if us.gateway.posts - before != sent:
        raise RuntimeError(f"{sent} messages were sent, and {us.gateway.posts - before} posts made")
    return sent / elapsed


def measure(engine: Engine, quick: bool) -> Report:
    """Measure it all on one engine."""
    threads = 8
    costs = capacity(engine)
    times = sorted(1000 * one for one in seconds_to_notice(engine, 5 if quick else 100))
    rate = messages_a_second(engine, threads, 0.5 if quick else 8.0, 8 if quick else 64)
    figures = Figures("Time and rate", ("figure", "measured"))
    figures.rows = [
        ("ms from the second arrival to both notices, median", statistics.median(times)),
        ("… the slowest of 10", times[len(times) * 9 // 10]),
        ("messages a second", rate),
    ]
    cost = Question("What does an event of chat write?", "WCU an event")
    for name, wcu, _, theirs, _ in costs.rows:
        beside = None if theirs == "–" else float(theirs)
        cost.results.append(Result(str(name), float(wcu), beside, FLOORS.get(str(name))))
    target = Target("WCU a message", next(one.ours for one in cost.results if one.case == "message"), 1)
    return Report([METHOD.format(threads=threads)], [costs, figures], [target], [cost])
