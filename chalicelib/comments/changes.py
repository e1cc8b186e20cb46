"""What changes a comment: its author edits it, an admin hides it or shows it again, either deletes it.

The items are those of comments.py. `revision` grows with each change, and every change is written on
condition that it is what was read. A comment that is older than the sums is brought into them first.
"""

from datetime import datetime
from typing import Any

from msgspec import UNSET

from chalicelib import times
from chalicelib.api.auth import Caller
from chalicelib.api.router import Response
from chalicelib.api.schemas import STORED
from chalicelib.comments import languages
from chalicelib.comments.comments import (
    ABSENT,
    TRIES,
    answer,
    author_key,
    comment_key,
    contribution,
    etag,
    ident,
    is_hidden,
    plain,
    product_of,
    stamp,
    stored,
    tag,
    visible,
)
from chalicelib.comments.schemas import Comment, CommentPatch
from chalicelib.dynamo.items import Item, Key
from chalicelib.dynamo.table import Table
from chalicelib.errors import BadRequest, Busy, Forbidden, PreconditionFailed
from chalicelib.ulids import ULID


def patch(
    table: Table,
    product: str,
    id: str,
    body: CommentPatch,
    caller: Caller,
    if_match: str | None,
    now: datetime,
) -> Response[Comment]:
    """Change a comment's rating, language or text (its author), or whether it is hidden (an admin).

    Nobody's change is lost: one that meets another is made again on what is there then, or is
    PreconditionFailed where If-Match names what was there before. What changes nothing writes nothing.
    Raises BadRequest, Forbidden, NotFound. Costs 1 RCU, of a hidden one 2, and 1 WCU per KB, with 2 of index
    where rating or language change, else 1; to hide or to show 4 WCU per KB and 2 of index.
    """
    fields = {"rating": body.rating, "language": body.language, "text": body.text}
    edits = {name: value for name, value in fields.items() if value is not UNSET}
    if bool(edits) == (body.hidden is not UNSET):
        raise BadRequest("body: send rating, language or text, or hidden alone")
    if "language" in edits:
        edits["language"] = tag(str(edits["language"]))
    if "text" in edits:
        edits["text"] = plain(str(edits["text"]))
    wanted: Item | None = None
    for number in range(TRIES):
        item = visible(stored(table, product, id), product, id, caller)
        if item == wanted:  # it was our own write that refused us: its answer was lost
            return answer(item)
        if not (caller.admin if body.hidden is not UNSET else caller.sub == item["author"]):
            raise Forbidden("Only its author edits a comment, and only an admin hides one or shows it again.")
        if if_match is not None and not _matches(item, if_match):
            raise PreconditionFailed("If-Match: the comment has changed since: read it again")
        hides = is_hidden(item) if body.hidden is UNSET else body.hidden
        if "counted" not in item and touch(table, item) is not None:
            continue  # it is older than the sums: now it is in them
        wanted = _changed(item, edits, hides, now)
        if wanted == item or _replaced(table, item, wanted):
            return answer(wanted)
        table.back_off(number)
    raise Busy("Several writes meet on this comment: try again in a moment.")


def delete(table: Table, product: str, id: str, caller: Caller) -> None:
    """Delete a comment: its author, or an admin. Its author may then comment again.

    But not the author of one that an admin has hidden. Raises Forbidden, NotFound. Costs 1 RCU, of a hidden
    one 2, and 2 WCU per KB, 2 for the author's item, and as much as 2 of index.
    """
    frees = True
    for _ in range(TRIES):
        item = visible(stored(table, product, id), product, id, caller)
        if not caller.admin and caller.sub != item["author"]:
            raise Forbidden("A comment is deleted by its author or by an admin.")
        key = {"pk": item["pk"], "sk": item["sk"]}
        actions: list[Any] = [{"Delete": {"Key": key, "ConditionExpression": "attribute_exists(pk)"}}]
        if frees and (caller.admin or not is_hidden(item)):
            actions.append(_freed(product, item["author"], id))
        refused = table.transact(actions)
        if not refused:
            return
        frees = 1 not in refused  # of comments older than their authors' items, one may have several
    raise Busy("Several writes meet on this comment: try again in a moment.")


def _freed(product: str, author: str, id: str) -> dict[str, Any]:
    """Write down how an author's place is freed, if it is this comment's."""
    return {
        "Delete": {
            "Key": author_key(product, author)._asdict(),
            "ConditionExpression": f"{ABSENT} OR #id = :id",
            "ExpressionAttributeNames": {"#id": "id"},
            "ExpressionAttributeValues": {":id": id},
        }
    }


def _changed(item: Item, edits: dict[str, Any], hides: bool, now: datetime) -> Item:
    """Answer what a comment becomes; the same if nothing changes."""
    if hides == is_hidden(item) and all(item[name] == value for name, value in edits.items()):
        return item
    product = product_of(item)
    after: Item = item | edits | {"revision": item.get("revision", 0) + 1}
    after |= comment_key(product, ident(item), hidden=hides)._asdict()
    after |= stamp(product, after["language"], after["rating"])
    if edits:
        after["edited"] = times.to_sort_key(now)
    if hides:
        del after["gsi2pk"]
    return after


def _replaced(table: Table, item: Item, wanted: Item) -> bool:
    """Write what a comment becomes, unless it is no longer what it was."""
    revision = item.get("revision")
    first = "attribute_exists(pk) AND attribute_not_exists(revision)"  # of before there were revisions
    condition = "revision = :seen" if revision else first
    values = {":seen": revision} if revision else {}
    if wanted["sk"] == item["sk"]:
        return table.put(wanted, condition=condition, values=values)
    leaves: Any = {"Key": {"pk": item["pk"], "sk": item["sk"]}, "ConditionExpression": condition}
    if values:
        leaves["ExpressionAttributeValues"] = values
    enters = {"Item": wanted, "ConditionExpression": ABSENT}
    return not table.transact([{"Delete": leaves}, {"Put": enters}])


def touch(table: Table, item: Item) -> bool | None:
    """Bring a comment that is older than the sums into them, and take its author's place if that is free.

    Answers False when it has a stamp by now or is gone, None when it is malformed and stays as it is. The
    touch goes through the stream, so a comment enters once whoever touches it. Costs 4 WCU and 2 of index.
    """
    while (change := _touch(item)) is not None:
        author = author_key(product_of(item), item["author"])
        place = {**author._asdict(), "id": ident(item)}
        refused = table.transact([change, {"Put": {"Item": place, "ConditionExpression": ABSENT}}])
        if refused == (1,):  # its author has another comment on the product
            refused = table.transact([change])
        if not refused:
            return True
        now = table.get(Key(item["pk"], item["sk"]), consistent=True)
        if now is None or "counted" in now:
            return False
        item = now
    return None


def _touch(item: Item) -> dict[str, Any] | None:
    """Write down the touch of a comment; None for one that could not be counted or shown."""
    try:
        product, language = product_of(item), languages.canonical(item["language"])
        stamped = stamp(product, language, item["rating"])
        contribution(item | stamped | {"language": language})
        if not (ULID.search(ident(item)) and STORED.search(item["author"])):
            return None
    except (AttributeError, KeyError, TypeError, ValueError):
        return None
    same = "rating = :rating AND #language = :was"
    return {
        "Update": {
            "Key": {"pk": item["pk"], "sk": item["sk"]},
            "UpdateExpression": "SET counted = :counted, gsi2pk = :cell, #language = :language",
            "ConditionExpression": f"attribute_exists(pk) AND attribute_not_exists(counted) AND {same}",
            "ExpressionAttributeNames": {"#language": "language"},
            "ExpressionAttributeValues": {
                ":counted": stamped["counted"],
                ":cell": stamped["gsi2pk"],
                ":language": language,
                ":was": item["language"],
                ":rating": item["rating"],
            },
        }
    }


def _matches(item: Item, if_match: str) -> bool:
    """Tell whether If-Match holds: `*`, or ETags of which one is the comment's (RFC 9110, 13.1.1)."""
    return if_match.strip() == "*" or etag(item) in (one.strip() for one in if_match.split(","))
