"""Define challenges, and check paths against their answers.

| item | pk | sk | holds |
|---|---|---|---|
| definition | `CHALLENGE#<challenge>` | `DEFINITION` | `title`, …; `answers` (digests), `salt`, `edition` |
| | | | gsi1 = `CHALLENGES`, sorted by the second of its creation |

An *answer* is a valid path of a challenge. Of each answer only a digest is stored: scrypt (RFC 7914) with a
salt per challenge. Answers are short and can be guessed. scrypt makes each guess of a reader of the table
cost 2 ms and 1 MB of memory. The salt prevents one search over several challenges.

Invariants: the salt and the normalization of a challenge never change, because digests and the keys of found
paths depend on them. `edition` counts the writes of a definition.
"""

import hashlib
import json
import secrets
import unicodedata
from collections.abc import Iterable
from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from chalicelib import times
from chalicelib.api import listing
from chalicelib.api.schemas import parse_instant
from chalicelib.challenges.schemas import (
    Challenge,
    ChallengeBody,
    Closes,
    Guests,
    Limit,
    Normalization,
    Opens,
    Ranked,
    Title,
)
from chalicelib.context import Context
from chalicelib.dynamo.items import Item, Key
from chalicelib.dynamo.table import Table
from chalicelib.errors import BadRequest, Busy, Conflict, NotFound, NotOpen

SCRYPT_COST = 1024  # scrypt's n. A definition stores the one that it was written with, so this may grow.
DIGEST_BYTES = 12  # a wrong path matches one of 1,000 answers once in 10²⁵ guesses
SALT_BYTES = 16
MAX_PATH_BYTES = 1000  # of a normalized path, which is a part of a sort key
MAX_ATTEMPTS = 20  # of one change, while other changes of the same challenge succeed
LIST = "CHALLENGES"
INDEX = ("gsi1pk", "gsi1sk")


class Definition(NamedTuple):
    """A challenge with the digests of its answers."""

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
    guests: Guests = True

    def normalize(self, path: str) -> str:
        """Return the normalized form of a path."""
        return normalize(path, self.normalization)

    def find_answer(self, normalized: str) -> bytes:
        """Return the digest of a normalized path if it is one of the answers, or else nothing."""
        digest = hash_answer(normalized, self.salt, self.cost) if normalized else b""
        return digest if digest in self.answers else b""

    def check_open(self, now: datetime) -> None:
        """Raise NotOpen before the opening, and from the closing on."""
        if self.opens and now < times.parse(self.opens):
            raise NotOpen(f"The challenge {self.challenge} opens at {self.opens}.")
        if self.closes and now >= times.parse(self.closes):
            raise NotOpen(f"The challenge {self.challenge} closed at {self.closes}.")


# -- keys ----------------------------------------------------------------------------------------------


def definition_key(challenge: str) -> Key:
    """Return the key of a challenge's definition."""
    return Key(f"CHALLENGE#{challenge}", "DEFINITION")


# -- answers -------------------------------------------------------------------------------------------


def normalize(path: str, rules: Normalization) -> str:
    """Return the form of a path in which a challenge compares paths. The function is idempotent.

    The result is empty for a path of blanks and for a path that is too long. An empty text is no answer.
    Source: The Unicode Standard, 3.13, "Default Caseless Matching".

    >>> normalize("  Oak   MILL", Normalization())
    'oak mill'
    """
    text = unicodedata.normalize(rules.unicode, path)
    if rules.case == "fold":
        for form in ("NFD", rules.unicode):
            text = unicodedata.normalize(rules.unicode, unicodedata.normalize(form, text).casefold())
    if rules.spaces != "keep":
        text = (" " if rules.spaces == "collapse" else "").join(text.split())
        text = unicodedata.normalize(rules.unicode, text)  # a combining mark may follow a letter now
    return text if len(text.encode()) <= MAX_PATH_BYTES else ""


def hash_answer(normalized: str, salt: bytes, cost: int) -> bytes:
    """Return the digest of a normalized path.

    Cost: about 2 ms of CPU time on a whole core.
    """
    return hashlib.scrypt(normalized.encode(), salt=salt, n=cost, r=8, p=1, dklen=DIGEST_BYTES)


def hash_answers(paths: Iterable[str], rules: Normalization, salt: bytes, cost: int) -> frozenset[bytes]:
    """Return the digests of a challenge's valid paths. Raises BadRequest for a blank or too long path."""
    by_normalized = {normalize(path, rules): path for path in paths}
    if "" in by_normalized:
        path = by_normalized[""]
        problem = (
            f"has more than {MAX_PATH_BYTES:,} bytes after normalization" if path.strip() else "is blank"
        )
        shown = json.dumps(path[:40], ensure_ascii=False)
        raise BadRequest(f"`paths` has {shown}, which {problem}")
    return frozenset(hash_answer(normalized, salt, cost) for normalized in by_normalized)


# -- write ---------------------------------------------------------------------------------------------


def define(context: Context, challenge: str, body: ChallengeBody) -> tuple[Challenge, bool]:
    """Create a challenge, or replace it. Return whether it is new. Paths that players have found stay found.

    A request that equals the stored definition writes nothing. The salt of a challenge is kept, because only
    digests with the same salt can be compared.

    Cost: 1 RCU per 4 KB and 1 WCU per KB of the definition. 12 answers take half a KB, 1,000 take 13. 1 WCU
    more for the index entry of a new challenge.
    Raises: BadRequest, Conflict for another normalization than the stored one, Busy after repeated
    concurrent changes.
    """
    opens = parse_instant("opens", body.opens) if body.opens is not None else None
    closes = parse_instant("closes", body.closes) if body.closes is not None else None
    if opens and closes and opens >= closes:
        raise BadRequest("`closes` must be after `opens`")
    new_salt = secrets.token_bytes(SALT_BYTES)
    digests: dict[tuple[Any, ...], frozenset[bytes]] = {}  # an attempt reuses those of the one before
    for attempt in range(MAX_ATTEMPTS):
        item = context.table.get(definition_key(challenge), consistent=True)
        stored = _from_item(item) if item else None
        rules = body.normalization or (stored.normalization if stored else Normalization())
        if stored and rules != stored.normalization:
            raise Conflict("`normalization` cannot be changed. Create another challenge.")
        salt = stored.salt if stored and stored.cost == SCRYPT_COST else new_salt
        parameters = (salt, *msgspec.structs.astuple(rules))
        if parameters not in digests:
            digests[parameters] = hash_answers(body.paths, rules, salt, SCRYPT_COST)
        definition = Definition(
            challenge=challenge,
            title=body.title,
            limit=body.limit,
            normalization=rules,
            salt=salt,
            cost=SCRYPT_COST,
            answers=digests[parameters],
            edition=stored.edition + 1 if stored else 1,
            opens=times.to_iso(opens) if opens else None,
            closes=times.to_iso(closes) if closes else None,
            ranked=body.ranked,
            guests=body.guests,
        )
        if stored and stored == definition._replace(edition=stored.edition):
            return _to_response(definition), False
        entry = {name: item[name] for name in INDEX} if item else listing.entry(LIST, context.now)
        if context.table.put(
            _to_item(definition) | entry,
            condition="edition = :seen" if stored else "attribute_not_exists(pk)",
            values={":seen": stored.edition} if stored else None,
        ):
            return _to_response(definition), stored is None
        context.table.back_off(attempt)
    raise Busy(f"Other requests are changing the challenge {challenge}. Please retry.")


# -- read ----------------------------------------------------------------------------------------------


def load(table: Table, challenge: str) -> Definition:
    """Return a definition for a decision. The read is strongly consistent.

    Cost: 1 RCU per 4 KB. 300 answers take 1, and 1,000 answers take 3.
    Raises: NotFound.
    """
    return parse(challenge, table.get(definition_key(challenge), consistent=True))


def describe(table: Table, challenge: str) -> Challenge:
    """Return a challenge without its answers.

    Cost: 0.5 RCU per 4 KB.
    Raises: NotFound.
    """
    return _to_response(parse(challenge, table.get(definition_key(challenge))))


def parse(challenge: str, item: Item | None) -> Definition:
    """Return the definition of an item that has been read. Raises NotFound."""
    if item is None:
        raise not_found(challenge)
    return _from_item(item)


def not_found(challenge: str) -> NotFound:
    """Return the error for a challenge that does not exist."""
    return NotFound(f"There is no challenge {challenge}.")


def _to_response(definition: Definition) -> Challenge:
    return Challenge(**{name: getattr(definition, name) for name in Challenge.__struct_fields__})


def _to_item(definition: Definition) -> Item:
    fields = definition._asdict()
    key = definition_key(fields.pop("challenge"))._asdict()
    rules = msgspec.structs.asdict(definition.normalization)
    return key | fields | {"answers": set(definition.answers), "normalization": rules}


def _from_item(item: Item) -> Definition:
    """Return the definition of an item."""
    fields = {name: item[name] for name in Definition._fields if name in item}
    fields |= {"challenge": item["pk"].removeprefix("CHALLENGE#"), "answers": frozenset(item["answers"])}
    return Definition(**fields | {"normalization": Normalization(**item["normalization"])})
