"""The app on one table, invoked as Lambda does: with the events of its doors, its stream and its queue."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from importlib import import_module
from io import StringIO
from typing import Any, NamedTuple

from bench.view_costs import fresh_table
from chalicelib.settings import Settings
from chalicelib.table import Table, connect
from local.engine import Engine
from local.pumps import StreamPump

BATCH = 100  # records that Lambda hands to the aggregator at a time
SCHEDULED = {
    "version": "0",
    "id": "bench",
    "detail-type": "Scheduled Event",
    "source": "aws.events",
    "account": "0",
    "time": "2026-11-21T10:00:00Z",
    "region": "us-east-1",
    "resources": [],
    "detail": {},
}
Handler = Callable[[Any, Any], Any]


class Invocation(NamedTuple):
    """One call of a handler of the app. `operation` is what app.py has it for; `name` says what it meets."""

    operation: str
    name: str
    handler: Handler
    event: dict[str, Any]

    def run(self) -> Any:
        """Call the handler; answer what it returns. Raises RuntimeError when it answers that it failed."""
        answer = self.handler(self.event, Context())
        if isinstance(answer, dict) and answer.get("statusCode", 200) >= 500:
            raise RuntimeError(f"{self.operation}, {self.name}: {answer}")
        return answer


class Context:
    """What Lambda says of an invocation, as far as anything reads it."""

    aws_request_id = "bench"


class Line:
    """API Gateway's side of the connections: everybody is open, and posts cost nothing."""

    region_name = "local"

    def client(self, *_: Any, **__: Any) -> Line:
        """Answer itself: there is one client."""
        return self

    def post_to_connection(self, **_: Any) -> None:
        """Take a frame."""

    def get_connection(self, **_: Any) -> None:
        """Say that a connection is open."""

    def delete_connection(self, **_: Any) -> None:
        """Close a connection."""


class Deployed:
    """The app's handlers on a table, and the events that they are called with."""

    def __init__(self, app: Any, table: Table, pump: StreamPump, records: list[Any]) -> None:
        self.app = app
        self.table = table
        self._pump = pump
        self._records = records
        self._second = int(time.time())

    def rest(
        self,
        method: str,
        route: str,
        name: str,
        *,
        path: Mapping[str, str] | None = None,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        sub: str = "",
        headers: Mapping[str, str] | None = None,
    ) -> Invocation:
        """Make a request; `sub` is who sends it, and `admin` an admin."""
        scope = {"scope": "admin"} if sub == "admin" else {}
        sent = {"content-type": "application/json", "user-agent": "a browser", **(headers or {})}
        event = {
            "resource": route,
            "path": route.format(**(path or {})),
            "httpMethod": method,
            "headers": sent,
            "multiValueHeaders": {name: [value] for name, value in sent.items()},
            "multiValueQueryStringParameters": {n: [v] for n, v in query.items()} if query else None,
            "pathParameters": dict(path) if path else None,
            "stageVariables": None,
            "body": None if body is None else json.dumps(body),
            "isBase64Encoded": False,
            "requestContext": {
                "resourcePath": route,
                "httpMethod": method,
                "requestId": "bench",
                "authorizer": {"sub": sub, "exp": "4102444800", **scope} if sub else None,
                "identity": {"sourceIp": "192.0.2.7", "userAgent": "a browser"},
            },
        }
        return Invocation(f"{method} {route}", name, self.app.app, event)

    def socket(self, handler: str, operation: str, name: str, id: str, **more: Any) -> Invocation:
        """Make an event of a connection."""
        kind = {"socket_connect": "CONNECT", "socket_disconnect": "DISCONNECT"}.get(handler, "MESSAGE")
        context = {
            "connectionId": id,
            "apiId": "bench",
            "stage": "bench",
            "domainName": "bench.invalid",
            "eventType": kind,
            "routeKey": {"MESSAGE": "$default"}.get(kind, f"${kind.lower()}"),
            "identity": {"sourceIp": "192.0.2.7", "userAgent": "a browser"},
        }
        return Invocation(operation, name, getattr(self.app, handler), {"requestContext": context, **more})

    def frame(self, id: str, name: str, action: str, **fields: Any) -> Invocation:
        """Make a frame that a connection sends."""
        body = json.dumps({"action": action, **fields})
        return self.socket("socket_message", f"socket {action}", name, id, body=body)

    def delivery(self, operation: str, name: str) -> Invocation:
        """Take all that is new in the stream as one batch, made in one second of its own."""
        self._records.clear()
        while self._pump.step():
            pass
        self._second += 1
        for record in self._records:
            record["dynamodb"]["ApproximateCreationDateTime"] = self._second
        return Invocation(operation, name, self.app.apply, {"Records": list(self._records)})

    def settle(self) -> None:
        """Deliver until the stream is empty, the changes that this causes included."""
        while (invocation := self.delivery("stream", "")).event["Records"]:
            invocation.run()


@contextmanager
def deployed(engine: Engine) -> Iterator[Deployed]:
    """Put the app onto a fresh table, with the client that it has on Lambda, and take it off again.

    What it prints meanwhile, log lines and metrics, goes nowhere.
    """
    os.environ.setdefault("HUBBUB_SECRET", "0123456789abcdef0123456789abcdef")  # tokens that nobody reads
    app: Any = import_module("app")
    with fresh_table(engine) as (made, stream_arn):
        table = Table(made.name, connect(Settings(endpoint=engine.endpoint)).client)
        records: list[Any] = []
        pump = StreamPump(
            engine.client("dynamodbstreams"),
            stream_arn,
            lambda event, _: records.extend(event["Records"]),
            BATCH,
        )
        before = app.connect, app.app.websocket_api.session
        app.connect, app.app.websocket_api.session = (lambda: table), Line()
        try:
            with redirect_stdout(StringIO()):
                yield Deployed(app, table, pump, records)
        finally:
            app.connect, app.app.websocket_api.session = before
