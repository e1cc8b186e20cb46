"""What submissions to a challenge are judged by: its definition, as a value and as the table keeps it.

A definition that cannot be read (an operator's slip, a version of long ago) is `Busy` for everybody until an
admin puts it again. Its normalization lasts even then, for found paths are keyed by it.
"""

from datetime import datetime
from typing import NamedTuple

import msgspec

from chalicelib import times
from chalicelib.challenges import answers
from chalicelib.challenges.schemas import Closes, Limit, Normalization, Opens, Ranked, Title
from chalicelib.dynamo.items import Item
from chalicelib.errors import Busy, NotOpen
from chalicelib.telemetry import logs


class Definition(NamedTuple):
    """A challenge, as submissions are judged by; `edition` counts how often it was put."""

    challenge: str
    title: Title
    limit: Limit
    normalization: Normalization
    salt: bytes
    cost: int
    answers: frozenset[bytes]
    edition: int
    opens: Opens = None
    closes: Closes = None
    ranked: Ranked = False

    def normalized(self, path: str) -> str:
        """Write a path in the notation that this challenge compares."""
        return answers.normalized(path, self.normalization)

    def accepts(self, path: str) -> bool:
        """Tell whether a normalized path is one of the answers."""
        return bool(path) and answers.digest(path, self.salt, self.cost) in self.answers

    def check_open(self, now: datetime) -> None:
        """Raise NotOpen before the opening, and from the closing on."""
        if self.opens and now < times.parse(self.opens):
            raise NotOpen(f"{self.challenge} opens at {self.opens}.")
        if self.closes and now >= times.parse(self.closes):
            raise NotOpen(f"{self.challenge} closed at {self.closes}.")


def written(made: Definition) -> Item:
    """Write a definition's attributes, without its key."""
    fields = made._asdict()
    del fields["challenge"]
    rules = msgspec.structs.asdict(made.normalization)
    return fields | {"answers": set(made.answers), "normalization": rules}


def read(item: Item) -> Definition:
    """Read a definition; what is not said is as it is by default. Raises Busy for one that is damaged."""
    challenge = item["pk"].removeprefix("CHALLENGE#")
    said = Definition._field_defaults | item | {"challenge": challenge}
    try:
        fields = [said.get(name) for name in Definition._fields]
        made = msgspec.convert(fields, Definition, builtin_types=[bytes])  # else a text is base64
        for instant in filter(None, (made.opens, made.closes)):
            times.parse(instant)
    except (msgspec.ValidationError, ValueError):
        logs.logger().warning("a challenge's definition is damaged")
        raise Busy(f"challenge: {challenge} is damaged until an admin puts it again") from None
    return made


def readable(item: Item) -> Definition | None:
    """Read a definition; None when there is none, or a damaged one."""
    try:
        return read(item) if item else None
    except Busy:
        return None


def lasting(item: Item) -> Normalization | None:
    """Read the normalization that a challenge keeps, of a damaged definition too; None: there is none."""
    try:
        return msgspec.convert(item.get("normalization"), Normalization)
    except msgspec.ValidationError:
        return None
