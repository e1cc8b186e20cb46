"""`python -m local.screenshots`: take the screenshots of the page, from a temporary run with demo data."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from local.engines.engine import ROOT

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

PATIENCE = 120_000  # ms
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
WIDE = {"width": 1280, "height": 1240}
NARROW = {"width": 390, "height": 844}
FOUND = ("Berlin", "Bogotá", "Budapest")


@click.command()
@click.option("--output", type=click.Path(file_okay=False, path_type=Path), default=ROOT / "docs")
def main(output: Path) -> None:
    """Take screenshots of the page in light and dark colours and on a phone."""
    from playwright.sync_api import sync_playwright

    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if not chromium:
        raise click.ClickException("chromium is not on the PATH (on Debian: apt-get install chromium)")
    with run_product() as url, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        fill_demo(browser, url)
        take_screenshot(browser, url, output / "page.png", viewport=WIDE, color_scheme="light")
        take_screenshot(browser, url, output / "page-dark.png", viewport=WIDE, color_scheme="dark")
        take_screenshot(browser, url, output / "page-phone.png", viewport=NARROW, device_scale_factor=2)
        browser.close()


@contextmanager
def run_product() -> Iterator[str]:
    """Run the product on free ports with a temporary data folder. Yield the page's address."""
    with tempfile.TemporaryDirectory() as folder:
        ports = [str(port) for port in _free_ports(3)]
        options = ["--port", ports[0], "--socket-port", ports[1], "--engine-port", ports[2]]
        command = [sys.executable, "-m", "local", "--no-reload", "--data", folder, *options]
        product = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
        assert product.stdout
        try:
            if "ready" not in (line.strip() for line in product.stdout):
                raise click.ClickException("the product did not start")
            yield f"http://127.0.0.1:{ports[0]}/"
        finally:
            product.terminate()
            product.wait(60)


def fill_demo(browser: Browser, url: str) -> None:
    """Fill the demo data with the page's button, and wait until all of it is counted."""
    page = browser.new_page()
    page.set_default_timeout(PATIENCE)
    page.goto(url)
    page.click("#views .empty button")
    page.wait_for_selector("#comments .quiet:has-text('60 comments')")
    page.wait_for_selector("#leaderboard h3:has-text('110 players')")
    page.close()


def take_screenshot(browser: Browser, url: str, file: Path, **options: object) -> None:
    """Use each panel as a visitor, and take a screenshot of the window."""
    context = browser.new_context(reduced_motion="reduce", **options)  # type: ignore[arg-type]
    page = context.new_page()
    page.set_default_timeout(PATIENCE)
    page.goto(url)
    page.wait_for_selector("#state:text-is('Live')")
    use_panels(page)
    page.evaluate("document.activeElement.blur(); scrollTo(0, 0)")
    page.wait_for_selector("#views .calls li:nth-child(3)")
    page.screenshot(path=file)
    context.close()
    click.echo(f"{file}: {file.stat().st_size:,} bytes")


def use_panels(page: Page) -> None:
    """Sign in, submit a score and find some answers."""
    page.click("#you")
    page.fill("#identity [name=given]", "quiet-reader")
    page.click("#identity .primary")
    page.wait_for_selector("#you:text-is('quiet-reader')")
    page.fill("#leaderboard [name=value]", "1111")
    page.click("#leaderboard .primary")
    page.wait_for_selector("#rank")
    for number, answer in enumerate(FOUND, 1):
        page.fill("#challenge [name=path]", answer)
        page.press("#challenge [name=path]", "Enter")
        page.wait_for_selector(f"#challenge .found li:nth-child({number})")
    page.click("#leaderboard >> text=Around you")
    page.wait_for_selector("#leaderboard .entries [aria-current]")


def _free_ports(count: int) -> list[int]:
    probes = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [probe.getsockname()[1] for probe in probes]
    for probe in probes:
        probe.close()
    return ports


if __name__ == "__main__":
    main()
