"""CPU time: how long the app takes to import, and each of its handlers to run."""

from __future__ import annotations

import math
import os
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from unittest import mock

from botocore.awsrequest import AWSResponse

from bench import operations
from bench.deployed import Deployed, Invocation, deployed
from bench.report import Cell, Figures, Report
from chalicelib import concurrency
from chalicelib.settings import Settings
from chalicelib.views import events
from chalicelib.views.events import View
from local.engines.engine import ROOT, Engine
from local.engines.in_process import Sequential
from local.soak.target import Target

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mypy_boto3_dynamodb import DynamoDBClient

BARE = "import chalice, boto3; boto3.client('dynamodb')"
APP = "import app"
CONNECTED = "import app, chalicelib.dynamo.table as table; table.connect()"
TIMED = """
import sys, time
begin = time.perf_counter()
exec(sys.argv[1])
print(time.perf_counter() - begin)
"""
BOUND = 1.25
IMPORT = f"""Import time. Each run is a new Python process that times one statement, without Python's own \
start: `{BARE}` (bare), `{APP}`, and `{CONNECTED}` (connected); the three take turns, from compiled files, \
and the median of each counts. Nothing is sent to an engine. Bare and connected both end with a DynamoDB \
client, so they are compared."""


def import_times(runs: int) -> list[float]:
    """Return the median seconds of each statement, in `runs` processes after one that does not count."""
    seconds: dict[str, list[float]] = {BARE: [], APP: [], CONNECTED: []}
    for _ in range(runs + 1):
        for statement, times in seconds.items():
            times.append(_seconds(statement))
    return [statistics.median(times[1:]) for times in seconds.values()]


def import_report(times: Sequence[float], runs: int) -> Report:
    """Return the medians in milliseconds. The target is the ratio of connected to bare, not of one run."""
    names = ("bare: chalice, boto3, client", "app", "connected: app and its client")
    figures = Figures(f"Import, median of {runs} runs", ("statement", "ms", "times bare"))
    figures.rows = [(name, 1000 * one, one / times[0]) for name, one in zip(names, times, strict=True)]
    name = "import of the app and its client, times bare"
    return Report([IMPORT], [figures], [Target(name, times[-1] / times[0], BOUND, strict=runs > 1)])


def _seconds(statement: str) -> float:
    # Credentials in the environment, as on Lambda: without them the client would look for them elsewhere.
    environment = {
        "PATH": os.environ.get("PATH", ""),
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "local",
        "AWS_SECRET_ACCESS_KEY": "local",
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        "HUBBUB_STAGE": "local",
    }
    command = [sys.executable, "-c", TIMED, statement]
    options: dict[str, Any] = {"cwd": ROOT, "env": environment, "check": True, "text": True}
    return float(subprocess.run(command, capture_output=True, **options).stdout)  # noqa: S603 (our statements)


# -- handlers --------------------------------------------------------------------------------------

HANDLERS = """Handlers. CPU milliseconds of this process for each invocation, all its threads together: \
from the event that Lambda passes to what the handler returns, log lines and metrics included. The table \
replies once; after that its replies are played back in place of the network, byte for byte, so the SDK's \
own work (to sign, write and read) is included, and sockets, TLS and the engine are not. The least of \
{runs} runs after one that does not count: other work on the machine only adds. A batch of the stream is \
also shown for each of its records. Invocations that make random choices (joining or leaving a pair) send \
other requests each time, and are left out. Views are of one page."""


class Changed(Exception):
    """An invocation made other calls than when its replies were recorded."""


class Tape:
    """The replies that a client received, to be played back in the same order by operation."""

    def __init__(self) -> None:
        self._replies: dict[str, list[tuple[int, Any, bytes]]] = defaultdict(list)
        self._played: dict[str, int] = defaultdict(int)

    def rewind(self) -> None:
        """Start with the first replies again."""
        self._played.clear()

    def check(self) -> None:
        """Raise Changed unless each reply was played."""
        if self._played != {name: len(replies) for name, replies in self._replies.items()}:
            raise Changed

    @contextmanager
    def record(self, client: DynamoDBClient) -> Iterator[None]:
        """Send what the client sends, and keep the replies."""

        def send(request: Any, event_name: str, **_: object) -> AWSResponse:
            reply: AWSResponse = client._endpoint.http_session.send(request)  # type: ignore[attr-defined]
            self._replies[event_name].append((reply.status_code, reply.headers, reply.content))
            return reply

        with _sending(client, send):
            yield

    @contextmanager
    def play(self, client: DynamoDBClient) -> Iterator[None]:
        """Reply in the table's place; nothing is sent."""

        def send(request: Any, event_name: str, **_: object) -> Any:
            number = self._played[event_name]
            self._played[event_name] += 1
            if number >= len(self._replies.get(event_name, ())):
                raise Changed
            status, headers, content = self._replies[event_name][number]
            reply: Any = AWSResponse(request.url, status, headers, None)
            reply._content = content  # which `content` returns, without a socket to read from
            return reply

        with _sending(client, send):
            yield


@contextmanager
def _sending(client: DynamoDBClient, send: Any) -> Iterator[None]:
    client.meta.events.register_first("before-send.dynamodb", send)
    try:
        yield
    finally:
        client.meta.events.unregister("before-send.dynamodb", send)


def milliseconds(client: DynamoDBClient, invocation: Invocation, runs: int) -> float:
    """Run an invocation, then play it back several times. Return the least time. Raises Changed."""
    tape = Tape()
    with tape.record(client):
        invocation.run()
    times = []
    with tape.play(client):
        for _ in range(runs + 1):
            tape.rewind()
            begun = time.process_time()
            try:
                invocation.run()
            except Exception as error:  # a reply to another call makes no sense to it
                raise Changed from error
            times.append(time.process_time() - begun)
            tape.check()
    return 1000 * min(times[1:])


def handler_report(engine: Engine, runs: int) -> Report:
    """Measure every operation."""
    columns = ("operation", "", "ms", "records", "ms a record")
    figures = Figures(f"CPU of a handler, least of {runs} runs", columns)

    def run(site: Deployed, invocation: Invocation) -> None:
        try:
            elapsed = milliseconds(site.table.client, invocation, runs)
        except Changed:
            return
        count = len(invocation.event["Records"]) if invocation.operation == "stream" else 0
        each: Sequence[Cell] = (count, elapsed / count) if count else ("", "")
        figures.rows.append((invocation.operation, invocation.name, elapsed, *each))

    with _one_call_at_a_time():
        operations.play(engine, run)
    return Report([HANDLERS.format(runs=runs)], [figures])


def _one_call_at_a_time() -> AbstractContextManager[Any]:
    """Make concurrent calls one after the other, so that replies can be played back in their order."""
    return mock.patch.object(concurrency, "_threads", return_value=Sequential())


# -- a large batch ---------------------------------------------------------------------------------

PAGES = 100
MEMORY, ONE_CPU = 512, 1769  # MB of the function, and MB at which Lambda gives a function one CPU
TRIP = 5.0  # milliseconds that a call to DynamoDB is taken to last
BATCH = f"""A batch. {PAGES} views of {PAGES} pages, all viewed before: an event and a visitor each, so \
{2 * PAGES} records that change {2 * PAGES} aggregates. CPU time as above, the calls one after the other. \
Lambda gives a function of {MEMORY} MB {MEMORY / ONE_CPU:.2f} of a CPU (one CPU at {ONE_CPU:,} MB, AWS \
Lambda's developer guide), so its time is at least the CPU time divided by that. The calls go out \
{concurrency.THREADS} at a time; at {TRIP:g} ms each they wait for the time in the last row at most."""


def batch_report(engine: Engine, runs: int) -> Report:
    """Measure the time of `apply` for a batch over many pages."""
    now = datetime.now(UTC)
    with deployed(engine) as site, _one_call_at_a_time():
        for minute in (2, 1):
            some = [
                View(f"https://www.example.org/{i}", now - timedelta(minutes=minute), f"c{minute}-{i}")
                for i in range(PAGES)
            ]
            events.write(site.table, some, Settings(), now)
            if minute == 2:
                site.drain()
        cpu = milliseconds(site.table.client, site.delivery("a batch"), runs)
    waits = math.ceil(2 * PAGES / concurrency.THREADS) * TRIP
    rows: list[Sequence[Cell]] = [
        ("CPU", cpu),
        (f"at least, at {MEMORY} MB", cpu * ONE_CPU / MEMORY),
        (f"waiting for calls, {concurrency.THREADS} at a time", waits),
    ]
    title = f"`apply` of {2 * PAGES} records over {PAGES} pages, least of {runs} runs"
    return Report([BATCH], [Figures(title, ("time", "ms"), rows)])


def measure(engine: Engine, quick: bool) -> Report:
    """Measure both; `quick` makes fewer runs."""
    runs = 1 if quick else 15
    imports = import_report(import_times(runs), runs)  # first: while the engine is idle
    return imports + handler_report(engine, 1 if quick else 25) + batch_report(engine, 1 if quick else 20)
