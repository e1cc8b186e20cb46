"""Notes: what a connection must be told of its own state, exactly in order, and not forgotten in a crash.

Who changes a connection's state appends a note to `untold` on its item, in the same transaction (pairs.py). A
note is sent by whoever has claimed the item (`telling`), and taken off it afterwards; who
comes meanwhile leaves it to the claimant, who looks again before it ends. So two handlers never tell one
connection side by side. A process that dies in between leaves its claim to run out: the connection's next
frame, its partner's first message or the sweep goes on. Only what died between a post and its being taken off
comes twice.
"""

import time
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Literal

from chalicelib import times
from chalicelib.api import codec
from chalicelib.chat import connections
from chalicelib.chat.gateway import Posts
from chalicelib.chat.matching import CONNECTED, DISCONNECTED
from chalicelib.dynamo.items import Item
from chalicelib.dynamo.table import Table

CLAIM = 45  # seconds: longer than any handler lives (30), so a claim is only ever taken over from a dead one
WAITS = (0.02, 0.05, 0.1, 0.2, 0.4, 0.8)  # seconds between looks at one that is opening, or being told

Told = Literal["told", "gone", "later"]
Delivered = Literal["sent", "gone", "later"]


def tell(table: Table, posts: Posts, id: str, now: datetime) -> Told:
    """Send a connection the notes that it has not been sent.

    `gone`: it is dead, and the caller parts it from whoever is with it. `later`: somebody else is at it, or
    it does not open, or cannot be reached: its next frame or the sweep goes on. Costs 2 WCU, 1 when there is
    nothing to tell.
    """
    while item := _claim(table, id, now):
        outcome: Delivered = "sent"
        # What an earlier claimant left may have been sent: then a partner that came must be seen to go.
        for code in item["untold"] if item["tried"] else worth_saying(item["untold"]):
            frame = codec.encode({"type": "system", "code": code})
            outcome = deliver(table, posts, id, item["at"], frame, now)
            if outcome != "sent":
                break
        if outcome == "gone":
            return "gone"
        # From the last: some engines take off one after the other, and the rest moves up.
        told = [f"untold[{i}]" for i in reversed(range(len(item["untold"])))] if outcome == "sent" else []
        after = table.update(
            connections.key(id),
            f"REMOVE {', '.join(['telling', 'teller', 'tried', *told])}" if told else "SET telling = :past",
            condition="teller = :mine",  # once: a retry must not take off what came since
            values={":mine": item["teller"], **({} if told else {":past": 1})},
            idempotent=True,
        )
        if outcome != "sent":
            return "later"
        if after and not after.get("untold"):
            return "told"
    return "later"


def wait_until_told(
    table: Table, posts: Posts, id: str, now: datetime, pause: Callable[[float], None] = time.sleep
) -> bool:
    """Wait until a connection's pending notes are delivered; return False when some are pending still.

    Waits at most a second and a half, for another handler that delivers them, or for a connection to open.
    True also says that the connection is gone. Cost: 2 WCU, and 1 RCU with each wait.
    """
    for wait in (*WAITS, 0.0):
        if tell(table, posts, id, now) != "later":
            return True
        item = connections.find(table, id)
        if item is None or not item.get("untold"):
            return True
        pause(wait)
    return False


def deliver(table: Table, posts: Posts, id: str, at: str, frame: str, now: datetime) -> Delivered:
    """Post a frame; `later` when the connection is not open yet, or cannot be reached now.

    What a 410 means is read from its item, which costs 1 RCU: one that is young and was never heard of may
    still be opening. One that was heard of while this was found out is tried again.
    """
    outcome = posts.send(at, id, frame)
    if outcome == "gone" and (item := connections.find(table, id)):
        outcome = "failed" if connections.may_be_opening(item, now) else posts.send(at, id, frame)
    return "later" if outcome == "failed" else outcome


def worth_saying(codes: Iterable[str]) -> list[str]:
    """Leave out a partner that came and went before it was told of.

    >>> worth_saying(["partner_disconnected", "partner_connected", "partner_disconnected"])
    ['partner_disconnected']
    """
    said: list[str] = []
    for code in codes:
        if code == DISCONNECTED and said and said[-1] == CONNECTED:
            said.pop()
        else:
            said.append(code)
    return said


def _claim(table: Table, id: str, now: datetime) -> Item | None:
    """Take it on to tell a connection; None when there is nothing to tell, or somebody is at it."""
    return table.update(
        connections.key(id),
        "SET tried = if_not_exists(telling, :none), telling = :until, teller = :teller",
        condition="size(untold) > :none AND (attribute_not_exists(telling) OR telling < :now)",
        values={
            ":until": times.epoch(now) + CLAIM,
            ":teller": connections.token(),  # two claims of one second are two
            ":now": times.epoch(now),
            ":none": 0,
        },
        idempotent=True,
    )
