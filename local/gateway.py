"""API Gateway's WebSocket API on 127.0.0.1, in front of the handlers of a Chalice app.

    gateway = Gateway(app, port=8001)
    app.websocket_api.session = gateway.session()
    gateway.start()

The handlers get AWS's events and post through `app.websocket_api`, as in a deployment. `$connect` runs before
the handshake is answered: its status decides, and a post to its own connection fails with 410 Gone.
`$disconnect` runs exactly once for every connection that `$connect` accepted, after the handler of its last
message.

Differences from AWS:

| | here | on AWS |
|---|---|---|
| `$disconnect` | always runs | best effort |
| messages of one connection | handled in order, one at a time | handled concurrently, in any order |
| time limit of a message handler | none | 29 seconds |
| account and rate limits | none | yes |
| management API | in this process only, without HTTP | HTTP `/@connections` |

`Session` stands in for the boto3 session that Chalice asks for its `apigatewaymanagementapi` client. The
errors are botocore's own classes, so Chalice turns a 410 into `WebsocketDisconnectedError` as on AWS.
"""

import asyncio
import base64
import json
import logging
import secrets
import socket
import threading
import time
import uuid
from collections.abc import Collection, Coroutine, Mapping
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qs, urlsplit

from botocore.errorfactory import ClientExceptionsFactory
from botocore.exceptions import ClientError
from botocore.loaders import create_loader
from botocore.model import ServiceModel
from chalice.app import Chalice
from chalice.local import LambdaContext
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response
from websockets.protocol import State

from local.origins import refusal

LOGGER = logging.getLogger("hubbub.local")
HOST = "127.0.0.1"
QUEUED_MESSAGES = 64  # of one connection; then its client has to wait
ROUTES = {"CONNECT": "$connect", "MESSAGE": "$default", "DISCONNECT": "$disconnect"}

_SERVICE = "apigatewaymanagementapi"
_MODEL = ServiceModel(create_loader().load_service_model(_SERVICE, "service-2"), _SERVICE)
_EXCEPTIONS: Any = ClientExceptionsFactory().create_client_exceptions(_MODEL)


@dataclass(frozen=True)
class Limits:
    """The limits of API Gateway. Tests use smaller ones."""

    idle_seconds: float = 600
    duration_seconds: float = 7200
    message_bytes: int = 128 * 1024
    frame_bytes: int = 32 * 1024
    # Limits of this gateway only: concurrent handlers, and seconds to wait for a peer that does not read or
    # respond before its connection is aborted.
    threads: int = 32
    patience_seconds: float = 5


@dataclass
class Connection:
    """The connection of a client, from its `$connect` handler to its `$disconnect` handler."""

    id: str
    websocket: ServerConnection
    patience_seconds: float
    connected_at: float = field(default_factory=time.time)
    last_active_at: float = field(default_factory=time.time)

    @property
    def is_open(self) -> bool:
        """Whether the handshake is complete and neither side has started to close."""
        return self.websocket.state is State.OPEN

    async def send(self, text: str) -> None:
        """Send one text frame. Abort the connection when the peer's buffers stay full.

        Raises: ConnectionError when the connection is not open.
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
        if not self.is_open:  # it was lost while this frame waited for the peer's buffers
            raise ConnectionError(self.id)

    async def close(self, code: int, reason: str = "") -> None:
        """Close with a code, and abort the connection when the peer does not confirm."""
        try:
            async with asyncio.timeout(self.patience_seconds):
                await self.websocket.close(code, reason)
        except TimeoutError:
            self.websocket.transport.abort()


class ManagementClient:
    """Posts to, describes and deletes connections, as boto3's `apigatewaymanagementapi` client does.

    May be called from any thread except the gateway's own.

    Raises: `exceptions.GoneException` (410) for a connection that is unknown, still in its `$connect`, or
        closed, and after a bounded wait for one whose peer does not read.
    """

    exceptions = _EXCEPTIONS

    def __init__(self, connections: Mapping[str, Connection], limits: Limits) -> None:
        self._connections = connections
        self._limits = limits

    def post_to_connection(self, *, ConnectionId: str, Data: str | bytes) -> dict[str, Any]:  # noqa: N803
        """Send Data as one text frame. Posts to one connection arrive in order.

        Raises: GoneException, and `exceptions.PayloadTooLargeException` (413) for Data over the limit.
        """
        data = Data.encode() if isinstance(Data, str) else Data
        # API Gateway returns 413 for more than 128 KB.
        if len(data) > self._limits.message_bytes:
            raise _error("PayloadTooLargeException", 413, "PostToConnection")
        connection = self._open(ConnectionId, "PostToConnection")
        self._run(connection, connection.send(data.decode(errors="replace")), "PostToConnection")
        return _metadata(200)

    def get_connection(self, *, ConnectionId: str) -> dict[str, Any]:  # noqa: N803
        """Return when a connection was opened and last active, and the identity of its client."""
        connection = self._open(ConnectionId, "GetConnection")
        request = connection.websocket.request
        user_agents = request.headers.get_all("User-Agent") if request else []
        return _metadata(200) | {
            "ConnectedAt": datetime.fromtimestamp(connection.connected_at, UTC),
            "LastActiveAt": datetime.fromtimestamp(connection.last_active_at, UTC),
            "Identity": {"SourceIp": "127.0.0.1", "UserAgent": ", ".join(user_agents)},
        }

    def delete_connection(self, *, ConnectionId: str) -> dict[str, Any]:  # noqa: N803
        """Close a connection with code 1000; its `$disconnect` handler runs afterwards."""
        connection = self._open(ConnectionId, "DeleteConnection")
        self._run(connection, connection.close(1000), "DeleteConnection")
        return _metadata(204)

    def close_connection(self, *, ConnectionId: str, Code: int, Reason: str) -> dict[str, Any]:  # noqa: N803
        """Close a connection with a code and a reason, which API Gateway's management API cannot do."""
        connection = self._open(ConnectionId, "DeleteConnection")
        self._run(connection, connection.close(Code, Reason), "DeleteConnection")
        return _metadata(204)

    def _open(self, connection_id: str, operation: str) -> Connection:
        connection = self._connections.get(connection_id)
        if connection is None or not connection.is_open:
            raise _error("GoneException", 410, operation)
        return connection

    def _run(self, connection: Connection, work: Coroutine[Any, Any, None], operation: str) -> None:
        """Run a coroutine on the gateway's thread, in the order of the calls. Raises GoneException."""
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
    """The part of a boto3 session that `app.websocket_api.session` uses."""

    management: ManagementClient
    region_name: str = "local"

    def client(self, service_name: str, endpoint_url: str | None = None, **options: Any) -> ManagementClient:
        """Return the management client of this gateway for any endpoint."""
        if service_name != _SERVICE:
            raise ValueError(f"service {service_name!r} is not supported, only {_SERVICE!r}")
        return self.management


def _error(code: str, status: int, operation: str) -> ClientError:
    error: ClientError = getattr(_EXCEPTIONS, code)(
        {"Error": {"Code": code, "Message": ""}} | _metadata(status), operation
    )
    return error


def _metadata(status: int) -> dict[str, Any]:
    return {"ResponseMetadata": {"HTTPStatusCode": status, "RetryAttempts": 0}}


class Gateway:
    """Serves an app's WebSocket handlers on a port of 127.0.0.1. Port 0 picks a free one.

    `origins` are those whose pages may open sockets besides pages of this machine.
    """

    def __init__(
        self, app: Chalice, port: int, limits: Limits = Limits(), origins: Collection[str] = ()
    ) -> None:
        self._app = app
        self._port = port
        self._limits = limits
        self._origins = origins
        self._connections: dict[str, Connection] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._thread: threading.Thread | None = None
        self._abandons = False

    @property
    def url(self) -> str:
        """The address that clients connect to."""
        return f"ws://{HOST}:{self._port}"

    def start(self) -> None:
        """Serve in a thread, and return when the port is open. Raises OSError when it is in use."""
        listener = socket.create_server((HOST, self._port))
        self._port = listener.getsockname()[1]
        self._pool = ThreadPoolExecutor(self._limits.threads, thread_name_prefix="gateway-handler")
        ready = threading.Event()
        self._thread = threading.Thread(
            target=lambda: asyncio.run(self._serve(listener, ready)), name="gateway", daemon=True
        )
        self._thread.start()
        ready.wait()

    def stop(self, *, abandons: bool = False) -> None:
        """Close every connection (1001), run the `$disconnect` handlers, free the port and the threads.

        A gateway that `abandons` calls no handler any more. Messages that wait would take minutes without an
        engine.
        """
        if self._thread is None:
            return
        self._abandons = abandons
        self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join()
        self._pool.shutdown()
        self._thread = None

    def session(self) -> Session:
        """Return the session to assign to `app.websocket_api.session`."""
        return Session(ManagementClient(self._connections, self._limits))

    async def _serve(self, listener: socket.socket, ready: threading.Event) -> None:
        self._loop = asyncio.get_running_loop()
        self._stopping = asyncio.Event()
        limits = self._limits
        server = await serve(
            ServerConnection.wait_closed,  # _serve_connection() handles messages, and outlives the socket
            sock=listener,
            process_response=self._handshake,
            # API Gateway waits 29 s for the $connect handler.
            open_timeout=29,
            # API Gateway sends no pings. Clients keep their connections alive.
            ping_interval=None,
            # API Gateway closes with 1009 on a message over 128 KB or a frame over 32 KB.
            max_size=(limits.message_bytes, limits.frame_bytes),
            compression=None,  # so that the limits count bytes on the wire
            close_timeout=limits.patience_seconds,
        )
        ready.set()
        await self._stopping.wait()
        server.close(close_connections=False)  # handshakes in progress get 503
        await asyncio.gather(*(c.close(1001, "Going away") for c in list(self._connections.values())))
        while self._tasks:
            await asyncio.wait(self._tasks)
        with suppress(TimeoutError):  # of a client that never sent its handshake
            await asyncio.wait_for(server.wait_closed(), limits.patience_seconds)

    async def _handshake(
        self, websocket: ServerConnection, request: Request, response: Response
    ) -> Response | None:
        """Run `$connect` for a valid handshake of an allowed page. Return None to accept it."""
        if response.status_code != 101:
            return None
        if reason := refusal(request.headers.raw_items(), self._origins):
            return websocket.respond(403, reason)
        # $connect must complete even if the client gives up, because $disconnect has to undo its writes.
        return await asyncio.shield(self._spawn(self._connect(websocket, request)))

    async def _connect(self, websocket: ServerConnection, request: Request) -> Response | None:
        # Ids have API Gateway's form: 15 characters of base64 and one of padding.
        connection_id = base64.urlsafe_b64encode(secrets.token_bytes(11)).decode()
        connection = Connection(connection_id, websocket, self._limits.patience_seconds)
        event = self._event(connection, "CONNECT") | _handshake_details(request)
        response = await self._invoke(event)
        # API Gateway responds with the handler's status, and with 502 when the handler fails.
        status = response["statusCode"] if response else 502
        if not 200 <= status < 300:
            return websocket.respond(status, "" if response else _failure(event))
        self._connections[connection.id] = connection
        self._spawn(self._serve_connection(connection))
        return None

    async def _serve_connection(self, connection: Connection) -> None:
        """Handle messages until the connection is closed or fails to open, then run `$disconnect`."""
        websocket = connection.websocket
        expiry = asyncio.create_task(self._expire(connection))
        arrivals: asyncio.Queue[tuple[str, datetime] | None] = asyncio.Queue(QUEUED_MESSAGES)
        reader = asyncio.create_task(self._read(connection, arrivals))
        while arrival := await arrivals.get():
            await self._message(connection, *arrival)
        await reader
        await websocket.wait_closed()
        expiry.cancel()
        del self._connections[connection.id]
        await self._invoke(self._event(connection, "DISCONNECT", **_close_details(websocket)))

    async def _read(
        self, connection: Connection, arrivals: "asyncio.Queue[tuple[str, datetime] | None]"
    ) -> None:
        """Queue the messages with their times of arrival, and None at the end."""
        with suppress(ConnectionClosed):
            while True:
                message = await connection.websocket.recv()
                connection.last_active_at = time.time()
                if isinstance(message, bytes):
                    # API Gateway closes with 1003 on a binary frame from a client.
                    await connection.close(1003, "Binary frames are not supported")
                    break
                await arrivals.put((message, datetime.now(UTC)))
        await arrivals.put(None)

    async def _message(self, connection: Connection, text: str, arrived: datetime) -> None:
        event = self._event(connection, "MESSAGE", arrived, messageId=str(uuid.uuid4())) | {"body": text}
        if await self._invoke(event) is None:
            # API Gateway sends the client an error and keeps the connection.
            with suppress(ConnectionError):
                await connection.send(_failure(event))

    async def _expire(self, connection: Connection) -> None:
        """Close a connection that is idle or has reached its maximum duration."""
        # API Gateway closes with 1001 after 10 minutes without a message in either direction (here pings do
        # not count), and after 2 hours in any case.
        idle, end = self._limits.idle_seconds, connection.connected_at + self._limits.duration_seconds
        while (left := min(end, connection.last_active_at + idle) - time.time()) > 0:
            await asyncio.sleep(left)
        await connection.close(1001, "Going away")

    async def _invoke(self, event: dict[str, Any]) -> dict[str, Any] | None:
        if self._abandons:
            return None
        return await self._loop.run_in_executor(self._pool, self._handle, event)

    def _handle(self, event: dict[str, Any]) -> dict[str, Any] | None:
        """Call the app's handler of an event in a thread of the pool. Log an exception and return None."""
        context = event["requestContext"]
        registered = self._app.websocket_handlers.get(context["routeKey"])
        if registered is None:
            return {"statusCode": 200}
        function = LambdaContext(
            f"websocket_{context['eventType'].lower()}", memory_size=256, max_runtime_ms=60_000
        )
        try:
            response: dict[str, Any] = self._app.handler_map[registered.name](event, function)
        except (Exception, SystemExit):
            LOGGER.exception("%s failed for connection %s", context["routeKey"], context["connectionId"])
            return None
        return response

    def _event(
        self, connection: Connection, event_type: str, arrived: datetime | None = None, **details: Any
    ) -> dict[str, Any]:
        now = arrived or datetime.now(UTC)
        return {
            "requestContext": {
                "routeKey": ROUTES[event_type],
                "eventType": event_type,
                "messageDirection": "IN",
                "connectionId": connection.id,
                "connectedAt": int(connection.connected_at * 1000),
                "requestId": str(uuid.uuid4()),
                "requestTime": now.strftime("%d/%b/%Y:%H:%M:%S +0000"),
                "requestTimeEpoch": int(now.timestamp() * 1000),
                "domainName": f"{HOST}:{self._port}",
                "stage": "local",
                "apiId": "local",
                "identity": {"sourceIp": connection.websocket.remote_address[0]},
                **details,
            },
            "isBase64Encoded": False,
        }

    def _spawn(self, work: Coroutine[Any, Any, Response | None]) -> asyncio.Task[Response | None]:
        """Run a coroutine in a task that stop() waits for."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


def _handshake_details(request: Request) -> dict[str, Any]:
    """Return the fields that only the event of `$connect` has: headers and an optional query string."""
    headers = {name: request.headers.get_all(name) for name, _ in request.headers.raw_items()}
    query = parse_qs(urlsplit(request.path).query, keep_blank_values=True)
    parts: dict[str, Any] = {"multiValueHeaders": headers}
    parts["headers"] = {name: values[-1] for name, values in headers.items()}
    if query:
        parts["multiValueQueryStringParameters"] = query
        parts["queryStringParameters"] = {name: values[-1] for name, values in query.items()}
    return parts


def _close_details(websocket: ServerConnection) -> dict[str, Any]:
    """Return the fields that only the event of `$disconnect` has: code and reason of the first close."""
    closed = websocket.protocol.close_exc
    first = (closed.rcvd if closed.rcvd_then_sent else closed.sent) or closed.rcvd
    code, reason = (first.code, first.reason) if first else (1006, "")  # no close frame in either direction
    return {"disconnectStatusCode": int(code), "disconnectReason": reason}


def _failure(event: dict[str, Any]) -> str:
    ids = {name: event["requestContext"][name] for name in ("connectionId", "requestId")}
    return json.dumps({"message": "Internal server error", **ids})
