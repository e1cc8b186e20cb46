"""Notices of comments and replies, for the team.

An import writes comments with the time at which they were published elsewhere. A text of more than a day ago
has no notice. A comment that an admin shows again, or approves, has none either.
"""

from datetime import datetime, timedelta

from chalicelib import ulids
from chalicelib.comments.comments import COMMENT, HIDDEN, id_of, is_hidden, product_of
from chalicelib.comments.replies import is_reply, path_of
from chalicelib.comments.reports import REPORT
from chalicelib.dynamo.items import Images, Item
from chalicelib.feature import Notice

RECENT = timedelta(days=1)
EXCERPT = 1_000  # characters of a text


def find(change: Images, now: datetime) -> Notice | None:
    """Return the notice of a text that is new or newly pending, or None for any other change."""
    key, old, new = change
    if key.sk.startswith(REPORT) and not old:
        return _find_report(new)
    if not key.pk.startswith("PRODUCT#") or not (key.sk.startswith((COMMENT, HIDDEN)) or is_reply(new)):
        return None
    path = path_of(new) if is_reply(new) else None
    kind, id = ("reply", path.reply) if path else ("comment", id_of(new))
    data = {"comment": path.id, "reply": path.reply} if path else {"comment": id}
    if "pending" in new and "pending" not in old:
        subject = f"A {kind} on {product_of(new)} waits for approval"
        return _build(new, "pending", data, subject, id)
    is_new = not old and new.get("revision", 1) == 1 and now - ulids.created_at(id) <= RECENT
    if not is_new or is_hidden(new):
        return None
    return _build(new, kind, data, f"New {kind} on {product_of(new)}", id)


def _find_report(item: Item) -> Notice:
    _, comment, reply, _ = item["sk"].split("#", 3)
    data = {"product": product_of(item), "comment": comment} | ({"reply": reply} if reply else {})
    lines = [f"{name.capitalize()}: {value}" for name, value in data.items()]
    kind = "reply" if reply else "comment"
    return Notice(
        kind="report",
        source=f"{item['pk']}\n{item['sk']}",
        subject=f"A reader has reported a {kind} on {product_of(item)}",
        text="\n".join([f"Reason: {item['reason']}", "", *lines]),
        data=data | {"reason": item["reason"]},
    )


def _build(item: Item, kind: str, data: dict[str, str], subject: str, id: str) -> Notice:
    product, text = product_of(item), excerpt(item["text"])
    stars = f"{item['rating']} of 5 stars" if "rating" in item else ""
    details = {"Product": product, "Rating": stars, "Language": item["language"], **_capitalize(data)}
    lines = [f"{name}: {value}" for name, value in details.items() if value]
    return Notice(
        kind=kind,
        source=f"{item['pk']}\n{id}\n{item.get('revision', 0)}{item.get('edited', '')}",
        subject=subject,
        text="\n".join([f"{author_of(item)} wrote:", "", text or "(no text)", "", *lines]),
        data={"product": product, **data, "author": item["author"], "text": text},
        author=item["author"],
    )


def _capitalize(data: dict[str, str]) -> dict[str, str]:
    return {name.capitalize(): value for name, value in data.items()}


def author_of(item: Item) -> str:
    """Return the author's display name with the id, or the id alone."""
    return f"{item['name']} ({item['author']})" if item.get("name") else str(item["author"])


def excerpt(text: str) -> str:
    """Return the beginning of a text.

    >>> excerpt("Fits well.")
    'Fits well.'
    """
    return text if len(text) <= EXCERPT else f"{text[: EXCERPT - 1]}…"
