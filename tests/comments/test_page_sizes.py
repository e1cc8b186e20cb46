"""A page of texts has at most 64 KB, costs a bounded number of units, and loses nothing where it is cut."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta

import pytest

from chalicelib import ulids
from chalicelib.aggregates import sums
from chalicelib.aggregates.updates import Update
from chalicelib.api.auth import Caller
from chalicelib.comments import comments, replies
from chalicelib.comments.schemas import CommentBody, ReplyBody, ReplyPath
from chalicelib.dynamo.items import Item
from tests.support.meter import Meter
from tests.support.shop import P, Shop

KB = 1024
LONG = "𝕏" * 5_000  # 20 KB
START = datetime(2026, 1, 1, tzinfo=UTC)
PRODUCT = P.rpartition("/")[2]


def fill(shop: Shop, texts: list[str]) -> list[str]:
    """Write comments with these texts, oldest first, and their sums. Return their ids."""
    items: list[Item] = []
    for number, text in enumerate(texts):
        body = CommentBody(rating=number % 5 + 1, language=("en", "de")[number % 2], text=text)
        id = ulids.new(START + timedelta(seconds=number))
        items.append(comments.build_item(PRODUCT, id, f"author-{number}", body))
    shop.table.batch_put(items)
    for key, amounts in sums.group_by_key(sums.recount([comments.contribution], items)).items():
        shop.table.update(key, **Update(amounts).arguments())
    return list(map(comments.id_of, items))


def walk(shop: Shop, path: str, who: str = "") -> tuple[list[str], int, float]:
    """Read all pages of a list. Return the ids, the bytes of the largest page, and the dearest page's RCU."""
    found: list[str] = []
    largest, dearest, cursor = 0, 0.0, ""
    while True:
        with Meter(shop.table.client) as meter:
            page = shop.get(f"{path}{cursor}", who)
        largest, dearest = max(largest, shop.length), max(dearest, meter.read_units)
        found += [item["id"] for item in page["items"]]
        if page["cursor"] is None:
            return found, largest, dearest
        cursor = f"&cursor={page['cursor']}"


@pytest.mark.parametrize(
    ("query", "most"),
    [
        ("", 54),
        ("&order=oldest", 54),
        ("&rating=5", 60),
        ("&language=en", 60),
        ("&rating=1,2&language=de", 60),
        ("&rating=1,2&language=de&order=oldest", 60),
    ],
)
@pytest.mark.parametrize("mixture", ["long", "short, then long", "any"])
def test_a_page_of_comments_has_64_kb_and_bounded_units(
    shop: Shop, query: str, most: float, mixture: str
) -> None:
    rng = random.Random(1)
    texts = {
        "long": [LONG] * 60,
        "short, then long": [LONG] * 40 + ["x" * 100] * 300 + [LONG] * 40,
        "any": [rng.choice(["", '"' * 5_000, LONG[: rng.randrange(5_000)]]) for _ in range(150)],
    }[mixture]
    ids = fill(shop, texts)
    right = [
        id
        for number, id in enumerate(ids)
        if ("rating=5" not in query or number % 5 == 4)
        and ("rating=1,2" not in query or number % 5 < 2)
        and ("language=en" not in query or number % 2 == 0)
        and ("language=de" not in query or number % 2 == 1)
    ]
    found, largest, dearest = walk(shop, f"{P}/comments?limit=100{query}")
    assert found == right[:: 1 if "oldest" in query else -1]
    assert largest <= 64 * KB
    assert dearest <= most


def test_every_other_list_of_texts_has_64_kb_a_page(shop: Shop) -> None:
    [id, *others] = fill(shop, [LONG] * 30)
    made = []
    for number in range(60):
        reply = ReplyPath(PRODUCT, id, ulids.new(START + timedelta(seconds=number)))
        replies.add(shop.table, reply, ReplyBody(text=LONG), Caller(f"reader-{number}"))
        made.append(reply.reply)
    for other in others:
        shop.call("PATCH", f"{P}/comments/{other}", {"hidden": True}, "admin")
    reports: list[Item] = [
        {
            "pk": "REPORTS",
            "sk": f"2026-01-01T00:00:{number:02}.000000Z#pair",
            "lobby": "main",
            "reason": "why",
        }
        | {"reporter": "a", "reported": "b", "ttl": 2**32}
        | {"messages": [{"author": "reported", "text": LONG[:2_000], "proved": True}] * 3}
        for number in range(30)
    ]
    shop.table.batch_put(reports)
    lists = {
        ("/chat/reports?limit=100", "admin"): [report["sk"].replace("#", "~") for report in reports[::-1]],
        (f"{P}/comments/{id}/replies?limit=100", ""): made,
        ("/replies?limit=100", "admin"): made[::-1],
        ("/comments?limit=100", "admin"): [*others[::-1], id],
        (f"{P}/hidden?limit=100", "admin"): others[::-1],
    }
    for (path, who), right in lists.items():
        found, largest, dearest = walk(shop, path, who)
        assert found == right, path
        assert largest <= 64 * KB, path
        assert dearest <= 60, path


def test_a_page_of_short_comments_has_as_many_as_its_limit(shop: Shop) -> None:
    ids = fill(shop, ["x" * 200] * 130)
    page = shop.get(f"{P}/comments?limit=100")
    assert [item["id"] for item in page["items"]] == ids[:29:-1]
    assert walk(shop, f"{P}/comments?limit=100")[0] == ids[::-1]


def test_the_size_of_a_text_that_was_edited_counts(shop: Shop) -> None:
    ids = fill(shop, ["x"] * 20)
    for number, id in enumerate(ids):
        shop.call("PATCH", f"{P}/comments/{id}", {"text": LONG}, f"author-{number}")
    found, largest, dearest = walk(shop, f"{P}/comments?limit=100")
    assert (found, largest <= 64 * KB, dearest <= 54) == (ids[::-1], True, True)
