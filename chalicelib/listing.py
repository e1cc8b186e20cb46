"""Parts of a ranking in order, each entry with its rank: a page, from a place, around a player."""

import itertools
from collections.abc import Iterator, Sequence
from functools import partial
from typing import NamedTuple

from chalicelib import ladder, ranking
from chalicelib.ladder import Entry
from chalicelib.ranking import Ranking
from chalicelib.ranktree import TIE
from chalicelib.table import Table


class Listed(NamedTuple):
    """An entry with its rank."""

    rank: int
    number: int
    player: str

    @property
    def merit(self) -> int:
        """Answer the merit that the number begins with."""
        return self.number // TIE


class Part(NamedTuple):
    """Some entries that follow each other, and whether others come after them."""

    items: list[Listed]
    goes_on: bool


def read(table: Table, held: Ranking, limit: int, *, below: int = 0, place: int = 0, around: int = 0) -> Part:
    """Answer up to so many entries: strictly below a number, or around one, or from a place, or the top.

    The one around which it is is in the middle, as far as there are so many on both sides. Costs 0.5 RCU per
    4 KB of index (about 25 entries), and for each level of the tree unless it is the top; a place once more
    for each, in as many round trips.
    """
    if around and not below:
        found = _around(table, held, limit, around)
    elif place > 1 and not below:
        found = _from(table, held, limit + 1, place)
    else:
        found = ladder.down(table, held, limit + 1, below or ladder.TOP)
    is_top = not (below or around or place > 1)
    ranks = _ranks(table, held, found, is_top=is_top)
    items = [Listed(rank, *entry) for rank, entry in zip(ranks, found[:limit], strict=False)]
    return Part(items, len(found) > limit)


def _from(table: Table, held: Ranking, limit: int, place: int) -> list[Entry]:
    found = ranking.at_place(table, held, place)
    if found is None:
        return []
    below, skipped = found
    return ladder.down(table, held, limit + skipped, below)[skipped:]


def _around(table: Table, held: Ranking, limit: int, number: int) -> list[Entry]:
    """Answer the entries on both sides of a number and the one that has it; one more if others follow."""
    better = ladder.begin(partial(ladder.up, table, held, limit, number))
    worse = ladder.down(table, held, limit + 1, number + 1)
    ahead = max(limit // 2, limit - len(worse))
    return [*reversed(better.result()[:ahead]), *worse][: limit + 1]


def _ranks(table: Table, held: Ranking, found: Sequence[Entry], *, is_top: bool) -> Iterator[int]:
    """Rank entries that follow each other: the first by the tree, the others by counting on from it."""
    if not found:
        return
    first = found[0].merit
    rank, equal = 1, sum(entry.merit == first for entry in found)
    if not is_top:
        rank, _, counted = ranking.position(held, first, table.get_many(ranking.path_keys(held, first)))
        equal = max(equal, counted)
    yield rank
    started = 0
    for i, (before, entry) in enumerate(itertools.pairwise(found), 1):
        if entry.merit != before.merit:
            rank, started = rank + (equal if before.merit == first else i - started), i
        yield rank
