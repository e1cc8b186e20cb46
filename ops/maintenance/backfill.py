"""Brings the comments that were written before there were sums into them, while traffic goes on.

A comment counts from the moment that it has its stamp (`counted`). The backfill reads the whole table in
parallel segments and touches each comment without a stamp, on condition that it still has none and is what
was read. The touch goes through the stream like any other change, so each comment enters once, whatever is
written, edited or deleted meanwhile: an edit stamps a comment too, and what is deleted has never counted.
With the stamp a comment gets its place in gsi2, and its author's item unless the author has another one.

How a run is parted, noted and gone on with after it was killed is in segments.py: what it had touched of a
page is not touched again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from chalicelib.comments import comments
from chalicelib.comments.comments import COMMENT
from chalicelib.dynamo.items import Item
from chalicelib.dynamo.table import Table
from ops.maintenance import scan as parts
from ops.maintenance.scan import Pace

PLACE = "BACKFILL#comments"


@dataclass
class Done:
    """What was done: items read, comments touched, and those that cannot be."""

    read: int = 0
    touched: int = 0
    malformed: int = 0


def run(table: Table, segments: int, rate: float | None, tick: Callable[[Done], None]) -> Done:
    """Touch every comment without a stamp; answer what was done, by the runs before this one too.

    `tick` hears of each page. At most `rate` comments a second. Interrupted, it stops after the page. Costs
    1 RCU per 4 KB of the table, 1 WCU for each page of 200 items, and for each comment of 1 KB 2 WCU, 2 of
    index and 2 for its author's item.
    """
    pace = Pace(rate)

    def touch(item: Item) -> str:
        if not (item["pk"].startswith("PRODUCT#") and item["sk"].startswith(COMMENT)) or "counted" in item:
            return ""
        pace.wait()
        touched = comments.add_to_sums(table, item)
        return "malformed" if touched is None else "touched" if touched else ""

    return _done(parts.run(table, PLACE, segments, touch, lambda counts: tick(_done(counts))))


def _done(counts: Counter[str]) -> Done:
    return Done(counts["read"], counts["touched"], counts["malformed"])
