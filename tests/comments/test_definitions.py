"""A product's definition: ratings that are required, optional or off, and one comment an author or many."""

from __future__ import annotations

import time
from typing import Any

import pytest

import app
from chalicelib import settings
from chalicelib.api import auth
from chalicelib.comments import definitions
from chalicelib.comments.schemas import ProductBody
from tests.support.contexts import new_context
from tests.support.meter import Meter
from tests.support.shop import P, Shop

PLAIN = {"language": "en", "text": "Fits."}
RATED = PLAIN | {"rating": 4}


def define(shop: Shop, **fields: Any) -> Any:
    status, answer = shop.call("PUT", P, fields, "admin")
    assert status in (200, 201), answer
    return answer


def post(shop: Shop, body: dict[str, Any], who: str = "me", **headers: str) -> tuple[int, Any]:
    return shop.call("POST", f"{P}/comments", body, who, **headers)


def test_a_product_is_defined_read_and_removed_by_an_admin(shop: Shop) -> None:
    default = {"product": "garment-767", "ratings": "required", "perAuthor": "one", "approve": False}
    assert shop.get(P) == default
    body = {"ratings": "optional", "perAuthor": "many", "approve": True}
    assert shop.call("PUT", P, body, "admin") == (201, default | body)
    assert shop.call("PUT", P, {"ratings": "off"}, "admin") == (200, default | {"ratings": "off"})
    assert shop.get(P) == default | {"ratings": "off"}
    assert shop.call("PUT", P, body, "me")[0] == shop.call("DELETE", P, who="me")[0] == 403
    assert shop.call("DELETE", P, who="admin") == (204, None)
    assert shop.call("DELETE", P, who="admin")[0] == 404
    assert shop.get(P) == default


@pytest.mark.parametrize("body", [{"ratings": "on"}, {"perAuthor": 2}, {"approve": None}])
def test_a_malformed_definition_is_400(shop: Shop, body: Any) -> None:
    assert shop.call("PUT", P, body, "admin")[0] == 400


def test_the_mode_of_the_stage_is_the_default(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    discussion = settings.current()._replace(comments_mode="discussion")
    monkeypatch.setattr(app, "stage", discussion)
    assert shop.get(P) == {"product": "garment-767", "ratings": "off", "perAuthor": "many", "approve": False}
    assert define(shop, perAuthor="one")["ratings"] == "off"
    assert settings.read({"HUBBUB_COMMENTS_MODE": "discussion"}).comments_mode == "discussion"
    with pytest.raises(ValueError, match="HUBBUB_COMMENTS_MODE"):
        settings.read({"HUBBUB_COMMENTS_MODE": "chat"})


def test_a_rating_is_required_optional_or_refused(shop: Shop) -> None:
    status, answer = post(shop, PLAIN)
    assert (status, answer["message"].startswith("`rating` ")) == (400, True)
    define(shop, ratings="optional")
    assert post(shop, PLAIN)[1]["rating"] is None
    assert post(shop, RATED, "you")[1]["rating"] == 4
    define(shop, ratings="off")
    assert post(shop, PLAIN, "they")[1]["rating"] is None
    status, answer = post(shop, RATED, "we")
    assert (status, answer["code"], "rating" in answer["message"]) == (422, "Unprocessable", True)
    shop.settle()
    found = shop.get(f"{P}/statistics")
    assert (found["total"], found["average"], sum(found["ratings"].values())) == (3, 4, 1)


@pytest.mark.parametrize("empty", ["", " \n\t ", "\u200b\u2003"])
def test_a_comment_has_a_rating_or_says_something(shop: Shop, empty: str) -> None:
    nothing = PLAIN | {"text": empty}
    assert post(shop, nothing | {"rating": 4}, "stars")[0] == 201
    define(shop, ratings="optional")
    said = post(shop, PLAIN)[1]
    rated = post(shop, nothing | {"rating": 4}, "you")[1]
    path = f"{P}/comments/"
    refused = [
        post(shop, nothing, "they"),
        shop.call("PATCH", f"{path}{said['id']}", {"text": empty}, "me"),
        shop.call("PATCH", f"{path}{rated['id']}", {"rating": None}, "you"),
        shop.call("PATCH", f"{path}{said['id']}", {"rating": None, "text": empty}, "me"),
    ]
    define(shop, ratings="off")
    refused.append(post(shop, nothing, "we"))
    assert {(status, answer["message"]) for status, answer in refused} == {
        (422, "`text` must not be empty where there is no rating.")
    }
    assert shop.call("PATCH", f"{path}{said['id']}", {"language": "de"}, "me")[0] == 200
    replies = f"{path}{said['id']}/replies"
    assert shop.call("POST", replies, {"text": empty}, "ann")[0] == 422
    reply = shop.call("POST", replies, {"text": "."}, "ann")[1]
    assert shop.call("PATCH", f"{replies}/{reply['id']}", {"text": empty}, "ann")[0] == 422


def test_a_comment_without_a_rating_is_in_every_list_without_a_filter_of_ratings(shop: Shop) -> None:
    define(shop, ratings="optional", perAuthor="many")
    bodies: list[dict[str, Any]] = [
        PLAIN,
        RATED,
        PLAIN | {"language": "de"},
        RATED | {"language": "de", "rating": 1},
    ] * 3
    ids = [post(shop, body)[1]["id"] for body in bodies][::-1]
    shop.settle()
    assert shop.ids() == ids
    assert sorted(shop.ids("language=de")) == sorted(id for place, id in enumerate(ids) if place % 4 < 2)
    assert len(shop.ids("rating=4")) == len(shop.ids("rating=1")) == 3
    assert len(shop.ids("rating=1,2,3,4,5")) == 6


def test_an_edit_adds_and_removes_an_optional_rating(shop: Shop) -> None:
    define(shop, ratings="optional")
    path = f"{P}/comments/{post(shop, PLAIN)[1]['id']}"
    for rating, counted in ((5, 1), (None, 0), (None, 0), (2, 0)):
        assert shop.call("PATCH", path, {"rating": rating}, "me")[1]["rating"] == rating
        shop.settle()
        assert shop.get(f"{P}/statistics")["ratings"]["5"] == counted
        assert shop.get(f"{P}/statistics")["total"] == 1
    define(shop, ratings="required")
    assert shop.call("PATCH", path, {"rating": None}, "me")[0] == 400
    define(shop, ratings="off")
    assert shop.call("PATCH", path, {"rating": 3}, "me")[0] == 422
    assert shop.call("PATCH", path, {"text": "Still rated."}, "me")[1]["rating"] == 2


def test_an_author_writes_many_comments_and_a_retry_writes_none(shop: Shop) -> None:
    define(shop, perAuthor="many")
    first = post(shop, RATED, Idempotency_Key="k")[1]
    assert post(shop, RATED, Idempotency_Key="k") == (201, first)
    others = [post(shop, RATED, Idempotency_Key="l")[1], post(shop, RATED)[1], post(shop, RATED)[1]]
    assert post(shop, RATED, "you", Idempotency_Key="k")[1]["author"] == "you"
    assert len({first["id"], *(other["id"] for other in others)}) == 4
    assert shop.call("DELETE", f"{P}/comments/{first['id']}", who="me") == (204, None)
    assert post(shop, RATED, Idempotency_Key="k")[1]["code"] == "Conflict"
    shop.settle()
    assert shop.get(f"{P}/statistics")["total"] == 4


def test_what_was_written_before_a_change_of_the_definition_stays_valid(shop: Shop) -> None:
    single = post(shop, RATED)[1]
    define(shop, ratings="off", perAuthor="many")
    more = [post(shop, PLAIN)[1] for _ in range(2)]
    assert shop.get(f"{P}/comments/{single['id']}")["rating"] == 4
    assert shop.call("DELETE", f"{P}/comments/{more[0]['id']}", who="me")[0] == 204
    define(shop)
    assert post(shop, RATED)[1]["code"] == "Conflict"  # the single comment is still there
    assert shop.call("DELETE", f"{P}/comments/{single['id']}", who="me")[0] == 204
    assert post(shop, RATED)[0] == 201
    shop.settle()
    assert shop.get(f"{P}/statistics")["total"] == 2


def test_a_definition_is_read_once_in_ten_seconds(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    context = new_context(shop.table)
    definitions.define(context, "p", ProductBody(ratings="off"))
    with Meter(shop.table.client) as meter:
        assert {definitions.find(context, "p").ratings for _ in range(100)} == {"off"}
    assert meter.read_units == 0.5
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + definitions.RECENT.seconds)
    shop.table.put(definitions.definition_key("p")._asdict() | {"ratings": "optional"})
    assert definitions.find(context, "p").ratings == "optional"


@pytest.mark.parametrize(("claim", "shown"), [(True, True), (False, False), ("true", False), (None, False)])
def test_a_comment_shows_whether_its_author_is_verified(shop: Shop, claim: Any, shown: bool) -> None:
    token = auth.mint(settings.current(), "me", claims={"verified": claim})
    made = post(shop, RATED, "", Authorization=f"Bearer {token}")[1]
    assert made["verified"] is shown
    assert shop.get(f"{P}/comments")["items"] == [made]
    edited = shop.call("PATCH", f"{P}/comments/{made['id']}", {"text": "Fits well."}, "me")[1]
    assert edited["verified"] is shown


def test_statistics_are_an_aggregate_rating_for_search_engines(shop: Shop) -> None:
    def read(path: str = P) -> Any:
        status, answer = shop.call("GET", f"{path}/statistics", Accept="application/ld+json")
        assert (status, shop.headers["Content-Type"].partition(";")[0]) == (200, "application/ld+json")
        return answer

    define(shop, ratings="optional")
    for who, body in (("a", RATED), ("b", RATED | {"rating": 5}), ("c", PLAIN)):
        post(shop, body, who)
    shop.settle()
    rating = {
        "@context": "https://schema.org",
        "@type": "AggregateRating",
        "itemReviewed": {"@type": "Product", "name": "garment-767"},
        "ratingCount": 2,
        "reviewCount": 3,
        "bestRating": 5,
        "worstRating": 1,
    }
    assert read() == rating | {"ratingValue": 4.5}
    none = {"itemReviewed": {"@type": "Product", "name": "none"}, "ratingCount": 0, "reviewCount": 0}
    assert read("/products/none") == rating | none  # a value of no ratings would be invented
