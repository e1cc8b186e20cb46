"""Counters of comments: the numbers of votes, replies and reports, in an item beside the comment.

| item | pk | sk | holds |
|---|---|---|---|
| counters | `PRODUCT#<product>` | `COUNTERS#<ulid>` | `author`, `hidden`; `size`: whole KB of the text |
| | | | `votes`, `replies` (without hidden ones) and `reports`, each from its first one on |

The counters have about 120 bytes, whatever the text has. A vote or a reply writes them and not the comment. A
list reads them first to find out how many comments fit on its page.

Invariant: the counters exist exactly as long as the comment, because the same transactions write and delete
both. A vote or a reply changes them on condition that they exist. So none is added to a deleted comment.
"""

from typing import Any

from chalicelib.dynamo.items import Item, Key

COUNTERS = "COUNTERS#"
COUNTS = ("votes", "replies", "reports")
NAMES = {"#size": "size", "#hidden": "hidden"}


def counters_key(product: str, id: str) -> Key:
    """Build the key of a comment's counters. It stays the same when the comment is hidden."""
    return Key(f"PRODUCT#{product}", f"{COUNTERS}{id}")


def is_key(key: Key) -> bool:
    """Return whether a key is one of counters."""
    return key.pk.startswith("PRODUCT#") and key.sk.startswith(COUNTERS)


def build_item(product: str, id: str, author: str, text: str) -> Item:
    """Build the counters of a new comment."""
    return counters_key(product, id)._asdict() | {"author": author, "size": size_of(text), "hidden": False}


def size_of(text: str) -> int:
    """Return the size of a text in whole KB."""
    return len(text.encode()) // 1024


def has_any(item: Item) -> bool:
    """Return whether a comment has had votes, replies or reports."""
    return any(name in item for name in COUNTS)


def with_counts(comment: Item, item: Item | None) -> Item:
    """Return a comment with the counts of its counters, for a response."""
    return comment | {name: item[name] for name in COUNTS if item and name in item}


def add(product: str, id: str, name: str, number: int, *, shown: bool = False) -> dict[str, Any]:
    """Build the update that adds to a count, on condition that the comment exists (or is shown).

    Cost: 2 WCU.
    """
    update = {
        "Key": counters_key(product, id)._asdict(),
        "UpdateExpression": f"ADD {name} :number",
        "ConditionExpression": "#hidden = :no" if shown else "attribute_exists(pk)",
        "ExpressionAttributeValues": {":number": number} | ({":no": False} if shown else {}),
    }
    return {"Update": update | ({"ExpressionAttributeNames": {"#hidden": "hidden"}} if shown else {})}


def follow(product: str, id: str, text: str, *, hidden: bool) -> dict[str, Any]:
    """Build the update that follows a change of the comment.

    Cost: 2 WCU.
    """
    return {
        "Update": {
            "Key": counters_key(product, id)._asdict(),
            "UpdateExpression": "SET #size = :size, #hidden = :hidden",
            "ConditionExpression": "attribute_exists(pk)",
            "ExpressionAttributeNames": NAMES,
            "ExpressionAttributeValues": {":size": size_of(text), ":hidden": hidden},
        }
    }


def delete(product: str, id: str, *, has_any: bool) -> dict[str, Any]:
    """Build the delete. Without votes and replies (`has_any`) it requires that none has been added since.

    Cost: 2 WCU.
    """
    none = " AND ".join(f"attribute_not_exists({name})" for name in COUNTS)
    key = counters_key(product, id)._asdict()
    return {"Delete": {"Key": key} | ({} if has_any else {"ConditionExpression": none})}
