"""Connections: what is known of each, and how often it may speak.

| item | pk | sk | holds |
|---|---|---|---|
| connection | `CONN#<id>` | `STATE` | `state`, `turn`, `since`, `lobby`, `interests`, `who`, `at`, `ttl` |
| | | | waiting: `last`, the partner before, or `kept`; matched: `partner`, `said`, `q1`…`q8` |
| | | | `untold`, `telling`, `teller`, `tried`: notes.py; `topics`: topics.py |
| | | | `blocked`: those it was parted from by a report |
| | | | `t01`…: when its last frames came; gsi1 = `CONNECTIONS` by the second that it came |

A `turn` names one stay in one state and never comes again: every change of state is on condition of the turn
that it was decided on. A waiting connection's turn is the sort key of its place in the pool, a matched one's
is shared with its partner. `who` outlives a connection that is resumed by another; nothing in it, and nothing
else here, says who a person is.

A connection that has left is `gone`, and kept some minutes: a late or repeated event finds that, and does
nothing, and who comes back with a token finds its place.
"""

import os
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any, NamedTuple

from chalicelib import times
from chalicelib.items import Item, Key
from chalicelib.settings import Settings
from chalicelib.table import Table

LONGEST = timedelta(hours=2, minutes=5)  # API Gateway cuts a connection after two hours
GONE = timedelta(minutes=5)  # that one who left is remembered
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


def touch(table: Table, id: str, now: datetime, settings: Settings, said: bytes = b"") -> Item | None:
    """Take note of a frame, and answer the connection; None when it comes too fast, or is not known.

    The write that finds the partner decides on the rate: the times of the last frames move up by one, on
    condition that the oldest of them is old enough. `said` is the digest of a message (reports.py), deleted
    with the pair. Costs 1 WCU.
    """
    frames = [f"t{i:02}" for i in range(1, settings.chat_frames + 1)]
    values = {
        ":now": times.milliseconds(now),
        ":edge": times.milliseconds(now - settings.chat_span),
        ":gone": "gone",
    }
    sets = _shifted(frames, ":now", ":never")
    if said:
        sets += _shifted(QUOTED, ":said", ":nothing")
        values |= {":said": said, ":nothing": b"-", ":one": 1}
    last = frames[-1]
    return table.update(
        key(id),
        f"SET {', '.join(sets)}" + (" ADD said :one" if said else ""),
        condition=f"#state <> :gone AND (attribute_not_exists({last}) OR {last} <= :edge)"
        " AND attribute_exists(pk)",
        names={"#state": "state"},
        values=values | ({":never": 0} if len(frames) > 1 else {}),
    )


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
    page = table.query(INDEX, (0, 10**11), index="gsi1", limit=100)
    while page.items:
        found = table.get_many(Key(item["pk"], item["sk"]) for item in page.items)
        yield from (item for item in found.values() if item["state"] != "gone")
        if page.next is None:
            return
        page = table.query(INDEX, (0, 10**11), index="gsi1", limit=100, start=page.next)


def end(born: int) -> int:
    """Say when a connection that came in a second has ended for certain."""
    return born + int(LONGEST.total_seconds())


def token() -> str:
    """Make a name that nothing else has."""
    return os.urandom(9).hex()


def age(item: Item, now: datetime) -> timedelta:
    """Say how long a connection has been in its state."""
    return now - times.instant(item["since"])


def card(item: Item) -> Partner:
    """Write down what a partner, or one who looks for a partner, needs to know of a connection."""
    return {name: item[name] for name in CARD if name in item} | {"born": int(item["gsi1sk"])}
