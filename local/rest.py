"""REST on one machine: Chalice's own local server, with what API Gateway and a web server add to it."""

from __future__ import annotations

import contextlib
import json
import logging
import socket
import socketserver
import sys
import threading
import time
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
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

from local.bodies import Refusal, read_body
from local.page_api import Desk

LOGGER = logging.getLogger("hubbub.local")
HOST = "127.0.0.1"

# What API Gateway itself answers, in the deployment's gateway responses: the contract's shape and codes.
GATEWAY_ERRORS = {
    401: (401, "This call needs a valid bearer token: no token."),
    403: (404, "There is no such path."),  # "Missing Authentication Token": no route matches
}
CODES = {
    401: "Unauthorized",
    404: "NotFound",
    413: "TooLarge",
    414: "UriTooLong",
    431: "TooLarge",
    500: "InternalServerError",
    501: "NotImplemented",
}


class StageGateway(LocalGateway):
    """Chalice's gateway below a stage's path, as API Gateway has it.

    API Gateway serves `/{stage}` and `/{stage}/` as the same resource, `/`. Only `requestContext.path`, which
    is the whole path as the client sent it, tells the one from the other.
    """

    def __init__(self, app_object: Chalice, config: Config, prefix: str) -> None:
        self._prefix = prefix
        super().__init__(app_object, config)

    def _generate_lambda_event(self, method: str, path: str, headers: Any, body: bytes | None) -> Any:
        event = super()._generate_lambda_event(method, path, headers, body)
        event["requestContext"]["path"] = self._path
        return event

    def handle_request(self, method: str, path: str, headers: Any, body: bytes | None) -> Any:
        """Pass a request on by its path below the prefix. Raises NotBelow."""
        self._path = path.partition("?")[0]
        return super().handle_request(method, below(self._prefix, path), headers, body)


class NotBelow(LocalGatewayException):
    """The path is not below the prefix: API Gateway has no stage of that name."""

    CODE = 403


def below(prefix: str, path: str) -> str:
    """Return the part of a path below a prefix, at least a slash. Raises NotBelow."""
    rest = path.removeprefix(prefix)
    if not path.startswith(prefix) or (prefix and rest[:1] not in ("", "/", "?")):
        raise NotBelow({}, b"")
    return rest if rest.startswith("/") else f"/{rest}"


class Handler(ChaliceRequestHandler):
    """Answers what the desk has for the page of this machine, and everything else through Chalice."""

    disable_nagle_algorithm = True  # headers and body are two writes: the second would wait 40 ms for an ACK
    default_request_version = "HTTP/1.1"  # of a request line that cannot be read, and is refused
    timeout = 75.0  # seconds without a byte from the client

    def __init__(
        self, request: Any, client_address: Any, server: Any, app_object: Chalice, config: Config
    ) -> None:
        self.local_gateway = StageGateway(app_object, config, server.prefix)
        BaseHTTPRequestHandler.__init__(self, request, client_address, server)

    def handle_one_request(self) -> None:
        """Answer a request of a connection that may bring more, unless the server is about to stop."""
        super().handle_one_request()
        if cast(Server, self.server).is_stopping:
            self.close_connection = True

    def answer(self) -> None:
        """Answer what the desk or the app answers."""
        try:
            body = read_body(self.headers, self.rfile, self._let_it_come)
            server = cast(Server, self.server)
            desk, path = server.desk, below(server.prefix, self.path)
            if desk and self.command == "POST" and path.startswith(desk.PATH):
                answer = desk.answer(path, self.headers, body or b"")
                self._send_http_response_with_body(answer[0], {}, json.dumps(answer[1]))
            else:
                self._ask_app(body)
        except NotBelow:
            self._send_error(*GATEWAY_ERRORS[403])
        except Refusal as refusal:
            self.send_error(refusal.status, str(refusal))

    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = do_TRACE = answer  # noqa: N815

    def _ask_app(self, body: bytes | None) -> None:
        headers = dict(self.headers)
        if not all(value.isascii() for name, value in headers.items() if name.lower() == "authorization"):
            raise Refusal(400, "Authorization: a token is ASCII")
        try:
            method = "GET" if self.command == "HEAD" else self.command  # its body is not sent
            response = self.local_gateway.handle_request(method, self.path, headers, body)
        except LocalGatewayException as error:
            status, message = GATEWAY_ERRORS.get(error.CODE, (500, "Try again."))
            self._send_error(status, message)
            return
        except Exception:
            LOGGER.exception("%s %s failed", self.command, self.path)
            self._send_error(500, "Try again.")
            return
        answer = self._handle_binary(response)
        sent = {**answer["headers"], **answer["multiValueHeaders"]}
        self._send_http_response(answer["statusCode"], sent, answer["body"])

    def handle_expect_100(self) -> bool:
        """Say nothing before the headers are checked: a client that waits need not send what is refused."""
        return True

    def _let_it_come(self) -> None:
        if self.headers.get("Expect", "").lower() == "100-continue":
            self.send_response_only(HTTPStatus.CONTINUE)
            self.end_headers()

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Refuse a request in the contract's shape, and end the connection: its rest cannot be understood."""
        self.close_connection = True
        self._send_error(code, message or explain or HTTPStatus(code).description)
        self._linger()

    def _send_error(self, status: int, message: str) -> None:
        body = json.dumps({"Code": CODES.get(status, "BadRequest"), "Message": message})
        headers = {"Access-Control-Allow-Origin": "*"}
        self._send_http_response_with_body(status, headers, body)

    def _linger(self) -> None:
        """Let a client that is still sending read the answer: closing now would reset the connection."""
        self.wfile.flush()
        deadline = time.monotonic() + 1
        with contextlib.suppress(OSError):
            self.connection.shutdown(socket.SHUT_WR)
            self.connection.settimeout(0.2)
            while time.monotonic() < deadline and self.connection.recv(65536):
                pass

    def _send_http_response_with_body(self, code: int, headers: dict[str, Any], body: str | bytes) -> None:
        content = body.encode() if isinstance(body, str) else body
        self.send_response(code)
        if code not in (204, 304):
            self.send_header("Content-Length", str(len(content)))
            self.send_header("Content-Type", headers.pop("Content-Type", "application/json"))
        if self.close_connection:
            self.send_header("Connection", "close")
        self._send_headers(headers)
        if self.command != "HEAD":
            self.wfile.write(content)

    def version_string(self) -> str:
        """Name the server, and nothing that is of use to no client."""
        return "hubbub-local"

    def log_message(self, format: str, *args: Any) -> None:
        """Keep quiet: one line a request is more than anyone reads."""


class Server(ThreadedHTTPServer):
    """Takes a burst of connections, as API Gateway would, and can end them without losing an answer."""

    request_queue_size = 256

    def __init__(self, *arguments: Any) -> None:
        self.is_stopping = False
        self.prefix = ""
        self.desk: Desk | None = None
        self._connections: set[Any] = set()
        self._changed = threading.Condition()
        super().__init__(*arguments)

    def server_bind(self) -> None:
        """Bind without looking up the host's name, which can take seconds."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = self.server_address[:2]

    def process_request(self, request: Any, client_address: Any) -> None:
        """Remember a connection, and answer it in a thread."""
        with self._changed:
            self._connections.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """Close a connection, and forget it."""
        super().shutdown_request(request)
        with self._changed:
            self._connections.discard(request)
            self._changed.notify_all()

    def finish(self, patience: float) -> None:
        """End every connection behind the request that it is answering, if any."""
        with self._changed:
            self.is_stopping = True
            for connection in self._connections:
                with contextlib.suppress(OSError):  # its client has gone
                    connection.shutdown(socket.SHUT_RD)
            self._changed.wait_for(lambda: not self._connections, patience)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log what went wrong with a connection, unless its client just went away."""
        if not isinstance(sys.exception(), ConnectionError | TimeoutError):
            LOGGER.exception("a connection failed")


class Rest:
    """Serves a Chalice app's routes on a port of 127.0.0.1. Raises OSError when it is taken.

    `prefix` is a path such as `/api` below which they are served, as a stage of API Gateway has them.
    """

    def __init__(self, app: Chalice, port: int, prefix: str = "") -> None:
        app.__class__ = LocalChalice  # as `chalice local` does: each thread has a current request of its own
        config = Config(chalice_stage="local", config_from_disk={"app_name": app.app_name})
        self._dev = LocalDevServer(app, config, HOST, port, handler_cls=Handler, server_cls=Server)
        self._server = cast(Server, self._dev.server)
        self._server.prefix = prefix
        self.url = f"http://{HOST}:{self._server.server_port}{prefix}"

    def open_desk(self, desk: Desk) -> None:
        """Let the page ask a desk for what only this machine gives."""
        self._server.desk = desk

    def start(self) -> None:
        """Serve in a thread."""
        threading.Thread(target=self._server.serve_forever, args=(0.05,), name="rest", daemon=True).start()

    def stop(self, patience: float = 5.0) -> None:
        """Stop taking requests and free the port; what is being answered has `patience` seconds."""
        self._server.shutdown()
        self._server.server_close()
        self._server.finish(patience)
