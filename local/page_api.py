"""The API that only a local run has, for its page: tokens and demo data.

A process on this machine can use the engine and its data anyway, but a browser also sends requests of other
sites to 127.0.0.1. A request must therefore

- have this server as `Host`, against DNS rebinding,
- have the server's own `Origin`, which browsers send with every POST,
- be JSON, which no HTML form can send.

No response allows another origin.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

from local.demo import Demo

SUB = re.compile(r"[a-z0-9-]{1,64}")


class PageApi:
    """Serves `POST /local/token` and `POST /local/demo`. `mint` signs a user's token."""

    PATH = "/local/"

    def __init__(self, url: str, demo: Demo, mint: Callable[[str], str]) -> None:
        port = urlsplit(url).port
        self._hosts = {f"{name}:{port}" for name in ("127.0.0.1", "localhost")}
        self._demo = demo
        self._mint = mint

    def respond(self, path: str, headers: Mapping[str, str], body: bytes) -> tuple[int, dict[str, Any]]:
        """Return the status and the body of the response."""
        host = headers.get("Host", "")
        if host not in self._hosts or headers.get("Origin") != f"http://{host}":
            return 403, _error("Forbidden", "Only the page of this server may call this path.")
        if headers.get("Content-Type") != "application/json":
            return 400, _error("BadRequest", "Content-Type: must be application/json")
        if path == "/local/demo":
            return 202, {"started": self._demo.start()}
        if path == "/local/token":
            return self._token(body)
        return 404, _error("NotFound", "There is no such path.")

    def _token(self, body: bytes) -> tuple[int, dict[str, Any]]:
        try:
            sub = json.loads(body)["sub"]
        except (ValueError, KeyError, TypeError):
            sub = None
        if not isinstance(sub, str) or not SUB.fullmatch(sub):
            return 400, _error("BadRequest", "sub: must be 1 to 64 characters of a–z, 0–9 and -")
        return 200, {"sub": sub, "token": self._mint(sub)}


def _error(code: str, message: str) -> dict[str, str]:
    return {"Code": code, "Message": message}
