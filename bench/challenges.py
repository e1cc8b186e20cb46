"""Challenges: the cost of a found path, with the statistics, beside the published design."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from typing import Any, NamedTuple
from unittest import mock

from bench.published import challenges as published_challenges
from bench.report import Figures, Question, Report, Result
from bench.tables import check, drain, fresh_table
from chalicelib.aggregates import engine as aggregates
from chalicelib.challenges import definitions, progress, submissions
from chalicelib.challenges.schemas import ChallengeBody
from chalicelib.dynamo.table import Table
from chalicelib.errors import InvalidPath, LimitReached
from local.engines.engine import Engine
from local.engines.meter import Meter
from local.event_sources import StreamPump
from local.soak.target import Target

CONTRIBUTIONS = (progress.contribution,)
LIMIT = published_challenges.LIMIT
BATCH = 200  # records: each of our paths leaves two, its own and the progress's
BOUNDS = {"100 players, a path each": 5.0, "a path, alone": 7.0}  # WCU of a path
FLOOR = 1.0  # the WCU of a path that is stored
CAPACITY = f"""Capacity. Write and read units (WCU, RCU) for each path, computed from the items before and \
after every call by AWS's published rules: the submission, then the handler over the stream until it is \
empty, all records of one second. Ours is delivered in batches of {BATCH} records, the published design in \
its own of {published_challenges.BATCH}. Ours decides in one transaction whether the path is new, the \
player has guesses left and the limit is not reached: 4 WCU, where the published design stores the path \
with 1 and decides nothing. A wrong guess and a repeat have no published counterpart. Afterwards our \
statistics are compared with a recount."""
ONE_EACH = [(f"p{i:03}", "path 00") for i in range(100)]
SCENARIOS = {
    "100 players, a path each": ONE_EACH,
    "10 players, 10 paths each": [(f"p{i % 10:03}", f"path {i // 10:02}") for i in range(100)],
    "a path, alone": ONE_EACH[:1],
}
OURS_ONLY = {
    "of two submissions, the second a repeat": ONE_EACH[:1] * 2,
    "a wrong guess": [("p000", "wrong")],
}


class Cost(NamedTuple):
    """Units for each path: the WCU of the submission and of the stream, and the WCU and RCU of both."""

    submission: float
    stream: float
    writes: float
    reads: float


def _define(table: Table, paths: Sequence[str]) -> None:
    """Define the challenge, with cheap digests: hashing is not measured here."""
    body = ChallengeBody(title="Hunt", paths=list(paths), limit=LIMIT)
    with mock.patch.object(definitions, "SCRYPT_COST", 2):
        definitions.define(table, "hunt", body, datetime.now(UTC))


def _submit(table: Table, player: str, path: str) -> None:
    with suppress(InvalidPath, LimitReached):
        submissions.submit(table, "hunt", player, path, datetime.now(UTC))


def cost(engine: Engine, paths: list[tuple[str, str]], *, is_published: bool = False) -> Cost:
    """Submit paths and drain the stream. Raises Drifted when our aggregates are wrong afterwards."""
    second = int(time.time())
    with fresh_table(engine) as (table, stream_arn):

        def deliver(event: dict[str, Any], _: object) -> None:
            for record in event["Records"]:
                record["dynamodb"]["ApproximateCreationDateTime"] = second
            if is_published:
                published_challenges.handle(table.client, table.name, event["Records"])
            else:
                aggregates.apply(table, CONTRIBUTIONS, event["Records"])

        size = published_challenges.BATCH if is_published else BATCH
        pump = StreamPump(engine.client("dynamodbstreams"), stream_arn, deliver, size)
        submit = partial(published_challenges.submit, table.client, table.name)
        if not is_published:
            valid = sorted({path for _, path in paths if not path.startswith("wrong")} or {"right"})
            _define(table, valid)
            submit = partial(_submit, table)
        drain(pump)
        with Meter(table.client) as meter:
            for player, path in paths:
                submit(player, path)
            submitted = meter.write_units
            drain(pump)
            totals = submitted, meter.write_units - submitted, meter.write_units, meter.read_units
        check(CONTRIBUTIONS, table)
    return Cost(*(units / len(paths) for units in totals))


def measure(engine: Engine, quick: bool) -> Report:
    """Measure the cost of a path beside the published design; `quick` takes the first scenario alone."""
    columns = ("paths", "submit", "stream", "ours WCU", "ours RCU", "published WCU", "published RCU")
    figures = Figures("WCU and RCU for each path", columns)
    question = Question("What does a found path cost, with the statistics?", "WCU a path")
    for name, paths in [*SCENARIOS.items()][: 1 if quick else None]:
        our, their = cost(engine, paths), cost(engine, paths, is_published=True)
        figures.rows.append((name, *our, their.writes, their.reads))
        question.results.append(Result(name, our.writes, their.writes, FLOOR))
    for name, paths in OURS_ONLY.items():
        figures.rows.append((name, *cost(engine, paths), "", ""))
    targets = [
        Target(f"WCU a path, {one.case}", one.ours, BOUNDS[one.case])
        for one in question.results
        if one.case in BOUNDS
    ]
    return Report([CAPACITY], [figures], targets, [question])
