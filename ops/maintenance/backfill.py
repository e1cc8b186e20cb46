"""Add comments that are older than the aggregates to the aggregates, while the stage serves traffic.

A comment counts once it has a stamp, the attribute `counted`. The backfill scans the table and stamps each
comment without one, on condition that the comment has not changed since it was read. The stream processes the
stamp like any other change.

Invariant: each comment is added once, whatever is edited or deleted meanwhile. An edit stamps a comment too,
and a deleted comment without a stamp has never counted.

The stamp also adds the comment to gsi2, and writes its author's item unless the author has another one.
`scan.py` divides the scan into segments and resumes it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from chalicelib.comments import comments
from chalicelib.comments.comments import COMMENT
from chalicelib.dynamo.items import Item
from chalicelib.dynamo.table import Table
from ops.maintenance import scan
from ops.maintenance.scan import RateLimiter

PROGRESS_PK = "BACKFILL#comments"


@dataclass
class Summary:
    """Counts of items read, comments stamped, and malformed comments."""

    read: int = 0
    touched: int = 0
    malformed: int = 0


def backfill(table: Table, segments: int, rate: float | None, report: Callable[[Summary], None]) -> Summary:
    """Stamp every comment without a stamp, and return the counts, including those of interrupted runs.

    `report` gets the counts of each page. `rate` limits the comments per second. An interrupt stops the run
    after the current page.

    Cost: 1 RCU per 4 KB of the table, 1 WCU per page of 200 items, and per comment of 1 KB 2 WCU, 2 for the
    index and 2 for its author's item.
    """
    limiter = RateLimiter(rate)

    def touch(item: Item) -> str:
        if not (item["pk"].startswith("PRODUCT#") and item["sk"].startswith(COMMENT)) or "counted" in item:
            return ""
        limiter.wait()
        touched = comments.add_to_sums(table, item)
        return "malformed" if touched is None else "touched" if touched else ""

    return _summary(
        scan.process_table(table, PROGRESS_PK, segments, touch, lambda counts: report(_summary(counts)))
    )


def _summary(counts: Counter[str]) -> Summary:
    return Summary(counts["read"], counts["touched"], counts["malformed"])
