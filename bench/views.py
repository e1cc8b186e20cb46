"""Views: the cost of a counted view, and the throughput on one page, beside the published design."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from bench.published import views as published_views
from bench.report import Figures, Question, Report, Result
from bench.tables import check, drain, fresh_table
from chalicelib.aggregates import engine as aggregates
from chalicelib.settings import Settings
from chalicelib.views import events as views
from chalicelib.views.events import View
from local.engines.conflicts import InFlight
from local.engines.engine import Engine
from local.engines.meter import Meter, Write
from local.event_sources import StreamPump
from local.soak.target import Target

CONTRIBUTIONS = (views.contribution,)
DERIVATIONS = (views.derive_listing,)
BATCH = 100  # views that Lambda delivers at a time: 200 records with visitors, 300 with sites
HOUR = datetime(2100, 1, 1, 12, tzinfo=UTC)  # of every view: one day's series, and no TTL has passed
FLOOR = 1.0  # the WCU of a view that is stored
BEFORE = 2  # views of each page before the measurement, by others
TTL = 4_102_444_800
METHOD = f"""Capacity. Write units (WCU) for each counted view, computed from the items before and after \
every call by AWS's published rules. Ours is everything: the events' puts, then the aggregator over the \
stream in batches of {BATCH} views (with visitors {2 * BATCH} records) until the stream is empty. Records \
have the creation time of the scenario. Every page has been viewed twice before; a returning visitor has \
viewed the page in the same hour. An index entry moves in steps: every fourth view at first, and every \
hundredth of a page with 800 views. A move costs 3 WCU, and the row of a whole day has its share of them. \
Afterwards all aggregates are compared with a recount of the items. The floor is a design that stores a \
view and counts nothing. The published design has no series, no uniques and no top pages. Where ours costs \
more than it, the row says what that buys."""


class Scenario(NamedTuple):
    """Distinct views, spread evenly over pages and over seconds of creation."""

    name: str
    views: int = 100
    pages: int = 1
    seconds: int = 1
    series: bool = False
    uniques: bool = False
    sites: bool = False
    returning: bool = False
    batch: int = BATCH

    def events(self, time: datetime = HOUR, *, others: bool = False) -> list[View]:
        """Return the views; with `others`, some views of each page by other visitors."""
        visitor, count = ("somebody-else", BEFORE * self.pages) if others else ("visitor", self.views)
        pages = [f"https://www.example.org/articles/{i % self.pages:04}" for i in range(count)]
        return [
            View(page, time + timedelta(milliseconds=i), f"{visitor}-{i:06}") for i, page in enumerate(pages)
        ]


HOT = Scenario("100 views of a page: totals")
ALONE = Scenario("1 view of a page, alone: totals", views=1)
COLD = Scenario("100 views of 100 pages: totals", pages=100)
LATE = Scenario("100 views of a page over 100 seconds, in a batch: totals", seconds=100)


def _with_more(first: Scenario, visitors: str) -> tuple[Scenario, ...]:
    """Return a scenario of totals, and those that keep more: series, then visitors, then sites."""
    series = first._replace(name="  and series", series=True)
    uniques = series._replace(name=f"  and series, uniques; {visitors}", uniques=True)
    returning = uniques._replace(name="  and series, uniques; returning", returning=True)
    sites = uniques._replace(name=f"  and series, uniques, sites; {visitors}", sites=True)
    return first, series, uniques, returning, sites


VISITORS = "new visitors"
SCENARIOS = (*_with_more(HOT, VISITORS), *_with_more(COLD, VISITORS), LATE, *_with_more(ALONE, "new visitor"))
DAY = Scenario("A page viewed every ten seconds all day: totals", views=8640, seconds=86_400, batch=1)
ROWS = {0: 1.1, 2: 2.3, 4: 3.5, 7: 5.0, 9: 5.2, 13: 6.0, 15: 7.0}  # of SCENARIOS: the most WCU a view
BOUNDS = {ALONE: 2.3, COLD: 2.3, DAY: 2.3} | {SCENARIOS[row]: most for row, most in ROWS.items()}
BUSY = Scenario("1,000 views of a page in a second, 10 batches: totals", views=1000)


class Cost(NamedTuple):
    """WCU for each view: of event and visitor, the guard pages, and the aggregates and their index."""

    events: float
    guards: float
    aggregates: float
    indexes: float

    @property
    def total(self) -> float:
        """Return the sum."""
        return sum(self)


def cost(engine: Engine, scenario: Scenario) -> Cost:
    """Measure a scenario. Raises Drifted when the aggregates are wrong afterwards."""
    start, seen = int(time.time()) // 60 * 60, 0  # a full minute: a guard page may cover one
    series, uniques, sites = scenario.series, scenario.uniques, scenario.sites
    settings = Settings(views_series=series, views_uniques=uniques, views_sites=sites)
    with fresh_table(engine) as (table, stream_arn):

        def apply(event: dict[str, Any], _: object) -> None:
            nonlocal seen
            for record in event["Records"]:
                change = record["dynamodb"]
                change["ApproximateCreationDateTime"] = start + seen * scenario.seconds // scenario.views
                seen += change["Keys"]["sk"]["S"].startswith("T#")
            now = start + seen * scenario.seconds // scenario.views
            aggregates.apply(table, CONTRIBUTIONS, event["Records"], derivations=DERIVATIONS, now=lambda: now)

        size = scenario.batch * (1 + uniques * (1 + sites))
        pump = StreamPump(engine.client("dynamodbstreams"), stream_arn, apply, size)
        before = scenario.events(HOUR - timedelta(minutes=10), others=True)
        if scenario.returning:
            before += scenario.events(HOUR - timedelta(minutes=5))
        views.write(table, before, settings, datetime.now(UTC))
        drain(pump)
        start, seen = start + 60, 0
        with Meter(table.client) as meter:
            views.write(table, scenario.events(), settings, datetime.now(UTC))
            drain(pump)
        check(CONTRIBUTIONS, table, scenario.name)
    return _split(meter.writes, scenario.views)


def _split(writes: Sequence[Write], count: int) -> Cost:
    """Split the cost of some writes by the kind of item, for each view."""
    events = sum(one.table for one in writes if one.key["sk"]["S"].startswith(("T#", "VISITOR#")))
    guards = sum(one.table for one in writes if one.key["pk"]["S"].startswith("GUARD#"))
    indexes = sum(one.indexes for one in writes)
    rest = sum(one.table for one in writes) - events - guards
    return Cost(events / count, guards / count, rest / count, indexes / count)


def published_cost(engine: Engine, scenario: Scenario) -> float:
    """Measure the same views in the published design, in WCU for each, without duplicates and conflicts."""
    with fresh_table(engine) as (table, _), Meter(table.client) as meter:
        for view in scenario.events():
            event = (view.url, view.time.isoformat(), view.client)
            published_views.count_view(table.client, table.name, *event, TTL)
    return meter.write_units / scenario.views


def costs(engine: Engine, quick: bool) -> Report:
    """Measure the cost of every scenario, beside the published design and the floor."""
    theirs = {pages: published_cost(engine, HOT._replace(pages=pages)) for pages in (1, 100)}
    chosen = (HOT, ALONE) if quick else (*SCENARIOS, BUSY, DAY)
    found = {one: cost(engine, one) for one in chosen}
    columns = ("views", "event and visitor", "guard pages", "aggregates", "index", "all")
    figures = Figures("WCU for each counted view, ours, by the item written", columns)
    question = Question("What does a counted view cost?", "WCU a view")
    for scenario, one in found.items():
        figures.rows.append((scenario.name, *one, one.total))
        question.results.append(Result(scenario.name, one.total, theirs[scenario.pages], FLOOR))
    targets = [
        Target(f"WCU a view, {one.name.strip()}, {one.views} of {one.pages} pages", found[one].total, bound)
        for one, bound in BOUNDS.items()
        if one in found
    ]
    return Report([METHOD], [figures], targets, [question])


# -- throughput ------------------------------------------------------------------------------------

WRITERS = 16
REQUEST = 25  # views in the larger request: the size of one BatchWriteItem
LATENCY = 0.010  # seconds added to every call of both designs
FASTER, PATIENCE = 5.0, 120.0  # times published; seconds for the aggregates to catch up
PAGE = "https://www.example.org/hot"
TOTALS = Settings(views_series=False, views_uniques=False, views_sites=False)
THROUGHPUT = f"""Throughput. {WRITERS} threads of one process write distinct views of one page for some \
seconds; only totals are kept, as in the published design. Published: a transaction for each view. Ours: \
one BatchWriteItem a request, while the aggregator applies the stream in batches of {BATCH} in the same \
process. The time ends when the page's total is the number of views sent, and a recount confirms it. No \
local engine raises TransactionConflict, so AWS's rule is emulated for both (local/engines/conflicts.py): a \
write that names an item of a running transaction is refused. The published design takes every refusal for \
a duplicate, and loses the view. {1000 * LATENCY:g} ms are added to every call of both designs, which \
stand for a network and are no figure of AWS's. Engine, writers and aggregator share the {os.cpu_count()} \
cores of this machine and one interpreter, while AWS serves requests in parallel."""


class Rate(NamedTuple):
    """The outcome of distinct views that were sent; `seconds` until the last of them was counted."""

    sent: int
    counted: int
    refused: int
    seconds: float

    @property
    def lost(self) -> int:
        """Return the number of views that were sent and are never counted."""
        return self.sent - self.counted

    @property
    def a_second(self) -> float:
        """Return the views counted in a second."""
        return self.counted / self.seconds


def published_rate(engine: Engine, seconds: float, in_flight: InFlight, writers: int = WRITERS) -> Rate:
    """Count views of one page in the published design, in a transaction each."""
    with fresh_table(engine) as (table, _):
        client, name = table.client, table.name

        def send(writer: int, number: int) -> int:
            published_views.count_view(client, name, PAGE, _time(number).isoformat(), f"writer-{writer}", TTL)
            return 1

        begin = time.perf_counter()
        with in_flight.attached(client):
            sent = _write(send, seconds, writers)
        elapsed = time.perf_counter() - begin
        return Rate(sent, published_views.views(client, name, PAGE), in_flight.refused, elapsed)


def rate(engine: Engine, seconds: float, in_flight: InFlight, per_request: int) -> Rate:
    """Put views of one page while the aggregator applies the stream, as on Lambda.

    Ends when the page's total is the number of views sent, or after two minutes. Raises Drifted.
    """
    with fresh_table(engine) as (table, stream_arn):

        def send(writer: int, number: int) -> int:
            first = number * per_request
            some = [View(PAGE, _time(first + i), f"writer-{writer}") for i in range(per_request)]
            return views.write(table, some, TOTALS, datetime.now(UTC))

        def apply(event: dict[str, Any], _: object) -> None:
            aggregates.apply(table, CONTRIBUTIONS, event["Records"], derivations=DERIVATIONS)

        pump = StreamPump(engine.client("dynamodbstreams"), stream_arn, apply, BATCH)
        begin, counted = time.perf_counter(), 0
        with in_flight.attached(table.client):
            pump.start()
            sent = _write(send, seconds, WRITERS)
            while counted < sent and time.perf_counter() < begin + seconds + PATIENCE:
                time.sleep(0.01)
                counted = views.count_page_views(table.get(views.page_key(PAGE), consistent=True) or {})
            elapsed = time.perf_counter() - begin
            pump.stop(PATIENCE)
        if counted == sent:
            check(CONTRIBUTIONS, table)
    return Rate(sent, counted, in_flight.refused, elapsed)


def _write(send: Callable[[int, int], int], seconds: float, count: int) -> int:
    """Send requests from each writer, one after the other, for some seconds. Return the views sent."""
    deadline = time.monotonic() + seconds

    def write(writer: int) -> int:
        sent = number = 0
        while time.monotonic() < deadline:
            sent += send(writer, number)
            number += 1
        return sent

    with ThreadPoolExecutor(count) as pool:
        return sum(pool.map(write, range(count)))


def _time(number: int) -> datetime:
    return HOUR + timedelta(microseconds=number)


def rates(engine: Engine, quick: bool) -> Report:
    """Measure the throughput of both designs."""
    seconds = 0.2 if quick else 8.0
    theirs = published_rate(engine, seconds, InFlight(LATENCY))
    sizes = {f"{size} views a request": size for size in (1, REQUEST)}
    ours = {name: rate(engine, seconds, InFlight(LATENCY), size) for name, size in sizes.items()}
    title = f"Throughput on one page with {1000 * LATENCY:g} ms of added latency"
    question = Question(title, "views a second")
    figures = Figures(
        f"{WRITERS} writers on one page, {seconds:g} s of writing, {engine.kind}",
        ("design", "sent", "counted", "lost", "refused", "counted a second", "times published"),
    )
    report = Report([THROUGHPUT], [figures], questions=[question])
    for name, one in ({"published": theirs} | ours).items():
        times = one.a_second / theirs.a_second
        figures.rows.append((name, one.sent, one.counted, one.lost, one.refused, one.a_second, times))
        if name in ours:
            question.results.append(Result(name, one.a_second, theirs.a_second))
            report.targets += [
                Target(f"views lost, {name}", one.lost, 0),
                Target(f"times published, {name}", times, FASTER, at_most=False, strict=not quick),
            ]
    return report


def measure(engine: Engine, quick: bool) -> Report:
    """Measure both on one engine; `quick` takes seconds rather than minutes, and judges no rate."""
    return costs(engine, quick) + rates(engine, quick)
