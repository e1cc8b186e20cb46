"""The app on one table, invoked as Lambda does: with the events of its routes, its stream and its queue."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from importlib import import_module
from io import StringIO
from typing import Any, NamedTuple
from unittest import mock

from chalicelib.dynamo.table import Table, connect
from chalicelib.leaderboards import boards
from chalicelib.ranking import positions
from chalicelib.settings import Settings
from local.engines.engine import Engine
from local.event_sources import StreamPump
from local.filters import filtered
from ops.maintenance.streams import Stream
from tests.support.gateway import Gateway
from tests.support.tables import fresh_table

IDENTITY = {"sourceIp": "192.0.2.7", "userAgent": "a browser"}


class Invocation(NamedTuple):
    """One call of a handler: the operation of app.py, its case, the handler and its event."""

    operation: str
    name: str
    handler: Callable[[Any, Any], Any]
    event: dict[str, Any]

    def run(self) -> Any:
        """Call the handler and return its result. Raises RuntimeError for a status of 500 or more."""
        result = self.handler(self.event, Context())
        if isinstance(result, dict) and result.get("statusCode", 200) >= 500:
            raise RuntimeError(f"{self.operation}, {self.name}: {result}")
        return result


class Context:
    """Lambda's context, as far as the app reads it."""

    aws_request_id = "bench"


class OpenGateway(Gateway):
    """API Gateway's management API with every connection open. It keeps the time of each pair's notice."""

    def __init__(self) -> None:
        super().__init__()
        self.notified: dict[str, float] = {}

    def post_to_connection(self, ConnectionId: str, Data: str) -> None:  # noqa: N803 (boto3's names)
        """Count a frame, and keep the time of a notice of a partner."""
        self.posts += 1
        if "partner_connected" in Data:
            self.notified[ConnectionId] = time.perf_counter()

    def get_connection(self, ConnectionId: str) -> None:  # noqa: N803
        """Report a connection as open."""


class Deployed:
    """The app's handlers on a table, and the events that invoke them."""

    def __init__(self, app: Any, table: Table, pump: StreamPump, records: list[Any]) -> None:
        self.app = app
        self.table = table
        self.second = int(time.time())
        self._pump, self._records = pump, records

    def rest(
        self,
        key: str,
        name: str = "",
        *,
        path: Mapping[str, str] | None = None,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        sub: str = "",
    ) -> Invocation:
        """Return a request to a route such as `GET /views`. `sub` is its sender, and `admin` an admin."""
        method, route = key.split(" ")
        scope = {"scope": "admin"} if sub == "admin" else {}
        headers = {"content-type": "application/json", "user-agent": "a browser"}
        event = {
            "resource": route,
            "path": route.format(**(path or {})),
            "httpMethod": method,
            "headers": headers,
            "multiValueHeaders": {name: [value] for name, value in headers.items()},
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
                "identity": IDENTITY,
            },
        }
        return Invocation(key, name, self.app.app, event)

    def socket(self, kind: str, id: str, name: str = "", **fields: Any) -> Invocation:
        """Return the event of a connection; `kind` is `connect`, `message` or `disconnect`."""
        context = {
            "connectionId": id,
            "apiId": "bench",
            "stage": "bench",
            "domainName": "bench.invalid",
            "eventType": kind.upper(),
            "routeKey": "$default" if kind == "message" else f"${kind}",
            "identity": IDENTITY,
        }
        event = {"requestContext": context, **fields}
        return Invocation(f"socket ${kind}", name, getattr(self.app, f"socket_{kind}"), event)

    def frame(self, id: str, name: str, action: str, **fields: Any) -> Invocation:
        """Return the event of a frame that a connection sends."""
        body = json.dumps({"action": action, **fields})
        return self.socket("message", id, name, body=body)._replace(operation=f"socket {action}")

    def delivery(self, name: str = "", size: int | None = None) -> Invocation:
        """Return the oldest undelivered records as a batch, created in a second of its own."""
        while self._pump.step():
            pass
        batch = self._records[:size]
        del self._records[:size]
        self.second += 1
        for record in batch:
            record["dynamodb"]["ApproximateCreationDateTime"] = self.second
        return Invocation("stream", name, filtered(self.app.apply, "apply"), {"Records": batch})

    def drain(self, size: int | None = None) -> None:
        """Deliver until the stream is empty, including the changes that deliveries cause."""
        while (batch := self.delivery(size=size)).event["Records"]:
            batch.run()


@contextmanager
def deployed(engine: Engine) -> Iterator[Deployed]:
    """Put the app on a fresh table, with the client that it has on Lambda. Its output is discarded."""
    os.environ.setdefault("HUBBUB_SECRET", "0123456789abcdef0123456789abcdef")  # of tokens that nobody reads
    app: Any = import_module("app")
    boards._cached_boards().clear()  # of other tables
    positions._seen_nodes().clear()
    with fresh_table(engine) as (created, stream_arn):
        table = Table(created.name, connect(Settings(endpoint=engine.endpoint)).client)
        records: list[Any] = []
        stream = engine.client("dynamodbstreams")
        pump = StreamPump(Stream(stream, stream_arn), lambda event, _: records.extend(event["Records"]))
        with (
            mock.patch.object(app, "connect", return_value=table),
            mock.patch.object(app.app.websocket_api, "session", OpenGateway()),
            redirect_stdout(StringIO()),
        ):
            yield Deployed(app, table, pump, records)
