"""The API reference in a real browser: it lists every call, can send calls, and loads only own files."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING
from urllib.parse import urljoin

import pytest

import app
from chalicelib.api import static
from tests.support.pages import PATIENCE
from tests.support.running import Run

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, Route

pytestmark = pytest.mark.long

BELOW = "http://hubbub.example/api/"  # where a stage of API Gateway has it: below a path


@pytest.fixture(params=["at the root", pytest.param("below a path", marks=pytest.mark.long)])
def page(browser: Browser, product: Run, request: pytest.FixtureRequest) -> Iterator[Page]:
    """The opened page. It must not log errors, and must load only files of its own folder."""
    base = product.page if request.param == "at the root" else BELOW
    asked: list[str] = []
    complaints: list[str] = []
    opened = browser.new_page()
    opened.set_default_timeout(PATIENCE)
    opened.on("request", lambda request: asked.append(request.url))
    opened.on("console", lambda said: complaints.append(said.text) if said.type == "error" else None)
    opened.on("pageerror", lambda error: complaints.append(str(error)))

    def forward(route: Route) -> None:
        route.fulfill(response=route.fetch(url=product.page + route.request.url.removeprefix(BELOW)))

    opened.route(BELOW + "**", forward)
    opened.goto(base + "docs", wait_until="networkidle")
    yield opened
    opened.close()
    assert complaints == []
    assert base + "openapi.json" in asked
    assert [url for url in asked if not url.startswith((base, "data:"))] == []


def test_it_lists_every_call(page: Page) -> None:
    page.wait_for_selector(".opblock")
    shown = {
        (
            block.locator(".opblock-summary-method").inner_text(),
            block.locator("[data-path]").get_attribute("data-path"),
        )
        for block in page.locator(".opblock").all()
    }
    assert shown == {(call.method, call.path) for call in app.router.routes}
    assert page.locator(".info .title").inner_text().startswith("Hubbub")


def test_a_call_can_be_tried(page: Page) -> None:
    block = page.locator("#operations-service-get_health")
    for button in (".opblock-summary-control", ".try-out__btn", ".execute"):
        block.locator(button).click()
    block.locator(".live-responses-table .response-col_status").first.wait_for()
    answer = block.locator(".live-responses-table").inner_text()
    assert "200" in answer
    assert re.search(r'"stage":\s*"local"', answer)


def test_a_call_for_admins_accepts_a_token(page: Page) -> None:
    page.click("#operations-views-get_views_events .authorization__btn")
    page.wait_for_selector(".auth-container >> text=bearer")
    assert "python -m ops token" in page.inner_text(".auth-container")


def test_every_address_in_its_html_is_relative() -> None:
    html = static.serve_swagger_ui().body
    addresses = re.findall(r'(?:src|href)="([^"]*)"', html)
    assert len(addresses) > 3
    for address in addresses:
        assert urljoin(BELOW + "docs", address).startswith((BELOW, "data:")), address
    names = [address.removeprefix("docs/") for address in addresses if address.startswith("docs/")]
    assert all(static.serve_swagger_ui(name).body for name in names)
