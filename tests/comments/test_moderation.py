"""Approval before publication, words and hosts that wait, and bans of authors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest

import app
from chalicelib import settings
from chalicelib.comments import screening
from chalicelib.dynamo.items import Item
from tests.comments.test_reactions import kinds
from tests.support.faults import after, hooked, timed_out
from tests.support.records import scan
from tests.support.shop import P, Shop

BLOCK = ("casino", "buy now", "spam.example", "bücher.example", "赌博")


@pytest.fixture
def careful(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> Shop:
    """A stage on which an author's first text needs approval."""
    stage = settings.current()._replace(comments_approve=True, comments_block=BLOCK)
    monkeypatch.setattr(app, "stage", stage)
    return shop


@pytest.fixture
def blocking(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> Shop:
    """A stage on which only texts with blocked words need approval."""
    monkeypatch.setattr(app, "stage", settings.current()._replace(comments_block=BLOCK))
    return shop


def approve(shop: Shop, path: str) -> Any:
    status, found = shop.call("PATCH", path, {"state": "approved"}, "admin")
    assert (status, found["state"]) == (200, "approved")
    return found


def pending(shop: Shop, what: str = "comments") -> list[str]:
    return [item["id"] for item in shop.get(f"/{what}?state=pending", "admin")["items"]]


def reply(shop: Shop, comment: Any, who: str, text: str = "Thank you!") -> Any:
    status, made = shop.call("POST", f"{P}/comments/{comment['id']}/replies", {"text": text}, who)
    assert status == 201, made
    return made


# -- comments ------------------------------------------------------------------------------------------


def test_a_first_comment_is_pending_and_counted_nowhere(careful: Shop) -> None:
    made = careful.write("me")
    own = f"{P}/comments/{made['id']}"
    assert (made["state"], made["hidden"]) == ("pending", False)
    careful.settle()
    assert careful.get(f"{P}/comments")["items"] == []
    assert careful.get(f"{P}/comments?rating=5")["items"] == []
    assert careful.get(f"{P}/statistics")["total"] == 0
    assert careful.get("/comments", "admin")["items"] == []
    assert pending(careful) == [made["id"]]
    assert [careful.call("GET", own, who=who)[0] for who in ("", "ann", "me", "admin")] == [
        404,
        404,
        200,
        200,
    ]
    assert careful.call("PUT", f"{own}/vote", who="ann")[0] == 404
    assert careful.call("POST", f"{own}/replies", {"text": "Hi"}, "ann")[0] == 404
    assert careful.call("GET", "/comments?state=pending", who="me")[0] == 403


def test_an_approved_comment_is_published_and_its_author_known(careful: Shop) -> None:
    made = careful.write("me")
    approve(careful, f"{P}/comments/{made['id']}")
    approve(careful, f"{P}/comments/{made['id']}")
    assert pending(careful) == []
    careful.settle()
    assert careful.ids() == careful.ids("rating=5") == [made["id"]]
    assert careful.get(f"{P}/statistics")["total"] == 1
    assert careful.get("/comments", "admin")["items"][0]["state"] == "approved"
    second = careful.write("me", product="/products/garment-1080")
    assert second["state"] == "approved"


def test_a_known_author_whose_last_text_waits_is_not_known_any_more(careful: Shop) -> None:
    approve(careful, f"{P}/comments/{careful.write('me')['id']}")
    blocked = careful.write("me", text="A CASINO!", product="/products/garment-1080")
    assert blocked["state"] == "pending"
    third = careful.write("me", product="/products/garment-829")
    assert third["state"] == "pending"
    approve(careful, f"/products/garment-829/comments/{third['id']}")
    assert careful.write("me", product="/products/garment-862")["state"] == "approved"


def test_a_hidden_comment_costs_its_author_the_approval(careful: Shop) -> None:
    own = f"{P}/comments/{careful.write('me')['id']}"
    approve(careful, own)
    assert careful.call("PATCH", own, {"hidden": True}, "admin")[1]["state"] == "hidden"
    assert careful.write("me", product="/products/garment-1080")["state"] == "pending"


def test_a_refused_comment_is_deleted_and_the_author_may_write_again(careful: Shop) -> None:
    for who in ("admin", "me"):
        own = f"{P}/comments/{careful.write('me')['id']}"
        assert careful.call("DELETE", own, who=who)[0] == 204
        assert pending(careful) == []
    careful.settle()
    assert kinds(careful) <= {"LISTED"}


def test_a_pending_comment_can_be_hidden_and_shown(careful: Shop) -> None:
    own = f"{P}/comments/{careful.write('me')['id']}"
    assert careful.call("PATCH", own, {"hidden": False}, "admin")[1]["state"] == "pending"
    assert careful.call("PATCH", own, {"hidden": True}, "admin")[1]["state"] == "hidden"
    assert pending(careful) == []
    assert careful.call("PATCH", own, {"hidden": False}, "admin")[1]["state"] == "approved"
    careful.settle()


def test_only_an_admin_approves(careful: Shop) -> None:
    made = careful.write("me")
    own = f"{P}/comments/{made['id']}"
    assert careful.call("PATCH", own, {"state": "approved"}, "me")[0] == 403
    assert careful.call("PATCH", own, {"state": "approved"}, "ann")[0] == 404
    for body in (
        {"state": "pending"},
        {"state": "approved", "hidden": True},
        {"state": "approved", "text": "a"},
    ):
        assert careful.call("PATCH", own, body, "admin")[0] == 400
    assert careful.write("admin")["state"] == "approved", "an admin needs no approval"


def test_an_edit_of_a_pending_comment_leaves_it_pending(careful: Shop) -> None:
    own = f"{P}/comments/{careful.write('me')['id']}"
    assert careful.call("PATCH", own, {"text": "Better."}, "me")[1]["state"] == "pending"
    assert careful.get(own, "admin")["text"] == "Better."


@pytest.mark.parametrize("product_approves", [True, False])
def test_a_product_decides_for_itself(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, product_approves: bool
) -> None:
    stage = settings.current()._replace(comments_approve=not product_approves)
    monkeypatch.setattr(app, "stage", stage)
    assert shop.call("PUT", P, {"approve": product_approves}, "admin")[0] == 201
    assert shop.write("me")["state"] == ("pending" if product_approves else "approved")


# -- replies -------------------------------------------------------------------------------------------


def test_a_pending_reply_is_seen_by_its_author_and_admins_only(careful: Shop) -> None:
    comment = careful.write("admin")
    own = f"{P}/comments/{comment['id']}"
    made = reply(careful, comment, "me")
    assert made["state"] == "pending"
    assert pending(careful, "replies") == [made["id"]]
    assert careful.get("/replies", "admin")["items"] == []
    seen = [len(careful.get(f"{own}/replies", who)["items"]) for who in ("", "ann", "me", "admin")]
    assert seen == [0, 0, 1, 1]
    assert careful.get(own)["replies"] == 0
    approve(careful, f"{own}/replies/{made['id']}")
    assert careful.get(own)["replies"] == 1
    assert pending(careful, "replies") == []
    assert len(careful.get("/replies", "admin")["items"]) == 1
    assert reply(careful, comment, "me")["state"] == "approved"
    careful.settle()


def test_a_reply_moves_between_all_states_and_is_counted_once(careful: Shop) -> None:
    comment = careful.write("admin")
    own = f"{P}/comments/{comment['id']}"
    path = f"{own}/replies/{reply(careful, comment, 'me')['id']}"
    steps: list[tuple[Any, str, int]] = [
        ({"hidden": True}, "hidden", 0),
        ({"state": "approved"}, "approved", 1),
        ({"hidden": True}, "hidden", 0),
        ({"hidden": False}, "approved", 1),
    ]
    for body, state, count in steps:
        for _ in range(2):
            assert careful.call("PATCH", path, body, "admin")[1]["state"] == state
            assert careful.get(own)["replies"] == count
    assert careful.call("PATCH", path, {"text": "casino"}, "me")[1]["state"] == "pending"
    assert careful.get(own)["replies"] == 0
    assert careful.call("DELETE", path, who="admin")[0] == 204
    assert careful.get(own)["replies"] == 0
    careful.settle()


def test_pending_replies_are_removed_with_their_comment(careful: Shop) -> None:
    comment = careful.write("admin")
    reply(careful, comment, "me")
    assert careful.call("DELETE", f"{P}/comments/{comment['id']}", who="admin")[0] == 204
    careful.settle()
    assert kinds(careful) <= {"LISTED", "S"}
    assert pending(careful, "replies") == []


# -- screening -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "the Casino of",
        "CASINO",
        "ｃａｓｉｎｏ",
        "ca\u00adsi\u200bno",
        "Buy\n now!",
        "https://spam.example/a",
        "see WWW.SPAM.EXAMPLE",
        "a.b.spam.example.",
        "http://bücher.example",
        "http://xn--bcher-kva.example/",
        "在线赌博网站",
        "a http://1 b http://2 c www.3.example d https://4",
    ],
)
def test_a_text_waits_for_what_it_contains(text: str) -> None:
    assert screening.must_wait(text, BLOCK)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "casinos",
        "an occasino",
        "buying now",
        "notspam.example",
        "spam.example.org",
        "spam.examples",
        "x.com",
    ],
)
def test_a_text_with_similar_words_does_not_wait(text: str) -> None:
    assert not screening.must_wait(text, BLOCK)


def test_three_links_need_no_approval() -> None:
    assert not screening.must_wait("http://a http://b www.c.example", ())


def test_an_edit_that_hits_the_list_is_pending_again(blocking: Shop) -> None:
    own = f"{P}/comments/{blocking.write('me')['id']}"
    blocking.settle()
    assert blocking.call("PATCH", own, {"text": "casino"}, "me")[1]["state"] == "pending"
    blocking.settle()
    assert blocking.get(f"{P}/statistics")["total"] == 0
    assert blocking.call("PATCH", own, {"text": "sorry"}, "me")[1]["state"] == "pending"
    approve(blocking, own)
    blocking.settle()
    assert blocking.get(f"{P}/statistics")["total"] == 1
    assert blocking.write("ann")["state"] == "approved"


def test_a_text_of_line_ends_is_clamped(shop: Shop) -> None:
    made = shop.write("me", text="a\r\n\r\n \n\t\n\u200b\n\n\nb\nc\n\n\n")
    assert made["text"] == "a\n\nb\nc"


def test_the_setting_names_words_and_hosts() -> None:
    read = settings.read({"HUBBUB_COMMENTS": "approve", "HUBBUB_COMMENTS_BLOCK": " Casino, spam.example ,,"})
    assert (read.comments_approve, read.comments_block) == (True, ("Casino", "spam.example"))
    with pytest.raises(ValueError, match="HUBBUB_COMMENTS is 'closed': it must be open or approve"):
        settings.read({"HUBBUB_COMMENTS": "closed"})


# -- bans ----------------------------------------------------------------------------------------------


def test_a_banned_author_writes_nothing_until_the_ban_ends(shop: Shop) -> None:
    mine, other = shop.write("me"), shop.write("ann")
    own, theirs = f"{P}/comments/{mine['id']}", f"{P}/comments/{other['id']}"
    answer = reply(shop, other, "me")
    assert shop.call("PUT", "/comments/bans/me", {"hours": 2}, "admin")[0] == 201
    status, ban = shop.call("PUT", "/comments/bans/me", {"hours": 3}, "admin")
    assert (status, ban["author"]) == (200, "me")
    assert shop.get("/comments/bans", "admin")["items"] == [ban]
    writes: list[tuple[str, str, Any]] = [
        ("POST", "/products/garment-1080/comments", {"rating": 5, "language": "en", "text": ""}),
        ("PATCH", own, {"text": "changed"}),
        ("POST", f"{theirs}/replies", {"text": "a"}),
        ("PATCH", f"{theirs}/replies/{answer['id']}", {"text": "changed"}),
        ("PUT", f"{theirs}/vote", None),
    ]
    for method, path, body in writes:
        status, found = shop.call(method, path, body, "me")
        assert (status, found["code"]) == (403, "Forbidden"), path
        assert ban["until"] in found["message"]
    assert shop.get(own)["text"] == "Fits."
    assert shop.call("DELETE", own, who="me")[0] == 204, "an author may always remove a text"
    assert shop.call("DELETE", "/comments/bans/me", who="admin")[0] == 204
    assert shop.call("DELETE", "/comments/bans/me", who="admin")[0] == 404
    assert shop.get("/comments/bans", "admin")["items"] == []
    assert shop.write("me")["state"] == "approved"


def test_a_ban_that_has_ended_is_not_listed(shop: Shop) -> None:
    shop.call("PUT", "/comments/bans/me", {"hours": 1}, "admin")
    [item] = [item for item in scan(shop.table) if item["sk"] == "STANDING"]
    shop.table.put(item | {"banned": 1_000_000_000, "gsi1sk": 1_000_000_000})
    assert shop.get("/comments/bans", "admin")["items"] == []
    assert shop.write("me")["author"] == "me"


def test_only_admins_ban(shop: Shop) -> None:
    assert shop.call("PUT", "/comments/bans/me", {"hours": 1}, "ann")[0] == 403
    assert shop.call("GET", "/comments/bans", who="ann")[0] == 403


# -- reports of readers --------------------------------------------------------------------------------


def report(shop: Shop, comment: Any, who: str, reply: str | None = None, reason: str = "An insult.") -> int:
    body = {"reason": reason} | ({"reply": reply} if reply else {})
    status, found = shop.call("POST", f"{P}/comments/{comment['id']}/reports", body, who)
    assert status >= 400 or found == {"reported": True}
    return status


def reported(shop: Shop) -> list[tuple[str, int, list[str]]]:
    """Return the id, the number of reports and the reasons of each text in the list."""
    items = shop.get("/comments/reports", "admin")["items"]
    return [(item["reply"] or item["comment"], item["reports"], item["reasons"]) for item in items]


def test_a_reader_reports_a_comment_once(shop: Shop) -> None:
    comment = shop.write("me")
    assert [report(shop, comment, "ann"), report(shop, comment, "ann", reason="b")] == [201, 200]
    assert report(shop, comment, "bob", reason="A lie.") == 201
    assert reported(shop) == [(comment["id"], 2, ["An insult.", "A lie."])]
    [item] = shop.get("/comments/reports", "admin")["items"]
    assert (item["text"], item["author"], item["state"], item["reply"]) == ("Fits.", "me", "approved", None)
    shop.settle()
    assert shop.get(f"{P}/statistics")["total"] == 1, "a report hides nothing"


def test_replies_are_reported_too(shop: Shop) -> None:
    comment = shop.write("me")
    answer = reply(shop, comment, "shop")
    assert report(shop, comment, "me", answer["id"]) == 201
    assert report(shop, comment, "shop", answer["id"]) == 403
    assert reported(shop) == [(answer["id"], 1, ["An insult."])]
    path = f"{P}/comments/{comment['id']}/replies/{answer['id']}"
    assert shop.call("PATCH", path, {"hidden": True}, "admin")[0] == 200
    assert reported(shop) == []
    assert report(shop, comment, "ann", answer["id"]) == 404, "a hidden reply is not there"


def test_nobody_reports_their_own_text_or_one_that_is_not_there(shop: Shop) -> None:
    comment = shop.write("me")
    assert report(shop, comment, "me") == 403
    assert report(shop, comment, "") == 401
    assert report(shop, {"id": "01KAJQF8G0Z9M4T3V7C2X5N8QR"}, "ann") == 404
    assert report(shop, comment, "ann", "01KAJQF8G0Z9M4T3V7C2X5N8QR") == 404
    assert report(shop, comment, "ann", reason="") == 400
    assert reported(shop) == []


@pytest.mark.parametrize("decision", ["dismiss", "hide", "delete"])
def test_a_decision_takes_a_text_out_of_the_list(shop: Shop, decision: str) -> None:
    comment = shop.write("me")
    report(shop, comment, "ann")
    own = f"{P}/comments/{comment['id']}"
    if decision == "dismiss":
        assert shop.call("DELETE", f"{own}/reports", who="admin")[0] == 204
        assert shop.call("DELETE", f"{own}/reports", who="admin")[0] == 404
        assert report(shop, comment, "ann") == 200, "a reader reports a text once"
    elif decision == "hide":
        assert shop.call("PATCH", own, {"hidden": True}, "admin")[0] == 200
    else:
        assert shop.call("DELETE", own, who="admin")[0] == 204
    assert reported(shop) == []
    shop.settle()
    if decision == "delete":
        assert kinds(shop) <= {"LISTED", "S"}


def test_a_deleted_reply_leaves_no_entry(shop: Shop) -> None:
    comment = shop.write("me")
    answer = reply(shop, comment, "shop")
    report(shop, comment, "ann", answer["id"])
    assert shop.call("DELETE", f"{P}/comments/{comment['id']}/replies/{answer['id']}", who="shop")[0] == 204
    assert not [item for item in scan(shop.table) if item["sk"].startswith("REPORTED#")]
    assert shop.call("DELETE", f"{P}/comments/{comment['id']}", who="me")[0] == 204
    shop.settle()
    assert kinds(shop) <= {"LISTED", "S"}


def test_the_list_of_reported_texts_has_pages(shop: Shop) -> None:
    comments = [shop.write(f"author-{number}", text="x" * 4_900) for number in range(15)]
    for comment in comments:
        report(shop, comment, "ann")
    found, cursor = list[str](), ""
    while True:
        page = shop.get(f"/comments/reports?limit=4{cursor}", "admin")
        found += [item["comment"] for item in page["items"]]
        if not page["cursor"]:
            break
        cursor = f"&cursor={page['cursor']}"
    assert sorted(found) == sorted(comment["id"] for comment in comments)
    assert shop.call("GET", "/comments/reports", who="ann")[0] == 403


# -- races and retries ---------------------------------------------------------------------------------


@contextmanager
def before_write(shop: Shop, act: Callable[[], object]) -> Iterator[None]:
    """Act once before the next transaction, as another request between its reads and its write."""
    left = [act]

    def hook(**_: object) -> None:
        if left:
            left.pop()()

    with hooked(shop.table.client, {"before-call.dynamodb.TransactWriteItems": hook}):
        yield


def test_a_report_and_an_approval_whose_replies_are_lost_count_once(careful: Shop) -> None:
    made = careful.write("me")
    with after(careful.table, "TransactWriteItems", timed_out()):
        approve(careful, f"{P}/comments/{made['id']}")
    with after(careful.table, "TransactWriteItems", timed_out()):
        assert report(careful, made, "ann") == 201
    assert reported(careful) == [(made["id"], 1, ["An insult."])]
    careful.settle()
    assert careful.get(f"{P}/statistics")["total"] == 1


def test_a_comment_that_is_deleted_beside_its_first_report_leaves_nothing(shop: Shop) -> None:
    made = shop.write("me")
    delete = partial(shop.call, "DELETE", f"{P}/comments/{made['id']}", who="me")
    with before_write(shop, delete):
        assert report(shop, made, "ann") == 404
    shop.settle()
    assert kinds(shop) <= {"LISTED", "S"}
    assert reported(shop) == []


def test_a_reply_that_is_hidden_beside_its_report_is_not_listed(shop: Shop) -> None:
    made = shop.write("me")
    answer = reply(shop, made, "bob")
    path = f"{P}/comments/{made['id']}/replies/{answer['id']}"
    with before_write(shop, partial(shop.call, "PATCH", path, {"hidden": True}, "admin")):
        assert report(shop, made, "ann", answer["id"]) == 404
    assert reported(shop) == []


def test_a_comment_that_its_author_edits_beside_the_approval_keeps_both(careful: Shop) -> None:
    own = f"{P}/comments/{careful.write('me')['id']}"
    with before_write(careful, partial(careful.call, "PATCH", own, {"text": "Better."}, "me")):
        approve(careful, own)
    assert (careful.get(own)["state"], careful.get(own)["text"]) == ("approved", "Better.")
    careful.settle()


def test_a_comment_that_its_author_deletes_beside_the_approval_stays_deleted(careful: Shop) -> None:
    own = f"{P}/comments/{careful.write('me')['id']}"
    with before_write(careful, partial(careful.call, "DELETE", own, who="me")):
        assert careful.call("PATCH", own, {"state": "approved"}, "admin")[0] == 404
    careful.settle()
    assert kinds(careful) <= {"LISTED"}
    assert careful.write("me")["state"] == "pending", "nothing was approved"


def test_two_approvals_at_once_count_a_reply_once(careful: Shop) -> None:
    made = careful.write("admin")
    own = f"{P}/comments/{made['id']}"
    path = f"{own}/replies/{reply(careful, made, 'me')['id']}"
    with before_write(careful, partial(approve, careful, path)):
        approve(careful, path)
    assert careful.get(own)["replies"] == 1
    careful.settle()


def test_an_erasure_removes_a_persons_standing_reports_and_pending_notices(careful: Shop) -> None:
    made = careful.write("admin")
    reply(careful, made, "ann")
    report(careful, made, "ann")
    careful.call("PUT", "/comments/bans/ann", {"hours": 1}, "admin")
    notice: Item = {
        "pk": "NOTICE#1",
        "sk": "NOTICE",
        "pending": "reply",
        "author": "ann",
        "ttl": 9_999_999_999,
    }
    careful.table.put(notice)
    done = careful.erase("ann")
    assert {"standings", "reports", "replies", "notices"} <= done.erased.keys()
    assert (done.left, careful.get(f"{P}/comments/{made['id']}")["replies"]) == ({}, 0)
    assert not [item for item in scan(careful.table) if "ann" in str(item)]
