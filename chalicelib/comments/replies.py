"""Replies to comments, on one level. A reply has no rating, and no statistics include it.

| item | pk | sk | holds |
|---|---|---|---|
| reply | `PRODUCT#<product>` | `REPLY#<comment>#<ulid>` | author, name, language, text, edited; `hidden`; |
| | | | `pending` too while it waits for approval |

The gsi1pk of a reply is `REPLIES#<shard>` of four shards, with the gsi1sk of comments.py, so admins can list
the replies on all products. A pending reply has `PENDING_REPLIES#<shard>` (moderation.py). The comment's
counters have the number of its replies in `replies`, without hidden and pending ones (counters.py).

Invariant: a reply and the number change in one transaction. So `replies` is the number of the comment's
replies that are neither hidden nor pending at any time. A reply is written on condition that its comment
exists, and removed with it (cleanup.py). An idempotency key writes one reply within a day (idempotency.py).
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from msgspec import UNSET

from chalicelib import times, ulids
from chalicelib.api import cursors, listing
from chalicelib.api.auth import Caller
from chalicelib.comments import counters, idempotency, moderation
from chalicelib.comments.comments import (
    CONFLICTS,
    PENDING_REPLIES,
    REPLIES,
    TRIES,
    check_content,
    comment_key,
    find,
    find_stored,
    list_attributes,
    normalize_text,
    parse_language,
    read_edits,
    require_visible,
    state_of,
)
from chalicelib.comments.counters import ABSENT, counters_key
from chalicelib.comments.schemas import (
    Replies,
    RepliesQuery,
    Reply,
    ReplyBody,
    ReplyPatch,
    ReplyPath,
    State,
)
from chalicelib.context import Context
from chalicelib.dynamo.items import Item, Key, Range
from chalicelib.dynamo.table import Page, Table
from chalicelib.errors import Busy, Conflict, Forbidden, NotFound

REPLY = "REPLY#"
STORED = "attribute_exists(pk)"


# -- keys ----------------------------------------------------------------------------------------------


def reply_key(product: str, comment: str, id: str) -> Key:
    """Build the key of a reply."""
    return Key(f"PRODUCT#{product}", f"{REPLY}{comment}#{id}")


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
    context: Context,
    product: str,
    id: str,
    body: ReplyBody,
    caller: Caller,
    idempotency_key: str | None,
) -> Reply:
    """Reply to a comment. A repeated idempotency key returns the reply that it has written.

    Cost: 1 RCU, and 1 per 4 KB of the comment; 2 WCU per KB of the reply, 2 WCU for the counters, and 1 for
    gsi1. For the comment's first reply, vote or report 2 WCU per KB of the comment. 2 WCU more with an
    idempotency key. That of `moderation.admit`. 2 WCU more for a pending reply of an author whose last text
    was approved.
    Raises: NotFound for an absent or hidden comment; Forbidden for a banned author; BadRequest; Unprocessable
    for an empty text; Conflict; Busy.
    """
    standing = moderation.admit(context, caller)
    check_content(None, body.text)
    for number in range(TRIES):
        keys = comment_key(product, id), counters_key(product, id)
        found = context.table.get_many(keys, consistent=True)
        comment = require_visible(found.get(keys[0]), product, id, caller)
        item = _build_item(ReplyPath(product, id, ulids.new(context.now)), comment, body, caller)
        waits = moderation.must_wait(context, product, caller, standing, item["text"])
        item = _set_state(item, "pending") if waits else item
        actions = _add(item, comment, found.get(keys[1]), shown=True)
        place = len(actions)
        if idempotency_key:
            retry = idempotency.build_key(product, caller.sub, idempotency_key, id)
            actions.append(idempotency.put(retry, path_of(item).reply, context.now))
        if waits and standing.get("approved"):
            actions.append(moderation.set_approved(caller.sub, approved=False))
        refused = context.table.transact(actions)
        if not refused:
            return to_reply(item)
        is_known = idempotency_key and place in refused
        if is_known and (written := _find_written(context.table, retry, product, id)):
            return to_reply(written)
        context.table.back_off(number)
    raise Busy(CONFLICTS)


def add(table: Table, path: ReplyPath, body: ReplyBody, author: Caller) -> bool:
    """Write a reply whose id its importer has derived. Return False when it has been written before.

    The comment may be hidden. Idempotent: the reply and the number change together or not at all.

    Cost: 1 RCU. For a new reply also 1 RCU, that of `find_stored`, and the WCU of `post`.
    Raises: NotFound for an absent comment; BadRequest; Busy.
    """
    for number in range(TRIES):
        if table.get(reply_key(path.product, path.id, path.reply), consistent=True):
            return False
        if (comment := find_stored(table, path.product, path.id)) is None:
            raise NotFound(f"There is no comment {path.id} on {path.product}.")
        counted = table.get(counters_key(path.product, path.id), consistent=True)
        if not table.transact(_add(_build_item(path, comment, body, author), comment, counted)):
            return True
        table.back_off(number)
    raise Busy(CONFLICTS)


def _add(item: Item, comment: Item, counted: Item | None, *, shown: bool = False) -> list[Any]:
    """Build the actions that write and count a reply, on condition that its comment exists (or is shown).

    A pending reply adds 0, so that the comment's counters say that there are replies to remove (cleanup.py).
    """
    path, put = path_of(item), {"Put": {"Item": item, "ConditionExpression": ABSENT}}
    number = int(not is_hidden(item))
    if counted is None:
        return [put, *counters.make(comment, "replies", number)]
    return [put, counters.add(path.product, path.id, "replies", number, shown=shown)]


def _build_item(path: ReplyPath, comment: Item, body: ReplyBody, caller: Caller) -> Item:
    """Build the item of a reply. Its language is that of the comment, unless the body has another."""
    return {
        **reply_key(path.product, path.id, path.reply)._asdict(),
        "author": caller.sub,
        **({"name": caller.name} if caller.name else {}),
        "language": comment["language"] if body.language is UNSET else parse_language(body.language),
        "text": normalize_text(body.text),
        **list_attributes(path.reply, REPLIES),
    }


def _find_written(table: Table, retry: Key, product: str, id: str) -> Item | None:
    """Read the reply of an idempotency key; None when the key has expired meanwhile.

    Raises: Conflict when the reply has been deleted.
    """
    if (found := table.get(retry, consistent=True)) is None:
        return None
    written = table.get(reply_key(product, id, found["id"]), consistent=True)
    if written is None:
        raise Conflict("The reply of this `Idempotency-Key` was deleted. Send another key.")
    return written


def patch(context: Context, path: ReplyPath, body: ReplyPatch, caller: Caller) -> Reply:
    """Change a reply's text or language as its author, or hide, show or approve it as an admin.

    An edit of a text may make the reply pending again. Of two concurrent edits the later one wins. A change
    that has no effect writes nothing.

    Cost: 2 RCU, 1 WCU per KB. To hide, to show or to approve: 2 RCU, 2 WCU per KB, and 2 WCU for the
    counters, and that of `moderation.settle`. At most 4 WCU more where a reply is or was pending. That of
    `moderation.admit` for an author.
    Raises: BadRequest, Unprocessable for an empty text, Forbidden, NotFound, Busy.
    """
    edits = read_edits(body, "language", "text")
    if edits:
        moderation.admit(context, caller)
    if "text" in edits:
        check_content(None, edits["text"])
    for number in range(TRIES):
        item = _find(context.table, path, caller)
        if not (caller.sub == item["author"] if edits else caller.admin):
            raise Forbidden("Only the author may edit a reply, and only an admin may hide or approve it.")
        state = moderation.choose_state(context, caller, state_of(item), body, edits.get("text"))
        after = _apply_edits(item, edits, state, context.now)
        standings = moderation.follow_state(context, path.product, item["author"], state_of(item), state)
        if after == item or _replace(context.table, item, after, standings):
            if not edits:
                moderation.settle(context.table, path.product, path.id, path.reply)
            return to_reply(after)
        context.table.back_off(number)
    raise Busy(CONFLICTS)


def _apply_edits(item: Item, edits: dict[str, Any], state: State, now: datetime) -> Item:
    """Return the reply as it is after a change, or the same item if nothing changes."""
    if state == state_of(item) and all(item[name] == value for name, value in edits.items()):
        return item
    return _set_state(item | edits | ({"edited": times.to_sort_key(now)} if edits else {}), state)


def _set_state(item: Item, state: State) -> Item:
    """Return a reply in a state: its marks and its list."""
    after = {name: value for name, value in item.items() if name not in ("hidden", "pending")}
    after |= {"hidden": True} if state != "approved" else {}
    after |= {"pending": True} if state == "pending" else {}
    return after | list_attributes(path_of(item).reply, PENDING_REPLIES if state == "pending" else REPLIES)


def _replace(table: Table, item: Item, after: Item, standings: Sequence[Any]) -> bool:
    """Write what differs, and the number of replies if it follows. Return False for another state."""
    path, more = path_of(item), is_hidden(item) - is_hidden(after)
    changed = {name: value for name, value in after.items() if item.get(name) != value}
    names = {f"#{name}": name for name in (*(item.keys() ^ after.keys()), *changed, "hidden", "pending")}
    gone = sorted(item.keys() - after.keys())
    clauses = [
        f"SET {', '.join(f'#{name} = :{name}' for name in changed)}" if changed else "",
        f"REMOVE {', '.join(f'#{name}' for name in gone)}" if gone else "",
    ]
    conditions = [
        f"attribute_{'' if name in item else 'not_'}exists(#{name})" for name in ("hidden", "pending")
    ]
    key, condition = Key(item["pk"], item["sk"]), " AND ".join([STORED, *conditions])
    values, expression = {f":{name}": value for name, value in changed.items()}, " ".join(clauses)
    if not more and not standings:
        written = table.update(
            key, expression, condition=condition, names=names, values=values, idempotent=True
        )
        return written is not None
    update: dict[str, Any] = {
        "Key": key._asdict(),
        "UpdateExpression": expression,
        "ConditionExpression": condition,
        "ExpressionAttributeNames": names,
    }
    update |= {"ExpressionAttributeValues": values} if values else {}
    count = [counters.add(path.product, path.id, "replies", more)] if more else []
    return not table.transact([{"Update": update}, *count, *standings])


def delete(table: Table, path: ReplyPath, caller: Caller) -> None:
    """Delete a reply, as its author or as an admin.

    The entry of a reported reply (reports.py) is deleted with it.

    Cost: 2 RCU, 2 WCU per KB and 1 for gsi1; 2 WCU for the entry. Unless the reply is hidden, 2 WCU for the
    counters.
    Raises: Forbidden, NotFound, Busy.
    """
    for number in range(TRIES):
        item = _find(table, path, caller)
        if not caller.admin and caller.sub != item["author"]:
            raise Forbidden("Only the author or an admin may delete a reply.")
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
        if not is_hidden(item):
            actions.append(counters.add(path.product, path.id, "replies", -1))
        reported = moderation.reported_key(path.product, path.id, path.reply)
        actions.append({"Delete": {"Key": reported._asdict()}})
        if not table.transact(actions):
            return
        table.back_off(number)
    raise Busy(CONFLICTS)


# -- count ---------------------------------------------------------------------------------------------


def count(item: Item) -> dict[tuple[Key, str], int]:
    """Return what an item adds to the replies of its comment. The audit compares its counters with them."""
    if not is_reply(item) or is_hidden(item):
        return {}
    path = path_of(item)
    return {(counters_key(path.product, path.id), "replies"): 1}


# -- read ----------------------------------------------------------------------------------------------


def list_replies(context: Context, product: str, id: str, query: RepliesQuery, caller: Caller) -> Replies:
    """Return a page of a comment's replies, oldest first.

    Only its author and admins see a hidden reply. So a page may have fewer replies than `limit`.

    Cost: 0.5 RCU, and 0.5 RCU per 4 KB of each ten replies if there are any: at most 35. Without a reply and
    a vote that of `comments.find` instead.
    Raises: BadCursor; NotFound for an absent comment, and for a hidden comment of another author.
    """
    scope = ("replies", product, id)
    after = cursors.decode(context.settings, scope, query.cursor)
    if counted := context.table.get(counters_key(product, id)):
        require_visible(counted, product, id, caller)
    else:
        find(context.table, product, id, caller)
    if not counted or "replies" not in counted:
        return Replies(items=[], cursor=None)
    first = reply_key(product, id, "")

    def read(limit: int, start: Item | None) -> Page:
        return context.table.query(Range(first.pk, (first.sk, f"{first.sk}~")), limit=limit, start=start)

    start = {"pk": first.pk, "sk": first.sk + after} if after else None
    items, position = listing.fill_page(
        listing.read_texts(read, query.limit, start),
        query.limit,
        lambda item: to_reply(item) if _may_see(item, caller) else None,
    )
    following = path_of(position).reply if position else ""
    return Replies(items=items, cursor=cursors.encode(context.settings, scope, following))


def _find(table: Table, path: ReplyPath, caller: Caller) -> Item:
    """Read a reply, strongly consistent.

    Raises: NotFound, also for a hidden reply of another author, and for a reply to a deleted comment.
    """
    key, counted = reply_key(path.product, path.id, path.reply), counters_key(path.product, path.id)
    found = table.get_many([key, counted], consistent=True)
    if key not in found or counted not in found or not _may_see(found[key], caller):
        raise _not_found(path)
    return found[key]


def _not_found(path: ReplyPath) -> NotFound:
    return NotFound(f"There is no reply {path.reply} to the comment {path.id}.")


def _may_see(item: Item, caller: Caller) -> bool:
    return not is_hidden(item) or caller.admin or caller.sub == item["author"]


def is_hidden(item: Item) -> bool:
    """Return whether a reply is hidden or pending."""
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
        hidden=state_of(item) == "hidden",
        state=state_of(item),
    )
