"""Exact lists of the largest sums, read from an index whose entries move in steps.

The index key of an aggregate is a step: at most its sum, and near it. So an entry moves only when the sum
crosses a step, about every fourth addition at first, and O(log n) times for a large sum. A list is exact
nevertheless. Entries are read with their exact sums until no entry that was not read can have a larger sum
than the last one of the list.
"""

from collections.abc import Callable
from typing import NamedTuple

from chalicelib.dynamo.items import Item, Key
from chalicelib.dynamo.table import Table

LEAST = 4  # between two steps
SHARE = 8  # a step is an eighth above the one before, or LEAST where that is more
CANDIDATES = 200  # entries that are read beside those of the list, at most
MOST = 10**30


class TopList(NamedTuple):
    """Items with their sums, largest first. If not `complete`, an entry that was not read may be larger."""

    items: list[tuple[Item, int]]
    complete: bool


def next_step(step: int) -> int:
    """Return the step after one."""
    return step + max(LEAST, step // SHARE) if step > 0 else 1


def step_of(total: int) -> int:
    """Return the greatest step that a sum has reached.

    >>> [step_of(total) for total in (0, 1, 4, 5, 32, 33, 36, 37, 40, 41)]
    [0, 1, 1, 5, 29, 33, 33, 37, 37, 41]
    """
    step = 0
    while (following := next_step(step)) <= total:
        step = following
    return step


def read_largest(
    table: Table,
    partition: str,
    limit: int,
    total: Callable[[Item], int],
    *,
    least: int = 1,
    ties: int = 0,
) -> TopList:
    """Return the items of a gsi1 partition with the largest sums, and by partition key where they tie.

    Every index key must be at most the item's sum, which must be less than `next_step` of the key. Items with
    a sum below `least` are left out. Where a tie goes on past the end of the list, up to `ties` more entries
    are read to sort it.

    Cost: 0.5 RCU per 4 KB of index (about 35 entries), and 0.5 RCU for each entry that is read. Usually half
    as many again as are returned are read, and at most 200 more.
    """
    found: dict[Key, tuple[Item, int]] = {}
    start: Item | None = None
    bounds = step_of(least), MOST
    while True:
        size = limit + limit // 2 + 5
        page = table.query(partition, bounds, index="gsi1", limit=size, start=start, newest_first=True)
        items = table.get_many(Key(entry["pk"], entry["sk"]) for entry in page.items)
        found |= {key: (item, total(item)) for key, item in items.items() if total(item) >= least}
        listed = sorted(found.values(), key=lambda one: (-one[1], one[0]["pk"]))[:limit]
        if page.next is None:
            return TopList(listed, True)
        unread = next_step(int(page.items[-1]["gsi1sk"])) - 1 if page.items else MOST
        last = listed[-1][1] if len(listed) == limit else -1
        if last > unread or (last == unread and len(found) >= limit + ties):
            return TopList(listed, True)
        if len(found) >= limit + CANDIDATES:
            return TopList(listed, last >= unread)
        start = page.next
