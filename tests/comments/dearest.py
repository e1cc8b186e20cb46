"""The dearest requests of comments: the longest texts, and products that tie."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from chalicelib import ulids
from chalicelib.comments import comments, counters, replies
from chalicelib.comments.schemas import CommentBody
from chalicelib.dynamo.items import Item
from tests.support.dearest import Dearest
from tests.support.deployed import Deployed
from tests.support.operations import COMMENTS

PRODUCT = "𝕏" * 60
TEXT = "🦉" * 5_000


def dearest(site: Deployed) -> Iterator[Dearest]:
    """Read long comments, their replies, and the leading products."""
    now = datetime.now(UTC)
    ids = [ulids.new(now + timedelta(seconds=number)) for number in range(120)]
    items: list[Item] = []
    for number, id in enumerate(ids):
        language = f"x-a{number % 40:02}" if number >= 60 else "en"
        body = CommentBody(rating=1 + number % 5, language=language, text=TEXT)
        author = f"{number:03}{'𝕏' * 57}"
        items.append(comments.build_item(PRODUCT, id, author, body, "🦉" * 60))
        items.append(counters.build_item(PRODUCT, id, author, {"votes": 10**6, "replies": len(ids)}))
        reply = {"author": "𝕏" * 60, "name": "🦉" * 60, "language": "en", "text": TEXT}
        items.append({**replies.reply_key(PRODUCT, ids[0], id)._asdict(), **reply})
    for number in range(300):
        key = comments.statistics_key(f"{number:03}{'𝕏' * 57}")
        listed = {"gsi1pk": comments.leaders_key(), "gsi1sk": 1}
        items.append({**key._asdict(), **listed, "count_5": 1 + number % 4, "count_total": 4})
    site.table.batch_put(items)
    site.drain()
    path, comment = {"product": PRODUCT}, {"product": PRODUCT, "id": ids[0]}
    for name, more in (
        ("100 of 20 KB each", {}),
        ("of three ratings", {"rating": "1,3,5"}),
        ("of a rare language", {"language": "x-a39"}),
        ("100 of 20 KB each, by votes", {"order": "helpful"}),
        ("100 of 20 KB each, by rating", {"order": "lowest"}),
    ):
        query = {"limit": "100", **more}
        yield Dearest(site.rest(f"GET {COMMENTS}", name, path=path, query=query))
    yield Dearest(site.rest(f"GET {COMMENTS}/{{id}}", "20 KB", path=comment), read=8)
    route, query = f"{COMMENTS}/{{id}}/replies", {"limit": "100"}
    yield Dearest(site.rest(f"GET {route}", "100 of 20 KB each", path=comment, query=query))
    yield Dearest(site.rest("GET /products/{product}", "any product", path=path), read=0.5)
    yield Dearest(site.rest("GET /products/{product}/statistics", "any product", path=path), read=0.5)
    leaders = site.rest("GET /products/leaders", "300 products that tie", query={"limit": "100"})
    yield Dearest(leaders)
