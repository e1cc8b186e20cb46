"""Parts of a ranking in order, each entry with its rank: a page, from a place, around a player."""

import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from chalicelib.dynamo.table import Table
from chalicelib.ranking import entries, ranking
from chalicelib.ranking.entries import Entry
from chalicelib.ranking.ranking import Position, Ranking


class Listed(NamedTuple):
    """An entry with its rank."""

    rank: int
    entry: Entry


class Part(NamedTuple):
    """Some entries that follow each other, and whether others come after them."""

    items: list[Listed]
    goes_on: bool


def read(table: Table, held: Ranking, limit: int, *, below: int = 0, place: int = 0, around: int = 0) -> Part:
    """Answer up to so many entries: strictly below a number, or around one, or from a place, or the top.

    The one around which it is is in the middle, as far as there are so many on both sides. Costs 0.5 RCU per
    4 KB of index (about 25 entries), and for each level of the tree unless it is the top: for a place each in
    a round trip of its own.
    """
    first = None
    if around and not below:
        found = _around(table, held, limit, around)
    elif place > 1 and not below:
        first, found = _from(table, held, limit + 1, place)
    else:
        found = entries.down(table, held, limit + 1, below or entries.TOP)
        first = None if below else Position(1, 0, 0)
    ranks = _ranks(table, held, found, first)
    items = [Listed(rank, entry) for rank, entry in zip(ranks, found[:limit], strict=False)]
    return Part(items, len(found) > limit)


def _from(table: Table, held: Ranking, limit: int, place: int) -> tuple[Position | None, list[Entry]]:
    """Answer the entries from a place on, and where the first of them stands."""
    start = ranking.at_place(table, held, place)
    if start is None:
        return None, []
    found = entries.down(table, held, limit + start.skipped, start.below)[start.skipped :]
    is_there = found and found[0].merit == start.merit  # else the index is not where the tree is
    return start.position if is_there else None, found


def _around(table: Table, held: Ranking, limit: int, number: int) -> list[Entry]:
    """Answer the entries on both sides of a number and the one that has it; one more if others follow.

    A player who passes the number between the two reads is listed once, below it.
    """
    begun = entries.up(table, held, limit, number)
    worse = entries.down(table, held, limit + 1, number + 1)
    below = {entry.player for entry in worse}
    better = [entry for entry in begun() if entry.player not in below]
    ahead = max(limit // 2, limit - len(worse))
    return [*reversed(better[:ahead]), *worse][: limit + 1]


def _ranks(table: Table, held: Ranking, found: Sequence[Entry], position: Position | None) -> Iterator[int]:
    """Rank entries that follow each other: the first by its position, read unless it is known, then on."""
    if not found:
        return
    first = found[0].merit
    if position is None:
        position = ranking.position(held, first, table.get_many(ranking.path_keys(held, first)))
    rank, equal = position.rank, max(position.equal, sum(entry.merit == first for entry in found))
    yield rank
    started = 0
    for i, (before, entry) in enumerate(itertools.pairwise(found), 1):
        if entry.merit != before.merit:
            rank, started = rank + (equal if before.merit == first else i - started), i
        yield rank
