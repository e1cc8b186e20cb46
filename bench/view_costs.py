"""What a counted view costs in write units, ours and the published design's."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple
from uuid import uuid4

from bench import published_views
from bench.meter import Meter, Write
from bench.report import Answer, Figures, Plot, Question, Report, Target
from chalicelib import aggregates, views
from chalicelib.events import View
from chalicelib.settings import Settings
from chalicelib.table import Table
from local.engine import Engine
from local.pumps import StreamPump
from ops.definition import create_table
from ops.recount import drift, scan

CONTRIBUTIONS = (views.contribution,)
BATCH = 100  # records that Lambda hands to the aggregator at a time
HOUR = datetime(2100, 1, 1, 12, tzinfo=UTC)  # of every view: one day's series, and no TTL has passed
SIZES = (1, 2, 5, 10, 20, 50, 100)
FLOOR = 1.0  # a view that is stored at all
BOUND = 1.3
METHOD = f"""Capacity. Write units (WCU) for each counted view, computed from the items before and after \
every call by the rules AWS publishes; a transaction doubles the table's writes, not the \
indexes'. Ours is everything: the events' puts, then the aggregator over the stream in batches of {BATCH} \
records, and over the changes that it makes itself, until the stream is empty. Records carry the creation \
time that the scenario says, and the aggregator's own changes a second of their own. Every page is known \
before, so that its index entry moves; a returning visitor has been on the page in the same hour. Afterwards \
all aggregates are compared with a recount of the items. The floor is a design that stores a view and counts \
nothing. The published design has no series, no uniques and no top pages."""


class Scenario(NamedTuple):
    """Distinct views, spread evenly over pages and over seconds of creation; what is kept of them."""

    name: str
    views: int = 100
    pages: int = 1
    seconds: int = 1
    series: bool = False
    uniques: bool = False
    returning: bool = False

    @property
    def settings(self) -> Settings:
        """The stage's settings that keep this."""
        return Settings(views_series=self.series, views_uniques=self.uniques)


HOT = Scenario("100 views of a page: totals")
SCENARIOS = (
    HOT,
    HOT._replace(name="  and series", series=True),
    HOT._replace(name="  and series, uniques; new visitors", series=True, uniques=True),
    HOT._replace(name="  and series, uniques; returning", series=True, uniques=True, returning=True),
    Scenario("100 views of 100 pages: totals", pages=100),
    Scenario("  and series", pages=100, series=True),
    Scenario("  and series, uniques; new visitors", pages=100, series=True, uniques=True),
    Scenario("  and series, uniques; returning", pages=100, series=True, uniques=True, returning=True),
    Scenario("100 views of a page over 100 seconds, in a batch: totals", seconds=100),
    Scenario("1 view of a page, alone: totals", views=1),
)
BUSY = Scenario("1,000 views of a page in a second, 10 batches: totals", views=1000)


class Cost(NamedTuple):
    """WCU for each view: of the events, the guard pages and the aggregates without and of their index."""

    events: float
    guards: float
    aggregates: float
    indexes: float

    @property
    def total(self) -> float:
        """All of it."""
        return sum(self)


class Drifted(Exception):
    """Aggregates are not the sums over the items."""


@contextmanager
def fresh_table(engine: Engine) -> Iterator[tuple[Table, str]]:
    """Make a table for one measurement, and delete it after; also answer its stream's ARN."""
    client = engine.client("dynamodb")
    made = create_table(client, "local", name=f"hubbub-bench-{uuid4().hex}")
    try:
        yield Table(made.name, client), made.stream_arn
    finally:
        client.delete_table(TableName=made.name)


def ours(engine: Engine, scenario: Scenario) -> Cost:
    """Measure a scenario. Raises Drifted when the aggregates are wrong afterwards."""
    start = int(time.time())

    with fresh_table(engine) as (table, stream_arn):
        met = 0

        def apply(event: dict[str, Any], _: object) -> None:
            nonlocal met
            for record in event["Records"]:
                change = record["dynamodb"]
                event_put = change["Keys"]["sk"]["S"].startswith("T#")
                place = met * scenario.seconds // scenario.views if event_put else scenario.seconds
                met += event_put
                change["ApproximateCreationDateTime"] = start + place
            aggregates.apply(table, CONTRIBUTIONS, event["Records"])

        pump = StreamPump(engine.client("dynamodbstreams"), stream_arn, apply, BATCH)
        settings = scenario.settings
        before = sent(scenario, day=HOUR - timedelta(minutes=10), clients=scenario.returning)
        views.write(table, before, settings, datetime.now(UTC))
        drain(pump)
        # The known past is of another time: its guard pages are not those of the scenario.
        start, met = start + 1_000_000, 0
        with Meter(table.client) as meter:
            views.write(table, sent(scenario), settings, datetime.now(UTC))
            drain(pump)
        if wrong := drift(CONTRIBUTIONS, scan(table.client, table.name)):
            raise Drifted(f"{scenario.name}: {wrong}")
    return split(meter.writes, scenario.views)


def published(engine: Engine, scenario: Scenario) -> float:
    """Measure the same views in the published design, in WCU for each; duplicates and conflicts apart."""
    with fresh_table(engine) as (table, _), Meter(table.client) as meter:
        for view in sent(scenario):
            published_views.count_view(
                table.client, table.name, view.url, view.time.isoformat(), view.client, 4_102_444_800
            )
    return meter.write_units / scenario.views


def sent(scenario: Scenario, day: datetime = HOUR, clients: bool = True) -> list[View]:
    """Make a scenario's distinct views; without `clients`, one view of each page by somebody else."""
    count = scenario.views if clients else scenario.pages
    who = "visitor" if clients else "somebody-else"
    return [
        View(
            f"https://www.example.org/articles/{i % scenario.pages:04}",
            day + timedelta(milliseconds=i),
            f"{who}-{i:06}",
        )
        for i in range(count)
    ]


def drain(pump: StreamPump) -> None:
    """Deliver until the stream is empty, the changes that this causes included."""
    while pump.step():
        pass


def split(writes: Sequence[Write], views: int) -> Cost:
    """Part the cost of some writes by what they write, for each view."""
    events = sum(one.table for one in writes if one.key["sk"]["S"].startswith("T#"))
    guards = sum(one.table for one in writes if one.key["pk"]["S"].startswith("GUARD#"))
    indexes = sum(one.indexes for one in writes)
    rest = sum(one.table for one in writes) - events - guards
    return Cost(events / views, guards / views, rest / views, indexes / views)


def report(engine: Engine, quick: bool) -> Report:
    """Measure every scenario, and show it beside the published design and the floor."""
    scenarios = (HOT, SCENARIOS[-1]) if quick else (*SCENARIOS, BUSY)
    published_cost = {pages: published(engine, HOT._replace(pages=pages)) for pages in (1, 100)}
    costs = {scenario: ours(engine, scenario) for scenario in scenarios}
    figures = Figures(
        "WCU for each counted view, ours, by what is written",
        ("views", "events", "guard pages", "aggregates", "index", "all"),
    )
    question = Question("What does a counted view cost?", "WCU a view")
    for scenario, cost in costs.items():
        figures.rows.append((scenario.name, *cost, cost.total))
        theirs = published_cost[scenario.pages]
        question.answers.append(Answer(scenario.name, cost.total, theirs, FLOOR))
    return Report(
        [METHOD],
        [figures],
        [Target("WCU a view, 100 views of a page in a second, totals", costs[HOT].total, BOUND)],
        [question],
        [by_batch(engine, published_cost[1], SIZES[::3] if quick else SIZES)],
    )


def by_batch(engine: Engine, theirs: float, sizes: Sequence[int]) -> Plot:
    """Measure views of one page, all of one second, in one batch of each size."""
    title = "What a counted view costs, by the size of its batch"
    plot = Plot("views", title, "views of one page in a batch", "WCU a view")
    mine = [(size, ours(engine, Scenario(f"{size}", views=size)).total) for size in sizes]
    plot.series = {
        "ours, totals": [(float(size), cost) for size, cost in mine],
        "published": [(float(size), theirs) for size in sizes],
        "floor": [(float(size), FLOOR) for size in sizes],
    }
    return plot
