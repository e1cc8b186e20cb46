"""API Gateway's WebSocket API on 127.0.0.1, in front of a Chalice app's own handlers.

    gateway = Gateway(app, port=8001)
    app.websocket_api.session = gateway.session()
    gateway.start()

The handlers see AWS's events and post through `app.websocket_api`, as deployed. `$connect` runs before the
handshake is answered: its status decides, and a post to its own connection is 410 Gone. `$disconnect` runs
exactly once for every connection that `$connect` accepted, however it ended, after the handler of its last
message.

What differs from AWS: `$disconnect` is certain here and best effort there. The messages of one connection
are handled in order and one at a time here; there they run side by side, in any order. Message handlers
have no time limit here, and there are no account or rate limits. The management API (`local.connections`)
is in process only.
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
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qs, urlsplit

from chalice.app import Chalice
from chalice.local import LambdaContext
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response

from local.connections import Connection, Limits, ManagementClient, Session

__all__ = ["Gateway", "Limits"]

LOGGER = logging.getLogger("hubbub.local")
HOST = "127.0.0.1"
WAITING = 64  # messages of a connection that wait for their handler; then its client waits
ROUTES = {"CONNECT": "$connect", "MESSAGE": "$default", "DISCONNECT": "$disconnect"}


class Gateway:
    """Serves an app's WebSocket handlers on a port of this machine; port 0 picks a free one.

    `limits` are API Gateway's own unless a test wants to reach them sooner.
    """

    def __init__(self, app: Chalice, port: int, limits: Limits = Limits()) -> None:  # noqa: B008 (it is frozen)
        self._app = app
        self._port = port
        self._limits = limits
        self._connections: dict[str, Connection] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._thread: threading.Thread | None = None

    @property
    def url(self) -> str:
        """The address clients connect to."""
        return f"ws://{HOST}:{self._port}"

    def start(self) -> None:
        """Serve in a thread of its own and return when the port answers. Raises OSError when it is taken."""
        listener = socket.create_server((HOST, self._port))
        self._port = listener.getsockname()[1]
        self._pool = ThreadPoolExecutor(self._limits.threads, thread_name_prefix="gateway-handler")
        ready = threading.Event()
        self._thread = threading.Thread(
            target=lambda: asyncio.run(self._serve(listener, ready)), name="gateway", daemon=True
        )
        self._thread.start()
        ready.wait()

    def stop(self) -> None:
        """Close every connection (1001), run the `$disconnect` handlers, free the port and the threads."""
        if self._thread is None:
            return
        self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join()
        self._pool.shutdown()
        self._thread = None

    def session(self) -> Session:
        """Return what to assign to `app.websocket_api.session`."""
        return Session(ManagementClient(self._connections, self._limits))

    def connection_ids(self) -> set[str]:
        """Return the ids of the connections that are open now."""
        return {connection.id for connection in list(self._connections.values()) if connection.is_open}

    async def _serve(self, listener: socket.socket, ready: threading.Event) -> None:
        self._loop = asyncio.get_running_loop()
        self._stopping = asyncio.Event()
        limits = self._limits
        server = await serve(
            ServerConnection.wait_closed,  # _live() does the work, so that it can outlast the socket
            sock=listener,
            process_response=self._handshake,
            # API Gateway waits 29 s for the handler of $connect.
            open_timeout=29,
            # API Gateway sends no pings: what keeps a connection from idling out is the client's business.
            ping_interval=None,
            # API Gateway closes with 1009 on a message over 128 KB or a frame over 32 KB.
            max_size=(limits.message_bytes, limits.frame_bytes),
            compression=None,  # so that these are bytes on the wire
            close_timeout=limits.patience_seconds,
        )
        ready.set()
        await self._stopping.wait()
        server.close(close_connections=False)  # answers 503 to a handshake that is under way
        await asyncio.gather(*(c.close(1001, "Going away") for c in list(self._connections.values())))
        while self._tasks:
            await asyncio.wait(self._tasks)
        with suppress(TimeoutError):  # of a client that never sent its handshake
            await asyncio.wait_for(server.wait_closed(), limits.patience_seconds)

    async def _handshake(
        self, websocket: ServerConnection, request: Request, response: Response
    ) -> Response | None:
        """Let `$connect` decide on a valid handshake. None accepts."""
        if response.status_code != 101:
            return None
        # A client that gives up must not cut $connect short: what it wrote, $disconnect has to take away.
        return await asyncio.shield(self._spawn(self._connect(websocket, request)))

    async def _connect(self, websocket: ServerConnection, request: Request) -> Response | None:
        # Ids look like API Gateway's: 15 characters of base64 and one of padding.
        connection_id = base64.urlsafe_b64encode(secrets.token_bytes(11)).decode()
        connection = Connection(connection_id, websocket, self._limits.patience_seconds)
        event = self._event(connection, "CONNECT") | _upgrade(request)
        answer = await self._invoke(event)
        # API Gateway answers the handshake with the handler's status, and with 502 when the handler fails.
        status = answer["statusCode"] if answer else 502
        if not 200 <= status < 300:
            return websocket.respond(status, "" if answer else _failure(event))
        self._connections[connection.id] = connection
        self._spawn(self._live(connection))
        return None

    async def _live(self, connection: Connection) -> None:
        """Handle the messages until the connection is closed, or was never opened; then run `$disconnect`."""
        websocket = connection.websocket
        keeper = asyncio.create_task(self._expire(connection))
        arrivals: asyncio.Queue[tuple[str, datetime] | None] = asyncio.Queue(WAITING)
        reader = asyncio.create_task(self._read(connection, arrivals))
        while arrival := await arrivals.get():
            await self._message(connection, *arrival)
        await reader
        await websocket.wait_closed()
        keeper.cancel()
        del self._connections[connection.id]
        await self._invoke(self._event(connection, "DISCONNECT", **_farewell(websocket)))

    async def _read(
        self, connection: Connection, arrivals: "asyncio.Queue[tuple[str, datetime] | None]"
    ) -> None:
        """Read the messages with the time of each, which API Gateway takes before any handler; then None."""
        with suppress(ConnectionClosed):
            while True:
                message = await connection.websocket.recv()
                connection.last_active_at = time.time()
                if isinstance(message, bytes):
                    # API Gateway supports no binary frames from clients: it disconnects with 1003.
                    await connection.close(1003, "Binary frames are not supported")
                    break
                await arrivals.put((message, datetime.now(UTC)))
        await arrivals.put(None)

    async def _message(self, connection: Connection, text: str, arrived: datetime) -> None:
        event = self._event(connection, "MESSAGE", arrived, messageId=str(uuid.uuid4())) | {"body": text}
        if await self._invoke(event) is None:
            # API Gateway tells the client of a failed handler, and keeps the connection.
            with suppress(ConnectionError):
                await connection.send(_failure(event))

    async def _expire(self, connection: Connection) -> None:
        """Close a connection when its time is up."""
        # API Gateway closes with 1001 after 10 minutes without a message either way (pings do not count
        # here), and after 2 hours whatever happens.
        idle, end = self._limits.idle_seconds, connection.connected_at + self._limits.duration_seconds
        while (left := min(end, connection.last_active_at + idle) - time.time()) > 0:
            await asyncio.sleep(left)
        await connection.close(1001, "Going away")

    async def _invoke(self, event: dict[str, Any]) -> dict[str, Any] | None:
        return await self._loop.run_in_executor(self._pool, self._handle, event)

    def _handle(self, event: dict[str, Any]) -> dict[str, Any] | None:
        """Call the app's handler of an event, in a thread of the pool. None, logged, when it raises."""
        context = event["requestContext"]
        registered = self._app.websocket_handlers.get(context["routeKey"])
        if registered is None:
            return {"statusCode": 200}
        function = LambdaContext(
            f"websocket_{context['eventType'].lower()}", memory_size=256, max_runtime_ms=60_000
        )
        try:
            answer: dict[str, Any] = self._app.handler_map[registered.name](event, function)
        except (Exception, SystemExit):
            LOGGER.exception("%s failed for connection %s", context["routeKey"], context["connectionId"])
            return None
        return answer

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
                "identity": {"sourceIp": HOST},
                **details,
            },
            "isBase64Encoded": False,
        }

    def _spawn(self, work: Coroutine[Any, Any, Response | None]) -> asyncio.Task[Response | None]:
        """Run work in a task that stop() waits for."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


def _upgrade(request: Request) -> dict[str, Any]:
    """Return what only the event of `$connect` has: the headers, and the query string when there is one."""
    headers = {name: request.headers.get_all(name) for name, _ in request.headers.raw_items()}
    query = parse_qs(urlsplit(request.path).query, keep_blank_values=True)
    parts: dict[str, Any] = {"multiValueHeaders": headers}
    parts["headers"] = {name: values[-1] for name, values in headers.items()}
    if query:
        parts["multiValueQueryStringParameters"] = query
        parts["queryStringParameters"] = {name: values[-1] for name, values in query.items()}
    return parts


def _farewell(websocket: ServerConnection) -> dict[str, Any]:
    """Return what only the event of `$disconnect` has: the code and reason of the side that closed first."""
    closed = websocket.protocol.close_exc
    first = (closed.rcvd if closed.rcvd_then_sent else closed.sent) or closed.rcvd
    code, reason = (first.code, first.reason) if first else (1006, "")  # no close frame either way
    return {"disconnectStatusCode": int(code), "disconnectReason": reason}


def _failure(event: dict[str, Any]) -> str:
    ids = {name: event["requestContext"][name] for name in ("connectionId", "requestId")}
    return json.dumps({"message": "Internal server error", **ids})
