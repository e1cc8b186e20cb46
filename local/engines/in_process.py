"""ministack's tables and streams inside this process, without a network: for simulations and measurements."""

from __future__ import annotations

import decimal
import io
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from botocore.awsrequest import AWSPreparedRequest, AWSResponse

from chalicelib.dynamo.table import connect
from chalicelib.settings import Settings
from local.engines.engine import Engine

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

IN_PROCESS = "in-process"  # the kind of this engine


class InProcessEngine(Engine):
    """ministack's tables and streams, called as functions: clients of this engine never use the network.

    A history makes some hundred calls in sequence. Two processes would mostly wait for each other.
    """

    def __init__(self) -> None:
        super().__init__(IN_PROCESS, "http://127.0.0.1:1", has_queues=False)

    def client(self, service: str) -> Any:
        """Return the engine's client for a service."""
        return self.attach(super().client(service))

    def attach(self, client: Any) -> Any:
        """Serve a client's calls from now on."""
        client.meta.events.register(
            "before-send", lambda request, **_: self.send(request), unique_id=IN_PROCESS
        )
        return client

    def detach(self, client: Any) -> None:
        """Stop serving a client's calls: with two servers a call is applied twice."""
        client.meta.events.unregister("before-send", unique_id=IN_PROCESS)

    def send(self, request: AWSPreparedRequest) -> AWSResponse:
        """Apply a request and return the response."""
        from ministack.services import dynamodb, dynamodb_streams

        headers = {name.lower(): _text(value) for name, value in request.headers.items()}
        service = dynamodb_streams if "Streams" in headers["x-amz-target"] else dynamodb
        call: Any = service.handle_request("POST", "/", headers, request.body, {})
        with decimal.localcontext(decimal.Context(prec=38)):  # as local/engines/ministack.py does
            try:
                call.send(None)
            except StopIteration as end:
                status, _, body = end.value
                return response_of(request.url, status, body if isinstance(body, bytes) else body.encode())
        raise RuntimeError("the engine awaited something")


class Sequential:
    """Replaces the thread pools of chalicelib/concurrency.py: runs each call at once, in order."""

    def submit(self, call: Callable[..., Any], *arguments: Any) -> Future[Any]:
        """Run a call at once."""
        done: Future[Any] = Future()
        try:
            done.set_result(call(*arguments))
        except Exception as error:
            done.set_exception(error)
        return done


def client_of(engine: Engine) -> DynamoDBClient:
    """Return the product's own client of an engine."""
    client = connect(Settings(endpoint=engine.endpoint)).client
    return engine.attach(client) if isinstance(engine, InProcessEngine) else client


class _Raw(io.BytesIO):
    """A body as an HTTP connection yields it."""

    def stream(self, **_: Any) -> Iterator[bytes]:
        while part := self.read():
            yield part


def response_of(url: str, status: int, body: bytes) -> AWSResponse:
    """Return a response as an HTTP connection would."""
    raw: Any = _Raw(body)
    headers: Any = {"Content-Type": "application/x-amz-json-1.0"}
    return AWSResponse(url, status, headers, raw)


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
