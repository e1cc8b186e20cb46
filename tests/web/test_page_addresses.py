"""The page connects only to its own address and to those that its configuration allows."""

from __future__ import annotations

import functools
import http.server
import json
import shutil
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from local.engines.engine import ROOT
from tests.support.pages import open_page, show
from tests.support.running import Run

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.long


class Foreign:
    """A foreign server that records the first bytes of each connection."""

    def __init__(self) -> None:
        self.heard: list[bytes] = []
        foreign = self

        class Handler(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                foreign.heard.append(self.request.recv(4096))
                self.request.sendall(
                    b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n"
                    b"Content-Type: application/json\r\nAccess-Control-Allow-Origin: *\r\n"
                    b"Access-Control-Allow-Headers: *\r\n\r\n{}"
                )

        self._server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
        self.address = f"127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def foreign() -> Iterator[Foreign]:
    server = Foreign()
    yield server
    server.close()


@contextmanager
def hosted(folder: Path, config: dict[str, Any]) -> Iterator[str]:
    """Serve the page from a static host with a configuration. Yield its address."""
    shutil.copytree(ROOT / "web", folder / "web")
    shutil.copy(ROOT / "web" / "index.html", folder)
    (folder / "web" / "config.json").write_text(json.dumps(config))
    quiet = type("Quiet", (http.server.SimpleHTTPRequestHandler,), {"log_message": lambda *_: None})
    with http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), functools.partial(quiet, directory=folder)
    ) as host:
        threading.Thread(target=host.serve_forever, args=(0.05,), daemon=True).start()
        try:
            yield f"http://127.0.0.1:{host.server_port}/"
        finally:
            host.shutdown()


def comment(page: Page) -> None:
    """Comment as a guest, with a token."""
    page.locator("#comments textarea").first.fill("Good.")
    page.locator("#comments .choose label").last.click()
    page.locator("#comments form .primary").click()
    page.locator("#comments [part~=mine]").wait_for()


@pytest.mark.security
@pytest.mark.parametrize("scheme", ["", "http://"], ids=["without a scheme", "with one"])
@pytest.mark.parametrize("place", ["the app", "a static host"])
def test_a_link_cannot_send_the_token_to_a_foreign_address(
    browser: Browser, product: Run, foreign: Foreign, tmp_path: Path, place: str, scheme: str
) -> None:
    query = f"?api={scheme or '//'}{foreign.address}/api&socket=ws://{foreign.address}"
    with hosted(tmp_path / "site", {"api": product.page}) as site:
        home = product.page if place == "the app" else site
        with open_page(browser, home + query) as page:
            show(page)
            comment(page)
            assert "?api=" in page.inner_text("#refused")
            assert "?socket=" in page.inner_text("#refused")
    assert foreign.heard == []


@pytest.mark.parametrize(
    "config",
    [{"api": "API"}, {"allowed": ["API"]}, {"api": "API", "socket": "SOCKET"}],
    ids=lambda c: ",".join(c),
)
def test_a_static_host_uses_the_addresses_in_its_configuration(
    browser: Browser, product: Run, tmp_path: Path, config: dict[str, Any]
) -> None:
    socket = f"ws://127.0.0.1:{product.socket_port}"
    text = json.dumps(config).replace("API", product.page.rstrip("/")).replace("SOCKET", socket)
    query = f"?api={product.page}" if "api" not in config else ""
    with hosted(tmp_path / "site", json.loads(text)) as site, open_page(browser, site + query) as page:
        show(page)
        assert page.query_selector("#refused") is None
        comment(page)
        lines = page.inner_text("#comments .snippet code")
        assert f'src="{product.page}web/widgets/comments.js"' in lines, "the lines name the API"
        assert site not in lines


def test_the_policy_of_the_app_allows_only_its_own_address_and_sockets(
    browser: Browser, product: Run, foreign: Foreign
) -> None:
    """The header prevents an injected script from sending a token to another address."""
    with browser.new_context() as context:
        page = context.new_page()
        answer = page.goto(product.page)
        assert answer
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "script-src 'self';" in policy
        assert f"connect-src 'self' ws://127.0.0.1:{product.socket_port};" in policy
        assert "frame-ancestors 'none'" in policy
        show(page, "views")
        assert (
            page.evaluate(f"fetch('http://{foreign.address}/').then(() => 'sent', () => 'refused')")
            == "refused"
        )
    assert foreign.heard == []
