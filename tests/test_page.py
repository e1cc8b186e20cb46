"""The page in a real browser, on the whole product: it loads, counts live, and says when it cannot."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.running import Run

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

ROOT = Path(__file__).parents[1]
PATIENCE = 30_000  # ms until a test gives up waiting for what should happen at once


@pytest.fixture
def page(browser: Browser, product: Run) -> Iterator[Page]:
    """The page, just opened in a browser that knows nothing yet; it must not complain on its console."""
    complaints: list[str] = []
    opened = browser.new_page()
    opened.set_default_timeout(PATIENCE)
    opened.on("console", lambda said: complaints.append(said.text) if said.type == "error" else None)
    opened.on("pageerror", lambda error: complaints.append(str(error)))
    opened.goto(product.page)
    opened.wait_for_selector("#state[data-state=live]")
    yield opened
    opened.close()
    # That a call was refused or not answered is the browser's own note; the page says it to its reader.
    assert [text for text in complaints if not text.startswith("Failed to load resource")] == []


def show(page: Page, site: str) -> None:
    page.fill("#site", site)
    page.press("#site", "Enter")
    page.wait_for_selector("#empty:visible, #pages:visible")


def wait_for_views(page: Page, number: int, timeout: int = 2_000) -> None:
    page.wait_for_selector(f"#views:text-is('{number}')", timeout=timeout)
    page.wait_for_selector(f"#rows td.number:text-is('{number}')", timeout=timeout)


def test_the_page_loads_without_a_failed_request(browser: Browser, product: Run) -> None:
    page = browser.new_page()
    failed: list[str] = []
    page.on("requestfailed", lambda request: failed.append(request.url))
    page.on("response", lambda response: None if response.ok else failed.append(response.url))
    page.goto(product.page, wait_until="networkidle")
    page.close()
    assert failed == []


def test_a_site_without_views_says_how_to_get_some(page: Page) -> None:
    assert page.title() == "Hubbub"
    assert page.input_value("#site") == "example.org"
    assert "No views of example.org yet." in page.inner_text("#empty")
    assert "python -m ops import-log --site https://example.org" in page.inner_text("#command")


def test_a_view_sent_is_seen_within_two_seconds_and_25_more_make_26(page: Page) -> None:
    show(page, "live.example.org")
    page.click("text=Send a view")
    wait_for_views(page, 1)
    page.wait_for_selector("#sent:has-text('1 view counted: visible')")
    page.click("text=Send 25 from 25 clients")
    wait_for_views(page, 26)
    page.wait_for_selector("#uniques:text-is('26')")
    sent = re.fullmatch(r"25 views counted: visible (\d+) ms after the POST\.", page.inner_text("#sent"))
    assert sent
    assert 0 < int(sent[1]) < 2_000
    page.wait_for_selector("#readout:has-text('26 views in this time.')")
    assert page.locator("#series rect.views").count() == 1
    page.focus("#series")
    page.press("#series", "End")
    assert page.inner_text("#readout").endswith(": 26 views, 26 uniques")
    page.wait_for_selector("#badge[alt='Badge: 26 views']")
    assert page.evaluate("document.getElementById('badge').naturalWidth") > 0
    posted = page.locator("#calls tr", has_text="POST").inner_text().split()
    assert posted[:3] == ["POST", "/views", "202"]


def test_the_site_typed_last_is_shown_again(page: Page) -> None:
    show(page, "https://again.example.org/of/no/matter")
    page.reload()
    page.wait_for_selector("#empty:visible")
    assert page.input_value("#site") == "again.example.org"


def test_what_a_visitor_types_is_text(page: Page) -> None:
    show(page, "text.example.org")
    page.fill("#path", "/<img src=x onerror=alert(1)>")
    page.click("text=Send a view")
    wait_for_views(page, 1)
    assert page.locator("#rows img").count() == 0
    page.fill("#path", "/another")
    page.click("text=Send a view")
    page.wait_for_selector("#rows tr:nth-child(2)")
    page.click("#rows button:has-text('img')")
    page.wait_for_selector("#address:has-text('img')")
    assert page.locator("#of-page img").count() == 1  # the badge


def test_a_site_that_is_no_host_is_an_error_until_another_is_shown(page: Page) -> None:
    with page.expect_response(lambda response: response.status == 400):
        page.fill("#site", "not a host")
        page.press("#site", "Enter")
    page.wait_for_selector("#notice:has-text('site:')")
    show(page, "example.org")
    assert page.locator("#notice").is_hidden()


def test_views_outside_the_time_frame_are_found(page: Page) -> None:
    show(page, "past.example.org")
    page.click("text=Send 25 from 25 clients")
    wait_for_views(page, 25)
    page.fill("#from", "2015-05-01")
    page.fill("#to", "2015-06-01")
    page.wait_for_selector("#outside-text:has-text('25 views at other times')")
    page.click("#later")
    page.wait_for_selector("#readout:has-text('25 views in this time.')")
    assert page.locator("#series rect.views").count() == 1


def test_the_page_fits_a_phone(page: Page) -> None:
    page.set_viewport_size({"width": 360, "height": 740})
    show(page, "live.example.org")
    assert page.evaluate("document.documentElement.scrollWidth") <= 360


# Last, for it stops the product.
def test_a_product_that_is_stopped_is_shown_as_offline(page: Page, product: Run) -> None:
    show(page, "live.example.org")
    wait_for_views(page, 26)
    product.interrupt()
    page.wait_for_selector("#state[data-state=offline]")
    assert "Hubbub does not answer." in page.inner_text("#notice")
    assert page.inner_text("#views") == "26"
