"""Count the finders of each path, and note the first.

| item | pk | sk | holds |
|---|---|---|---|
| statistics | `CHALLENGE#<challenge>` | `STATISTICS` | `p<digest>`: the finders of an answer |
| finders | `CHALLENGE#<challenge>` | `FINDERS#<page>` | the same, where a challenge has many answers |
| first finders | `CHALLENGE#<challenge>` | `FIRST#<page>` | `p<digest>`: time and digest of the player |

The *answer* of a found path is a page and six bytes of the digest. Up to FEW answers of a challenge are
counted in the item of its statistics, which each found path changes anyway. More are counted on PAGES others,
so that no item grows beyond 2 KB.

Invariant: the first finder of an answer has the earliest time of all paths that the stream has delivered, in
whatever order. If that path is withdrawn, nobody is the first any more.
"""

import base64
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from chalicelib.aggregates.sums import Amount
from chalicelib.dynamo.items import Images, Item, Key
from chalicelib.dynamo.table import Table

FEW = 20  # answers: the statistics with them, and with their tags, are smaller than 1 KB
PAGES = 20  # of a challenge with more answers: about 50 on each page
ANSWER_BYTES = 7  # the page, and six of the digest
TIME_BYTES, PLAYER_BYTES = 6, 8  # of milliseconds, and of the digest of a player
NOBODY = bytes(PLAYER_BYTES)


class Finders(NamedTuple):
    """The number of players that have found a path, and whether a player was the first."""

    players: int
    is_first: bool


# -- keys ----------------------------------------------------------------------------------------------


def statistics_key(challenge: str) -> Key:
    """Return the key of a challenge's statistics."""
    return Key(f"CHALLENGE#{challenge}", "STATISTICS")


def counter(challenge: str, answer: bytes) -> tuple[Key, str]:
    """Return the key of the item that counts the finders of an answer, and the name of its counter."""
    page, name = answer[0], f"p{base64.urlsafe_b64encode(answer[1:]).decode()}"
    return Key(f"CHALLENGE#{challenge}", f"FINDERS#{page}") if page else statistics_key(challenge), name


def first_key(challenge: str, answer: bytes) -> Key:
    """Return the key of the item with the first finder of an answer."""
    return Key(f"CHALLENGE#{challenge}", f"FIRST#{answer[0]}")


def identify(digest: bytes, answers: int) -> bytes:
    """Return the answer of a digest in a challenge with a number of answers.

    >>> identify(b"\\x15abcdefghijk", 12), identify(b"\\x15abcdefghijk", 1000)
    (b'\\x00\\x15abcde', b'\\x02\\x15abcde')
    """
    return bytes([0 if answers <= FEW else 1 + digest[0] % PAGES]) + digest[: ANSWER_BYTES - 1]


# -- write ---------------------------------------------------------------------------------------------


def is_path(pk: str, sk: str) -> bool:
    """Return whether a key is that of a path that a player has found."""
    return sk.startswith("PATH#") and pk.startswith("CHALLENGE#")


def contribution(item: Item) -> dict[tuple[Key, str], Amount]:
    """Return the amount that a found path adds to its finders. Raises ValueError for a damaged item."""
    answer, time = item.get("answer"), item.get("time")
    if not isinstance(answer, bytes) or len(answer) != ANSWER_BYTES or not isinstance(time, int):
        raise ValueError(f"`answer` and `time` must be {ANSWER_BYTES} bytes and a whole number")
    return {counter(_split(item["pk"])[0], answer): 1}


def note_first(table: Table, changes: Iterable[Images]) -> None:
    """Note the first finders among a batch's paths, and forget those whose path is withdrawn. Idempotent.

    Cost: 0.5 RCU for each page of each challenge, and 1 or 2 WCU for a path that nobody has found before, or
    that is withdrawn.
    """
    paths = [change for change in changes if is_path(*change[0])]
    found = [_build_entry(key, new) for key, old, new in paths if new and not old]
    items = table.get_many({key for key, _, _ in found})
    for key, name, entry in found:
        noted = items.get(key, {}).get(name)
        if noted is None or noted > entry:
            condition = "attribute_not_exists(#name) OR #name > :entry"
            _write(table, key, name, condition, {":entry": entry})
    for key, name, entry in (_build_entry(key, old) for key, old, new in paths if old and not new):
        nobody = {":entry": entry[:TIME_BYTES] + NOBODY, ":withdrawn": entry}
        _write(table, key, name, "#name = :withdrawn", nobody)


def _build_entry(key: Key, item: Item) -> tuple[Key, str, bytes]:
    """Return the key of the item with the first finder, the name of its attribute, and its value."""
    challenge, player = _split(key.pk)
    time = min(max(item["time"], 0), 256**TIME_BYTES - 1)
    entry = time.to_bytes(TIME_BYTES) + _digest(player)
    return first_key(challenge, item["answer"]), counter(challenge, item["answer"])[1], entry


def _write(table: Table, key: Key, name: str, condition: str, values: Mapping[str, bytes]) -> None:
    names = {"#name": name}
    table.update(key, "SET #name = :entry", condition=condition, names=names, values=values, idempotent=True)


def _split(pk: str) -> tuple[str, str]:
    """Return the challenge and the player of a partition key. Neither name contains a `#`."""
    challenge, _, player = pk.removeprefix("CHALLENGE#").partition("#PLAYER#")
    return challenge, player


def _digest(player: str) -> bytes:
    return hashlib.blake2b(player.encode(), digest_size=PLAYER_BYTES).digest()


# -- read ----------------------------------------------------------------------------------------------


def read(table: Table, challenge: str, player: str, answers: Sequence[bytes]) -> dict[bytes, Finders]:
    """Return the finders of answers that a player has found. The player is counted in any case.

    Cost: 1 RCU for up to FEW answers of a challenge, else 1 for each page.
    """
    keys = {counter(challenge, answer)[0] for answer in answers}
    firsts = {first_key(challenge, answer) for answer in answers}
    items = table.get_many(keys | firsts)
    found = {}
    for answer in answers:
        key, name = counter(challenge, answer)
        first = items.get(first_key(challenge, answer), {}).get(name, b"")
        players = max(1, items.get(key, {}).get(name, 0))
        found[answer] = Finders(players, first.endswith(_digest(player)))
    return found
