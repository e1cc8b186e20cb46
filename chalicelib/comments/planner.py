"""The plan of a page of comments, chosen from the statistics alone by expected cost.

| plan | reads | cheapest when |
|---|---|---|
| `all` | the product's partition, newest first | there is no filter |
| `filter` | the same, and leaves out comments that do not match | most comments match |
| `merge` | one sub-query of gsi2 for each rating and language that has comments, merged by time | few match |
| `none` | nothing | no comment matches |

Invariant: a page costs at most twice what the cheaper plan is expected to cost. A filtered reading stops when
it has cost as much as the merge would, and the merge goes on from there. So a page is cheap even if all
matching comments are old. Where the merge would need too many sub-queries, the page ends early with a cursor.

A page has at most 64 KB. Where comments are long, a plan is for as many as fit. A merge does not know the
sizes of comments before it reads them, so its sub-queries read up to 24 comments together.

Nothing here reads or writes the table.
"""

import math
from collections.abc import Iterable, Mapping
from typing import Literal, NamedTuple

from chalicelib.api import listing
from chalicelib.comments.comments import OVERHEAD
from chalicelib.comments.statistics import read_cells
from chalicelib.dynamo.items import Item

SUB_QUERIES = 40  # of one page, at most: they cost at least 20 RCU
MOST = 32.0  # RCU of a filtered reading, at most: a quarter of a megabyte, about 500 comments
TOGETHER = 24  # comments that the sub-queries of a merge read at a time
COUNTERS = 100  # bytes of the counters of a comment
Way = Literal["all", "filter", "merge", "none"]
BLOCK, UNIT = 4096, 0.5  # each started block of 4,096 bytes costs 0.5 RCU


class Cell(NamedTuple):
    """A language and rating, and the number of its comments. The rating 0 is that of comments without one."""

    language: str
    rating: int
    matches: int


class Decision(NamedTuple):
    """A plan. `matching` of `total` comments match, and each of `cells` has at least one of them.

    `skipped` is the number of cells without comments. A filtered reading reads at most `reads` comments, of
    `room` bytes. A page probably has room for `limit` comments. `expected` has the RCU that each possible
    plan is expected to cost.
    """

    way: Way
    cells: tuple[Cell, ...] = ()
    skipped: int = 0
    matching: int = 0
    total: int = 0
    reads: int = 0
    room: int = 0
    limit: int = 0
    expected: Mapping[str, float] = {}


def unfiltered(limit: int) -> Decision:
    """Return the plan of a page without a filter. Hidden comments among those that are read are left out."""
    return Decision("all", matching=1, total=1, reads=4 * limit, room=listing.PAGE, limit=limit)


def decide(
    whole: Item, languages: Mapping[str, Item], ratings: frozenset[int], limit: int, *, complete: bool = True
) -> Decision:
    """Choose the plan for `limit` comments of these ratings in these languages.

    `whole` has the counts of all languages. Without `complete` there are more languages than those given.
    """
    requested = [
        Cell(language, rating, read_cells(item)[rating])
        for language, item in sorted(languages.items())
        for rating in sorted(ratings)
    ]
    cells = tuple(cell for cell in requested if cell.matches > 0)
    counts = read_cells(whole)
    total, skipped = sum(counts), len(requested) - len(cells)
    matching = sum(cell.matches for cell in cells) if complete else sum(counts[r] for r in ratings)
    if matching <= 0:
        return Decision("none", cells, skipped, total=total)
    size = max(OVERHEAD, whole.get("size", 0) / max(1, total))
    limit = min(limit, max(1, int(listing.PAGE / size)))
    needed = min(total, _estimate_reads(limit, matching, total))
    expected = {"filter": estimate_units(needed * size) + estimate_units(needed * COUNTERS)}
    if complete and len(cells) <= SUB_QUERIES:
        counted = min(estimate_units(limit * total / matching * COUNTERS), UNIT * limit)
        expected["merge"] = counted + sum(
            _estimate_sub_query(cell, len(cells), limit, matching, size) for cell in cells
        )
    way: Way = "merge" if expected.get("merge", math.inf) < expected["filter"] else "filter"
    budget = 0 if way == "merge" else min(expected.get("merge", math.inf), MOST) / UNIT * BLOCK
    reads = math.ceil(budget / (size + COUNTERS))
    return Decision(way, cells, skipped, matching, total, reads, math.ceil(reads * size), limit, expected)


def share(sub_queries: int) -> int:
    """Return how many comments each of some sub-queries reads at a time."""
    return max(1, TOGETHER // sub_queries)


def _estimate_sub_query(cell: Cell, sub_queries: int, limit: int, matching: int, size: float) -> float:
    """Return the RCU of a sub-query that reads its share at a time."""
    each = min(first_size(cell, limit, matching), share(sub_queries))
    expected = limit * cell.matches / matching
    return math.ceil((expected + math.sqrt(expected) / 2) / each) * estimate_units(each * size)


def first_size(cell: Cell, limit: int, matching: int) -> int:
    """Return how many comments of a cell to read first, so that a page of `limit` seldom needs more.

    This is the cell's expected share of `limit` random matching comments, plus two standard deviations. Where
    that is the whole cell, one is added so that the query sees its end.
    """
    expected = limit * cell.matches / max(1, matching)
    return max(1, min(cell.matches + 1, limit, math.ceil(expected + 2 * math.sqrt(expected))))


def estimate_units(size: float) -> float:
    """Return the RCU of one query that reads `size` bytes."""
    return max(1, math.ceil(size / BLOCK)) * UNIT


def next_chunk_size(missing: int, decision: Decision) -> int:
    """Return how many comments a filtered reading reads next, to find `missing` more."""
    return _estimate_reads(missing, decision.matching, decision.total)


def _estimate_reads(missing: int, matching: int, total: int) -> int:
    """Return how many comments to read so that `missing` matching ones are among them most of the time."""
    needed = missing + (math.sqrt(missing) if matching < total else 0)
    return max(missing, math.ceil(needed * total / matching))


def filter_comments(items: Iterable[Item], languages: frozenset[str], ratings: frozenset[int]) -> list[Item]:
    """Return the comments that match. An empty set of languages means all languages."""
    return [
        item
        for item in items
        if item.get("rating", 0) in ratings and (not languages or item.get("language") in languages)
    ]
