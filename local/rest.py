"""REST on one machine: Chalice's own local server, with what API Gateway and a web server add to it."""

from __future__ import annotations

import json
import mimetypes
import threading
from pathlib import Path
from typing import Any

from chalice.app import Chalice
from chalice.config import Config
from chalice.local import (
    ChaliceRequestHandler,
    LocalDevServer,
    LocalGatewayException,
    ThreadedHTTPServer,
    create_local_server,
)

WEB = Path(__file__).parents[1] / "web"
HOST = "127.0.0.1"

# What API Gateway itself answers, in the deployment's gateway responses: the contract's shape and codes.
GATEWAY_ERRORS = {
    401: (401, "Unauthorized", "This call needs a valid bearer token: no token."),
    403: (404, "NotFound", "There is no such path."),  # "Missing Authentication Token": no route matches
}


class Handler(ChaliceRequestHandler):
    """Answers `/` and `/web/…` with files, and everything else through Chalice."""

    disable_nagle_algorithm = True  # headers and body are two writes: the second would wait 40 ms for an ACK

    def do_GET(self) -> None:  # noqa: N802 (http.server's name)
        """Answer a file of the page, or what the app answers."""
        path = self.path.partition("?")[0]
        file = WEB / ("index.html" if path == "/" else path.removeprefix("/web/"))
        if (
            (path == "/" or path.startswith("/web/"))
            and file.resolve().is_relative_to(WEB)
            and file.is_file()
        ):
            kind = mimetypes.guess_type(file.name)[0] or "application/octet-stream"
            headers = {"Content-Type": kind, "Cache-Control": "no-cache"}
            self._send_http_response_with_body(200, headers, file.read_bytes())
        else:
            self._generic_handle()

    def _send_error_response(self, error: LocalGatewayException) -> None:
        status, code, message = GATEWAY_ERRORS.get(error.CODE, (500, "InternalError", "Try again."))
        body = json.dumps({"Code": code, "Message": message})
        self._send_http_response(status, dict(error.headers), body)

    def log_message(self, format: str, *args: Any) -> None:
        """Keep quiet: one line a request is more than anyone reads."""


class Server(ThreadedHTTPServer):
    """Takes a burst of connections, as API Gateway would."""

    request_queue_size = 256


class Rest:
    """Serves a Chalice app's routes on a port of 127.0.0.1. Raises OSError when it is taken."""

    def __init__(self, app: Chalice, port: int) -> None:
        config = Config(chalice_stage="local", config_from_disk={"app_name": app.app_name})
        create_local_server(
            app, config, HOST, 0
        ).server.server_close()  # makes the app's requests thread-local
        self._server = LocalDevServer(app, config, HOST, port, handler_cls=Handler, server_cls=Server)
        self.url = f"http://{HOST}:{port}"

    def start(self) -> None:
        """Serve in a thread."""
        threading.Thread(target=self._server.server.serve_forever, name="rest", daemon=True).start()

    def stop(self) -> None:
        """Stop taking requests and free the port."""
        self._server.shutdown()
        self._server.server.server_close()
