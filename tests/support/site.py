"""The app as its clients see it, in this process. The test decides when the stream is applied."""

from __future__ import annotations

import json
from typing import Any

import app
from chalicelib import settings
from chalicelib.api import auth
from chalicelib.dynamo.table import Table
from local.filters import filtered
from tests.support.records import Reader, drift


class Site:
    """The app as a client sees it. `settle` applies the stream."""

    def __init__(self, table: Table, stream: Reader, http: Any) -> None:
        self.table = table
        self.stream = stream
        self.http = http
        self.headers: dict[str, str] = {}  # of the last response
        self.length = 0  # of the last response, in bytes

    def call(
        self, method: str, path: str, body: Any = None, who: str = "", **headers: str
    ) -> tuple[int, Any]:
        """Send a request with a token of `who`. Return the status and the JSON or text of the response."""
        sent = {"Content-Type": "application/json", "User-Agent": "a browser"}
        sent |= {"Authorization": self.token(who)} if who else {}
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        data = body if isinstance(body, bytes) else json.dumps(body).encode() if body is not None else b""
        answer = self.http.request(method, path, headers=sent, body=data)
        self.headers, self.length = answer.headers, len(answer.body)
        is_json = answer.body[:1] in (b"{", b"[")
        return answer.status_code, json.loads(answer.body) if is_json else answer.body.decode() or None

    def post(self, body: Any, who: str = "admin", **headers: str) -> tuple[int, Any]:
        """Post views as the site's server does, without the limits of anonymous clients."""
        return self.call("POST", "/views", body, who, **headers)

    def get(self, path: str, who: str = "", **headers: str) -> Any:
        status, answer = self.call("GET", path, who=who, **headers)
        assert status == 200, answer
        return answer

    def settle(self) -> None:
        while records := self.stream.read("apply", "push"):
            for name in ("apply", "push"):
                filtered(getattr(app, name), name)({"Records": records}, None)
        assert drift(self.table, app.CONTRIBUTIONS) == {}

    def token(self, who: str, scope: str = "") -> str:
        """Return the header `Authorization` of a caller. `admin` is an admin, any other caller a user."""
        scope = "admin" if who == "admin" else scope
        return "Bearer " + auth.mint(settings.current(), who, scope=scope)
