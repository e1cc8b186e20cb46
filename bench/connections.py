"""API Gateway's side of the connections, for whoever has none: who is open, and what each was sent."""

from __future__ import annotations

import json
import threading
from collections import defaultdict
from collections.abc import Callable
from typing import Any

from botocore.exceptions import ClientError, ReadTimeoutError

from bench.simulation import World

AGENT = {"identity": {"sourceIp": "192.0.2.7", "userAgent": "Mozilla/5.0"}}


class Wire:
    """The connections, and the session and the client that posts to them, as chalicelib/posts.py wants it.

    Whoever looks on may put a function into `before_post`, which is called with the connection's id and may
    raise.
    """

    region_name = "local"

    def __init__(self) -> None:
        self.open: set[str] = set()
        self.closed: list[str] = []
        self.frames: dict[str, list[Any]] = defaultdict(list)
        self.posts = 0
        self.before_post: Callable[[str], None] = lambda id: None
        self._lock = threading.Lock()

    def client(self, *_: Any, **__: Any) -> Wire:
        """Answer itself: there is one client."""
        return self

    def post_to_connection(self, ConnectionId: str, Data: str) -> None:  # noqa: N803 (boto3's names)
        """Hand a frame to a connection that is open."""
        self._before(ConnectionId)
        with self._lock:
            self.posts += 1
            if ConnectionId not in self.open:
                raise gone()
            self.frames[ConnectionId].append(json.loads(Data))

    def get_connection(self, ConnectionId: str) -> None:  # noqa: N803
        """Say nothing of a connection that is open."""
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
        """Take what a connection was sent since the last time."""
        with self._lock:
            return self.frames.pop(id, [])


class FaultyWire(Wire):
    """Connections on the way to which anything may go wrong, in a world."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world

    def post_to_connection(self, ConnectionId: str, Data: str) -> None:  # noqa: N803
        """Hand a frame over, or not; or do, and say otherwise."""
        world = self._world
        world.hand_over()
        fault = ""
        if world.current and world.strikes(world.rates.call):
            kinds = (
                "killed before a post",
                "killed after a post",
                "post throttled",
                "post lost",
                "post unheard",
            )
            fault = world.chance.choice(kinds)
            world.fault(fault)
        if fault == "killed before a post":
            world.kill()
        if fault == "post throttled":
            raise ClientError(
                {"Error": {"Code": "LimitExceededException", "Message": ""}}, "PostToConnection"
            )
        if fault == "post lost":
            raise ReadTimeoutError(endpoint_url="http://wire.invalid")
        super().post_to_connection(ConnectionId, Data)
        if fault == "post unheard":
            raise ReadTimeoutError(endpoint_url="http://wire.invalid")
        if fault == "killed after a post":
            world.kill()
        world.hand_over()


def gone() -> ClientError:
    """Make the error of a post to a connection that is closed, or not open yet."""
    return ClientError({"Error": {"Code": "GoneException", "Message": ""}}, "PostToConnection")


def context(id: str, **more: Any) -> dict[str, Any]:
    """Make the context of a socket event."""
    return {"connectionId": id, "apiId": "local", "stage": "local", "domainName": "d", **AGENT, **more}
