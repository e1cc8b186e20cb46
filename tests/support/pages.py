"""Helpers for the tests of pages in a browser."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

from tests.support.running import Run

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

PATIENCE = 60_000  # ms until a test gives up waiting
# Keeps the sockets that the page opens, so that a test can close them.
KEEP_SOCKETS = """
window.sockets = [];
const Native = WebSocket;
window.WebSocket = class extends Native {
  constructor(...given) { super(...given); window.sockets.push(this); }
};
"""


@contextmanager
def open_page(browser: Browser, url: str, *, script: str = "", **options: Any) -> Iterator[Page]:
    """Open a page in a new context. Fail if it logs an error on its console."""
    errors: list[str] = []
    context = browser.new_context(**options)
    page = context.new_page()
    page.set_default_timeout(PATIENCE)
    page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: errors.append(str(error)))
    if script:
        page.add_init_script(script)
    page.goto(url)
    yield page
    context.close()
    # The browser itself logs calls that failed. The page shows those errors to its visitor.
    known = ("Failed to load resource", "WebSocket connection to")
    errors = [text for text in errors if not text.startswith(known)]
    assert not errors, errors


def wait_until_live(page: Page) -> Page:
    """Wait until every panel has loaded and updates are pushed."""
    page.wait_for_selector("#state:text-is('Live')")
    return page


def choose(page: Page, panel: str, name: str) -> None:
    """Enter a name into the form that chooses what a panel shows."""
    page.fill(f"#{panel} .choose input", name)
    page.press(f"#{panel} .choose input", "Enter")


def token(run: Run, sub: str, scope: str = "") -> str:
    """Return a token that a run accepts, signed with the tests' secret."""
    from chalicelib.api import auth
    from chalicelib.settings import Settings
    from tests.support.running import ENVIRONMENT

    return auth.mint(Settings(secret=ENVIRONMENT["HUBBUB_SECRET"]), sub, scope=scope)


def find_accessibility_violations(page: Page) -> list[str]:
    """Return the serious and critical violations that axe finds in light and in dark colours."""
    from axe_playwright_python.sync_playwright import Axe

    found: list[str] = []
    schemes: tuple[Literal["light"], Literal["dark"]] = ("light", "dark")
    for scheme in schemes:
        page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        found += [
            f"{scheme}: {one['id']}: {node['html']} {node['failureSummary']}"
            for one in Axe().run(page).response["violations"]
            if one["impact"] in ("serious", "critical")
            for node in one["nodes"]
        ]
    return found


def measure_overflow(page: Page) -> int:
    """Return by how many pixels the page is wider than its window."""
    width: int = page.evaluate("document.documentElement.scrollWidth - innerWidth")
    return width
