"""Find and erase the comments, replies and votes of a person, on any product."""

import contextlib

from chalicelib.api.auth import Caller
from chalicelib.comments import comments, replies, votes
from chalicelib.dynamo.items import Item, Key
from chalicelib.dynamo.table import Table
from chalicelib.errors import NotFound
from chalicelib.feature import Person, Personal


def find(item: Item, person: Person) -> str:
    """Return `comments`, `authors`, `replies` or `votes` for an item of the author or reader."""
    sk = str(item["sk"])
    if not str(item["pk"]).startswith("PRODUCT#"):
        return ""
    if sk.startswith((comments.COMMENT, comments.HIDDEN)) and item.get("author") == person.name:
        return "comments"
    if replies.is_reply(item) and item.get("author") == person.name:
        return "replies"
    if votes.is_vote_of(item, person.name):
        return "votes"
    return "authors" if sk == f"AUTHOR#{person.name}" else ""


def erase(table: Table, item: Item, person: Person) -> bool:
    """Delete what the person has written, as an admin does, and withdraw its votes."""
    key, caller = Key(item["pk"], item["sk"]), Caller(person.name, admin=True)
    match find(item, person):
        case "comments":
            _delete_comment(table, person, comments.product_of(item), comments.id_of(item))
        case "authors":
            _delete_comment(table, person, comments.product_of(item), str(item["id"]))
            table.delete(key, condition="id = :id", values={":id": item["id"]})
        case "replies":
            with contextlib.suppress(NotFound):
                replies.delete(table, replies.path_of(item), caller)
        case "votes":
            votes.remove(table, comments.product_of(item), key.sk.split("#")[1], person.name)
    return True


def _delete_comment(table: Table, person: Person, product: str, id: str) -> None:
    """Delete a comment and its author's item, if the comment exists and is the person's."""
    there = comments.find_stored(table, product, id)
    if there and there.get("author") == person.name:
        with contextlib.suppress(NotFound):
            comments.delete(table, product, id, Caller(person.name, admin=True))


PERSONAL = Personal(find, erase)
