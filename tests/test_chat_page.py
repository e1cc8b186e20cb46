"""The chat's page in a real browser: two who join talk, and a connection that is cut comes back by itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.running import Run

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

PATIENCE = 30_000  # ms
# Keeps the sockets that the page opens, so that a test can cut them.
KEEP = """
window.sockets = [];
const Native = WebSocket;
window.WebSocket = class extends Native {
  constructor(...given) { super(...given); window.sockets.push(this); }
};
"""


@pytest.fixture
def two(browser: Browser, product: Run) -> Iterator[list[Page]]:
    """Two pages in one lobby, matched; they must not complain on their console."""
    complaints: list[str] = []
    pages = [browser.new_page() for _ in range(2)]
    for page in pages:
        page.set_default_timeout(PATIENCE)
        page.on("console", lambda said: complaints.append(said.text) if said.type == "error" else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.add_init_script(KEEP)
        page.goto(f"{product.page}web/chat.html?socket=ws://127.0.0.1:{product.socket_port}")
        page.fill("#lobby", "pages")
        page.click("text=Join")
    for page in pages:
        page.wait_for_selector("#state:text-is('Talking')")
    yield pages
    for page in pages:
        page.close()
    assert complaints == []


def say(page: Page, text: str) -> None:
    page.fill("#text", text)
    page.press("#text", "Enter")


def test_two_pages_talk_and_what_is_said_is_text(two: list[Page]) -> None:
    one, other = two
    say(one, "<b>hello</b>")
    other.wait_for_selector("#said p:text-is('they: <b>hello</b>')")
    say(other, "hi")
    one.wait_for_selector("#said p:text-is('they: hi')")
    assert one.locator("#said b").count() == 0


def test_a_page_that_is_cut_finds_its_partner_again(two: list[Page]) -> None:
    one, other = two
    say(one, "before")
    other.wait_for_selector("#said p:text-is('they: before')")
    one.evaluate("window.sockets.at(-1).close(3000)")
    one.wait_for_selector("#state:text-is('Not connected')")
    one.wait_for_selector("#state:text-is('Talking')")
    other.wait_for_selector("#state:text-is('Talking')")
    say(one, "after")
    other.wait_for_selector("#said p:text-is('they: after')")
    assert one.evaluate("window.sockets.length") == 2


def test_a_long_word_stays_inside_the_page(two: list[Page]) -> None:
    one, other = two
    say(one, "w" * 2000)
    other.wait_for_selector("#said .they")
    for page, side in ((one, ".you"), (other, ".they")):
        widths = (
            "line => [line.scrollWidth <= line.clientWidth, line.offsetWidth < line.parentNode.clientWidth]"
        )
        assert page.locator(f"#said {side}").evaluate(widths) == [True, True]


def offered(page: Page) -> list[str]:
    return page.locator("[data-in]:enabled").all_inner_texts()


def test_the_page_offers_what_can_be_done_now(two: list[Page]) -> None:
    one, other = two
    assert offered(one) == ["Say", "Next", "Leave", "Report"]
    one.click("text=Leave")
    other.wait_for_selector("#state:text-is('Waiting')")
    assert offered(one) == ["Next"]
    assert offered(other) == ["Next", "Leave"]
    other.reload()
    assert offered(other) == []


def test_leave_frees_the_other(two: list[Page]) -> None:
    one, other = two
    one.click("text=Leave")
    one.wait_for_selector("#state:text-is('Left')")
    other.wait_for_selector("#state:text-is('Waiting')")
