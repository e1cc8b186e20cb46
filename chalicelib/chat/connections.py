"""Connections: what is known of each, and how often it may speak.

| item | pk | sk | holds |
|---|---|---|---|
| connection | `CONN#<id>` | `STATE` | `state`, `turn`, `since`, `lobby`, `interests`, `who`, `at`, `ttl` |
| | | | waiting: `last`, the partner before, or `kept`; matched: `partner`, `met`, `q1`…`q8` |
| | | | `untold`, `telling`, `teller`, `tried`: notes.py; `listens`: topics.py |
| | | | `blocked`: those it was parted from by a report |
| | | | `t01`…: when its last frames came, `refused`: frames in a row since that were too many |
| | | | gsi1 = `CONNECTIONS` by the second that it came |

A `turn` names one stay in one state and never comes again: every change of state is on condition of the turn
that it was decided on. A waiting connection's turn is the sort key of its place in the pool, a matched one's
is shared with its partner. `who` outlives a connection that is resumed by another; nothing in it, and nothing
else here, says who a person is.

A connection that has left is `gone`, and kept some minutes: a late or repeated event finds that, and does
nothing, and who comes back with a token finds its place.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from threading import Lock
from typing import Any, NamedTuple

from chalicelib import times
from chalicelib.dynamo.items import Item, Key
from chalicelib.dynamo.table import Table
from chalicelib.settings import Settings

LONGEST = timedelta(hours=2, minutes=5)  # API Gateway cuts a connection after two hours
GONE = timedelta(minutes=5)  # that one who left is remembered
REFUSALS = 10  # frames in a row that are too fast: the last of them closes the connection
DELAY = timedelta(minutes=1)  # that a frame may have waited before it is handled
MOST_FRAMES = 40  # that HUBBUB_CHAT_FRAMES may be
KNOWN = 10_000  # connections that a process remembers as too fast
OPENING = timedelta(seconds=10)  # in which a connection that was never heard of may still be opening
QUOTED = tuple(f"q{i}" for i in range(1, 9))  # digests of the last messages, which a report can prove
CARD = ("who", "at", "interests", "born")  # what a partner, and one who looks for one, needs to know
INDEX = "CONNECTIONS"
ENDS = ("gsi1pk", "untold", "telling", "teller", "tried")  # with the connection: nobody is told any more

Partner = dict[str, Any]


class Arrival(NamedTuple):
    """What a client says when it connects."""

    id: str
    at: str
    lobby: str
    interests: tuple[str, ...] = ()
    resume: str = ""


# -- keys ----------------------------------------------------------------------------------------------


def key(id: str) -> Key:
    """Key a connection."""
    return Key(f"CONN#{id}", "STATE")


def id_of(item: Item) -> str:
    """Read a connection's id back from its item."""
    return str(item["pk"]).removeprefix("CONN#")


# -- write ---------------------------------------------------------------------------------------------


def newcomer(arrival: Arrival, now: datetime) -> Item:
    """Make the item of a connection that has just come, without a state."""
    item = key(arrival.id)._asdict() | {"who": token(), "at": arrival.at, "lobby": arrival.lobby}
    item |= {"gsi1pk": INDEX, "gsi1sk": times.epoch(now), "ttl": end(times.epoch(now))}
    return item | ({"interests": set(arrival.interests)} if arrival.interests else {})


class Touched(NamedTuple):
    """What became of a frame: `me` is None where it is refused or where nobody knows its connection.

    `refused` counts the frames in a row that were too fast, this one included; `until` is the millisecond
    at which the next one may be accepted.
    """

    me: Item | None
    refused: int = 0
    until: int = 0


def touch(table: Table, id: str, arrived: datetime, settings: Settings, proof: bytes = b"") -> Touched:
    """Record a frame, and return its connection, unless it came too fast or the connection is not known.

    The write that finds the partner decides on the rate: the times of the last frames move up by one, on
    condition that the oldest of them is old enough. `proof` is the digest of a message (reports.py), deleted
    with the pair.

    Cost: 1 WCU; refused for the rate, 2.
    """
    frames = _window(settings.chat_frames)
    last, span = frames[-1], int(settings.chat_span.total_seconds() * 1000)
    values: dict[str, Any] = {":now": times.milliseconds(arrived), ":gone": "gone"}
    values |= {":edge": values[":now"] - span}
    sets = _shifted(frames, ":now", ":never")
    if proof:
        sets += _shifted(QUOTED, ":proof", ":nothing")
        values |= {":proof": proof, ":nothing": b"-"}
    is_accepted, item = table.update_or_get(
        key(id),
        f"SET {', '.join(sets)} REMOVE refused",
        condition=f"#state <> :gone AND (attribute_not_exists({last}) OR {last} <= :edge)"
        " AND attribute_exists(pk)",
        names={"#state": "state"},
        values=values | ({":never": 0} if len(frames) > 1 else {}),
    )
    if is_accepted or item is None or item["state"] == "gone":
        return Touched(item if is_accepted else None)
    counted = table.update(key(id), "ADD refused :one", condition="attribute_exists(pk)", values={":one": 1})
    return Touched(None, int((counted or {}).get("refused", 1)), int(item.get(last, 0)) + span)


def arrived(context: Mapping[str, Any], now: datetime) -> datetime:
    """Return when API Gateway took a frame, by its own clock; `now` where the event does not say.

    A client cannot write this field. It is never later than `now`, and at most a minute earlier.
    """
    epoch = context.get("requestTimeEpoch")
    if not isinstance(epoch, int):
        return now
    late = min(DELAY, max(timedelta(0), timedelta(milliseconds=times.milliseconds(now) - epoch)))
    return now - late


class Refusals:
    """The connections that this process has refused, so that their next frames cost nothing of the table."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[int, int]] = {}  # until when, and how often in a row
        self._lock = Lock()

    def count(self, id: str, arrived: datetime) -> int:
        """Count a frame that comes before its connection may be accepted; return how many, or 0."""
        with self._lock:
            until, refused = self._known.get(id, (0, 0))
            if times.milliseconds(arrived) >= until:
                return 0
            self._known[id] = until, refused + 1
            return refused + 1

    def take(self, id: str, touched: Touched) -> int:
        """Remember what the table says of a connection; return how often in a row it was refused."""
        with self._lock:
            _, before = self._known.pop(id, (0, 0))
            if not touched.refused:
                return 0
            if len(self._known) >= KNOWN:
                self._known.clear()
            refused = max(touched.refused, before + 1)
            self._known[id] = touched.until, refused
            return refused


def inherited_window(before: Item) -> Item:
    """Write the rate of a connection down for the one that takes its place: its frames count on.

    They move up by one, for `t01` says that a connection was heard (`may_be_opening`).
    """
    names = _window(MOST_FRAMES)
    moved = {later: before[name] for name, later in pairwise(names) if name in before}
    return moved | ({"refused": before["refused"]} if "refused" in before else {})


def _window(frames: int) -> list[str]:
    return [f"t{i:02}" for i in range(1, frames + 1)]


def _shifted(names: Sequence[str], first: str, absent: str) -> list[str]:
    """Write down how each attribute takes the value of the one before it, as it was."""
    return [f"{names[0]} = {first}"] + [
        f"{name} = if_not_exists({before}, {absent})" for before, name in pairwise(names)
    ]


# -- read ----------------------------------------------------------------------------------------------


def find(table: Table, id: str) -> Item | None:
    """Answer a connection that has not left, strongly consistent. Costs 1 RCU."""
    item = table.get(key(id), consistent=True)
    return item if item and item["state"] != "gone" else None


def may_be_opening(item: Item | None, now: datetime) -> bool:
    """Tell whether a 410 may come from a connection that opens: it is young, and was never heard."""
    is_young = item is not None and now.timestamp() - item["gsi1sk"] < OPENING.total_seconds()
    return item is not None and is_young and "t01" not in item


def every(table: Table) -> Iterator[Item]:
    """Answer every connection that has not left, longest connected first, a hundred at a time.

    Costs 0.5 RCU for about 30 entries of the index, and 0.5 RCU a connection.
    """
    for page in table.query_pages(INDEX, (0, 10**11), index="gsi1", limit=100):
        found = table.get_many(Key(item["pk"], item["sk"]) for item in page.items)
        yield from (item for item in found.values() if item["state"] != "gone")


def end(born: int) -> int:
    """Say when a connection that came in a second has ended for certain."""
    return born + int(LONGEST.total_seconds())


def token() -> str:
    """Make a name that nothing else has."""
    return os.urandom(9).hex()


def age(item: Item, now: datetime) -> timedelta:
    """Say how long a connection has been in its state."""
    return now - times.parse(item["since"])


def card(item: Item) -> Partner:
    """Write down what a partner, or one who looks for a partner, needs to know of a connection."""
    return {name: item[name] for name in CARD if name in item} | {"born": int(item["gsi1sk"])}
