"""Checks a deployed stage from outside, by its URLs: does it answer, count, know its admins and talk?

A stage that was just made is not ready everywhere at once. API Gateway may answer 403 or 5xx for some time,
and a new event source mapping reads its stream after minutes, a changed one after 90 s. So each check is
repeated for up to 300 s, and says what it waits for.
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

TIMEOUT = 300.0  # seconds that a check may take
REQUEST_TIMEOUT = 60.0  # seconds of one request: a cold start takes a few
REPORT_INTERVAL = 15.0  # seconds between two lines that say what is waited for
PAUSE = 1.0
NOT_READY = {403, 500, 502, 503, 504}
"""What API Gateway may answer for a stage that was just made."""


class Check(NamedTuple):
    """One check and what it found; None for one that cannot be made as the stage is set up."""

    name: str
    is_well: bool | None
    said: str


class NotReady(Exception):
    """The stage answered as one does that was just made; the message is the answer."""


class Retrier:
    """The time that one check may take, and what is printed meanwhile."""

    def __init__(self, seconds: float, tell: Callable[[str], None], pause: float = PAUSE) -> None:
        self._begun = self._told = time.monotonic()
        self._seconds = seconds
        self._tell = tell
        self._pause = pause

    def until(self, attempt: Callable[[], T], what: str) -> T:
        """Repeat an attempt until it returns something, and return that.

        An attempt that is not ready is repeated too. Raises ClickException when the time is over.
        """
        while True:
            try:
                found, state = attempt(), "not yet"
            except NotReady as answer:
                found, state = None, str(answer)
            if found:
                return found
            now = time.monotonic()
            if now - self._begun >= self._seconds:
                raise click.ClickException(f"{what}: {state}, after {self._seconds:.0f} s")
            if now - self._told >= REPORT_INTERVAL:
                self._told = now
                self._tell(f"waiting, {now - self._begun:.0f} s of {self._seconds:.0f}: {what}: {state}")
            time.sleep(self._pause)

    def call(self, method: str, url: str, body: Any = None, token: str = "") -> dict[str, Any]:
        """Make a request, again while the stage is not ready, and return its answer."""

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
    tell: Callable[[str], None] = lambda _: None,
    seconds: float = TIMEOUT,
) -> Iterator[Check]:
    """Make each check in turn. Counts a view of `/.hubbub/smoke` on the stage's first site, each time.

    Each check may take `seconds`; once one has failed, the others are tried once. While a check waits, `tell`
    is given a line about every 15 s.
    """
    checks: dict[str, Callable[[Retrier], str]] = {
        "REST answers": lambda waiting: _health(waiting, urls.rest, settings.stage),
        "a view is counted": lambda waiting: _count(waiting, urls.rest, settings),
        "an admin is known": lambda waiting: _admin(waiting, urls.rest, token()),
        "a socket tells its status": lambda waiting: _socket(waiting, urls.socket),
    }
    for name, check in checks.items():
        try:
            said = check(Retrier(seconds, tell))
        except (OSError, ValueError, LookupError, http.client.HTTPException, click.ClickException) as error:
            seconds = 0
            yield Check(name, False, getattr(error, "message", "") or repr(error))
        else:
            yield Check(name, None if said.startswith("not checked") else True, said)


def _health(waiting: Retrier, url: str, stage: str) -> str:
    answer = waiting.call("GET", f"{url}/health")
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


def _count(waiting: Retrier, url: str, settings: Settings) -> str:
    """Send one view, and wait until the stream has counted it; through the queue, where the stage has one."""
    page = smoke_page(settings)
    if not page:
        return "not checked: HUBBUB_SITES is empty, so no view is counted"
    question = f"{url}/views?url={quote(page, safe='')}"
    before = waiting.call("GET", question)["views"]
    view = {"url": page, "time": datetime.now(UTC).isoformat(), "clientId": f"smoke-{secrets.token_hex(8)}"}
    answer = waiting.call("POST", f"{url}/views", view)
    if answer.get("accepted") != 1:
        raise ValueError(f"the view is rejected: {answer}")
    waiting.until(
        lambda: waiting.call("GET", question)["views"] > before, f"the stream counts the view of {page}"
    )
    way = "queue, table and stream" if settings.queue_url else "table and stream"
    return f"POST /views, {way}, GET /views"


def _admin(waiting: Retrier, url: str, token: str) -> str:
    question = f"{url}/chat/reports?limit=1"
    if "items" not in waiting.call("GET", question, token=token):
        raise ValueError("GET /chat/reports answered no list")
    try:
        waiting.call("GET", question)
    except urllib.error.HTTPError as refused:
        if refused.code == 401:
            return "GET /chat/reports, with a token and without"
        raise
    raise ValueError("GET /chat/reports answers without a token")


def _socket(waiting: Retrier, url: str) -> str:
    """Connect to a lobby of its own, where nobody else is, and ask for the status."""
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
            raise ValueError(f"the socket: {refused}") from refused
        except WebSocketException as error:
            raise ValueError(f"the socket: {error}") from error

    answer = waiting.until(attempt, f"connect to {url}")
    if (answer.get("type"), answer.get("state")) != ("status", "waiting"):
        raise ValueError(f"the socket answered {answer}")
    return "connect, status: waiting"


def _call(method: str, url: str, body: Any = None, token: str = "") -> dict[str, Any]:
    headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {token}"} if token else {})
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, headers, method=method)  # noqa: S310 (the stage's own)
    with urllib.request.urlopen(request, timeout=REQUEST_TIMEOUT) as answer:  # noqa: S310
        return dict(json.load(answer))
