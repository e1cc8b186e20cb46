"""A page of another site reaches nothing on this machine, and a page of this machine reaches the app."""

from __future__ import annotations

import http.client
import itertools
import json
from collections.abc import Iterator
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from local.origins import refusal
from tests.support.other_site import OtherSite
from tests.support.running import Run

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.security

HERE = {"Host": "127.0.0.1:8000"}
IMAGE = HERE | {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image"}
LINK = HERE | {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
DEVELOPERS = "http://localhost:5173"
LISTED = "http://shop.test:3000"


def field(message: str) -> str:
    """Return the field that a message begins with, or an empty text for no message."""
    return message.split("`")[1] if message else ""


@pytest.mark.parametrize(
    ("headers", "by_engine", "by_app"),
    [
        (HERE, "", ""),
        ({"Host": "localhost:8000"}, "", ""),
        ({"Host": "LOCALHOST"}, "", ""),
        ({"Host": "[::1]:8000"}, "", ""),
        (HERE | {"Origin": "http://127.0.0.1:8000", "Sec-Fetch-Site": "same-origin"}, "", ""),
        (HERE | {"Sec-Fetch-Site": "none"}, "", ""),  # typed into the address bar
        # a name that was made to lead here
        ({}, "Host", "Host"),
        ({"Host": "evil.example:8000"}, "Host", "Host"),
        ({"Host": "evil.example:8000", "Origin": "http://evil.example:8000"}, "Host", "Host"),
        ({"Host": "127.0.0.1.evil.example"}, "Host", "Host"),
        ({"Host": "127.0.0.1@evil.example"}, "Host", "Host"),
        ({"Host": "localhost:8000", "host": "evil.example"}, "Host", "Host"),
        # pages of this machine
        (HERE | {"Origin": DEVELOPERS, "Sec-Fetch-Site": "cross-site"}, "Origin", ""),
        (HERE | {"Origin": "http://127.0.0.1:3000", "Sec-Fetch-Site": "same-site"}, "Origin", ""),
        (HERE | {"Origin": "https://127.0.0.1:8000"}, "Origin", ""),
        (HERE | {"Origin": "http://[::1]:3000"}, "Origin", ""),
        (HERE | {"Origin": LISTED}, "Origin", ""),
        (IMAGE | {"Referer": f"{DEVELOPERS}/a"}, "Sec-Fetch-Site", ""),
        (IMAGE | {"Referer": f"{LISTED}/"}, "Sec-Fetch-Site", ""),
        # pages of other sites
        (HERE | {"Origin": "https://evil.example"}, "Origin", "Origin"),
        (HERE | {"Origin": "http://localhost:5173.evil.example"}, "Origin", "Origin"),
        (HERE | {"Origin": "http://localhost.evil.example"}, "Origin", "Origin"),
        (HERE | {"Origin": "http://evil.example:3000"}, "Origin", "Origin"),
        (HERE | {"Origin": "null"}, "Origin", "Origin"),  # a file, or a sandboxed frame of any site
        (HERE | {"Origin": ""}, "Origin", "Origin"),
        (IMAGE, "Sec-Fetch-Site", "Sec-Fetch-Site"),
        (IMAGE | {"Sec-Fetch-Site": "same-site"}, "Sec-Fetch-Site", "Sec-Fetch-Site"),
        (IMAGE | {"Referer": "https://evil.example/"}, "Sec-Fetch-Site", "Sec-Fetch-Site"),
        (IMAGE | {"Referer": "http://localhost:5173@evil.example/"}, "Sec-Fetch-Site", "Sec-Fetch-Site"),
        (IMAGE | {"Referer": "http://[::1"}, "Sec-Fetch-Site", "Sec-Fetch-Site"),
        # a link, a frame, a form
        (LINK | {"Sec-Fetch-Dest": "document"}, "Sec-Fetch-Site", ""),
        (LINK | {"Sec-Fetch-Dest": "iframe"}, "Sec-Fetch-Site", "Sec-Fetch-Site"),
        (
            LINK | {"Sec-Fetch-Dest": "document", "Origin": "https://evil.example"},
            "Origin",
            "Origin",
        ),  # a form
    ],
)
def test_a_foreign_host_or_origin_is_refused(headers: dict[str, str], by_engine: str, by_app: str) -> None:
    assert field(refusal(headers.items())) == by_engine
    assert field(refusal(headers.items(), ("*", LISTED))) == by_app


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    with Run(tmp_path_factory.mktemp("data") / "run", "--no-reload") as running:
        yield running


def ask(run: Run, method: str, path: str, **headers: str) -> tuple[int, dict[str, str], bytes]:
    with closing(http.client.HTTPConnection("127.0.0.1", run.port, timeout=60)) as connection:
        connection.request(method, path, "{}" if method == "POST" else None, headers)
        answer = connection.getresponse()
        return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()


@pytest.mark.parametrize("foreign", [{"Host": "evil.example"}, {"Origin": "http://evil.example"}])
def test_rest_refuses_a_foreign_page_with_a_reason(run: Run, foreign: dict[str, str]) -> None:
    paths = ("/health", "/", "/nowhere", "/guests", "/local/demo", "/web/beacon.js")
    for method, path in itertools.product(("GET", "POST", "OPTIONS", "BREW"), paths):
        status, headers, body = ask(run, method, path, **foreign)
        assert (status, json.loads(body)["code"]) == (403, "Forbidden"), (method, path)
        assert json.loads(body)["message"].startswith(f"`{next(iter(foreign))}` ")
        assert not [name for name in headers if name.startswith("access-control-")]


def test_rest_allows_the_origin_that_asks_and_never_any(run: Run) -> None:
    for method, path in (
        ("GET", "/health"),
        ("OPTIONS", "/health"),
        ("GET", "/nowhere"),
        ("POST", "/guests"),
    ):
        _, headers, _ = ask(run, method, path, Origin=DEVELOPERS)
        assert headers["access-control-allow-origin"] == DEVELOPERS
        assert "Origin" in headers["vary"]
        assert "access-control-allow-origin" not in ask(run, method, path)[1]


def test_the_pages_own_call_is_refused_to_other_local_pages(run: Run) -> None:
    assert ask(run, "POST", "/local/demo", Origin=DEVELOPERS)[0] == 403


def test_sockets_refuse_a_foreign_page_before_the_handler(run: Run) -> None:
    url = f"ws://127.0.0.1:{run.socket_port}"
    with connect(url, additional_headers={"Origin": DEVELOPERS}):
        pass
    for foreign in ({"Host": "evil.example"}, {"Origin": "http://evil.example"}, {"Origin": "null"}):
        with pytest.raises(InvalidStatus) as refused, connect(url, additional_headers=foreign):
            pass
        [name] = foreign
        assert refused.value.response.status_code == 403
        assert refused.value.response.body.decode().startswith(f"`{name}` ")


TRIES = """async ([rest, socket]) => {
    const image = new Promise(done => {
        const one = new Image();
        one.onload = () => done("loaded");
        one.onerror = () => done("refused");
        one.src = rest + "/views/badge.svg?url=example.org/a";
    });
    const opened = new Promise(done => {
        const one = new WebSocket(socket);
        one.onopen = () => done("open");
        one.onerror = () => done("refused");
    });
    const read = fetch(rest + "/health").then(answer => answer.status, () => "refused");
    const guest = fetch(rest + "/guests", {
        method: "POST", headers: {"Content-Type": "application/json"}, body: "{}",
    }).then(answer => answer.status, () => "refused");
    return [await read, await guest, await image, await opened];
}"""


def test_a_browser_keeps_foreign_pages_out_and_lets_local_pages_in(browser: Browser, run: Run) -> None:
    """The foreign page is served by another program here, under a name that the browser leads here."""
    with OtherSite() as site:
        site.publish("/page", "<p>hello</p>")
        for origin, expected in (
            (site.origin, [200, 201, "loaded", "open"]),
            (site.other_origin, [200, 201, "loaded", "open"]),
            (site.foreign_origin, ["refused"] * 4),
        ):
            page = browser.new_page()
            page.goto(f"{origin}/page")
            addresses = [run.page.rstrip("/"), f"ws://127.0.0.1:{run.socket_port}"]
            assert page.evaluate(TRIES, addresses) == expected, origin
            page.close()
