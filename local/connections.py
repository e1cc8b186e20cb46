"""The connections of the local gateway, and the management API that reaches them.

`Session` stands in for the boto3 session that Chalice asks for its `apigatewaymanagementapi` client. Calls go
straight to the gateway in this process: there is no HTTP `/@connections`, so another process cannot post. The
errors are botocore's own classes, so Chalice turns a 410 into `WebsocketDisconnectedError` as it does on AWS.
"""

import asyncio
import time
from collections.abc import Coroutine, Mapping
from concurrent.futures import CancelledError
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from botocore.errorfactory import ClientExceptionsFactory
from botocore.exceptions import ClientError
from botocore.loaders import create_loader
from botocore.model import ServiceModel
from websockets.asyncio.server import ServerConnection
from websockets.exceptions import ConnectionClosed
from websockets.protocol import State

_SERVICE = "apigatewaymanagementapi"
_MODEL = ServiceModel(create_loader().load_service_model(_SERVICE, "service-2"), _SERVICE)
_EXCEPTIONS: Any = ClientExceptionsFactory().create_client_exceptions(_MODEL)


@dataclass(frozen=True)
class Limits:
    """What API Gateway allows a connection; tests inject smaller limits."""

    idle_seconds: float = 600
    duration_seconds: float = 7200
    message_bytes: int = 128 * 1024
    frame_bytes: int = 32 * 1024
    # This machine's own: how many handlers run at once, and how long a peer that does not read or answer
    # may hold up a post or a close before it is cut off.
    threads: int = 32
    patience_seconds: float = 5


@dataclass
class Connection:
    """One client, from the handler of its `$connect` to that of its `$disconnect`."""

    id: str
    websocket: ServerConnection
    patience_seconds: float
    connected_at: float = field(default_factory=time.time)
    last_active_at: float = field(default_factory=time.time)

    @property
    def is_open(self) -> bool:
        """False before the handshake is answered, and as soon as either side starts to close."""
        return self.websocket.state is State.OPEN

    async def send(self, text: str) -> None:
        """Send one text frame.

        Raises ConnectionError when the connection is not open. Cuts it off when the peer's buffers stay full.
        """
        if not self.is_open:
            raise ConnectionError(self.id)
        self.last_active_at = time.time()
        try:
            async with asyncio.timeout(self.patience_seconds):
                await self.websocket.send(text)
        except (ConnectionClosed, TimeoutError) as error:
            self.websocket.transport.abort()
            raise ConnectionError(self.id) from error
        if not self.is_open:  # it was lost while this frame waited for room in the peer's buffers
            raise ConnectionError(self.id)

    async def close(self, code: int, reason: str = "") -> None:
        """Close with a code, waiting for the peer's answer; cut the connection off when none comes."""
        try:
            async with asyncio.timeout(self.patience_seconds):
                await self.websocket.close(code, reason)
        except TimeoutError:
            self.websocket.transport.abort()


class ManagementClient:
    """Posts to, describes and deletes connections, as boto3's `apigatewaymanagementapi` client does.

    May be called from any thread but the gateway's own. A connection that is unknown, still in its
    `$connect`, or closed raises `exceptions.GoneException` (410); so does one whose peer reads nothing, after
    a bounded wait.
    """

    exceptions = _EXCEPTIONS

    def __init__(self, connections: Mapping[str, Connection], limits: Limits) -> None:
        self._connections = connections
        self._limits = limits

    def post_to_connection(self, *, ConnectionId: str, Data: str | bytes) -> dict[str, Any]:  # noqa: N803
        """Send Data as one text frame; posts to one connection arrive in the order they are made.

        Raises GoneException, and `exceptions.PayloadTooLargeException` (413) for Data over a message's limit.
        """
        data = Data.encode() if isinstance(Data, str) else Data
        # API Gateway answers 413 to more than 128 KB.
        if len(data) > self._limits.message_bytes:
            raise _error("PayloadTooLargeException", 413, "PostToConnection")
        connection = self._open(ConnectionId, "PostToConnection")
        self._run(connection, connection.send(data.decode(errors="replace")), "PostToConnection")
        return _answer(200)

    def get_connection(self, *, ConnectionId: str) -> dict[str, Any]:  # noqa: N803
        """Describe a connection: since when it is open, when it was last active, and who is there."""
        connection = self._open(ConnectionId, "GetConnection")
        request = connection.websocket.request
        user_agents = request.headers.get_all("User-Agent") if request else []
        return _answer(200) | {
            "ConnectedAt": datetime.fromtimestamp(connection.connected_at, UTC),
            "LastActiveAt": datetime.fromtimestamp(connection.last_active_at, UTC),
            "Identity": {"SourceIp": "127.0.0.1", "UserAgent": ", ".join(user_agents)},
        }

    def delete_connection(self, *, ConnectionId: str) -> dict[str, Any]:  # noqa: N803
        """Close a connection with code 1000; its `$disconnect` handler runs afterwards."""
        connection = self._open(ConnectionId, "DeleteConnection")
        self._run(connection, connection.close(1000), "DeleteConnection")
        return _answer(204)

    def close_connection(self, *, ConnectionId: str, Code: int, Reason: str) -> dict[str, Any]:  # noqa: N803
        """Close a connection with a code and a reason, which API Gateway's management API cannot do."""
        connection = self._open(ConnectionId, "DeleteConnection")
        self._run(connection, connection.close(Code, Reason), "DeleteConnection")
        return _answer(204)

    def _open(self, connection_id: str, operation: str) -> Connection:
        connection = self._connections.get(connection_id)
        if connection is None or not connection.is_open:
            raise _error("GoneException", 410, operation)
        return connection

    def _run(self, connection: Connection, work: Coroutine[Any, Any, None], operation: str) -> None:
        """Run work on the gateway's thread, in the order of the calls. A gateway that has stopped is gone."""
        try:
            future = asyncio.run_coroutine_threadsafe(work, connection.websocket.loop)
        except RuntimeError:  # the loop is closed
            work.close()
            raise _error("GoneException", 410, operation) from None
        try:
            future.result(2 * self._limits.patience_seconds)
        except (ConnectionError, TimeoutError, CancelledError):
            future.cancel()
            raise _error("GoneException", 410, operation) from None


@dataclass(frozen=True)
class Session:
    """What `app.websocket_api.session` needs of a boto3 session."""

    management: ManagementClient
    region_name: str = "local"

    def client(self, service_name: str, endpoint_url: str | None = None, **options: Any) -> ManagementClient:
        """Return the management client, whatever the endpoint: this gateway is the only one there is."""
        if service_name != _SERVICE:
            raise ValueError(f"no {service_name!r} here, only {_SERVICE!r}")
        return self.management


def _error(code: str, status: int, operation: str) -> ClientError:
    error: ClientError = getattr(_EXCEPTIONS, code)(
        {"Error": {"Code": code, "Message": ""}} | _answer(status), operation
    )
    return error


def _answer(status: int) -> dict[str, Any]:
    return {"ResponseMetadata": {"HTTPStatusCode": status, "RetryAttempts": 0}}
