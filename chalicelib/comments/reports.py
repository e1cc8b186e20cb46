"""Reports: a reader reports a comment or a reply to the admins, once.

| item | pk | sk | holds |
|---|---|---|---|
| report | `PRODUCT#<product>` | `REPORT#<comment>#<reply>#<reader>` | `reason`; no reply is an empty text |
| reported text | `PRODUCT#<product>` | `REPORTED#<comment>#<reply>` | `reports` since the last decision |
| | | | gsi1 = `REPORTED`, by the second of the first of them |

The comment's counters have the number of all reports in `reports` (counters.py). So its cleanup removes them.
A reported text stays in the list until an admin dismisses its reports, hides, approves or deletes it.

Invariant: a report, its number and the entry of the list are written in one transaction, on condition that
the text is shown. A repeated report changes nothing.
"""

import json
from collections.abc import Iterator
from functools import partial
from typing import Any

from chalicelib import times, ulids
from chalicelib.api import cursors, listing
from chalicelib.api.auth import Caller
from chalicelib.comments import counters, moderation
from chalicelib.comments.comments import (
    CONFLICTS,
    TRIES,
    comment_key,
    find_stored,
    require_visible,
    state_of,
)
from chalicelib.comments.counters import ABSENT, counters_key
from chalicelib.comments.moderation import reported_key
from chalicelib.comments.replies import is_hidden, reply_key
from chalicelib.comments.schemas import (
    CommentPath,
    Receipt,
    ReportBody,
    ReportedText,
    ReportedTexts,
)
from chalicelib.concurrency import map_concurrently
from chalicelib.context import Context
from chalicelib.dynamo.items import Item, Key, Range, chunks
from chalicelib.dynamo.table import Table
from chalicelib.errors import Busy, Forbidden, NotFound

REPORT = "REPORT#"
LIST = "REPORTED"
REASONS = 10  # reasons of a text that are listed


# -- keys ----------------------------------------------------------------------------------------------


def report_key(product: str, comment: str, reply: str, reader: str) -> Key:
    """Build the key of a reader's report of a comment, or of a reply to it."""
    return Key(f"PRODUCT#{product}", f"{REPORT}{comment}#{reply}#{reader}")


def is_report_of(item: Item, reader: str) -> bool:
    """Return whether an item is a report of a reader."""
    kind, *parts = str(item["sk"]).split("#", 3)
    return f"{kind}#" == REPORT and parts[2:] == [reader]


# -- write ---------------------------------------------------------------------------------------------


def report(context: Context, path: CommentPath, body: ReportBody, caller: Caller) -> tuple[Receipt, bool]:
    """Report a comment or a reply. Return whether the reader had not reported it before.

    Cost: 3 RCU, 4 for a reply. For a new report 7 WCU, and 2 for a reply that is shown. For the comment's
    first vote, reply or report also 1 RCU per 4 KB and 2 WCU per KB of the comment.
    Raises: Forbidden for the author and for a banned reader; NotFound for an absent or hidden text; Busy.
    """
    reply, receipt = body.reply or "", Receipt(reported=True)
    counted, mine = counters_key(path.product, path.id), report_key(path.product, path.id, reply, caller.sub)
    standing, answer = moderation.standing_key(caller.sub), reply_key(path.product, path.id, reply)
    for number in range(TRIES):
        found = context.table.get_many(
            [counted, mine, standing, *([answer] if reply else [])], consistent=True
        )
        moderation.require_allowed(found.get(standing, {}), context.now)
        parent = found.get(counted) or find_stored(context.table, path.product, path.id)
        text = parent = require_visible(parent, path.product, path.id, Caller())
        if reply:
            text = _require_shown(found.get(answer), reply)
        if text["author"] == caller.sub:
            raise Forbidden("Authors may not report their own texts.")
        if mine in found:
            return receipt, False
        put: Any = {"Put": {"Item": mine._asdict() | {"reason": body.reason}, "ConditionExpression": ABSENT}}
        if counted in found:
            actions = [put, counters.add(path.product, path.id, "reports", 1, shown=True)]
        else:
            actions = [put, *counters.make(parent, "reports")]
        actions += [_list(path, reply, times.epoch(context.now))]
        actions += [_require_reply(answer)] if reply else []
        if not context.table.transact(actions):
            return receipt, True
        context.table.back_off(number)
    raise Busy(CONFLICTS)


def _require_shown(item: Item | None, reply: str) -> Item:
    if item is None or is_hidden(item):
        raise NotFound(f"There is no reply {reply} to this comment.")
    return item


def _require_reply(key: Key) -> dict[str, Any]:
    """Build the check that a reply is shown."""
    return {
        "ConditionCheck": {
            "Key": key._asdict(),
            "ConditionExpression": "attribute_exists(pk) AND attribute_not_exists(#hidden)",
            "ExpressionAttributeNames": {"#hidden": "hidden"},
        }
    }


def _list(path: CommentPath, reply: str, second: int) -> dict[str, Any]:
    """Build the update that puts a text into the list, or counts one more report of it."""
    return {
        "Update": {
            "Key": reported_key(path.product, path.id, reply)._asdict(),
            "UpdateExpression": "SET gsi1pk = :list, gsi1sk = if_not_exists(gsi1sk, :second)"
            " ADD reports :one",
            "ExpressionAttributeValues": {":list": LIST, ":second": second, ":one": 1},
        }
    }


def dismiss(table: Table, path: CommentPath, reply: str) -> None:
    """Take a text out of the list. Its reporters cannot report it again.

    Cost: 2 WCU.
    Raises: NotFound for a text that is not in the list.
    """
    if table.delete(reported_key(path.product, path.id, reply), condition="attribute_exists(pk)") is None:
        raise NotFound("There are no reports of this text.")


def remove(table: Table, item: Item) -> None:
    """Remove a report of a person that is erased. The number of the list stays.

    Cost: 1 RCU, 4 WCU.
    """
    product, id = item["pk"].removeprefix("PRODUCT#"), item["sk"].split("#", 2)[1]
    removed: Any = {
        "Delete": {"Key": {"pk": item["pk"], "sk": item["sk"]}, "ConditionExpression": "attribute_exists(pk)"}
    }
    is_there = table.get(counters_key(product, id), consistent=True)
    table.transact([removed, *([counters.add(product, id, "reports", -1)] if is_there else [])])


# -- count ---------------------------------------------------------------------------------------------


def count(item: Item) -> dict[tuple[Key, str], int]:
    """Return what an item adds to the reports of its comment, for the audit."""
    kind, *parts = str(item["sk"]).split("#", 3)
    if not item["pk"].startswith("PRODUCT#") or f"{kind}#" != REPORT or len(parts) < 3:
        return {}
    return {(counters_key(item["pk"].removeprefix("PRODUCT#"), parts[0]), "reports"): 1}


# -- read ----------------------------------------------------------------------------------------------


def list_reported(context: Context, query: listing.ListQuery) -> ReportedTexts:
    """Return a page of the reported texts, the last one to be reported first.

    A text that is deleted between the reads is left out.

    Cost: 0.5 RCU for the entries. For each text 1.5 RCU, and 0.5 RCU per 4 KB of the text and of its reasons.
    Raises: BadCursor.
    """
    scope = ("reported texts",)
    start = cursors.decode(context.settings, scope, query.cursor)
    last = dict(zip(("pk", "sk", "gsi1pk", "gsi1sk"), json.loads(start), strict=True)) if start else None
    page = context.table.query(
        Range(LIST, index_name="gsi1"), limit=query.limit, start=last, newest_first=True
    )

    def texts() -> Iterator[tuple[Item, str | None]]:
        for chunk in chunks(page.items, listing.CHUNK):
            for entry, item in zip(chunk, _read_texts(context.table, chunk), strict=True):
                position = [entry["pk"], entry["sk"], LIST, int(entry["gsi1sk"])]
                is_last = entry is page.items[-1] and page.next is None
                yield item, None if is_last else json.dumps(position)

    items, position = listing.fill_page(texts(), query.limit, lambda item: item.get("text") or None)
    return ReportedTexts(items=items, cursor=cursors.encode(context.settings, scope, position or ""))


def _read_texts(table: Table, entries: list[Item]) -> list[Item]:
    """Return `{"text": …}` for each entry, or an empty item for a text that is gone."""
    paths = [_path_of(entry) for entry in entries]
    keys = [Key(entry["pk"], entry["sk"]) for entry in entries]
    places = [_places(path, reply) for path, reply in paths]
    found = table.get_many([*keys, *(key for several in places for key in several)])
    reasons = map_concurrently(partial(_read_reasons, table), paths)
    result = list[Item]()
    for (path, reply), key, several, why in zip(paths, keys, places, reasons, strict=True):
        text = next((found[place] for place in several if place in found), None)
        entry = found.get(key)
        result.append({"text": _to_text(path, reply, entry, text, why)} if entry and text else {})
    return result


def _places(path: CommentPath, reply: str) -> list[Key]:
    """Return the keys that the reported text may have."""
    if reply:
        return [reply_key(path.product, path.id, reply)]
    return [comment_key(path.product, path.id, hidden=hidden) for hidden in (False, True)]


def _read_reasons(table: Table, text: tuple[CommentPath, str]) -> list[str]:
    path, reply = text
    first = report_key(path.product, path.id, reply, "")
    page = table.query(Range(first.pk, (first.sk, f"{first.sk}\U0010ffff")), limit=REASONS)
    return [item["reason"] for item in page.items]


def _path_of(entry: Item) -> tuple[CommentPath, str]:
    _, id, reply = entry["sk"].split("#")
    return CommentPath(product=entry["pk"].removeprefix("PRODUCT#"), id=id), reply


def _to_text(path: CommentPath, reply: str, entry: Item, item: Item, reasons: list[str]) -> ReportedText:
    return ReportedText(
        product=path.product,
        comment=path.id,
        reply=reply or None,
        author=item["author"],
        name=item.get("name"),
        language=item["language"],
        text=item["text"],
        created=times.to_iso(ulids.created_at(reply or path.id)),
        state=state_of(item),
        reports=entry["reports"],
        reasons=reasons,
        reported=times.to_iso(times.from_epoch(entry["gsi1sk"])),
    )
