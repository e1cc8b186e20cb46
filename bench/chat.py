"""Chat: its cost beside the published design, the time to being told, messages a second on one machine."""

from __future__ import annotations

import itertools
import os
import statistics
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any

from bench.meter import Meter
from bench.published_chat import PublishedChat
from bench.report import Answer, Figures, Question, Report, Target
from bench.view_costs import fresh_table
from chalicelib import chat
from chalicelib.posts import Posts
from chalicelib.settings import Settings
from chalicelib.table import Table
from local.engine import Engine

# A newcomer is stored, a pair is two items that change together, and a message need not be stored at all.
FLOORS = {"connect, nobody waits": 1.0, "connect, and a match": 4.0, "disconnect, of one who waits": 1.0}
AT_ONCE = 16  # arrivals at the same moment
SETTINGS = Settings(chat_frames=40, secret="0123456789abcdef0123456789abcdef")  # noqa: S106 (no secret)
METHOD = f"""Capacity. Write and read units (WCU, RCU) of each event, computed from the items before and \
after every call by the rules AWS publishes; a transaction doubles the table's writes, not the indexes'. \
The published design keeps less: no state that a status could answer, no rate, nothing told again after a \
crash; its partner, once left, waits no more, its sweep and its time to live do not exist.
  {AT_ONCE} who come at once: as many threads connect at the same moment, {{rounds}} rounds. Left alone are \
those who have no partner though another waits as well; failed are those whose $connect raised.
  Time to both being told: from the second arrival's $connect to the post that tells the later of the two, \
its status included, which it sends as soon as its $connect has returned. Handlers and engine are in one \
machine, and posts cost nothing: it is the chat's own time, on this engine, no figure of AWS's.
  Messages a second: pairs talk from {{threads}} threads of one process; a message is one update, one post."""


class Line:
    """API Gateway's side of the connections, for a measurement: everybody is open, posts are timed."""

    region_name = "local"

    def __init__(self) -> None:
        self.told: dict[str, float] = {}
        self.posts = itertools.count()

    def client(self, *_: Any, **__: Any) -> Line:
        """Answer itself: there is one client."""
        return self

    def post_to_connection(self, ConnectionId: str, Data: str) -> None:  # noqa: N803 (boto3's names)
        """Take note of when a connection was told of its partner."""
        next(self.posts)
        if "partner_connected" in Data:
            self.told[ConnectionId] = time.perf_counter()


class OurChat:
    """Hubbub's chat on a table."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.line = Line()
        self.posts = Posts(lambda: self.line)

    def connect(self, id: str) -> None:
        """Run `$connect`."""
        chat.connect(self.table, self.posts, {"requestContext": _context(id)}, datetime.now(UTC), SETTINGS)

    def say(self, id: str, body: str) -> None:
        """Run the handler of a frame."""
        event = {"requestContext": _context(id), "body": body}
        chat.hear(self.table, self.posts, {}, event, datetime.now(UTC), SETTINGS)

    def disconnect(self, id: str) -> None:
        """Run `$disconnect`."""
        chat.disconnect(self.table, self.posts, {"requestContext": _context(id)}, datetime.now(UTC), SETTINGS)


def measure(engine: Engine, quick: bool) -> Report:
    """Measure it all on one engine."""
    threads, rounds = 8, 1 if quick else 10
    costs = capacity(engine)
    ours, published = alone(engine, rounds)
    told = seconds_to_both(engine, 5 if quick else 100)
    rate = messages_a_second(engine, threads, 0.5 if quick else 8.0, 8 if quick else 64)
    waits = Figures(f"{AT_ONCE} who come at once, over all rounds", ("", "Hubbub", "published"))
    waits.rows = [("left alone beside another", ours[0], published[0]), ("failed", ours[1], published[1])]
    times = Figures("Time and rate", ("", "measured"))
    times.rows = [
        ("ms from the second arrival to both being told, median", 1000 * statistics.median(told)),
        ("… the slowest of 10", 1000 * sorted(told)[len(told) * 9 // 10]),
        ("messages a second", rate),
        ("cores", os.cpu_count() or 0),
    ]
    message = next(row for row in costs.rows if row[0] == "message")
    asked = [
        Question("What does an event of chat write?", "WCU an event"),
        Question(
            f"{AT_ONCE} come at once: how many are left alone, and for how many does it fail?", "people"
        ),
    ]
    for name, wcu, _, published_wcu, _ in costs.rows:
        theirs = None if published_wcu == "–" else float(published_wcu)
        asked[0].answers.append(Answer(str(name), float(wcu), theirs, FLOORS.get(str(name))))
    for name, mine, other in waits.rows:
        asked[1].answers.append(Answer(str(name), float(mine), float(other)))
    return Report(
        [METHOD.format(threads=threads, rounds=rounds)],
        [costs, waits, times],
        [
            Target("WCU a message", float(message[1]), 1),
            Target("left alone beside another", ours[0], 0),
            Target("failed arrivals", ours[1], 0),
        ],
        asked,
    )


def capacity(engine: Engine) -> Figures:
    """Measure each event's units, ours and the published design's."""
    figures = Figures("Capacity of each event", ("event", "WCU", "RCU", "published WCU", "published RCU"))
    with fresh_table(engine) as (table, _), fresh_table(engine) as (other, _):
        us, them = OurChat(table), PublishedChat(other.client, other.name)
        first = '{"action": "message", "text": "the first of a pair"}'
        events: list[tuple[str, Callable[[], Any], Callable[[], Any] | None]] = [
            ("connect, nobody waits", lambda: us.connect("a"), lambda: them.connect("a", "1")),
            ("status, of one who waits", lambda: us.say("a", '{"action": "status"}'), None),
            ("connect, and a match", lambda: us.connect("b"), lambda: them.connect("b", "2")),
            ("status, and being told", lambda: us.say("b", '{"action": "status"}'), None),
            ("message, the first", lambda: us.say("a", first), lambda: them.partner("a")),
            ("message", lambda: us.say("a", first), lambda: them.partner("a")),
            ("next, and nobody else", lambda: us.say("a", '{"action": "next"}'), None),
            ("disconnect, of one who waits", lambda: us.disconnect("a"), None),
            ("connect, and a match again", lambda: us.connect("c"), None),
            ("disconnect, of a pair", lambda: us.disconnect("c"), lambda: them.disconnect("b")),
        ]
        for name, ours, theirs in events:
            with Meter(table.client) as meter:
                ours()
            row: list[str | float] = [name, meter.write_units, meter.read_units]
            if theirs:
                with Meter(other.client) as meter:
                    theirs()
            beside = (meter.write_units, meter.read_units) if theirs else ("–", "–")
            figures.rows.append((*row, *beside))
    return figures


def alone(engine: Engine, rounds: int) -> tuple[tuple[int, int], tuple[int, int]]:
    """Let many come at once, both designs; answer who waits beside another, and who failed."""
    ours, published = [0, 0], [0, 0]
    for _ in range(rounds):
        with fresh_table(engine) as (table, _):
            us = OurChat(table)
            ours[1] += _at_once(us.connect)
            waiting = len(table.query("WAITING#main", consistent=True).items)
            ours[0] += waiting if waiting > 1 else 0
        with fresh_table(engine) as (table, _):
            them = PublishedChat(table.client, table.name)
            failed = _at_once(lambda id: them.connect(id, id))  # noqa: B023 (called at once)
            waiting = len(table.query("UNMATCHED", consistent=True).items)
            published[0] += waiting if waiting > 1 else 0
            published[1] += failed
    return (ours[0], ours[1]), (published[0], published[1])


def seconds_to_both(engine: Engine, pairs: int) -> list[float]:
    """Time each pair from the second arrival to both being told."""
    taken = []
    with fresh_table(engine) as (table, _):
        us = OurChat(table)
        for number in range(pairs):
            first, second = f"a{number}", f"b{number}"
            us.connect(first)
            us.say(first, '{"action": "status"}')
            begin = time.perf_counter()
            us.connect(second)
            us.say(second, '{"action": "status"}')
            taken.append(max(us.line.told[first], us.line.told[second]) - begin)
    return taken


def messages_a_second(engine: Engine, threads: int, seconds: float, each: int = 64) -> float:
    """Let pairs talk, each thread in turn for its own, as fast as the limit of a connection lets them.

    A connection may send 30 frames in ten seconds, so a thread needs `each` of them.
    """
    with fresh_table(engine) as (table, _):
        us = OurChat(table)
        names = [f"{thread}-{number}" for thread in range(threads) for number in range(each)]
        for name in names:
            us.connect(name)
            us.say(name, '{"action": "status"}')
        before, end = next(us.line.posts), time.monotonic() + seconds

        def talk(thread: int) -> int:
            sent = 0
            mine = itertools.cycle(names[thread::threads])
            while time.monotonic() < end:
                us.say(next(mine), '{"action": "message", "text": "hello"}')
                sent += 1
            return sent

        begin = time.perf_counter()
        with ThreadPoolExecutor(threads) as pool:
            sent = sum(pool.map(talk, range(threads)))
        taken = time.perf_counter() - begin
        arrived = next(us.line.posts) - before - 1
    if arrived != sent:
        raise RuntimeError(f"{sent} messages were sent, and {arrived} posts made")
    return sent / taken


def _at_once(connect: Callable[[str], Any]) -> int:
    """Let 16 connect at the same moment; answer how many failed."""
    ready = threading.Barrier(AT_ONCE)

    def run(number: int) -> bool:
        ready.wait()
        try:
            connect(f"c{number}")
        except Exception:
            return True
        return False

    with ThreadPoolExecutor(AT_ONCE) as pool:
        return sum(pool.map(run, range(AT_ONCE)))


def _context(id: str) -> dict[str, str]:
    return {"connectionId": id, "apiId": "local", "stage": "local"}
