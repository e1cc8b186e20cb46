"""The API reference in a real browser: it lists every call, can send calls, and loads only own files."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal
from urllib.parse import urljoin

import pytest
from axe_playwright_python.sync_playwright import Axe

import app
from chalicelib.api import static
from tests.support.pages import PATIENCE, measure_overflow
from tests.support.running import Run

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, Route

pytestmark = pytest.mark.long

SETTLED = """
() => {
  const moving = document.querySelector("openapi-explorer").shadowRoot.getAnimations();
  return Promise.all(moving.map(({ finished }) => finished.then(() => {})));
}
"""
NARROW = 768  # pixels, up to which the reference has no list of calls
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
        headers = {name: value for name, value in route.request.headers.items() if name != "origin"}
        address = product.page + route.request.url.removeprefix(BELOW)
        route.fulfill(response=route.fetch(url=address, headers=headers))

    opened.route(BELOW + "**", forward)
    opened.goto(base + "docs", wait_until="networkidle")
    yield opened
    opened.close()
    assert complaints == []
    assert base + "openapi.json" in asked
    assert [url for url in asked if not url.startswith((base, "data:"))] == []


def test_it_lists_every_call(page: Page) -> None:
    links = page.locator("openapi-explorer [id^=link-]")
    links.nth(len(app.router.routes)).wait_for(state="attached")
    shown = {str(link.get_attribute("id")).removeprefix("link-") for link in links.all()}
    assert shown >= {f"{call.method.lower()}-{re.sub('[{}]', '-', call.path)}" for call in app.router.routes}


def test_a_call_can_be_tried(page: Page) -> None:
    page.locator("[id='link-get-/health']").click()
    page.get_by_role("button", name="Execute").click()
    page.get_by_text("Response Status: OK (200)").wait_for()


def test_a_call_for_admins_accepts_a_token(page: Page) -> None:
    page.locator("[id='link-auth']").click()
    page.get_by_text("hubbub token").first.wait_for()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_axe_finds_nothing(
    browser: Browser, product: Run, width: int, scheme: Literal["light", "dark"]
) -> None:
    with browser.new_page(color_scheme=scheme, viewport={"width": width, "height": 900}) as opened:
        opened.goto(product.page + "docs", wait_until="networkidle")
        if width > NARROW:  # narrower, the calls are below each other
            opened.locator("[id='link-get-/lag']").click()
            opened.get_by_role("button", name="Execute").click()
            opened.get_by_text("Response Status: Unauthorized (401)").wait_for()
            opened.mouse.move(0, 0)  # the button that was clicked changes its colour slowly
            opened.evaluate(SETTLED)
        assert measure_overflow(opened) <= 0
        assert Axe().run(opened).response["violations"] == []


def test_every_address_in_its_html_is_relative() -> None:
    html = static.serve_reference().body
    addresses = re.findall(r'(?:src|href)="([^"]*)"', html)
    assert len(addresses) > 3
    for address in addresses:
        assert urljoin(BELOW + "docs", address).startswith((BELOW, "data:")), address
    names = [address.removeprefix("docs/") for address in addresses if address.startswith("docs/")]
    assert all(static.serve_reference(name).body for name in names)
