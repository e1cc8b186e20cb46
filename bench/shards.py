"""Several shards of a stream applied side by side: conflicts on shared items, and what they cost."""

from __future__ import annotations

import heapq
import itertools
import random
import zlib
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from decimal import Decimal
from types import SimpleNamespace
from typing import Any, NamedTuple
from unittest import mock

from greenlet import getcurrent, greenlet

from bench.report import Figures, Report
from bench.tables import check, fresh_table
from chalicelib import concurrency
from chalicelib.aggregates import engine as aggregates
from chalicelib.api.auth import Caller
from chalicelib.dynamo import retries
from chalicelib.dynamo.table import Table
from chalicelib.errors import Busy
from chalicelib.leaderboards import boards, scores
from chalicelib.leaderboards.schemas import BoardBody, ScoreBody
from chalicelib.settings import Settings
from chalicelib.views import events as views
from chalicelib.views.events import View
from local.engines import conflicts
from local.engines.conflicts import InFlight
from local.engines.engine import Engine
from local.engines.in_process import Sequential, client_of
from local.engines.meter import Meter
from local.event_sources import StreamPump
from local.soak.target import Target

Write = Callable[[Table, int], None]  # makes the given number of changes
CONTRIBUTIONS = (views.contribution, scores.contribution)
DERIVATIONS = (views.derive_listing,)
BEGUN = 1_800_000_000  # the creation second of the first record
SHARDS = 4
BATCH = 100  # records that Lambda hands over at a time
PER_SECOND = 1_000  # records that are made in a second, by all shards together
LATENCY = 0.008  # seconds that a call takes, and as much as half of it more
CHANGES, FEW = 400, 80  # of a scenario; in a quick run
NOW = datetime(2100, 1, 1, 12, tzinfo=UTC)
BOARD = BoardBody(title="Race", operator="increment", max=Decimal(10_000))
METHOD = f"""Shards. A new on-demand table has four partitions, so its stream has four shards, and Lambda \
applies a batch of each at the same time. Here a stream's records are parted by their partition keys, and so \
many workers apply them in batches of {BATCH}, each shard in its order, until the stream is empty. The \
workers are steps of one process on a simulated clock: a call takes {LATENCY * 1000:g} to \
{LATENCY * 1500:g} ms, pauses are the product's own, and a seed decides, so a run repeats exactly. A worker \
here makes one call at a time, where a function on Lambda makes up to 32. No local engine raises \
TransactionConflict; AWS's rule is emulated. {PER_SECOND:,} records are of one creation second. WCU are \
computed from the items. Refused: updates whose condition was false, because another worker had changed the \
sum, its set of tags was full, or many tags of this second had moved. Conflicts: calls that met a \
transaction on the same item. Both are billed, and are in the sum; `lost WCU` is their part. Moves: of tags \
to guard pages. Redelivered: batches for which the retries did not suffice. Afterwards all aggregates are \
compared with a recount of the items."""


class Outcome(NamedTuple):
    """What it took to apply a scenario's records."""

    changes: int
    records: int
    updates: int
    refused: int
    conflicts: int
    moves: int
    redelivered: int
    units: float
    lost_units: float
    seconds: float


class Clock:
    """Runs workers side by side: whoever waits lets the one go on that wakes next."""

    def __init__(self, seed: int) -> None:
        self.now = 0.0
        self.chance = random.Random(seed)
        self._hub = getcurrent()
        self._waiting: list[tuple[float, int, greenlet]] = []
        self._order = itertools.count()

    def __call__(self) -> float:
        """Return the seconds that have passed."""
        return self.now

    def sleep(self, seconds: float) -> None:
        """Wait: in a worker the others go on, outside of them time passes."""
        if getcurrent() is self._hub:
            self.now += seconds
            return
        heapq.heappush(self._waiting, (self.now + seconds, next(self._order), getcurrent()))
        self._hub.switch()

    def call(self, _: float = 0) -> None:
        """Wait for as long as a call takes."""
        self.sleep(LATENCY * (1 + self.chance.random() / 2))

    def run(self, works: Sequence[Callable[[], None]]) -> None:
        """Do some works side by side, to their end."""
        for work in works:
            heapq.heappush(self._waiting, (self.now, next(self._order), greenlet(work, self._hub)))
        while self._waiting:
            self.now, _, worker = heapq.heappop(self._waiting)
            worker.switch()


class Tally:
    """Counts a client's writes, those that were refused or met a conflict, and what these cost."""

    def __init__(self, meter: Meter) -> None:
        self.counts: Counter[str] = Counter()
        self.lost_units = 0.0
        self._meter = meter
        self._before = 0.0

    @contextmanager
    def attached(self, client: Any) -> Iterator[None]:
        """Count while this goes on; the meter must listen already."""
        events = client.meta.events
        call = "after-call.dynamodb"  # as the meter's: botocore calls the handlers of a longer name first
        events.register_first(call, self._first)
        events.register_last(call, self._last)
        try:
            yield
        finally:
            events.unregister(call, self._first)
            events.unregister(call, self._last)

    def _first(self, **_: Any) -> None:
        self._before = self._meter.write_units

    def _last(self, parsed: Any, model: Any, **_: Any) -> None:
        if model.name not in ("UpdateItem", "TransactWriteItems"):
            return
        codes = {reason["Code"] for reason in parsed.get("CancellationReasons", ())}
        codes.add(parsed.get("Error", {}).get("Code", ""))
        kind = "updates"
        if any(code.startswith("TransactionConflict") for code in codes):
            kind = "conflicts"
        elif any(code.startswith("ConditionalCheckFailed") for code in codes):
            kind = "refused"
        self.counts[kind] += 1
        if kind != "updates":
            self.lost_units += self._meter.write_units - self._before


def _views(pages: int) -> Write:
    def write(table: Table, changes: int) -> None:
        some = (View(f"https://www.example.org/{i % pages}", NOW, f"c{i}") for i in range(changes))
        views.write(table, some, Settings(views_sites=False), NOW)

    return write


def _scores(table: Table, changes: int) -> None:
    boards._cached_boards().clear()
    boards.define(table, "race", BOARD, NOW)
    for i in range(changes):
        one = ScoreBody(id=str(i), value=Decimal(i * 7919 % 9973))
        scores.submit(table, "race", one, Caller(f"player-{i}"), NOW)


def _both(table: Table, changes: int) -> None:
    """Write half of the views to one page, and the others to 100 pages."""
    _views(1)(table, changes // 2)
    _views(100)(table, changes - changes // 2)


SCENARIOS: dict[str, Write] = {
    "views of 100 pages": _views(100),
    "views of one page": _views(1),
    "views of one page and of 100": _both,
    "scores of one board": _scores,
}


def applied(engine: Engine, write: Write, shards: int, changes: int, seed: int = 1) -> Outcome:
    """Write a scenario's changes, and apply their records over several shards. Raises Drifted."""
    with fresh_table(engine) as (made, stream_arn), ExitStack() as on:
        write(made, changes)
        clock, logs = Clock(seed), [deque[Any]() for _ in range(shards)]
        client = client_of(engine)
        table = Table(made.name, client, pause=clock.sleep, clock=clock)
        records = redelivered = moves = 0

        def part(event: dict[str, Any], _: object) -> None:
            nonlocal records
            for record in event["Records"]:
                record["dynamodb"]["ApproximateCreationDateTime"] = BEGUN + records // PER_SECOND
                pk = record["dynamodb"]["Keys"]["pk"]["S"]
                logs[zlib.crc32(pk.encode()) % shards].append(record)
                records += 1

        def worker(log: deque[Any]) -> None:
            nonlocal redelivered, moves
            while log:
                batch = list(itertools.islice(log, BATCH))
                try:
                    report = aggregates.apply(
                        table, CONTRIBUTIONS, batch, derivations=DERIVATIONS, now=lambda: BEGUN + clock.now
                    )
                    moves += report.moves
                except Busy:
                    redelivered += 1
                    continue
                for _ in batch:
                    log.popleft()

        meter = on.enter_context(Meter(client, reader=engine.client("dynamodb")))
        tally = Tally(meter)
        on.enter_context(mock.patch.object(concurrency, "_threads", return_value=Sequential()))
        on.enter_context(mock.patch.object(conflicts, "time", SimpleNamespace(sleep=clock.call)))
        on.enter_context(InFlight().attached(client))
        on.enter_context(tally.attached(client))
        on.enter_context(mock.patch.object(retries, "random", clock.chance))  # a run repeats exactly
        pump = StreamPump(engine.client("dynamodbstreams"), stream_arn, part, BATCH)
        while pump.step():
            clock.run([lambda log=log: worker(log) for log in logs])  # type: ignore[misc]
        check(CONTRIBUTIONS, made, f"{shards} shards")
        calls, spent = tally.counts, (moves, redelivered, meter.write_units, tally.lost_units, clock.now)
        return Outcome(changes, records, calls["updates"], calls["refused"], calls["conflicts"], *spent)


def measure(engine: Engine, quick: bool) -> Report:
    """Measure every scenario over one shard and over four."""
    counts = ("changes", "shards", "writes", "refused", "conflicts", "moves", "redelivered")
    columns = (*counts, "WCU a change", "lost WCU", "s until counted")
    figures = Figures("What the stream writes, for each change, by the number of its shards", columns)
    worst = 0
    for name in [*SCENARIOS][::3] if quick else SCENARIOS:
        for shards in (1, SHARDS):
            one = applied(engine, SCENARIOS[name], shards, FEW if quick else CHANGES)
            worst = max(worst, one.redelivered)
            row = (name, shards, one.updates, one.refused, one.conflicts, one.moves, one.redelivered)
            each = (round(units / one.changes, 2) for units in (one.units, one.lost_units))
            figures.rows.append((*row, *each, round(one.seconds, 2)))
    target = Target("Batches that come again, of any scenario", worst, 0, strict=False)
    return Report([METHOD], [figures], [target])
