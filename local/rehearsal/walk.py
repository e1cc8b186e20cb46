"""Walks through a deployed stage as its clients do: REST, the page, two sockets, the stream and the queue."""

from __future__ import annotations

import json
import re
import urllib.request
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, NamedTuple
from urllib.parse import quote, urljoin

from websockets.sync.client import connect

from ops.waiting import wait_until

PATIENCE = 60.0


class Stage(NamedTuple):
    """A deployed stage: its addresses, its site, and tokens of a player and of an admin."""

    rest: str
    socket: str
    site: str
    player: str
    admin: str

    def call(self, method: str, path: str, body: Any = None, token: str = "") -> dict[str, Any]:
        """Send a request, and return what is answered; urllib.error.HTTPError for a refusal."""
        headers = {"Content-Type": "application/json"} | (
            {"Authorization": f"Bearer {token}"} if token else {}
        )
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.rest + path, data, headers, method=method)  # noqa: S310
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:  # noqa: S310
            return dict(json.load(answer))

    def page(self, name: str) -> str:
        """Return the address of a page of the site."""
        return f"https://{self.site}/{name}"

    def view(self, name: str, client: str) -> dict[str, str]:
        """Return a view of a page, as a client sends it."""
        return {"url": self.page(name), "time": datetime.now(UTC).isoformat(), "clientId": client}

    def views(self, name: str) -> int:
        """Ask how often a page was viewed."""
        return int(self.call("GET", f"/views?url={quote(self.page(name), safe='')}")["views"])


def rest(stage: Stage) -> str:
    """Make a board, submit a score, and wait for its rank, which the stream works out."""
    board = {"title": "Race", "unit": "s", "decimals": 0, "min": 0, "max": 1000, "order": "desc"}
    stage.call("PUT", "/leaderboards/race", board | {"operator": "best"}, stage.admin)
    stage.call("POST", "/leaderboards/race/scores", {"id": "1", "value": 500}, stage.player)
    path = "/leaderboards/race/players/player-1"

    def standing() -> dict[str, Any]:
        found = stage.call("GET", path)
        return found if found.get("rank") else {}

    found = wait_until(standing, "the score has a rank", PATIENCE)
    return f"a score has rank {found['rank']} of {found['of']}"


def page(stage: Stage) -> str:
    """Open the page at the address that a deploy prints, and load each file that its HTML names."""
    address = f"{stage.rest}/"
    with urllib.request.urlopen(address, timeout=PATIENCE) as answer:  # noqa: S310
        html = answer.read().decode()
    files = set(re.findall(r'(?:src|href)="([^"#]+\.(?:js|css|svg))"', html))
    if not {"js", "css", "svg"} <= {name.rpartition(".")[2] for name in files}:
        raise ValueError(f"the page names no script, style sheet or icon: {sorted(files)}")
    for name in files:
        with urllib.request.urlopen(urljoin(address, name), timeout=PATIENCE) as answer:  # noqa: S310
            answer.read()
    return "the page opens at its address, and its files load"


def sockets(stage: Stage) -> Iterator[str]:
    """Match two strangers, hand on a message, and push a page's views to who listens."""
    address = f"{stage.socket}?lobby=rehearsal"
    with connect(address, proxy=None) as one, connect(address, proxy=None) as other:
        for each in (one, other):
            each.send('{"action": "status"}')
        for each in (one, other):
            expect(
                each,
                lambda frame: frame.get("state") == "matched" or frame.get("code") == "partner_connected",
            )
        yield "two sockets are matched"
        one.send('{"action": "message", "text": "hello"}')
        expect(other, lambda frame: frame.get("text") == "hello")
        yield "a message reaches the other"
        one.send(json.dumps({"action": "subscribe", "topic": f"views:{stage.page('live')}"}))
        one.send(
            '{"action": "unknown"}'
        )  # frames of a connection are taken in order here: the answer says when
        expect(one, lambda frame: frame.get("type") == "error")
        stage.call("POST", "/views", stage.view("live", "listener"))
        expect(one, lambda frame: frame.get("type") == "update" and frame["value"]["views"] == 1)
        yield "a view is pushed to who listens"


def expect(socket: Any, is_it: Any) -> dict[str, Any]:
    """Read frames until one is it; TimeoutError when none comes."""
    while True:
        frame: dict[str, Any] = json.loads(socket.recv(timeout=PATIENCE))
        if is_it(frame):
            return frame


def queue(stage: Stage, sqs: Any, url: str) -> str:
    """Send a view to the queue as any producer may, twice: it counts once."""
    before, view = stage.views("queued"), json.dumps(stage.view("queued", "producer"))
    for _ in range(2):
        sqs.send_message(QueueUrl=url, MessageBody=view)
    wait_until(lambda: stage.views("queued") > before, "the queue's view is counted", PATIENCE)
    return "a message in the queue is a view"
