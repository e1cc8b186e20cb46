"""ministack's tables and streams without its server: the same engine, asked inside this process.

A history asks some hundreds of questions, one after the other; on a busy machine two processes spend more
time on waiting for each other than on answering.
"""

from __future__ import annotations

import decimal
import io
from collections.abc import Coroutine, Iterator
from typing import Any

from botocore.awsrequest import AWSPreparedRequest, AWSResponse

from local.engine import Engine

KIND = "inside"
Answered = tuple[int, dict[str, str], bytes | str]


class Raw(io.BytesIO):
    """A body as an HTTP connection gives it."""

    def stream(self, **_: Any) -> Iterator[bytes]:
        """Give it, whole."""
        while part := self.read():
            yield part


class Inside(Engine):
    """The engine; its clients, and those that it takes in, never reach the network."""

    def __init__(self) -> None:
        super().__init__(KIND, "http://127.0.0.1:1", has_queues=False)

    def client(self, service: str) -> Any:
        """Answer the engine's client for a service."""
        return self.take_in(super().client(service))

    def take_in(self, client: Any) -> Any:
        """Answer a client's calls from now on."""

        def answer(request: AWSPreparedRequest, **_: Any) -> AWSResponse:
            return self.send(request)

        client.meta.events.register("before-send", answer, unique_id=KIND)
        return client

    def let_go(self, client: Any) -> None:
        """Leave a client's calls to whoever else answers them: with two answers, a call is done twice."""
        client.meta.events.unregister("before-send", unique_id=KIND)

    def send(self, request: AWSPreparedRequest) -> AWSResponse:
        """Answer a request."""
        from ministack.services import dynamodb, dynamodb_streams

        headers = {name.lower(): _text(value) for name, value in request.headers.items()}
        service = dynamodb_streams if "Streams" in headers["x-amz-target"] else dynamodb
        with decimal.localcontext(decimal.Context(prec=38)):  # as in local/launcher.py
            status, _, body = _result(service.handle_request("POST", "/", headers, request.body, {}))
        return response(request.url, status, body if isinstance(body, bytes) else body.encode())


def response(url: str, status: int, body: bytes) -> AWSResponse:
    """Make the answer of a table."""
    raw: Any = Raw(body)
    headers: Any = {"Content-Type": "application/x-amz-json-1.0"}
    return AWSResponse(url, status, headers, raw)


def _result(asked: Coroutine[Any, Any, Answered]) -> Answered:
    """Run what waits for nothing to its end."""
    try:
        asked.send(None)
    except StopIteration as end:
        answered: Answered = end.value
        return answered
    raise RuntimeError("the engine waits for something")


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
