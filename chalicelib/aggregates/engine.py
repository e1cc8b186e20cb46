"""Sums over items, kept from the table's stream, exactly once.

A feature has one pure function, `contribution(item) -> {(key, attribute): amount}`, and registers nothing
else. For every change of an item the engine adds `contribution(new) - contribution(old)`:

    records -> differences -> chunks -> one transaction a chunk: guard pages + merged sums

| item | pk | sk | holds |
|---|---|---|---|
| guard page | `GUARD#<second>#<n>` | `APPLIED` | `ids`: that creation second's records that are in the sums |

**Exactly once.** Lambda delivers a record at least once, in batches that grow, shrink, split and repeat. A
record's id goes onto the guard page of its creation second (which never changes) in the transaction that
adds its amounts, on condition that it is not there. Additions commute, so no order is needed.

**What counts for nothing.** An item that TTL removed: its fact expired, it did not become false. An image
that cannot be computed: it goes to quarantine (`quarantine.py`) in the same transaction.

**Cost** of a chunk: 2 WCU per KB of each guard page and each aggregate that it touches, and index writes.
"""

import hashlib
import re
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from chalicelib.aggregates import quarantine
from chalicelib.aggregates.quarantine import Poison, written
from chalicelib.aggregates.sums import (
    FOR_EVER,
    KEPT,
    Amount,
    Constant,
    Contribution,
    Life,
    Sums,
    merge,
    total,
)
from chalicelib.dynamo.items import Key, unpack
from chalicelib.dynamo.table import TRANSACTION, Table
from chalicelib.errors import Rejected

GUARD_LIFE = 48 * 3600  # seconds: a stream keeps its records for 24 h; as much again is margin
SECONDS = re.compile(r"[0-9]{1,11}(\.[0-9]{1,9})?([eE]\+?[0-9]{1,2})?")
PAGE_IDS = 140  # ids added at once: `contains` and OR for each, of 300 operators in an expression


class Difference(NamedTuple):
    """What one stream record changes, and the guard page that remembers that it did."""

    id: bytes
    page: Key
    second: int
    images: tuple[tuple[Any, int], ...]
    sums: Sums
    poison: tuple[Poison, ...]


@dataclass
class Report:
    """What became of a batch. `ignored` records change no aggregate and cost nothing."""

    applied: int = 0
    duplicates: int = 0
    quarantined: int = 0
    ignored: int = 0
    lag_seconds: float = 0.0
    transactions: int = field(default=0, compare=False)


def apply(
    table: Table,
    contributions: Sequence[Contribution],
    records: Iterable[Any],
    *,
    guard_pages: int = 1,
    now: Callable[[], float] = time.time,
) -> Report:
    """Add a batch of stream records, in Lambda's notation, to the aggregates that they change.

    May be called with the same records again, in any mix and order, by any number of callers at a time, and
    after a crash at any point. A record of whatever shape is applied, ignored or quarantined, never raised.
    Raises Busy when conflicts and throttles outlast the retries; everything can then be delivered again.
    """
    report = Report()
    differences: dict[bytes, Difference] = {}
    for record in records:
        difference = compute(contributions, record, guard_pages)
        report.lag_seconds = max(report.lag_seconds, now() - (difference.second or now()))
        if not difference.sums and not difference.poison:
            report.ignored += 1
        elif differences.setdefault(difference.id, difference) is not difference:
            report.duplicates += 1
    for chunk in chunks(differences.values()):
        _commit(table, chunk, report, int(now()))
    return report


def compute(contributions: Sequence[Contribution], record: Any, guard_pages: int = 1) -> Difference:
    """Compute what a stream record changes; never raises, reads nothing."""
    record = record if isinstance(record, dict) else {"record": record}
    body = record["dynamodb"] if isinstance(record.get("dynamodb"), dict) else {}
    name = record.get("eventID")
    name = name if name and isinstance(name, str) else written(record)
    id = hashlib.blake2b(name.encode(errors="surrogatepass"), digest_size=12).digest()
    second = _second(body.get("ApproximateCreationDateTime"))
    sums: Sums = {}
    poison = []
    sides = () if _is_expired(record) else ((body.get("OldImage"), -1), (body.get("NewImage"), 1))
    images = tuple((image, sign) for image, sign in sides if image is not None)
    for image, sign in images:
        try:
            merge(sums, computed(contributions, image), sign)
        except Exception as error:  # whatever a feature raises about an item, its shard goes on
            poison.append(Poison(image, sign, f"{type(error).__name__}: {error}"))
    if all(isinstance(amount, Constant) for amount in sums.values()):
        sums = {}  # nothing is added, so there is nothing to guard
    # A record without its second, which no table sends, has a page by its id: one page would fill up.
    shard = zlib.crc32(written(_partition(body)).encode()) % guard_pages if second else id[0]
    return Difference(id, Key(f"GUARD#{second}#{shard}", "APPLIED"), second, images, sums, tuple(poison))


def _second(created: Any) -> int:
    """Read the second in which a record was made: a number, also as text; 0 for anything else.

    A record has the same guard page however its creation time is written.
    """
    if isinstance(created, str) and SECONDS.fullmatch(created):
        created = float(created)
    is_number = isinstance(created, int | float) and not isinstance(created, bool)
    return int(created) if is_number and 0 <= created < 1e11 else 0


def computed(contributions: Sequence[Contribution], image: Any) -> Sums:
    """Compute what an image adds; raises whatever a feature raises about it, ValueError for too much."""
    amounts = total(contributions, unpack(image))
    if len(amounts) >= TRANSACTION:
        raise ValueError(f"it touches {len(amounts)} attributes, more than a transaction holds")
    return amounts


def _partition(body: Mapping[str, Any]) -> Any:
    """Answer a record's partition key: records that share it come through one shard, in one batch."""
    keys = body.get("Keys")
    return keys.get("pk") if isinstance(keys, dict) else None


def chunks(differences: Iterable[Difference]) -> Iterator[list[Difference]]:
    """Part differences into transactions: each whole, those that share items together, poison alone."""
    chunk: list[Difference] = []
    touched: set[Key] = set()
    ids: Counter[Key] = Counter()
    for one in sorted(differences, key=lambda d: (bool(d.poison), d.page, min(d.sums, default=()), d.id)):
        touches = {one.page, *(key for key, _ in one.sums)}
        full = len(touched | touches) > TRANSACTION or ids[one.page] == PAGE_IDS
        if chunk and (full or one.poison):
            yield chunk
            chunk, touched, ids = [], set(), Counter()
        chunk.append(one)
        touched |= touches
        ids[one.page] += 1
    if chunk:
        yield chunk


def _commit(table: Table, chunk: list[Difference], report: Report, now: int) -> None:
    """Write a chunk; what a guard page already has is dropped, what DynamoDB rejects is singled out."""
    while chunk:
        try:
            report.transactions += 1
            refused = table.transact(list(_actions(chunk, now)))
        except (Rejected, ArithmeticError, TypeError, ValueError) as error:
            if len(chunk) > 1:
                middle = len(chunk) // 2
                _commit(table, chunk[:middle], report, now)
                _commit(table, chunk[middle:], report, now)
                return
            chunk = [_rejected(chunk[0], error)]
            continue
        if not refused:
            report.quarantined += sum(bool(one.poison) for one in chunk)
            report.applied += sum(not one.poison for one in chunk)
            return
        pages = table.get_many((one.page for one in chunk), consistent=True)
        rest = [one for one in chunk if one.id not in pages.get(one.page, {}).get("ids", ())]
        if len(rest) == len(chunk):
            raise RuntimeError("a guard page refused records that are not on it")
        report.duplicates += len(chunk) - len(rest)
        chunk = rest


def _actions(chunk: Sequence[Difference], now: int) -> Iterator[dict[str, Any]]:
    """Write down a chunk's transaction: its guard pages, its merged sums, its quarantined images."""
    pages: dict[Key, list[bytes]] = {}
    sums: Sums = {}
    for one in chunk:
        pages.setdefault(one.page, []).append(one.id)
        merge(sums, one.sums)
    for page, ids in pages.items():
        seen = " OR ".join(f"contains(ids, :{i})" for i in range(len(ids)))
        values = {f":{i}": id for i, id in enumerate(ids)}
        yield {
            "Update": {
                "Key": page._asdict(),
                "UpdateExpression": "ADD ids :ids SET #ttl = :ttl",
                "ConditionExpression": f"NOT ({seen})",
                "ExpressionAttributeNames": {"#ttl": "ttl"},
                "ExpressionAttributeValues": {":ids": set(ids), ":ttl": now + GUARD_LIFE, **values},
            }
        }
    yield from additions(sums, now)
    for one in chunk:
        yield from (
            {"Put": {"Item": quarantine.entry(one.id, one.second, poison, now)}} for poison in one.poison
        )


def additions(sums: Sums, now: int) -> Iterator[dict[str, Any]]:
    """Build the updates that add sums to their aggregates, one for each that is more than constants.

    A `Life` is counted from `now`, in epoch seconds.
    """
    by_key: dict[Key, dict[str, Amount]] = {}
    for (key, attribute), amount in sums.items():
        by_key.setdefault(key, {})[attribute] = amount
    for key, amounts in by_key.items():
        if not all(isinstance(amount, Constant) for amount in amounts.values()):
            yield _addition(key, amounts, now)


def _addition(key: Key, amounts: Mapping[str, Amount], now: int) -> dict[str, Any]:
    """Build the update that adds amounts to one aggregate."""
    verbs: dict[str, list[str]] = {"ADD": [], "SET": []}
    values: dict[str, Any] = {}
    for i, amount in enumerate(amounts.values()):
        if isinstance(amount, Life):
            verbs["SET"].append(f"#{i} = if_not_exists({KEPT}, :{i})")
            values[f":{i}"] = now + int(amount.value) if amount.value else FOR_EVER.value
        elif isinstance(amount, Constant):
            verbs["SET"].append(f"#{i} = :{i}")
            values[f":{i}"] = amount.value
        else:
            verbs["ADD"].append(f"#{i} :{i}")
            values[f":{i}"] = amount
    return {
        "Update": {
            "Key": key._asdict(),
            "UpdateExpression": " ".join(
                f"{verb} {', '.join(parts)}" for verb, parts in verbs.items() if parts
            ),
            "ExpressionAttributeNames": {f"#{i}": name for i, name in enumerate(amounts)},
            "ExpressionAttributeValues": values,
        }
    }


def _rejected(one: Difference, error: Exception) -> Difference:
    """Turn a difference that DynamoDB will not write into poison that it will."""
    if not one.sums:
        raise error
    reason = f"{type(error).__name__}: {error}"
    return one._replace(sums={}, poison=tuple(Poison(image, sign, reason) for image, sign in one.images))


def _is_expired(record: Mapping[str, Any]) -> bool:
    """Tell whether TTL removed the item: DynamoDB's own service principal did it."""
    who = record.get("userIdentity")
    return isinstance(who, dict) and "dynamodb.amazonaws.com" in (
        who.get("principalId"),
        who.get("PrincipalId"),
    )
