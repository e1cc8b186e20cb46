"""Sums over items, added up from the table's stream, exactly once.

A feature has one pure function, `contribution(item) -> {(key, attribute): amount}`. For each change of an
item the engine adds `contribution(new) - contribution(old)` to the aggregates at those keys:

    records -> differences -> changes by aggregate -> one conditional update for each aggregate

| item | pk | sk | holds |
|---|---|---|---|
| any aggregate | its feature's | its feature's | sums; `applied`, `spilled`: tags.py; `spills` |

**Exactly once.** Lambda delivers a record at least once, in batches that grow, shrink, split and repeat. So
an aggregate remembers the records that it has counted by their tags (tags.py). The update that adds a
record's amounts also adds its tag to `applied`.

- *Fast path*, without a read. Add amounts and tags, on condition that none of the tags is in `applied`, that
  there is room for them, and that no tag as young as these has moved to a guard page.
- *Slow path*, when that condition is false or the records are many. Read the aggregate, **then** the guard
  pages that may hold the tags. Drop the records that are counted. Write the rest on condition that `spills`
  is still what was read. A move of tags to guard pages raises `spills` by 1.

**Why this is exact.** Of two workers with the same record the second is refused by `applied`, by `spilled` or
by `spills`. `tests/aggregates/test_model.py` enumerates every interleaving of the protocol. Additions
commute, so records may arrive in any order. Changes that cancel within a batch are tagged too. Without that,
a later delivery of one of them alone would count.

**What follows from sums.** A derivation is a function `(table, key, item)` that updates what follows from the
sums of an aggregate, such as an index key that moves in steps. It runs after each update, and also when all
records were duplicates. So the redelivery after a crash between the two updates completes the second one.

**A reader** may rely on each aggregate by itself. Several aggregates that one record changes are written one
after the other, so one may be ahead of another until the batch is done, or delivered again after a crash. A
list shows the sums of its own entries.

**Not counted.** An item that TTL removed stays counted, because the fact expired and did not become false. An
image whose contribution fails goes to quarantine (`quarantine.py`). A union of sets needs no tag, because it
is idempotent.

Cost: on the fast path 1 WCU per KB of each aggregate, and its index writes. On the slow path also 1 RCU per 4
KB of the aggregate and of each guard page that is read. Moving about 50 tags costs 2 WCU per KB of the
aggregate and of each page, which is 0.1 to 0.2 WCU for each record of a busy aggregate.
"""

import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from chalicelib.aggregates import quarantine
from chalicelib.aggregates.quarantine import Poison, serialize
from chalicelib.aggregates.sums import (
    Amounts,
    Constant,
    Contribution,
    Derivation,
    Sums,
    group_by_key,
    is_idempotent,
    merge,
    sum_contributions,
)
from chalicelib.aggregates.tags import find_counted, keep, make_tag, second_of
from chalicelib.aggregates.updates import Update
from chalicelib.concurrency import map_concurrently
from chalicelib.dynamo.items import Images, Item, Key, chunks, read_key, unpack
from chalicelib.dynamo.table import TRANSACTION, Table
from chalicelib.errors import Busy, Rejected

TAGS = 50  # in one aggregate: about 600 bytes, so that most aggregates stay under 1 KB
CHANGES = 400  # of one aggregate at a time: with these a move has at most 70 guard pages
TRIES = 12  # of the slow path, each of which lost to another worker
SECONDS = re.compile(r"[0-9]{1,11}(\.[0-9]{1,9})?([eE]\+?[0-9]{1,2})?")


class Difference(NamedTuple):
    """The amounts that one stream record adds, and the images whose contribution failed.

    `images` are as they came, with their signs. `change` has those that could be computed, unpacked.
    """

    id: str
    second: int
    images: tuple[tuple[Any, int], ...]
    sums: Sums
    poison: tuple[Poison, ...]
    change: Images | None

    @property
    def tag(self) -> bytes:
        """Return the record's tag."""
        return make_tag(self.id, self.second)


class Change(NamedTuple):
    """The amounts that one stream record adds to one aggregate."""

    tag: bytes
    amounts: Amounts
    difference: Difference | None = None


@dataclass
class Report:
    """Numbers of records of a batch. `ignored` records change no aggregate and cost nothing.

    `changes` are those of all records, for followers. An image in quarantine is left out.
    """

    applied: int = 0
    duplicates: int = 0
    quarantined: int = 0
    ignored: int = 0
    moves: int = field(default=0, compare=False)
    changes: list[Images] = field(default_factory=list, compare=False)


@dataclass
class Batch:
    """A batch in progress: the tags that it has counted, and those of records with a part in quarantine."""

    table: Table
    derivations: Sequence[Derivation]
    now: int
    counted: set[bytes] = field(default_factory=set)
    quarantined: set[bytes] = field(default_factory=set)
    moves: int = 0


def apply(
    table: Table,
    contributions: Sequence[Contribution],
    records: Iterable[Any],
    *,
    derivations: Sequence[Derivation] = (),
    now: Callable[[], float] = time.time,
) -> Report:
    """Add a batch of stream records, in Lambda's notation, to the aggregates that they change.

    Idempotent: the same records may come again, in any mix and order, from concurrent callers, and after a
    crash at any point. A record of any shape is applied, ignored or quarantined.

    Raises:
        Busy: conflicts or throttles outlast the retries. The batch can then be delivered again.
    """
    report = Report()
    differences: dict[bytes, Difference] = {}
    for record in records:
        difference = compute(contributions, record)
        if difference.change:
            report.changes.append(difference.change)
        if not difference.sums and not difference.poison:
            report.ignored += 1
        elif differences.setdefault(difference.tag, difference) is not difference:
            report.duplicates += 1
    batch = Batch(table, derivations, int(now()))
    _add_all(batch, differences.values())
    _quarantine_all(batch, differences.values())
    report.quarantined = len(batch.quarantined)
    report.applied = len(batch.counted - batch.quarantined)
    report.duplicates += len(differences.keys() - batch.counted - batch.quarantined)
    report.moves = batch.moves
    return report


# -- differences ---------------------------------------------------------------------------------------


def compute(contributions: Sequence[Contribution], record: Any) -> Difference:
    """Return the difference that a stream record makes, with its images unpacked. Never raise."""
    record = record if isinstance(record, dict) else {"record": record}
    body = record["dynamodb"] if isinstance(record.get("dynamodb"), dict) else {}
    id = record.get("eventID")
    id = id if id and isinstance(id, str) else serialize(record)
    sums: Sums = {}
    poison = []
    items: dict[int, Item] = {}
    sides = ((body.get("OldImage"), -1), (body.get("NewImage"), 1))
    images = tuple((image, sign) for image, sign in sides if image is not None)
    for image, sign in images:
        try:
            item = unpack(image)
            merge(sums, computed(contributions, item), sign)
            items[sign] = item
        except Exception as error:  # whatever a feature raises, the shard must go on
            poison.append(Poison(image, sign, f"{type(error).__name__}: {error}"))
    if is_expired := _is_expired(record):
        poison = []
    if is_expired or all(isinstance(amount, Constant) for amount in sums.values()):
        sums = {}  # nothing is added, so no tag is needed
    second = _second(body.get("ApproximateCreationDateTime"))
    change = (key, items.get(-1, {}), items.get(1, {})) if (key := read_key(body)) else None
    return Difference(id, second, images, sums, tuple(poison), change)


def computed(contributions: Sequence[Contribution], item: Item) -> Sums:
    """Return the amounts that an item adds.

    Raises:
        ValueError: the item touches more attributes than a transaction can write.
        Exception: any error of a feature's contribution.
    """
    amounts = sum_contributions(contributions, item)
    if len(amounts) >= TRANSACTION:
        raise ValueError(f"the item touches {len(amounts)} attributes, more than a transaction can write")
    return amounts


def _second(created: Any) -> int:
    """Return the second of a creation time, which is a number or its text; 0 for anything else.

    A record must have the same tag in each notation of its creation time.
    """
    if isinstance(created, str) and SECONDS.fullmatch(created):
        created = float(created)
    is_number = isinstance(created, int | float) and not isinstance(created, bool)
    return int(created) if is_number and 0 <= created < 2**32 else 0


def _is_expired(record: Mapping[str, Any]) -> bool:
    """Return whether TTL removed the item. DynamoDB's service principal is then the user of the record."""
    user = record.get("userIdentity")
    return isinstance(user, dict) and "dynamodb.amazonaws.com" in (
        user.get("principalId"),
        user.get("PrincipalId"),
    )


# -- aggregates ----------------------------------------------------------------------------------------


def update_once(amounts: Amounts, tags: set[bytes], now: int) -> Update:
    """Build the update of the fast path: it adds amounts unless one of the tags may be counted already.

    When its condition is false, the caller does not know whether the tags are counted.
    """
    oldest = min(map(second_of, tags))
    return (
        Update(amounts, now)
        .tag(tags)
        .require("(attribute_not_exists(spilled) OR spilled < :oldest)", oldest=oldest)
        .require("(attribute_not_exists(applied) OR size(applied) <= :room)", room=TAGS - len(tags))
    )


def _add_all(batch: Batch, differences: Iterable[Difference]) -> None:
    """Add differences to their aggregates.

    Many aggregates are written at once. All are tried even if one fails; then the first failure is raised.
    """
    by_key: dict[Key, list[Change]] = {}
    for difference in differences:
        for key, amounts in group_by_key(difference.sums).items():
            by_key.setdefault(key, []).append(Change(difference.tag, amounts, difference))

    def attempt(key: Key) -> Exception | None:
        try:
            for part in chunks(by_key[key], CHANGES):
                _add_or_refuse(batch, key, part)
        except Exception as error:
            return error
        return None

    if failure := next(filter(None, map_concurrently(attempt, sorted(by_key))), None):
        raise failure


def _add_or_refuse(batch: Batch, key: Key, changes: Sequence[Change]) -> None:
    """Add changes to an aggregate. A change that DynamoDB rejects is found by halving, and quarantined."""
    try:
        counted, item = _add(batch, key, changes)
    except (Rejected, ArithmeticError, TypeError, ValueError) as error:
        if len(changes) == 1:
            _refuse(batch, key, changes[0], error)
            return
        middle = len(changes) // 2
        _add_or_refuse(batch, key, changes[:middle])
        _add_or_refuse(batch, key, changes[middle:])
        return
    batch.counted |= counted
    _derive(batch.table, batch.derivations, key, item)


def _derive(table: Table, derivations: Sequence[Derivation], key: Key, item: Item) -> None:
    """Update the derived attributes of an aggregate, whose item is given as it is after its last change.

    The condition of such an update is false when another worker has changed the sums in the meantime. That
    worker then makes the update.
    """
    for derive in derivations:
        derive(table, key, item)


def derive_all(table: Table, derivations: Sequence[Derivation], keys: Iterable[Key]) -> None:
    """Update the derived attributes of aggregates that were not written by `apply`.

    Cost: 1 RCU for each aggregate, and 1 WCU and its index writes for each that is not current.
    """
    if derivations and (keys := set(keys)):
        for key, item in table.get_many(keys, consistent=True).items():
            _derive(table, derivations, key, item)


def _add(batch: Batch, key: Key, changes: Sequence[Change]) -> tuple[set[bytes], Item]:
    """Add the changes that are not counted yet. Return their tags, and the aggregate as it is now."""
    tags = {change.tag for change in changes}
    if all(is_idempotent(change.amounts) for change in changes):
        update = Update(_merge(changes), batch.now)
        item = batch.table.update(key, **update.arguments(), idempotent=True)
        alone = [c.tag for c in changes if c.difference is None or is_idempotent(c.difference.sums)]
        return set(alone), item or {}
    if len(tags) <= TAGS:
        update = update_once(_merge(changes), tags, batch.now)
        item = batch.table.update(key, **update.arguments(), idempotent=True)
        if item is not None:
            return tags, item
    return _add_slowly(batch, key, changes)


def _add_slowly(batch: Batch, key: Key, changes: Sequence[Change]) -> tuple[set[bytes], Item]:
    """Read which changes are counted, and add the others.

    Raises:
        Busy: other workers change the aggregate again and again.
    """
    table = batch.table
    for number in range(TRIES):
        seen = table.get(key, consistent=True) or {}
        left = _not_counted(table, key, seen, changes)  # reads the guard pages, after the aggregate
        if not left:
            return set(), seen
        tags = {change.tag for change in left}
        update = Update(_merge(left), batch.now)
        moves = _remember(update, key, seen, tags, batch.now)
        if not moves:
            item = table.update(key, **update.arguments(), idempotent=True)
            if item is not None:
                return tags, item
        elif not table.transact([update.action(key), *moves]):
            batch.moves += 1
            return tags, (table.get(key, consistent=True) or {}) if batch.derivations else {}
        table.back_off(number)
    raise Busy("Several workers change one aggregate. Please retry.")


def _not_counted(table: Table, key: Key, seen: Item, changes: Sequence[Change]) -> list[Change]:
    """Return the changes that neither the aggregate, as it was read, nor its guard pages have counted."""
    counted = find_counted(table, key, seen, {change.tag for change in changes})
    return [change for change in changes if change.tag not in counted]


def _remember(update: Update, key: Key, seen: Item, tags: set[bytes], now: int) -> list[dict[str, Any]]:
    """Add tags to the update of an aggregate that was read. Return the updates of guard pages beside it."""
    kept = keep(key, seen, tags, now, TAGS)
    update.require_same("spills", seen)
    if kept.pages:
        update.require_same("applied", seen).spill(kept.applied, kept.spilled, seen.get("spills", 0) + 1)
    elif kept.applied == tags.union(seen.get("applied", ())):
        update.tag(tags)
    else:
        update.require_same("applied", seen).set(applied=kept.applied)
    return kept.pages


def _merge(changes: Iterable[Change]) -> Amounts:
    """Add up the amounts of changes of one aggregate. Raises TypeError, decimal.DecimalException."""
    sums: Sums = {}
    nowhere = Key("", "")
    for change in changes:
        merge(sums, {(nowhere, name): amount for name, amount in change.amounts.items()})
    return {name: amount for (_, name), amount in sums.items()}


# -- quarantine ----------------------------------------------------------------------------------------


def _refuse(batch: Batch, key: Key, change: Change, error: Exception) -> None:
    """Put the part of a record into quarantine that one aggregate did not take."""
    difference = change.difference
    if difference is None:
        raise error
    reason = f"{type(error).__name__}: {error}"
    poison = [Poison(image, sign, reason, key) for image, sign in difference.images]
    _quarantine(batch, difference, make_tag(f"{difference.id} {key.pk} {key.sk}", difference.second), poison)


def _quarantine_all(batch: Batch, differences: Iterable[Difference]) -> None:
    """Put the images whose contribution failed into quarantine, each once."""
    for difference in differences:
        if difference.poison:
            _quarantine(batch, difference, difference.tag, difference.poison)


def _quarantine(batch: Batch, difference: Difference, tag: bytes, poison: Sequence[Poison]) -> None:
    """Put images into quarantine in one transaction with a tag, unless the tag is there.

    The tags are protected as those of an aggregate are, so an image that was redriven does not come again.
    """
    key = quarantine.guard_key(tag)
    puts = [
        {"Put": {"Item": quarantine.build_item(tag, difference.second, image, batch.now)}} for image in poison
    ]
    for number in range(TRIES):
        seen = batch.table.get(key, consistent=True) or {}
        if not _not_counted(batch.table, key, seen, [Change(tag, {})]):
            return
        update = Update()
        moves = _remember(update, key, seen, {tag}, batch.now)
        if not batch.table.transact([update.action(key), *moves, *puts]):
            batch.quarantined.add(difference.tag)
            return
        batch.table.back_off(number)
    raise Busy("Several workers quarantine records at once. Please retry.")
