"""Helpers for the tests of pages in a browser."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

from local.engines.engine import ROOT
from tests.support.running import ENVIRONMENT, Run

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
    try:
        page.goto(url)
        yield page
    except Exception as error:
        error.add_note(f"The page shows:\n{page.inner_text('body')}\nIts console: {errors}")
        raise
    context.close()
    # The browser itself logs calls that failed. The page shows those errors to its visitor.
    known = ("Failed to load resource", "WebSocket connection to")
    errors = [text for text in errors if not text.startswith(known)]
    assert not errors, errors


def wait_until_live(page: Page) -> Page:
    """Wait until the dashboard has loaded and updates are pushed."""
    page.wait_for_selector("#state:text-is('Live')")
    return page


FEATURES = ("views", "leaderboard", "challenge", "comments", "chat")


def show(page: Page, *features: str) -> Page:
    """Scroll to features of the front page, which load when they come near, and wait for them."""
    for name in features or FEATURES:
        widgets = page.locator(f"#{name} .shown > [api]")
        widgets.last.scroll_into_view_if_needed()
        for widget in widgets.all():
            widget.locator("xpath=self::*[@data-state and @data-state != 'loading']").wait_for()
    return page


def choose(page: Page, feature: str, name: str) -> None:
    """Enter a name into the form that chooses what a feature of the front page shows."""
    page.fill(f"#{feature} .choose input", name)
    page.press(f"#{feature} .choose input", "Enter")


# A page's script fills in its words and then shows its main part. A page that a test builds may have neither.
READY = """() => {
  const visible = (element) => element.checkVisibility();
  const mains = [...document.querySelectorAll("main")];
  const unworded = [...document.querySelectorAll("[data-words]:empty")];
  return (!mains.length || mains.some(visible)) && !unworded.some(visible);
}"""


def find_accessibility_violations(page: Page) -> list[str]:
    """Wait until the page has its words. Return what axe finds in light and in dark colours."""
    from axe_playwright_python.sync_playwright import Axe

    page.wait_for_function(READY)
    found: list[str] = []
    schemes: tuple[Literal["light"], Literal["dark"]] = ("light", "dark")
    for scheme in schemes:
        page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        found += [
            f"{scheme}: {violation['id']}: {node['html']} {node['failureSummary']}"
            for violation in Axe().run(page).response["violations"]
            for node in violation["nodes"]
        ]
    return found


LOG_SITE = "www.semicomplete.com"


def import_log(run: Run) -> None:
    """Import the real access log of the README, whose paths are long."""
    endpoint = f"http://127.0.0.1:{run.engine_port}"
    command = [sys.executable, "-m", "ops", "import-log", "tests/data/access.log.gz"]
    subprocess.run(
        [*command, "--site", f"http://{LOG_SITE}"],
        cwd=ROOT,
        env=ENVIRONMENT | {"HUBBUB_ENDPOINT": endpoint},
        check=True,
        capture_output=True,
    )


def find_overlaps(page: Page, selector: str) -> list[str]:
    """Return pairs of visible elements that cover each other although neither contains the other."""
    found: list[str] = page.locator(selector).evaluate_all(
        """found => {
          const all = found.filter((one) => one.offsetWidth);
          const boxes = all.map((one) => one.getBoundingClientRect());
          const isOver = (a, b) => a.left < b.right - 1 && b.left < a.right - 1
            && a.top < b.bottom - 1 && b.top < a.bottom - 1;
          return all.flatMap((one, i) => all.slice(i + 1).flatMap((other, j) => (
            !one.contains(other) && !other.contains(one) && isOver(boxes[i], boxes[i + 1 + j])
              ? [`${one.outerHTML.slice(0, 120)} | ${other.outerHTML.slice(0, 120)}`] : [])));
        }"""
    )
    return found


def find_cut_labels(page: Page) -> list[str]:
    """Return the labels of plots that leave their plot or the window."""
    found: list[str] = page.locator(".tick, .mark, .x-title, .y-title").evaluate_all(
        """labels => labels.filter((label) => {
          const box = label.getBoundingClientRect(), plot = label.closest(".plot").getBoundingClientRect();
          return box.left < plot.left - 1 || box.right > plot.right + 1 || box.top < plot.top - 1
            || box.bottom > plot.bottom + 1 || box.left < 0 || box.right > innerWidth;
        }).map((label) => label.outerHTML)"""
    )
    return found


def measure_overflow(page: Page) -> int:
    """Return by how many pixels the page is wider than its window."""
    width: int = page.evaluate("document.documentElement.scrollWidth - innerWidth")
    return width
