"""Votes for comments and replies to them, over REST: each counted once, and removed with the comment."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import app
from chalicelib.comments import cleanup, comments, counters, replies, votes
from chalicelib.dynamo.items import Key
from ops.maintenance import audit
from tests.support.faults import after, cancelled, instead, timed_out
from tests.support.meter import Meter
from tests.support.records import drift, scan
from tests.support.shop import P, Shop


def counts(shop: Shop, comment: Any, who: str = "") -> tuple[int, int]:
    found = shop.get(f"{P}/comments/{comment['id']}", who)
    return found["votes"], found["replies"]


def reply(shop: Shop, comment: Any, who: str = "shop", text: str = "Thank you!", **headers: str) -> Any:
    status, made = shop.call("POST", f"{P}/comments/{comment['id']}/replies", {"text": text}, who, **headers)
    assert status == 201, made
    return made


def kinds(shop: Shop) -> set[str]:
    return {item["sk"].partition("#")[0] for item in scan(shop.table) if item["pk"].startswith("PRODUCT#")}


# -- votes ---------------------------------------------------------------------------------------------


def test_a_reader_votes_once_however_often_the_request_comes(shop: Shop) -> None:
    comment = shop.write("me")
    vote = f"{P}/comments/{comment['id']}/vote"
    assert shop.call("PUT", vote, who="ann") == (201, {"votes": 1})
    assert shop.call("PUT", vote, who="ann") == (200, {"votes": 1})
    assert shop.call("PUT", vote, who="bob") == (201, {"votes": 2})
    assert counts(shop, comment) == (2, 0)
    assert shop.get(f"{P}/comments")["items"][0]["votes"] == 2
    shop.settle()
    assert shop.get(f"{P}/comments?rating=5")["items"][0]["votes"] == 2


def test_a_withdrawn_vote_is_not_counted_and_may_be_withdrawn_again(shop: Shop) -> None:
    comment = shop.write("me")
    vote = f"{P}/comments/{comment['id']}/vote"
    for who in ("ann", "bob"):
        shop.call("PUT", vote, who=who)
    for _ in range(2):
        assert shop.call("DELETE", vote, who="ann") == (204, None)
        assert counts(shop, comment) == (1, 0)
    assert shop.call("PUT", vote, who="ann") == (201, {"votes": 2})


@pytest.mark.security
def test_a_further_reaction_writes_no_more_for_the_longest_comment(shop: Shop) -> None:
    def measure(method: str, path: str, body: Any = None) -> float:
        with Meter(shop.table.client) as meter:
            assert shop.call(method, path, body, "ann")[0] in (201, 204)
        return meter.write_units

    costs = []
    for who, text in (("short", "x"), ("long", "\U0001f600" * 5_000)):
        path = f"{P}/comments/{shop.write(who, text=text)['id']}"
        measure("PUT", f"{path}/vote")  # the first reaction makes the counters, once
        measure("DELETE", f"{path}/vote")
        reactions = (("PUT", "vote", None), ("DELETE", "vote", None), ("POST", "replies", {"text": "x"}))
        costs.append([measure(method, f"{path}/{name}", body) for method, name, body in reactions])
    assert costs[0] == costs[1]


def test_an_author_may_not_vote_and_nobody_without_a_token(shop: Shop) -> None:
    comment = shop.write("me")
    vote = f"{P}/comments/{comment['id']}/vote"
    assert shop.call("PUT", vote, who="me")[0] == 403
    assert shop.call("PUT", vote)[0] == shop.call("DELETE", vote)[0] == 401
    assert counts(shop, comment) == (0, 0)


def test_a_vote_for_an_absent_or_hidden_comment_is_404(shop: Shop) -> None:
    comment = shop.write("me")
    shop.call("PATCH", f"{P}/comments/{comment['id']}", {"hidden": True}, "admin")
    for id in (comment["id"], "0" * 26):
        for method in ("PUT", "DELETE"):
            assert shop.call(method, f"{P}/comments/{id}/vote", who="ann")[0] == 404
        assert shop.call("POST", f"{P}/comments/{id}/replies", {"text": "."}, "ann")[0] == 404
        assert shop.call("GET", f"{P}/comments/{id}/replies")[0] == 404


def test_a_vote_whose_response_was_lost_counts_once(shop: Shop) -> None:
    comment = shop.write("me")
    vote = f"{P}/comments/{comment['id']}/vote"
    with instead(shop.table, "TransactWriteItems", cancelled("TransactionConflict", "None")) as calls:
        assert shop.call("PUT", vote, who="ann")[0] == 201
    assert len(calls) == 2
    assert counts(shop, comment) == (1, 0)
    for method, who, number in (("PUT", "bob", 2), ("DELETE", "ann", 1)):
        with after(shop.table, "TransactWriteItems", timed_out()):
            assert shop.call(method, vote, who=who)[0] < 300
        assert counts(shop, comment) == (number, 0)


def test_a_comment_that_is_hidden_while_a_reader_votes_takes_no_vote(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    comment = shop.write("me")
    read = shop.table.get_many

    def hide_after_reading(*keys: Any, **options: Any) -> Any:
        found = read(*keys, **options)
        monkeypatch.undo()
        shop.call("PATCH", f"{P}/comments/{comment['id']}", {"hidden": True}, "admin")
        return found

    monkeypatch.setattr(shop.table, "get_many", hide_after_reading)
    assert shop.call("PUT", f"{P}/comments/{comment['id']}/vote", who="ann")[0] == 404
    assert counts(shop, comment, "admin") == (0, 0)
    assert "VOTE" not in kinds(shop)


@pytest.mark.parametrize("change", [{"text": "Fits better."}, {"hidden": True}], ids=["edit", "hide"])
def test_a_vote_and_a_reply_during_a_change_of_the_comment_are_not_lost(
    shop: Shop, change: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    comment = shop.write("me")
    write = comments._replace

    def react_before_writing(*arguments: Any) -> bool:
        monkeypatch.undo()
        shop.call("PUT", f"{P}/comments/{comment['id']}/vote", who="ann")
        reply(shop, comment)
        return write(*arguments)

    monkeypatch.setattr(comments, "_replace", react_before_writing)
    who = "admin" if "hidden" in change else "me"
    status, changed = shop.call("PATCH", f"{P}/comments/{comment['id']}", change, who)
    assert (status, changed | change) == (200, changed)
    assert counts(shop, comment, "admin") == (1, 1)


def test_an_edit_with_if_match_is_not_refused_for_a_vote(shop: Shop) -> None:
    comment = shop.write("me")
    etag = shop.headers["ETag"]
    shop.call("PUT", f"{P}/comments/{comment['id']}/vote", who="ann")
    assert (
        shop.call("PATCH", f"{P}/comments/{comment['id']}", {"text": "So so."}, "me", If_Match=str(etag))[0]
        == 200
    )
    assert counts(shop, comment) == (1, 0)


# -- replies -------------------------------------------------------------------------------------------


def test_a_reply_is_returned_listed_and_counted(shop: Shop) -> None:
    comment = shop.write("me", language="de")
    made = reply(shop, comment, text=" Thank you!\r\n")
    assert (made["author"], made["text"], made["language"]) == ("shop", "Thank you!", "de")
    assert (made["edited"], made["hidden"]) == (None, False)
    assert shop.get(f"{P}/comments/{comment['id']}/replies") == {"items": [made], "cursor": None}
    assert counts(shop, comment) == (0, 1)
    shop.settle()
    assert shop.get(f"{P}/statistics")["total"] == 1
    assert len(shop.ids()) == 1


def test_replies_are_listed_oldest_first_and_page_by_page(shop: Shop) -> None:
    comment, other = shop.write("me"), shop.write("you")
    assert shop.get(f"{P}/comments/{comment['id']}/replies")["items"] == []
    made = sorted(reply(shop, comment, text=str(number))["id"] for number in range(5))
    reply(shop, other)
    found: list[str] = []
    cursor = ""
    while True:
        page = shop.get(f"{P}/comments/{comment['id']}/replies?limit=2{cursor}")
        found += [item["id"] for item in page["items"]]
        if page["cursor"] is None:
            break
        cursor = f"&cursor={page['cursor']}"
    assert found == made
    assert shop.call("GET", f"{P}/comments/{other['id']}/replies?limit=2{cursor}")[1]["code"] == "BadCursor"


def test_a_repeated_reply_with_its_idempotency_key_is_written_once(shop: Shop) -> None:
    comment = shop.write("me")
    first = reply(shop, comment, Idempotency_Key="k")
    assert reply(shop, comment, Idempotency_Key="k") == first
    assert reply(shop, comment, "ann", Idempotency_Key="k") != first
    assert reply(shop, comment) != first
    assert counts(shop, comment) == (0, 3)
    path = f"{P}/comments/{comment['id']}/replies"
    shop.call("DELETE", f"{path}/{first['id']}", who="shop")
    status, answer = shop.call("POST", path, {"text": "Thanks!"}, "shop", Idempotency_Key="k")
    assert (status, answer["code"]) == (409, "Conflict")


def test_an_idempotency_key_may_be_used_again_after_a_day(shop: Shop) -> None:
    comment = shop.write("me")
    first = reply(shop, comment, Idempotency_Key="k")
    [key] = [item for item in scan(shop.table) if item["sk"].startswith("KEY#")]
    assert key["ttl"] == pytest.approx((datetime.now(UTC) + timedelta(days=1)).timestamp(), abs=60)
    shop.table.put(key | {"ttl": int(datetime.now(UTC).timestamp()) - 1})  # TTL may delete it days later
    assert reply(shop, comment, Idempotency_Key="k") != first


def test_an_author_edits_a_reply_and_others_may_not(shop: Shop) -> None:
    comment = shop.write("me")
    path = f"{P}/comments/{comment['id']}/replies/{reply(shop, comment)['id']}"
    for who, status in (("ann", 403), ("admin", 403), ("", 401)):
        assert shop.call("PATCH", path, {"text": "Thanks!"}, who)[0] == status
    status, changed = shop.call("PATCH", path, {"text": "Danke!", "language": "de"}, "shop")
    assert (status, changed["text"], changed["language"]) == (200, "Danke!", "de")
    assert changed["edited"] is not None
    assert shop.call("PATCH", path, {"text": "Danke!"}, "shop") == (200, changed)
    assert shop.get(f"{P}/comments/{comment['id']}/replies")["items"] == [changed]
    for odd in ({}, {"text": "a", "hidden": True}, {"text": 5}, {"language": "en_US"}, {"rating": 5}):
        assert shop.call("PATCH", path, odd, "shop")[0] == 400
    absent = path[:-1] + ("1" if path.endswith("0") else "0")
    assert shop.call("PATCH", absent, {"text": "a"}, "shop")[0] == 404


def test_only_its_author_and_admins_see_a_hidden_reply_and_it_is_not_counted(shop: Shop) -> None:
    comment = shop.write("me")
    made = reply(shop, comment)
    other = reply(shop, comment, "ann")
    replies_of, path = (
        f"{P}/comments/{comment['id']}/replies",
        f"{P}/comments/{comment['id']}/replies/{made['id']}",
    )
    assert shop.call("PATCH", path, {"hidden": True}, "shop")[0] == 403
    for _ in range(2):
        status, hidden = shop.call("PATCH", path, {"hidden": True}, "admin")
        assert (status, hidden) == (200, made | {"hidden": True, "state": "hidden"})
        assert counts(shop, comment) == (0, 1)
    assert shop.get(replies_of)["items"] == shop.get(replies_of, "ann")["items"] == [other]
    assert hidden in shop.get(replies_of, "shop")["items"]
    assert hidden in shop.get(replies_of, "admin")["items"]
    assert shop.call("DELETE", path, who="ann")[0] == 404
    for _ in range(2):
        assert shop.call("PATCH", path, {"hidden": False}, "admin") == (200, made)
        assert counts(shop, comment) == (0, 2)


@pytest.mark.parametrize("who", ["shop", "admin"])
@pytest.mark.parametrize("hidden", [False, True])
def test_a_deleted_reply_is_counted_out_once(shop: Shop, who: str, hidden: bool) -> None:
    comment = shop.write("me")
    path = f"{P}/comments/{comment['id']}/replies/{reply(shop, comment)['id']}"
    if hidden:
        shop.call("PATCH", path, {"hidden": True}, "admin")
    assert shop.call("DELETE", path, who="ann")[0] == (404 if hidden else 403)
    assert shop.call("DELETE", path, who=who) == (204, None)
    assert shop.call("DELETE", path, who=who)[0] == 404
    assert counts(shop, comment) == (0, 0)


def test_the_replies_of_a_hidden_comment_can_be_moderated(shop: Shop) -> None:
    comment = shop.write("me")
    path = f"{P}/comments/{comment['id']}/replies/{reply(shop, comment)['id']}"
    shop.call("PATCH", f"{P}/comments/{comment['id']}", {"hidden": True}, "admin")
    assert shop.call("PATCH", path, {"hidden": True}, "admin")[0] == 200
    assert counts(shop, comment, "admin") == (0, 0)
    shop.call("PATCH", path, {"hidden": False}, "admin")
    shop.call("PATCH", f"{P}/comments/{comment['id']}", {"hidden": False}, "admin")
    assert counts(shop, comment) == (0, 1)


def test_admins_list_the_replies_on_all_products_newest_first(shop: Shop) -> None:
    made = []
    for product in (P, "/products/lamp"):
        comment = shop.write("me", product=product)
        for number in range(2):
            _, answer = shop.call(
                "POST", f"{product}/comments/{comment['id']}/replies", {"text": "."}, f"r-{number}"
            )
            more = {"product": product.rpartition("/")[2], "comment": comment["id"]}
            made.append(answer | more)
    hidden = f"{P}/comments/{made[0]['comment']}/replies/{made[0]['id']}"
    shop.call("PATCH", hidden, {"hidden": True}, "admin")
    made[0] |= {"hidden": True, "state": "hidden"}
    made.sort(key=lambda comment: str(comment["id"]), reverse=True)
    first = shop.get("/replies?limit=3", "admin")
    assert first["items"] == made[:3]
    rest = shop.get(f"/replies?limit=3&cursor={first['cursor']}", "admin")
    assert rest == {"items": made[3:], "cursor": None}
    assert shop.call("GET", "/replies", who="me")[0] == 403
    assert len(shop.get("/comments", "admin")["items"]) == 2


# -- a comment that is deleted -------------------------------------------------------------------------


@pytest.mark.security
def test_a_deleted_comment_takes_its_replies_and_votes_with_it(shop: Shop) -> None:
    first, other = shop.write("me"), shop.write("you")
    for comment in (first, other):
        reply(shop, comment)
        shop.call("PUT", f"{P}/comments/{comment['id']}/vote", who="ünal")
    path = f"{P}/comments/{first['id']}"
    assert shop.call("DELETE", path, who="me")[0] == 204
    assert shop.call("GET", f"{path}/replies")[0] == 404
    shop.settle()
    left = [item["sk"] for item in scan(shop.table) if first["id"] in item["sk"]]
    assert left == []
    assert counts(shop, other) == (1, 1)


def test_the_replies_of_a_deleted_comment_are_removed_step_by_step(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cleanup, "STEP", 2)
    comment = shop.write("me")
    for number in range(5):
        reply(shop, comment, text=str(number))
        shop.call("PUT", f"{P}/comments/{comment['id']}/vote", who=f"r-{number}")
    shop.call("DELETE", f"{P}/comments/{comment['id']}", who="admin")
    left = 10
    for _ in range(8):  # a batch of the stream has the next step of the one before
        app.apply({"Records": shop.stream.read() * 2}, None)
        now = len([item for item in scan(shop.table) if item["sk"].startswith(("REPLY#", "VOTE#"))])
        assert left - 4 <= now <= left
        left = now
    assert kinds(shop).isdisjoint({"REPLY", "VOTE", "CLEANUP"})


def test_a_comment_without_votes_and_replies_leaves_no_cleanup(shop: Shop) -> None:
    comment = shop.write("me")
    shop.call("DELETE", f"{P}/comments/{comment['id']}", who="me")
    assert kinds(shop) == {"LISTED"}


# -- operators -----------------------------------------------------------------------------------------


def test_an_audit_finds_and_corrects_a_wrong_number_of_votes_or_replies(shop: Shop) -> None:
    shown, hidden = shop.write("me"), shop.write("you")
    for comment in (shown, hidden):
        reply(shop, comment)
        shop.call("PUT", f"{P}/comments/{comment['id']}/vote", who="ann")
    shop.call("PATCH", f"{P}/comments/{hidden['id']}", {"hidden": True}, "admin")
    shop.settle()
    product = "garment-767"
    keys = [counters.counters_key(product, comment["id"]) for comment in (shown, hidden)]
    for key in keys:
        shop.table.update(key, "SET votes = :n REMOVE replies", values={":n": 7})
    found = drift(shop.table, app.CONTRIBUTIONS)
    assert found == {(key, "votes"): (7, 1) for key in keys} | {(key, "replies"): (None, 1) for key in keys}
    result = audit.AuditResult(drifted=found)
    audit.repair(shop.table, result)
    assert (result.corrected, result.unsettled) == (4, {})
    assert drift(shop.table, app.CONTRIBUTIONS) == {}
    assert counts(shop, hidden, "admin") == (1, 1)


def test_a_repair_does_not_bring_a_deleted_comment_back(shop: Shop) -> None:
    comment = shop.write("me")
    key = counters.counters_key("garment-767", comment["id"])
    shop.call("DELETE", f"{P}/comments/{comment['id']}", who="me")
    result = audit.AuditResult(drifted={(key, "votes"): (None, 1)})
    audit.repair(shop.table, result)
    assert (result.corrected, set(result.unsettled)) == (0, {(key, "votes")})
    assert shop.table.get(key) is None


@pytest.mark.parametrize("is_lost", [False, True], ids=["its cleanup is there", "its cleanup is lost too"])
def test_a_repair_finishes_a_deletion_that_the_stream_has_lost(shop: Shop, is_lost: bool) -> None:
    first, other = shop.write("me"), shop.write("you")
    for comment in (first, other):
        reply(shop, comment)
        shop.call("PUT", f"{P}/comments/{comment['id']}/vote", who="ann")
    shop.call("DELETE", f"{P}/comments/{first['id']}", who="me")
    if is_lost:
        shop.table.delete(comments.cleanup_key("garment-767", first["id"]))
    assert shop.stream.read()
    key = counters.counters_key("garment-767", first["id"])
    found = drift(shop.table, [])
    assert found[key, audit.LEFT] == (2 if is_lost else 3, 0)
    result = audit.AuditResult(drifted={at: pair for at, pair in found.items() if at[1] == audit.LEFT})
    audit.repair(shop.table, result)
    assert (result.corrected, result.unsettled) == (1, {})
    assert [item["sk"] for item in scan(shop.table) if first["id"] in item["sk"]] == []
    assert counts(shop, other) == (1, 1)


def test_a_repair_removes_nothing_of_a_comment_that_exists(shop: Shop) -> None:
    comment = shop.write("me")
    reply(shop, comment)
    key = counters.counters_key("garment-767", comment["id"])
    result = audit.AuditResult(drifted={(key, audit.LEFT): (1, 0)})
    audit.repair(shop.table, result)
    assert (result.corrected, set(result.unsettled)) == (0, {(key, audit.LEFT)})
    assert counts(shop, comment) == (0, 1)


@pytest.mark.security
def test_an_erased_person_leaves_no_vote_and_no_reply(shop: Shop) -> None:
    shown, hidden = shop.write("me"), shop.write("you")
    mine = shop.write("ann")
    for comment in (shown, hidden):
        reply(shop, comment, "ann")
        shop.call("PUT", f"{P}/comments/{comment['id']}/vote", who="ann")
    reply(shop, mine, "me")
    shop.call("PATCH", f"{P}/comments/{hidden['id']}", {"hidden": True}, "admin")
    shop.settle()
    erased = shop.erase("ann")
    kinds = {"replies": 2, "votes": 2, "comments": 1, "counters": 1, "authors": 1, "limits": 1}
    assert erased.erased == kinds
    assert not [item for item in scan(shop.table) if "ann" in str(item)]
    assert counts(shop, shown) == counts(shop, hidden, "admin") == (0, 0)
    shop.settle()


@pytest.mark.parametrize("sk", ["VOTE#a", "REPLY#a", "REPLY#a#b#c", "VOTE#", "REPLY#"])
def test_an_item_with_a_malformed_key_is_neither_a_vote_nor_a_reply(sk: str) -> None:
    item = Key("PRODUCT#a", sk)._asdict()
    assert votes.count(item) == replies.count(item) == {}
    assert not votes.is_vote_of(item, "a")
