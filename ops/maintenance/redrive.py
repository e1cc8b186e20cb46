"""Adds what waits in quarantine to the aggregates, as soon as it can be computed: each entry exactly once.

An entry holds an image that counted for nothing, and its sign: 1 where the image was to be added, -1 where
it was to be taken away. An entry that can be computed is deleted in the transaction that adds its amounts,
on condition that it is still there. So a run may be killed, repeated, or run beside another one.

**Repaired by code.** A version that reads the image is deployed, then redriven. What an item counts is the
sum over its changes; the entries fill in just those that counted for nothing, in any order. An entry of an
image that the item has left since has its counterpart, -1, in quarantine too: both are added, and cancel.

**Repaired by mending the item.** Write it anew, as it should be. The stream adds the new image in full, for
the old one had counted for nothing, and puts the old one into quarantine a second time, with -1. There is
nothing left to add: two entries of one image and of opposite signs cancel whatever the image is worth, so a
redrive deletes the pair, unread. The item counts once.

**Repaired by mending the entry.** For an item that nobody should write again, replace the `image` of its
entry (typed JSON as text will do). It is added as it stands from then on, while the item itself still holds
what cannot be computed. Should the item change later, its old image arrives in quarantine with -1, and that
entry needs the same image: then the two cancel, and the item counts once. Never mend both item and entry:
with the entry mended and the -1 left as it is, the item counts twice.

An entry that was too large to keep has no image; delete it when its item is mended.
"""

from __future__ import annotations

import hashlib
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from chalicelib.aggregates import quarantine
from chalicelib.aggregates.engine import additions, computed
from chalicelib.aggregates.sums import Contribution, Sums, merge
from chalicelib.dynamo.items import Item, Key
from chalicelib.dynamo.table import TRANSACTION, Table
from chalicelib.errors import Rejected

PAGE = 100  # entries read at a time
REASON = 120  # letters


class Ready(NamedTuple):
    """An entry that can be computed, and what it adds."""

    key: Key
    sums: Sums


@dataclass
class Summary:
    """What became of the entries; `gone` were taken by another run, `left` stay, by reason."""

    entries: int = 0
    applied: int = 0
    cancelled: int = 0
    gone: int = 0
    left: Counter[str] = field(default_factory=Counter)


def redrive(
    table: Table,
    contributions: Sequence[Contribution],
    *,
    dry_run: bool = False,
    advance: Callable[[int], None] = lambda _: None,
) -> Summary:
    """Apply every entry that can be computed, and delete pairs that cancel; the others stay as they are.

    Reads a page of entries at a time, and remembers some 100 bytes of each that stays. Costs 1 RCU per 4 KB
    of quarantine, at least 16, and for each entry that goes 2 WCU per KB; the aggregates' writes are shared
    by up to 99 entries. A dry run writes nothing. Raises Busy; what is done by then stays done.
    """
    summary = Summary()
    waiting: dict[tuple[bytes, int], list[tuple[Key, str]]] = {}
    for page in _pages(table):
        ready, pairs = [], []
        for entry in page:
            key = Key(entry["pk"], entry["sk"])
            try:
                ready.append(Ready(key, _sums(contributions, entry)))
            except Exception as error:  # whatever a feature raises about an image, the others go on
                pairs += _paired(waiting, entry, key, f"{type(error).__name__}: {error}"[:REASON])
        summary.entries += len(page)
        for chunk in _chunks(ready):
            _apply(table, chunk, summary, dry_run)
        for i in range(0, len(pairs), TRANSACTION // 2):
            _cancel(table, pairs[i : i + TRANSACTION // 2], summary, dry_run)
        advance(len(page))
    summary.left.update(reason for entries in waiting.values() for _, reason in entries)
    return summary


def _pages(table: Table) -> Iterator[list[Item]]:
    for n in range(quarantine.PARTITIONS):
        for page in table.query_pages(f"QUARANTINE#{n}", limit=PAGE, consistent=True):
            if page.items:
                yield page.items


def _sums(contributions: Sequence[Contribution], entry: Item) -> Sums:
    """Compute what an entry adds. Raises what a feature raises, ValueError for what is no entry."""
    if entry.get("sign") not in (1, -1):
        raise ValueError("the entry has no sign: 1 or -1")
    sums: Sums = {}
    merge(sums, computed(contributions, quarantine.image(entry)), entry["sign"])
    return sums


def _paired(
    waiting: dict[tuple[bytes, int], list[tuple[Key, str]]], entry: Item, key: Key, reason: str
) -> list[tuple[Key, Key]]:
    """Answer the pair that an entry makes with one before it, or else keep it waiting for one."""
    sign = entry.get("sign")
    try:
        image = quarantine.written(quarantine.image(entry)).encode(errors="surrogatepass")
        same = hashlib.blake2b(image, digest_size=16).digest() if sign in (1, -1) else b""
    except ValueError:
        same = b""
    opposite = waiting.get((same, -sign)) if same and isinstance(sign, int) else None
    if opposite:
        return [(opposite.pop()[0], key)]
    waiting.setdefault((same, sign if sign in (1, -1) else 0), []).append((key, reason))
    return []


def _chunks(ready: Iterable[Ready]) -> Iterator[list[Ready]]:
    """Part entries into transactions: a deletion for each, an update for each aggregate of them all."""
    chunk: list[Ready] = []
    touched: set[Key] = set()
    for one in ready:
        touches = {key for key, _ in one.sums}
        if chunk and len(chunk) + 1 + len(touched | touches) > TRANSACTION:
            yield chunk
            chunk, touched = [], set()
        chunk.append(one)
        touched |= touches
    if chunk:
        yield chunk


def _apply(table: Table, chunk: list[Ready], summary: Summary, dry_run: bool) -> None:
    """Add a chunk and delete its entries; what is gone is dropped, what DynamoDB rejects is singled out."""
    while chunk and not dry_run:
        try:
            sums: Sums = {}
            for one in chunk:
                merge(sums, one.sums)
            refused = table.transact(
                [*(_deletion(one.key) for one in chunk), *additions(sums, int(time.time()))]
            )
        except (Rejected, ArithmeticError, TypeError, ValueError) as error:
            if len(chunk) == 1:
                summary.left[f"{type(error).__name__}: {error}"[:REASON]] += 1
                return
            middle = len(chunk) // 2
            _apply(table, chunk[:middle], summary, dry_run)
            _apply(table, chunk[middle:], summary, dry_run)
            return
        if not refused:
            break
        summary.gone += len(refused)  # additions have no condition
        chunk = [one for place, one in enumerate(chunk) if place not in refused]
    summary.applied += len(chunk)


def _cancel(table: Table, pairs: list[tuple[Key, Key]], summary: Summary, dry_run: bool) -> None:
    """Delete pairs that cancel, each whole; one of which a half is gone is left to the next run."""
    while pairs and not dry_run:
        refused = table.transact([_deletion(key) for pair in pairs for key in pair])
        if not refused:
            break
        broken = {place // 2 for place in refused}
        summary.gone += len(refused)
        summary.left["its counterpart is gone: run it again"] += 2 * len(broken) - len(refused)
        pairs = [pair for place, pair in enumerate(pairs) if place not in broken]
    summary.cancelled += 2 * len(pairs)


def _deletion(key: Key) -> dict[str, Any]:
    return {"Delete": {"Key": key._asdict(), "ConditionExpression": "attribute_exists(pk)"}}
