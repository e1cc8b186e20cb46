"""Replies to comments, on one level. A reply has no rating, and no statistics include it.

| item | pk | sk | holds |
|---|---|---|---|
| reply | `PRODUCT#<product>` | `REPLY#<comment>#<ulid>` | author, name, language, text, edited; `hidden` |
| idempotency key | `PRODUCT#<product>` | `KEY#<comment>#<digest>` | `id` of the reply it has written; `ttl` |

The gsi1pk of a reply is `REPLIES#<shard>` of four shards, with the gsi1sk of comments.py, so admins can list
the replies on all products. The comment has the number of its replies in `replies`, from its first reply on,
without those that an admin has hidden. A comment without replies is written and read as before.

Invariant: a reply and the number change in one transaction. So `replies` is the number of the comment's
replies that are not hidden at any time. An idempotency key writes one reply within a day.
"""

import hashlib
from datetime import datetime, timedelta
from typing import Any

from msgspec import UNSET

from chalicelib import times, ulids
from chalicelib.api import cursors
from chalicelib.api.auth import Caller
from chalicelib.api.router import Response
from chalicelib.comments.comments import (
    ABSENT,
    CONFLICTS,
    REPLIES,
    TRIES,
    add_to_count,
    comment_key,
    find_stored,
    find_visible,
    list_attributes,
    normalize_text,
    parse_language,
    read_edits,
    require_visible,
)
from chalicelib.comments.schemas import Replies, RepliesQuery, Reply, ReplyBody, ReplyPatch, ReplyPath
from chalicelib.dynamo.items import Item, Key
from chalicelib.dynamo.table import Table
from chalicelib.errors import Busy, Conflict, Forbidden, NotFound
from chalicelib.settings import Settings

REPLY = "REPLY#"
KEY_LIFETIME = timedelta(days=1)  # of an idempotency key
STORED = "attribute_exists(pk)"


# -- keys ----------------------------------------------------------------------------------------------


def reply_key(product: str, comment: str, id: str) -> Key:
    """Build the key of a reply."""
    return Key(f"PRODUCT#{product}", f"{REPLY}{comment}#{id}")


def retry_key(product: str, comment: str, author: str, idempotency_key: str) -> Key:
    """Build the key of the item that names the reply of an idempotency key."""
    digest = hashlib.blake2b(f"{author}\n{idempotency_key}".encode(), digest_size=16).hexdigest()
    return Key(f"PRODUCT#{product}", f"KEY#{comment}#{digest}")


def is_reply(item: Item) -> bool:
    """Return whether an item is a reply."""
    kind, *parts = str(item["sk"]).split("#")
    return str(item["pk"]).startswith("PRODUCT#") and f"{kind}#" == REPLY and len(parts) == 2


def path_of(item: Item) -> ReplyPath:
    """Return the product, the comment and the id of a reply."""
    _, comment, id = item["sk"].split("#")
    return ReplyPath(product=item["pk"].removeprefix("PRODUCT#"), id=comment, reply=id)


# -- write ---------------------------------------------------------------------------------------------


def post(
    table: Table,
    product: str,
    id: str,
    body: ReplyBody,
    caller: Caller,
    idempotency_key: str | None,
    now: datetime,
    *,
    is_listed: bool = True,
) -> Response[Reply]:
    """Reply to a comment. A repeated idempotency key returns the reply that it has written.

    Cost: 1 RCU; 2 WCU per KB of the reply, and 1 for gsi1 if it is listed; 2 WCU per KB of the comment and 1
    per KB for gsi2. 2 WCU more with an idempotency key.
    Raises: NotFound for an absent or hidden comment; BadRequest; Conflict; Busy.
    """
    for number in range(TRIES):
        comment = require_visible(table.get(comment_key(product, id), consistent=True), product, id, caller)
        item = _build_item(ReplyPath(product, id, ulids.new(now)), comment, body, caller, is_listed)
        actions = _add(item, comment)
        if idempotency_key:
            retry = retry_key(product, id, caller.sub, idempotency_key)
            actions.append(_put_retry_key(retry, path_of(item).reply, now))
        refused = table.transact(actions)
        if not refused:
            return Response(to_reply(item))
        if idempotency_key and 2 in refused and (written := _find_written(table, retry, product, id)):
            return Response(to_reply(written))
        table.back_off(number)
    raise Busy(CONFLICTS)


def add(table: Table, path: ReplyPath, body: ReplyBody, author: Caller, *, is_listed: bool = True) -> bool:
    """Write a reply whose id its importer has derived. Return False when it has been written before.

    The comment may be hidden. Idempotent: the reply and the number change together or not at all.

    Cost: 1 RCU. For a new reply also that of `find_stored`, and the WCU of `post`.
    Raises: NotFound for an absent comment; BadRequest; Busy.
    """
    for number in range(TRIES):
        if table.get(reply_key(path.product, path.id, path.reply), consistent=True):
            return False
        if (comment := find_stored(table, path.product, path.id)) is None:
            raise NotFound(f"id: there is no comment {path.id} on {path.product}")
        if not table.transact(_add(_build_item(path, comment, body, author, is_listed), comment)):
            return True
        table.back_off(number)
    raise Busy(CONFLICTS)


def _add(item: Item, comment: Item) -> list[Any]:
    """Build the actions that write a reply and count it."""
    return [{"Put": {"Item": item, "ConditionExpression": ABSENT}}, add_to_count(comment, "replies", 1)]


def _build_item(path: ReplyPath, comment: Item, body: ReplyBody, caller: Caller, is_listed: bool) -> Item:
    """Build the item of a reply. Its language is that of the comment, unless the body has another."""
    return {
        **reply_key(path.product, path.id, path.reply)._asdict(),
        "author": caller.sub,
        **({"name": caller.name} if caller.name else {}),
        "language": comment["language"] if body.language is UNSET else parse_language(body.language),
        "text": normalize_text(body.text),
        **(list_attributes(path.reply, REPLIES) if is_listed else {}),
    }


def _put_retry_key(key: Key, reply: str, now: datetime) -> dict[str, Any]:
    """Build the put of an idempotency key, on condition that it is new or has expired."""
    item = key._asdict() | {"id": reply, "ttl": times.epoch(now + KEY_LIFETIME)}
    return {
        "Put": {
            "Item": item,
            "ConditionExpression": f"{ABSENT} OR #ttl < :now",
            "ExpressionAttributeNames": {"#ttl": "ttl"},
            "ExpressionAttributeValues": {":now": times.epoch(now)},
        }
    }


def _find_written(table: Table, retry: Key, product: str, id: str) -> Item | None:
    """Read the reply of an idempotency key; None when the key has expired meanwhile.

    Raises: Conflict when the reply has been deleted.
    """
    if (found := table.get(retry, consistent=True)) is None:
        return None
    written = table.get(reply_key(product, id, found["id"]), consistent=True)
    if written is None:
        raise Conflict("Idempotency-Key: the reply of this key was deleted. Send another key.")
    return written


def patch(table: Table, path: ReplyPath, body: ReplyPatch, caller: Caller, now: datetime) -> Response[Reply]:
    """Change a reply's text or language as its author, or hide or show it as an admin.

    Of two edits at once the later one wins. A change that has no effect writes nothing.

    Cost: 1 RCU, 1 WCU per KB. To hide or to show: that of `find_stored`, 2 WCU per KB of the reply and of the
    comment, and 1 per KB for gsi2.
    Raises: BadRequest, Forbidden, NotFound, Busy.
    """
    edits = read_edits(body, "language", "text")
    if body.hidden is not UNSET:
        return Response(to_reply(_set_hidden(table, path, caller, hides=body.hidden)))
    item = _find(table, path, caller)
    if caller.sub != item["author"]:
        raise Forbidden("Only the author may edit a reply, and only an admin may hide or show it.")
    if all(item[name] == value for name, value in edits.items()):
        return Response(to_reply(item))
    edits["edited"] = times.to_sort_key(now)
    changed = table.update(
        Key(item["pk"], item["sk"]),
        "SET " + ", ".join(f"#{name} = :{name}" for name in edits),
        condition=STORED,
        names={f"#{name}": name for name in edits},
        values={f":{name}": value for name, value in edits.items()},
        idempotent=True,
    )
    if changed is None:
        raise _not_found(path)
    return Response(to_reply(changed))


def _set_hidden(table: Table, path: ReplyPath, caller: Caller, *, hides: bool) -> Item:
    """Hide a reply or show it again, and count it out or in. Return the reply as it is then."""
    if not caller.admin:
        raise Forbidden("Only the author may edit a reply, and only an admin may hide or show it.")
    for number in range(TRIES):
        item = _find(table, path, caller)
        if is_hidden(item) == hides:
            return item
        if (comment := find_stored(table, path.product, path.id)) is None:
            raise _not_found(path)
        if not table.transact(
            [_hide(item, hides=hides), add_to_count(comment, "replies", -1 if hides else 1)]
        ):
            return {name: value for name, value in item.items() if name != "hidden"} | (
                {"hidden": True} if hides else {}
            )
        table.back_off(number)
    raise Busy(CONFLICTS)


def _hide(item: Item, *, hides: bool) -> dict[str, Any]:
    """Build the update that hides or shows a reply, on condition that this changes it."""
    function = "attribute_not_exists" if hides else "attribute_exists"
    return {
        "Update": {
            "Key": {"pk": item["pk"], "sk": item["sk"]},
            "UpdateExpression": "SET #hidden = :yes" if hides else "REMOVE #hidden",
            "ConditionExpression": f"{STORED} AND {function}(#hidden)",
            "ExpressionAttributeNames": {"#hidden": "hidden"},
            **({"ExpressionAttributeValues": {":yes": True}} if hides else {}),
        }
    }


def delete(table: Table, path: ReplyPath, caller: Caller) -> None:
    """Delete a reply, as its author or as an admin.

    Cost: 1 RCU, that of `find_stored`, 2 WCU per KB of the reply and 1 for gsi1. Unless the reply is hidden,
    2 WCU per KB of the comment and 1 per KB for gsi2.
    Raises: Forbidden, NotFound, Busy.
    """
    for number in range(TRIES):
        item = _find(table, path, caller)
        if not caller.admin and caller.sub != item["author"]:
            raise Forbidden("Only the author or an admin may delete a reply.")
        comment = find_stored(table, path.product, path.id)
        function = "attribute_exists" if is_hidden(item) else "attribute_not_exists"
        actions: list[Any] = [
            {
                "Delete": {
                    "Key": {"pk": item["pk"], "sk": item["sk"]},
                    "ConditionExpression": f"{STORED} AND {function}(#hidden)",
                    "ExpressionAttributeNames": {"#hidden": "hidden"},
                }
            }
        ]
        if comment and not is_hidden(item):
            actions.append(add_to_count(comment, "replies", -1))
        if not table.transact(actions):
            return
        table.back_off(number)
    raise Busy(CONFLICTS)


# -- count ---------------------------------------------------------------------------------------------


def count(item: Item) -> dict[tuple[Key, str], int]:
    """Return what an item adds to the replies of its comment. The audit compares the comment with the sum."""
    if not is_reply(item) or is_hidden(item):
        return {}
    path = path_of(item)
    return {(comment_key(path.product, path.id), "replies"): 1}


# -- read ----------------------------------------------------------------------------------------------


def list_replies(
    table: Table, product: str, id: str, query: RepliesQuery, settings: Settings, caller: Caller
) -> Replies:
    """Return a page of a comment's replies, oldest first.

    Only its author and admins see a hidden reply. So a page may have fewer replies than `limit`.

    Cost: 0.5 RCU per 4 KB of the comment, and 0.5 RCU per 4 KB of the replies if there are any.
    Raises: BadCursor; NotFound for an absent comment, and for a hidden comment of another author.
    """
    scope = ("replies", product, id)
    after = cursors.decode(settings, scope, query.cursor)
    if "replies" not in find_visible(table, product, id, caller):
        return Replies(items=[], cursor=None)
    first = reply_key(product, id, "")
    page = table.query(
        first.pk,
        (first.sk, f"{first.sk}~"),
        limit=query.limit,
        start={"pk": first.pk, "sk": first.sk + after} if after else None,
    )
    position = path_of(page.next).reply if page.next else ""
    items = [to_reply(item) for item in page.items if _may_see(item, caller)]
    return Replies(items=items, cursor=cursors.encode(settings, scope, position))


def _find(table: Table, path: ReplyPath, caller: Caller) -> Item:
    """Read a reply, strongly consistent. Raises NotFound, also for a hidden reply of another author."""
    item = table.get(reply_key(path.product, path.id, path.reply), consistent=True)
    if item is None or not _may_see(item, caller):
        raise _not_found(path)
    return item


def _not_found(path: ReplyPath) -> NotFound:
    return NotFound(f"reply: there is no reply {path.reply} to the comment {path.id}")


def _may_see(item: Item, caller: Caller) -> bool:
    return not is_hidden(item) or caller.admin or caller.sub == item["author"]


def is_hidden(item: Item) -> bool:
    """Return whether an admin has hidden a reply."""
    return "hidden" in item


def to_reply(item: Item) -> Reply:
    """Build the API's representation of a reply."""
    id = path_of(item).reply
    return Reply(
        id=id,
        author=item["author"],
        name=item.get("name"),
        language=item["language"],
        text=item["text"],
        created=times.to_iso(ulids.created_at(id)),
        edited=times.to_iso(times.parse(item["edited"])) if "edited" in item else None,
        hidden=is_hidden(item),
    )
