"""The network between a handler and the table, where faults are injected through botocore's event hooks.

A call may be refused (a conflict, a throttle, a 500), be applied and its reply lost (a 500, a time-out), be
lost, or be applied in part (a batch, a page of a query). The handler may die before it sends, between
request and reply, and after the reply. The SDK's own retries run as in the product. Requests go to the engine
unsigned and by a plain socket, which saves a quarter of the CPU time.
"""

from __future__ import annotations

import io
import json
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Protocol
from unittest import mock
from urllib.parse import urlsplit

import botocore.endpoint
from botocore import UNSIGNED
from botocore.awsrequest import AWSPreparedRequest, AWSResponse
from botocore.exceptions import ConnectTimeoutError, ReadTimeoutError
from botocore.retries import standard

from tests.histories.world import Rates, World
from tests.support.faults import hooked
from tests.support.gateway import Gateway, refusal

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

WRITES = {"PutItem", "UpdateItem", "DeleteItem"}
PREFIX = "com.amazonaws.dynamodb.v20120810#"
THROTTLES = ("ThrottlingException", "ProvisionedThroughputExceededException")
TRANSIENT = ("TransactionConflict", "TransactionConflict", "ThrottlingError", "ProvisionedThroughputExceeded")
CREDENTIAL = "Credential=local/20991231/us-east-1/dynamodb/aws4_request"
HEADERS = {  # of every request; the engine wants a signature, and does not verify it
    "Host": "localhost",
    "Content-Type": "application/x-amz-json-1.0",
    "X-Amz-Date": "20991231T000000Z",
    "Authorization": f"AWS4-HMAC-SHA256 {CREDENTIAL}, SignedHeaders=host, Signature=none",
}
Body = dict[str, Any]
Fault = Callable[[str, AWSPreparedRequest], AWSResponse | None]


class Planted(Protocol):
    """A fault that a test plants in the product."""

    def rewrite(self, operation: str, body: Body, reply: Body | None = None) -> bool:
        """Change a request, or its reply, in place. Return whether anything was changed."""

    def patches(self) -> list[AbstractContextManager[Any]]:
        """Return the patches of a history."""


class Wire:
    """A connection to the engine, which sends one request at a time."""

    def __init__(self, url: str) -> None:
        address = urlsplit(url)
        self._socket = socket.create_connection((address.hostname, address.port), timeout=60)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # else each call waits 40 ms
        self._replies = self._socket.makefile("rb")

    def __enter__(self) -> Wire:
        return self

    def __exit__(self, *_: object) -> None:
        self._replies.close()
        self._socket.close()

    def send(self, request: AWSPreparedRequest) -> AWSResponse:
        """Send a request, and read its whole reply."""
        sent: Any = request.body
        target: Any = request.headers["X-Amz-Target"]
        headers = HEADERS | {"X-Amz-Target": target.decode(), "Content-Length": str(len(sent))}
        lines = ["POST / HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
        self._socket.sendall("\r\n".join([*lines, "", ""]).encode() + sent)
        status = int(self._replies.readline().split()[1])
        length = 0
        while line := self._replies.readline().strip():
            name, _, value = line.partition(b":")
            length = int(value) if name.lower() == b"content-length" else length
        return _respond(request.url, status, self._replies.read(length))


class Network:
    """Stands between a client and its engine. A planted fault rewrites the handlers' requests and replies."""

    def __init__(self, world: World, planted: Planted | None = None) -> None:
        self.world = world
        self.calls = 0
        self._planted = planted
        self._deliver: Callable[[AWSPreparedRequest], AWSResponse]

    @contextmanager
    def attached(self, client: DynamoDBClient) -> Iterator[None]:
        """Intercept a client's calls. Its retries wait in simulated time and start with a full quota."""
        hooks = {
            "choose-signer.dynamodb": lambda **_: UNSIGNED,
            "before-send.dynamodb": self._send,
            "after-call.dynamodb": self._replied,
        }
        client.meta.events.unregister("needs-retry.dynamodb", unique_id="retry-config-dynamodb")
        standard.register_retry_handler(client, max_attempts=1)
        waits = mock.patch.object(botocore.endpoint, "time", SimpleNamespace(sleep=self.world.sleep))
        with hooked(client, hooks), waits, Wire(client.meta.endpoint_url) as wire:
            self._deliver = wire.send
            yield

    def _send(self, request: AWSPreparedRequest, event_name: str, **_: Any) -> AWSResponse:
        """Send a request, or inject a fault; return what the handler receives."""
        operation = event_name.rpartition(".")[2]
        self.calls += 1
        world = self.world
        world.switch()
        if world.current and (world.current.name, operation) == ("import", "UpdateItem"):
            world.sleep(world.rng.choice((0.1, 1, 3, 8)))  # before a mark, others are counted
        sent: Any = request.body
        world.note(f"{operation} {len(sent)}")
        if world.current and world.occurs(Rates.cut):
            world.current.is_cut_off = True
            world.fault("the table out of reach")
        fault = self._draw(operation) if world.current and world.occurs(Rates.call) else None
        if world.current and world.current.is_cut_off and not world.is_calm:
            raise ConnectTimeoutError(endpoint_url=request.url)
        if operation == "Query" and world.rng.random() < Rates.page:
            world.fault("a page cut short")
            _rewrite(request, _body(request) | {"Limit": 1})
        body = _body(request)
        if self._planted and world.current and self._planted.rewrite(operation, body):
            _rewrite(request, body)
        response = fault(operation, request) if fault else None
        if response is None:
            response = self._deliver(request)
            if operation == "TransactWriteItems" and world.occurs(0.3):
                response = self._add_conflict(response)
        response = self._rewrite_reply(operation, body, response)
        world.switch()
        return response

    def _rewrite_reply(self, operation: str, body: Body, response: AWSResponse) -> AWSResponse:
        """Return a reply as the planted fault changes it."""
        if self._planted is None or self.world.current is None:
            return response
        reply: Body = json.loads(response.content)
        is_changed = self._planted.rewrite(operation, body, reply)
        return _reply(response.url, 200 if is_changed else response.status_code, reply)

    def _replied(self, **_: Any) -> None:
        """Kill a handler that dies after its reply."""
        if self.world.current and self.world.current.dies_after_reply:
            self.world.fault("killed after the reply")
            self.world.kill()

    def _draw(self, operation: str) -> Fault:
        kinds: list[Fault] = [self._kill_before, self._kill_between, self._kill_after]
        kinds += [self._throttle, self._fail, self._lose]
        if operation == "TransactWriteItems" or operation in WRITES:
            kinds += [self._conflict] * 3
        if operation in ("BatchGetItem", "BatchWriteItem"):
            kinds += [self._apply_part] * 4
        return self.world.rng.choice(kinds)

    # -- the faults --------------------------------------------------------------------------------

    def _kill_before(self, operation: str, request: AWSPreparedRequest) -> None:
        self.world.fault("killed before sending")
        self.world.kill()

    def _kill_between(self, operation: str, request: AWSPreparedRequest) -> None:
        self.world.fault("killed after sending, before the reply")
        self._deliver(request)
        self.world.kill()

    def _kill_after(self, operation: str, request: AWSPreparedRequest) -> None:
        if self.world.current:
            self.world.current.dies_after_reply = True

    def _throttle(self, operation: str, request: AWSPreparedRequest) -> AWSResponse:
        self.world.fault("throttled")
        return _refusal(request, self.world.rng.choice(THROTTLES))

    def _fail(self, operation: str, request: AWSPreparedRequest) -> AWSResponse:
        self._apply_or_not("500", operation, request)
        return _refusal(request, "InternalServerError", 500)

    def _lose(self, operation: str, request: AWSPreparedRequest) -> AWSResponse:
        self._apply_or_not("time-out", operation, request)
        self.world.advance(1)
        raise ReadTimeoutError(endpoint_url=request.url)

    def _apply_or_not(self, kind: str, operation: str, request: AWSPreparedRequest) -> None:
        is_applied = self.world.rng.random() >= 0.5
        self.world.fault(f"{kind}, {'' if is_applied else 'not '}applied")
        if is_applied:
            self._deliver(request)

    def _conflict(self, operation: str, request: AWSPreparedRequest) -> AWSResponse:
        if operation != "TransactWriteItems":
            self.world.fault("TransactionConflict, of a plain write")
            return _refusal(request, "TransactionConflictException")
        rng, count = self.world.rng, len(_body(request)["TransactItems"])
        hit, code = rng.randrange(count), rng.choice(TRANSIENT)
        self.world.fault("TransactionConflict" if code == "TransactionConflict" else "transaction throttled")
        codes = [code if i == hit or rng.random() < 0.2 else "None" for i in range(count)]
        reasons = [{"Code": code} for code in codes]
        return _refusal(request, "TransactionCanceledException", CancellationReasons=reasons)

    def _add_conflict(self, response: AWSResponse) -> AWSResponse:
        """Add a conflict to the reasons of a transaction that was cancelled for a false condition."""
        if response.status_code != 400:
            return response
        body: Body = json.loads(response.content)
        reasons = body.get("CancellationReasons", [])
        free = [reason for reason in reasons if reason.get("Code") == "None"]
        if not free or not any(r.get("Code") == "ConditionalCheckFailed" for r in reasons):
            return response
        self.world.fault("TransactionConflict beside a false condition")
        self.world.rng.choice(free)["Code"] = "TransactionConflict"
        return _reply(response.url, 400, body)

    def _apply_part(self, operation: str, request: AWSPreparedRequest) -> AWSResponse:
        """Apply the first part of a batch, and return the rest as unprocessed."""
        body = _body(request)
        [(table, batch)] = body["RequestItems"].items()
        is_get = operation == "BatchGetItem"
        entries = batch["Keys"] if is_get else batch
        done = self.world.rng.randrange(len(entries))
        left = "UnprocessedKeys" if is_get else "UnprocessedItems"
        self.world.fault("a batch done in part")

        def part(keys: list[Any]) -> Any:
            return {table: batch | {"Keys": keys} if is_get else keys}

        if not done:
            empty: Body = {"Responses": {table: []}} if is_get else {}
            return _reply(request.url, 200, empty | {left: part(entries)})
        _rewrite(request, body | {"RequestItems": part(entries[:done])})
        response = self._deliver(request)
        if response.status_code != 200:
            return response
        return _reply(request.url, 200, json.loads(response.content) | {left: part(entries[done:])})


# -- posts to sockets


class FaultyGateway(Gateway):
    """A gateway in a simulated world, which injects faults into posts."""

    FAULTS = ("killed before a post", "killed after a post", "post throttled", "post lost", "post unheard")

    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world
        self.frozen: set[str] = set()  # connections whose client is out of reach, which nobody knows yet

    def post_to_connection(self, ConnectionId: str, Data: str) -> None:  # noqa: N803
        """Send a frame, or lose it, or send it and report a failure, or kill the handler."""
        world = self._world
        world.switch()
        fault = ""
        if world.current and world.occurs(Rates.call):
            fault = world.rng.choice(self.FAULTS)
            world.fault(fault)
        if fault == "killed before a post":
            world.kill()
        if fault == "post throttled":
            raise refusal("LimitExceededException")
        if fault == "post lost":
            raise ReadTimeoutError(endpoint_url="http://gateway.invalid")
        if not (ConnectionId in self.frozen and ConnectionId in self.open):
            super().post_to_connection(ConnectionId, Data)
        if fault == "post unheard":
            raise ReadTimeoutError(endpoint_url="http://gateway.invalid")
        if fault == "killed after a post":
            world.kill()
        world.switch()


# -- notices to SNS


class FaultyTopic:
    """A topic of SNS in a simulated world, which injects faults into publications."""

    FAULTS = ("SNS throttled", "SNS took a part", "SNS unheard", "killed after SNS took it")

    def __init__(self, world: World) -> None:
        self._world = world
        self.published: list[tuple[str, Body]] = []  # the kind of each notice and its data

    def publish_batch(self, *, TopicArn: str, PublishBatchRequestEntries: list[Any]) -> Body:  # noqa: N803
        """Publish all notices or a part of them, or refuse them, or publish them and report a failure."""
        world, entries = self._world, PublishBatchRequestEntries
        world.switch()
        fault, failed = "", list[Any]()
        if world.current and world.occurs(Rates.call):
            fault = world.rng.choice(self.FAULTS)
            world.fault(fault)
        if fault == "SNS throttled":
            raise refusal("Throttled")
        if fault == "SNS took a part":
            failed = [world.rng.choice(entries)]
        for entry in entries:
            if entry not in failed:
                metadata = json.loads(json.loads(entry["Message"])["default"])["metadata"]
                self.published.append((metadata["eventType"], metadata["additionalContext"]))
        if fault == "SNS unheard":
            raise ReadTimeoutError(endpoint_url="http://sns.invalid")
        if fault == "killed after SNS took it":
            world.kill()
        world.switch()
        code = world.rng.choice(("InternalError", "Throttled"))
        done = [{"Id": entry["Id"]} for entry in entries if entry not in failed]
        return {
            "Successful": done,
            "Failed": [
                {"Id": entry["Id"], "Code": code, "SenderFault": code == "Throttled"} for entry in failed
            ],
        }


# -- requests and responses ------------------------------------------------------------------------


def _body(request: AWSPreparedRequest) -> Body:
    sent: Any = request.body
    body: Body = json.loads(sent)
    return body


def _rewrite(request: AWSPreparedRequest, body: Mapping[str, Any]) -> None:
    """Replace a request's body. Local engines do not verify its signature."""
    request.body = json.dumps(body).encode()
    request.headers["Content-Length"] = str(len(request.body))


def _refusal(request: AWSPreparedRequest, code: str, status: int = 400, **fields: Any) -> AWSResponse:
    return _reply(request.url, status, {"__type": PREFIX + code, "message": code, **fields})


def _reply(url: str, status: int, body: Mapping[str, Any]) -> AWSResponse:
    return _respond(url, status, json.dumps(body).encode())


def _respond(url: str, status: int, body: bytes) -> AWSResponse:
    raw: Any = _Raw(body)
    headers: Any = {"Content-Type": "application/x-amz-json-1.0"}
    return AWSResponse(url, status, headers, raw)


class _Raw(io.BytesIO):
    """A body as an HTTP connection yields it."""

    def stream(self, **_: Any) -> Iterator[bytes]:
        while part := self.read():
            yield part
