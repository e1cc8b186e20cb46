"""Entries of a ranking in order: from the top, after an entry, from a place, or around a player.

The items are those of `ranking.py`. An entry is found through gsi1, whose sort key is the entry's number. A
ranking with several shards has its entries in several partitions of gsi1, which are merged in order here.

Invariant: a list never has a player twice, also when a player moves while the list is read.
"""

import heapq
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import NamedTuple

from chalicelib.concurrency import submit
from chalicelib.dynamo.items import Item
from chalicelib.dynamo.table import Page, Table
from chalicelib.ranking.ranking import (
    Position,
    Ranking,
    compute_position,
    find_place,
    path_keys,
    player_of,
    shard_key,
)
from chalicelib.ranking.tree import TIE

TOP = 10**38 - 1  # above every entry's number
SHARD_PAGE = 4  # entries that are read of a shard at least, so that an even spread needs no second page


class Entry(NamedTuple):
    """A player's entry. Its number orders it among all entries of the ranking."""

    number: int
    player: str

    @property
    def merit(self) -> int:
        """Return the merit, which the number begins with."""
        return self.number // TIE


class RankedEntry(NamedTuple):
    """An entry with its rank."""

    rank: int
    entry: Entry


class EntriesPage(NamedTuple):
    """Consecutive entries, and whether others come after them."""

    items: list[RankedEntry]
    has_more: bool


# -- entries with ranks --------------------------------------------------------------------------------


def list_ranked(
    table: Table, ranking: Ranking, limit: int, *, below: int = 0, place: int = 0, around: int = 0
) -> EntriesPage:
    """Return up to `limit` entries with their ranks, best first.

    The page begins at the top by default. With `below` it begins strictly below a number, with `place` at
    a place (from 1). With `around` the entry of that number is in the middle, as far as there are enough
    entries on both sides. `below` takes precedence over the other two.

    Cost: 0.5 RCU per 4 KB of index (about 25 entries). A page that does not begin at the top costs 0.5 RCU
    more for each level of the tree. The levels of a place are read one after the other.
    """
    first = None
    if around and not below:
        entries = _list_around(table, ranking, limit, around)
    elif place > 1 and not below:
        first, entries = _list_from_place(table, ranking, limit + 1, place)
    else:
        entries = list_below(table, ranking, limit + 1, below or TOP)
        first = None if below else Position(1, 0, 0)
    ranks = _ranks(table, ranking, entries, first)
    items = [RankedEntry(rank, entry) for rank, entry in zip(ranks, entries[:limit], strict=False)]
    return EntriesPage(items, len(entries) > limit)


def _list_from_place(
    table: Table, ranking: Ranking, limit: int, place: int
) -> tuple[Position | None, list[Entry]]:
    """Return the entries from a place on, and the position of the first one where it is known."""
    start = find_place(table, ranking, place)
    if start is None:
        return None, []
    entries = list_below(table, ranking, limit + start.skipped, start.below)[start.skipped :]
    is_current = entries and entries[0].merit == start.merit  # else the index is ahead of the tree, or behind
    return start.position if is_current else None, entries


def _list_around(table: Table, ranking: Ranking, limit: int, number: int) -> list[Entry]:
    """Return the entry of a number with its neighbours, and one entry more if others follow.

    A player who passes the number between the two reads is listed once, below it.
    """
    read_better = start_listing_above(table, ranking, limit, number)
    worse = list_below(table, ranking, limit + 1, number + 1)
    below = {entry.player for entry in worse}
    better = [entry for entry in read_better() if entry.player not in below]
    ahead = max(limit // 2, limit - len(worse))
    return [*reversed(better[:ahead]), *worse][: limit + 1]


def _ranks(
    table: Table, ranking: Ranking, entries: Sequence[Entry], position: Position | None
) -> Iterator[int]:
    """Yield the ranks of consecutive entries. The first entry's position is read unless it is given."""
    if not entries:
        return
    first = entries[0].merit
    if position is None:
        position = compute_position(ranking, first, table.get_many(path_keys(ranking, first)))
    rank, equal = position.rank, max(position.equal, sum(entry.merit == first for entry in entries))
    yield rank
    started = 0
    for i, (before, entry) in enumerate(itertools.pairwise(entries), 1):
        if entry.merit != before.merit:
            rank, started = rank + (equal if before.merit == first else i - started), i
        yield rank


# -- entries -------------------------------------------------------------------------------------------


def list_below(table: Table, ranking: Ranking, limit: int, number: int = TOP) -> list[Entry]:
    """Return the next entries from best to worst, strictly below a number.

    Cost: 0.5 RCU per 4 KB of index (about 25 entries), in each shard.
    """
    return _start_listing(table, ranking, (1, number - 1), limit, best_first=True)()


def start_listing_above(table: Table, ranking: Ranking, limit: int, number: int) -> Callable[[], list[Entry]]:
    """Start to read the next entries from worst to best, strictly above a number.

    Return a function that waits for the entries and returns them.

    Cost: as for `list_below`.
    """
    return _start_listing(table, ranking, (max(number, 0) + 1, TOP), limit, best_first=False)


def _start_listing(
    table: Table, ranking: Ranking, bounds: tuple[int, int], limit: int, *, best_first: bool
) -> Callable[[], list[Entry]]:
    """Start to read the first page of each shard. The returned function merges the shards' entries."""
    if bounds[0] > bounds[1] or limit < 1:
        return list
    size = limit if ranking.shards == 1 else max(SHARD_PAGE, 2 * -(-limit // ranking.shards))

    def read_page(shard: int, start: Item | None = None) -> Page:
        return table.query(
            shard_key(ranking.name, shard),
            bounds,
            index="gsi1",
            limit=size,
            start=start,
            newest_first=best_first,
        )

    first_pages = [submit(partial(read_page, shard)) for shard in range(ranking.shards)]

    def merge() -> list[Entry]:
        shards = [_shard_entries(read_page, shard, page.result()) for shard, page in enumerate(first_pages)]
        merged = heapq.merge(*shards, key=lambda entry: entry.number, reverse=best_first)
        return list(islice(_unique_players(merged), limit))

    return merge


def _unique_players(entries: Iterable[Entry]) -> Iterator[Entry]:
    """Yield each player's first entry. A player who moves during the reads may be found twice."""
    seen: set[str] = set()
    for entry in entries:
        if entry.player not in seen:
            seen.add(entry.player)
            yield entry


def _shard_entries(
    read_page: Callable[[int, Item | None], Page], shard: int, first_page: Page
) -> Iterator[Entry]:
    """Yield a shard's entries, and read its next page when one is used up."""
    page = first_page
    while True:
        for item in page.items:
            yield Entry(item["gsi1sk"], player_of(item))
        if page.next is None:
            return
        page = read_page(shard, page.next)
