"""Counters of comments: the numbers of votes, replies and reports, in an item beside the comment.

| item | pk | sk | holds |
|---|---|---|---|
| counters | `PRODUCT#<product>` | `COUNTERS#<ulid>` | `author`, `hidden` |
| | | | `votes`, `replies` (without hidden ones) and `reports`, each from its first one on |

The counters have about 150 bytes, whatever the text has. The first vote, reply or report makes them, and the
next ones write them and not the comment. From the first vote on their gsi1pk is
`HELPFUL#<product>`. Their gsi1sk is the number of votes, followed by the first 80 bits of the comment's ULID.

Invariant: counters belong to a comment that exists, and are hidden as it is. The transaction that makes them
requires the comment. A transaction that deletes, hides or shows the comment changes them too, or requires
that there are none. So nothing is added to a deleted comment.
"""

from typing import Any

from chalicelib import ulids
from chalicelib.dynamo.items import Item, Key

COUNTERS = "COUNTERS#"
COUNTS = ("votes", "replies", "reports")
TIME_BITS = 80  # of a ULID, in the order of comments with equal votes
VOTE = 1 << TIME_BITS  # the least position of a comment with a vote
ABSENT = "attribute_not_exists(pk)"


def counters_key(product: str, id: str) -> Key:
    """Build the key of a comment's counters. It stays the same when the comment is hidden."""
    return Key(f"PRODUCT#{product}", f"{COUNTERS}{id}")


def helpful_key(product: str) -> str:
    """Build the gsi1 key of a product's comments with votes."""
    return f"HELPFUL#{product}"


def position(id: str, votes: int) -> int:
    """Return the gsi1 sort key of a comment with a number of votes."""
    return votes * VOTE + (ulids.to_number(id) >> 128 - TIME_BITS)


def is_key(key: Key) -> bool:
    """Return whether a key is one of counters."""
    return key.pk.startswith("PRODUCT#") and key.sk.startswith(COUNTERS)


def build_item(product: str, id: str, author: str, counts: dict[str, int], *, hidden: bool = False) -> Item:
    """Build the counters of a comment with its first counts."""
    votes = counts.get("votes", 0)
    return {
        **counters_key(product, id)._asdict(),
        "author": author,
        "hidden": hidden,
        **counts,
        **({"gsi1pk": helpful_key(product)} if votes else {}),
        "gsi1sk": position(id, votes),
    }


def with_counts(comment: Item, item: Item | None) -> Item:
    """Return a comment with the counts of its counters, for a response."""
    return comment | {name: item[name] for name in COUNTS if item and name in item}


# -- actions of transactions ---------------------------------------------------------------------------


def add(product: str, id: str, name: str, number: int, *, shown: bool = False) -> dict[str, Any]:
    """Build the update that adds to a count, on condition that the counters exist (and are not hidden).

    Cost: 2 WCU. For a vote also 1 for gsi1, 2 if it was there.
    """
    update: dict[str, Any] = {
        "Key": counters_key(product, id)._asdict(),
        "UpdateExpression": f"ADD {name} :number",
        "ConditionExpression": "#hidden = :no" if shown else "attribute_exists(pk)",
        "ExpressionAttributeValues": {":number": number} | ({":no": False} if shown else {}),
    }
    if name == "votes":
        update["UpdateExpression"] = "SET gsi1pk = :list ADD votes :number, gsi1sk :step"
        update["ExpressionAttributeValues"] |= {":list": helpful_key(product), ":step": number * VOTE}
    return {"Update": update | ({"ExpressionAttributeNames": {"#hidden": "hidden"}} if shown else {})}


def make(comment: Item, name: str, number: int = 1) -> list[dict[str, Any]]:
    """Build the put of a comment's counters with their first count, and the check of the comment.

    The check fails if the comment was deleted, hidden or shown since it was read.

    Cost: 2 WCU, 1 more for a vote, and 2 WCU per KB of the comment.
    """
    hidden = not comment["sk"].startswith("COMMENT#")
    product, id = comment["pk"].removeprefix("PRODUCT#"), comment["sk"].partition("#")[2]
    item = build_item(product, id, comment["author"], {name: number}, hidden=hidden)
    key = {"pk": comment["pk"], "sk": comment["sk"]}
    return [
        {"Put": {"Item": item, "ConditionExpression": ABSENT}},
        {"ConditionCheck": {"Key": key, "ConditionExpression": "attribute_exists(pk)"}},
    ]


def follow(product: str, id: str, counted: Item | None, *, hidden: bool) -> dict[str, Any]:
    """Build the update that hides or shows the counters with the comment, or requires that there are none.

    Cost: 2 WCU.
    """
    if counted is None:
        return require_none(product, id)
    return {
        "Update": {
            "Key": counters_key(product, id)._asdict(),
            "UpdateExpression": "SET #hidden = :hidden",
            "ConditionExpression": "attribute_exists(pk)",
            "ExpressionAttributeNames": {"#hidden": "hidden"},
            "ExpressionAttributeValues": {":hidden": hidden},
        }
    }


def require_none(product: str, id: str) -> dict[str, Any]:
    """Build the check that a comment has had no vote, reply or report.

    Cost: 2 WCU.
    """
    return {
        "ConditionCheck": {"Key": counters_key(product, id)._asdict(), "ConditionExpression": ABSENT},
    }
