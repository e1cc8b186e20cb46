"""How long the product on one machine takes, on each engine that it can run on, one after the other.

Each figure is what a developer waits for: a start with data, views until the last is counted, two imports
until everything in them is counted and every rank is right.
"""

from __future__ import annotations

import bisect
import csv
import gzip
import http.client
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple, Self

from bench.report import Figures, Report, Target
from local.engines.engine import ROOT, start
from ops.aws.template import create_table

DATA = ROOT / "tests" / "data"
PAGE = "https://example.org/bench"
SITE = "http://www.semicomplete.com"
RACE = {
    "title": "City marathon",
    "unit": "minutes",
    "decimals": 2,
    "min": 60,
    "max": 600,
    "order": "asc",
    "operator": "best",
}
WRITERS = 16
START_BOUND, RACE_BOUND = 2.0, 60.0  # seconds
METHOD = """The local run. `python -m local --no-reload` in a process of its own, on each engine in turn, \
with a folder of its own. Start: from the command to `ready`, the first time and with items in the table. \
Views: each a request of its own, by {writers} threads with a connection each, until `GET /views` has \
counted the last. Finishers: `python -m ops import-scores` of the real race in tests/data until it has seen \
all of them ranked; then every rank on the board is compared with a sorted list. Access log: `python -m ops \
import-log` until all is counted. Clients, product and engine share the machine."""


class Sizes(NamedTuple):
    """How much of each is measured."""

    items: int
    views: int
    finishers: int
    lines: int


FULL, QUICK = Sizes(100_000, 30_000, 22_690, 10_000), Sizes(1_000, 300, 200, 500)


class Product:
    """The local run on an engine, from its start to Ctrl-C; `seconds` is what the start took."""

    def __init__(self, kind: str, data: Path) -> None:
        self.port, socket_port, self._engine_port = _free_ports(3)
        ports = ["--port", self.port, "--socket-port", socket_port, "--engine-port", self._engine_port]
        command = [sys.executable, "-m", "local", "--no-reload", "--engine", kind, "--data", str(data)]
        begin = time.monotonic()
        self._process = subprocess.Popen(  # noqa: S603
            [*command, *map(str, ports)], cwd=ROOT, env=_environment(), stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout
        for line in self._process.stdout:
            if line == "ready\n":
                break
        else:
            raise RuntimeError(f"the local run on {kind} ended before it was ready")
        self.seconds = time.monotonic() - begin
        threading.Thread(target=self._process.stdout.read, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait()

    @contextmanager
    def connection(self) -> Iterator[Callable[..., Any]]:
        """Open a connection; calls of it return the status and the answer."""
        with closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)) as connection:

            def call(method: str, path: str, body: Any = None, token: str = "") -> tuple[int, Any]:
                headers = {"Content-Type": "application/json", "User-Agent": "a browser"}
                headers |= {"Authorization": f"Bearer {token}"} if token else {}
                connection.request(method, path, json.dumps(body) if body else None, headers)
                answer = connection.getresponse()
                return answer.status, json.loads(answer.read() or b"null")

            yield call

    def ops(self, *command: str) -> str:
        """Run a command of `python -m ops` on this run, and return what it prints."""
        environment = _environment() | {"HUBBUB_ENDPOINT": f"http://127.0.0.1:{self._engine_port}"}
        ran = subprocess.run(  # noqa: S603
            [sys.executable, "-m", "ops", *command],
            cwd=ROOT,
            env=environment,
            stdout=subprocess.PIPE,
            check=True,
            text=True,
        )
        return ran.stdout


def measure(kinds: Sequence[str], sizes: Sizes, said: Callable[[str], None]) -> Report:
    """Measure each engine; `said` is told what is being done."""
    report = Report([METHOD.format(writers=WRITERS)])
    names = (
        "start, empty",
        f"start with {sizes.items:,} items",
        f"{sizes.views:,} views counted",
        f"{sizes.finishers:,} finishers ranked",
        f"access log of {sizes.lines:,} lines",
    )
    figures = Figures("The local run: seconds", ("engine", *names))
    for kind in kinds:
        row = [*_measured(kind, sizes, lambda what, kind=kind: said(f"{kind}: {what}"))]  # type: ignore[misc]
        figures.rows.append((kind, *(round(seconds, 2) for seconds in row)))
        is_judged = kind == "dynoxide" and sizes == FULL
        report.targets.append(Target(f"{kind}: {names[1]}, s", row[1], START_BOUND, strict=is_judged))
        report.targets.append(Target(f"{kind}: {names[3]}, s", row[3], RACE_BOUND, strict=is_judged))
    report.figures.append(figures)
    return report


def _measured(kind: str, sizes: Sizes, said: Callable[[str], None]) -> Iterator[float]:
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "data"
        said("start")
        with Product(kind, data) as product:
            yield product.seconds
        said(f"put {sizes.items:,} items")
        _fill(kind, data, sizes.items)
        said("start with them")
        with Product(kind, data) as product:
            yield product.seconds
    with tempfile.TemporaryDirectory() as folder, Product(kind, Path(folder) / "data") as product:
        said("views")
        yield _views(product, sizes.views)
        said("finishers")
        yield _race(product, sizes.finishers, Path(folder))
        said("access log")
        yield _log(product, sizes.lines, Path(folder))


def _fill(kind: str, data: Path, items: int) -> None:
    """Put items that no feature counts into the table of a run that is stopped."""
    with start(kind, data) as engine:
        dynamodb = engine.client("dynamodb")
        name = create_table(dynamodb, "local").name
        keys = [{"pk": {"S": f"ITEM#{i // 100}"}, "sk": {"S": f"{i:06}"}} for i in range(items)]
        batches = [keys[i : i + 25] for i in range(0, items, 25)]

        def put(batch: list[Any]) -> None:
            text = {"text": {"S": "x" * 200}}
            left: Any = {name: [{"PutRequest": {"Item": key | text}} for key in batch]}
            while left:
                left = dynamodb.batch_write_item(RequestItems=left).get("UnprocessedItems")

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(put, batches))


def _views(product: Product, count: int) -> float:
    """Post views one by one and wait until all are counted; raises RuntimeError for one that is refused."""

    def post(writer: int) -> None:
        with product.connection() as call:
            for i in range(writer, count, WRITERS):
                view = {"url": PAGE, "time": datetime.now(UTC).isoformat(), "clientId": f"client-{i}"}
                status, answer = call("POST", "/views", view)
                if status != 202:
                    raise RuntimeError(f"a view was refused: {status} {answer}")

    begin = time.monotonic()
    with ThreadPoolExecutor(WRITERS) as pool:
        list(pool.map(post, range(WRITERS)))
    with product.connection() as call:
        while (counted := call("GET", f"/views?url={PAGE}")[1]["views"]) < count:
            time.sleep(0.05)
    if counted != count:
        raise RuntimeError(f"{counted} views were counted of {count}")
    return time.monotonic() - begin


def _race(product: Product, count: int, folder: Path) -> float:
    """Import the race; raises RuntimeError for a rank that is wrong in the end."""
    text = gzip.decompress((DATA / "race-2010.csv.gz").read_bytes()).decode().splitlines()[: count + 1]
    file = folder / "race.csv"
    file.write_text("\n".join(text), encoding="utf-8")
    token = product.ops("token", "--stage", "local", "--sub", "me", "--scope", "admin").strip()
    with product.connection() as call:
        status, answer = call("PUT", "/leaderboards/race", RACE, token)
        if status != 201:
            raise RuntimeError(f"the board was refused: {status} {answer}")
        begin = time.monotonic()
        product.ops("import-scores", str(file), "--board", "race", "--player", "bib", "--value", "minutes")
        seconds = time.monotonic() - begin
        rows = list(csv.DictReader(text))
        minutes = sorted(float(row["minutes"]) for row in rows)
        right = {row["bib"]: 1 + bisect.bisect_left(minutes, float(row["minutes"])) for row in rows}
        found: dict[str, int] = {}
        cursor: str | None = ""
        while cursor is not None:
            after = f"&cursor={cursor}" if cursor else ""
            _, page = call("GET", f"/leaderboards/race/entries?limit=100{after}")
            found |= {one["player"]: one["rank"] for one in page["items"]}
            cursor = page["cursor"]
    if found != right:
        raise RuntimeError(f"{sum(found.get(one) != rank for one, rank in right.items())} ranks are wrong")
    return seconds


def _log(product: Product, lines: int, folder: Path) -> float:
    """Import the access log."""
    text = gzip.decompress((DATA / "access.log.gz").read_bytes()).splitlines(keepends=True)[:lines]
    file = folder / "access.log"
    file.write_bytes(b"".join(text))
    begin = time.monotonic()
    product.ops("import-log", str(file), "--site", SITE)
    return time.monotonic() - begin


def _environment() -> dict[str, str]:
    """Return this environment without what names another stage or AWS; the secret is one for all runs."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("AWS_", "HUBBUB_", "POWERTOOLS_"))}
    return kept | {"HUBBUB_SECRET": "0123456789abcdef0123456789abcdef"}


def _free_ports(count: int) -> list[int]:
    with ExitStack() as probes:
        sockets = [probes.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [int(probe.getsockname()[1]) for probe in sockets]
