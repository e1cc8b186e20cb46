"""The contract of comments over REST, from the request to the aggregate."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import app
from chalicelib import settings, ulids
from chalicelib.aggregates.toplist import step_of
from chalicelib.api import auth
from chalicelib.comments import comments, languages
from chalicelib.comments.schemas import CommentBody
from chalicelib.dynamo.table import Page, Table
from tests.comments.dearest import dearest  # noqa: F401 (for the tests of the whole app)
from tests.comments.story import COSTS, story  # noqa: F401 (for the tests of the whole app)
from tests.support.contexts import new_context
from tests.support.faults import after, cancelled, instead, timed_out
from tests.support.meter import Meter
from tests.support.shop import P, Shop

# -- write ---------------------------------------------------------------------------------------------


def test_a_posted_comment_is_returned_listed_and_counted(shop: Shop) -> None:
    before = datetime.now(UTC) - timedelta(milliseconds=1)
    body = {"rating": 4, "language": "en", "text": "Fits."}
    status, made = shop.call("POST", f"{P}/comments", body, "me")
    assert (status, made["author"]) == (201, "me")
    assert before <= datetime.fromisoformat(made["created"]) <= datetime.now(UTC)
    assert made | body | {"edited": None, "hidden": False} == made
    assert shop.get(f"{P}/comments") == {"items": [made], "cursor": None}
    assert shop.get(f"{P}/comments/{made['id']}") == made
    shop.settle()
    assert shop.get(f"{P}/statistics")["ratings"] == {"1": 0, "2": 0, "3": 0, "4": 1, "5": 0}
    assert shop.get(f"{P}/comments?rating=4&language=en")["items"] == [made]


def test_a_second_comment_of_an_author_is_a_conflict_that_names_the_first(shop: Shop) -> None:
    first = shop.write("me")
    status, answer = shop.call("POST", f"{P}/comments", {"rating": 1, "language": "de", "text": ""}, "me")
    assert (status, answer["code"]) == (409, "Conflict")
    assert first["id"] in answer["message"]
    shop.write("you")
    shop.write("me", product="/products/garment-1080")
    shop.settle()
    assert shop.get(f"{P}/statistics")["total"] == 2


def test_an_author_may_comment_again_after_deleting_a_comment(shop: Shop) -> None:
    first = shop.write("me")
    assert shop.call("DELETE", f"{P}/comments/{first['id']}", who="me") == (204, None)
    assert shop.call("DELETE", f"{P}/comments/{first['id']}", who="me")[0] == 404
    second = shop.write("me", 2)
    assert shop.ids() == [second["id"]]
    shop.settle()
    assert shop.get(f"{P}/statistics")["ratings"] == {"1": 0, "2": 1, "3": 0, "4": 0, "5": 0}


def test_a_repeated_post_with_its_idempotency_key_returns_the_written_comment(shop: Shop) -> None:
    body = {"rating": 5, "language": "en", "text": "Fits."}
    answers = [shop.call("POST", f"{P}/comments", body, "me", Idempotency_Key="k-1") for _ in range(3)]
    assert answers[0][0] == 201
    assert answers[1:] == answers[:1] * 2
    assert shop.call("POST", f"{P}/comments", body, "me", Idempotency_Key="k-2")[0] == 409
    assert shop.call("POST", f"{P}/comments", body, "you", Idempotency_Key="k-1")[0] == 201
    shop.call("DELETE", f"{P}/comments/{answers[0][1]['id']}", who="me")
    again = shop.call("POST", f"{P}/comments", body, "me", Idempotency_Key="k-1")
    assert again[0] == 201
    assert again[1]["id"] != answers[0][1]["id"]


def test_a_post_whose_response_was_lost_is_written_once(shop: Shop) -> None:
    """The SDK retries it with the same token."""
    with instead(shop.table, "TransactWriteItems", cancelled("TransactionConflict", "None")) as calls:
        shop.write("me")
    assert len(calls) == 2
    assert len(shop.ids()) == 1


MALFORMED: dict[str, tuple[Any, ...]] = {
    "rating": (0, 6, -1, 4.5, "5", None, True, [5]),
    "language": ("", "e", "english-", "en_US", "en-", "i-nothing", 5, "en-" + "a" * 33),
    "text": ("a" * 5001, "\u0000", "a\u001b[31m", 7, None, "a\u0085"),
}


@pytest.mark.parametrize("field", MALFORMED)
def test_a_malformed_comment_is_400_and_names_the_field(shop: Shop, field: str) -> None:
    body, comment = {"rating": 5, "language": "en", "text": "Fits."}, shop.write("me")
    for value in MALFORMED[field]:
        status, answer = shop.call("POST", f"{P}/comments", body | {field: value}, "you")
        assert (status, answer["code"]) == (400, "BadRequest"), value
        assert answer["message"].startswith(f"`{field}` "), value
        assert shop.call("PATCH", f"{P}/comments/{comment['id']}", {field: value}, "me")[0] == 400, value
    without = {name: value for name, value in body.items() if name != field}
    assert shop.call("POST", f"{P}/comments", without, "you")[0] == 400
    for value in (value for value in MALFORMED["language"] if isinstance(value, str) and value):
        for path in (f"{P}/comments", f"{P}/statistics", "/products/leaders"):
            status, answer = shop.call("GET", f"{path}?language={value}")
            assert (status, answer["message"].startswith("`language` ")) == (400, True), value


def test_texts_and_languages_are_stored_in_one_notation(shop: Shop) -> None:
    made = shop.write("me", language="ZH-hant-tw", text="  Cafe\u0301\r\nau lait\rtwo \U0001f600\t\n ")
    assert made["text"] == "Caf\u00e9\nau lait\ntwo \U0001f600"
    assert made["language"] == "zh-Hant-TW"
    assert shop.write("you", text="")["text"] == ""
    assert len(shop.write("they", text="ü" * 5000)["text"]) == 5000
    shop.settle()
    assert shop.ids("language=zh-HANT-tw") == [made["id"]]
    assert shop.get(f"{P}/statistics?language=ZH-Hant-TW")["total"] == 1
    assert shop.get(f"{P}/statistics?language=zh")["total"] == 0


@pytest.mark.parametrize(
    ("given", "tag"),
    [
        ("EN", "en"),
        ("en-us", "en-US"),
        ("sr-latn-rs", "sr-Latn-RS"),
        ("es-419", "es-419"),
        ("DE-ch-1996", "de-CH-1996"),
        ("zh-CMN-hans-cn", "zh-cmn-Hans-CN"),
        ("en-a-BBBB-cc-x-DDDD-EE", "en-a-bbbb-cc-x-dddd-ee"),
        ("X-Whatever", "x-whatever"),
        ("hy-Latn-IT-arevela", "hy-Latn-IT-arevela"),
        ("art-lojban", "art-lojban"),
        ("I-Default", "i-default"),
    ],
)
def test_a_language_tag_has_one_canonical_notation(given: str, tag: str) -> None:
    """Tags of RFC 5646, appendix A, and their recommended case."""
    assert languages.canonical(given) == languages.canonical(tag) == tag


@pytest.mark.parametrize(
    ("given", "tag"),
    [("i-klingon", "tlh"), ("EN-gb-OED", "en-GB-oxendict"), ("sgn-BE-fr", "sfb"), ("I-LUX", "lb")],
)
def test_an_irregular_tag_becomes_its_replacement(given: str, tag: str) -> None:
    """The preferred values of IANA's language subtag registry: RFC 5646, 2.2.8 and 4.5."""
    assert languages.canonical(given) == tag


@pytest.mark.parametrize(
    "odd", ["de-419-DE", "a-DE", "en-", "-en", "en--us", "i-klingons", "i-klingon-x-a", "x", "en-x", "en\n"]
)
def test_a_malformed_tag_raises_an_error(odd: str) -> None:
    with pytest.raises(ValueError, match="must be a language tag"):
        languages.canonical(odd)


def test_ids_sort_by_time() -> None:
    start = datetime(2026, 11, 21, tzinfo=UTC)
    times = [start + timedelta(milliseconds=7 * i) for i in range(500)]
    made = [ulids.new(time) for time in times]
    assert sorted(made) == made
    assert [ulids.created_at(id) for id in made] == times
    assert all(ulids.ULID.search(id) for id in made)
    assert len({ulids.new(start) for _ in range(1000)}) == 1000


# -- change --------------------------------------------------------------------------------------------


def test_an_edit_changes_every_count(shop: Shop) -> None:
    made = shop.write("me", 5, "en", "Fits.")
    shop.settle()
    status, edited = shop.call("PATCH", f"{P}/comments/{made['id']}", {"rating": 2, "language": "de"}, "me")
    assert status == 200
    assert edited == made | {"rating": 2, "language": "de", "edited": edited["edited"]}
    assert edited["edited"] >= made["created"]
    shop.settle()
    assert shop.get(f"{P}/comments?rating=2&language=de")["items"] == [edited]
    assert shop.ids("rating=5") == shop.ids("language=en") == []
    assert shop.get(f"{P}/statistics?language=en")["total"] == 0
    assert shop.get(f"{P}/statistics?language=de")["average"] == 2
    assert shop.get("/products/leaders")["items"] == []
    assert (
        shop.call("PATCH", f"{P}/comments/{made['id']}", {"text": "Does not."}, "me")[1]["text"]
        == "Does not."
    )


def test_only_the_author_edits_and_only_the_author_or_an_admin_deletes(shop: Shop) -> None:
    path = f"{P}/comments/{shop.write('me')['id']}"
    for who in ("you", "admin"):
        assert shop.call("PATCH", path, {"rating": 1}, who)[1]["code"] == "Forbidden"
    assert shop.call("DELETE", path, who="you")[1]["code"] == "Forbidden"
    assert shop.get(path)["rating"] == 5
    assert shop.call("DELETE", path, who="admin")[0] == 204
    assert shop.write("me")["rating"] == 5
    missing = f"{P}/comments/{ulids.new(datetime.now(UTC))}"
    for method, body in (("GET", None), ("PATCH", {"rating": 1}), ("DELETE", None)):
        assert shop.call(method, missing, body, "me")[1]["code"] == "NotFound"
        assert shop.call(method, f"{P}/comments/x", body, "me")[0] == 400


@pytest.mark.parametrize(
    "body", [{}, {"txt": ""}, {"hidden": True, "rating": 1}, {"hidden": None}, [], {"id": "x"}]
)
def test_an_empty_or_mixed_edit_is_400(shop: Shop, body: Any) -> None:
    comment = shop.write("admin")
    assert shop.call("PATCH", f"{P}/comments/{comment['id']}", body, "admin")[0] == 400


def test_an_edit_that_changes_nothing_writes_nothing(shop: Shop) -> None:
    comment = shop.write("me")
    with instead(shop.table, "PutItem") as puts:
        answer = shop.call("PATCH", f"{P}/comments/{comment['id']}", {"rating": 5, "language": "EN"}, "me")
    assert (answer, puts) == ((200, comment), [])


def test_if_match_prevents_a_lost_update(shop: Shop) -> None:
    path = f"{P}/comments/{shop.write('me')['id']}"
    shop.get(path)
    etag = shop.headers["ETag"]
    assert shop.call("PATCH", path, {"rating": 4}, "me", If_Match=etag)[0] == 200
    newer = shop.headers["ETag"]
    assert newer != etag
    status, answer = shop.call("PATCH", path, {"rating": 3}, "me", If_Match=etag)
    assert (status, answer["code"]) == (412, "PreconditionFailed")
    for stale in ("x", f"W/{newer}", ""):
        assert shop.call("PATCH", path, {"rating": 3}, "me", If_Match=stale)[0] == 412
    assert shop.get(path)["rating"] == 4
    assert shop.call("PATCH", path, {"rating": 3}, "me", If_Match=f'"other", {newer}')[0] == 200
    assert shop.call("PATCH", path, {"rating": 2}, "me", If_Match="*")[0] == 200
    assert shop.call("PATCH", path, {"rating": 1}, "me")[0] == 200


def test_an_edit_whose_response_was_lost_succeeds_under_if_match(shop: Shop) -> None:
    path = f"{P}/comments/{shop.write('me')['id']}"
    shop.get(path)
    etag = shop.headers["ETag"]
    with after(shop.table, "PutItem", timed_out()):
        assert shop.call("PATCH", path, {"rating": 4}, "me", If_Match=etag)[0] == 200
    assert shop.call("PATCH", path, {"rating": 4}, "me")[1]["rating"] == 4
    assert shop.headers["ETag"] == '"2"'


def test_only_its_author_and_admins_see_a_hidden_comment(shop: Shop) -> None:
    made, other = shop.write("me"), shop.write("you", 3)
    path = f"{P}/comments/{made['id']}"
    assert shop.call("PATCH", path, {"hidden": True}, "me")[1]["code"] == "Forbidden"
    assert shop.call("PATCH", path, {"hidden": True}, "admin") == (
        200,
        made | {"hidden": True, "state": "hidden"},
    )
    assert shop.call("PATCH", path, {"hidden": True}, "admin")[0] == 200
    shop.settle()
    assert shop.ids() == [other["id"]]
    assert shop.ids("rating=5") == []
    assert shop.get(f"{P}/statistics")["total"] == 1
    assert shop.get("/products/leaders")["items"] == []
    for who in ("", "you"):
        assert shop.call("GET", path, who=who)[0] == 404
    for who in ("me", "admin"):
        assert shop.get(path, who)["hidden"] is True
    assert shop.call("PATCH", path, {"rating": 1}, "you")[0] == 404
    assert shop.call("PATCH", path, {"text": "Softer."}, "me")[1]["text"] == "Softer."
    shop.settle()
    assert shop.get(f"{P}/statistics")["total"] == 1
    assert shop.call("PATCH", path, {"hidden": False}, "admin")[1]["hidden"] is False
    shop.settle()
    assert shop.ids("rating=5") == [made["id"]]
    assert shop.get(f"{P}/statistics")["total"] == 2


def test_an_admin_lists_hidden_comments_newest_first(shop: Shop) -> None:
    ids = [shop.write(f"author-{i}")["id"] for i in range(5)]
    for id in ids[:4]:
        shop.call("PATCH", f"{P}/comments/{id}", {"hidden": True}, "admin")
    assert shop.call("GET", f"{P}/hidden")[0] == 401
    assert shop.call("GET", f"{P}/hidden", who="author-0")[0] == 403
    found, cursor = [], ""
    while cursor is not None:
        with Meter(shop.table.client) as meter:
            answer = shop.get(f"{P}/hidden?limit=2&cursor={cursor}".removesuffix("&cursor="), "admin")
        assert (meter.read_units, meter.write_units) == (0.5 + 0.5 * len(answer["items"]), 0)
        found += [item["id"] for item in answer["items"] if item["hidden"]]
        cursor = answer["cursor"]
    assert found == ids[3::-1]
    assert shop.ids() == ids[4:]


def test_an_author_who_deletes_a_hidden_comment_may_not_comment_again(shop: Shop) -> None:
    path = f"{P}/comments/{shop.write('me')['id']}"
    shop.call("PATCH", path, {"hidden": True}, "admin")
    assert shop.call("DELETE", path, who="me")[0] == 204
    body = {"rating": 5, "language": "en", "text": "Again."}
    assert shop.call("POST", f"{P}/comments", body, "me")[0] == 409
    assert shop.call("GET", path, who="me")[0] == 404


# -- read ----------------------------------------------------------------------------------------------


def fill(shop: Shop, languages: tuple[str, ...] = ("en", "de", "pt-BR"), each: int = 1) -> list[Any]:
    """Post comments of every rating in every language, oldest first, and count them."""
    ways = [(rating, language) for _ in range(each) for language in languages for rating in (3, 1, 5, 2, 4)]
    start = datetime.now(UTC) - timedelta(hours=1)
    made = []
    for i, (rating, language) in enumerate(ways):
        body = CommentBody(rating=rating, language=language, text=f"no. {i}")
        who = auth.Caller(f"author-{i}")
        made.append(
            comments.post(
                new_context(shop.table, start + timedelta(seconds=i)), "garment-767", body, who, None
            ).comment
        )
    shop.settle()
    return made[::-1]


def test_pages_have_no_gaps_while_comments_are_added_and_deleted(shop: Shop) -> None:
    made = fill(shop)
    for query in ("", "rating=3,4,5&", "language=de&"):
        right = [
            item.id
            for item in made
            if (query != "language=de&" or item.language == "de")
            and (query != "rating=3,4,5&" or item.rating > 2)
        ]
        page = shop.get(f"{P}/comments?{query}limit=2")
        found = [item["id"] for item in page["items"]]
        newcomer = shop.write(f"late-{len(query)}", 5, "de")
        gone = shop.write(f"gone-{len(query)}", 5, "de")
        shop.settle()
        shop.call("DELETE", f"{P}/comments/{gone['id']}", who=f"gone-{len(query)}")
        last = found[-1]
        shop.call("DELETE", f"{P}/comments/{last}", who="admin")  # the comment that the cursor names
        shop.settle()
        while page["cursor"]:
            page = shop.get(f"{P}/comments?{query}limit=2&cursor={page['cursor']}")
            found += [item["id"] for item in page["items"]]
        assert found == right
        shop.call("DELETE", f"{P}/comments/{newcomer['id']}", who="admin")
        shop.settle()
        made = [item for item in made if item.id != last]


def test_a_cursor_is_valid_only_for_its_filter_and_product(shop: Shop) -> None:
    fill(shop)
    cursor = shop.get(f"{P}/comments?rating=4,5&limit=1")["cursor"]
    assert shop.get(f"{P}/comments?rating=5,4&limit=3&cursor={cursor}")["items"]
    for path in (
        f"{P}/comments?rating=4&cursor={cursor}",
        f"{P}/comments?rating=4,5&language=en&cursor={cursor}",
        f"/products/other/comments?rating=4,5&cursor={cursor}",
        f"{P}/comments?rating=4,5&cursor={cursor}x",
    ):
        status, answer = shop.call("GET", path)
        assert (status, answer["code"]) == (400, "BadCursor"), path


@pytest.mark.parametrize(
    "query", ["rating=6", "rating=", "rating=4;5", "rating=4,", "limit=0", "limit=101", "explain=2"]
)
def test_a_malformed_list_query_is_400(shop: Shop, query: str) -> None:
    assert shop.call("GET", f"{P}/comments?{query}")[0] == 400


def test_an_unrated_product_has_empty_statistics(shop: Shop) -> None:
    for query in ("", "?rating=5", "?language=en", "?rating=1,2&language=en"):
        assert shop.get(f"/products/nobody/comments{query}") == {"items": [], "cursor": None}
    assert shop.get("/products/nobody/statistics") == {
        "ratings": dict.fromkeys("12345", 0),
        "total": 0,
        "average": None,
        "bayesianAverage": 3.0,
    }
    assert shop.get("/products/leaders?language=en") == {"items": []}


def test_statistics_are_counts_and_averages(shop: Shop) -> None:
    for i, rating in enumerate([5] * 10 + [4] * 4 + [3] * 2 + [1]):
        shop.write(f"author-{i}", rating, "en" if i % 2 else "de")
    shop.settle()
    assert shop.get(f"{P}/statistics") == {
        "ratings": {"1": 1, "2": 0, "3": 2, "4": 4, "5": 10},
        "total": 17,
        "average": round(73 / 17, 4),
        "bayesianAverage": 4.0,
    }
    parts = [shop.get(f"{P}/statistics?language={language}") for language in ("en", "de")]
    assert sum(part["total"] for part in parts) == 17


def test_leaders_are_sorted_by_count_and_then_by_name(shop: Shop) -> None:
    for product, fives in {"b": 2, "a": 2, "c": 3, "d": 1, "e": 1, "f": 0, "leaders": 1}.items():
        for i in range(fives):
            shop.write(f"author-{i}", 5, "en" if i else "de", product=f"/products/{product}")
        shop.write("critic", 4, product=f"/products/{product}")
    shop.settle()

    def leaders(query: str = "") -> list[tuple[str, int]]:
        return [
            (item["product"], item["fiveStar"]) for item in shop.get(f"/products/leaders{query}")["items"]
        ]

    right = [("c", 3), ("a", 2), ("b", 2), ("d", 1), ("e", 1), ("leaders", 1)]
    for n in range(1, 7):
        assert leaders(f"?limit={n}") == right[:n]
    assert leaders() == right
    assert leaders("?language=en") == [("c", 2), ("a", 1), ("b", 1)]
    assert leaders("?language=de") == [(product, 1) for product in ("a", "b", "c", "d", "e", "leaders")]
    assert leaders("?language=fr") == []
    [last] = [item for item in shop.get("/products/d/comments")["items"] if item["rating"] == 5]
    shop.call("DELETE", f"/products/d/comments/{last['id']}", who="admin")
    shop.settle()
    assert leaders() == [item for item in right if item[0] != "d"]
    assert ("d", 1) not in leaders("?language=de")
    assert shop.get("/products/leaders/statistics")["total"] == 2


@pytest.mark.security
def test_leaders_need_the_stages_minimum_of_ratings(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    for product, fives in {"a": 3, "b": 2, "c": 1}.items():
        for i in range(fives):
            shop.write(f"author-{i}", product=f"/products/{product}")
    shop.settle()
    monkeypatch.setattr(app, "stage", settings.current()._replace(leaders_min=2))
    assert [item["product"] for item in shop.get("/products/leaders")["items"]] == ["a", "b"]


@pytest.mark.security
def test_leaders_are_limited_to_the_products_that_the_stage_names(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    for product, fives in {"a": 3, "bought": 4, "b": 2, "c": 1}.items():
        for i in range(fives):
            shop.write(f"author-{i}", language="en" if i else "de", product=f"/products/{product}")
    shop.write("critic", 4, product="/products/d")
    shop.settle()
    with pytest.raises(ValueError, match="HUBBUB_LEADERS has 101 products"):
        settings.read({"HUBBUB_LEADERS": ",".join(map(str, range(101)))})
    named = settings.read({"HUBBUB_LEADERS": "c, a,d,never", "HUBBUB_LEADERS_MIN": "1"})
    monkeypatch.setattr(app, "stage", settings.current()._replace(leaders=named.leaders))

    def leaders(query: str = "") -> list[tuple[str, int]]:
        return [
            (item["product"], item["fiveStar"]) for item in shop.get(f"/products/leaders{query}")["items"]
        ]

    assert leaders() == [("a", 3), ("c", 1)]
    assert leaders("?limit=1") == [("a", 3)]
    assert leaders("?language=en") == [("a", 2)]


def test_the_default_minimum_of_a_deployed_stage_is_three_ratings() -> None:
    assert settings.read({}).leaders_min == 1
    assert settings.read({"HUBBUB_STAGE": "prod"}).leaders_min == 3
    assert settings.read({"HUBBUB_STAGE": "prod", "HUBBUB_LEADERS_MIN": "10"}).leaders_min == 10


@pytest.mark.parametrize(
    ("product", "moves", "right"),
    [("a", -1, [("b", 3), ("a", 2), ("c", 2)]), ("c", 1, [("a", 3), ("b", 3), ("c", 3)])],
)
def test_a_product_whose_count_changes_while_leaders_are_read_is_listed_once(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, product: str, moves: int, right: list[tuple[str, int]]
) -> None:
    for name, fives in {"a": 3, "b": 3, "c": 2, "d": 1}.items():
        index = {"gsi1pk": comments.leaders_key(), "gsi1sk": step_of(fives), "count_5": fives}
        shop.table.put(comments.statistics_key(name)._asdict() | index)
    read = Table.query

    def query(table: Table, *args: Any, **options: Any) -> Page:
        page = read(table, *args, **options)
        monkeypatch.setattr(Table, "query", read)
        table.update(comments.statistics_key(product), "ADD count_5 :n", values={":n": moves})
        return page

    monkeypatch.setattr(Table, "query", query)
    found = shop.get("/products/leaders?limit=3")["items"]
    assert [(item["product"], item["fiveStar"]) for item in found] == right


def test_only_admins_see_the_plan(shop: Shop) -> None:
    fill(shop)
    for who in ("", "me"):
        assert shop.call("GET", f"{P}/comments?explain=true", who=who)[1]["code"] == "Forbidden"
    plan = shop.get(f"{P}/comments?rating=5&language=en&explain=true", "admin")["plan"]
    assert plan["subQueries"] == 1
    assert plan["skipped"] == 0
    assert plan["queries"] == 3
    assert plan["rru"] > 0
    assert set(plan["expected"]) == {"filter", "merge"}
    plan = shop.get(f"{P}/comments?rating=5&language=fr&explain=true", "admin")["plan"]
    assert (plan["way"], plan["subQueries"], plan["skipped"], plan["queries"]) == ("none", 0, 1, 1)
    assert shop.get(f"{P}/comments?explain=true", "admin")["plan"]["way"] == "all"
    assert "plan" not in shop.get(f"{P}/comments")
