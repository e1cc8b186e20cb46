"""Evidence: what a report needs to know of a pair, and digests that prove which messages were sent.

| item | pk | sk | holds |
|---|---|---|---|
| pair that has parted | `PAIR#<pair>` | `PARTED` | `members`, `lobby`, `parted` (ms), `ttl` |

No text of a conversation is stored while it lasts. Each connection's item has in `said` the times and keyed
digests of its messages since it was matched: all of the last minute, and the last eight. `members` has the
visitor, the connection, the digests for a ban and `said` of both.

Invariant: the transaction that parts two members writes the evidence of both, on condition that neither has
sent a message since they were read. So every delivered message can be proved for a minute after the parting,
whatever its author does.
"""

import hashlib
import os
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from chalicelib import times
from chalicelib.api.auth import derive_key
from chalicelib.chat import bans, connections
from chalicelib.context import Context
from chalicelib.dynamo.items import Item, Key
from chalicelib.dynamo.table import Table
from chalicelib.settings import Settings
from chalicelib.telemetry import logs

REPORTABLE = timedelta(minutes=1)  # after they have parted
PROVABLE = timedelta(minutes=1)  # since a message was sent, at least
LEAST = 8  # messages that are kept however old they are
MOST = 16  # messages, from which on old ones are removed
REMOVED = 100  # digests that one write removes, at most
PURPOSE = "quotations"  # of the key of message digests
CYCLE = 2**40  # ms: the time of a message is stored in five bytes


def key(pair: str) -> Key:
    """Build the key of the evidence of a pair."""
    return Key(f"PAIR#{pair}", "PARTED")


# -- messages ------------------------------------------------------------------------------------------


def digest_message(settings: Settings, text: str) -> bytes:
    """Return a keyed digest of a message. With the stage's secret it proves a quotation.

    Without the key, a reader of the table could guess short messages and compare digests. When there is no
    secret the digest is random, and proves nothing.
    """
    try:
        return hashlib.blake2b(text.encode(), digest_size=4, key=derive_key(settings, PURPOSE)).digest()
    except Exception as error:  # no secret, or SSM is unavailable: the message is delivered all the same
        logs.log_error("a message cannot be proved", error)
        return os.urandom(4)


def record(settings: Settings, text: str, received: datetime) -> bytes:
    """Return the entry of `said` for a message: its time, and its digest."""
    return (times.milliseconds(received) % CYCLE).to_bytes(5, "big") + digest_message(settings, text)


def digest_of(entry: bytes) -> bytes:
    """Return the digest in an entry of `said`."""
    return entry[5:]


def ages(said: Iterable[bytes], now: datetime) -> list[timedelta]:
    """Return how long ago each recorded message was sent. It is negative if a clock is ahead."""
    passed = [times.milliseconds(now) - int.from_bytes(entry[:5], "big") for entry in said]
    return [
        timedelta(milliseconds=(milliseconds + CYCLE // 2) % CYCLE - CYCLE // 2) for milliseconds in passed
    ]


def forget_old(table: Table, me: Item, received: datetime) -> None:
    """Remove the entries of messages that are older than a minute, beyond the last eight.

    Cost: 1 WCU per KB of the connection, once in eight messages or less.
    """
    said = me.get("said", [])
    if len(said) < MOST:
        return
    old = [age > PROVABLE for age in ages(said[:-LEAST][:REMOVED], received)]
    count = old.index(False) if False in old else len(old)
    if count >= LEAST:  # from the last index, as in outbox.py
        table.update(
            connections.key(connections.id_of(me)),
            f"REMOVE {', '.join(f'said[{i}]' for i in reversed(range(count)))}",
            condition="said[0] = :first AND size(said) >= :count",  # another frame may have removed them
            values={":first": said[0], ":count": len(said)},
            idempotent=True,
        )


# -- pairs ---------------------------------------------------------------------------------------------


class Member(NamedTuple):
    """A member of a pair: its visitor and connection, the digests for a ban, and those of its messages."""

    who: str
    id: str
    digests: dict[str, str]
    said: list[bytes]


def build(me: Item, partner: Item | None, now: datetime) -> Item:
    """Build the evidence of the pair of a matched connection. A partner may have no item any more."""
    other = partner or {"pk": connections.key(me["partner"]["id"]).pk, "who": me["partner"]["who"]}
    item = key(me["pair"])._asdict() | {"members": [_describe(me), _describe(other)], "lobby": me["lobby"]}
    return item | {"parted": times.milliseconds(now), "ttl": times.epoch(now + 2 * REPORTABLE)}


def _describe(connection: Item) -> dict[str, Any]:
    digests = {name: connection[name] for name in bans.DIGESTS if name in connection}
    return Member(
        connection["who"], connections.id_of(connection), digests, connection.get("said", [])
    )._asdict()


def find(context: Context, me: Item, pair: str) -> Item | None:
    """Return the evidence of a pair that a connection is in, or was in until a minute ago. Otherwise None.

    Cost: 1 RCU per 4 KB; 2 RCU when the pair has parted in the meantime.
    """
    if pair and me.get("pair") == pair:
        partner = context.table.get(connections.key(me["partner"]["id"]), consistent=True)
        if partner is None or partner.get("pair") == pair:
            return build(me, partner, context.now)
    item = context.table.get(key(pair), consistent=True) if pair else None
    if item is None or item["parted"] < times.milliseconds(context.now - REPORTABLE):
        return None
    return item if me["who"] in (member["who"] for member in item["members"]) else None


def read_members(evidence: Item, me: Item) -> tuple[Member, Member]:
    """Return this member of a pair and the other one."""
    first, second = (Member(**member) for member in evidence["members"])
    return (first, second) if first.who == me["who"] else (second, first)


def is_proved(settings: Settings, text: str, member: Member) -> bool:
    """Return whether a member of a pair has sent this text to the other."""
    return digest_message(settings, text) in map(digest_of, member.said)
