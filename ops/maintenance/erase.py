"""Erases a person everywhere: what was found, submitted, written, counted under a name or a client's id.

| what | where it is | how it goes |
|---|---|---|
| scores, activities | `PLAYER#<player>` | deleted, each |
| entries of rankings | `PLAYER#<player>`, `RANKED#…` | once the stream has brought them to 0 |
| found paths, guesses | `CHALLENGE#…#PLAYER#<player>` | withdrawn, as an admin does |
| comments | `PRODUCT#…`, by `author` | deleted, as an admin does, and their authors' items |
| views, visitors | `URL#…`, by the client's id | deleted, each |
| images of these | `QUARANTINE#…` | left, and told: a redrive cancels them, once the items are gone |

Each deletion comes through the stream like any other change, so every sum follows. The chat keeps nobody's
name. The whole table is read: a person's items lie under other things' keys.

A look reads the table and erases what it finds. The command ends with a look that finds nothing; so whatever
was written before that look is gone. Who may go on writing (whose token is still valid) is found again, and
told as left. It may be killed and run again: it goes on where it was. Two runs at once do no harm.
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
from chalicelib.challenges.schemas import PlayerPath
from chalicelib.comments import changes, comments
from chalicelib.dynamo.items import Item, Key, unpack
from chalicelib.dynamo.table import Table
from chalicelib.errors import NotFound
from ops.maintenance import scan as parts

LOOKS = 6  # at most; two are enough where nobody writes and the stream does not lag
STAYS, WAITS = "quarantine", "entries that wait for the stream"


class Person(NamedTuple):
    """Who is erased: a player's and author's name, and ids that the site gave to the person's clients.

    Both as the table has them, in NFC: `read` makes one of what somebody typed.
    """

    name: str
    clients: frozenset[str] = frozenset()

    @property
    def place(self) -> str:
        """Where the progress is noted, under no name."""
        text = "\n".join([self.name, *sorted(self.clients)])
        return f"ERASE#{hashlib.blake2b(text.encode(), digest_size=12).hexdigest()}"


@dataclass
class Erased:
    """What was erased, by kind; what the last look still found, by kind; how many looks there were."""

    erased: Counter[str] = field(default_factory=Counter)
    left: Counter[str] = field(default_factory=Counter)
    looks: int = 0
    is_resumed: bool = False


def read(name: str, clients: Iterable[str]) -> Person:
    """Read a person's name and client ids as the door reads them, in NFC. Raises ValueError."""
    return Person(
        codec.normalize(name, "name"), frozenset(codec.normalize(client, "client") for client in clients)
    )


def kind(item: Item, person: Person) -> str:
    """Say what an item is to a person; empty when it has nothing to do with the person."""
    pk, sk = str(item["pk"]), str(item["sk"])
    feature, _, rest = pk.partition("#")
    if feature == "PLAYER" and rest == person.name:
        return {"BOARD": "scores", "RANKED": "entries"}.get(sk.partition("#")[0], "activities")
    if feature == "CHALLENGE" and pk.partition("#PLAYER#")[2] == person.name:
        return "guesses" if sk == "GUESSES" else "paths"
    if feature == "PRODUCT":
        if sk.startswith((comments.COMMENT, comments.HIDDEN)) and item.get("author") == person.name:
            return "comments"
        return "authors" if sk == f"AUTHOR#{person.name}" else ""
    if feature == "URL" and sk.startswith("T#"):
        return "views" if sk.partition("#CID#")[2] in person.clients else ""
    if feature == "URL" and sk.startswith("VISITOR#"):
        return "visitors" if sk.split("#", 2)[2] in person.clients else ""
    return STAYS if feature == "QUARANTINE" and _is_about(item, person) else ""


def _is_about(entry: Item, person: Person) -> bool:
    """Tell whether an entry of the quarantine holds an image of an item of a person."""
    with contextlib.suppress(Exception):  # whatever an image is that could not be computed
        return bool(kind(unpack(quarantine.image(entry)), person))
    return False


def find(
    table: Table, person: Person, segments: int, rate: float | None, tick: Callable[[Counter[str]], None]
) -> Counter[str]:
    """Count what there is of a person, by kind, and write nothing. Costs 1 RCU per 4 KB of the table."""
    return parts.run(table, "", segments, lambda item: kind(item, person), tick, parts.Pace(rate))


def is_begun(table: Table, person: Person) -> bool:
    """Return whether an erasure of this person was begun, and has not come to its end. Costs 1 RCU."""
    return bool(table.query(person.place, limit=1, consistent=True).items)


def erase(
    table: Table,
    person: Person,
    *,
    segments: int,
    rate: float | None,
    settle: float,
    tick: Callable[[Counter[str]], None],
    pause: Callable[[float], None] = time.sleep,
) -> Erased:
    """Look at the table and erase, until a look finds nothing, at most six times, `settle` seconds apart.

    At most `rate` items are read a second. Costs 1 RCU per 4 KB of the table for each look, and what the
    deletions cost.
    """
    found = Erased()
    found.is_resumed = is_begun(table, person)
    for number in range(LOOKS):
        if number:
            pause(settle)
        look = parts.run(
            table, person.place, segments, lambda item: _go(table, item, person), tick, parts.Pace(rate)
        )
        found.looks += 1
        found.left = Counter({name: count for name, count in look.items() if name != "read"})
        found.erased += Counter(
            {name: count for name, count in found.left.items() if name not in (STAYS, WAITS)}
        )
        if not set(found.left) - {STAYS} and not (found.is_resumed and number == 0):
            break
    return found


def _go(table: Table, item: Item, person: Person) -> str:
    """Erase an item that is a person's; answer what it was. What is gone already is as good."""
    what, key = kind(item, person), Key(item["pk"], item["sk"])
    match what:
        case "entries":  # an aggregate: at 0 it is as good as none
            at_zero = "gsi1sk = :none OR attribute_not_exists(gsi1sk)"
            return WAITS if table.delete(key, condition=at_zero, values={":none": 0}) is None else what
        case "paths":
            challenge = key.pk.partition("#PLAYER#")[0].removeprefix("CHALLENGE#")
            _withdraw(table, challenge, person.name, key)
        case "comments":
            _delete_comment(table, person, comments.product_of(item), comments.ident(item))
        case "authors":
            _delete_comment(table, person, comments.product_of(item), str(item["id"]))
            table.delete(key, condition="id = :id", values={":id": item["id"]})
        case "" | "quarantine":
            pass
        case _:
            table.delete(key)
    return what


def _withdraw(table: Table, challenge: str, player: str, key: Key) -> None:
    """Take back all paths of a player at the first that is met; the others are gone then."""
    if table.get(key, consistent=True) is None:
        return
    with contextlib.suppress(NotFound):
        progress.withdraw_player(table, PlayerPath(challenge=challenge, player=player))


def _delete_comment(table: Table, person: Person, product: str, id: str) -> None:
    """Delete a comment, if it is there and the person's; its author's place is freed with it."""
    there = comments.stored(table, product, id)
    if there and there.get("author") == person.name:
        with contextlib.suppress(NotFound):
            changes.delete(table, product, id, Caller(person.name, admin=True))
