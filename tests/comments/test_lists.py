"""Lists for admins: products, comments on all products, challenges."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from chalicelib import times, ulids
from chalicelib.challenges import definitions
from chalicelib.challenges.schemas import ChallengeBody
from chalicelib.comments import comments, products
from chalicelib.comments.schemas import CommentBody
from chalicelib.leaderboards import boards
from chalicelib.leaderboards.schemas import BoardBody, SeasonBody
from tests.support.contexts import new_context
from tests.support.site import Site

WRITTEN = CommentBody(rating=4, language="en", text="Good.")
BODY = {"rating": 4, "language": "en", "text": "Good."}


def pages(site: Site, path: str, limit: int) -> list[Any]:
    """Return all items of a list, page by page."""
    found, cursor = [], ""
    while True:
        page = site.get(f"{path}?limit={limit}{cursor}", who="admin")
        assert len(page["items"]) <= limit
        found += page["items"]
        if page["cursor"] is None:
            return found
        cursor = f"&cursor={page['cursor']}"


def post(site: Site, product: str, author: str) -> str:
    made = site.call("POST", f"/products/{product}/comments", BODY, who=author)[1]
    return str(made["id"])


def test_a_product_is_listed_once_from_its_first_comment_on(site: Site) -> None:
    for number in range(5):
        for author in ("ann", "ben"):
            post(site, f"shoe-{number}", author)
    found = pages(site, "/products", 2)
    assert sorted(item["product"] for item in found) == [f"shoe-{number}" for number in range(5)]
    moments = [item["created"] for item in found]
    assert moments == sorted(moments, reverse=True)


def test_a_defined_product_is_listed_once_before_its_first_comment(site: Site) -> None:
    for status in (201, 200):
        assert site.call("PUT", "/products/shoe", {"perAuthor": "many"}, who="admin")[0] == status
    assert [item["product"] for item in pages(site, "/products", 10)] == ["shoe"]
    post(site, "shoe", "ann")
    assert [item["product"] for item in pages(site, "/products", 10)] == ["shoe"]


def test_a_product_whose_entry_was_lost_in_a_crash_is_listed_by_its_next_comment(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(products, "enter", lambda *_: None)
    post(site, "shoe", "ann")
    assert pages(site, "/products", 10) == []
    monkeypatch.undo()
    post(site, "shoe", "ben")
    assert [page["product"] for page in pages(site, "/products", 10)] == ["shoe"]


def test_all_comments_are_listed_newest_first_whatever_their_product(site: Site) -> None:
    ids = [post(site, f"shoe-{number % 3}", f"author-{number}") for number in range(9)]
    found = pages(site, "/comments", 4)
    assert sorted(item["id"] for item in found) == sorted(ids)
    moments = [times.parse(item["created"]) for item in found]  # as text 11Z comes after 11.036Z
    assert moments == sorted(moments, reverse=True)
    assert {item["product"] for item in found} == {"shoe-0", "shoe-1", "shoe-2"}


def test_a_hidden_comment_stays_listed_and_a_deleted_one_does_not(site: Site) -> None:
    hidden, deleted = post(site, "shoe", "ann"), post(site, "shoe", "ben")
    path = f"/products/shoe/comments/{hidden}"
    assert site.call("PATCH", path, {"hidden": True}, who="admin")[0] == 200
    site.call("DELETE", f"/products/shoe/comments/{deleted}", who="admin")
    [item] = pages(site, "/comments", 10)
    assert (item["id"], item["hidden"]) == (hidden, True)


def test_comments_of_one_millisecond_are_on_exactly_one_page(site: Site) -> None:
    now = datetime.now(UTC)
    made = [comments.build_item("shoe", ulids.new(now), f"a-{n}", WRITTEN) for n in range(30)]
    site.table.batch_put(made)
    assert sorted(page["id"] for page in pages(site, "/comments", 7)) == sorted(map(comments.id_of, made))


def test_the_challenges_are_listed_newest_first(site: Site) -> None:
    now = datetime(2026, 11, 21, 10, tzinfo=UTC)
    body = ChallengeBody(title="Hunt", paths=["a"])
    for number in range(5):
        definitions.define(new_context(site.table, now + timedelta(seconds=number)), f"hunt-{number}", body)
    definitions.define(
        new_context(site.table, now + timedelta(1)), "hunt-0", ChallengeBody(title="New", paths=["a", "b"])
    )
    found = pages(site, "/challenges", 2)
    assert [item["challenge"] for item in found] == [f"hunt-{number}" for number in (4, 3, 2, 1, 0)]
    assert found[-1] == {"challenge": "hunt-0", "title": "New", "created": "2026-11-21T10:00:00Z"}


@pytest.mark.parametrize("path", ["/products", "/comments", "/challenges", "/leaderboards"])
def test_a_list_is_for_admins_and_its_cursor_for_itself(site: Site, path: str) -> None:
    assert site.call("GET", path)[0] == 401
    assert site.call("GET", path, who="ann")[0] == 403
    for number in range(3):
        post(site, f"shoe-{number}", "ann")
    cursor = site.get("/products?limit=1", who="admin")["cursor"]
    status, _ = site.call("GET", f"{path}?limit=1&cursor={cursor}", who="admin")
    assert status == (200 if path == "/products" else 400)


def test_the_leaderboards_are_listed_newest_first(site: Site) -> None:
    now = datetime(2026, 11, 21, 10, tzinfo=UTC)
    for number in range(5):
        boards.define(
            new_context(site.table, now + timedelta(seconds=number)),
            f"race-{number}",
            BoardBody(title="Race"),
        )
    boards.define(new_context(site.table, now + timedelta(1)), "race-0", BoardBody(title="New"))
    boards.end_season(new_context(site.table, now + timedelta(2)), "race-0", SeasonBody(season=1))
    found = pages(site, "/leaderboards", 2)
    assert [item["board"] for item in found] == [f"race-{number}" for number in (4, 3, 2, 1, 0)]
    last = {"board": "race-0", "title": "New", "season": 2, "created": "2026-11-21T10:00:00Z"}
    assert found[-1] == last
