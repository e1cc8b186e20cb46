"""REST on 127.0.0.1: Chalice's local server with the behaviour of API Gateway and of a web server.

Below a prefix the routes are served as below a stage of API Gateway. A request that API Gateway would refuse
never reaches the app, and the refusal has the contract's shape. Neither does a request of a page of another
site (origins.py). The origin that may read a response is therefore the one that asked, never `*`.
"""

from __future__ import annotations

import contextlib
import gzip
import json
import logging
import re
import socket
import socketserver
import sys
import threading
import time
from collections.abc import Callable, Collection
from email.message import Message
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from io import BufferedIOBase
from typing import Any, cast

from chalice.app import Chalice
from chalice.config import Config
from chalice.local import (
    ChaliceRequestHandler,
    LocalChalice,
    LocalDevServer,
    LocalGateway,
    LocalGatewayException,
    ThreadedHTTPServer,
)

from local.origins import refusal
from local.page_api import PageApi

MAX_BODY_BYTES = 10 * 1024 * 1024  # API Gateway's limit
LEAST_COMPRESSED = 1400  # bytes: minimum_compression_size in .chalice/config.json
MAX_LINE_BYTES = 8192  # of a chunk's size, or of a trailer
LOGGER = logging.getLogger("hubbub.local")
HOST = "127.0.0.1"
ALLOWED = "Access-Control-Allow-Origin"

# Errors of API Gateway itself, as the gateway responses of a deployment define them.
GATEWAY_ERRORS = {
    401: (401, "Send a bearer token."),
    403: (404, "There is no such path."),  # "Missing Authentication Token": no route matches
}
CODES = {
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    413: "TooLarge",
    414: "UriTooLong",
    431: "TooLarge",
    500: "InternalServerError",
    501: "NotImplemented",
}


class StageGateway(LocalGateway):
    """Chalice's gateway below the path of a stage, for the client at one address.

    API Gateway serves `/{stage}` and `/{stage}/` as the same resource, `/`. Only `requestContext.path`, the
    path as the client sent it, distinguishes them.
    """

    def __init__(self, app_object: Chalice, config: Config, prefix: str, address: str) -> None:
        self._prefix = prefix
        self._address = address
        super().__init__(app_object, config)

    def _generate_lambda_event(self, method: str, path: str, headers: Any, body: bytes | None) -> Any:
        event = super()._generate_lambda_event(method, path, headers, body)
        event["requestContext"]["path"] = self._path
        event["requestContext"]["identity"]["sourceIp"] = self._address
        return event

    def handle_request(self, method: str, path: str, headers: Any, body: bytes | None) -> Any:
        """Handle a request by its path below the prefix. Raises NotBelow."""
        self._path = path.partition("?")[0]
        return super().handle_request(method, below(self._prefix, path), headers, body)


class NotBelow(LocalGatewayException):
    """The path is not below the prefix. On AWS there is no such stage."""

    CODE = 403


def below(prefix: str, path: str) -> str:
    """Return the part of a path below a prefix, or a slash. Raises NotBelow."""
    rest = path.removeprefix(prefix)
    if not path.startswith(prefix) or (prefix and rest[:1] not in ("", "/", "?")):
        raise NotBelow({}, b"")
    return rest if rest.startswith("/") else f"/{rest}"


class Handler(ChaliceRequestHandler):
    """Serves the page API of the local run itself, and everything else through Chalice."""

    disable_nagle_algorithm = True  # otherwise the body waits 40 ms for the ACK of the headers
    default_request_version = "HTTP/1.1"  # of a malformed request line
    timeout = 75.0  # seconds without a byte from the client
    _origin = ""  # of the page that sent the request, if it is allowed

    def __init__(
        self, request: Any, client_address: Any, server: Any, app_object: Chalice, config: Config
    ) -> None:
        self.local_gateway = StageGateway(app_object, config, server.prefix, client_address[0])
        BaseHTTPRequestHandler.__init__(self, request, client_address, server)

    def handle_one_request(self) -> None:
        """Handle a request, and close the connection after it when the server is stopping."""
        self._origin = ""
        super().handle_one_request()
        if cast(Server, self.server).is_stopping:
            self.close_connection = True

    def respond(self) -> None:
        """Respond to a request of any method."""
        server = cast(Server, self.server)
        try:
            if reason := refusal(self.headers.items(), server.origins):
                raise Refusal(403, reason)
            self._origin = self.headers.get("Origin", "")
            body = read_body(self.headers, self.rfile, self._send_continue)
            page_api, path = server.page_api, below(server.prefix, self.path)
            if page_api and (response := page_api.respond(self.command, path, self.headers)):
                status, content = response
                self._send_http_response_with_body(status, {}, json.dumps(content))
            else:
                self._call_app(body)
        except NotBelow:
            self._send_error(*GATEWAY_ERRORS[403])
        except Refusal as error:
            self.send_error(error.status, str(error))

    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = respond  # noqa: N815

    def __getattr__(self, name: str) -> Any:
        """Respond to any other method. The app refuses those that a path does not have with 405."""
        if name.startswith("do_"):
            return self.respond
        raise AttributeError(name)

    def _call_app(self, body: bytes | None) -> None:
        headers = dict(self.headers)
        if not all(value.isascii() for name, value in headers.items() if name.lower() == "authorization"):
            raise Refusal(400, "`Authorization` must be ASCII")
        try:
            method = "GET" if self.command == "HEAD" else self.command  # the body is not sent
            response = self.local_gateway.handle_request(method, self.path, headers, body)
        except LocalGatewayException as error:
            status, message = GATEWAY_ERRORS.get(error.CODE, (500, "Internal error. Please retry."))
            self._send_error(status, message)
            return
        except Exception:
            LOGGER.exception("%s %s failed", self.command, self.path)
            self._send_error(500, "Internal error. Please retry.")
            return
        response = self._handle_binary(response)
        response_headers = {**response["headers"], **response["multiValueHeaders"]}
        self._send_http_response(response["statusCode"], response_headers, response["body"])

    def handle_expect_100(self) -> bool:
        """Postpone 100 Continue until the headers are checked, so that a refused body is never sent."""
        return True

    def _send_continue(self) -> None:
        if self.headers.get("Expect", "").lower() == "100-continue":
            self.send_response_only(HTTPStatus.CONTINUE)
            self.end_headers()

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Send an error in the contract's format, and close the connection, which may hold unread bytes."""
        self.close_connection = True
        self._send_error(code, message or explain or HTTPStatus(code).description)
        self._linger()

    def _send_error(self, status: int, message: str) -> None:
        body = json.dumps({"code": CODES.get(status, "BadRequest"), "message": message})
        self._send_http_response_with_body(status, {ALLOWED: "*"}, body)

    def _linger(self) -> None:
        """Wait until a client that still sends has read the response. Closing would reset the connection."""
        self.wfile.flush()
        deadline = time.monotonic() + 1
        with contextlib.suppress(OSError):
            self.connection.shutdown(socket.SHUT_WR)
            self.connection.settimeout(0.2)
            while time.monotonic() < deadline and self.connection.recv(65536):
                pass

    def _send_http_response_with_body(self, code: int, headers: dict[str, Any], body: str | bytes) -> None:
        content = body.encode() if isinstance(body, str) else body
        if content[-1:] in (b"}", b"]") and "json" in str(headers.get("Content-Type", "json")):
            content += b"\n"  # so that a terminal's prompt begins on a line of its own after curl
        if len(content) >= LEAST_COMPRESSED and "gzip" in self.headers.get("Accept-Encoding", ""):
            headers = {**headers, "Content-Encoding": "gzip"}
            content = gzip.compress(content)
        self.send_response(code)
        if code not in (204, 304):
            self.send_header("Content-Length", str(len(content)))
            self.send_header("Content-Type", headers.pop("Content-Type", "application/json"))
        if self.close_connection:
            self.send_header("Connection", "close")
        self._send_headers(headers)
        if self.command != "HEAD":
            self.wfile.write(content)

    def _send_headers(self, headers: Any) -> None:
        if headers.get(ALLOWED) == "*":
            headers = {name: value for name, value in headers.items() if name != ALLOWED}
            self.send_header("Vary", "Origin")
            if self._origin:
                self.send_header(ALLOWED, self._origin)
        super()._send_headers(headers)

    def version_string(self) -> str:
        """Return the server's name without versions."""
        return "hubbub-local"

    def log_message(self, format: str, *args: Any) -> None:
        """Log no requests."""


class Server(ThreadedHTTPServer):
    """Accepts bursts of connections, and closes connections without losing a response."""

    request_queue_size = 256

    def __init__(self, *arguments: Any) -> None:
        self.is_stopping = False
        self.prefix = ""
        self.origins: Collection[str] = ()
        self.page_api: PageApi | None = None
        self._connections: set[Any] = set()
        self._changed = threading.Condition()
        super().__init__(*arguments)

    def server_bind(self) -> None:
        """Bind without looking up the host's name, which can take seconds."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = self.server_address[:2]

    def process_request(self, request: Any, client_address: Any) -> None:
        """Register a connection, and serve it in a thread."""
        with self._changed:
            self._connections.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """Close a connection, and remove it from the registered ones."""
        super().shutdown_request(request)
        with self._changed:
            self._connections.discard(request)
            self._changed.notify_all()

    def finish(self, patience: float) -> None:
        """Close every connection after its current request."""
        with self._changed:
            self.is_stopping = True
            for connection in self._connections:
                with contextlib.suppress(OSError):  # the client has disconnected
                    connection.shutdown(socket.SHUT_RD)
            self._changed.wait_for(lambda: not self._connections, patience)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log an error of a connection, unless its client disconnected."""
        if not isinstance(sys.exception(), ConnectionError | TimeoutError):
            LOGGER.exception("a connection failed")


class Rest:
    """Serves a Chalice app's routes on a port of 127.0.0.1, below an optional prefix such as `/api`.

    `origins` are those whose pages may use it besides pages of this machine.

    Raises: OSError when the port is in use.
    """

    def __init__(self, app: Chalice, port: int, prefix: str = "", origins: Collection[str] = ()) -> None:
        app.__class__ = LocalChalice  # as `chalice local` does: each thread has its own current request
        config = Config(chalice_stage="local", config_from_disk={"app_name": app.app_name})
        self._dev = LocalDevServer(app, config, HOST, port, handler_cls=Handler, server_cls=Server)
        self._server = cast(Server, self._dev.server)
        self._server.prefix, self._server.origins = prefix, origins
        self.url = f"http://{HOST}:{self._server.server_port}{prefix}"

    def serve_page_api(self, page_api: PageApi) -> None:
        """Serve the API of the local page as well."""
        self._server.page_api = page_api

    def start(self) -> None:
        """Serve in a thread."""
        threading.Thread(target=self._server.serve_forever, args=(0.05,), name="rest", daemon=True).start()

    def stop(self, patience: float = 5.0) -> None:
        """Accept no more requests, free the port, and wait `patience` seconds for running requests."""
        self._server.shutdown()
        self._server.server_close()
        self._server.finish(patience)


# -- request bodies ------------------------------------------------------------------------------------


class Refusal(Exception):
    """A request that is refused before it reaches the app, with a status and a message."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def read_body(headers: Message, stream: BufferedIOBase, send_continue: Callable[[], None]) -> bytes | None:
    """Return the body that follows the headers, or None when they declare none.

    `send_continue` is called after the headers are checked and before the body is read.

    Cost: reads at most 10 MB.
    Raises: Refusal with 400 for a malformed request, 413 for more than 10 MB, and 501 for a transfer coding
        other than chunked.
    """
    lengths = set(headers.get_all("Content-Length", []))
    codings = headers.get_all("Transfer-Encoding", [])
    if codings:
        if lengths:
            raise Refusal(400, "`Content-Length` is not allowed with Transfer-Encoding")
        if [coding.strip().lower() for coding in codings] != ["chunked"]:
            raise Refusal(501, f"Transfer-Encoding: {', '.join(codings)} is not supported, only chunked")
        send_continue()
        return _chunks(stream)
    if not lengths:
        return None
    length = lengths.pop().strip()
    if lengths or not re.fullmatch("[0-9]+", length):
        raise Refusal(400, "`Content-Length` must be one whole number")
    if len(length) > 15 or int(length) > MAX_BODY_BYTES:
        raise Refusal(413, f"The body has {length[:20]} bytes, more than {MAX_BODY_BYTES}")
    send_continue()
    return _exactly(stream, int(length))


def _chunks(stream: BufferedIOBase) -> bytes:
    body = bytearray()
    while size := _chunk_size(stream):
        if len(body) + size > MAX_BODY_BYTES:
            raise Refusal(413, f"The body has more than {MAX_BODY_BYTES} bytes")
        body += _exactly(stream, size)
        if _line(stream):
            raise Refusal(400, "The body has a chunk that is longer than its size")
    while _line(stream):  # trailers are ignored
        pass
    return bytes(body)


def _chunk_size(stream: BufferedIOBase) -> int:
    size = _line(stream).partition(b";")[0].strip()
    if not re.fullmatch(rb"[0-9A-Fa-f]{1,15}", size):
        raise Refusal(400, "The body must have the size of each chunk in hexadecimal")
    return int(size, 16)


def _line(stream: BufferedIOBase) -> bytes:
    line = stream.readline(MAX_LINE_BYTES)
    if not line.endswith(b"\n"):
        raise Refusal(400, "The body ends early, or a line in it is too long")
    return line.rstrip(b"\r\n")


def _exactly(stream: BufferedIOBase, length: int) -> bytes:
    read = stream.read(length)
    if len(read) < length:
        raise Refusal(400, "The body ends early")
    return read
