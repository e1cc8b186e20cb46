"""How a page of comments is found: decided from the statistics alone, by what each way is expected to cost.

`all`     the product's own partition, newest first: no filter is asked for
`filter`  the same, and what does not match is left out: good when most comments match
`merge`   a sub-query of gsi2 for each rating and language that has comments, merged by time: good when few do
`none`    no comment matches: nothing is read

A filtered reading stops when it has cost as much as the merge would, and the merge goes on from there: so bad
luck (all matching comments are old) at most doubles the cost of a page. Where the merge would need too many
sub-queries the page ends there, and its cursor goes on.
"""

import math
from collections.abc import Iterable, Mapping
from typing import Literal, NamedTuple

from chalicelib.comments.comments import OVERHEAD
from chalicelib.comments.statistics import counts
from chalicelib.dynamo.items import Item

SUB_QUERIES = 40  # of one page: 20 RCU at least
MOST = 64.0  # RCU of a filtered reading, at most: half a megabyte, some 1,000 comments
Way = Literal["all", "filter", "merge", "none"]
BLOCK, UNIT = 4096, 0.5  # bytes, and the RCU that each begun one costs


class Cell(NamedTuple):
    """The comments of one language and rating, and how many there are."""

    language: str
    rating: int
    matches: int


class Decision(NamedTuple):
    """How to find a page, and why: among `total` comments `matching` ones, of which each cell has some.

    `skipped` cells have none. A filtered reading looks at `reads` comments at most.
    """

    way: Way
    cells: tuple[Cell, ...] = ()
    skipped: int = 0
    matching: int = 0
    total: int = 0
    reads: int = 0
    expected: Mapping[str, float] = {}


def decide(
    whole: Item, languages: Mapping[str, Item], ratings: frozenset[int], limit: int, *, complete: bool = True
) -> Decision:
    """Decide how to find `limit` comments of these ratings in these languages, from their counts.

    `whole` has the counts of all languages; without `complete` there are languages beyond those given.
    """
    asked = [
        Cell(language, rating, counts(item)[rating - 1])
        for language, item in sorted(languages.items())
        for rating in sorted(ratings)
    ]
    cells = tuple(cell for cell in asked if cell.matches > 0)
    total, skipped = sum(counts(whole)), len(asked) - len(cells)
    matching = sum(cell.matches for cell in cells) if complete else sum(counts(whole)[r - 1] for r in ratings)
    if matching <= 0:
        return Decision("none", cells, skipped, total=total)
    size = max(OVERHEAD, whole.get("size", 0) / max(1, total))
    reach = min(total, _looked_at(limit, matching, total))
    expected = {"filter": units(reach * size)}
    if complete and len(cells) <= SUB_QUERIES:
        expected["merge"] = sum(units(share(cell, limit, matching) * size) for cell in cells)
    way: Way = "merge" if expected.get("merge", math.inf) < expected["filter"] else "filter"
    reads = math.ceil(min(expected.get("merge", math.inf), MOST) / UNIT * BLOCK / size)
    return Decision(way, cells, skipped, matching, total, reads, expected)


def share(cell: Cell, limit: int, matching: int) -> int:
    """Say how many comments of a cell to ask for at first, so that a page of `limit` seldom needs more.

    What is expected of `limit` random ones among all that match, and two standard deviations; where that is
    all of the cell, one more, so that its end is seen.
    """
    expected = limit * cell.matches / max(1, matching)
    return max(1, min(cell.matches + 1, limit, math.ceil(expected + 2 * math.sqrt(expected))))


def units(size: float) -> float:
    """Compute the RCU of one query that reads so many bytes."""
    return max(1, math.ceil(size / BLOCK)) * UNIT


def chunk(missing: int, decision: Decision) -> int:
    """Say how many comments a filtered reading looks at next, to find so many more."""
    return _looked_at(missing, decision.matching, decision.total)


def _looked_at(missing: int, matching: int, total: int) -> int:
    """Say among how many comments so many matching ones are found, most times."""
    needed = missing + (math.sqrt(missing) if matching < total else 0)
    return max(missing, math.ceil(needed * total / matching))


def only(items: Iterable[Item], languages: frozenset[str], ratings: frozenset[int]) -> list[Item]:
    """Leave out the comments that do not match; no languages stand for all."""
    return [
        item
        for item in items
        if item.get("rating") in ratings and (not languages or item.get("language") in languages)
    ]
