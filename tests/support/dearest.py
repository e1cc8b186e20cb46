"""The dearest request of each public call: what it may cost, and what it costs.

    make dearest

measures them on this machine, and writes two tables of docs/security.md: the requests, and an upper bound of
the dearest hour of a small stage. The test file of a feature that has a public call has a function `dearest`,
which prepares the table and yields the requests.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from typing import NamedTuple
from unittest import mock

import app
from chalicelib.api.caching import ResponseCache
from chalicelib.chat import handlers, subscriptions
from chalicelib.comments import definitions as product_definitions
from chalicelib.dynamo import retries
from chalicelib.views import definitions
from local.engines.engine import DYNOXIDE, Engine, start
from ops.aws.template import TEMPLATE, read_yaml
from ops.costs import GB, LOG_BYTES, load_prices
from ops.stage import ROOT
from tests.support.deployed import Deployed, Invocation, deployed
from tests.support.meter import Meter
from tests.support.operations import features

DOCUMENT = ROOT / "docs" / "security.md"
BEGIN, END = "<!-- make dearest -->\n", "<!-- end -->\n"
BEGIN_HOUR = "<!-- make dearest: an hour -->\n"
HOUR = 3_600  # seconds
WORK = 1.5  # seconds that an invocation computes beside what it loses to failures
IDLE = 600  # seconds until API Gateway closes a connection without a frame (API Gateway quotas)
REPLIES = (
    4  # frames at most that one frame causes: to the sender and to the partners that it parts and matches
)
SHARDS = (
    4  # of the stream of an on-demand table (DynamoDB, "Initial throughput"), each with one batch at a time
)
CONSUMERS = 2  # of the stream: `apply` and `push`
CHEAP = 12  # USD of a million requests: the table leaves out what costs little more than an empty request
FILE = 800  # KB of the largest file that is served: the API reference


class Dearest(NamedTuple):
    """A request, and what it may cost at most: RCU and WCU with those of the stream, KB of the response."""

    invocation: Invocation
    read: float = 100
    write: float = 0
    kilobytes: float = 64


class Figures(NamedTuple):
    """What a request costs: RCU and WCU with those of the stream, KB of the response, ms of CPU time.

    A frame has no response, and its time is not measured, because it cannot be sent twice.
    """

    read: float
    write: float
    kilobytes: int
    ms: float | None

    def list_amounts(self) -> dict[str, float]:
        """Return the amount of each price: the units, and the request or the frame with its invocation."""
        arrival = {"frame": 1} if self.ms is None else {"request": 1, "inspected": 1}
        return {"read": self.read, "write": self.write, "invocation": 1, **arrival}


Rows = list[tuple[Dearest, Figures]]


def measure(engine: Engine) -> Rows:
    """Measure the dearest requests of all features, and those without a feature.

    Raises: AssertionError for an error, and for a public call without a request.
    """
    rows: Rows = []
    uncached = mock.patch.object(app.router, "cache", ResponseCache(0))
    for find in [*(module.dearest for module in features() if hasattr(module, "dearest")), service]:
        with uncached, deployed(engine) as site:
            rows += [(dearest, _measure(site, dearest)) for dearest in find(site)]
    public = {f"{route.method} {route.path}" for route in app.router.routes if route.access == "public"}
    frames = {f"socket {action}" for action in ("$connect", "$disconnect", *handlers.ACTIONS)}
    assert {row.invocation.operation for row, _ in rows} == public | frames, "`dearest` of a feature"
    return rows


def _measure(site: Deployed, dearest: Dearest) -> Figures:
    """Send a request twice: once for its units, with those of the stream, and once for its time."""
    invocation = dearest.invocation
    for recent in (definitions.RECENT, product_definitions.RECENT):
        recent.forget(site.table)  # so that each request reads the definition of its site or product
    with Meter(site.table.client) as meter:
        result = invocation.run()
        site.drain()
    assert result["statusCode"] < 300, (invocation.operation, invocation.name, result)
    if invocation.operation.startswith("socket"):
        return Figures(meter.read_units, meter.write_units, 0, None)
    began = time.process_time()
    invocation.run()
    ms = 1000 * (time.process_time() - began)
    site.drain()
    return Figures(meter.read_units, meter.write_units, -(-len(result["body"].encode()) // 1024), ms)


def service(site: Deployed) -> Iterator[Dearest]:
    """Yield the calls that do not use the table."""
    for route in ("/health", "/", "/web/config.json", "/docs"):
        yield Dearest(site.rest(f"GET {route}", ""), read=0)
    yield Dearest(site.rest("GET /openapi.json", ""), read=0, kilobytes=400)
    for route, file, path in (
        ("/web/{name}", _largest("web"), {"name": ""}),
        ("/web/{name}/{file}", _largest("web/lib"), {"name": "lib"}),
        ("/docs/{file}", _largest("chalicelib/api/reference"), {}),
    ):
        names = path | {"name" if path == {"name": ""} else "file": file}
        yield Dearest(site.rest(f"GET {route}", file, path=names), read=0, kilobytes=FILE)


def _largest(folder: str) -> str:
    files = [file for file in (ROOT / folder).iterdir() if file.suffix in (".js", ".css", ".html")]
    return max(files, key=lambda file: file.stat().st_size).name


def price(figures: Figures) -> float:
    """Return the price of a million requests in USD, without the time of the functions."""
    prices = load_prices()["prices"]
    amounts = figures.list_amounts().items()
    return sum(float(amount * prices[what]["usd"] / prices[what]["per"]) for what, amount in amounts) * 10**6


def table(rows: Rows) -> str:
    """Return the dearest request of each call as a table of the document, without those below CHEAP."""
    heads = ("call", "the dearest request", "RCU", "WCU", "KB", "USD", "CPU")
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    dearest: dict[str, tuple[Invocation, Figures, float]] = {}
    for (invocation, *_), figures in rows:
        usd = price(figures)
        if usd >= CHEAP and usd > dearest.get(invocation.operation, (None, None, 0))[2]:
            dearest[invocation.operation] = invocation, figures, usd
    for invocation, figures, usd in sorted(dearest.values(), key=lambda row: -row[2]):
        ms = "" if figures.ms is None else f"{figures.ms:.0f} ms"
        units = f"{figures.read:g} | {figures.write:g} | {figures.kilobytes or ''} | {usd:.2f}"
        lines.append(f"| `{invocation.operation}` | {invocation.name} | {units} | {ms} |")
    return "\n".join(lines) + "\n"


def bound_hour(rows: Rows) -> dict[str, float]:
    """Return an upper bound in USD of each part of an hour in which a small stage gets as much as it admits.

    Each request is the dearest of its way in, waits for the table as long as it may, and is logged. Each part
    is bounded by itself, so their sum is more than any hour costs.
    """
    prices = load_prices()["prices"]
    template = read_yaml(TEMPLATE)
    sizes = template["Mappings"]["Sizes"]["small"]
    table_ = template["Resources"]["Table"]["Properties"]
    ceiling = table_["OnDemandThroughput"]["Fn::If"][1]["MaxWriteRequestUnits"]["Fn::If"][2]
    memory = json.loads((ROOT / ".chalice" / "config.json").read_text())["stages"]["dev"][
        "lambda_memory_size"
    ]
    requests = sizes["RequestRate"] * HOUR + sizes["RequestBurst"]
    frames = sizes["FrameRate"] * (HOUR + 1)
    written = ceiling * (1 + len(table_["GlobalSecondaryIndexes"])) * HOUR
    batches = ceiling * HOUR * CONSUMERS
    posts = SHARDS * HOUR * 1_000 / subscriptions.POSTS.interval

    def usd(**amounts: float) -> float:
        return sum(
            float(amount * prices[what]["usd"] / prices[what]["per"]) for what, amount in amounts.items()
        )

    def invoke(count: float, seconds: float) -> float:
        work = count * seconds * memory / 1024
        return usd(invocation=count, second=work, log=count * LOG_BYTES / GB)

    rest = [row for _, row in rows if row.ms is not None]
    sockets = [row for _, row in rows if row.ms is None]
    slowest = retries.REQUEST + WORK
    responses = (usd(read=row.read, transfer=row.kilobytes * 1024 / GB) for row in rest)
    return {
        f"{requests:,} requests": requests * usd(request=1) + 2 * invoke(requests, slowest),
        "their dearest reads or largest files": requests * max(responses),
        f"{frames:,} frames": frames * usd(frame=1 + REPLIES) + invoke(frames, slowest),
        "their dearest reads": frames * max(usd(read=row.read) for row in sockets),
        f"{posts:,.0f} updates of live topics": usd(frame=posts),
        "connections": usd(minute=sizes["FrameRate"] * (IDLE + 1) * HOUR / 60),
        f"{written:,} write units of the table and its indexes": usd(write=written),
        "batches of the stream": invoke(batches, 0) + usd(second=SHARDS * CONSUMERS * HOUR * memory / 1024),
    }


def hour_table(rows: Rows) -> str:
    """Return the parts of the dearest hour as a table of the document, with their sum."""
    parts = bound_hour(rows)
    lines = [
        "| in an hour, at most | USD |",
        "|---|---|",
        *(f"| {name} | {usd:.2f} |" for name, usd in parts.items()),
    ]
    return "\n".join([*lines, f"| **together** | **{sum(parts.values()):.2f}** |"]) + "\n"


def documented(begin: str = BEGIN) -> str:
    """Return a table as the document has it."""
    return DOCUMENT.read_text().partition(begin)[2].partition(END)[0]


def without_time(table: str) -> str:
    """Return a table without the time, which depends on the machine."""
    return re.sub(r" [0-9]+ ms \|", "", table)


def write(begin: str, table: str) -> None:
    """Write a table into the document."""
    before, _, rest = DOCUMENT.read_text().partition(begin)
    DOCUMENT.write_text(f"{before}{begin}{table}{END}{rest.partition(END)[2]}")


if __name__ == "__main__":
    with start(DYNOXIDE, None) as running:
        measured = measure(running)
    if without_time(table(measured)) != without_time(documented()):  # else the times are another machine's
        write(BEGIN, table(measured))
    write(BEGIN_HOUR, hour_table(measured))
