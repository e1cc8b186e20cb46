"""The outbox: notices of a connection's state that it must receive, in order, even after a crash.

A transaction that changes a connection's state appends a notice to `notices` on its item (matching.py).

| attribute | holds |
|---|---|
| `notices` | the codes of pending notices, oldest first |
| `claimed_until` | the second at which the claim of the delivering handler expires |
| `claim` | the token of that claim |
| `tried` | whether an earlier claim has expired, whose notices may have been sent |

Invariant: one handler at a time delivers the notices of a connection. It claims the item, posts the notices
and removes them. It checks for new notices before it ends, so other handlers leave them to it. When its
process dies, its claim expires. The connection's next frame, its partner's first message or the sweep then
goes on. Only a notice that was posted and not removed before a crash is sent twice.
"""

import time
from collections.abc import Callable, Iterable
from typing import Literal

from chalicelib import times
from chalicelib.api import codec
from chalicelib.chat import connections
from chalicelib.chat.gateway import Delivered, deliver_frame
from chalicelib.chat.matching import CONNECTED, DISCONNECTED
from chalicelib.context import Context
from chalicelib.dynamo.items import Item

CLAIM = 45  # seconds: longer than any handler runs (30), so a claim expires only when its process is dead
WAITS = (0.02, 0.05, 0.1, 0.2, 0.4, 0.8)  # seconds between attempts while a connection opens or is claimed

Outcome = Literal["delivered", "gone", "later"]


def deliver_pending(context: Context, id: str) -> Outcome:
    """Post the pending notices of a connection, and remove them.

    `gone`: the connection is dead, and the caller frees its partner. `later`: another handler has the claim,
    or the connection is not open yet, or cannot be reached. Its next frame or the sweep goes on.

    Cost: 2 WCU; 1 when there is no pending notice.
    """
    while item := _claim(context, id):
        outcome: Delivered = "sent"
        for frame in _build_frames(item):
            outcome = deliver_frame(context, id, item["endpoint"], frame)
            if outcome != "sent":
                break
        if outcome == "gone":
            return "gone"
        # From the last index: some engines remove one element after the other, which moves up the rest.
        sent = [f"notices[{i}]" for i in reversed(range(len(item["notices"])))] if outcome == "sent" else []
        after = context.table.update(
            connections.key(id),
            f"REMOVE {', '.join(['claimed_until', 'claim', 'tried', *sent])}"
            if sent
            else "SET claimed_until = :past",
            condition="claim = :mine",  # a retry must not remove newer notices
            values={":mine": item["claim"], **({} if sent else {":past": 1})},
            idempotent=True,
        )
        if outcome != "sent":
            return "later"
        if after and not after.get("notices"):
            return "delivered"
    return "later"


def wait_until_delivered(
    context: Context,
    id: str,
    pause: Callable[[float], None] = time.sleep,
) -> bool:
    """Wait until a connection's pending notices are delivered. Return False when some are still pending.

    Wait at most 1.5 seconds for another handler to deliver them, or for the connection to open. Returns True
    also when the connection is gone.

    Cost: 2 WCU, and 1 RCU with each wait.
    """
    for wait in (*WAITS, 0.0):
        if deliver_pending(context, id) != "later":
            return True
        item = connections.find(context.table, id)
        if item is None or not item.get("notices"):
            return True
        pause(wait)
    return False


def drop_cancelled(codes: Iterable[str]) -> list[str]:
    """Return the notices without those of a partner that has come and gone.

    >>> drop_cancelled(["partner_disconnected", "partner_connected", "partner_disconnected"])
    ['partner_disconnected']
    """
    remaining: list[str] = []
    for code in codes:
        if code == DISCONNECTED and remaining and remaining[-1] == CONNECTED:
            remaining.pop()
        else:
            remaining.append(code)
    return remaining


def _build_frames(item: Item) -> list[str]:
    """Build the frames of a connection's notices. A client with receipts gets the name of its pair.

    Notices of an expired claim may have been sent, so none of them is left out. Only the last notice
    describes the current state.
    """
    codes = item["notices"] if item["tried"] else drop_cancelled(item["notices"])
    frames = [{"type": "system", "code": code} for code in codes]
    if "receipts" in item and frames and frames[-1]["code"] == CONNECTED:
        frames[-1]["pair"] = item["pair"]
    return [codec.encode(frame) for frame in frames]


def _claim(context: Context, id: str) -> Item | None:
    """Claim the delivery. Return None when no notice is pending, or another handler has the claim."""
    return context.table.update(
        connections.key(id),
        "SET tried = if_not_exists(claimed_until, :none), claimed_until = :until, claim = :claim",
        condition="size(notices) > :none AND (attribute_not_exists(claimed_until) OR claimed_until < :now)",
        values={
            ":until": times.epoch(context.now) + CLAIM,
            ":claim": connections.new_token(),  # two claims of the same second differ
            ":now": times.epoch(context.now),
            ":none": 0,
        },
        idempotent=True,
    )
