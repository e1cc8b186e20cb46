"""Reads a whole table in parallel segments, at a pace, and notes how far each is: a run may be killed.

| item | pk | sk | holds |
|---|---|---|---|
| segment | the work's own, `BACKFILL#comments` | `SEGMENT#<n>` | `of`, `start`, `over`, what was done |

Each page of a segment is noted when all of it is worked on. A run that was killed is gone on with there, in
as many segments as it had: the work on a page may be done twice, and has to bear it. After the last segment
the notes are deleted.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from dataclasses import dataclass, field
from typing import Any

from chalicelib.dynamo.items import Item, Key, pack, unpack
from chalicelib.dynamo.retries import retry
from chalicelib.dynamo.table import Table

PAGE = 200  # items that are read at once where progress is noted, or where there is a pace
OWN = {"pk", "sk", "of", "start", "over"}

Work = Callable[[Item], str]
"""What is done to an item; answers the word that it is counted under, or nothing."""


@dataclass
class Segment:
    """A part of the table: how far it is read, and what was done, by the runs before this one too."""

    number: int
    of: int
    start: dict[str, str] | None = None
    done: Counter[str] = field(default_factory=Counter)
    is_over: bool = False

    def item(self, place: str) -> Item:
        """Make the item that notes it."""
        start = {"start": self.start} if self.start else {}
        note = segment_key(place, self.number)._asdict() | {"of": self.of, "over": self.is_over}
        return note | start | dict(self.done)


class Pace:
    """Lets through so many a second, of all threads together; with no rate all at once."""

    def __init__(self, rate: float | None) -> None:
        self.is_slow = rate is not None
        self._gap = 1 / rate if rate else 0.0
        self._next = time.monotonic()
        self._lock = threading.Lock()

    def wait(self, count: int = 1) -> None:
        """Wait for one's turn, or for that of several things at once."""
        if self._gap:
            with self._lock:
                self._next = max(self._next, time.monotonic()) + self._gap * count
                pause = self._next - time.monotonic()
            time.sleep(max(0.0, pause))


def segment_key(place: str, number: int) -> Key:
    """Key a segment's progress."""
    return Key(place, f"SEGMENT#{number:04}")


def run(
    table: Table,
    place: str,
    segments: int,
    work: Work,
    tick: Callable[[Counter[str]], None],
    pace: Pace | None = None,
) -> Counter[str]:
    """Work on every item of the table; answer how many were `read`, and what `work` says was done to them.

    A run that was killed is gone on with, in as many segments as it had; without a `place` nothing is noted.
    `tick` hears of each page, `pace` of each item that is read. Interrupted, it stops after the page. A page
    is 1 MB, what DynamoDB reads at once; with notes or a pace it is 200 items. Costs 1 RCU per 4 KB of the
    table and 1 WCU for each page that is noted, beside the work.
    """
    parts = (place and _noted(table, place)) or [Segment(i, segments) for i in range(segments)]
    if len(parts) < (count := parts[0].of):  # killed while it was noting that it begins
        known = {part.number for part in parts}
        parts += [Segment(i, count) for i in range(count) if i not in known]
    table.batch_put(part.item(place) for part in parts if place)
    stop = threading.Event()
    limit = PAGE if place or (pace and pace.is_slow) else None

    def visit(part: Segment) -> None:
        while not part.is_over and not stop.is_set():
            page, last = read(table, part, limit)
            if pace:
                pace.wait(len(page))
            before = part.done.copy()
            for item in page:
                part.done["read"] += 1
                if word := work(item):
                    part.done[word] += 1
            part.start, part.is_over = last, last is None
            if place:
                table.put(part.item(place))
            tick(part.done - before)

    at_once([lambda part=part: visit(part) for part in parts if not part.is_over], stop)  # type: ignore[misc]
    for part in parts if place else ():
        table.delete(segment_key(place, part.number))
    return sum((part.done for part in parts), Counter())


def read(table: Table, part: Segment, limit: int | None = None) -> tuple[list[Item], dict[str, str] | None]:
    """Read a segment's next page; answer its items, and where the one after it begins. 1 RCU per 4 KB."""
    asked: Any = {"TableName": table.name, "ConsistentRead": True}
    asked |= {"Segment": part.number, "TotalSegments": part.of}
    if limit:
        asked["Limit"] = limit
    if part.start:
        asked["ExclusiveStartKey"] = pack(part.start)
    answer = retry(lambda: table.client.scan(**asked), time.sleep)
    last = answer.get("LastEvaluatedKey")
    return [unpack(item) for item in answer["Items"]], unpack(last) if last else None


def at_once(calls: list[Callable[[], None]], stop: threading.Event) -> None:
    """Run calls in threads; an error of one, or an interrupt, tells the others to stop."""
    with ThreadPoolExecutor(max(1, len(calls))) as pool:
        runs = [pool.submit(call) for call in calls]
        try:
            wait_for(runs, return_when=FIRST_EXCEPTION)
        finally:
            stop.set()
    for one in runs:
        one.result()


def _noted(table: Table, place: str) -> list[Segment]:
    """Read what a run before this one has noted."""
    return [
        Segment(
            int(item["sk"].split("#")[1]),
            item["of"],
            item.get("start"),
            Counter({name: value for name, value in item.items() if name not in OWN}),
            item["over"],
        )
        for item in table.query(place, limit=10_000, consistent=True).items
    ]
