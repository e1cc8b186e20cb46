"""The dearest request of each public call: what it may cost, and what it costs.

    make dearest

measures them on this machine, and writes the table of docs/security.md. The test file of a feature that has a
public call has a function `dearest`, which prepares the table and yields the requests.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from typing import NamedTuple
from unittest import mock

import app
from chalicelib.api.caching import ResponseCache
from chalicelib.views import definitions
from local.engines.engine import DYNOXIDE, Engine, start
from ops.costs import load_prices
from ops.stage import ROOT
from tests.support.deployed import Deployed, Invocation, deployed
from tests.support.meter import Meter
from tests.support.operations import features

DOCUMENT = ROOT / "docs" / "security.md"
BEGIN, END = "<!-- make dearest -->\n", "<!-- end -->\n"
CHEAP = 10  # USD of a million requests: the table leaves out what costs little more than an empty request
FILE = 1_700  # KB of the largest file that is served: the API reference


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
    """Measure the dearest requests of all features, and those without a feature. Raises for an error."""
    rows: Rows = []
    uncached = mock.patch.object(app.router, "cache", ResponseCache(0))
    for find in [*(module.dearest for module in features() if hasattr(module, "dearest")), service]:
        with uncached, deployed(engine) as site:
            rows += [(dearest, _measure(site, dearest)) for dearest in find(site)]
    return rows


def _measure(site: Deployed, dearest: Dearest) -> Figures:
    """Send a request twice: once for its units, with those of the stream, and once for its time."""
    invocation = dearest.invocation
    definitions._cached.cache_clear()  # so that each request reads the definition of its site
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
    yield Dearest(site.rest("GET /openapi.json", ""), read=0, kilobytes=350)
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


def documented() -> str:
    """Return the table as the document has it."""
    return DOCUMENT.read_text().partition(BEGIN)[2].partition(END)[0]


def without_time(table: str) -> str:
    """Return a table without the time, which depends on the machine."""
    return re.sub(r" [0-9]+ ms \|", "", table)


if __name__ == "__main__":
    with start(DYNOXIDE, None) as running:
        written = table(measure(running))
    if without_time(written) != without_time(documented()):  # else the times are those of another machine
        before, _, rest = DOCUMENT.read_text().partition(BEGIN)
        DOCUMENT.write_text(f"{before}{BEGIN}{written}{END}{rest.partition(END)[2]}")
