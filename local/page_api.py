"""What the page may ask of one machine and of no deployment: a token, and something to look at.

Whoever reaches 127.0.0.1 has the engine and all its data anyway. But a browser also brings strangers' pages
there: so a request must name this server (`Host`, against DNS rebinding), come from its own page (`Origin`,
which browsers send with every POST) and be JSON (which no form can send). Nothing here allows another origin.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

from local.demo import Demo

SUB = re.compile(r"[a-z0-9-]{1,64}")


class Desk:
    """Answers `POST /local/token` and `POST /local/demo`; `mint` signs a user's token."""

    PATH = "/local/"

    def __init__(self, url: str, demo: Demo, mint: Callable[[str], str]) -> None:
        port = urlsplit(url).port
        self._hosts = {f"{name}:{port}" for name in ("127.0.0.1", "localhost")}
        self._demo = demo
        self._mint = mint

    def answer(self, path: str, headers: Mapping[str, str], body: bytes) -> tuple[int, dict[str, Any]]:
        """Answer a status and what is said."""
        host = headers.get("Host", "")
        if host not in self._hosts or headers.get("Origin") != f"http://{host}":
            return 403, _refusal("Forbidden", "Only the page of this machine may ask this.")
        if headers.get("Content-Type") != "application/json":
            return 400, _refusal("BadRequest", "Content-Type: it must be application/json")
        if path == "/local/demo":
            return 202, {"started": self._demo.start()}
        if path == "/local/token":
            return self._token(body)
        return 404, _refusal("NotFound", "There is no such path.")

    def _token(self, body: bytes) -> tuple[int, dict[str, Any]]:
        try:
            sub = json.loads(body)["sub"]
        except (ValueError, KeyError, TypeError):
            sub = None
        if not isinstance(sub, str) or not SUB.fullmatch(sub):
            return 400, _refusal("BadRequest", "sub: it must be 1 to 64 of a–z, 0–9 and -")
        return 200, {"sub": sub, "token": self._mint(sub)}


def _refusal(code: str, message: str) -> dict[str, str]:
    return {"Code": code, "Message": message}
