"""The engine that adds stream records to aggregates, exactly once.

Each feature registers one pure function, `contribution(item) -> {(key, attribute): amount}`. For each change
of an item, the engine adds `contribution(new) - contribution(old)`:

    records -> differences -> chunks -> one transaction per chunk: guard pages + merged sums

| item | pk | sk | holds |
|---|---|---|---|
| guard page | `GUARD#<second>#<n>` | `APPLIED` | `ids` of applied records of this creation second |

Invariant: each record is applied exactly once. Lambda delivers a record at least once, and its batches grow,
shrink, split and repeat. The transaction that adds a record's amounts also adds its id to the guard page of
its creation second, on condition that the id is not there yet. A record's creation second never changes.
Additions commute, so records may arrive in any order.

Two kinds of images are not added. An item that TTL removed stays counted, because the fact has expired and
did not become false. An image whose contribution fails is written to quarantine (`quarantine.py`) in the same
transaction.

Cost of a chunk: 2 WCU per KB of each guard page and each aggregate that it touches, and the index writes.
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
from chalicelib.aggregates.quarantine import Poison, serialize
from chalicelib.aggregates.sums import (
    FOREVER,
    KEPT,
    Amount,
    Constant,
    Contribution,
    Lifetime,
    Sums,
    merge,
    sum_contributions,
)
from chalicelib.dynamo.items import Key, unpack
from chalicelib.dynamo.table import TRANSACTION, Table
from chalicelib.errors import Rejected

GUARD_LIFETIME = 48 * 3600  # seconds: twice the 24 h that a stream keeps its records
SECONDS = re.compile(r"[0-9]{1,11}(\.[0-9]{1,9})?([eE]\+?[0-9]{1,2})?")
PAGE_IDS = 140  # ids per update: each needs `contains` and OR, and an expression has at most 300 operators


class Difference(NamedTuple):
    """The amounts that one stream record adds, and the guard page that its id goes to."""

    id: bytes
    page: Key
    second: int
    images: tuple[tuple[Any, int], ...]
    sums: Sums
    poison: tuple[Poison, ...]


@dataclass
class Report:
    """Numbers of records of a batch. `ignored` records change no aggregate and cost nothing."""

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

    Idempotent: the same records may come again, in any mix and order, from concurrent callers, and after a
    crash at any point. A record of any shape is applied, ignored or quarantined.

    Raises:
        Busy: conflicts or throttles outlast the retries. The batch can then be delivered again.
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
    """Return the difference that a stream record makes. Read nothing, and never raise."""
    record = record if isinstance(record, dict) else {"record": record}
    body = record["dynamodb"] if isinstance(record.get("dynamodb"), dict) else {}
    name = record.get("eventID")
    name = name if name and isinstance(name, str) else serialize(record)
    id = hashlib.blake2b(name.encode(errors="surrogatepass"), digest_size=12).digest()
    second = _second(body.get("ApproximateCreationDateTime"))
    sums: Sums = {}
    poison = []
    sides = () if _is_expired(record) else ((body.get("OldImage"), -1), (body.get("NewImage"), 1))
    images = tuple((image, sign) for image, sign in sides if image is not None)
    for image, sign in images:
        try:
            merge(sums, computed(contributions, image), sign)
        except Exception as error:  # whatever a feature raises, the shard must go on
            poison.append(Poison(image, sign, f"{type(error).__name__}: {error}"))
    if all(isinstance(amount, Constant) for amount in sums.values()):
        sums = {}  # only constants: nothing is added, so no guard is needed
    # A record without a creation second gets its page by its id, because a single page would fill up. No
    # table sends such a record.
    shard = zlib.crc32(serialize(_partition(body)).encode()) % guard_pages if second else id[0]
    return Difference(id, Key(f"GUARD#{second}#{shard}", "APPLIED"), second, images, sums, tuple(poison))


def _second(created: Any) -> int:
    """Return the second of a creation time, which is a number or its text; 0 for anything else.

    A record must have the same guard page in each notation of its creation time.
    """
    if isinstance(created, str) and SECONDS.fullmatch(created):
        created = float(created)
    is_number = isinstance(created, int | float) and not isinstance(created, bool)
    return int(created) if is_number and 0 <= created < 1e11 else 0


def computed(contributions: Sequence[Contribution], image: Any) -> Sums:
    """Return the amounts that an image adds.

    Raises:
        ValueError: the image touches more attributes than a transaction can write.
        Exception: any error of a feature's contribution.
    """
    amounts = sum_contributions(contributions, unpack(image))
    if len(amounts) >= TRANSACTION:
        raise ValueError(f"the item touches {len(amounts)} attributes, more than a transaction can write")
    return amounts


def _partition(body: Mapping[str, Any]) -> Any:
    """Return a record's partition key. Records that share it arrive through one shard, in one batch."""
    keys = body.get("Keys")
    return keys.get("pk") if isinstance(keys, dict) else None


def chunks(differences: Iterable[Difference]) -> Iterator[list[Difference]]:
    """Divide differences into transactions.

    A difference is never split. Differences of the same items stay together, and poison is alone.
    """
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
    """Write a chunk.

    Records whose ids are on a guard page are dropped as duplicates. If DynamoDB rejects the chunk, its halves
    are written separately, until the rejected record is alone and goes to quarantine.
    """
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
    """Build a chunk's transaction: its guard pages, its merged sums, its quarantined images."""
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
                "ExpressionAttributeValues": {":ids": set(ids), ":ttl": now + GUARD_LIFETIME, **values},
            }
        }
    yield from additions(sums, now)
    for one in chunk:
        yield from (
            {"Put": {"Item": quarantine.build_item(one.id, one.second, poison, now)}} for poison in one.poison
        )


def additions(sums: Sums, now: int) -> Iterator[dict[str, Any]]:
    """Build the updates that add sums to their aggregates.

    An aggregate whose amounts are all constants is not written. A `Lifetime` begins at `now`, in epoch
    seconds.
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
        if isinstance(amount, Lifetime):
            verbs["SET"].append(f"#{i} = if_not_exists({KEPT}, :{i})")
            values[f":{i}"] = now + int(amount.value) if amount.value else FOREVER.value
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
    """Return a rejected difference as poison, which DynamoDB can write."""
    if not one.sums:
        raise error
    reason = f"{type(error).__name__}: {error}"
    return one._replace(sums={}, poison=tuple(Poison(image, sign, reason) for image, sign in one.images))


def _is_expired(record: Mapping[str, Any]) -> bool:
    """Return whether TTL removed the item. DynamoDB's service principal is then the user of the record."""
    user = record.get("userIdentity")
    return isinstance(user, dict) and "dynamodb.amazonaws.com" in (
        user.get("principalId"),
        user.get("PrincipalId"),
    )
