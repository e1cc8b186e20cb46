"""The chat in a real browser: two tabs chat, report, and reconnect."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.pages import KEEP_SOCKETS, open_page, open_tools
from tests.support.running import Run, until

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.long


TALKING = "#chat [data-state=matched]"


def join(page: Page, lobby: str) -> None:
    page.fill("#chat [name=lobby]", lobby)
    page.click("#chat >> text=Join")


@pytest.fixture
def two(browser: Browser, product: Run, request: pytest.FixtureRequest) -> Iterator[list[Page]]:
    """Two matched pages in their own lobby."""
    with ExitStack() as stack:
        pages = [stack.enter_context(open_page(browser, product.page, script=KEEP_SOCKETS)) for _ in range(2)]
        for page in pages:
            join(page, request.node.name[:60])
        for page in pages:
            page.wait_for_selector(TALKING)
        yield pages


def say(page: Page, text: str) -> None:
    page.fill("#chat [name=text]", text)
    page.press("#chat [name=text]", "Enter")


def offered(page: Page) -> list[str]:
    return page.locator("#chat .body button:enabled").all_inner_texts()


def test_two_tabs_chat_and_messages_are_shown_as_text(two: list[Page]) -> None:
    one, other = two
    one.type("#chat [name=text]", "h")
    other.wait_for_selector("#chat .typing:text-is('The stranger is typing …')")
    say(one, "<b>hello</b>")
    other.wait_for_selector("#chat .they:has-text('<b>hello</b>')")
    say(other, "hi")
    one.wait_for_selector("#chat .they:has-text('hi')")
    assert one.locator("#chat .said-here b").count() == 0
    open_tools(one, "chat")
    assert "SEND message" in one.inner_text("#chat .calls").replace("\n", " ")


def test_a_tab_that_lost_its_connection_resumes_with_its_partner(two: list[Page]) -> None:
    one, other = two
    say(one, "before")
    other.wait_for_selector("#chat .they:has-text('before')")
    one.evaluate("window.sockets.findLast((socket) => socket.url.includes('lobby=')).close(3000)")
    one.wait_for_selector("#chat [data-state=lost]")
    one.wait_for_selector(TALKING)
    other.wait_for_selector(TALKING)
    say(one, "after")
    other.wait_for_selector("#chat .they:has-text('after')")


def test_a_reload_keeps_the_partner(two: list[Page]) -> None:
    one, other = two
    one.reload()
    one.wait_for_selector("#chat .event:text-is('You are connected with the same stranger again.')")
    other.wait_for_selector(TALKING)
    say(other, "still there?")
    one.wait_for_selector("#chat .they:has-text('still there?')")
    one.click("#chat >> text=Leave")
    one.reload()
    one.wait_for_selector("#state[data-state=live]")
    assert one.get_attribute("#chat .chat-state", "data-state") == "offline"


def test_a_message_that_was_refused_is_marked_and_can_be_sent_again(two: list[Page]) -> None:
    one, other = two
    for number in range(31):  # one more than a connection may send in ten seconds
        say(one, f"line {number}")
    refused = one.locator("#chat .refused")
    refused.first.wait_for()
    assert "Not sent. You are sending too fast." in refused.first.inner_text()
    settled = "() => !document.querySelector('#chat .on-the-way')"

    def send_again() -> str:
        """Send the first refused message again. Return it if the server has taken it."""
        one.wait_for_function(settled)
        before = refused.count()
        [said] = re.findall(r"line \d+", refused.first.inner_text())
        refused.first.get_by_role("button", name="Send again").click()
        one.wait_for_function(settled)
        return str(said) if refused.count() < before else ""

    one.wait_for_function(settled)
    said = until(send_again, "room in the window of ten seconds")
    other.wait_for_selector(f"#chat .they:has-text('{said}')")


def test_messages_have_times_and_a_stranger_who_leaves_is_announced(two: list[Page]) -> None:
    one, other = two
    say(one, "hello")
    other.wait_for_selector("#chat .they time:text-matches('^[0-9]{2}:[0-9]{2}$')")
    assert str(other.get_attribute("#chat .they time", "title")).endswith(" UTC")
    one.wait_for_selector("#chat .you time")
    assert one.locator("#chat .hint").count() == 0
    one.click("#chat >> text=Leave")
    one.wait_for_selector("#chat .event:text-is('You have left the chat.')")
    other.wait_for_selector("#chat .event:text-is('The stranger has left.')")


def test_a_long_word_stays_inside_the_page(two: list[Page]) -> None:
    one, other = two
    say(one, "w" * 2000)
    other.wait_for_selector("#chat .they")
    fits = "line => [line.scrollWidth <= line.clientWidth, line.offsetWidth < line.parentNode.clientWidth]"
    for page, side in ((one, ".you"), (other, ".they")):
        assert page.locator(f"#chat {side}").evaluate(fits) == [True, True]


@pytest.mark.long
def test_only_the_buttons_that_apply_are_enabled(two: list[Page]) -> None:
    one, other = two
    assert offered(one) == ["Join again", "Send", "Next", "Leave", "Report"]
    one.click("#chat >> text=Leave")
    other.wait_for_selector("#chat [data-state=waiting]")
    assert offered(one) == ["Join again", "Next"]
    assert offered(other) == ["Join again", "Next", "Leave"]
    one.click("#chat >> text=Next")
    one.wait_for_selector(TALKING)
    other.click("#chat >> text=Leave")
    other.reload()
    other.wait_for_selector("#state[data-state=live]")
    assert offered(other) == ["Join"]


def test_a_report_ends_the_chat_and_reaches_the_admin(two: list[Page], product: Run) -> None:
    from tests.support.pages import token

    one, other = two
    for line in ("買" * 1500, "買" * 1400, "buy this"):  # together more bytes than a frame may have
        say(other, line)
    one.wait_for_selector("#chat .they:has-text('buy this')")
    one.click("#chat >> text=Report")
    one.select_option("#chat [name=reason]", "Advertising")
    one.click("text=Send report")
    one.wait_for_selector("#chat .event:has-text('Your report was sent.')")
    for page in two:
        page.wait_for_selector("#chat [data-state=waiting]")
    _, answer = product.call("GET", "/chat/reports", token=token(product, "a", "admin"))
    [report] = answer["items"]
    assert report["reason"] == "Advertising"
    assert report["messages"] == [
        {"author": "reported", "text": text, "proved": True} for text in ("買" * 1400, "buy this")
    ]


@pytest.mark.long
def test_pages_reconnect_and_chat_again_after_a_restart_of_the_gateway(
    browser: Browser, tmp_path: Path
) -> None:
    with ExitStack() as stack:
        run = stack.enter_context(Run(tmp_path / "run", "--no-reload"))
        pages = [stack.enter_context(open_page(browser, run.page)) for _ in range(2)]
        for page in pages:
            join(page, "restart")
        for page in pages:
            page.wait_for_selector(TALKING)
        run.interrupt()
        for page in pages:
            page.wait_for_selector("#chat [data-state=lost]")
        run.begin()
        run.wait_for("ready")
        for page in pages:
            page.wait_for_selector("#state:text-is('Live')", timeout=60_000)
            page.wait_for_selector(TALKING, timeout=60_000)
        say(pages[0], "again")
        pages[1].wait_for_selector("#chat .they:has-text('again')")
