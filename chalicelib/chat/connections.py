"""Connections: the state of each, and the rate of its frames.

| item | pk | sk | holds |
|---|---|---|---|
| connection | `CONN#<id>` | `STATE` | `state`, `state_id`, `since`, `lobby`, `interests`, `ttl` |
| | | | `who`, `endpoint`: of the visitor, and for frames to it |
| | | | waiting: `former`, the last partner, or `kept`; matched: `partner`, `pair`, `is_introduced` |
| | | | `said`, `last_pair`: evidence.py; `receipts`: receipts.py |
| | | | `notices`, `claimed_until`, `claim`, `tried`: outbox.py; `listens`: subscriptions.py |
| | | | `blocked`: the visitors that a report keeps away; `network`, `subject`, `listening` |
| | | | `last_frame` and `drained` (ms): see api/rates.py; `refused`: refused frames in a row |
| | | | gsi1 = `CONNECTIONS`, sorted by the second of its handshake |

`state_id` is the id of the connection's current state. It is never used again, and two partners share it. The
state id of a waiting connection is the sort key of its entry in the pool. `pair` names two visitors who talk.
It outlives a resumed connection, and a client may see it. `who` is the visitor's id: the digest of its
subject, so that all connections of one person have the same, or a random one without a token. A resumed
connection inherits it. `endpoint` is the one through which frames are posted to the connection. A
connection with `listening` is idle for as long as it lasts. `network` and `subject` are keyed digests of
the client's address and of the `sub` of its token, which a report keeps for a ban. No attribute identifies a
person.

Invariant: every change of state is conditional on the state id that was read. A connection that has left is
`gone` and kept for some minutes. So a late or repeated event finds it and does nothing, and a client with a
token can resume it.
"""

import os
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from threading import Lock
from typing import Any, NamedTuple

from chalicelib import times
from chalicelib.api import rates
from chalicelib.context import Context
from chalicelib.dynamo.items import Item, Key, Range
from chalicelib.dynamo.table import Table

LONGEST = timedelta(hours=2, minutes=5)  # API Gateway closes a connection after two hours
GONE = timedelta(minutes=5)  # how long a connection that has left is kept
RESUMABLE = timedelta(minutes=1)  # how long a connection that was cut off may be resumed
REFUSALS = 10  # refused frames in a row: the last of them closes the connection
DELAY = timedelta(minutes=1)  # between the arrival of a frame and its handling, at most
FRAMES = rates.Limit(at_once=30, interval=333)  # of a connection
CACHED = 10_000  # refused connections that a process remembers
OPENING = timedelta(seconds=10)  # how long a connection without a frame may still be opening
BLOCKED = 100  # visitors that a connection is never matched with again, at most
PROFILE = ("who", "endpoint", "interests", "born", "receipts")  # what a partner or a candidate needs
INDEX = "CONNECTIONS"
# Attributes that end with the connection: nothing is delivered any more.
ENDS = ("gsi1pk", "notices", "claimed_until", "claim", "tried")

Partner = dict[str, Any]


class Handshake(NamedTuple):
    """The parameters of a client's handshake."""

    id: str
    endpoint: str
    lobby: str
    interests: tuple[str, ...] = ()
    resume_token: str = ""
    listens: bool = False  # for live topics only
    receipts: bool = False  # its client confirms messages
    token: str = ""  # a bearer token, as REST calls have one
    network: str = ""  # a keyed digest of the client's address
    subject: str = ""  # a keyed digest of the token's subject
    blocked: frozenset[str] = frozenset()  # the visitors that reports keep away from this subject


# -- keys ----------------------------------------------------------------------------------------------


def key(id: str) -> Key:
    """Build the key of a connection."""
    return Key(f"CONN#{id}", "STATE")


def id_of(item: Item) -> str:
    """Return a connection's id."""
    return str(item["pk"]).removeprefix("CONN#")


def new_token() -> str:
    """Return a random token that is never used again."""
    return os.urandom(9).hex()


# -- write ---------------------------------------------------------------------------------------------


def build_item(handshake: Handshake, now: datetime) -> Item:
    """Build the item of a new connection, without a state."""
    item = key(handshake.id)._asdict() | {
        "who": handshake.subject or new_token(),
        "endpoint": handshake.endpoint,
    }
    item |= {"lobby": handshake.lobby, "gsi1pk": INDEX, "gsi1sk": times.epoch(now)}
    item |= {"ttl": latest_end(times.epoch(now))}
    item |= {"network": handshake.network} if handshake.network else {}
    item |= {"subject": handshake.subject} if handshake.subject else {}
    item |= {"receipts": True} if handshake.receipts else {}
    item |= {"blocked": set(handshake.blocked)} if handshake.blocked else {}
    return item | ({"interests": set(handshake.interests)} if handshake.interests else {})


class FrameCount(NamedTuple):
    """The result of counting a frame. `sender` is None when it is refused or the connection is unknown.

    `refused` is the number of refused frames in a row with this one. `until` is the millisecond from which
    the next frame may be accepted.
    """

    sender: Item | None
    refused: int = 0
    until: int = 0


def count_frame(context: Context, id: str, received: datetime, message: bytes = b"") -> FrameCount:
    """Record a frame and return its connection, unless it is too fast or the connection is unknown.

    One write reads the partner, and counts the frame in the bucket of the connection. `message` is the entry
    of a message in `said`.

    Cost: 1 WCU per KB of the connection, which has more than one only for a client that sends a message in
    each second or more. 1 WCU more for a frame that is too fast, and for one that soon follows another one in
    another process.
    """
    changes, values = "last_frame = :received", {":received": times.milliseconds(received), ":gone": "gone"}
    if message:
        changes += ", said = list_append(if_not_exists(said, :none), :message)"
        values |= {":none": [], ":message": [message]}
    bucket = rates.Bucket(
        key(id),
        f"{changes} REMOVE refused",
        {"#state": "state"},
        values,
        condition="#state <> :gone AND attribute_exists(pk)",
    )
    filled = rates.fill(context._replace(now=received), bucket, FRAMES)
    if filled.is_counted:
        return FrameCount(filled.item)
    if not filled.wait or (filled.item and filled.item["state"] == "gone"):
        return FrameCount(None)
    counted = context.table.update(
        key(id), "ADD refused :one", condition="attribute_exists(pk)", values={":one": 1}
    )
    until = times.milliseconds(received) + filled.wait
    return FrameCount(None, int((counted or {}).get("refused", 1)), until)


def received_at(request: Mapping[str, Any], now: datetime) -> datetime:
    """Return the time at which API Gateway received a frame, or `now` where the event has no time.

    A client cannot write this field. The result is never later than `now`, and at most a minute earlier.
    """
    epoch = request.get("requestTimeEpoch")
    if not isinstance(epoch, int):
        return now
    late = min(DELAY, max(timedelta(0), timedelta(milliseconds=times.milliseconds(now) - epoch)))
    return now - late


class RefusalCache:
    """The connections that this process has refused. Their next frames cost no access to the table."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[int, int]] = {}  # refused until, and how many in a row
        self._lock = Lock()

    def count_early(self, id: str, received: datetime) -> int:
        """Count a frame that is too early. Return the number in a row, or 0 for a frame that is not."""
        with self._lock:
            until, refused = self._known.get(id, (0, 0))
            if times.milliseconds(received) >= until:
                return 0
            self._known[id] = until, refused + 1
            return refused + 1

    def remember(self, id: str, counted: FrameCount) -> int:
        """Store the table's decision on a frame. Return the number of refused frames in a row."""
        with self._lock:
            _, before = self._known.pop(id, (0, 0))
            if not counted.refused:
                return 0
            if len(self._known) >= CACHED:
                self._known.clear()
            refused = max(counted.refused, before + 1)
            self._known[id] = counted.until, refused
            return refused


def inherit_rate(before: Item) -> Item:
    """Return the rate attributes that a resuming connection takes over, so that its frames count on."""
    return {name: before[name] for name in ("drained", "refused") if name in before}


# -- read ----------------------------------------------------------------------------------------------


def find(table: Table, id: str) -> Item | None:
    """Read a connection that has not left, strongly consistent.

    Cost: 1 RCU.
    """
    item = table.get(key(id), consistent=True)
    return item if item and item["state"] != "gone" else None


def can_block(item: Item) -> bool:
    """Return whether a connection can block one more visitor."""
    return len(item.get("blocked", ())) < BLOCKED


def may_be_opening(item: Item | None, now: datetime) -> bool:
    """Return whether a 410 may come from a connection that is opening: it is young and has sent no frame."""
    is_young = item is not None and now.timestamp() - item["gsi1sk"] < OPENING.total_seconds()
    return item is not None and is_young and "last_frame" not in item


def list_all(table: Table) -> Iterator[Item]:
    """Yield every connection that has not left, oldest first.

    Cost: 0.5 RCU for about 30 entries of the index, and 0.5 RCU for each connection.
    """
    for page in table.query_pages(Range(INDEX, (0, 10**11), "gsi1"), limit=100):
        found = table.get_many(Key(item["pk"], item["sk"]) for item in page.items)
        yield from (item for item in found.values() if item["state"] != "gone")


def latest_end(born: int) -> int:
    """Return the second by which a connection of a given second has certainly ended."""
    return born + int(LONGEST.total_seconds())


def time_in_state(item: Item, now: datetime) -> timedelta:
    """Return how long a connection has been in its state."""
    return now - times.parse(item["since"])


def profile(item: Item) -> Partner:
    """Return the attributes of a connection that a partner or a candidate needs."""
    return {name: item[name] for name in PROFILE if name in item} | {"born": int(item["gsi1sk"])}
