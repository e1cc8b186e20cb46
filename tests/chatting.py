"""Chat for tests: connections that a test opens, kills and listens to, in place of API Gateway."""

from __future__ import annotations

import itertools
import json
import threading
from collections import defaultdict
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from botocore.exceptions import ClientError

from chalicelib import chat, connections, lobby, times, topics
from chalicelib.items import Item
from chalicelib.posts import Posts
from chalicelib.settings import Settings
from chalicelib.table import Table
from tests.permissions import run_as, see

SETTINGS = Settings(secret="0123456789abcdef0123456789abcdef")
CONNECTED = {"type": "system", "code": "partner_connected"}
DISCONNECTED = {"type": "system", "code": "partner_disconnected"}
NOT_MATCHED = {"type": "error", "code": "not_matched"}
AGENT = {"identity": {"sourceIp": "192.0.2.7", "userAgent": "Mozilla/5.0"}}
BEGIN = datetime(2100, 11, 21, 10, tzinfo=UTC)  # no engine takes what is written then for expired


class Wire:
    """API Gateway's side of the connections: who is open, and what each was sent. Its own client's session.

    A test may put a function into `before_post`, which is called with the connection's id and may raise.
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
        return self

    def post_to_connection(self, ConnectionId: str, Data: str) -> None:  # noqa: N803 (boto3's names)
        self._see("PostToConnection", ConnectionId)
        with run_as(""):
            self.before_post(ConnectionId)
        with self._lock:
            self.posts += 1
            if ConnectionId not in self.open:
                raise gone()
            self.frames[ConnectionId].append(json.loads(Data))

    def get_connection(self, ConnectionId: str) -> None:  # noqa: N803
        self._see("GetConnection", ConnectionId)
        if ConnectionId not in self.open:
            raise gone()

    def delete_connection(self, ConnectionId: str) -> None:  # noqa: N803
        self._see("DeleteConnection", ConnectionId)
        with self._lock:
            self.open.discard(ConnectionId)
            self.closed.append(ConnectionId)

    def _see(self, operation: str, id: str) -> None:
        see("apigatewaymanagementapi", operation, {"ConnectionId": id}, "https://local/api")

    def read(self, id: str) -> list[Any]:
        """Take what a connection was sent since the last time."""
        with self._lock:
            return self.frames.pop(id, [])


def gone() -> ClientError:
    """Make the error of a post to a connection that is closed, or not open yet."""
    return ClientError({"Error": {"Code": "GoneException", "Message": ""}}, "PostToConnection")


class Chat:
    """The chat on a table, with a clock that a test moves; events go in as API Gateway sends them."""

    def __init__(self, table: Table, settings: Settings = SETTINGS, sources: topics.Sources | None = None):
        self.table, self.settings, self.sources = table, settings, sources or {}
        self.wire = Wire()
        self.posts = Posts(lambda: self.wire, pause=lambda seconds: None)
        self.now = BEGIN
        self._ticks = itertools.count(1)

    def tick(self) -> datetime:
        """Let a millisecond pass: no two events are at the same time."""
        return self.now + timedelta(milliseconds=next(self._ticks))

    def connect(self, id: str, opens: bool = True, query: dict[str, str] | None = None) -> int:
        """Run `$connect`; answer the status of the handshake. The connection opens when it has returned."""
        event = {"requestContext": context(id), "queryStringParameters": query}
        with run_as("websocket_connect"):
            status = chat.connect(self.table, self.posts, event, self.tick(), self.settings)["statusCode"]
        if status == 200 and opens:
            self.wire.open.add(id)
        return status

    def say(self, id: str, action: str, **fields: Any) -> list[Any]:
        """Send a frame; answer what its sender was sent by then."""
        self.raw(id, json.dumps({"action": action, **fields}))
        return self.wire.read(id)

    def say_quietly(self, id: str, action: str, **fields: Any) -> None:
        """Send a frame, and leave what its sender is sent to be read later."""
        self.raw(id, json.dumps({"action": action, **fields}))

    def raw(self, id: str, body: str) -> None:
        event = {"requestContext": context(id), "body": body}
        with run_as("websocket_message"):
            chat.hear(self.table, self.posts, self.sources, event, self.tick(), self.settings)

    def come(self, id: str, **query: str) -> list[Any]:
        """Connect and ask for the status, as a client does; answer what it was sent."""
        assert self.connect(id, query=query) == 200
        return self.say(id, "status")

    def disconnect(self, id: str, code: int = 1006) -> None:
        """Close a connection and run `$disconnect`."""
        self.wire.open.discard(id)
        event = {"requestContext": context(id, disconnectStatusCode=code)}
        with run_as("websocket_disconnect"):
            chat.disconnect(self.table, self.posts, event, self.tick(), self.settings)

    def die(self, id: str) -> None:
        """Let a connection vanish: no `$disconnect` comes."""
        self.wire.open.discard(id)

    def sweep(self, seconds: float = 0) -> None:
        def pause(length: float) -> None:
            self.now += timedelta(seconds=length)

        with run_as("sweep"):
            lobby.sweep(self.table, self.posts, self.settings, self.tick, seconds=seconds, pause=pause)

    def wait(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)

    def state(self, id: str) -> str:
        return str(self.item(id).get("state"))

    def partner(self, id: str) -> str | None:
        partner = self.item(id).get("partner")
        return str(partner["id"]) if partner else None

    def item(self, id: str) -> Item:
        return self.table.get(connections.key(id), consistent=True) or {}

    def pool(self, lobby: str = "main") -> list[str]:
        entries = self.table.query(f"WAITING#{lobby}", consistent=True, limit=1000).items
        return [entry["sk"].split("#")[1] for entry in entries]


def context(id: str, **more: Any) -> dict[str, Any]:
    return {"connectionId": id, "apiId": "local", "stage": "local", "domainName": "d", **AGENT, **more}


def text(said: str) -> dict[str, str]:
    return {"type": "message", "text": said}


def without_time(frames: list[Any]) -> list[Any]:
    """Leave out when messages were sent, having read it as an instant."""
    for frame in frames:
        if "time" in frame:
            times.instant(frame["time"])
    return [{name: value for name, value in frame.items() if name != "time"} for frame in frames]
