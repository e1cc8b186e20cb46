"""Votes: a reader finds a comment helpful, once.

| item | pk | sk | holds |
|---|---|---|---|
| vote | `PRODUCT#<product>` | `VOTE#<comment>#<reader>` | nothing else |

The comment has the number of its votes in `votes`, from its first vote on. A comment without votes is written
and read as before.

Invariant: a vote and the number change in one transaction, on condition that the vote is absent or present.
So `votes` is the number of the comment's vote items at any time, and a repeated request changes nothing.
"""

from typing import Any

from chalicelib.api.auth import Caller
from chalicelib.api.router import Response
from chalicelib.comments.comments import (
    ABSENT,
    CONFLICTS,
    TRIES,
    add_to_count,
    comment_key,
    find_stored,
    require_visible,
)
from chalicelib.comments.schemas import Votes
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


def cast(table: Table, product: str, id: str, caller: Caller) -> Response[Votes]:
    """Vote for a comment. The status is 201 for a new vote, and 200 when the reader has voted before.

    Cost: 2 RCU. For a new vote 2 WCU, 2 WCU per KB of the comment and 1 per KB for gsi2.
    Raises: Forbidden for the comment's author; NotFound for an absent or hidden comment; Busy.
    """
    comment, vote = comment_key(product, id), vote_key(product, id, caller.sub)
    for number in range(TRIES):
        found = table.get_many([comment, vote], consistent=True)
        item = require_visible(found.get(comment), product, id, caller)
        if item["author"] == caller.sub:
            raise Forbidden("Authors may not vote for their own comments.")
        if vote in found:
            return Response(Votes(votes=item.get("votes", 0)), 200)
        put: Any = {"Put": {"Item": vote._asdict(), "ConditionExpression": ABSENT}}
        if not table.transact([put, add_to_count(item, "votes", 1)]):
            return Response(Votes(votes=item.get("votes", 0) + 1), 201)
        table.back_off(number)
    raise Busy(CONFLICTS)


def withdraw(table: Table, product: str, id: str, caller: Caller) -> None:
    """Withdraw the caller's vote for a comment. Without a vote nothing changes.

    Cost: that of `remove`, and 1 RCU.
    Raises: NotFound for an absent comment, and for a hidden one; Busy.
    """
    require_visible(table.get(comment_key(product, id), consistent=True), product, id, caller)
    remove(table, product, id, caller.sub)


def remove(table: Table, product: str, id: str, reader: str) -> None:
    """Remove a reader's vote for a comment, hidden or not. Without a vote nothing changes.

    Cost: 1 RCU. With a vote also that of `find_stored`, 2 WCU, 2 WCU per KB of the comment and 1 per KB for
    gsi2.
    Raises: Busy.
    """
    vote = vote_key(product, id, reader)
    for number in range(TRIES):
        if table.get(vote, consistent=True) is None:
            return
        item = find_stored(table, product, id)
        condition = "attribute_exists(pk)"
        removed: Any = {"Delete": {"Key": vote._asdict(), "ConditionExpression": condition}}
        if not table.transact([removed, *([add_to_count(item, "votes", -1)] if item else [])]):
            return
        table.back_off(number)
    raise Busy(CONFLICTS)


# -- count ---------------------------------------------------------------------------------------------


def count(item: Item) -> dict[tuple[Key, str], int]:
    """Return what an item adds to the votes of its comment. The audit compares the comment with the sum."""
    kind, *parts = str(item["sk"]).split("#", 2)
    if not item["pk"].startswith("PRODUCT#") or f"{kind}#" != VOTE or len(parts) < 2:
        return {}
    return {(comment_key(item["pk"].removeprefix("PRODUCT#"), parts[0]), "votes"): 1}
