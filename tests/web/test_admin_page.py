"""The admin page in a real browser: signing in, moderation, definitions, lag and quarantine."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from chalicelib.aggregates import quarantine
from chalicelib.aggregates.quarantine import Poison
from chalicelib.dynamo.items import Item, pack
from local.engines.engine import start
from tests.support.pages import find_accessibility_violations, measure_overflow, open_page
from tests.support.running import Run

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator, Page, Route

EVIL = "<img src=x onerror='document.title=1'>"


@contextmanager
def admin_page(browser: Browser, product: Run, **context: Any) -> Iterator[Page]:
    """Open the admin page with the token of an admin."""
    with open_page(browser, f"{product.page}web/admin.html", **context) as page:
        sign_in(page, product.token("admin-1", "admin"))
        page.get_by_text("Signed in as admin-1").wait_for()
        yield page


def sign_in(page: Page, text: str) -> None:
    page.get_by_role("textbox", name="Token").fill(text)
    page.get_by_role("button", name="Sign in").click()


def comment(product: Run, item: str, author: str, text: str) -> None:
    body = {"rating": 2, "language": "en", "text": text}
    assert product.call("POST", f"/products/{item}/comments", body, product.token(author))[0] == 201


def put(product: Run, *items: Item) -> None:
    """Write items to the table that no API call can write."""
    client = start(f"http://127.0.0.1:{product.engine_port}", None).client("dynamodb")
    for item in items:
        client.put_item(TableName="hubbub-local", Item=pack(item))


def card(page: Page, title: str) -> Locator:
    return page.get_by_role("region", name=title, exact=True)


# -- the token -----------------------------------------------------------------------------------------


def test_a_token_is_kept_in_its_tab_and_nowhere_else(browser: Browser, product: Run) -> None:
    from playwright.sync_api import expect

    right = product.token("admin-1", "admin")
    with admin_page(browser, product) as page:
        assert page.evaluate("Object.keys(sessionStorage)") == ["hubbub.admin"]
        assert page.evaluate("localStorage.length") == 0
        assert page.context.cookies() == []
        expect(page.locator("#token")).to_have_value("")
        assert right.split(".")[0] not in page.url
        page.reload()
        page.get_by_text("Signed in as admin-1").wait_for()
        other = page.context.new_page()
        other.goto(page.url)
        other.get_by_role("button", name="Sign in").wait_for()
        page.get_by_role("button", name="Sign out").click()
        page.get_by_role("button", name="Sign in").wait_for()
        assert page.evaluate("sessionStorage.length") == 0


@pytest.mark.parametrize(
    ("sub", "said"),
    [
        ("", "This token is invalid or has expired. Please sign in again."),
        ("me", "This token lacks the admin scope."),
    ],
)
def test_a_refused_token_is_forgotten_with_a_reason(
    browser: Browser, product: Run, sub: str, said: str
) -> None:
    from playwright.sync_api import expect

    with open_page(browser, f"{product.page}web/admin.html") as page:
        sign_in(page, product.token(sub) if sub else "nonsense")
        page.locator("#notice").get_by_text(said, exact=True).wait_for()
        assert page.evaluate("sessionStorage.length") == 0
        expect(page.locator("#signed-in")).to_be_hidden()
        sign_in(page, f"Bearer {product.token('admin-1', 'admin')}")
        page.get_by_text("Signed in as admin-1").wait_for()
        expect(page.locator("#notice")).to_be_hidden()


@pytest.mark.security
def test_no_link_makes_the_page_send_the_token_to_another_address(browser: Browser, product: Run) -> None:
    asked: list[str] = []
    with open_page(browser, "about:blank") as page:
        page.on("request", lambda request: asked.append(request.url))
        page.goto(f"{product.page}web/admin.html?api=http://evil.example/#http://evil.example/")
        sign_in(page, product.token("admin-1", "admin"))
        card(page, "Stream").get_by_text("write-to-count delay", exact=True).wait_for()
    assert len(asked) > 10
    assert [url for url in asked if not url.startswith(product.page)] == []


# -- moderating ----------------------------------------------------------------------------------------


def test_a_comment_is_hidden_found_again_and_deleted(browser: Browser, product: Run) -> None:
    for i in range(3):
        comment(product, "boot", f"author-{i}", f"{EVIL} {i}")
    with admin_page(browser, product) as page:
        page.get_by_label("Product", exact=True).fill("boot")
        page.get_by_role("button", name="Show", exact=True).click()
        comments = card(page, "Comments").get_by_role("article")
        comments.nth(2).wait_for()
        first = comments.filter(has_text=f"{EVIL} 2")
        first.get_by_role("button", name="Hide").click()
        first.get_by_role("button", name="Show again").wait_for()
        card(page, "Comments").get_by_label("Hidden").check(force=True)
        page.wait_for_function("() => document.querySelectorAll('#comments article').length == 1")
        comments.get_by_role("button", name="Show again").click()
        comments.get_by_role("button", name="Hide").click()
        comments.get_by_role("button", name="Show again").wait_for()
        comments.get_by_role("button", name="Delete").click()
        comments.get_by_role("button", name="Delete? Press again.").click()
        comments.wait_for(state="detached")
        page.get_by_label("Visible").check(force=True)
        comments.nth(1).wait_for()
        assert [EVIL in text for text in comments.all_inner_texts()] == [True, True]
        assert page.locator("#comments article img").count() == 0
    assert product.call("GET", "/products/boot/hidden", token=product.token("a", "admin"))[1]["items"] == []


def test_the_queue_is_decided_with_keys(browser: Browser, product: Run) -> None:
    """Approve, keep, hide and delete what waits, in the order of time."""
    from playwright.sync_api import expect

    who = product.token("admin-2", "admin")
    assert product.call("PUT", "/products/queue", {"approve": True}, who)[0] == 201
    for author in ("ann", "bob", "eve"):
        comment(product, "queue", author, f"{EVIL} of {author}")
    comment(product, "open", "dan", "A reported text.")
    [made] = product.call("GET", "/products/open/comments")[1]["items"]
    path = f"/products/open/comments/{made['id']}"
    assert product.call("POST", f"{path}/replies", {"text": "A reply."}, product.token("fay"))[0] == 201
    [reply] = product.call("GET", f"{path}/replies")[1]["items"]
    for reader, body in (("ann", {"reason": "Spam"}), ("bob", {"reason": "Rude", "reply": reply["id"]})):
        assert product.call("POST", f"{path}/reports", body, product.token(reader))[0] == 201
    with admin_page(browser, product) as page:
        queue = card(page, "Moderation queue")
        texts = queue.get_by_role("article")
        texts.nth(4).wait_for()
        assert [EVIL in text for text in texts.all_inner_texts()] == [True, True, True, False, False]
        queue.get_by_role("button", name="Keys").click()
        queue.get_by_text("delete (press twice)").wait_for()
        assert find_accessibility_violations(page) == []
        page.keyboard.press("?")
        expect(queue.get_by_text("delete (press twice)")).to_be_hidden()
        for keys, left in (("ja", 4), ("jkh", 3), ("dd", 2), ("a", 1)):
            for key in keys:
                page.keyboard.press(key)
            page.wait_for_function(f"() => document.querySelectorAll('#queue article').length == {left}")
        expect(texts).to_contain_text("A reply.")
        expect(texts).to_contain_text("Rude")
        page.keyboard.press("h")
        queue.get_by_text("Nothing to moderate.").wait_for()
        queue.get_by_label("Hidden").check(force=True)
        texts.nth(1).wait_for()
        page.get_by_label("Product", exact=True).press("j")  # a key in another field is a letter
        assert page.get_by_label("Product", exact=True).input_value() == "j"
    listed = product.call("GET", "/products/queue/comments")[1]["items"]
    assert [item["author"] for item in listed] == ["ann"]
    states = {
        item["author"]: item["state"] for item in product.call("GET", "/comments", token=who)[1]["items"]
    }
    assert (states["ann"], states["bob"], states["dan"]) == ("approved", "hidden", "approved")
    assert "eve" not in states
    assert product.call("GET", f"{path}/replies")[1]["items"] == []
    assert product.call("GET", "/comments/reports", token=who)[1]["items"] == []


def test_reports_are_read_newest_first_a_page_at_a_time(browser: Browser, product: Run) -> None:
    key = {"pk": "REPORTS", "lobby": "main", "reporter": "5f1c", "reported": "a90b", "ttl": 4_000_000_000}
    reported: list[Item] = [
        key
        | {"sk": f"2026-11-21T10:00:{i:02}.000000Z#x", "reason": f"reason {i}"}
        | {"messages": [{"author": "reported", "text": EVIL, "proved": i == 20}]}
        for i in range(21)
    ]
    put(product, *reported)
    with admin_page(browser, product) as page:
        reports = card(page, "Chat reports").get_by_role("article")
        reports.nth(19).wait_for()
        assert "reason 20" in reports.first.inner_text()
        assert f"a90b: {EVIL}" in reports.first.inner_text()
        assert "not verified" not in reports.first.inner_text()
        assert "not verified" in reports.nth(1).inner_text()
        card(page, "Chat reports").get_by_role("button", name="More").click()
        reports.nth(20).wait_for()
        assert "reason 0" in reports.last.inner_text()


def test_the_newest_comments_of_all_products_are_moderated(browser: Browser, product: Run) -> None:
    product.call("PUT", "/products/pan", {"ratings": "off"}, product.token("a", "admin"))
    body = {"language": "en", "text": "without a rating"}
    assert product.call("POST", "/products/pan/comments", body, product.token("writer"))[0] == 201
    for item in ("kettle", "teapot"):
        comment(product, item, "writer", f"on the {item}")
    with admin_page(browser, product) as page:
        comments = card(page, "Comments").get_by_role("article")
        comments.filter(has_text="on the teapot").wait_for()
        comments.filter(has_text="on the teapot").get_by_label("2 of 5 stars").wait_for()
        without = comments.filter(has_text="without a rating")
        without.wait_for()
        assert without.locator(".stars").count() == 0
        kettle = comments.filter(has_text="on the kettle")
        kettle.get_by_role("button", name="Hide").click()
        kettle.get_by_role("button", name="Show again").wait_for()
        kettle.get_by_role("link", name="kettle").click()
        page.wait_for_url("**#product/kettle")
        card(page, "Comments").get_by_text("No comments.").wait_for()
        card(page, "Comments").get_by_label("Hidden").check(force=True)
        comments.filter(has_text="on the kettle").wait_for()


def test_a_report_is_dismissed_and_another_one_bans(browser: Browser, product: Run) -> None:
    done: list[tuple[str, object]] = []
    report = {"time": "2026-07-01T22:30:00Z", "lobby": "main", "reporter": "a", "reported": "b"}
    items: list[dict[str, Any]] = [
        report | {"id": name, "reason": name, "messages": []} for name in ("first", "second")
    ]

    def act(route: Route) -> None:
        done.append((route.request.url.rpartition("/")[2], route.request.post_data_json))
        route.fulfill(status=204)

    with open_page(browser, "about:blank") as page:
        page.route("**/chat/reports", lambda route: route.fulfill(json={"items": items, "cursor": None}))
        page.route("**/chat/reports/*", act)
        page.goto(f"{product.page}web/admin.html")
        sign_in(page, product.token("admin-1", "admin"))
        reports = card(page, "Chat reports").get_by_role("article")
        reports.filter(has_text="first").get_by_role("button", name="Dismiss").click()
        reports.filter(has_text="first").wait_for(state="detached")
        reports.get_by_label("Length of the ban").select_option("7 days")
        reports.get_by_role("button", name="Ban").click()
        reports.get_by_role("button", name="Ban? Press again.").click()
        reports.wait_for(state="detached")
    assert done == [("first", {"action": "dismiss"}), ("second", {"action": "ban", "hours": 168})]


# -- lists ---------------------------------------------------------------------------------------------


def test_lists_are_searched_and_lead_to_what_they_name(browser: Browser, product: Run) -> None:
    admin = product.token("a", "admin")
    for name in ("spring", "autumn"):
        body = {"title": f"The {name} hunt", "paths": ["a"], "limit": 1}
        assert product.call("PUT", f"/challenges/{name}", body, admin)[0] == 201
    comment(product, "lamp", "me", "bright")
    with admin_page(browser, product) as page:
        challenges = card(page, "Challenges")
        challenges.get_by_role("link", name="The spring hunt").wait_for()
        challenges.get_by_label("Search challenges").fill("AUT")
        challenges.get_by_role("link", name="The spring hunt").wait_for(state="detached")
        challenges.get_by_role("link", name="The autumn hunt").click()
        card(page, "Define a challenge").get_by_text("Loaded: The autumn hunt.").wait_for()
        challenges.get_by_label("Search challenges").fill("winter")
        challenges.get_by_text("No matches.").wait_for()
        card(page, "Products").get_by_role("link", name="lamp").click()
        card(page, "Comments").get_by_text("bright").wait_for()


# -- the stream ----------------------------------------------------------------------------------------


def test_it_shows_the_lag_and_the_quarantine(browser: Browser, product: Run) -> None:
    from playwright.sync_api import expect

    image = {"pk": {"S": "PRODUCT#a"}, "sk": {"S": "COMMENT#1"}, "text": {"S": EVIL}}
    poison = Poison(image, 1, "KeyError: 'rating'")
    with admin_page(browser, product) as page:
        stream = card(page, "Stream")
        stream.get_by_text("The quarantine is empty.").wait_for()
        stream.get_by_text("write-to-count delay", exact=True).wait_for()
        expect(stream.locator("#behind")).to_have_text(re.compile(" m?s$"))
        now = int(datetime.now(UTC).timestamp())
        put(product, quarantine.build_item(os.urandom(12), now, poison, now))
        stream.get_by_role("button", name="Refresh").click()
        entry = stream.get_by_role("article")
        entry.get_by_text("KeyError: 'rating'").wait_for()
        expect(entry).to_contain_text("PRODUCT#a COMMENT#1 · new image")
        expect(entry).to_contain_text(EVIL)


def test_a_stalled_stream_is_highlighted(browser: Browser, product: Run) -> None:
    from playwright.sync_api import expect

    late = {"sent": "2026-11-21T10:00:00Z", "seconds": 754.2, "counted": False}
    with open_page(browser, "about:blank") as page:
        page.route("**/lag", lambda route: route.fulfill(json=late))
        page.goto(f"{product.page}web/admin.html")
        sign_in(page, product.token("admin-1", "admin"))
        card(page, "Stream").get_by_text("13 min or more").wait_for()
        expect(page.locator("#lag")).to_have_class(re.compile("late"))


def test_a_failed_list_shows_the_error_in_its_place(browser: Browser, product: Run) -> None:
    with open_page(browser, "about:blank") as page:
        page.route("**/quarantine", lambda route: route.abort())
        page.goto(f"{product.page}web/admin.html")
        sign_in(page, product.token("admin-1", "admin"))
        card(page, "Stream").get_by_text("No response from the server. Please try again.").wait_for()
        page.unroute("**/quarantine")
        card(page, "Stream").get_by_role("button", name="Retry").click()
        card(page, "Stream").get_by_role("article").or_(
            page.get_by_text("The quarantine is empty.")
        ).wait_for()


# -- a leaderboard -------------------------------------------------------------------------------------


def test_a_board_has_a_page_with_its_players(browser: Browser, product: Run) -> None:
    from playwright.sync_api import expect

    admin = product.token("a", "admin")
    board = {"title": "Hop", "unit": "cm", "operator": "set"}
    assert product.call("PUT", "/leaderboards/hop", board, admin)[0] == 201
    for number in range(25):
        score = {"id": "1", "value": 100 + number, "player": f"p{number}"}
        assert product.call("POST", "/leaderboards/hop/scores", score, admin)[0] == 201
    with open_page(browser, f"{product.page}web/admin.html#leaderboard/hop") as page:
        sign_in(page, admin)
        players = card(page, "Players")
        players.get_by_text("25 players · season 1").wait_for()
        expect(page.locator("#board [name=title]")).to_have_value("Hop")
        rows = players.locator("tbody tr")
        expect(rows).to_have_count(20)
        players.get_by_role("button", name="More").click()
        rows.nth(24).wait_for()
        expect(page.locator("#board-plot .x-title")).to_have_text("Score (cm)")
        players.get_by_label("Show the ranks around a player").fill("p3")
        players.get_by_role("button", name="Find").click()
        row = rows.filter(has=page.get_by_title("p3", exact=True))
        row.get_by_role("button", name="Remove").click()
        row.get_by_role("button", name="Remove? Press again.").click()
        row.wait_for(state="detached")
        assert product.call("GET", "/leaderboards/hop/players/p3")[0] == 404
        players.get_by_role("button", name="End season 1").click()
        players.get_by_role("button", name="End season 1? Press again.").click()
        players.get_by_text("0 players · season 2").wait_for()


# -- defining ------------------------------------------------------------------------------------------


def test_a_leaderboard_is_defined_and_errors_are_shown_at_their_fields(
    browser: Browser, product: Run
) -> None:
    from playwright.sync_api import expect

    with admin_page(browser, product) as page:
        form = card(page, "Define a leaderboard")
        form.get_by_role("button", name="Save").click()
        form.get_by_text("Please enter a name.").wait_for()
        form.get_by_label("Name").fill("sprint")
        form.get_by_label("Title").fill(EVIL)
        form.get_by_label("Decimals").fill("12")
        form.get_by_role("button", name="Save").click()
        form.get_by_role("alert").filter(has_text="decimals").wait_for()
        expect(form.get_by_label("Decimals")).to_have_attribute("aria-invalid", "true")
        form.get_by_label("Decimals").fill("2")
        form.get_by_label("Best score").select_option("the lowest")
        form.get_by_label("A new value").select_option("replaces a worse score")
        form.get_by_label("Resets").fill("2030-01-01T00:00")
        form.get_by_label("Equal scores").select_option("the earlier is ahead")
        form.get_by_label("Submitted by").select_option("Your server")
        form.get_by_label("Guests may submit").uncheck()
        form.get_by_label("metadata").check()
        form.get_by_role("button", name="Save").click()
        form.get_by_text(f"Saved: {EVIL}.").wait_for()
        form.get_by_label("Decimals").fill("3")
        form.get_by_role("button", name="Save").click()
        form.get_by_role("alert").filter(has_text="decimals").wait_for()
        form.get_by_role("button", name="Load").click()
        form.get_by_text(f"Loaded: {EVIL}.").wait_for()
        expect(form.get_by_label("Decimals")).to_have_value("2")
        expect(form.get_by_label("Resets")).to_have_value("2030-01-01T00:00")
        form.get_by_role("button", name="Save").click()
        form.get_by_text(f"Saved: {EVIL}.").wait_for()
        board = product.call("GET", "/leaderboards/sprint")[1]
        assert board["resets"] == "2030-01-01T00:00:00Z"
        form.get_by_label("New season every").select_option("week")
        form.get_by_label("Time zone of the seasons").fill("Europe/Berlin")
        form.get_by_role("button", name="Save").click()
        form.get_by_text(f"Saved: {EVIL}.").wait_for()
        form.get_by_role("button", name="Load").click()
        form.get_by_text(f"Loaded: {EVIL}.").wait_for()
        expect(form.get_by_label("Time zone of the seasons")).to_have_value("Europe/Berlin")
    board = product.call("GET", "/leaderboards/sprint")[1]
    said = {
        "title": EVIL,
        "decimals": 2,
        "order": "asc",
        "operator": "best",
        "resets": {"every": "week", "timezone": "Europe/Berlin"},
        "ties": "first",
        "submit": "server",
        "guests": False,
        "metadata": True,
    }
    assert board | said == board


def test_a_site_is_defined_in_one_form(browser: Browser, product: Run) -> None:
    from playwright.sync_api import expect

    with admin_page(browser, product) as page:
        form = card(page, "Define a site")
        form.get_by_label("Host", exact=True).fill("www.example.org")
        form.get_by_label("Time zone").fill("Europe/Nowhere")
        form.get_by_role("button", name="Save").click()
        form.get_by_role("alert").filter(has_text="timezone").wait_for()
        expect(form.get_by_label("Time zone")).to_have_attribute("aria-invalid", "true")
        form.get_by_label("Time zone").fill("Asia/Kathmandu")
        form.get_by_label("Statistics").select_option("private")
        form.get_by_label("Paths").fill("/blog/*\n/")
        form.get_by_label("Every parameter").uncheck()
        form.get_by_label("only these").fill("page, id")
        form.get_by_label("A slash").select_option("is removed")
        form.get_by_label("routes").check()
        form.get_by_label("Addresses").fill("203.0.113.0/24")
        form.get_by_label("Other hosts").fill("example.org")
        form.get_by_role("button", name="Save").click()
        form.get_by_text("Saved: www.example.org.").wait_for()
        form.get_by_label("Paths").fill("")
        form.get_by_role("button", name="Load").click()
        form.get_by_text("Loaded: www.example.org.").wait_for()
        expect(form.get_by_label("Paths")).to_have_value("/blog/*\n/")
        expect(form.get_by_label("only these")).to_have_value("page, id")
    site = product.call("GET", "/sites/www.example.org", token=product.token("admin-1", "admin"))[1]
    assert site == {
        "site": "www.example.org",
        "timezone": "Asia/Kathmandu",
        "since": None,
        "statistics": "private",
        "paths": ["/blog/*", "/"],
        "query": ["page", "id"],
        "slash": "strip",
        "hash": True,
        "ignore": ["203.0.113.0/24"],
        "hosts": ["example.org"],
    }


def test_a_challenge_is_defined_and_played(browser: Browser, product: Run) -> None:
    with admin_page(browser, product) as page:
        form = card(page, "Define a challenge")
        form.get_by_label("Name").fill("hunt")
        form.get_by_label("Title").fill("Treasure hunt")
        form.get_by_role("button", name="Save").click()
        form.get_by_role("alert").filter(has_text="paths").wait_for()
        form.get_by_label("Valid paths").fill("oak/bridge\n\n  oak/well  \n")
        form.get_by_label("Paths a player may find").fill("2")
        form.get_by_label("Rank the players").check()
        form.get_by_role("button", name="Save").click()
        form.get_by_text("Saved: Treasure hunt.").wait_for()
        form.get_by_role("button", name="Load").click()
        form.get_by_text("Loaded: Treasure hunt.").wait_for()
    challenge = product.call("GET", "/challenges/hunt")[1]
    assert (challenge["limit"], challenge["ranked"]) == (2, True)
    found = product.call("POST", "/challenges/hunt/paths", {"path": "oak/well"}, product.token("me"))
    assert found == (201, {"path": "oak/well", "found": 1, "limit": 2})


# -- all of it -----------------------------------------------------------------------------------------


def test_it_is_accessible_and_fits_a_phone(browser: Browser, product: Run) -> None:
    from playwright.sync_api import expect

    comment(product, "shoe", "me", "w" * 400)
    with open_page(browser, f"{product.page}web/admin.html", viewport={"width": 360, "height": 740}) as page:
        assert find_accessibility_violations(page) == []
        assert measure_overflow(page) <= 0
        sign_in(page, product.token("admin-1", "admin"))
        expect(page.locator("#sign-out")).to_be_visible()
        shown = page.locator("#sign-out").bounding_box()
        assert shown
        assert shown["x"] + shown["width"] <= 360, "the button that signs out is in the window"
        assert page.evaluate("document.querySelector('.top').getBoundingClientRect().height") < 70
        page.get_by_label("Product", exact=True).fill("shoe")
        page.get_by_role("button", name="Show", exact=True).click()
        page.get_by_role("button", name="Hide").click()
        card(page, "Define a leaderboard").get_by_role("button", name="Save").click()
        card(page, "Define a leaderboard").get_by_role("alert").wait_for()
        page.get_by_role("button", name="Show again").wait_for()
        assert find_accessibility_violations(page) == []
        assert measure_overflow(page) <= 0


def test_it_speaks_german(browser: Browser, product: Run) -> None:
    with open_page(browser, f"{product.page}web/admin.html", locale="de-DE") as page:
        page.get_by_role("textbox", name="Token").fill(product.token("admin-1", "admin"))
        page.get_by_role("button", name="Anmelden").click()
        page.get_by_text("Angemeldet als admin-1").wait_for()
        card(page, "Chat-Meldungen").get_by_text("Keine Meldungen.").or_(
            card(page, "Chat-Meldungen").get_by_role("article").first
        ).wait_for()
        assert page.get_attribute("html", "lang") == "de"
