"""Notices of comments and replies, for the team.

An import writes comments with the time at which they were published elsewhere. A text of more than a day ago
has no notice. A comment that an admin shows again has none either.
"""

from datetime import datetime, timedelta

from chalicelib import ulids
from chalicelib.comments.comments import COMMENT, id_of, product_of
from chalicelib.comments.replies import is_reply, path_of
from chalicelib.dynamo.items import Images, Item
from chalicelib.feature import Notice

RECENT = timedelta(days=1)
EXCERPT = 1_000  # characters of a text


def find(change: Images, now: datetime) -> Notice | None:
    """Return the notice of a new comment or reply, or None for any other change."""
    key, old, new = change
    if old or not key.pk.startswith("PRODUCT#"):
        return None
    if key.sk.startswith(COMMENT) and new["revision"] == 1:
        id = id_of(new)
        return _build(new, "comment", {"comment": id}, f"New comment on {product_of(new)}", id, now)
    if is_reply(new):
        path = path_of(new)
        data = {"comment": path.id, "reply": path.reply}
        return _build(new, "reply", data, f"New reply on {path.product}", path.reply, now)
    return None


def _build(
    item: Item, kind: str, data: dict[str, str], subject: str, id: str, now: datetime
) -> Notice | None:
    """Build the notice of a text, unless it is old."""
    if now - ulids.created_at(id) > RECENT:
        return None
    product, text = product_of(item), excerpt(item["text"])
    stars = f"{item['rating']} of 5 stars" if "rating" in item else ""
    details = {"Product": product, "Rating": stars, "Language": item["language"], **_capitalize(data)}
    lines = [f"{name}: {value}" for name, value in details.items() if value]
    return Notice(
        kind=kind,
        source=f"{item['pk']}\n{id}\n{item.get('revision', 1)}",
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
