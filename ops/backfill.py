"""Brings the comments that were written before there were sums into them, while traffic goes on.

A comment counts from the moment that it has its stamp (`counted`). The backfill reads the whole table in
parallel segments and touches each comment without a stamp, on condition that it still has none and is what
was read. The touch goes through the stream like any other change, so each comment enters once, whatever is
written, edited or deleted meanwhile: an edit stamps a comment too, and what is deleted has never counted.
With the stamp a comment gets its place in gsi2, and its author's item unless the author has another one.

| item | pk | sk | holds |
|---|---|---|---|
| segment | `BACKFILL#comments` | `SEGMENT#<n>` | `of` how many, `start`: how far it is, what it did |

Each page of a segment is noted when all of it is touched. A run that was killed is gone on with there; what
it had touched of a page is not touched again. After the last segment the notes are deleted.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from dataclasses import asdict, dataclass
from typing import Any

from chalicelib import comment_changes
from chalicelib.attempts import attempt
from chalicelib.comments import COMMENT
from chalicelib.items import Item, Key, pack, unpack
from chalicelib.table import Table

PLACE = "BACKFILL#comments"
PAGE = 200  # items that are read before a segment's progress is noted


@dataclass
class Done:
    """What a segment, or all of them, has done: items read, comments touched, and those that cannot be."""

    read: int = 0
    touched: int = 0
    malformed: int = 0


@dataclass
class Segment:
    """A part of the table: how far it is read, and what was done."""

    number: int
    of: int
    start: dict[str, str] | None
    done: Done
    is_over: bool = False

    def item(self) -> Item:
        """Make the item that notes it."""
        start = {"start": self.start} if self.start else {}
        return (
            {**segment_key(self.number)._asdict(), "of": self.of, "over": self.is_over}
            | start
            | asdict(self.done)
        )


class Pace:
    """Lets through so many a second, of all threads together; with no rate all at once."""

    def __init__(self, rate: float | None) -> None:
        self._gap = 1 / rate if rate else 0.0
        self._next = time.monotonic()
        self._lock = threading.Lock()

    def wait(self) -> None:
        """Wait for one's turn."""
        if self._gap:
            with self._lock:
                self._next = max(self._next, time.monotonic()) + self._gap
                pause = self._next - time.monotonic()
            time.sleep(max(0.0, pause))


def segment_key(number: int) -> Key:
    """Key a segment's progress."""
    return Key(PLACE, f"SEGMENT#{number:04}")


def run(table: Table, segments: int, rate: float | None, tick: Callable[[Done], None]) -> Done:
    """Touch every comment without a stamp; answer what was done, by the runs before this one too.

    A run that was killed is gone on with, in as many segments as it had. `tick` hears of each page. At most
    `rate` comments a second. Interrupted, it stops after the page. Costs 1 RCU per 4 KB of the table, 1 WCU
    for each page of 200 items, and for each comment of 1 KB 2 WCU, 2 of index and 2 for its author's item.
    """
    noted = table.query(PLACE, limit=10_000, consistent=True).items
    parts = [_segment(item) for item in noted] or [
        Segment(i, segments, None, Done()) for i in range(segments)
    ]
    if len(parts) < (count := parts[0].of):  # killed while it was noting that it begins
        known = {part.number for part in parts}
        parts += [Segment(i, count, None, Done()) for i in range(count) if i not in known]
    table.batch_put(part.item() for part in parts)
    pace, stop = Pace(rate), threading.Event()
    with ThreadPoolExecutor(len(parts)) as pool:
        runs = [pool.submit(_fill, table, part, pace, stop, tick) for part in parts if not part.is_over]
        try:
            wait_for(runs, return_when=FIRST_EXCEPTION)
        finally:  # an error of one segment, or an interrupt, ends the others after their page
            stop.set()
    for one in runs:
        one.result()
    for part in parts:
        table.delete(segment_key(part.number))
    return Done(*(sum(getattr(part.done, name) for part in parts) for name in asdict(Done())))


def _fill(
    table: Table, part: Segment, pace: Pace, stop: threading.Event, tick: Callable[[Done], None]
) -> None:
    """Read a segment page by page, and touch what has no stamp; note each page."""
    while not part.is_over and not stop.is_set():
        asked: Any = {"TableName": table.name, "ConsistentRead": True, "Limit": PAGE}
        asked |= {"Segment": part.number, "TotalSegments": part.of}
        if part.start:
            asked["ExclusiveStartKey"] = pack(part.start)
        answer = attempt(lambda: table.client.scan(**asked), time.sleep)  # noqa: B023 (called at once)
        before = asdict(part.done)
        for item in map(unpack, answer["Items"]):
            part.done.read += 1
            if item["pk"].startswith("PRODUCT#") and item["sk"].startswith(COMMENT) and "counted" not in item:
                pace.wait()
                touched = comment_changes.touch(table, item)
                part.done.touched += touched is True
                part.done.malformed += touched is None
        last = answer.get("LastEvaluatedKey")
        part.start, part.is_over = (unpack(last), False) if last else (None, True)
        table.put(part.item())
        tick(Done(*(getattr(part.done, name) - before[name] for name in before)))


def _segment(item: Item) -> Segment:
    done = Done(*(item[name] for name in asdict(Done())))
    return Segment(int(item["sk"].split("#")[1]), item["of"], item.get("start"), done, item["over"])
