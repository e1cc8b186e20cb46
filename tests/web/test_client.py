"""The client, web/lib/hubbub.js: in Node and in a browser, against the running product."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import app
from chalicelib.api.openapi import describe
from ops import client
from tests.support.other_site import OtherSite
from tests.support.pages import open_page
from tests.support.running import Run, until

if TYPE_CHECKING:
    from playwright.sync_api import Browser

ROOT = Path(__file__).parents[2]
STORY = Path(__file__).parent / "client"
NODE = pytest.mark.skipif(not shutil.which("node"), reason="Node is not installed")
NPM = pytest.mark.skipif(not shutil.which("npm"), reason="npm is not installed")
TOLD = {
    "fresh": True,
    "guest": ["Ann Lee", True],
    "signIns": 0,
    "again": [200, 12, None],
    "standing": [13, 1, 1, None],
    "rank": 1,
    "encoded": True,
    "dots": [["HubbubError", "BadRequest", 0]] * 6,
    "dotsSent": 0,
    "retried": True,
    "names": ["Ann Lee", *(f"author {number}" for number in (4, 3, 2, 1, 0))],
    "firstPage": 2,
    "outdated": ["HubbubError", "PreconditionFailed", 412],
    "deleted": None,
    "malformed": ["HubbubError", "BadRequest", 400],
    "forbidden": ["HubbubError", "Forbidden", 403],
    "offline": ["HubbubError", "Offline", 0],
    "refreshed": [0, 0, [False, True]],
    "unknown": ["HubbubError", "Unauthorized", 401],
    "topic": ["bad_request"],
    "heard": ["hello"],
    "alone": ["HubbubError", "not_matched", 0],
    "states": ["idle", "waiting"],
    "closed": ["HubbubError", "Offline", 0],
}


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    with Run(tmp_path / "run", "--no-reload") as running:
        yield running


@pytest.fixture
def blank() -> Iterator[str]:
    """The address of an empty page of another site, without a policy."""
    with OtherSite() as site:
        yield site.publish("/", "<!doctype html>")


def check(told: dict[str, Any]) -> None:
    """Check what the story has seen.

    Each change of the page is pushed with the value it has by then. A view and its visitor may be counted in
    two batches of the stream, so the view may be pushed without its visitor, or a value twice.
    """
    values = told.pop("values")
    assert values == sorted(values), values
    assert (values[0], values[-1]) == ([0, 0], [1, 1]), values
    assert all(value in ([0, 0], [1, 0], [1, 1]) for value in values), values
    assert told == TOLD


@NODE
def test_the_story_in_node(run: Run) -> None:
    command = ["node", "--experimental-websocket", "--no-warnings", str(STORY / "main.mjs")]
    admin = run.token("admin-1", scope="admin")
    done = subprocess.run(
        [*command, run.page.rstrip("/"), admin], capture_output=True, text=True, timeout=180, check=False
    )
    assert done.returncode == 0, done.stderr
    check(json.loads(done.stdout))


def test_the_story_in_a_browser_on_another_site(product: Run, browser: Browser) -> None:
    source = (STORY / "story.js").read_text().replace("export async function", "async function")
    with OtherSite() as site:
        library = f"{product.page}web/lib/hubbub.js"
        html = (
            f'<!doctype html><script type="module">import * as client from "{library}";\n'
            f"{source}\nwindow.begin = (...given) => run(client, ...given);</script>"
        )
        site.policy = f"script-src 'unsafe-inline' {product.page}"
        with open_page(browser, site.publish("/", html)) as page:
            page.wait_for_function("Boolean(window.begin)")
            arguments = [product.page.rstrip("/"), product.token("admin-1", scope="admin")]
            check(page.evaluate("([api, admin]) => begin(api, admin)", arguments))
            guest = page.evaluate("localStorage.getItem(Object.keys(localStorage)[0])")
            assert json.loads(guest)["name"] == "Ann Lee"


RECONNECT = """
async (url) => {
  const { Hubbub } = await import(url + "web/lib/hubbub.js");
  const sockets = [];
  class Kept extends WebSocket { constructor(...given) { super(...given); sockets.push(this); } }
  window.values = [];
  window.states = [];
  window.hub = new Hubbub(url, { WebSocket: Kept });
  window.cut = () => sockets.at(-1).close();
  window.sockets = sockets;
  const onState = (now) => states.push(now);
  window.stop = hub.live("views:https://example.org/cut", ({ views }) => values.push(views), { onState });
}
"""


def test_a_cut_socket_reconnects_with_the_current_value(product: Run, browser: Browser, blank: str) -> None:
    with open_page(browser, blank) as page:
        page.evaluate(RECONNECT, product.page)
        page.wait_for_function("states.at(-1) === true && values.at(-1) === 0")
        page.evaluate("cut()")
        page.wait_for_function("states.at(-1) === false")
        product.post({"url": "example.org/cut", "time": _now(), "clientId": "c"})
        page.wait_for_function("states.at(-1) === true && values.at(-1) === 1")
        page.evaluate("stop()")
        page.wait_for_function("sockets.every((socket) => socket.readyState === WebSocket.CLOSED)")


POLL = """
async (url) => {
  const { Hubbub } = await import(url + "web/lib/hubbub.js");
  window.values = [];
  const hub = new Hubbub(url, { socket: "ws://127.0.0.1:9" });
  const page = "https://example.org/poll", poll = () => hub.getViews({ url: page });
  window.stop = hub.live("views:" + page, ({ views }) => values.push(views), { poll, every: 50 });
}
"""


def test_a_value_is_polled_while_no_socket_can_be_opened(product: Run, browser: Browser, blank: str) -> None:
    with open_page(browser, blank) as page:
        page.evaluate(POLL, product.page)
        page.wait_for_function("values.at(-1) === 0")
        product.post({"url": "example.org/poll", "time": _now(), "clientId": "c"})
        page.wait_for_function("values.at(-1) === 1")
        page.evaluate("stop()")


def _now() -> str:
    from datetime import UTC, datetime

    return datetime.now(UTC).isoformat()


def test_a_resumed_chat_keeps_its_partner(product: Run, browser: Browser, blank: str) -> None:
    enter = """
    async ([url, resume]) => {
      const { Hubbub } = await import(url + "web/lib/hubbub.js");
      window.chat = new Hubbub(url).chat("resume", { resume });
      window.heard = [];
      chat.addEventListener("message", ({ detail }) => heard.push(detail.text));
    }
    """
    with open_page(browser, blank) as first, open_page(browser, blank) as other:
        for page in (first, other):
            page.evaluate(enter, [product.page, ""])
        for page in (first, other):
            page.wait_for_function("chat.state === 'matched' && chat.resumeToken")
        resume = first.evaluate("chat.suspend(), chat.resumeToken")
        first.reload()
        first.evaluate(enter, [product.page, resume])
        first.wait_for_function("chat.state === 'matched'")
        other.wait_for_function("chat.state === 'matched'")
        until(lambda: other.evaluate("chat.sendMessage('still here?').then(() => true, () => false)"), "sent")
        first.wait_for_function("heard.at(-1) === 'still here?'")


FREEZE = """
async ([url, lobby]) => {
  const { Hubbub } = await import(url + "web/lib/hubbub.js");
  class Frozen extends WebSocket {
    set onmessage(act) { super.onmessage = (event) => window.isFrozen || act(event); }
    send(data) { if (!window.isFrozen) super.send(data); }
  }
  window.chat = new Hubbub(url, { WebSocket: Frozen }).chat(lobby);
  window.heard = [];
  chat.addEventListener("message", ({ detail }) => heard.push(detail.text));
  window.say = (text) => chat.sendMessage(text).then(() => "confirmed", ({ code }) => code);
}
"""


def test_a_partner_out_of_reach_is_noticed_within_seconds(product: Run, browser: Browser, blank: str) -> None:
    with open_page(browser, blank) as first, open_page(browser, blank) as other:
        for page in (first, other):
            page.evaluate(FREEZE, [product.page, "frozen"])
        for page in (first, other):
            page.wait_for_function("chat.state === 'matched'")
        name = first.evaluate("chat.pair")
        assert (first.evaluate("say('hello')"), other.evaluate("chat.pair")) == ("confirmed", name)
        texts = [str(number) for number in range(20)]
        assert first.evaluate("(texts) => Promise.all(texts.map(say))", texts) == ["confirmed"] * 20
        assert other.evaluate("heard") == ["hello", *texts]
        other.evaluate("window.isFrozen = true")
        begun = time.monotonic()
        assert first.evaluate("say('are you there?')") == "unconfirmed"
        first.wait_for_function("chat.state === 'waiting'")
        assert time.monotonic() - begun < 10


def test_the_calls_are_current() -> None:
    source = client.SOURCE.read_text()
    current = client.write_calls(source, describe(app.router, app.VERSION))
    assert current == source, "run: .venv/bin/python -m ops client"


@NPM
def test_npm_packs_the_client_with_its_types() -> None:
    done = subprocess.run(
        ["npm", "pack", "--dry-run", "--json", "--foreground-scripts=false"],
        cwd=ROOT / "web",
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    [packed] = json.loads(done.stdout)
    assert {file["path"] for file in packed["files"]} == {
        *("package.json", "README.md", "lib/hubbub.d.ts", "lib/react.d.ts"),
        *("lib/hubbub.js", "lib/core.js", "lib/calls.js", "lib/chat.js"),
    }
    assert (packed["name"], packed["version"]) == ("hubbub-client", app.VERSION)
