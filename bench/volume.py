"""Thousands of views of a site with many pages: what each costs, and whether every one of them is counted."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import accumulate, islice
from typing import Any

from bench.meter import Meter
from bench.report import Figures, Question, Report, Result, Target
from bench.tables import fresh_table
from bench.views import BATCH, CONTRIBUTIONS, FLOOR, HOT, published_cost
from chalicelib.aggregates import engine as aggregates
from chalicelib.dynamo.table import Table
from chalicelib.settings import Settings
from chalicelib.views import events as views
from chalicelib.views.events import View
from local.engines.engine import Engine
from local.event_sources import StreamPump
from ops.maintenance.audit import scan

VIEWS, FEW = 20_000, 1_000
PAGES = 1_000
RATE = 100  # views a second
REQUEST = 25  # views in each
START = datetime(2100, 1, 1, tzinfo=UTC)
SECOND = 1_900_000_000  # of the first changes
SETTINGS = Settings(views_series=True, views_uniques=False)
SEED = 20261121
METHOD = f"""Volume. Distinct views of {PAGES:,} pages whose popularity is Zipf's (the nth page has 1/n of \
the first one's views), {RATE} a second; totals, series by hour and day, and the site's top pages are \
kept. The product's own code writes them in requests of {REQUEST} and applies the stream in batches of up \
to {BATCH} records, its own changes included, each second's before the next. Every write is metered by \
AWS's published rules. In the end every page's total and every hour of its days are compared with counts \
of the views themselves. One page in the table below is the same number of views, all of the first page."""


def events(count: int, pages: int) -> Iterator[View]:
    """Yield views, the same ones every time."""
    rng = random.Random(SEED)
    weights = list(accumulate(1 / n for n in range(1, pages + 1)))
    urls = [f"https://www.example.org/articles/{n:04}" for n in range(pages)]
    for number in range(count):
        [url] = rng.choices(urls, cum_weights=weights)
        yield View(url, START + timedelta(seconds=number / RATE), f"visitor-{number % 50_000:05}")


def count_views(engine: Engine, count: int, pages: int) -> tuple[Counter[str], int]:
    """Count views; return the WCU by the kind of item, and how many totals and hours are wrong."""
    units: Counter[str] = Counter()
    with fresh_table(engine) as (table, stream_arn):
        waiting: list[Any] = []
        stream = engine.client("dynamodbstreams")
        pump = StreamPump(stream, stream_arn, lambda event, _: waiting.extend(event["Records"]))
        coming, second = events(count, pages), SECOND
        with Meter(table.client) as meter:
            while some := list(islice(coming, RATE)):
                second += 1
                for first in range(0, len(some), REQUEST):
                    views.write(table, some[first : first + REQUEST], SETTINGS, START)
                while pump.step() or waiting:
                    batch, waiting[:BATCH] = waiting[:BATCH], []
                    for record in batch:
                        record["dynamodb"]["ApproximateCreationDateTime"] = second
                    aggregates.apply(table, CONTRIBUTIONS, batch)
        for write in meter.writes:
            kind = write.key["pk"]["S"].partition("#")[0]
            kind = write.key["sk"]["S"].partition("#")[0] if kind == "URL" else kind
            units[kind] += write.table + write.indexes  # type: ignore[assignment]
        return units, _wrong(table, count, pages)


def _wrong(table: Table, count: int, pages: int) -> int:
    """Count the totals, and the hours of days, that are not the number of their views."""
    right: Counter[str] = Counter()
    for view in events(count, pages):
        right[view.url] += 1
        right[f"{view.url} DAY#{view.time:%Y-%m-%d} v{view.time:%H}"] += 1
    found: Counter[str] = Counter()
    for item in scan(table.client, table.name):
        url, sk = item["pk"].removeprefix("URL#"), item["sk"]
        if sk == "STATISTICS":
            found[url] = int(item["gsi1sk"])
        elif sk.startswith("DAY#"):
            hours = [name for name in item if name[0] == "v" and name != "views"]
            found.update({f"{url} {sk} {name}": int(item[name]) for name in hours})
    return sum(found[name] != right[name] for name in found.keys() | right.keys())


def measure(engine: Engine, quick: bool) -> Report:
    """Count views of many pages and of one; `quick` takes a thousand of each."""
    count = FEW if quick else VIEWS
    theirs = published_cost(engine, HOT)
    question = Question(f"What does each of {count:,} views cost?", "WCU a view")
    columns = ("site", "events", "guard pages", "totals and their index", "days", "all", "wrong numbers")
    figures = Figures(f"WCU for each of {count:,} views", columns)
    report = Report([METHOD], [figures], questions=[question])
    for name, pages in ((f"{PAGES:,} pages, series", PAGES), ("one page, series", 1)):
        units, wrong = count_views(engine, count, pages)
        each = [units[kind] / count for kind in ("T", "GUARD", "STATISTICS", "DAY")]
        figures.rows.append((name, *each, units.total() / count, wrong))
        question.results.append(Result(name, units.total() / count, theirs, FLOOR))
        report.targets.append(Target(f"wrong numbers after {count:,} views, {name}", wrong, 0))
    return report
