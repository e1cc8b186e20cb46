"""How much CPU time each handler takes, the SDK's included, with the table's own answers played back."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from botocore.awsrequest import AWSResponse

from bench import operations
from bench.invocations import Deployed, Invocation
from bench.report import Cell, Figures, Report
from local.engine import Engine

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mypy_boto3_dynamodb import DynamoDBClient

METHOD = """Handlers. CPU milliseconds of this process for each invocation, all its threads together: \
from the event that Lambda hands over to what the handler returns, log lines and metrics included. The \
table answers once; after that its answers are played back in place of the network, byte for byte, so the \
SDK's own work (to check, sign, write and read) is in, and sockets, TLS and the engine are not. The least \
of {runs} runs after one that does not count: other work on the machine only adds. A batch of the stream \
is also shown for each of its records. What draws lots (who joins or leaves a pair) asks other things \
each time: it is left out. Views are of one page."""


class Changed(Exception):
    """An invocation made other calls than when its answers were kept."""


class Tape:
    """The answers that a client got, to be got again in the same order by operation."""

    def __init__(self) -> None:
        self._kept: dict[str, list[tuple[int, Any, bytes]]] = defaultdict(list)
        self._given: dict[str, int] = defaultdict(int)

    def rewind(self) -> None:
        """Begin with the first answers again."""
        self._given.clear()

    def check(self) -> None:
        """Raise Changed unless each answer was asked for."""
        if self._given != {name: len(kept) for name, kept in self._kept.items()}:
            raise Changed

    @contextmanager
    def record(self, client: DynamoDBClient) -> Iterator[None]:
        """Send what the client sends, and keep the answers."""

        def send(request: Any, event_name: str, **_: object) -> AWSResponse:
            answer: AWSResponse = client._endpoint.http_session.send(request)  # type: ignore[attr-defined]
            self._kept[event_name].append((answer.status_code, answer.headers, answer.content))
            return answer

        with _sending(client, send):
            yield

    @contextmanager
    def play(self, client: DynamoDBClient) -> Iterator[None]:
        """Answer in the table's place; nothing is sent."""

        def answer(request: Any, event_name: str, **_: object) -> Any:
            number = self._given[event_name]
            self._given[event_name] += 1
            if number >= len(self._kept.get(event_name, ())):
                raise Changed
            status, headers, content = self._kept[event_name][number]
            made: Any = AWSResponse(request.url, status, headers, None)
            made._content = content  # what `content` answers, without a socket to read from
            return made

        with _sending(client, answer):
            yield


@contextmanager
def _sending(client: DynamoDBClient, send: Any) -> Iterator[None]:
    client.meta.events.register_first("before-send.dynamodb", send)
    try:
        yield
    finally:
        client.meta.events.unregister("before-send.dynamodb", send)


def milliseconds(client: DynamoDBClient, invocation: Invocation, runs: int) -> float:
    """Run an invocation for good, then play it again so many times; answer the least. Raises Changed."""
    tape = Tape()
    with tape.record(client):
        invocation.run()
    taken = []
    with tape.play(client):
        for _ in range(runs + 1):
            tape.rewind()
            begun = time.process_time()
            try:
                invocation.run()
            except Exception as error:  # an answer that was another call's makes no sense to it
                raise Changed from error
            taken.append(time.process_time() - begun)
            tape.check()
    return 1000 * min(taken[1:])


def report(engine: Engine, runs: int) -> Report:
    """Take the time of every operation."""
    figures = Figures(
        f"CPU of a handler, least of {runs} runs", ("operation", "", "ms", "records", "ms a record")
    )

    def hear(site: Deployed, invocation: Invocation) -> None:
        try:
            taken = milliseconds(site.table.client, invocation, runs)
        except Changed:
            return
        count = len(invocation.event["Records"]) if invocation.operation == "stream" else 0
        each: Sequence[Cell] = (count, taken / count) if count else ("", "")
        figures.rows.append((invocation.operation, invocation.name, taken, *each))

    operations.play(engine, hear)
    return Report([METHOD.format(runs=runs)], [figures])
