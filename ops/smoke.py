"""Checks a deployed stage from outside, by its URLs: does it answer, count, know its admins and talk?"""

from __future__ import annotations

import http.client
import json
import secrets
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any, NamedTuple
from urllib.parse import quote

import click

from chalicelib.settings import Settings
from ops.deploy import Urls
from ops.waiting import until

PATIENCE = 60.0  # seconds that anything may take; a cold start and the stream are a few


class Check(NamedTuple):
    """One check and what it found; None for one that cannot be made as the stage is set up."""

    name: str
    is_well: bool | None
    said: str


def run(urls: Urls, settings: Settings, token: Callable[[], str]) -> Iterator[Check]:
    """Make each check in turn. Counts a view of `/.hubbub/smoke` on the stage's first site, each time."""
    checks: dict[str, Callable[[], str]] = {
        "REST answers": lambda: _health(urls.rest, settings.stage),
        "a view is counted": lambda: _count(urls.rest, settings),
        "an admin is known": lambda: _admin(urls.rest, token()),
        "a socket tells its status": lambda: _socket(urls.socket),
    }
    for name, check in checks.items():
        try:
            said = check()
        except (OSError, ValueError, LookupError, http.client.HTTPException, click.ClickException) as error:
            yield Check(name, False, getattr(error, "message", "") or repr(error))
        else:
            yield Check(name, None if said.startswith("not checked") else True, said)


def _health(url: str, stage: str) -> str:
    answer = _call("GET", f"{url}/health")
    if answer.get("stage") != stage:
        raise ValueError(f"it is not the stage {stage}: {answer}")
    return "GET /health"


def smoke_page(settings: Settings) -> str:
    """Return the address of a page whose views the stage counts; empty when it counts none."""
    entries = [(host, "/.hubbub/smoke") for host in sorted(settings.sites)] + sorted(settings.pages)
    for host, path in entries[:1]:
        name = host.replace("*.", "smoke.").replace("*", "smoke.example.org")
        return f"https://{name}{path.removesuffix('*')}" + ("smoke" if path.endswith("*") else "")
    return ""


def _count(url: str, settings: Settings) -> str:
    """Send one view, and wait until the stream has counted it; through the queue, where the stage has one."""
    page = smoke_page(settings)
    if not page:
        return "not checked: HUBBUB_SITES is empty, so no view is counted"
    question = f"{url}/views?url={quote(page, safe='')}"
    before = _call("GET", question)["views"]
    view = {"url": page, "time": datetime.now(UTC).isoformat(), "clientId": f"smoke-{secrets.token_hex(8)}"}
    answer = _call("POST", f"{url}/views", view)
    if answer.get("accepted") != 1:
        raise ValueError(f"the view is rejected: {answer}")
    until(lambda: _call("GET", question)["views"] > before, f"the view of {page} is counted", PATIENCE)
    way = "queue, table and stream" if settings.queue_url else "table and stream"
    return f"POST /views, {way}, GET /views"


def _admin(url: str, token: str) -> str:
    question = f"{url}/chat/reports?limit=1"
    if "items" not in _call("GET", question, token=token):
        raise ValueError("GET /chat/reports answered no list")
    try:
        _call("GET", question)
    except urllib.error.HTTPError as refused:
        if refused.code == 401:
            return "GET /chat/reports, with a token and without"
        raise
    raise ValueError("GET /chat/reports answers without a token")


def _socket(url: str) -> str:
    """Connect to a lobby of its own, where nobody else is, and ask for the status."""
    from websockets.exceptions import WebSocketException
    from websockets.sync.client import connect

    try:
        with connect(
            f"{url}?lobby=smoke-{secrets.token_hex(4)}", open_timeout=PATIENCE, proxy=None
        ) as socket:
            socket.send('{"action": "status"}')
            answer = json.loads(socket.recv(timeout=PATIENCE))
    except WebSocketException as error:
        raise ValueError(f"the socket: {error}") from error
    if (answer.get("type"), answer.get("state")) != ("status", "waiting"):
        raise ValueError(f"the socket answered {answer}")
    return "connect, status: waiting"


def _call(method: str, url: str, body: Any = None, token: str = "") -> dict[str, Any]:
    headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {token}"} if token else {})
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, headers, method=method)  # noqa: S310 (the stage's own)
    with urllib.request.urlopen(request, timeout=PATIENCE) as answer:  # noqa: S310
        return dict(json.load(answer))
