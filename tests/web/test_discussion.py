"""Comments as a discussion in a real browser: links, permanent links, approval and reports."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from tests.support import running
from tests.support.other_site import OtherSite
from tests.support.pages import find_accessibility_violations, measure_overflow, open_page
from tests.support.running import Run, until
from tests.web.test_dropins import comment, comments

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.long

LINKS = """
found => [...found.querySelectorAll("[part=text]")].map((text) => [
  [...text.querySelectorAll("p")].map((p) => p.textContent),
  [...text.querySelectorAll("a")].map((a) => [a.href, a.rel]),
])
"""


@pytest.fixture(scope="module")
def shop() -> Iterator[OtherSite]:
    with OtherSite() as site:
        yield site


@pytest.fixture(scope="module")
def product(shop: OtherSite, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    with pytest.MonkeyPatch.context() as environment:
        environment.setitem(running.ENVIRONMENT, "HUBBUB_ORIGINS", f"{shop.origin},https://other.example")
        with Run(tmp_path_factory.mktemp("data") / "run", "--no-reload") as run:
            yield run


def admin(run: Run, method: str, path: str, body: Any = None) -> Any:
    status, answer = run.call(method, path, body, run.token("admin-1", "admin"))
    assert status < 300, answer
    return answer


def test_links_are_links_and_paragraphs_are_paragraphs(
    browser: Browser, product: Run, shop: OtherSite
) -> None:
    text = (
        "See https://a.example/x?y=1&z=2. Or (http://b.example/(c)), ok?\nA line.\n\n"
        "javascript:alert(1) <b>https://c.example/<i> **bold** ftp://d.example"
    )
    comment(product, "me", "linked", text=text)
    with open_page(browser, shop.publish("/page", comments(product, "linked"))) as page:
        page.locator("[part~=comment]").wait_for()
        [[lines, links]] = page.locator("hubbub-comments ol").first.evaluate(LINKS)
        assert lines == [
            "See https://a.example/x?y=1&z=2. Or (http://b.example/(c)), ok?\nA line.",
            "javascript:alert(1) <b>https://c.example/<i> **bold** ftp://d.example",
        ]
        addresses = ["https://a.example/x?y=1&z=2", "http://b.example/(c)", "https://c.example/"]
        assert links == [[address, "nofollow ugc noopener"] for address in addresses]


def test_a_permanent_link_opens_a_comment_that_is_not_on_the_first_page(
    browser: Browser, product: Run, shop: OtherSite
) -> None:
    oldest = comment(product, "first", "long", text="The oldest.")
    for number in range(11):
        comment(product, f"author-{number}", "long", text=f"Comment {number}. " + "Word. " * 60)
    below = '<div style="height: 3000px">A long article.</div>' + comments(product, "long")
    with open_page(browser, shop.publish("/page", below)) as page:
        page.goto(f"{page.url}#comment-{oldest['id']}")
        page.reload()
        shown = page.locator("[part~=comment]").filter(has_text="The oldest.")
        shown.wait_for()
        page.wait_for_function(
            "id => document.activeElement.shadowRoot?.activeElement?.dataset.id == id", arg=oldest["id"]
        )
        assert shown.count() == 1
        top = shown.bounding_box()
        assert top
        assert 0 <= top["y"] < 800
        newest = page.locator("[part~=comment]").filter(has_text="Comment 10.")
        newest.locator("[part=permalink]").click()
        page.wait_for_function(
            "() => document.activeElement.shadowRoot.activeElement.textContent.includes('Comment 10.')"
        )
        assert "#comment-" in page.url


def test_a_pending_comment_is_shown_to_its_author_until_it_is_approved(
    browser: Browser, product: Run, shop: OtherSite
) -> None:
    admin(product, "PUT", "/products/careful", {"approve": True})
    with open_page(browser, shop.publish("/page", comments(product, "careful", "me"))) as page:
        page.get_by_role("radio", name="4 star").check(force=True)
        page.get_by_label("Your comment").fill("Is this seen?")
        page.get_by_role("button", name="Comment", exact=True).click()
        mine = page.locator("[part~=mine]")
        mine.get_by_text("Waiting for approval").wait_for()
        assert mine.locator("[part=reactions]").count() == 0
        page.reload()
        mine.get_by_text("Waiting for approval").wait_for()
        assert page.locator("form").count() == 0, "the author has commented"
        assert find_accessibility_violations(page) == []
        [waiting] = admin(product, "GET", "/comments?state=pending")["items"]
        admin(product, "PATCH", f"/products/careful/comments/{waiting['id']}", {"state": "approved"})
        page.reload()
        mine.get_by_text("Is this seen?").wait_for()
        page.wait_for_function(
            "() => !localStorage['hubbub.pending'] || localStorage['hubbub.pending'] == '[]'"
        )
        assert mine.get_by_text("Waiting for approval").count() == 0


def test_a_reader_reports_a_comment_and_a_reply(browser: Browser, product: Run, shop: OtherSite) -> None:
    made = comment(product, "author", "reported", text="An insult.")
    path = f"/products/reported/comments/{made['id']}/replies"
    assert product.call("POST", path, {"text": "Another."}, product.token("replier"))[0] == 201
    with open_page(browser, shop.publish("/page", comments(product, "reported", "reader"))) as page:
        page.get_by_role("button", name="1 reply").click()
        page.get_by_text("Another.").wait_for()
        for number in range(2):
            page.get_by_role("button", name="Report", exact=True).first.click()
            page.get_by_label("What is wrong with it?").fill(f"Reason {number}")
            said = page.get_by_text(("An insult.", "Another.")[number]).bounding_box()
            form = page.locator("[part=report]").bounding_box()
            assert said
            assert form
            assert form["y"] >= said["y"] + said["height"], "the form stands below the text"
            assert find_accessibility_violations(page) == []
            page.locator("[part=report]").get_by_role("button", name="Report").click()
            page.get_by_text("Reported. Thank you.").nth(number).wait_for()
        assert measure_overflow(page) <= 0
    found = until(lambda: admin(product, "GET", "/comments/reports")["items"], "reports")
    assert sorted((item["text"], item["reasons"]) for item in found) == [
        ("An insult.", ["Reason 0"]),
        ("Another.", ["Reason 1"]),
    ]


def test_the_discussion_speaks_german(browser: Browser, product: Run, shop: OtherSite) -> None:
    admin(product, "PUT", "/products/vorsicht", {"approve": True})
    html = comments(product, "vorsicht", "ich", lang="de")
    with open_page(browser, shop.publish("/page", html)) as page:
        page.get_by_role("radio", name="4 Stern").check(force=True)
        page.get_by_label("Dein Kommentar").fill("Passt.")
        page.get_by_role("button", name="Kommentieren", exact=True).click()
        page.get_by_text("Wartet auf Freigabe").wait_for()
