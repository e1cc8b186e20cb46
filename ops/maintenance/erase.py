"""Erase all data of a person: everything stored under a player's or author's name or under client ids.

| data | items | how it is erased |
|---|---|---|
| scores, activities | `PLAYER#<player>` | deleted |
| found paths, guesses | `CHALLENGE#…#PLAYER#<player>` | withdrawn, as by an admin |
| comments | `PRODUCT#…`, by `author` | deleted, as by an admin, with the author's items, replies and votes |
| replies, votes | `PRODUCT#…`, by `author` or key | removed from the comments of others |
| views, visitors | `URL#…` and `SITE#…`, by client id | deleted |
| images of these | `QUARANTINE#…` | kept and reported; a redrive cancels them once the items are deleted |

The stream processes each deletion like any other change, so the aggregates follow. The chat stores no names.
The command scans the whole table, because a person's items have many partition keys.

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
from typing import NamedTuple

from chalicelib.aggregates import quarantine
from chalicelib.api import codec
from chalicelib.api.auth import Caller
from chalicelib.challenges import progress
from chalicelib.challenges.schemas import PlayerParams
from chalicelib.comments import comments, replies, votes
from chalicelib.dynamo.items import Item, Key, unpack
from chalicelib.dynamo.table import Table
from chalicelib.errors import NotFound
from ops.maintenance import scan

MAX_PASSES = 6  # two are enough without new writes and without lag
QUARANTINED = "quarantine"


class Person(NamedTuple):
    """The name of a player and author, and the ids of the person's clients.

    Both are in NFC, as stored in the table. `parse_person` normalizes user input.
    """

    name: str
    clients: frozenset[str] = frozenset()

    @property
    def progress_pk(self) -> str:
        """The partition key of the progress items. It does not contain the name."""
        text = "\n".join([self.name, *sorted(self.clients)])
        return f"ERASE#{hashlib.blake2b(text.encode(), digest_size=12).hexdigest()}"


@dataclass
class Erased:
    """Erased items by kind, items found by the last pass by kind, and the number of passes."""

    erased: Counter[str] = field(default_factory=Counter)
    left: Counter[str] = field(default_factory=Counter)
    passes: int = 0
    is_resumed: bool = False


def parse_person(name: str, clients: Iterable[str]) -> Person:
    """Normalize a name and client ids as the API does.

    Raises: ValueError.
    """
    return Person(
        codec.normalize(name, "name"), frozenset(codec.normalize(client, "client") for client in clients)
    )


def classify(item: Item, person: Person) -> str:
    """Return the kind of a person's item; empty for any other item."""
    pk, sk = str(item["pk"]), str(item["sk"])
    feature, _, rest = pk.partition("#")
    if feature == "PLAYER" and rest == person.name:
        return "scores" if sk.startswith("BOARD#") else "activities"
    if feature == "CHALLENGE" and pk.partition("#PLAYER#")[2] == person.name:
        return "paths"
    if feature == "PRODUCT":
        if sk.startswith((comments.COMMENT, comments.HIDDEN)) and item.get("author") == person.name:
            return "comments"
        if replies.is_reply(item) and item.get("author") == person.name:
            return "replies"
        if votes.is_vote_of(item, person.name):
            return "votes"
        return "authors" if sk == f"AUTHOR#{person.name}" else ""
    if feature == "URL" and sk.startswith("T#"):
        return "views" if sk.partition("#CID#")[2] in person.clients else ""
    if feature == "URL" and sk.startswith("VISITOR#"):
        return "visitors" if sk.split("#", 2)[2] in person.clients else ""
    if feature == "SITE" and sk.startswith("VISITOR#"):
        return "visitors" if pk.partition("#CLIENT#")[2] in person.clients else ""
    return QUARANTINED if feature == "QUARANTINE" and _is_about(item, person) else ""


def _is_about(entry: Item, person: Person) -> bool:
    """Return whether a quarantine entry contains an image of a person's item."""
    with contextlib.suppress(Exception):  # the image may be malformed in any way
        return bool(classify(unpack(quarantine.read_image(entry)), person))
    return False


def count_items(
    table: Table, person: Person, segments: int, rate: float | None, report: Callable[[Counter[str]], None]
) -> Counter[str]:
    """Count a person's items by kind, without changes.

    Cost: 1 RCU per 4 KB of the table.
    """
    return scan.process_table(
        table, "", segments, lambda item: classify(item, person), report, scan.RateLimiter(rate)
    )


def is_started(table: Table, person: Person) -> bool:
    """Return whether an erasure of this person was interrupted.

    Cost: 1 RCU.
    """
    return bool(table.query(person.progress_pk, limit=1, consistent=True).items)


def erase(
    table: Table,
    person: Person,
    *,
    segments: int,
    rate: float | None,
    settle: float,
    report: Callable[[Counter[str]], None],
    pause: Callable[[float], None] = time.sleep,
) -> Erased:
    """Scan the table and erase, until a pass finds nothing, in at most six passes `settle` seconds apart.

    `rate` limits the items read per second.

    Cost: 1 RCU per 4 KB of the table and pass, and the deletions.
    """
    found = Erased()
    found.is_resumed = is_started(table, person)
    for number in range(MAX_PASSES):
        if number:
            pause(settle)
        counts = scan.process_table(
            table,
            person.progress_pk,
            segments,
            lambda item: _erase_item(table, item, person),
            report,
            scan.RateLimiter(rate),
        )
        found.passes += 1
        found.left = Counter({name: count for name, count in counts.items() if name != "read"})
        found.erased += Counter({name: n for name, n in found.left.items() if name != QUARANTINED})
        if not set(found.left) - {QUARANTINED} and not (found.is_resumed and number == 0):
            break
    return found


def _erase_item(table: Table, item: Item, person: Person) -> str:
    """Erase an item if it is a person's, and return its kind. A missing item is not an error."""
    kind, key = classify(item, person), Key(item["pk"], item["sk"])
    match kind:
        case "paths" if key.sk == "PROGRESS" and item.get("found") == 0:  # wrong guesses alone
            table.delete(key, condition="found = :none", values={":none": 0})
        case "paths":
            challenge = key.pk.partition("#PLAYER#")[0].removeprefix("CHALLENGE#")
            _withdraw(table, challenge, person.name, key)
        case "comments":
            _delete_comment(table, person, comments.product_of(item), comments.id_of(item))
        case "authors":
            _delete_comment(table, person, comments.product_of(item), str(item["id"]))
            table.delete(key, condition="id = :id", values={":id": item["id"]})
        case "replies":
            with contextlib.suppress(NotFound):
                replies.delete(table, replies.path_of(item), Caller(person.name, admin=True))
        case "votes":
            votes.remove(table, comments.product_of(item), key.sk.split("#")[1], person.name)
        case "" | "quarantine":
            pass
        case _:
            table.delete(key)
    return kind


def _withdraw(table: Table, challenge: str, player: str, key: Key) -> None:
    """Withdraw all paths of a player when the first one is found. The others no longer exist then."""
    if table.get(key, consistent=True) is None:
        return
    with contextlib.suppress(NotFound):
        progress.withdraw_player(table, PlayerParams(challenge=challenge, player=player))


def _delete_comment(table: Table, person: Person, product: str, id: str) -> None:
    """Delete a comment and its author's item, if the comment exists and is the person's."""
    there = comments.find_stored(table, product, id)
    if there and there.get("author") == person.name:
        with contextlib.suppress(NotFound):
            comments.delete(table, product, id, Caller(person.name, admin=True))
