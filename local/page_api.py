"""The calls of a local run alone: filling the demo data, and listing sites that have views, and notices.

A process on this machine can use the engine and its data anyway. A request of a page must be of this server's
own page, unlike other requests to REST (origins.py), and JSON, which no HTML form can send.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from local.demo import Demo
from local.origins import refusal


class PageApi:
    """Serves `GET /local/notices`, `POST /local/demo` and `POST /local/sites`.

    `list_sites` returns the sites, largest first. `list_notices` returns the notices, newest first.
    """

    PATH = "/local/"

    def __init__(
        self, demo: Demo, list_sites: Callable[[], list[str]], list_notices: Callable[[], list[Any]]
    ) -> None:
        self._demo, self._list_sites, self._list_notices = demo, list_sites, list_notices

    def respond(
        self, method: str, path: str, headers: Mapping[str, str]
    ) -> tuple[int, dict[str, Any]] | None:
        """Return the status and the body of the response, or None for a request that is not of this API."""
        if method == "GET" and path.partition("?")[0] == "/local/notices":
            return 200, {"items": self._list_notices(), "cursor": None}
        if method != "POST" or not path.startswith(self.PATH):
            return None
        if reason := refusal(headers.items()):
            return 403, _error("Forbidden", reason)
        if headers.get("Content-Type") != "application/json":
            return 400, _error("BadRequest", "`Content-Type` must be application/json")
        if path == "/local/demo":
            return 202, {"started": self._demo.start()}
        if path == "/local/sites":
            return 200, {"sites": self._list_sites()}
        return 404, _error("NotFound", "There is no such path.")


def _error(code: str, message: str) -> dict[str, str]:
    return {"code": code, "message": message}
