"""The dev stage on an engine that enforces the policies of `.chalice`. Each handler runs with its own policy.

Only the sockets are simulated. The engine decides whether a function may post to a connection, describe it or
close it, but it knows no connections. A `Gateway` has them.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import boto3
import pytest
from chalice.test import Client

import app
from chalicelib.api import auth
from chalicelib.dynamo.table import Table, connect
from chalicelib.settings import Settings, read
from local.engines.engine import Engine
from local.event_sources import QueuePump, StreamPump
from local.filters import filtered
from local.rehearsal.account import start
from ops.aws import provision
from ops.aws.template import create_table
from ops.maintenance.streams import Stream
from ops.stage import read_variables
from tests.support.gateway import Gateway, request
from tests.support.permissions import enforce, run_as
from tests.support.tables import create_queue


class Connections(Gateway):
    """API Gateway's side of the connections. Every call is first checked by an engine."""

    def __init__(self, engine: Engine) -> None:
        super().__init__()
        self._engine = engine

    def client(self, name: str, **options: Any) -> Connections:
        host, _, stage = options["endpoint_url"].partition("://")[2].partition("/")
        url = f"{self._engine.endpoint}/_aws/execute-api/{host.partition('.')[0]}/{stage}"
        self._real = boto3.client(name, endpoint_url=url)  # type: ignore[call-overload]
        return self

    def post_to_connection(self, ConnectionId: str, Data: str) -> None:  # noqa: N803 (boto3's names)
        self._check("post_to_connection", ConnectionId, Data=b"{}")
        super().post_to_connection(ConnectionId, Data)

    def get_connection(self, ConnectionId: str) -> None:  # noqa: N803
        self._check("get_connection", ConnectionId)
        super().get_connection(ConnectionId)

    def delete_connection(self, ConnectionId: str) -> None:  # noqa: N803
        self._check("delete_connection", ConnectionId)
        super().delete_connection(ConnectionId)

    def _before(self, id: str) -> None:
        with run_as(""):  # the test's own calls have no policy
            super()._before(id)

    def _check(self, operation: str, id: str, **data: bytes) -> None:
        with pytest.raises(self._real.exceptions.GoneException):
            getattr(self._real, operation)(ConnectionId=id, **data)


class DevStage:
    """The app of the dev stage. The test advances its clock."""

    def __init__(self, engine: Engine, settings: Settings, http: Any, pumps: list[Any]) -> None:
        self.engine, self.settings, self._http, self._pumps = engine, settings, http, pumps
        self.wire = Connections(engine)
        self.root = Table(settings.table, engine.client("dynamodb"))
        self._ticks = itertools.count(1)
        self._later = timedelta(0)

    def now(self, _: object = UTC) -> datetime:
        """Return the time, which differs for each event."""
        return datetime.now(UTC) + self._later + timedelta(milliseconds=next(self._ticks))

    def wait(self, seconds: float) -> None:
        self._later += timedelta(seconds=seconds)

    def call(self, method: str, path: str, body: Any = None, who: str = "", status: int = 200) -> Any:
        """Call the API as `who`, in a new process. Return the body of the response."""
        auth.read_parameter.cache_clear()  # each function has its own process
        headers = {"Content-Type": "application/json", "User-Agent": "a browser"}
        if who:
            headers["Authorization"] = f"Bearer {self.token(who)}"
        data = b"" if body is None else json.dumps(body).encode()
        answer = self._http.request(method, path, headers=headers, body=data)
        assert answer.status_code == status, (method, path, answer.body)
        return json.loads(answer.body) if answer.body[:1] in (b"{", b"[") else answer.body

    def token(self, who: str) -> str:
        name, ssm = self.settings.secret_parameter, self.engine.client("ssm")
        secret = ssm.get_parameter(Name=name, WithDecryption=True)["Parameter"]["Value"]
        scope = "admin" if who == "admin" else ""
        return auth.mint(self.settings._replace(secret=secret), who, scope=scope)

    def settle(self) -> None:
        """Deliver the stream and the queue to their handlers until nothing changes any more."""
        while sum(pump.step() for pump in self._pumps):  # every pump, in each round
            self.wait(1)

    def open(self, id: str, **query: str) -> None:
        """Open a socket."""
        auth.read_parameter.cache_clear()
        event = {"requestContext": self._context(id), "queryStringParameters": query}
        assert app.socket_connect(event, None) == {"statusCode": 200}
        self.wire.open.add(id)

    def say(self, id: str, action: str, **fields: Any) -> list[Any]:
        """Send a frame. Return the frames that its sender has received since the last read."""
        auth.read_parameter.cache_clear()
        event = {"requestContext": self._context(id), "body": json.dumps({"action": action, **fields})}
        app.socket_message(event, None)
        return self.wire.read(id)

    def close(self, id: str) -> None:
        """Close a socket, as a client that leaves for good."""
        self.wire.open.discard(id)
        app.socket_disconnect({"requestContext": self._context(id, disconnectStatusCode=1000)}, None)

    def die(self, id: str) -> None:
        """Close a socket without `$disconnect`."""
        self.wire.open.discard(id)

    def sweep(self) -> None:
        app.sweep(SCHEDULED, None)

    def probe(self) -> None:
        app.probe(SCHEDULED, None)

    def _context(self, id: str, **more: Any) -> dict[str, Any]:
        return request(id) | {"apiId": "abcdef1234", "stage": "api"} | more


SCHEDULED: dict[str, Any] = dict.fromkeys(
    ("id", "account", "region", "time", "source", "detail-type", "version"), ""
) | {"resources": [], "detail": {}}


@contextmanager
def dev_stage() -> Iterator[DevStage]:
    """Start an engine, create the dev stage on it, and give each function its policy."""
    with (
        pytest.MonkeyPatch.context() as patch,
        start(checks_policies=True) as engine,
        Client(app.app) as http,
    ):
        patch.setenv("AWS_ENDPOINT_URL", engine.endpoint)
        table = create_table(engine.client("dynamodb"), "dev")
        queue = create_queue(engine.client("sqs"), "dev")
        made = {"HUBBUB_QUEUE_URL": queue.url, "HUBBUB_SITES": "example.org", "HUBBUB_LEADERS_MIN": "1"}
        topic = engine.client("sns").create_topic(Name="hubbub-dev-notices")["TopicArn"]
        made |= {"HUBBUB_NOTICES": "on", "HUBBUB_NOTICE_TOPIC": topic}
        settings = read(read_variables("dev") | made | {"HUBBUB_QUEUE": "on"})
        provision.create_secret(engine.client("ssm"), settings.secret_parameter)
        enforce(engine)
        streams = engine.client("dynamodbstreams")
        consumers = [filtered(getattr(app, name), name) for name in ("apply", "push")]
        pumps = [StreamPump(Stream(streams, table.stream_arn), consumer) for consumer in consumers]
        views = QueuePump(engine.client("sqs"), queue, app.write_views)
        stage = DevStage(engine, settings, http.http, [views, *pumps])
        patch.setattr(app, "stage", settings)
        patch.setattr(app, "connect", lambda: connect(settings))
        patch.setattr(app, "datetime", stage)
        patch.setattr(app.app.websocket_api, "session", stage.wire)
        yield stage
