"""Test a deployed stage through its URLs: REST, counting a view, an admin token, a socket.

A new stage is not ready at once. API Gateway may return 403 or 5xx for some time, a new event source mapping
reads its stream after minutes, and a changed one after 90 s. So each check is repeated for up to 300 s and
reports what it waits for.
"""

from __future__ import annotations

import http.client
import json
import secrets
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any, NamedTuple, TypeVar
from urllib.parse import quote

import click

from chalicelib.settings import Settings
from ops.aws.deploy import Urls

T = TypeVar("T")

TIMEOUT = 300.0  # seconds per check
REQUEST_TIMEOUT = 60.0  # seconds per request: a cold start takes a few
REPORT_INTERVAL = 15.0  # seconds between two progress lines
PAUSE = 1.0
NOT_READY = {403, 500, 502, 503, 504}
"""The statuses that API Gateway may return for a new stage."""


class Check(NamedTuple):
    """The result of a check. `passed` is None if the stage's settings do not allow the check."""

    name: str
    passed: bool | None
    detail: str


class NotReady(Exception):
    """The stage responded like a new stage; the message has the response."""


class Retrier:
    """Repeats the attempts of one check up to a time limit, and reports progress."""

    def __init__(self, seconds: float, report: Callable[[str], None], pause: float = PAUSE) -> None:
        self._begun = self._reported = time.monotonic()
        self._seconds = seconds
        self._report = report
        self._pause = pause

    def until(self, attempt: Callable[[], T], description: str) -> T:
        """Repeat an attempt until it returns a true value, and return that value.

        An attempt that raises NotReady is repeated too.

        Raises: ClickException after the time limit.
        """
        while True:
            try:
                found, state = attempt(), "not yet"
            except NotReady as response:
                found, state = None, str(response)
            if found:
                return found
            now = time.monotonic()
            if now - self._begun >= self._seconds:
                raise click.ClickException(f"{description}: {state}, after {self._seconds:.0f} s")
            if now - self._reported >= REPORT_INTERVAL:
                self._reported = now
                self._report(
                    f"waiting, {now - self._begun:.0f} s of {self._seconds:.0f}: {description}: {state}"
                )
            time.sleep(self._pause)

    def call(self, method: str, url: str, body: Any = None, token: str = "") -> dict[str, Any]:
        """Send a request, repeat it while the stage is not ready, and return the response."""

        def attempt() -> tuple[dict[str, Any]]:
            try:
                return (_call(method, url, body, token),)
            except urllib.error.HTTPError as error:
                if error.code in NOT_READY:
                    raise NotReady(f"HTTP {error.code}") from error
                raise

        return self.until(attempt, f"{method} {url.partition('?')[0]}")[0]


def run_checks(
    urls: Urls,
    settings: Settings,
    token: Callable[[], str],
    report: Callable[[str], None] = lambda _: None,
    seconds: float = TIMEOUT,
) -> Iterator[Check]:
    """Run the checks in order. Each run counts a view of `/.hubbub/smoke` on the stage's first site.

    Each check may take `seconds`. After a failure the other checks are tried once. While a check waits,
    `report` gets a line about every 15 s.
    """
    checks: dict[str, Callable[[Retrier], str]] = {
        "REST responds": lambda retrier: _health(retrier, urls.rest, settings.stage),
    }
    if settings.has("views"):
        checks["a view is counted"] = lambda retrier: _count(retrier, urls.rest, settings)
    path = "/chat/reports" if settings.features == {"chat"} else "/quarantine"
    checks["an admin token is accepted"] = lambda retrier: _admin(retrier, urls.rest + path, path, token())
    if settings.has("chat"):
        checks["a socket sends its status"] = lambda retrier: _socket(retrier, urls.socket)
    for name, check in checks.items():
        try:
            detail = check(Retrier(seconds, report))
        except (OSError, ValueError, LookupError, http.client.HTTPException, click.ClickException) as error:
            seconds = 0
            yield Check(name, False, getattr(error, "message", "") or repr(error))
        else:
            yield Check(name, None if detail.startswith("not checked") else True, detail)


def _health(retrier: Retrier, url: str, stage: str) -> str:
    response = retrier.call("GET", f"{url}/health")
    if response.get("stage") != stage:
        raise ValueError(f"not the stage {stage}: {response}")
    return "GET /health"


def smoke_page(settings: Settings) -> str:
    """Return the URL of a page whose views the stage counts; empty if it counts none."""
    entries = [(host, "/.hubbub/smoke") for host in sorted(settings.sites)] + sorted(settings.pages)
    for host, path in entries[:1]:
        name = host.replace("*.", "smoke.").replace("*", "smoke.example.org")
        return f"https://{name}{path.removesuffix('*')}" + ("smoke" if path.endswith("*") else "")
    return ""


def _count(retrier: Retrier, url: str, settings: Settings) -> str:
    """Send one view, through the queue if the stage has one, and wait until the stream has counted it."""
    page = smoke_page(settings)
    if not page:
        return "not checked: HUBBUB_SITES is empty, so views are not counted"
    endpoint = f"{url}/views?url={quote(page, safe='')}"
    before = retrier.call("GET", endpoint)["views"]
    view = {"url": page, "time": datetime.now(UTC).isoformat(), "clientId": f"smoke-{secrets.token_hex(8)}"}
    response = retrier.call("POST", f"{url}/views", view)
    if response.get("accepted") != 1:
        raise ValueError(f"the view was rejected: {response}")
    retrier.until(
        lambda: retrier.call("GET", endpoint)["views"] > before, f"the stream counts the view of {page}"
    )
    way = "queue, table and stream" if settings.queue_url else "table and stream"
    return f"POST /views, {way}, GET /views"


def _admin(retrier: Retrier, url: str, path: str, token: str) -> str:
    endpoint = f"{url}?limit=1"
    if "items" not in retrier.call("GET", endpoint, token=token):
        raise ValueError(f"GET {path} did not return a list")
    try:
        retrier.call("GET", endpoint)
    except urllib.error.HTTPError as refused:
        if refused.code == 401:
            return f"GET {path}, with and without a token"
        raise
    raise ValueError(f"GET {path} succeeded without a token")


def _socket(retrier: Retrier, url: str) -> str:
    """Connect to a new, empty lobby and request the status."""
    from websockets.exceptions import InvalidStatus, WebSocketException
    from websockets.sync.client import connect

    def attempt() -> dict[str, Any]:
        address = f"{url}?lobby=smoke-{secrets.token_hex(4)}"
        try:
            with connect(address, open_timeout=REQUEST_TIMEOUT, proxy=None) as socket:
                socket.send('{"action": "status"}')
                return dict(json.loads(socket.recv(timeout=REQUEST_TIMEOUT)))
        except InvalidStatus as refused:
            if refused.response.status_code in NOT_READY:
                raise NotReady(f"HTTP {refused.response.status_code}") from refused
            raise ValueError(f"socket: {refused}") from refused
        except WebSocketException as error:
            raise ValueError(f"socket: {error}") from error

    response = retrier.until(attempt, f"connect to {url}")
    if (response.get("type"), response.get("state")) != ("status", "waiting"):
        raise ValueError(f"unexpected frame from the socket: {response}")
    return "connect, status: waiting"


def _call(method: str, url: str, body: Any = None, token: str = "") -> dict[str, Any]:
    headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {token}"} if token else {})
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, headers, method=method)  # noqa: S310 (the stage's own URL)
    with urllib.request.urlopen(request, timeout=REQUEST_TIMEOUT) as response:  # noqa: S310
        return dict(json.load(response))
