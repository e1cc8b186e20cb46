"""A million views: what each costs on a site with many pages, and whether every one of them is counted."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import accumulate, islice
from typing import Any

from bench.ledger import Ledger
from bench.meter import Meter
from bench.report import Answer, Figures, Question, Report, Target
from bench.view_costs import BATCH, CONTRIBUTIONS, FLOOR, HOT, Drifted, fresh_table, published
from chalicelib import aggregates, views
from chalicelib.events import View
from chalicelib.settings import Settings
from chalicelib.table import Table
from local.engine import Engine
from local.pumps import StreamPump

VIEWS, FEW = 1_000_000, 1_000
COMPARED = 300  # views that an engine takes too
PAGES = 1_000
RATE = 100  # views a second
REQUEST = 25  # views in each
START = datetime(2100, 1, 1, tzinfo=UTC)
SECOND = 1_900_000_000  # of the first changes
SETTINGS = Settings(views_series=True, views_uniques=False)
SEED = 20261121
METHOD = f"""A million. Distinct views of {PAGES:,} pages whose popularity is Zipf's (the nth page has 1/n \
of the first one's views), {RATE} a second; totals, series by hour and day, and the site's top pages are \
kept. The product's own code writes them in requests of {REQUEST} and applies the stream in batches of up \
to {BATCH} records, its own changes included, each second's before the next. A table in memory takes the \
writes and charges each by the rules, for no engine here takes a million in reasonable time. An engine \
(dynoxide) takes the first {COMPARED} as well, and its meter must agree, or the run fails. In the end \
every page's total and every hour of its days are compared with counts of the views themselves. One page \
in the table below is the same number of views, all of the first page."""

Take = Callable[[int], list[Any]]
"""What answers the next batch of records, as made in a second; empty when there are no more."""


def sent(count: int, pages: int) -> Iterator[View]:
    """Make views, the same ones every time."""
    chance = random.Random(SEED)
    weights = list(accumulate(1 / n for n in range(1, pages + 1)))
    urls = [f"https://www.example.org/articles/{n:04}" for n in range(pages)]
    for number in range(count):
        [url] = chance.choices(urls, cum_weights=weights)
        yield View(url, START + timedelta(seconds=number / RATE), f"visitor-{number % 50_000:05}")


def play(table: Table, count: int, pages: int, take: Take) -> None:
    """Let views come, and count each second's before the next."""
    coming, second = sent(count, pages), SECOND
    while some := list(islice(coming, RATE)):
        second += 1
        for first in range(0, len(some), REQUEST):
            views.write(table, some[first : first + REQUEST], SETTINGS, START)
        while records := take(second):
            aggregates.apply(table, CONTRIBUTIONS, records)


def ours(count: int, pages: int = PAGES) -> Ledger:
    """Count views in memory."""
    ledger = Ledger()

    def take(second: int) -> list[Any]:
        batch = [ledger.records.popleft() for _ in range(min(BATCH, len(ledger.records)))]
        for record in batch:
            record["dynamodb"]["ApproximateCreationDateTime"] = second
        return batch

    with ledger.client() as client:
        play(Table("memory", client), count, pages, take)
    return ledger


def on_engine(engine: Engine, count: int) -> float:
    """Count views on an engine; answer the WCU that its meter adds up."""
    with fresh_table(engine) as (table, stream_arn):
        waiting: list[Any] = []
        pump = StreamPump(
            engine.client("dynamodbstreams"), stream_arn, lambda event, _: waiting.extend(event["Records"])
        )

        def take(second: int) -> list[Any]:
            while pump.step():
                pass
            batch = waiting[:BATCH]
            del waiting[:BATCH]
            for record in batch:
                record["dynamodb"]["ApproximateCreationDateTime"] = second
            return batch

        with Meter(table.client) as meter:
            play(table, count, PAGES, take)
    return meter.write_units


def wrong(ledger: Ledger, count: int, pages: int = PAGES) -> int:
    """Count the totals, and the hours of days, that are not the number of their views."""
    right: Counter[str] = Counter()
    for view in sent(count, pages):
        right[view.url] += 1
        right[f"{view.url} DAY#{view.time:%Y-%m-%d} v{view.time:%H}"] += 1
    found: Counter[str] = Counter()
    for key, item in ledger.items.items():
        url = key.pk.removeprefix("URL#")
        if key.sk == "STATISTICS":
            found[url] = int(item["gsi1sk"]["N"])
        elif key.sk.startswith("DAY#"):
            hours = (name for name in item if name[0] == "v" and name != "views")
            found.update({f"{url} {key.sk} {name}": int(item[name]["N"]) for name in hours})
    return sum(found[name] != right[name] for name in found.keys() | right.keys())


def measure(engine: Engine, quick: bool) -> Report:
    """Count a million views, of many pages and of one; `quick` takes two thousand. Raises Drifted."""
    some = COMPARED // 3 if quick else COMPARED
    on_one, in_memory = on_engine(engine, some), sum(ours(some).units.values())
    if on_one != in_memory:
        raise Drifted(f"an engine charges {on_one} WCU and not {in_memory}")
    count = FEW if quick else VIEWS
    theirs = published(engine, HOT)
    question = Question(f"What does each of {count:,} views cost?", "WCU a view")
    parts = Figures(
        f"WCU for each of {count:,} views",
        ("site", "events", "guard pages", "totals and their index", "days", "all", "wrong numbers"),
    )
    report = Report([METHOD], [parts], questions=[question])
    for name, pages in ((f"{PAGES:,} pages, series", PAGES), ("one page, series", 1)):
        ledger = ours(count, pages)
        mistakes = wrong(ledger, count, pages)
        each = [ledger.units[kind] / count for kind in ("T", "GUARD", "STATISTICS", "DAY")]
        parts.rows.append((name, *each, sum(ledger.units.values()) / count, mistakes))
        question.answers.append(Answer(name, sum(ledger.units.values()) / count, theirs, FLOOR))
        report.targets.append(Target(f"wrong numbers after {count:,} views, {name}", mistakes, 0))
    return report
