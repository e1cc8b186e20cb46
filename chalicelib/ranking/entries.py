"""Entries of a ranking in order, from the index.

A ranking with several shards has its entries in several partitions of gsi1, which are merged in order here.

Invariant: a list never has a player twice, also when a player moves while the list is read.
"""

import heapq
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import islice
from typing import NamedTuple

from chalicelib.concurrency import submit
from chalicelib.dynamo.items import Item, Key, Range
from chalicelib.dynamo.table import Page, Table
from chalicelib.ranking.ranking import Ranking, shard_key
from chalicelib.ranking.tree import TIE

TOP = 10**38 - 1  # above every number
SHARD_PAGE = 4  # entries that are read of a shard at least, so that an even spread needs no second page


class Entry(NamedTuple):
    """A player's entry in the index: the number that orders it, and the key of the player's item."""

    number: int
    key: Key

    @property
    def merit(self) -> int:
        """Return the merit, which the number begins with."""
        return self.number // TIE

    @property
    def player(self) -> str:
        """Return the player. No name contains a `#`."""
        return self.key.pk.rpartition("PLAYER#")[2]


def start_listing_below(
    table: Table, ranking: Ranking, limit: int, number: int = TOP, least: int = 1
) -> Callable[[], list[Entry]]:
    """Start to read the next entries from best to worst, strictly below a number, down to the least one.

    Return a function that waits for the entries and returns them.

    Cost: 0.5 RCU per 4 KB of index (about 30 entries), in each shard.
    """
    return _start_listing(table, ranking, (least, number - 1), limit, best_first=True)


def start_listing_above(
    table: Table, ranking: Ranking, limit: int, number: int, most: int = TOP
) -> Callable[[], list[Entry]]:
    """Start to read the next entries from worst to best, strictly above a number, up to the most.

    Return a function that waits for the entries and returns them.

    Cost: as for `start_listing_below`.
    """
    return _start_listing(table, ranking, (max(number, 0) + 1, most), limit, best_first=False)


def _start_listing(
    table: Table, ranking: Ranking, bounds: tuple[int, int], limit: int, *, best_first: bool
) -> Callable[[], list[Entry]]:
    """Start to read the first page of each shard. The returned function merges the shards' entries."""
    if bounds[0] > bounds[1] or limit < 1:
        return list
    size = limit if ranking.shards == 1 else max(SHARD_PAGE, 2 * -(-limit // ranking.shards))

    def read_page(shard: int, start: Item | None = None) -> Page:
        return table.query(
            Range(shard_key(ranking, shard), bounds, "gsi1"),
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
        if entry.key.pk not in seen:
            seen.add(entry.key.pk)
            yield entry


def _shard_entries(
    read_page: Callable[[int, Item | None], Page], shard: int, first_page: Page
) -> Iterator[Entry]:
    """Yield a shard's entries, and read its next page when one is used up."""
    page = first_page
    while True:
        for item in page.items:
            yield Entry(item["gsi1sk"], Key(item["pk"], item["sk"]))
        if page.next is None:
            return
        page = read_page(shard, page.next)
