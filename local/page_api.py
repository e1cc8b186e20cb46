"""The call that only a local run has, for its page: it fills the demo data.

A process on this machine can use the engine and its data anyway, but a browser also sends requests of other
sites to 127.0.0.1. A request must therefore

- have this server as `Host`, against DNS rebinding,
- have the server's own `Origin`, which browsers send with every POST,
- be JSON, which no HTML form can send.

No response allows another origin.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from local.demo import Demo


class PageApi:
    """Serves `POST /local/demo`."""

    PATH = "/local/"

    def __init__(self, url: str, demo: Demo) -> None:
        port = urlsplit(url).port
        self._hosts = {f"{name}:{port}" for name in ("127.0.0.1", "localhost")}
        self._demo = demo

    def respond(self, path: str, headers: Mapping[str, str]) -> tuple[int, dict[str, Any]]:
        """Return the status and the body of the response."""
        host = headers.get("Host", "")
        if host not in self._hosts or headers.get("Origin") != f"http://{host}":
            return 403, _error("Forbidden", "Only the page of this server may call this path.")
        if headers.get("Content-Type") != "application/json":
            return 400, _error("BadRequest", "Content-Type: must be application/json")
        if path == "/local/demo":
            return 202, {"started": self._demo.start()}
        return 404, _error("NotFound", "There is no such path.")


def _error(code: str, message: str) -> dict[str, str]:
    return {"Code": code, "Message": message}
