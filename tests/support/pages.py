"""The page in a browser, for the tests: opened, complained about, and asked by its panels."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

from tests.support.running import Run

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

PATIENCE = 60_000  # ms until a test gives up waiting for what should happen at once
# Keeps the sockets that the page opens, so that a test can cut them.
KEEP_SOCKETS = """
window.sockets = [];
const Native = WebSocket;
window.WebSocket = class extends Native {
  constructor(...given) { super(...given); window.sockets.push(this); }
};
"""


@contextmanager
def opened(browser: Browser, url: str, *, script: str = "", **options: Any) -> Iterator[Page]:
    """A page in a context of its own, which knows nothing yet; it must not complain on its console."""
    complaints: list[str] = []
    context = browser.new_context(**options)
    page = context.new_page()
    page.set_default_timeout(PATIENCE)
    page.on("console", lambda said: complaints.append(said.text) if said.type == "error" else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    if script:
        page.add_init_script(script)
    page.goto(url)
    yield page
    context.close()
    # That a call was refused or not answered is the browser's own note; the page says it to its reader.
    known = ("Failed to load resource", "WebSocket connection to")
    complaints = [text for text in complaints if not text.startswith(known)]
    assert not complaints, complaints


def live(page: Page) -> Page:
    """Wait until every panel shows something, and updates are pushed."""
    page.wait_for_selector("#state:text-is('Live')")
    return page


def choose(page: Page, panel: str, name: str) -> None:
    """Let a panel show something else."""
    page.fill(f"#{panel} .choose input", name)
    page.press(f"#{panel} .choose input", "Enter")


def token(run: Run, sub: str, scope: str = "") -> str:
    """A token that a run takes: it has the tests' own secret."""
    from chalicelib.api import auth
    from chalicelib.settings import Settings
    from tests.support.running import ENVIRONMENT

    return auth.mint(Settings(secret=ENVIRONMENT["HUBBUB_SECRET"]), sub, scope=scope)


def faults(page: Page) -> list[str]:
    """What axe finds, in light and in dark, that keeps somebody from using the page."""
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


def overflow(page: Page) -> int:
    """By how many pixels the page is wider than its window."""
    width: int = page.evaluate("document.documentElement.scrollWidth - innerWidth")
    return width
