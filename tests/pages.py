"""Pages in a browser under test: that they complain of nothing, are accessible, and fit a phone."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Self

from axe_playwright_python.sync_playwright import Axe

from chalicelib import auth, settings

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

PATIENCE = 20_000  # ms
GRAVE = {"serious", "critical"}


def token(sub: str, scope: str = "") -> str:
    """A bearer token of the local stage."""
    return auth.mint(settings.current(), sub, scope=scope)


class Elsewhere:
    """Another site: its pages, under its own policy, on a port of its own. `localhost` is its name."""

    def __init__(self) -> None:
        self.policy = ""
        self._pages: dict[str, str] = {}
        elsewhere = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                html = elsewhere._pages.get(self.path)
                body = (html or "").encode()
                self.send_response(200 if html else 404)
                self.send_header("Content-Type", "text/html; charset=utf-8")
                self.send_header("Content-Length", str(len(body)))
                self.send_header("Content-Security-Policy", elsewhere.policy)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.origin = f"http://localhost:{self._server.server_port}"
        self.stranger = f"http://127.0.0.1:{self._server.server_port}"  # the same site by another name

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def publish(self, path: str, html: str) -> str:
        """Put a page there; answer its address."""
        self._pages[path] = html
        return self.origin + path


@contextmanager
def opened(browser: Browser, url: str = "", *, complaints: bool = False, **context: Any) -> Iterator[Page]:
    """A page of a browser that knows nothing yet; it must not complain on its console, unless it may."""
    said: list[str] = []
    with browser.new_context(**context) as alone:
        page = alone.new_page()
        page.set_default_timeout(PATIENCE)
        page.on("console", lambda line: said.append(line.text) if line.type == "error" else None)
        page.on("pageerror", lambda error: said.append(str(error)))
        if url:
            page.goto(url)
        yield page
    # That a call was refused or not answered is the browser's own note; the page says it to its reader.
    assert complaints or [text for text in said if not text.startswith("Failed to load resource")] == []


def faults(page: Page) -> list[str]:
    """What axe finds, in light and in dark, that keeps somebody from using the page."""
    found: list[str] = []
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        found += [
            f"{scheme}: {one['id']}: {node['html']} {node['failureSummary']}"
            for one in Axe().run(page).response["violations"]
            if one["impact"] in GRAVE
            for node in one["nodes"]
        ]
    return found


def overflow(page: Page) -> int:
    """By how many pixels the page is wider than its window."""
    width: int = page.evaluate("document.documentElement.scrollWidth - innerWidth")
    return width
