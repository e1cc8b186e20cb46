"""Votes: a reader finds a comment helpful, once.

| item | pk | sk | holds |
|---|---|---|---|
| vote | `PRODUCT#<product>` | `VOTE#<comment>#<reader>` | nothing else |

The comment's counters have the number of its votes in `votes` (counters.py), and order comments by it.

Invariant: a vote and the number change in one transaction, on condition that the vote is absent or present.
So `votes` is the number of the comment's vote items at any time, and a repeated request changes nothing.
"""

from typing import Any

from chalicelib.api.auth import Caller
from chalicelib.comments import counters, moderation
from chalicelib.comments.comments import CONFLICTS, TRIES, find_stored, require_visible
from chalicelib.comments.counters import ABSENT, counters_key
from chalicelib.comments.schemas import Votes
from chalicelib.context import Context
from chalicelib.dynamo.items import Item, Key
from chalicelib.dynamo.table import Table
from chalicelib.errors import Busy, Forbidden

VOTE = "VOTE#"


# -- keys ----------------------------------------------------------------------------------------------


def vote_key(product: str, id: str, reader: str) -> Key:
    """Build the key of a reader's vote for a comment."""
    return Key(f"PRODUCT#{product}", f"{VOTE}{id}#{reader}")


def is_vote_of(item: Item, reader: str) -> bool:
    """Return whether an item is a vote of a reader."""
    kind, *parts = str(item["sk"]).split("#", 2)
    return f"{kind}#" == VOTE and parts[1:] == [reader]


# -- write ---------------------------------------------------------------------------------------------


def cast(context: Context, product: str, id: str, caller: Caller) -> tuple[Votes, bool]:
    """Vote for a comment. Return the number of votes, and whether the reader had not voted before.

    Cost: 3 RCU. For a new vote 6 WCU. For the comment's first vote, reply or report also 1 RCU per 4 KB and
    2 WCU per KB of the comment.
    Raises: Forbidden for the comment's author and for a banned reader; NotFound for an absent or hidden
    comment; Busy.
    """
    counted, vote = counters_key(product, id), vote_key(product, id, caller.sub)
    standing = moderation.standing_key(caller.sub)
    for number in range(TRIES):
        found = context.table.get_many([counted, vote, standing], consistent=True)
        moderation.require_allowed(found.get(standing, {}), context.now)
        item = found.get(counted) or find_stored(context.table, product, id)
        item = require_visible(item, product, id, Caller())
        if item["author"] == caller.sub:
            raise Forbidden("Authors may not vote for their own comments.")
        if vote in found:
            return Votes(votes=item.get("votes", 0)), False
        put: Any = {"Put": {"Item": vote._asdict(), "ConditionExpression": ABSENT}}
        if counted in found:
            more = [counters.add(product, id, "votes", 1, shown=True)]
        else:
            more = counters.make(item, "votes")
        if not context.table.transact([put, *more]):
            return Votes(votes=item.get("votes", 0) + 1), True
        context.table.back_off(number)
    raise Busy(CONFLICTS)


def withdraw(table: Table, product: str, id: str, caller: Caller) -> None:
    """Withdraw the caller's vote for a comment. Without a vote nothing changes.

    Cost: that of `remove`.
    Raises: NotFound for an absent comment, and for a hidden one; Busy.
    """
    remove(table, product, id, caller.sub, shown=True)


def remove(table: Table, product: str, id: str, reader: str, *, shown: bool = False) -> None:
    """Remove a reader's vote for a comment. With `shown` the comment must not be hidden or deleted.

    Cost: 2 RCU. With a vote also 6 WCU. 1 RCU per 4 KB of a comment without votes and replies.
    Raises: NotFound if the comment must be shown and is not; Busy.
    """
    counted, vote = counters_key(product, id), vote_key(product, id, reader)
    for number in range(TRIES):
        found = table.get_many([counted, vote], consistent=True)
        if shown:
            item = found.get(counted) or find_stored(table, product, id)
            require_visible(item, product, id, Caller())
        if vote not in found:
            return
        removed: Any = {"Delete": {"Key": vote._asdict(), "ConditionExpression": "attribute_exists(pk)"}}
        less = [counters.add(product, id, "votes", -1)] if counted in found else []
        if not table.transact([removed, *less]):
            return
        table.back_off(number)
    raise Busy(CONFLICTS)


# -- count ---------------------------------------------------------------------------------------------


def count(item: Item) -> dict[tuple[Key, str], int]:
    """Return what an item adds to the votes of its comment. The audit compares the counters with the sum."""
    kind, *parts = str(item["sk"]).split("#", 2)
    if not item["pk"].startswith("PRODUCT#") or f"{kind}#" != VOTE or len(parts) < 2:
        return {}
    return {(counters_key(item["pk"].removeprefix("PRODUCT#"), parts[0]), "votes"): 1}
