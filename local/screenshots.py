"""`python -m local.screenshots`: take the screenshots of the pages, from a temporary run with real data.

The access log, the race and the reviews are those of `tests/data`. The log's times are moved by whole hours,
so that its last view is of the last hour. Only the challenge is from the demo.
"""

from __future__ import annotations

import gzip
import os
import re
import secrets
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import click

from local.engines.engine import ROOT
from local.ports import free_ports

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

PATIENCE = 120_000  # ms
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
WIDE = {"width": 1280, "height": 1240}
NARROW = {"width": 390, "height": 844}
WINDOWS: dict[str, dict[str, object]] = {
    "": {"viewport": WIDE, "color_scheme": "light"},
    "-dark": {"viewport": WIDE, "color_scheme": "dark"},
    "-phone": {"viewport": NARROW, "device_scale_factor": 2},
}
SITE = "www.semicomplete.com"
BOARD, FINISHERS = "race", 500
READER, MINUTES = "quiet-reader", "159.50"
PRODUCT = "garment-1078"
FOUND = ("Berlin", "Bogotá", "Budapest")
LOG, RACE, REVIEWS = (
    ROOT / "tests" / "data" / name for name in ("access.log.gz", "race-2010.csv.gz", "reviews.csv.gz")
)
LOG_TIME = re.compile(r"\[(\d\d/\w{3}/\d{4}:\d\d:\d\d:\d\d [+-]\d{4})\]")
LOG_FORMAT = "%d/%b/%Y:%H:%M:%S %z"


@dataclass
class Product:
    """A running product: its address and the environment of its commands."""

    url: str
    environment: dict[str, str]

    def run(self, *words: str) -> str:
        """Run a command of `python -m ops` on the product, and return its output."""
        command = [sys.executable, "-m", "ops", *words]
        done = subprocess.run(
            command, cwd=ROOT, env=self.environment, check=True, stdout=subprocess.PIPE, text=True
        )
        return done.stdout.strip()


@click.command()
@click.option("--output", type=click.Path(file_okay=False, path_type=Path), default=ROOT / "docs")
def main(output: Path) -> None:
    """Take screenshots of the front page, the dashboard and the admin console."""
    from playwright.sync_api import sync_playwright

    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if not chromium:
        raise click.ClickException("chromium is not on the PATH (on Debian: apt-get install chromium)")
    with run_product() as product, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        fill(browser, product)
        for name, options in WINDOWS.items():
            with opened(browser, **options) as page:
                show_front_page(page, product)
                take_screenshot(page, output / f"page{name}.png")
            with opened(browser, **options) as page:
                show_dashboard(page, product)
                take_screenshot(page, output / f"dashboard{name}.png")
        with opened(browser, viewport=WIDE, color_scheme="light") as page:
            show_admin(page, product)
            take_screenshot(page, output / "admin.png")
        browser.close()


# -- the product and its data --------------------------------------------------------------------------


@contextmanager
def run_product() -> Iterator[Product]:
    """Run the product on free ports with a temporary data folder."""
    with tempfile.TemporaryDirectory() as folder:
        ports = [str(port) for port in free_ports(3)]
        options = ["--port", ports[0], "--socket-port", ports[1], "--engine-port", ports[2]]
        command = [sys.executable, "-m", "local", "--no-reload", "--data", folder, *options]
        environment = os.environ | {
            "HUBBUB_SECRET": secrets.token_hex(32),
            "HUBBUB_ENDPOINT": f"http://127.0.0.1:{ports[2]}",
        }
        process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True)
        assert process.stdout
        try:
            if "ready" not in (line.strip() for line in process.stdout):
                raise click.ClickException("the product did not start")
            yield Product(f"http://127.0.0.1:{ports[0]}/", environment)
        finally:
            process.terminate()
            process.wait(60)


def fill(browser: Browser, product: Product) -> None:
    """Import the log, the race and the reviews, and fill the challenge with the page's button."""
    with tempfile.TemporaryDirectory() as folder:
        log, race = Path(folder, "access.log"), Path(folder, "race.csv")
        log.write_text(move_log(datetime.now(UTC)), encoding="utf-8")
        for site in (f"http://{SITE}", product.url.rstrip("/")):  # the front page shows its own views
            product.run("import-log", str(log), "--site", site)
        with gzip.open(RACE, "rt", encoding="utf-8") as rows:
            race.write_text("".join(next(rows) for _ in range(FINISHERS + 1)), encoding="utf-8")
        define_board(browser, product)
        product.run("import-scores", str(race), "--board", BOARD, "--player", "bib", "--value", "minutes")
        product.run("import-comments", str(REVIEWS), "--languages", "en,de")
    with opened(browser) as page:
        page.goto(product.url)
        page.click("#fill")
        page.locator("#challenge").scroll_into_view_if_needed()
        page.get_by_text("40 players found").wait_for()


def move_log(now: datetime) -> str:
    """Return the log with its times moved by whole hours, so that it ends in the hour before `now`."""
    with gzip.open(LOG, "rt", encoding="utf-8", errors="replace") as file:
        text = file.read()
    last = max(datetime.strptime(time, LOG_FORMAT) for time in LOG_TIME.findall(text))
    hours = (now - last) // timedelta(hours=1)

    def moved(match: re.Match[str]) -> str:
        time = datetime.strptime(match[1], LOG_FORMAT) + timedelta(hours=hours)
        return f"[{time.strftime(LOG_FORMAT)}]"

    return LOG_TIME.sub(moved, text)


def define_board(browser: Browser, product: Product) -> None:
    """Define the leaderboard of the race on the admin console."""
    with opened(browser) as page:
        sign_in_as_admin(page, product)
        fields = {"leaderboard": BOARD, "title": "City marathon", "unit": "minutes", "decimals": "2"}
        for name, value in (fields | {"min": "60", "max": "600"}).items():
            page.fill(f"#board [name={name}]", value)
        page.select_option("#board [name=order]", "asc")
        page.select_option("#board [name=operator]", "best")
        page.click("#board .primary")
        page.wait_for_selector("#board .done:has-text('City marathon')")


# -- the pages -----------------------------------------------------------------------------------------


def show_front_page(page: Page, product: Product) -> None:
    """Show the front page to a reader with a time in the race and some answers of the challenge."""
    names = {"site": SITE, "board": BOARD, "product": PRODUCT}
    chosen = "".join(f"localStorage.setItem('hubbub.{key}', '{name}');" for key, name in names.items())
    page.add_init_script(chosen)
    page.goto(product.url)
    page.locator("#leaderboard").scroll_into_view_if_needed()
    page.fill("#leaderboard [name=guest]", READER)
    page.fill("#leaderboard [name=value]", MINUTES)
    page.click("#leaderboard [part=form] button")
    page.wait_for_selector("#leaderboard [part=standing]:has-text('You are')")
    page.locator("#challenge").scroll_into_view_if_needed()
    for number, answer in enumerate(FOUND, 1):
        page.fill("#challenge [name=path]", answer)
        page.press("#challenge [name=path]", "Enter")
        page.wait_for_selector(f"#challenge [part=found] li:nth-child({number})")
    page.locator("#comments").scroll_into_view_if_needed()
    page.wait_for_selector("#comments [part~=comment]")
    page.wait_for_selector("#views .tick")


def show_dashboard(page: Page, product: Product) -> None:
    """Show the last two days of the log, compared with the two days before."""
    today = datetime.now(UTC).date()
    period = f"period=range&from={today - timedelta(days=1)}&to={today}"
    page.goto(f"{product.url}web/dashboard.html?site={SITE}&{period}")
    page.wait_for_selector("#state:text-is('Live')")
    page.wait_for_selector("#views-plot .tick")


def show_admin(page: Page, product: Product) -> None:
    """Show the admin console with the leaderboard of the race."""
    sign_in_as_admin(page, product, f"#leaderboard/{BOARD}")
    page.wait_for_selector("#board-page tbody tr")
    page.wait_for_selector("#lag-plot .tick")


def sign_in_as_admin(page: Page, product: Product, fragment: str = "") -> None:
    """Open the admin console with a token of the run."""
    page.goto(f"{product.url}web/admin.html{fragment}")
    page.fill("#token", product.run("token", "--stage", "local", "--sub", "admin", "--scope", "admin"))
    page.click("#sign-in button")
    page.wait_for_selector("#signed-in")


@contextmanager
def opened(browser: Browser, **options: object) -> Iterator[Page]:
    """Open a page in a new context."""
    context = browser.new_context(reduced_motion="reduce", **options)  # type: ignore[arg-type]
    page = context.new_page()
    page.set_default_timeout(PATIENCE)
    yield page
    context.close()


def take_screenshot(page: Page, file: Path) -> None:
    """Take a screenshot of the window, scrolled to its top."""
    page.evaluate("document.activeElement.blur(); scrollTo(0, 0)")
    page.screenshot(path=file)
    click.echo(f"{file}: {file.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
