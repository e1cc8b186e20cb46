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

A page has at most 64 KB. Where comments are long, a plan is for as many as fit. The sizes of comments are not
known before they are read. So up to 24 are read at a time, and no more than UNITS allow if all of them are
the longest.

Nothing here reads or writes the table.
"""

import math
from collections.abc import Iterable, Mapping
from typing import Literal, NamedTuple

from chalicelib.api import listing
from chalicelib.comments.comments import OVERHEAD
from chalicelib.comments.statistics import read_cells
from chalicelib.dynamo.items import Item

UNITS = 85.0  # RCU of the comments of a page, at most, beside those of their counters
LONGEST = 3.5  # RCU of the longest comment: 20 KB of text, an author, a name and its counters
TOGETHER = 24  # comments that a page reads at a time
SUB_QUERIES = TOGETHER  # of one page, at most
MOST = 32.0  # RCU of a filtered reading, at most: a quarter of a megabyte, about 500 comments
FIRST = 20  # comments of unknown lengths that a page expects to have room for: it reads one more
DENSE = 400  # counters that one query reads, at most: 7.5 RCU
NEAR = 5  # counters that one query reads for each comment between many others
COUNTERS = 150  # bytes of the counters of a comment
Way = Literal["all", "filter", "merge", "votes", "none"]
BLOCK, UNIT = 4096, 0.5  # each started block of 4,096 bytes costs 0.5 RCU


class Cell(NamedTuple):
    """A language and rating, and the number of its comments. The rating 0 is that of comments without one."""

    language: str
    rating: int
    matches: int


class Statistics(NamedTuple):
    """The counts of a product, and those of languages. Without `is_complete` there are more languages."""

    whole: Item
    languages: Mapping[str, Item]
    is_complete: bool = True


class Decision(NamedTuple):
    """A plan. `matching` of `total` comments match, and each of `cells` has at least one of them.

    `skipped` is the number of cells without comments. A filtered reading ends when it has cost `budget` RCU.
    A page probably has room for `limit` comments. `expected` has the RCU that each possible plan is expected
    to cost.
    """

    way: Way
    cells: tuple[Cell, ...] = ()
    skipped: int = 0
    matching: int = 0
    total: int = 0
    budget: float = 0
    limit: int = 0
    expected: Mapping[str, float] = {}

    @property
    def is_dense(self) -> bool:
        """Return whether one query probably reads the counters of the matching comments of a page."""
        return self.limit * self.total <= DENSE * self.matching


UNFILTERED = Decision("all", matching=1, total=1, budget=UNITS, limit=FIRST)
"""The plan of a page without a filter."""


def decide(statistics: Statistics, ratings: frozenset[int], limit: int) -> Decision:
    """Choose the plan for `limit` comments of these ratings in the languages of the statistics."""
    whole, languages, complete = statistics
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
    between = limit * total / matching
    counted = estimate_units(between * COUNTERS) if between <= DENSE else UNIT * limit
    expected = {"filter": counted + _estimate_chunks(needed, size)}
    if complete and len(cells) <= SUB_QUERIES:
        expected["merge"] = counted + sum(
            _estimate_sub_query(cell, len(cells), limit, matching, size) for cell in cells
        )
    way: Way = "merge" if expected.get("merge", math.inf) < expected["filter"] else "filter"
    budget = 0 if way == "merge" else min(expected.get("merge", math.inf), MOST)
    return Decision(way, cells, skipped, matching, total, budget, limit, expected)


def _estimate_chunks(needed: int, size: float) -> float:
    """Return the RCU of reading some comments, TOGETHER at a time."""
    whole, rest = divmod(needed, TOGETHER)
    return whole * estimate_units(TOGETHER * size) + (estimate_units(rest * size) if rest else 0)


def _estimate_sub_query(cell: Cell, sub_queries: int, limit: int, matching: int, size: float) -> float:
    """Return the RCU of a sub-query that reads its share at a time."""
    each = min(first_size(cell, limit, matching), TOGETHER // sub_queries)
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
    """Return how many comments to read next, to find `missing` more and see whether others follow."""
    return _estimate_reads(missing, decision.matching, decision.total) + 1


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
