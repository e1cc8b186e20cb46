"""Find and erase the comments, replies and votes of a person, on any product."""

import contextlib

from chalicelib.api.auth import Caller
from chalicelib.comments import cleanup, comments, replies, reports, votes
from chalicelib.comments.counters import COUNTERS, counters_key
from chalicelib.dynamo.items import Item, Key
from chalicelib.dynamo.table import Table
from chalicelib.errors import NotFound
from chalicelib.feature import Person, Personal

AUTHORED = {  # the kinds of items that have an `author`
    comments.COMMENT: "comments",
    comments.HIDDEN: "comments",
    COUNTERS: "counters",
    comments.CLEANUP: "cleanups",
    replies.REPLY: "replies",
}


def find(item: Item, person: Person) -> str:
    """Return the kind of an item of the author or reader, or an empty text."""
    sk = str(item["sk"])
    if item["pk"] == f"AUTHOR#{person.name}":
        return "standings"
    if not str(item["pk"]).startswith("PRODUCT#"):
        return ""
    if item.get("author") == person.name:
        return AUTHORED.get(f"{sk.partition('#')[0]}#", "")
    if votes.is_vote_of(item, person.name):
        return "votes"
    if reports.is_report_of(item, person.name):
        return "reports"
    return "authors" if sk == f"AUTHOR#{person.name}" else ""


def erase(table: Table, item: Item, person: Person) -> None:
    """Delete the person's comments and replies, as an admin does, and withdraw the votes.

    The replies and votes of others on these comments are deleted too, also on comments that were deleted
    before.
    """
    key, product = Key(item["pk"], item["sk"]), comments.product_of(item)
    match find(item, person):
        case "authors":
            _delete_comment(table, person, product, str(item["id"]))
            table.delete(key, condition="id = :id", values={":id": item["id"]})
        case "replies":
            try:
                replies.delete(table, replies.path_of(item), Caller(person.name, admin=True))
            except NotFound:  # its comment is deleted, and counts it no more
                table.delete(key)
        case "standings":
            table.delete(key)
        case "reports":
            reports.remove(table, item)
        case "votes":
            votes.remove(table, product, key.sk.split("#")[1], person.name)
        case _:
            _delete_comment(table, person, product, comments.id_of(item))


def _delete_comment(table: Table, person: Person, product: str, id: str) -> None:
    """Delete a comment of the person, and the rest of a deleted one."""
    there = comments.find_stored(table, product, id)
    if there and there.get("author") != person.name:
        return
    if there:
        with contextlib.suppress(NotFound):
            comments.delete(table, product, id, Caller(person.name, admin=True))
    else:
        table.delete(counters_key(product, id))
    cleanup.finish(table, counters_key(product, id))


PERSONAL = Personal(find, erase)
