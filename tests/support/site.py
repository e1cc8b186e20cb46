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
        self._http = http

    def call(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        sent = {"Content-Type": "application/json", "User-Agent": "a browser"} | {
            name.replace("_", "-"): value for name, value in headers.items()
        }
        data = body if isinstance(body, bytes) else json.dumps(body).encode() if body is not None else b""
        answer = self._http.request(method, path, headers=sent, body=data)
        is_json = answer.body[:1] in (b"{", b"[")
        return answer.status_code, json.loads(answer.body) if is_json else answer.body.decode()

    def post(self, body: Any, **headers: str) -> tuple[int, Any]:
        """Post views as the site's server does, without the limits of anonymous clients."""
        return self.call("POST", "/views", body, **({"Authorization": self.admin()} | headers))

    def get(self, path: str, **headers: str) -> Any:
        status, answer = self.call("GET", path, **headers)
        assert status == 200, answer
        return answer

    def settle(self) -> None:
        while records := self.stream.read("apply", "push"):
            for name in ("apply", "push"):
                filtered(getattr(app, name), name)({"Records": records}, None)
        assert drift(self.table, app.CONTRIBUTIONS) == {}

    def admin(self) -> str:
        return self.token("admin-1", scope="admin")

    def token(self, sub: str, scope: str = "") -> str:
        return "Bearer " + auth.mint(settings.current(), sub, scope=scope)
