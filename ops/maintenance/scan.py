"""Process a whole table in parallel segments, with a rate limit and with progress that survives interruption.

| item | pk | sk | holds |
|---|---|---|---|
| segment | the caller's, such as `ERASE#<digest>` | `SEGMENT#<n>` | `total`, `start`, `over`, counts |

Invariant: every item is processed at least once. Progress is saved after each page of a segment. An
interrupted run resumes there with the same number of segments, so the items of a page may be processed twice,
and the work must be idempotent. The progress items are deleted after the last segment.
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

from chalicelib.dynamo.items import Item, Key, Range, pack, unpack
from chalicelib.dynamo.retries import retry
from chalicelib.dynamo.table import Table
from ops.maintenance.pace import Pace, RateLimiter

PAGE = 200  # items per page of a scan with progress or with a rate limit
SEGMENT_FIELDS = {"pk", "sk", "total", "start", "over"}

Work = Callable[[Item], str]
"""Processes an item and returns the name of the count to increment, or an empty string."""


@dataclass
class Segment:
    """A part of the table, its position and its counts, including those of interrupted runs."""

    number: int
    total: int
    start: dict[str, str] | None = None
    done: Counter[str] = field(default_factory=Counter)
    is_over: bool = False

    def item(self, progress_pk: str) -> Item:
        """Build the item that saves the progress."""
        start = {"start": self.start} if self.start else {}
        saved = segment_key(progress_pk, self.number)._asdict() | {"total": self.total, "over": self.is_over}
        return saved | start | dict(self.done)


def segment_key(progress_pk: str, number: int) -> Key:
    """Build the key of a segment's progress."""
    return Key(progress_pk, f"SEGMENT#{number:04}")


def process_table(
    table: Table,
    progress_pk: str,
    pace: Pace,
    work: Work,
    report: Callable[[Counter[str]], None],
) -> Counter[str]:
    """Process every item of a table. Return the number `read` and the counts that `work` names.

    An interrupted run resumes with its number of segments. Progress is not saved if `progress_pk` is empty.
    `report` gets the counts of each page. An interrupt stops the run after the current page. A page has 1 MB,
    or 200 items with progress or a rate limit.

    Cost: 1 RCU per 4 KB of the table, 1 WCU per saved page, and the work.
    """
    parts = (progress_pk and _load_segments(table, progress_pk)) or [
        Segment(i, pace.segments) for i in range(pace.segments)
    ]
    limiter = RateLimiter(pace.rate)
    if len(parts) < (count := parts[0].total):  # interrupted while it saved the new segments
        known = {part.number for part in parts}
        parts += [Segment(i, count) for i in range(count) if i not in known]
    table.batch_put(part.item(progress_pk) for part in parts if progress_pk)
    stop = threading.Event()
    limit = PAGE if progress_pk or limiter.is_slow else None

    def visit(part: Segment) -> None:
        while not part.is_over and not stop.is_set():
            page, last = read_page(table, part, limit)
            limiter.wait(len(page))
            before = part.done.copy()
            for item in page:
                part.done["read"] += 1
                if word := work(item):
                    part.done[word] += 1
            part.start, part.is_over = last, last is None
            if progress_pk:
                table.put(part.item(progress_pk))
            report(part.done - before)

    run_in_threads([lambda part=part: visit(part) for part in parts if not part.is_over], stop)  # type: ignore[misc]
    for part in parts if progress_pk else ():
        table.delete(segment_key(progress_pk, part.number))
    return sum((part.done for part in parts), Counter())


def read_page(
    table: Table, part: Segment, limit: int | None = None
) -> tuple[list[Item], dict[str, str] | None]:
    """Read a segment's next page. Return its items and the start of the following page.

    Cost: 1 RCU per 4 KB.
    """
    request: Any = {"TableName": table.name, "ConsistentRead": True}
    request |= {"Segment": part.number, "TotalSegments": part.total}
    if limit:
        request["Limit"] = limit
    if part.start:
        request["ExclusiveStartKey"] = pack(part.start)
    response = retry(lambda: table.client.scan(**request), time.sleep)
    last = response.get("LastEvaluatedKey")
    return [unpack(item) for item in response["Items"]], unpack(last) if last else None


def run_in_threads(calls: list[Callable[[], None]], stop: threading.Event) -> None:
    """Run calls in threads. An error or an interrupt sets `stop` for the others."""
    with ThreadPoolExecutor(max(1, len(calls))) as pool:
        runs = [pool.submit(call) for call in calls]
        try:
            wait_for(runs, return_when=FIRST_EXCEPTION)
        finally:
            stop.set()
    for run in runs:
        run.result()


def _load_segments(table: Table, progress_pk: str) -> list[Segment]:
    """Read the progress of an interrupted run."""
    return [
        Segment(
            int(item["sk"].split("#")[1]),
            item["total"],
            item.get("start"),
            Counter({name: value for name, value in item.items() if name not in SEGMENT_FIELDS}),
            item["over"],
        )
        for item in table.query(Range(progress_pk), limit=10_000, consistent=True).items
    ]
