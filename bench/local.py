"""How long the product on one machine takes, on each engine that it can run on, one after the other.

Each figure is what a developer waits for: a start with data, views until the last is counted, two imports
until everything in them is counted and every rank is right.
"""

from __future__ import annotations

import bisect
import csv
import gzip
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from bench.report import Figures, Report
from bench.tables import load
from local.engines.engine import ROOT, start
from local.soak.product import Caller, Product
from local.soak.target import Target
from ops.aws.template import create_table

DATA = ROOT / "tests" / "data"
PAGE = "https://example.org/bench"
SITE = "http://www.semicomplete.com"
RACE = {
    **{"title": "City marathon", "unit": "minutes", "decimals": 2, "min": 60, "max": 600},
    **{"order": "asc", "operator": "best"},
}
WRITERS = 16
PATIENCE = 240.0  # seconds until every rank is right
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
        dynamodb, text = engine.client("dynamodb"), {"text": {"S": "x" * 200}}
        keys = [{"pk": {"S": f"ITEM#{i // 100}"}, "sk": {"S": f"{i:06}"}} for i in range(items)]
        load(engine, create_table(dynamodb, "local").name, [key | text for key in keys])


def _views(product: Product, count: int) -> float:
    """Post views one by one and wait until all are counted; raises RuntimeError for one that is refused."""

    def post(writer: int) -> None:
        caller = Caller(product)
        for i in range(writer, count, WRITERS):
            view = {"url": PAGE, "time": datetime.now(UTC).isoformat(), "clientId": f"client-{i}"}
            status, response = caller.send("POST", "/views", view)
            if status != 202:
                raise RuntimeError(f"a view was refused: {status} {response}")

    begin = time.monotonic()
    with ThreadPoolExecutor(WRITERS) as pool:
        list(pool.map(post, range(WRITERS)))
    while (counted := Caller(product).send("GET", f"/views?url={PAGE}")[1]["views"]) < count:
        time.sleep(0.05)
    if counted != count:
        raise RuntimeError(f"{counted} views were counted of {count}")
    return time.monotonic() - begin


def _race(product: Product, count: int, folder: Path) -> float:
    """Import the race until every rank is right. Return infinity if that takes too long."""
    text = gzip.decompress((DATA / "race-2010.csv.gz").read_bytes()).decode().splitlines()[: count + 1]
    file = folder / "race.csv"
    file.write_text("\n".join(text), encoding="utf-8")
    if (response := Caller(product).send("PUT", "/leaderboards/race", RACE, "admin"))[0] != 201:
        raise RuntimeError(f"the board was refused: {response}")
    begin = time.monotonic()
    product.ops("import-scores", str(file), "--board", "race", "--player", "bib", "--value", "minutes")
    seconds = time.monotonic() - begin
    rows = list(csv.DictReader(text))
    minutes = sorted(float(row["minutes"]) for row in rows)
    right = {row["bib"]: 1 + bisect.bisect_left(minutes, float(row["minutes"])) for row in rows}
    while _ranks(Caller(product)) != right:
        if (seconds := time.monotonic() - begin) > PATIENCE:
            return float("inf")
    return seconds


def _ranks(caller: Caller) -> dict[str, int]:
    """Read the rank of every player of the race."""
    found: dict[str, int] = {}
    cursor: str | None = ""
    while cursor is not None:
        after = f"&cursor={cursor}" if cursor else ""
        _, page = caller.send("GET", f"/leaderboards/race/entries?limit=100{after}")
        found |= {one["player"]: one["rank"] for one in page["items"]}
        cursor = page["cursor"]
    return found


def _log(product: Product, lines: int, folder: Path) -> float:
    """Import the access log."""
    text = gzip.decompress((DATA / "access.log.gz").read_bytes()).splitlines(keepends=True)[:lines]
    file = folder / "access.log"
    file.write_bytes(b"".join(text))
    begin = time.monotonic()
    product.ops("import-log", str(file), "--site", SITE)
    return time.monotonic() - begin
