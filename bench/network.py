"""The way between a handler and the table, on which anything may go wrong; through botocore's own hooks.

A call may be refused before it is done (a conflict, a throttle, a 500), be done and its answer lost (a 500, a
time-out), be lost before it is done, be done in part (a batch, a page of a query); and the handler may die
before it sends, after it has sent and before the reply, and after the reply. What the SDK makes of it is
the product's; it retries nothing by itself.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from unittest import mock

import botocore.endpoint
from botocore.awsrequest import AWSPreparedRequest, AWSResponse
from botocore.exceptions import ConnectTimeoutError, ReadTimeoutError
from botocore.httpsession import URLLib3Session
from botocore.retries import standard

from bench.inside import Inside, response
from bench.simulation import World
from chalicelib.settings import Settings
from chalicelib.table import connect
from local.engine import Engine

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

WRITES = {"PutItem", "UpdateItem", "DeleteItem"}
PREFIX = "com.amazonaws.dynamodb.v20120810#"
THROTTLES = ("ThrottlingException", "ProvisionedThroughputExceededException")
PASSING = ("TransactionConflict", "TransactionConflict", "ThrottlingError", "ProvisionedThroughputExceeded")
AT_ONCE: Any = [(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)]  # else each call waits 40 ms
Body = dict[str, Any]


def way(engine: Engine) -> Callable[[AWSPreparedRequest], AWSResponse]:
    """Answer what carries a request to an engine."""
    if isinstance(engine, Inside):
        return engine.send
    return URLLib3Session(timeout=60, proxies={}, socket_options=AT_ONCE).send


def client_of(engine: Engine) -> DynamoDBClient:
    """Make the client that the product makes of such an engine."""
    client = connect(Settings(endpoint=engine.endpoint)).client
    return engine.take_in(client) if isinstance(engine, Inside) else client


class Network:
    """Stands between a client and its engine."""

    def __init__(self, world: World, engine: Engine) -> None:
        self.world = world
        self.calls = 0
        self._engine = engine
        self._deliver = way(engine)

    @contextmanager
    def attached(self, client: DynamoDBClient) -> Iterator[None]:
        """Stand in the way of a client's calls; its retries wait in the world's time, and begin anew."""
        events = client.meta.events
        hooks: dict[str, Any] = {"before-send.dynamodb": self._send, "after-call.dynamodb": self._replied}
        if isinstance(self._engine, Inside):
            self._engine.let_go(client)
        for event, hook in hooks.items():
            events.register(event, hook)
        events.unregister("needs-retry.dynamodb", unique_id="retry-config-dynamodb")
        standard.register_retry_handler(client, max_attempts=1)  # a quota that nothing has used yet
        with mock.patch.object(botocore.endpoint, "time", SimpleNamespace(sleep=self.world.sleep)):
            try:
                yield
            finally:
                for event, hook in hooks.items():
                    events.unregister(event, hook)
                if isinstance(self._engine, Inside):
                    self._engine.take_in(client)

    def _send(self, request: AWSPreparedRequest, event_name: str, **_: Any) -> AWSResponse:
        """Send a request, or not; answer what the handler gets."""
        operation = event_name.rpartition(".")[2]
        self.calls += 1
        world = self.world
        world.hand_over()
        world.note(operation)
        if world.current and world.strikes(world.rates.cut):
            world.current.is_cut_off = True
            world.fault("the table out of reach")
        fault = self._chosen(operation) if world.current and world.strikes(world.rates.call) else None
        if world.current and world.current.is_cut_off and not world.is_calm:
            raise ConnectTimeoutError(endpoint_url=request.url)
        if operation == "Query" and world.chance.random() < world.rates.page:
            world.fault("a page cut short")
            self._rewrite(request, _body(request) | {"Limit": 1})
        answer = fault(operation, request) if fault else None
        if answer is None:
            answer = self._deliver(request)
            if operation == "TransactWriteItems" and world.strikes(0.3):
                answer = self._mixed(answer)
        world.hand_over()
        return answer

    def _replied(self, **_: Any) -> None:
        """Let the handler die with the reply in its hands."""
        if self.world.current and self.world.current.is_doomed:
            self.world.fault("killed after the reply")
            self.world.kill()

    def _chosen(self, operation: str) -> Callable[[str, AWSPreparedRequest], AWSResponse | None]:
        kinds: list[Callable[[str, AWSPreparedRequest], AWSResponse | None]] = [
            self._killed_before,
            self._killed_between,
            self._killed_after,
            self._throttled,
            self._failed,
            self._lost,
        ]
        if operation == "TransactWriteItems" or operation in WRITES:
            kinds += [self._conflict] * 3
        if operation in ("BatchGetItem", "BatchWriteItem"):
            kinds += [self._partly] * 4
        return self.world.chance.choice(kinds)

    # -- what goes wrong ---------------------------------------------------------------------------

    def _killed_before(self, operation: str, request: AWSPreparedRequest) -> None:
        self.world.fault("killed before sending")
        self.world.kill()

    def _killed_between(self, operation: str, request: AWSPreparedRequest) -> None:
        self.world.fault("killed after sending, before the reply")
        self._deliver(request)
        self.world.kill()

    def _killed_after(self, operation: str, request: AWSPreparedRequest) -> None:
        if self.world.current:
            self.world.current.is_doomed = True

    def _throttled(self, operation: str, request: AWSPreparedRequest) -> AWSResponse:
        self.world.fault("throttled")
        return _refusal(request, self.world.chance.choice(THROTTLES))

    def _failed(self, operation: str, request: AWSPreparedRequest) -> AWSResponse:
        if self.world.chance.random() < 0.5:
            self.world.fault("500, not applied")
        else:
            self.world.fault("500, applied")
            self._deliver(request)
        return _refusal(request, "InternalServerError", 500)

    def _lost(self, operation: str, request: AWSPreparedRequest) -> AWSResponse:
        if self.world.chance.random() < 0.5:
            self.world.fault("time-out, not applied")
        else:
            self.world.fault("time-out, applied")
            self._deliver(request)
        self.world.pass_time(1)
        raise ReadTimeoutError(endpoint_url=request.url)

    def _conflict(self, operation: str, request: AWSPreparedRequest) -> AWSResponse:
        if operation != "TransactWriteItems":
            self.world.fault("TransactionConflict, of a plain write")
            return _refusal(request, "TransactionConflictException")
        count = len(_body(request)["TransactItems"])
        hit = self.world.chance.randrange(count)
        why = self.world.chance.choice(PASSING)
        self.world.fault("TransactionConflict" if why == "TransactionConflict" else "transaction throttled")
        reasons = [
            {"Code": why if i == hit or self.world.chance.random() < 0.2 else "None"} for i in range(count)
        ]
        return _refusal(request, "TransactionCanceledException", CancellationReasons=reasons)

    def _mixed(self, answer: AWSResponse) -> AWSResponse:
        """Add conflicts to the reasons of a transaction that is cancelled for a condition."""
        if answer.status_code != 400:
            return answer
        body: Body = json.loads(answer.content)
        reasons = body.get("CancellationReasons", [])
        free = [reason for reason in reasons if reason.get("Code") == "None"]
        if not free or not any(r.get("Code") == "ConditionalCheckFailed" for r in reasons):
            return answer
        self.world.fault("TransactionConflict beside a false condition")
        self.world.chance.choice(free)["Code"] = "TransactionConflict"
        return _response(answer.url, 400, body)

    def _partly(self, operation: str, request: AWSPreparedRequest) -> AWSResponse:
        body = _body(request)
        [(table, asked)] = body["RequestItems"].items()
        things = asked["Keys"] if operation == "BatchGetItem" else asked
        done = self.world.chance.randrange(len(things))
        name = "UnprocessedKeys" if operation == "BatchGetItem" else "UnprocessedItems"
        self.world.fault("a batch done in part")

        def part(some: list[Any]) -> Any:
            return {table: asked | {"Keys": some} if operation == "BatchGetItem" else some}

        if not done:
            empty: Body = {"Responses": {table: []}} if operation == "BatchGetItem" else {}
            return _response(request.url, 200, empty | {name: part(things)})
        self._rewrite(request, body | {"RequestItems": part(things[:done])})
        answer = self._deliver(request)
        if answer.status_code != 200:
            return answer
        return _response(request.url, 200, json.loads(answer.content) | {name: part(things[done:])})

    def _rewrite(self, request: AWSPreparedRequest, body: Mapping[str, Any]) -> None:
        """Give a request another body; local engines do not look at its signature."""
        request.body = json.dumps(body).encode()
        request.headers["Content-Length"] = str(len(request.body))


def _body(request: AWSPreparedRequest) -> Body:
    sent: Any = request.body
    body: Body = json.loads(sent)
    return body


def _refusal(request: AWSPreparedRequest, code: str, status: int = 400, **fields: Any) -> AWSResponse:
    return _response(request.url, status, {"__type": PREFIX + code, "message": code, **fields})


def _response(url: str, status: int, body: Mapping[str, Any]) -> AWSResponse:
    return response(url, status, json.dumps(body).encode())
