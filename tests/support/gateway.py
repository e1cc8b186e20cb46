"""API Gateway's management API in memory: which connections are open, and the frames sent to each."""

from __future__ import annotations

import json
import threading
from collections import defaultdict
from collections.abc import Callable
from typing import Any

from botocore.exceptions import ClientError

AGENT = {"identity": {"sourceIp": "192.0.2.7", "userAgent": "Mozilla/5.0"}}


class Gateway:
    """The session and the client that chalicelib/chat/gateway.py uses, with the connections behind them.

    A test may set `before_post`, which is called with the connection's id before each post and may raise.
    """

    region_name = "local"

    def __init__(self) -> None:
        self.open: set[str] = set()
        self.closed: list[str] = []
        self.frames: dict[str, list[Any]] = defaultdict(list)
        self.posts = 0
        self.before_post: Callable[[str], None] = lambda id: None
        self._lock = threading.Lock()

    def client(self, *_: Any, **__: Any) -> Gateway:
        """Return itself: there is one client."""
        return self

    def post_to_connection(self, ConnectionId: str, Data: str) -> None:  # noqa: N803 (boto3's names)
        """Send a frame to an open connection."""
        self._before(ConnectionId)
        with self._lock:
            self.posts += 1
            if ConnectionId not in self.open:
                raise gone()
            self.frames[ConnectionId].append(json.loads(Data))

    def get_connection(self, ConnectionId: str) -> None:  # noqa: N803
        """Raise GoneException for a connection that is not open."""
        if ConnectionId not in self.open:
            raise gone()

    def delete_connection(self, ConnectionId: str) -> None:  # noqa: N803
        """Close a connection."""
        with self._lock:
            self.open.discard(ConnectionId)
            self.closed.append(ConnectionId)

    def _before(self, id: str) -> None:
        self.before_post(id)

    def read(self, id: str) -> list[Any]:
        """Remove and return the frames sent to a connection."""
        with self._lock:
            return self.frames.pop(id, [])


def refusal(code: str) -> ClientError:
    """Return the error of a refused post."""
    return ClientError({"Error": {"Code": code, "Message": ""}}, "PostToConnection")


def gone() -> ClientError:
    """Return the error of a post to a connection that is closed, or not open yet."""
    return refusal("GoneException")


def request(id: str, **more: Any) -> dict[str, Any]:
    """Return the request context of a socket event."""
    return {"connectionId": id, "apiId": "local", "stage": "local", "domainName": "d", **AGENT, **more}
