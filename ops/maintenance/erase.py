"""Erase all data of a person: everything stored under a player's or author's name or under client ids.

Each feature finds and erases its own items (`personal.py` in its package). The stream processes each deletion
like any other change, so the aggregates follow. The command scans the whole table, because a person's items
have many partition keys. Item images in quarantine are kept and reported; a redrive cancels them once the
items are deleted.

Invariant: the last pass over the table finds nothing, so everything written before it is erased. Items of a
person whose token is still valid and who keeps writing are reported as left. An interrupted run resumes. Two
concurrent runs are safe.
"""

from __future__ import annotations

import contextlib
import hashlib
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from botocore.exceptions import BotoCoreError, ClientError

from chalicelib.aggregates import quarantine
from chalicelib.api import codec, rates
from chalicelib.dynamo.items import Item, Key, Range, unpack
from chalicelib.dynamo.table import Table
from chalicelib.feature import Person, find_personal
from chalicelib.settings import Settings
from ops.maintenance import scan
from ops.maintenance.pace import Pace

MAX_PASSES = 6  # two are enough without new writes and without lag
QUARANTINED = "quarantine"


def progress_pk(person: Person) -> str:
    """Return the partition key of the progress items. It does not contain the name."""
    text = "\n".join([person.name, *sorted(person.clients)])
    return f"ERASE#{hashlib.blake2b(text.encode(), digest_size=12).hexdigest()}"


@dataclass
class Erased:
    """Erased items by kind, items found by the last pass by kind, and the number of passes."""

    erased: Counter[str] = field(default_factory=Counter)
    left: Counter[str] = field(default_factory=Counter)
    passes: int = 0
    is_resumed: bool = False


def parse_person(settings: Settings, name: str, clients: Iterable[str]) -> Person:
    """Normalize a name and client ids as the API does. Without the stage's secret `digest` is empty.

    Raises: ValueError.
    """
    name = codec.normalize(name, "name")
    ids = frozenset(codec.normalize(client, "client") for client in clients)
    try:
        return Person(name, ids, rates.digest_subject(settings, name))
    except (OSError, BotoCoreError, ClientError):
        return Person(name, ids)


def classify(item: Item, person: Person) -> str:
    """Return the kind of a person's item; empty for any other item."""
    import app

    if item["pk"].startswith("QUARANTINE#"):
        return QUARANTINED if _is_about(item, person) else ""
    found = find_personal(app.FEATURES, item, person)
    return found[0] if found else ""


def _is_about(entry: Item, person: Person) -> bool:
    """Return whether a quarantine entry contains an image of a person's item."""
    with contextlib.suppress(Exception):  # the image may be malformed in any way
        return bool(classify(unpack(quarantine.read_image(entry)), person))
    return False


def count_items(
    table: Table, person: Person, pace: Pace, report: Callable[[Counter[str]], None]
) -> Counter[str]:
    """Count a person's items by kind, without changes.

    Cost: 1 RCU per 4 KB of the table.
    """
    return scan.process_table(table, "", pace, lambda item: classify(item, person), report)


def is_started(table: Table, person: Person) -> bool:
    """Return whether an erasure of this person was interrupted.

    Cost: 1 RCU.
    """
    return bool(table.query(Range(progress_pk(person)), limit=1, consistent=True).items)


def erase(
    table: Table,
    person: Person,
    pace: Pace,
    *,
    settle: float,
    report: Callable[[Counter[str]], None],
    pause: Callable[[float], None] = time.sleep,
) -> Erased:
    """Scan the table and erase, until a pass finds nothing, in at most six passes `settle` seconds apart.

    Cost: 1 RCU per 4 KB of the table and pass, and the deletions.
    """
    found = Erased()
    found.is_resumed = is_started(table, person)
    for number in range(MAX_PASSES):
        if number:
            pause(settle)
        counts = scan.process_table(
            table, progress_pk(person), pace, lambda item: _erase_item(table, item, person), report
        )
        found.passes += 1
        found.left = Counter({name: count for name, count in counts.items() if name != "read"})
        found.erased += Counter({name: n for name, n in found.left.items() if name != QUARANTINED})
        if not set(found.left) - {QUARANTINED} and not (found.is_resumed and number == 0):
            break
    return found


def _erase_item(table: Table, item: Item, person: Person) -> str:
    """Erase an item if it is a person's, and return its kind. A missing item is not an error."""
    import app

    kind = classify(item, person)
    if kind != QUARANTINED and (found := find_personal(app.FEATURES, item, person)):
        erase_item = found[1].personal.erase or _delete
        erase_item(table, item, person)
    return kind


def _delete(table: Table, item: Item, person: Person) -> None:
    table.delete(Key(item["pk"], item["sk"]))
