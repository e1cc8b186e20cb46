"""Apply quarantined item images to the aggregates once their contribution can be computed.

An entry has an image whose contribution failed, and a sign: 1 if the image was to be added, -1 if it was to
be subtracted.

Invariant: each entry is applied exactly once. It is deleted in the transaction that adds its amounts, on
condition that it still exists. Tags are not needed. So a run can be interrupted, repeated, and run
concurrently with another one.

**Correction by code.** Deploy a version that can read the image, then redrive. An item counts the sum over
its changes. The entries supply the changes that failed, in any order. If the item has changed since, a
counterpart of the entry with sign -1 is in quarantine too, and the two cancel.

**Correction of the item.** Write the item again with correct values. The stream adds the new image in full,
because the old image was not counted, and puts the old image into quarantine again with sign -1. Two entries
with the same image and opposite signs cancel whatever the image is worth, so a redrive deletes the pair
without computing it. The item counts once.

**Correction of the entry.** For an item that must not be written again, replace the `image` of its entry
(typed JSON as text is accepted). A redrive then adds this image, while the item itself stays malformed. If
the item changes later, its old image arrives in quarantine with sign -1, and that entry must get the same
image: then the two cancel, and the item counts once. Never correct both the item and the entry. If the entry
is corrected and the entry with -1 is not, the item counts twice.

An entry that was too large to store has no image. Delete it after its item has been corrected.
"""

from __future__ import annotations

import hashlib
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from chalicelib.aggregates import quarantine
from chalicelib.aggregates.engine import computed, derive_all
from chalicelib.aggregates.sums import Contribution, Derivation, Sums, merge
from chalicelib.aggregates.updates import additions
from chalicelib.dynamo.items import Item, Key, Range, unpack
from chalicelib.dynamo.table import TRANSACTION, Table
from chalicelib.errors import Rejected

PAGE = 100  # entries per query
MAX_REASON = 120  # characters


class Ready(NamedTuple):
    """An entry that can be computed, and its contribution."""

    key: Key
    sums: Sums


@dataclass
class Summary:
    """Counts of entries. `gone` were taken by a concurrent run; `left` remain, by reason."""

    entries: int = 0
    applied: int = 0
    cancelled: int = 0
    gone: int = 0
    left: Counter[str] = field(default_factory=Counter)


def redrive(
    table: Table,
    contributions: Sequence[Contribution],
    *,
    derivations: Sequence[Derivation] = (),
    dry_run: bool = False,
    advance: Callable[[int], None] = lambda _: None,
) -> Summary:
    """Apply every entry that can be computed, and delete pairs that cancel. Other entries do not change.

    A dry run writes nothing. Memory: about 100 bytes per remaining entry.

    Cost: 1 RCU per 4 KB of quarantine, at least 16, and 2 WCU per KB of each removed entry. Up to 99 entries
    share the writes of their aggregates.

    Raises: Busy. Entries applied before stay applied.
    """
    summary = Summary()
    waiting: dict[tuple[bytes, int], list[tuple[Key, str]]] = {}
    for page in _pages(table):
        ready, pairs = [], []
        for entry in page:
            key = Key(entry["pk"], entry["sk"])
            try:
                ready.append(Ready(key, _sums(contributions, entry)))
            except Exception as error:  # a contribution may raise anything; continue with the others
                pairs += _match_pair(waiting, entry, key, f"{type(error).__name__}: {error}"[:MAX_REASON])
        summary.entries += len(page)
        for chunk in _transactions(ready):
            _apply(table, chunk, summary, dry_run)
            if not dry_run:
                derive_all(table, derivations, {key for entry in chunk for key, _ in entry.sums})
        for i in range(0, len(pairs), TRANSACTION // 2):
            _cancel(table, pairs[i : i + TRANSACTION // 2], summary, dry_run)
        advance(len(page))
    summary.left.update(reason for entries in waiting.values() for _, reason in entries)
    return summary


def _pages(table: Table) -> Iterator[list[Item]]:
    for n in range(quarantine.PARTITIONS):
        for page in table.query_pages(Range(f"QUARANTINE#{n}"), limit=PAGE, consistent=True):
            if page.items:
                yield page.items


def _sums(contributions: Sequence[Contribution], entry: Item) -> Sums:
    """Compute the contribution of an entry.

    Raises: ValueError for a malformed entry, and anything that a contribution raises.
    """
    if entry.get("sign") not in (1, -1):
        raise ValueError("sign: must be 1 or -1")
    sums: Sums = {}
    merge(sums, computed(contributions, unpack(quarantine.read_image(entry))), entry["sign"])
    if "aggregate" in entry:  # the other aggregates have counted the image
        sums = {at: amount for at, amount in sums.items() if list(at[0]) == entry["aggregate"]}
    return sums


def _match_pair(
    waiting: dict[tuple[bytes, int], list[tuple[Key, str]]], entry: Item, key: Key, reason: str
) -> list[tuple[Key, Key]]:
    """Return the pair of an entry and an earlier counterpart, or remember the entry."""
    sign = entry.get("sign")
    try:
        image = quarantine.serialize(quarantine.read_image(entry)).encode(errors="surrogatepass")
        same = hashlib.blake2b(image, digest_size=16).digest() if sign in (1, -1) else b""
    except ValueError:
        same = b""
    opposite = waiting.get((same, -sign)) if same and isinstance(sign, int) else None
    if opposite:
        return [(opposite.pop()[0], key)]
    waiting.setdefault((same, sign if sign in (1, -1) else 0), []).append((key, reason))
    return []


def _transactions(ready: Iterable[Ready]) -> Iterator[list[Ready]]:
    """Split entries into transactions with one deletion per entry and one update per aggregate."""
    chunk: list[Ready] = []
    touched: set[Key] = set()
    for entry in ready:
        touches = {key for key, _ in entry.sums}
        if chunk and len(chunk) + 1 + len(touched | touches) > TRANSACTION:
            yield chunk
            chunk, touched = [], set()
        chunk.append(entry)
        touched |= touches
    if chunk:
        yield chunk


def _apply(table: Table, chunk: list[Ready], summary: Summary, dry_run: bool) -> None:
    """Apply the entries of a transaction and delete them.

    Entries that no longer exist are dropped. A transaction that DynamoDB rejects is split to find the cause.
    """
    while chunk and not dry_run:
        try:
            sums: Sums = {}
            for entry in chunk:
                merge(sums, entry.sums)
            refused = table.transact(
                [*(_deletion(entry.key) for entry in chunk), *additions(sums, int(time.time()))]
            )
        except (Rejected, ArithmeticError, TypeError, ValueError) as error:
            if len(chunk) == 1:
                summary.left[f"{type(error).__name__}: {error}"[:MAX_REASON]] += 1
                return
            middle = len(chunk) // 2
            _apply(table, chunk[:middle], summary, dry_run)
            _apply(table, chunk[middle:], summary, dry_run)
            return
        if not refused:
            break
        summary.gone += len(refused)  # only deletions have a condition
        chunk = [entry for place, entry in enumerate(chunk) if place not in refused]
    summary.applied += len(chunk)


def _cancel(table: Table, pairs: list[tuple[Key, Key]], summary: Summary, dry_run: bool) -> None:
    """Delete both entries of each pair. A pair with a missing entry is left to the next run."""
    while pairs and not dry_run:
        refused = table.transact([_deletion(key) for pair in pairs for key in pair])
        if not refused:
            break
        broken = {place // 2 for place in refused}
        summary.gone += len(refused)
        summary.left["the counterpart no longer exists: run redrive again"] += 2 * len(broken) - len(refused)
        pairs = [pair for place, pair in enumerate(pairs) if place not in broken]
    summary.cancelled += 2 * len(pairs)


def _deletion(key: Key) -> dict[str, Any]:
    return {"Delete": {"Key": key._asdict(), "ConditionExpression": "attribute_exists(pk)"}}
