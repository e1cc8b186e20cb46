"""What a found path costs, ours and the published design's."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from typing import Any, NamedTuple

from bench import published_challenges
from bench.challenge_answers import CONTRIBUTIONS, define
from bench.meter import Meter
from bench.report import Answer, Figures, Question, Report, Target
from bench.view_costs import Drifted, drain, fresh_table
from chalicelib import aggregates, submissions
from chalicelib.errors import InvalidPath
from chalicelib.table import Table
from local.engine import Engine
from local.pumps import StreamPump
from ops.recount import drift, scan

BATCH = 200  # records: each of our paths leaves two, its own and that of the player's progress
BOUND = 6.1
FLOOR = 1.0  # a path that is stored at all
METHOD = f"""Capacity. Write and read units (WCU, RCU) for each path, computed from the items before and \
after every call by the rules AWS publishes: the submission, then the handler over the stream until it is \
empty, all records of one second. Ours is delivered in batches of {BATCH} records, the published design in \
its own of {published_challenges.BATCH}. Ours decides in one transaction whether the path is new, the player \
has guesses left and the limit is not reached: 6 WCU, where the published design stores the path with 1 and \
decides nothing. A wrong guess and a repeat are ours alone: the published design does not say how a path is \
found valid. Afterwards our statistics are compared with a recount."""


class Cost(NamedTuple):
    """Units for each path: of submitting it, and of the stream."""

    submit_writes: float
    submit_reads: float
    stream_writes: float
    stream_reads: float

    @property
    def writes(self) -> float:
        """All that is written."""
        return self.submit_writes + self.stream_writes


def measured(
    engine: Engine,
    paths: list[tuple[str, str]],
    prepare: Callable[[Table], object],
    submit: Callable[[Table, str, str], object],
    handle: Callable[[Table, list[Any]], object],
    batch: int,
) -> Cost:
    """Submit paths and drain the stream. Raises Drifted when our aggregates are wrong afterwards."""
    second = int(time.time())
    with fresh_table(engine) as (table, stream_arn):
        prepare(table)

        def deliver(event: dict[str, Any], _: object) -> None:
            for record in event["Records"]:
                record["dynamodb"]["ApproximateCreationDateTime"] = second
            handle(table, event["Records"])

        pump = StreamPump(engine.client("dynamodbstreams"), stream_arn, deliver, batch)
        drain(pump)
        with Meter(table.client) as meter:
            for player, path in paths:
                submit(table, player, path)
            written, read = meter.write_units, meter.read_units
            drain(pump)
            totals = written, read, meter.write_units - written, meter.read_units - read
        if found := drift(CONTRIBUTIONS, scan(table.client, table.name)):
            raise Drifted(str(found))
    return Cost(*(units / len(paths) for units in totals))


def ours(engine: Engine, paths: list[tuple[str, str]]) -> Cost:
    """Measure our design; a path that is none of the challenge's is a wrong guess."""
    valid = sorted({path for _, path in paths if not path.startswith("wrong")} or {"right"})
    return measured(
        engine,
        paths,
        partial(define, paths=valid),
        submit,
        lambda table, records: aggregates.apply(table, CONTRIBUTIONS, records),
        BATCH,
    )


def submit(table: Table, player: str, path: str) -> None:
    """Submit a path; a wrong one is as good as another here."""
    with suppress(InvalidPath):
        submissions.submit(table, "hunt", player, path, datetime.now(UTC))


def published(engine: Engine, paths: list[tuple[str, str]]) -> Cost:
    """Measure the published design."""
    return measured(
        engine,
        paths,
        lambda _: None,
        lambda table, player, path: published_challenges.submit(table.client, table.name, player, path),
        lambda table, records: published_challenges.handle(table.client, table.name, records),
        published_challenges.BATCH,
    )


PLAYERS = [(f"p{i:03}", "path 00") for i in range(100)]
SCENARIOS = {
    "100 players, a path each": PLAYERS,
    "10 players, 10 paths each": [(f"p{i % 10:03}", f"path {i // 10:02}") for i in range(100)],
    "a path, alone": PLAYERS[:1],
}


def report(engine: Engine, quick: bool) -> Report:
    """Measure every scenario, and show it beside the published design; `quick` takes the first alone."""
    columns = ("paths", "submit", "stream", "ours WCU", "ours RCU", "published WCU", "published RCU")
    figures = Figures("WCU and RCU for each path", columns)
    question = Question("What does a found path cost, with the statistics?", "WCU a path")
    bound = 0.0
    for name, paths in list(SCENARIOS.items())[: 1 if quick else None]:
        our, their = ours(engine, paths), published(engine, paths)
        reads = [cost.submit_reads + cost.stream_reads for cost in (our, their)]
        row = our.submit_writes, our.stream_writes, our.writes, reads[0], their.writes, reads[1]
        figures.rows.append((name, *row))
        question.answers.append(Answer(name, our.writes, their.writes, FLOOR))
        bound = bound or our.writes
    for name, paths in (
        ("of two submissions, the second a repeat", PLAYERS[:1] * 2),
        ("a wrong guess", [("p000", "wrong")]),
    ):
        our = ours(engine, paths)
        reads_of_ours = our.submit_reads + our.stream_reads
        figures.rows.append((name, our.submit_writes, our.stream_writes, our.writes, reads_of_ours, "", ""))
    target = Target("WCU a path, 100 players in a second", bound, BOUND)
    return Report([METHOD], [figures], [target], [question])
