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

Invariant: a list costs at most the RCU that its caller allows. A list that these RCU do not prove to be exact
has `complete` false, and may be shorter than requested.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from chalicelib.concurrency import map_concurrently
from chalicelib.dynamo.items import Item, Key, Range, chunks
from chalicelib.dynamo.table import Page, Table

LEAST = 4  # between two steps
SHARE = 8  # a step is an eighth above the one before, or LEAST where that is more
MOST = 10**30
UNITS = 99.5  # RCU of a list, at most, and 100 with its site: ten busy pages of a month and their proof
ITEM = 0.5  # RCU of an aggregate that is read by its key. None has more than 4 KB
ENTRY = 0.25  # RCU of an entry of the index, at most: the longest address has 1,500 bytes. Most take 1/70
FIRST = 35  # entries of a day's list that are read at least: 0.5 RCU
OVERHEAD = 1_500  # bytes of a day's sums beside its partition key, at most


class TopList(NamedTuple):
    """Items with their sums, largest first. If not `complete`, an entry that was not read may be larger."""

    items: list[tuple[Item, int]]
    complete: bool


def next_step(step: int) -> int:
    """Return the step that follows a step."""
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

    The sum of every item must be less than `next_step` of its index key. Items with a sum below `least` are
    left out. If a tie continues after the end of the list, up to `ties` more entries are read to sort it.

    Cost: 0.5 RCU per 4 KB of index (about 35 entries), and 0.5 RCU for each entry that is read. Usually half
    as many again as are returned are read. At most 100 RCU.
    """
    found: dict[Key, tuple[Item, int]] = {}
    start: Item | None = None
    bounds, left = (step_of(least), MOST), UNITS
    size = limit + limit // 2 + 5
    while True:
        page = table.query(Range(partition, bounds, "gsi1"), limit=size, start=start, newest_first=True)
        left -= page.units
        entries = page.items[: int(left / ITEM)]
        items = table.get_many(Key(entry["pk"], entry["sk"]) for entry in entries)
        left -= ITEM * len(entries)
        totals = {key: int(item.get(attribute, 0)) for key, item in items.items()}
        found |= {key: (item, totals[key]) for key, item in items.items() if totals[key] >= least}
        listed = sorted(found.values(), key=lambda pair: (-pair[1], pair[0]["pk"]))[:limit]
        if page.next is None and len(entries) == len(page.items):
            return TopList(listed, True)
        unread = next_step(int(entries[-1]["gsi1sk"])) - 1 if entries else MOST
        last = listed[-1][1] if len(listed) == limit else -1
        if last > unread or (last == unread and len(found) >= limit + ties):
            return TopList(listed, True)
        if left < size * ENTRY + ITEM:
            return TopList(listed, last >= unread)
        start = page.next


# -- periods -------------------------------------------------------------------------------------------


class Largest(NamedTuple):
    """Partition keys with their sums, largest first. If not `complete`, another entry may be larger."""

    items: list[tuple[str, int]]
    complete: bool


class _DayList(NamedTuple):
    """The entries of a day's list that were read (partition key and step), and whether others follow.

    `day` is the sort key of its entries.
    """

    steps: dict[str, int]
    is_open: bool
    day: str

    def may_have(self, pk: str) -> bool:
        """Return whether an entry may have a sum on this day."""
        return pk in self.steps or self.is_open

    @property
    def unread(self) -> int:
        """Return the largest sum that an entry may have that was not read."""
        return next_step(min(self.steps.values(), default=MOST)) - 1 if self.is_open else 0


def read_largest_of_days(
    table: Table,
    partitions: Sequence[str],
    bounds: tuple[str, str],
    limit: int,
    attribute: str,
    units: float = UNITS,
) -> Largest:
    """Return the partition keys whose items have the largest sums of an attribute in a period.

    `partitions` are the gsi1 partitions of the period's days, those with the largest sums first. `bounds` are
    the first and the last sort key of an entry's days. Every index key must be a step of the attribute, as
    for `read_largest`.

    Cost: 0.5 RCU per 35 entries of each day, and 0.5 RCU for each entry and 4 KB of its days (about five).
    Usually a third more entries are read than are returned. At most `units`.
    """
    period = _Period(table, bounds, attribute, units)
    size = min(limit + limit // 2 + 5, int(units / 4 / ITEM * FIRST) // max(1, len(partitions)))
    lists = period.read_lists(partitions, max(FIRST, size))
    is_whole = len(lists) == len(partitions)
    # the sum that an entry may have that no list has shown
    ceiling = sum(day_list.unread for day_list in lists)
    above: dict[str, int] = {}
    for day_list in lists:
        for pk, step in day_list.steps.items():
            above[pk] = above.get(pk, ceiling) + next_step(step) - 1 - day_list.unread
    candidates = sorted(above, key=lambda pk: (-above[pk], pk))
    place, is_enough = 0, True
    while True:
        positive = [(pk, total) for pk, total in period.totals.items() if total > 0]
        listed = sorted(positive, key=lambda pair: (-pair[1], pair[0]))[:limit]
        last = listed[-1][1] if len(listed) == limit else 0
        following = above[candidates[place]] if place < len(candidates) else 0
        if last >= following or not is_enough:
            return Largest(listed, is_whole and is_enough and last >= ceiling)
        group = candidates[place : place + max(limit - place, 8)]
        days = {pk: [day_list.day for day_list in lists if day_list.may_have(pk)] for pk in group}
        unread = len(partitions) - len(lists)
        is_enough = period.read_sums([_Candidate(pk, days[pk][0], len(days[pk]) + unread) for pk in group])
        place += len(group)


def fit_days(pk: str, units: float) -> int:
    """Return how many days of a partition a number of RCU reads for certain."""
    return int(units / ITEM) * 4_096 // _size_of_day(pk)


def _size_of_day(pk: str) -> int:
    return len(pk.encode()) + OVERHEAD


class _Candidate(NamedTuple):
    """An entry that may have a sum on some days, of which one is `day`."""

    pk: str
    day: str
    days: int

    @property
    def cost(self) -> float:
        """Return the RCU of its days, at most."""
        return ITEM if self.days == 1 else -(-self.days * _size_of_day(self.pk) // 4_096) * ITEM


class _Period:
    """The reads of a period, within a number of RCU."""

    def __init__(self, table: Table, bounds: tuple[str, str], attribute: str, units: float) -> None:
        self._table, self._bounds, self._attribute = table, bounds, attribute
        self._units = self._left = units
        self.totals: dict[str, int] = {}

    def read_lists(self, partitions: Sequence[str], size: int) -> list[_DayList]:
        """Read the first entries of the lists, in their order, while more than half of the RCU are left."""
        lists: list[_DayList] = []
        for wave in chunks(partitions, max(1, int(self._units / 2 / ENTRY) // size)):
            if self._left <= self._units / 2:
                break
            pages = map_concurrently(lambda partition: self._read_list(partition, size), wave)
            self._left -= sum(page.units for page in pages)
            for page in pages:
                steps = {item["pk"]: int(item["gsi1sk"]) for item in page.items}
                lists.append(_DayList(steps, page.next is not None, page.items[0]["sk"] if steps else ""))
        return lists

    def _read_list(self, partition: str, size: int) -> Page:
        return self._table.query(Range(partition, index_name="gsi1"), limit=size, newest_first=True)

    def read_sums(self, candidates: Sequence[_Candidate]) -> bool:
        """Read the sums of entries, in their order. Return False when the RCU do not suffice for one of them.

        An entry that may have a sum on many days usually has few. So its first days are read beside those of
        others, and only if there are more, all of them by themselves.
        """
        pending = list(candidates)
        while pending:
            room, group = self._left, list[tuple[_Candidate, float]]()
            while pending and (cost := self._choose_cost(pending[0])) <= room:
                group.append((pending.pop(0), cost))
                room -= cost
            if not group:
                return False
            keys = [Key(candidate.pk, candidate.day) for candidate, _ in group if candidate.days == 1]
            self._left -= ITEM * len(keys)
            self.totals |= dict.fromkeys((key.pk for key in keys), 0)
            for key, item in self._table.get_many(keys).items():
                self.totals[key.pk] = int(item.get(self._attribute, 0))
            several = [(candidate, cost) for candidate, cost in group if candidate.days > 1]
            pages = map_concurrently(lambda pair: self._read_days(*pair), several)
            for (candidate, _), page in zip(several, pages, strict=True):
                self._add(candidate, page)
            for candidate, _ in several:
                is_short = self._left < 2 * ITEM
                if candidate.pk not in self.totals and (
                    is_short or not self._add(candidate, self._read_days(candidate, self._left))
                ):
                    return False
        return True

    def _choose_cost(self, candidate: _Candidate) -> float:
        """Return the RCU for an entry: those of all its days, or an eighth of the rest if they are many."""
        return candidate.cost if candidate.cost <= self._left / 2 else max(ITEM, self._left / 8)

    def _read_days(self, candidate: _Candidate, units: float) -> Page:
        most = max(1, fit_days(candidate.pk, units))
        limit = candidate.days + 1 if candidate.cost <= units else most
        return self._table.query(
            Range(candidate.pk, self._bounds), limit=limit, attributes=("pk", self._attribute)
        )

    def _add(self, candidate: _Candidate, page: Page) -> bool:
        """Count the RCU of a page, and add up its days unless there are more of them."""
        self._left -= page.units
        if page.next is None:
            self.totals[candidate.pk] = sum(int(item.get(self._attribute, 0)) for item in page.items)
        return page.next is None
