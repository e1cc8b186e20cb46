"""Challenges: whether the statistics are right after one sequence of records, and what a found path costs."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from typing import Any, NamedTuple

from bench.meter import Meter
from bench.published import challenges as published_challenges
from bench.report import Figures, Question, Report, Result, Target
from bench.tables import check, drain, fresh_table
from chalicelib.aggregates import engine as aggregates
from chalicelib.challenges import definitions, progress, submissions
from chalicelib.challenges import queries as challenge_queries
from chalicelib.challenges.schemas import ChallengeBody
from chalicelib.dynamo.table import Table
from chalicelib.errors import InvalidPath, LimitReached
from local.engines.engine import Engine
from local.event_sources import StreamPump

CONTRIBUTIONS = (progress.contribution,)
LIMIT = published_challenges.LIMIT
NUMBERS = LIMIT + 2  # players, paths, and how many players reached 1 … 12
SHOWN = ("players", "paths", "1", "2")
METHOD = f"""Correctness. Each design gets the same submissions in the same order on a table of its own, \
and its handler the records that they leave in the stream, in the batches that the sequence gives: some \
come twice, whole or in part. A batch is delivered after all its submissions are stored, as by a stream \
that lags. The right numbers are counted in sets: a player's paths, the first {LIMIT} of them. Compared \
are {NUMBERS} numbers: players, paths, and how many players reached 1 to {LIMIT} paths. Concurrent \
handlers are not part of it: the tests run them against ours."""

Numbers = dict[str, int]
Step = tuple[Sequence[tuple[str, str]], Sequence[Sequence[int]]]
"""Submissions, and then the batches that are delivered: the numbers of submissions, from the first on."""


class Play(NamedTuple):
    """Submissions and deliveries, in order."""

    name: str
    steps: Sequence[Step]


def plays(quick: bool) -> list[Play]:
    """Return the sequences: each fault by itself, and a game that has all of them."""
    two = [("ann", "a"), ("ann", "b")]
    both = [("ann", "a"), ("bob", "a")]
    many = [("ann", f"p{i:02}") for i in range(LIMIT + 1)]
    return [
        Play("each path once, in a batch of its own", [([one], [[i]]) for i, one in enumerate(two)]),
        Play("two paths of a player in one batch", [(two, [[0, 1]])]),
        Play("a batch that comes twice", [(both, [[0, 1], [0, 1]])]),
        Play("a batch that comes again in halves", [(both, [[0, 1], [0], [1]])]),
        Play("the same path submitted twice", [([("ann", "a")] * 2, [[0, 1]])]),
        Play("13 paths of a player, where 12 are the limit", [([one], [[i]]) for i, one in enumerate(many)]),
        Play("the same in one batch", [(many, [list(range(LIMIT + 1))])]),
        _game(8 if quick else 200),
    ]


def _game(players: int) -> Play:
    """Return a random game, always the same: batches of 10, each tenth delivered again."""
    rng = random.Random(1)
    sent = [
        (f"p{player}", f"path {i:02}")
        for player in range(players)
        for i in range(min(LIMIT, int(rng.expovariate(0.4)) + 1))
    ]
    rng.shuffle(sent)
    sent += rng.choices(sent, k=len(sent) // 20)
    steps: list[Step] = []
    for i in range(0, len(sent), published_challenges.BATCH):
        some = sent[i : i + published_challenges.BATCH]
        batch = list(range(i, i + len(some)))
        steps.append((some, [batch, batch] if rng.random() < 0.1 else [batch]))
    return Play(f"a game of {players} players, every tenth batch twice", steps)


def right(play: Play) -> Numbers:
    """Return the right numbers, counted in sets."""
    found: dict[str, set[str]] = {}
    for submitted, _ in play.steps:
        for player, path in submitted:
            paths = found.setdefault(player, set())
            if len(paths) < LIMIT:
                paths.add(path)
    counts = Counter(map(len, found.values()))
    reached = {str(n): sum(p for m, p in counts.items() if m >= n) for n in range(1, LIMIT + 1)}
    return {"players": len(found), "paths": sum(map(len, found.values())), **reached}


def _play(
    engine: Engine,
    stream_arn: str,
    play: Play,
    submit: Callable[[str, str], object],
    handle: Callable[[list[Any]], object],
) -> None:
    """Submit and deliver. A submission's records are those that appear in the stream after it."""
    new: list[Any] = []
    stream = engine.client("dynamodbstreams")
    pump = StreamPump(stream, stream_arn, lambda event, _: new.extend(event["Records"]))
    drain(pump)
    new.clear()  # the records of the definition
    records: list[list[Any]] = []
    for submitted, batches in play.steps:
        for player, path in submitted:
            submit(player, path)
            drain(pump)
            records.append(list(new))
            new.clear()
        for batch in batches:
            handle([record for number in batch for record in records[number]])
            drain(pump)
            new.clear()  # the handler's own changes


def _define(table: Table, paths: Sequence[str]) -> None:
    """Define the challenge, with cheap digests: hashing is not measured here."""
    cost, definitions.SCRYPT_COST = definitions.SCRYPT_COST, 2
    try:
        definitions.define(table, "hunt", ChallengeBody(title="Hunt", paths=list(paths), limit=LIMIT))
    finally:
        definitions.SCRYPT_COST = cost


def _submit(table: Table, player: str, path: str) -> None:
    with suppress(InvalidPath, LimitReached):
        submissions.submit(table, "hunt", player, path, datetime.now(UTC))


def ours(engine: Engine, play: Play) -> Numbers:
    """Return our statistics after a sequence."""
    with fresh_table(engine) as (table, stream_arn):
        _define(table, sorted({path for submitted, _ in play.steps for _, path in submitted}))
        apply = partial(aggregates.apply, table, CONTRIBUTIONS)
        _play(engine, stream_arn, play, partial(_submit, table), apply)
        found = challenge_queries.get_statistics(table, "hunt")
        return {"players": found.players, "paths": found.paths, **found.reached}


def published(engine: Engine, play: Play) -> Numbers:
    """Return the published statistics after a sequence."""
    with fresh_table(engine) as (table, stream_arn):
        submit = partial(published_challenges.submit, table.client, table.name)
        handle = partial(published_challenges.handle, table.client, table.name)
        _play(engine, stream_arn, play, submit, handle)
        return published_challenges.statistics(table.client, table.name)


def wrong(numbers: Numbers, expected: Numbers) -> int:
    """Count the wrong numbers."""
    return sum(numbers[name] != expected[name] for name in expected)


def correctness(engine: Engine, quick: bool) -> Report:
    """Compare both designs' statistics with the right numbers after each sequence."""
    title = f"Players, paths, players who reached 1 and 2; and how many of {NUMBERS} numbers are wrong"
    figures = Figures(title, ("sequence", "right", "ours", "published", "ours wrong", "published wrong"))
    question = Question(f"How many of {NUMBERS} statistics are wrong?", "wrong numbers, after")
    for play in plays(quick)[1:3] if quick else plays(quick):
        expected, our, their = right(play), ours(engine, play), published(engine, play)
        shown = [" ".join(f"{numbers[n]:,}" for n in SHOWN) for numbers in (expected, our, their)]
        errors = wrong(our, expected), wrong(their, expected)
        figures.rows.append((play.name, *shown, *errors))
        question.results.append(Result(play.name, *errors))
    errors_of_ours = sum(one.ours for one in question.results)
    return Report([METHOD], [figures], [Target("wrong numbers of ours", errors_of_ours, 0)], [question])


# -- capacity --------------------------------------------------------------------------------------

BATCH = 200  # records: each of our paths leaves two, its own and the progress's
BOUND = 6.1
FLOOR = 1.0  # the WCU of a path that is stored
CAPACITY = f"""Capacity. Write and read units (WCU, RCU) for each path, computed from the items before and \
after every call by AWS's published rules: the submission, then the handler over the stream until it is \
empty, all records of one second. Ours is delivered in batches of {BATCH} records, the published design in \
its own of {published_challenges.BATCH}. Ours decides in one transaction whether the path is new, the \
player has guesses left and the limit is not reached: 6 WCU, where the published design stores the path \
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
    """Units for each path: of the submission and of the stream."""

    submit_writes: float
    submit_reads: float
    stream_writes: float
    stream_reads: float

    @property
    def writes(self) -> float:
        """Return all write units."""
        return self.submit_writes + self.stream_writes

    @property
    def reads(self) -> float:
        """Return all read units."""
        return self.submit_reads + self.stream_reads


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
            written, read = meter.write_units, meter.read_units
            drain(pump)
            totals = written, read, meter.write_units - written, meter.read_units - read
        check(CONTRIBUTIONS, table)
    return Cost(*(units / len(paths) for units in totals))


def capacity(engine: Engine, quick: bool) -> Report:
    """Measure the cost of a path beside the published design; `quick` takes the first scenario alone."""
    columns = ("paths", "submit", "stream", "ours WCU", "ours RCU", "published WCU", "published RCU")
    figures = Figures("WCU and RCU for each path", columns)
    question = Question("What does a found path cost, with the statistics?", "WCU a path")
    for name, paths in [*SCENARIOS.items()][: 1 if quick else None]:
        our, their = cost(engine, paths), cost(engine, paths, is_published=True)
        row = (our.submit_writes, our.stream_writes, our.writes, our.reads, their.writes, their.reads)
        figures.rows.append((name, *row))
        question.results.append(Result(name, our.writes, their.writes, FLOOR))
    for name, paths in OURS_ONLY.items():
        our = cost(engine, paths)
        figures.rows.append((name, our.submit_writes, our.stream_writes, our.writes, our.reads, "", ""))
    target = Target("WCU a path, 100 players in a second", question.results[0].ours, BOUND)
    return Report([CAPACITY], [figures], [target], [question])


def measure(engine: Engine, quick: bool) -> Report:
    """Measure both on one engine; `quick` plays shorter sequences."""
    return correctness(engine, quick) + capacity(engine, quick)
