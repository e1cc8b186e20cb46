"""How many views a second are counted on one hot page, ours and the published design's."""

from __future__ import annotations

import os
import statistics
import threading
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from bench import published_views
from bench.conflicts import InFlight
from bench.report import Answer, Figures, Plot, Question, Report, Target
from bench.view_costs import BATCH, CONTRIBUTIONS, HOUR, Drifted, fresh_table
from chalicelib import aggregates, views
from chalicelib.events import View
from chalicelib.settings import Settings
from chalicelib.table import Table
from local.engine import Engine
from local.pumps import StreamPump
from ops.recount import drift, scan

WRITERS = 16
REQUEST = 25  # views in the larger request: what one BatchWriteItem takes
LATENCY = 0.010  # seconds added to every call of both designs
BOUND = 5.0
PATIENCE = 120.0  # seconds for the aggregates to catch up
PAGE = "https://www.example.org/hot"
TTL = 4_102_444_800
TOTALS = Settings(views_series=False, views_uniques=False)


_METHOD = f"""Throughput. {WRITERS} threads of one process write distinct views of one page for some \
seconds; totals alone are kept, as in the published design. Published: a transaction for each view. Ours: \
one BatchWriteItem a request, while the aggregator applies the stream in batches of {BATCH} in the same \
process; the time ends when the page's total is the number of views sent, and a recount confirms it. No \
local engine raises TransactionConflict, so AWS's rule is emulated for both alike: a write that names an \
item of a transaction under way is refused. The published design takes every refusal for a duplicate, and \
loses the view. Here {{milliseconds:.1f}} ms are what its transaction takes alone; a refusal takes as long.
  Engine, writers and aggregator share this machine's {os.cpu_count()} cores, and threads share one \
interpreter. So a request costs CPU time first of all, the engine answers some hundred to a thousand of them \
a second whoever asks, and refused writers keep the interpreter from the one that is served. AWS answers \
requests side by side, each after some milliseconds. The strict targets are therefore measured with \
{1000 * LATENCY:g} ms of waiting added to every call of both designs: a stand-in, no figure of AWS's; a \
transaction gets no more than a put, which favours the published design. Without it, ours is compared with \
one writer of the published design, for whom nothing conflicts: the most that one counter takes here."""


class Rate(NamedTuple):
    """What became of the distinct views that were sent."""

    sent: int
    counted: int
    refused: int
    writing: float
    until_counted: float
    cpu: float

    @property
    def lost(self) -> int:
        """Views that were sent and will never be counted."""
        return self.sent - self.counted

    @property
    def sent_a_second(self) -> float:
        """Views sent in a second of writing."""
        return self.sent / self.writing

    @property
    def counted_a_second(self) -> float:
        """Views counted in a second, until the last of them is in the page's total."""
        return self.counted / self.until_counted

    def row(self, name: str, best: float) -> tuple[str | int | float, ...]:
        """Write a row of the table; `best` is how many a second the published design counts."""
        times = self.counted_a_second / best
        counts = (self.sent, self.sent_a_second, self.counted, self.lost, self.counted_a_second)
        return name, *counts, times, self.refused, f"{self.cpu:.0%}"


def published(engine: Engine, seconds: float, in_flight: InFlight, writers: int = WRITERS) -> Rate:
    """Let writers count views of one page in the published design, in a transaction each."""
    with fresh_table(engine) as (table, _):
        client, name = table.client, table.name

        def send(writer: int, number: int) -> int:
            published_views.count_view(client, name, PAGE, _time(number), f"writer-{writer}", TTL)
            return 1

        cpu, begin = time.process_time(), time.perf_counter()
        with in_flight.attached(client):
            sent = _write(send, seconds, writers)
        taken = time.perf_counter() - begin
        cpu = time.process_time() - cpu
        counted = published_views.views(client, name, PAGE)
    return Rate(sent, counted, in_flight.refused, taken, taken, cpu / taken)


def ours(
    engine: Engine,
    seconds: float,
    in_flight: InFlight,
    per_request: int,
    settings: Settings = TOTALS,
    writers: int = WRITERS,
) -> Rate:
    """Let writers put views of one page while the aggregator applies the stream, as Lambda would.

    Ends when the page's total is the number of views sent, or after two minutes of waiting for that. Raises
    Drifted when a recount says otherwise.
    """
    with fresh_table(engine) as (table, stream_arn):

        def send(writer: int, number: int) -> int:
            first = number * per_request
            some = [View(PAGE, _instant(first + i), f"writer-{writer}") for i in range(per_request)]
            return views.write(table, some, settings, datetime.now(UTC))

        def apply(event: dict[str, Any], _: object) -> None:
            aggregates.apply(table, CONTRIBUTIONS, event["Records"])

        pump = StreamPump(engine.client("dynamodbstreams"), stream_arn, apply, BATCH)
        cpu, begin = time.process_time(), time.perf_counter()
        with in_flight.attached(table.client):
            pump.start()
            sent = _write(send, seconds, writers)
            writing = time.perf_counter() - begin
            counted = _wait_for(sent, table)
            taken = time.perf_counter() - begin
            cpu = time.process_time() - cpu
            pump.stop(PATIENCE)
        if counted == sent and (wrong := drift(CONTRIBUTIONS, scan(table.client, table.name))):
            raise Drifted(str(wrong))
    return Rate(sent, counted, in_flight.refused, writing, taken, cpu / taken)


def transaction_seconds(engine: Engine, tries: int = 50) -> float:
    """Measure how long the published transaction takes alone, as its client sees it: the median."""
    taken = []
    with fresh_table(engine) as (table, _):
        for number in range(tries):
            begin = time.perf_counter()
            published_views.count_view(table.client, table.name, PAGE, _time(number), "alone", TTL)
            taken.append(time.perf_counter() - begin)
    return statistics.median(taken)


def _wait_for(count: int, table: Table) -> int:
    """Wait until the page's total is `count`, or for as long as our patience lasts; answer the total."""
    deadline = time.monotonic() + PATIENCE
    while True:
        page = table.get(views.page_key(PAGE), consistent=True) or {}
        counted = int(page.get("gsi1sk", 0))
        if counted >= count or time.monotonic() > deadline:
            return counted
        time.sleep(0.01)


def _write(send: Callable[[int, int], int], seconds: float, count: int = WRITERS) -> int:
    """Let every writer send one request after the other for some seconds; answer the views sent."""
    sent = [0] * count
    failed: list[BaseException] = []
    deadline = time.monotonic() + seconds

    def write(writer: int) -> None:
        number = 0
        try:
            while time.monotonic() < deadline:
                sent[writer] += send(writer, number)
                number += 1
        except BaseException as error:
            failed.append(error)

    writers = [threading.Thread(target=write, args=(writer,)) for writer in range(count)]
    for thread in writers:
        thread.start()
    for thread in writers:
        thread.join()
    if failed:
        raise failed[0]
    return sum(sent)


def _instant(number: int) -> datetime:
    return HOUR + timedelta(microseconds=number)


def _time(number: int) -> str:
    return _instant(number).isoformat()


def report(engine: Engine, quick: bool) -> Report:
    """Measure both designs, on a table of its own each time, with the added latency and without."""
    seconds = 0.2 if quick else 8.0
    alone = transaction_seconds(engine)
    said = Report([_METHOD.format(milliseconds=1000 * alone)])
    for latency in (LATENCY, 0.0):
        added = f"{1000 * latency:g} ms added to each call" if latency else "no latency added"
        theirs = {"published": published(engine, seconds, InFlight(latency, alone))}
        if not latency:
            theirs["published, 1 writer"] = published(engine, seconds, InFlight(), writers=1)
        both = {
            "ours, 1 view a request": ours(engine, seconds, InFlight(latency), 1),
            f"ours, {REQUEST} views a request": ours(engine, seconds, InFlight(latency), REQUEST),
        }
        best = max(rate.counted_a_second for rate in theirs.values())
        question = Question(f"How many views of one page are counted, {added}?", "views a second")
        for name, rate in both.items():
            question.answers.append(Answer(name.removeprefix("ours, "), rate.counted_a_second, best))
        said.questions.append(question)
        said.figures.append(
            Figures(
                f"{WRITERS} writers on one page, {seconds:g} s of writing, {engine.kind}, {added}",
                ("design", "sent", "sent/s", "counted", "lost", "counted/s", "times", "refused", "CPU"),
                [rate.row(name, best) for name, rate in (theirs | both).items()],
            )
        )
        for name, rate in both.items():
            times, strict = rate.counted_a_second / best, bool(latency) and not quick
            said.targets += [
                Target(f"views lost, {name}, {added}", rate.lost, 0),
                Target(f"times published, {name}, {added}", times, BOUND, at_most=False, strict=strict),
            ]
    said.plots.append(by_writers(engine, seconds / 2, alone, (1, 4) if quick else (1, 2, 4, 8, 16, 32)))
    return said


def by_writers(engine: Engine, seconds: float, alone: float, writers: Sequence[int]) -> Plot:
    """Measure both designs with more and more writers on one page, with the added latency."""
    latency = f"{1000 * LATENCY:g} ms added to each call"
    plot = Plot("throughput", f"Views of one page that are counted, {latency}", "writers", "views a second")
    plot.series = {"ours, 1 view a request": [], f"ours, {REQUEST} views a request": [], "published": []}
    for count in writers:
        theirs = published(engine, seconds, InFlight(LATENCY, alone), count)
        mine = [ours(engine, seconds, InFlight(LATENCY), size, writers=count) for size in (1, REQUEST)]
        for points, rate in zip(plot.series.values(), (*mine, theirs), strict=True):
            points.append((count, rate.counted_a_second))
    return plot
