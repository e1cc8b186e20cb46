"""The protection of version 0.1.0, for records from before an upgrade and from after a rollback.

| item | pk | sk | holds |
|---|---|---|---|
| start of the tags | `GUARD` | `TAGS` | `since`, `ends`: the creation seconds in which records are tagged |
| guard page of 0.1.0 | `GUARD#<second>#<n>` | `APPLIED` | `ids` of applied records of this second; `ttl` |

Version 0.1.0 applies records in transactions: a guard page, with their ids, and all their sums. While its
functions and those of this version run side by side, a record may reach both. So each record has one
protection, which follows from its creation second. Records from `since` on are tagged (engine.py). Older ones
are applied here in the same way as by 0.1.0.

The first batch of this version in a table sets `since` to 15 minutes later. No function of 0.1.0 runs then
any more, because an invocation lasts at most 15 minutes. A new table begins with a `since` of 0. Before a
rollback an operator sets `ends` (docs/upgrading.md).

This module can be deleted, with HUBBUB_GUARD_PAGES, in a version that is never deployed over 0.1.0. A table
needs it for 24 hours after `since`.

Cost of a transaction: 2 WCU per KB of each guard page and each aggregate, and the index writes.
"""

import hashlib
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary

from chalicelib.aggregates import quarantine
from chalicelib.aggregates.quarantine import Poison, serialize
from chalicelib.aggregates.sums import Sums, merge
from chalicelib.aggregates.updates import additions
from chalicelib.dynamo.items import Key
from chalicelib.dynamo.table import TRANSACTION, Table
from chalicelib.errors import Rejected

if TYPE_CHECKING:
    from chalicelib.aggregates.engine import Difference

START_KEY = Key("GUARD", "TAGS")
OVERLAP = 900  # seconds in which functions of both versions may run: the longest that Lambda allows
FRESH = 60  # seconds for which a window that was read is used
PAGE_LIFETIME = 48 * 3600  # seconds: twice the 24 h that a stream keeps its records
PAGE_IDS = 140  # ids per update: each needs `contains` and OR, and an expression has at most 300 operators


class Window(NamedTuple):
    """The creation seconds whose records are protected by tags, and when this was read."""

    since: int
    ends: int
    read: int

    def has(self, second: int) -> bool:
        """Return whether a record of this second is tagged."""
        return self.since <= second < self.ends


_windows: WeakKeyDictionary[Table, Window] = WeakKeyDictionary()


def divide(
    table: Table, differences: list["Difference"], now: int
) -> tuple[list["Difference"], list["Difference"]]:
    """Divide differences into those with the old protection and those that are tagged."""
    if not differences:
        return [], []
    window = _windows.get(table)
    if window is None or not window.read <= now < window.read + FRESH:
        window = _windows[table] = _read_window(table, now)
    old = [one for one in differences if not window.has(one.second)]
    return old, [one for one in differences if window.has(one.second)] if old else differences


def start_tags(table: Table, since: int = 0) -> None:
    """Set the second from which records are tagged, unless it is set. Cost: 1 WCU."""
    table.put({**START_KEY._asdict(), "since": since}, condition="attribute_not_exists(pk)")


def _read_window(table: Table, now: int) -> Window:
    """Read the window, and begin it unless it has begun. Cost: 1 RCU."""
    item = table.get(START_KEY, consistent=True)
    if item is None:
        start_tags(table, now + OVERLAP)
        item = table.get(START_KEY, consistent=True) or {}
    return Window(int(item.get("since", 0)), int(item.get("ends", 2**32)), now)


def add(
    table: Table,
    differences: list["Difference"],
    guard_pages: int,
    now: int,
    counted: set[bytes],
    quarantined: set[bytes],
) -> None:
    """Add differences to their aggregates, and quarantine their poison, as version 0.1.0 does.

    The tags of the records that were not counted before are added to `counted` or `quarantined`.
    """
    for chunk in _chunks(differences, guard_pages):
        for one in _commit(table, chunk, guard_pages, now):
            (quarantined if one.poison else counted).add(one.tag)


def record_id(name: str) -> bytes:
    """Return the id of a record on a guard page, from its `eventID`."""
    return hashlib.blake2b(name.encode(errors="surrogatepass"), digest_size=12).digest()


def _id(one: "Difference") -> bytes:
    return record_id(one.id)


def _page(one: "Difference", guard_pages: int) -> Key:
    """Return the guard page of a record. Records of one partition key have the same page in each second."""
    shard = zlib.crc32(serialize(one.partition).encode()) % guard_pages if one.second else _id(one)[0]
    return Key(f"GUARD#{one.second}#{shard}", "APPLIED")


def _chunks(differences: Iterable["Difference"], guard_pages: int) -> Iterator[list["Difference"]]:
    """Divide differences into transactions. A difference is never split, and poison is alone."""
    chunk: list[Difference] = []
    touched: set[Key] = set()
    ids: Counter[Key] = Counter()
    pages = {one.tag: _page(one, guard_pages) for one in differences}
    for one in sorted(differences, key=lambda d: (bool(d.poison), pages[d.tag], min(d.sums, default=()))):
        page = pages[one.tag]
        touches = {page, *(key for key, _ in one.sums)}
        is_full = len(touched | touches) > TRANSACTION or ids[page] == PAGE_IDS
        if chunk and (is_full or one.poison):
            yield chunk
            chunk, touched, ids = [], set(), Counter()
        chunk.append(one)
        touched |= touches
        ids[page] += 1
    if chunk:
        yield chunk


def _commit(table: Table, chunk: list["Difference"], guard_pages: int, now: int) -> list["Difference"]:
    """Write a chunk without the records that are on a guard page, and return what was written.

    A record that DynamoDB rejects is found by halving the chunk, and goes to quarantine.
    """
    while chunk:
        try:
            refused = table.transact(list(_actions(chunk, guard_pages, now)))
        except (Rejected, ArithmeticError, TypeError, ValueError) as error:
            if len(chunk) > 1:
                halves = chunk[: len(chunk) // 2], chunk[len(chunk) // 2 :]
                return [one for half in halves for one in _commit(table, half, guard_pages, now)]
            chunk = [_rejected(chunk[0], error)]
            continue
        if not refused:
            break
        pages = table.get_many((_page(one, guard_pages) for one in chunk), consistent=True)
        rest = [one for one in chunk if _id(one) not in pages.get(_page(one, guard_pages), {}).get("ids", ())]
        if len(rest) == len(chunk):
            raise RuntimeError("a guard page refused records that are not on it")
        chunk = rest
    return chunk


def _rejected(one: "Difference", error: Exception) -> "Difference":
    """Return a rejected difference as poison, which DynamoDB can write."""
    if not one.sums:
        raise error
    reason = f"{type(error).__name__}: {error}"
    return one._replace(sums={}, poison=tuple(Poison(image, sign, reason) for image, sign in one.images))


def _actions(chunk: Sequence["Difference"], guard_pages: int, now: int) -> Iterator[dict[str, Any]]:
    """Build a chunk's transaction: its guard pages, its merged sums, its quarantined images."""
    pages: dict[Key, list[bytes]] = {}
    sums: Sums = {}
    for one in chunk:
        pages.setdefault(_page(one, guard_pages), []).append(_id(one))
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
                "ExpressionAttributeValues": {":ids": set(ids), ":ttl": now + PAGE_LIFETIME, **values},
            }
        }
    yield from additions(sums, now)
    for one in chunk:
        yield from (
            {"Put": {"Item": quarantine.build_item(_id(one), one.second, poison, now)}}
            for poison in one.poison
        )
