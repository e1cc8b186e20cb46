"""Exact lists of the largest sums, read from an index whose entries move in steps.

The index key of an aggregate is a step: at most its sum, and near it. So an entry moves only when the sum
crosses a step, about every fourth addition at first, and O(log n) times for a large sum. A list is exact
nevertheless. Entries are read with their exact sums until no entry that was not read can have a larger sum
than the last one of the list.

A period has one list for each day, and an entry's sum is that of its days. The lists' steps bound the sum of
each entry. A day on which it was read adds less than the next step. A day on which it was not read adds at
most what an unread entry may have. Entries are read with their exact sums in the order of these bounds, until
no other bound is above the last sum of the list. Source: R. Fagin, A. Lotem and M. Naor, "Optimal aggregation
algorithms for middleware", 2001.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from chalicelib.concurrency import map_concurrently
from chalicelib.dynamo.items import Item, Key
from chalicelib.dynamo.table import Table

LEAST = 4  # between two steps
SHARE = 8  # a step is an eighth above the one before, or LEAST where that is more
CANDIDATES = 200  # entries that are read beside those of the list, at most
MOST = 10**30
FIRST = 35  # entries of each day's list that are read at first: 0.5 RCU
DEEPER = 4_000  # entries that are read then, of all lists together, if the first ones do not prove the result
DAYS = 6_000  # days of entries that are read for their sums; the last group of entries may double it


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


def derive_step(item: Item, attribute: str) -> dict[str, Any] | None:
    """Return the update that moves an index key to the step of a sum, or None if it is there."""
    total = item.get(attribute, 0)
    step = step_of(total)
    if step == item.get("gsi1sk", 0):
        return None
    return {
        "expression": "SET gsi1sk = :step" if step else "REMOVE gsi1sk",
        "condition": "#sum = :sum",
        "names": {"#sum": attribute},
        "values": {":sum": total, **({":step": step} if step else {})},
    }


def read_largest(
    table: Table,
    partition: str,
    limit: int,
    attribute: str,
    *,
    least: int = 1,
    ties: int = 0,
) -> TopList:
    """Return the items of a gsi1 partition with the largest sums, and by partition key where they tie.

    The sum of every item must be less than `next_step` of its index key. Items with
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
        totals = {key: int(item.get(attribute, 0)) for key, item in items.items()}
        found |= {key: (item, totals[key]) for key, item in items.items() if totals[key] >= least}
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


# -- periods -------------------------------------------------------------------------------------------


class Largest(NamedTuple):
    """Partition keys with their sums, largest first. If not `complete`, another entry may be larger."""

    items: list[tuple[str, int]]
    complete: bool


class _DayList(NamedTuple):
    """The entries of a day's list that were read (partition key and step), and where the next ones begin."""

    partition: str
    steps: dict[str, int]
    next: Item | None
    day: str = ""  # the sort key of its entries

    def may_have(self, pk: str) -> bool:
        """Return whether an entry may have a sum on this day."""
        return pk in self.steps or self.next is not None

    @property
    def unread(self) -> int:
        """Return the largest sum that an entry may have that was not read."""
        return next_step(min(self.steps.values(), default=MOST)) - 1 if self.next else 0


def read_largest_of_days(
    table: Table, partitions: Sequence[str], bounds: tuple[str, str], limit: int, attribute: str
) -> Largest:
    """Return the partition keys whose items have the largest sums of an attribute in a period.

    `partitions` are the gsi1 partitions of the period's days. `bounds` are the first and the last sort key of
    an entry's days. Every index key must be a step of the attribute, as for `read_largest`.

    The result is exact, or says that it may not be. Work is bounded, so it may also be shorter than `limit`.

    Cost: 0.5 RCU for each day, and 0.5 RCU for each entry and 4 KB of its days (about five). Usually a third
    more entries are read than are returned, and at most 12,000 of their days. Where the first entries of the
    lists do not prove the result, up to 60 RCU and another 0.5 RCU for each day. Entries that can have a sum
    on one day only, by the lists that were read, are read 100 in a call, the others one in a call.
    """
    lists = map_concurrently(lambda one: _read_list(table, _DayList(one, {}, {}), FIRST), partitions)
    totals: dict[str, int] = {}

    def read(pk: str) -> tuple[str, int]:
        page = table.query(pk, bounds, limit=len(partitions), attributes=("pk", attribute))
        return pk, sum(int(item.get(attribute, 0)) for item in page.items)

    def add(lists: Sequence[_DayList], pks: Sequence[str]) -> None:
        days = {pk: [one.day for one in lists if one.may_have(pk)] for pk in pks}
        items = table.get_many(Key(pk, which[0]) for pk, which in days.items() if len(which) == 1)
        found = {key.pk: int(item.get(attribute, 0)) for key, item in items.items()}
        totals.update(dict.fromkeys(pks, 0) | found)
        totals.update(map_concurrently(read, [pk for pk, which in days.items() if len(which) > 1]))

    found = _rank(lists, totals, add, limit)
    if not found.complete and (open_lists := [one for one in lists if one.next]):
        size = DEEPER // len(open_lists)
        deeper = map_concurrently(lambda one: _read_list(table, one, size) if one.next else one, lists)
        found = _rank(deeper, totals, add, limit)
    return found


def _read_list(table: Table, seen: _DayList, size: int) -> _DayList:
    page = table.query(seen.partition, index="gsi1", limit=size, start=seen.next or None, newest_first=True)
    steps = seen.steps | {item["pk"]: int(item["gsi1sk"]) for item in page.items}
    return _DayList(seen.partition, steps, page.next, page.items[0]["sk"] if page.items else seen.day)


def _rank(
    lists: Sequence[_DayList],
    totals: dict[str, int],
    add: Callable[[Sequence[_DayList], Sequence[str]], None],
    limit: int,
) -> Largest:
    """Read the sums of entries in the order of their upper bounds until the list is proven, or too long."""
    ceiling = sum(one.unread for one in lists)  # the sum that an entry may have that no list has shown
    above: dict[str, int] = {}
    for one in lists:
        for pk, step in one.steps.items():
            above[pk] = above.get(pk, ceiling) + next_step(step) - 1 - one.unread
    candidates = sorted(above, key=lambda pk: (-above[pk], pk))
    most = max(1, DAYS // max(1, len(lists)))  # entries
    place = 0
    while True:
        positive = [(pk, total) for pk, total in totals.items() if total > 0]
        listed = sorted(positive, key=lambda one: (-one[1], one[0]))[:limit]
        last = listed[-1][1] if len(listed) == limit else 0
        following = above[candidates[place]] if place < len(candidates) else 0
        if last >= following or len(totals) >= most:
            return Largest(listed, last >= max(following, ceiling))
        group = candidates[place : place + min(most, max(limit - place, 8))]
        add(lists, [pk for pk in group if pk not in totals])
        place += len(group)
