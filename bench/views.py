"""Views: the price of a counted view and the views that are lost, beside a transaction for each view."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

from bench.report import Answer
from chalicelib.aggregates import engine as aggregates
from chalicelib.dynamo.table import Table
from chalicelib.views import events, sites
from chalicelib.views.events import View
from local.engines.engine import Engine
from local.event_sources import StreamPump
from ops.maintenance.streams import Stream
from tests.support.conflicts import InFlight
from tests.support.contexts import new_context
from tests.support.meter import Meter
from tests.support.records import drift
from tests.support.tables import drain, fresh_table

CONTRIBUTIONS, DERIVATIONS = (events.contribution,), (sites.derive,)
BATCH = 100  # records of a batch, as in app.py
HOUR = datetime(2100, 1, 1, 12, tzinfo=UTC)  # one day's series, and no TTL has passed
WRITERS, REQUEST, LATENCY = 16, 25, 0.010  # threads; views in a request; seconds added to every call
PAGE = "https://www.example.org/hot"
CASES = {"1 view, alone": (1, 1), "100 views of a page": (100, 1), "100 views of 100 pages": (100, 100)}


def count_in_transaction(table: Table, view: View) -> None:
    """Count a view as the published design does: its event and the page's counter in one transaction.

    Any cancelled transaction counts as a duplicate, which is the design's fault: a conflict on the counter,
    which all views of a page share, loses the view.

    Cost: 4 WCU.
    """
    client: Any = table.client
    event = {"pk": {"S": f"URL#{view.url}"}, "sk": {"S": f"T#{view.time.isoformat()}#CID#{view.client}"}}
    put = {"TableName": table.name, "Item": event, "ConditionExpression": "attribute_not_exists(pk)"}
    add = {
        "TableName": table.name,
        "Key": {"pk": event["pk"], "sk": {"S": "STATISTICS"}},
        "UpdateExpression": "ADD #views :one",
        "ExpressionAttributeNames": {"#views": "views"},
        "ExpressionAttributeValues": {":one": {"N": "1"}},
    }
    try:
        client.transact_write_items(TransactItems=[{"Put": put}, {"Update": add}])
    except client.exceptions.TransactionCanceledException:
        return


def make_views(count: int, pages: int, visitor: str, at: datetime = HOUR) -> list[View]:
    """Return views of some pages, each by a visitor of its own."""
    urls = [f"https://www.example.org/articles/{i % pages:04}" for i in range(count)]
    return [View(url, at + timedelta(milliseconds=i), f"{visitor}-{i:06}") for i, url in enumerate(urls)]


def measure_ours(engine: Engine, count: int, pages: int) -> float:
    """Return the WCU of each view by new visitors of pages that were viewed before, everything included."""
    with fresh_table(engine) as (table, stream_arn):

        def apply(event: dict[str, Any], _: object) -> None:
            aggregates.apply(table, CONTRIBUTIONS, event["Records"], derivations=DERIVATIONS)

        pump = StreamPump(Stream(engine.client("dynamodbstreams"), stream_arn), apply, BATCH)
        before = make_views(2 * pages, pages, "somebody-else", HOUR - timedelta(minutes=10))
        events.write(new_context(table), before)
        drain(pump)
        with Meter(table.client) as meter:
            events.write(new_context(table), make_views(count, pages, "visitor"))
            drain(pump)
        assert not drift(table, CONTRIBUTIONS)
    return meter.write_units / count


def measure_published(engine: Engine, count: int, pages: int) -> float:
    """Return the WCU of each view in the published design."""
    with fresh_table(engine) as (table, _), Meter(table.client) as meter:
        for view in make_views(count, pages, "visitor"):
            count_in_transaction(table, view)
    return meter.write_units / count


def race(engine: Engine, seconds: float, is_ours: bool) -> tuple[int, int, float]:
    """Write views of one page from many threads. Return the views sent, those counted, and those a second.

    No local engine raises TransactionConflict, so AWS's rule is emulated for both
    (tests/support/conflicts.py).
    """
    in_flight = InFlight(LATENCY)
    with fresh_table(engine) as (table, stream_arn):

        def apply(event: dict[str, Any], _: object) -> None:
            aggregates.apply(table, CONTRIBUTIONS, event["Records"], derivations=DERIVATIONS)

        def send(writer: int, number: int) -> int:
            size = REQUEST if is_ours else 1
            views = [
                View(PAGE, HOUR + timedelta(microseconds=number * size + i), f"writer-{writer}")
                for i in range(size)
            ]
            if is_ours:
                return events.write(new_context(table), views)
            count_in_transaction(table, views[0])
            return 1

        pump, begun, counted = (
            StreamPump(Stream(engine.client("dynamodbstreams"), stream_arn), apply, BATCH),
            time.time(),
            0,
        )
        with in_flight.attached(table.client):
            if is_ours:
                pump.start()
            sent = _write(send, seconds)
            while is_ours and counted < sent and time.time() < begun + seconds + 120:
                counted = _count(table)
            elapsed = time.time() - begun
            if is_ours:
                pump.stop(120)
        return sent, _count(table), elapsed


def _count(table: Table) -> int:
    page = table.get(events.page_key(PAGE), consistent=True) or {}
    return int(page.get("views", 0))


def _write(send: Callable[[int, int], int], seconds: float) -> int:
    deadline = time.monotonic() + seconds

    def write(writer: int) -> int:
        sent = number = 0
        while time.monotonic() < deadline:
            sent += send(writer, number)
            number += 1
        return sent

    with ThreadPoolExecutor(WRITERS) as pool:
        return sum(pool.map(write, range(WRITERS)))


def measure(engine: Engine, quick: bool) -> list[Answer]:
    """Measure the price of a view, and the race of many writers."""
    prices = [
        (name, measure_ours(engine, *case), measure_published(engine, *case)) for name, case in CASES.items()
    ]
    note = (
        "Ours counts the page, its hour and day, its visitors, and the same of its site, once for each event "
        "however often it comes. The published design counts the page alone. The pages have two views before."
    )
    rates = []
    for name, is_ours in (("ours", True), ("published", False)):
        sent, counted, elapsed = race(engine, 0.5 if quick else 8.0, is_ours)
        rates.append((name, sent, sent - counted, counted / elapsed))
    return [
        Answer("What does a counted view cost?", ("WCU a view", "ours", "published"), prices, note),
        Answer(
            f"How many views are lost with {WRITERS} writers on one page?",
            ("design", "sent", "lost", "counted a second"),
            rates,
            f"{1000 * LATENCY:g} ms are added to every call. Ours sends {REQUEST} views in a request.",
        ),
    ]
