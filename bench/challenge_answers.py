"""What the statistics of a challenge say after one sequence of records, ours and the published design's."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from typing import Any, NamedTuple

from bench import published_challenges
from bench.report import Answer, Figures, Question, Report, Target
from bench.view_costs import fresh_table
from chalicelib import aggregates, answers, challenges, submissions
from chalicelib.challenge_schemas import ChallengeBody
from chalicelib.errors import LimitReached
from chalicelib.table import Table
from local.engine import Engine
from local.pumps import StreamPump

CONTRIBUTIONS = (challenges.contribution,)
LIMIT = published_challenges.LIMIT
NUMBERS = LIMIT + 2  # players, paths, and how many reached 1 … 12
SHOWN = ("players", "paths", "1", "2")
Numbers = dict[str, int]
METHOD = f"""Answers. Each design gets the same submissions in the same order on a table of its own, and its \
handler the records that they leave in that table's stream, in the batches that the sequence says: some come \
twice, whole or in part. A batch is delivered after all its submissions are stored, as a stream that lags \
delivers. The truth is kept in sets: a player's paths, the first {LIMIT} of them. Compared are {NUMBERS} \
numbers: players, paths, and how many players reached 1 to {LIMIT} paths. Concurrent handlers are not \
compared here: the tests run them against ours."""

Step = tuple[Sequence[tuple[str, str]], Sequence[Sequence[int]]]
"""Submissions, and then the batches that are delivered: the numbers of submissions, from the first on."""


class Play(NamedTuple):
    """Submissions and deliveries, in order."""

    name: str
    steps: Sequence[Step]


def plays(quick: bool) -> list[Play]:
    """Name the plays: each fault by itself, and a game that has all of them."""
    two = [("ann", "a"), ("ann", "b")]
    many = [("ann", f"p{i:02}") for i in range(LIMIT + 1)]
    return [
        Play("each path once, in a batch of its own", [([one], [[i]]) for i, one in enumerate(two)]),
        Play("two paths of a player in one batch", [(two, [[0, 1]])]),
        Play("a batch that comes twice", [([("ann", "a"), ("bob", "a")], [[0, 1], [0, 1]])]),
        Play("a batch that comes again in halves", [([("ann", "a"), ("bob", "a")], [[0, 1], [0], [1]])]),
        Play("the same path submitted twice", [([("ann", "a")] * 2, [[0, 1]])]),
        Play("13 paths of a player, where 12 are the limit", [([one], [[i]]) for i, one in enumerate(many)]),
        Play("the same in one batch", [(many, [list(range(LIMIT + 1))])]),
        game(8 if quick else 200),
    ]


def game(players: int) -> Play:
    """Play a random game, always the same: batches of 10, each tenth delivered again."""
    chance = random.Random(1)
    sent = [
        (f"p{player}", f"path {i:02}")
        for player in range(players)
        for i in range(min(LIMIT, int(chance.expovariate(0.4)) + 1))
    ]
    chance.shuffle(sent)
    sent += chance.choices(sent, k=len(sent) // 20)
    steps: list[Step] = []
    for i in range(0, len(sent), published_challenges.BATCH):
        some = sent[i : i + published_challenges.BATCH]
        batch = list(range(i, i + len(some)))
        steps.append((some, [batch, batch] if chance.random() < 0.1 else [batch]))
    return Play(f"a game of {players} players, every tenth batch twice", steps)


def truth(play: Play) -> Numbers:
    """Count in sets."""
    found: dict[str, set[str]] = {}
    for submitted, _ in play.steps:
        for player, path in submitted:
            mine = found.setdefault(player, set())
            if len(mine) < LIMIT:
                mine.add(path)
    counts = Counter(map(len, found.values()))
    reached = {str(n): sum(p for m, p in counts.items() if m >= n) for n in range(1, LIMIT + 1)}
    return {"players": len(found), "paths": sum(map(len, found.values())), **reached}


def run(
    engine: Engine,
    stream_arn: str,
    play: Play,
    submit: Callable[[str, str], object],
    handle: Callable[[list[Any]], object],
) -> None:
    """Submit and deliver; a submission's records are those that appear in the stream after it."""
    new: list[Any] = []
    pump = StreamPump(
        engine.client("dynamodbstreams"), stream_arn, lambda event, _: new.extend(event["Records"])
    )
    while pump.step():  # what was there before the play
        new.clear()
    records: list[list[Any]] = []
    for submitted, batches in play.steps:
        for player, path in submitted:
            submit(player, path)
            while pump.step():
                pass
            records.append(list(new))
            new.clear()
        for batch in batches:
            handle([record for number in batch for record in records[number]])
            while pump.step():  # the handler's own changes
                new.clear()


def define(table: Table, paths: Sequence[str]) -> None:
    """Make the challenge, with digests that cost next to nothing: hashing is not what is measured."""
    real, answers.COST = answers.COST, 2
    try:
        challenges.define(table, "hunt", ChallengeBody(title="Hunt", paths=list(paths), limit=LIMIT))
    finally:
        answers.COST = real


def ours(engine: Engine, play: Play) -> Numbers:
    """Answer what our statistics say in the end."""
    with fresh_table(engine) as (table, stream_arn):
        define(table, sorted({path for submitted, _ in play.steps for _, path in submitted}))

        def submit(player: str, path: str) -> None:
            with suppress(LimitReached):
                submissions.submit(table, "hunt", player, path, datetime.now(UTC))

        run(engine, stream_arn, play, submit, partial(aggregates.apply, table, CONTRIBUTIONS))
        said = challenges.statistics(table, "hunt")
        return {"players": said.players, "paths": said.paths, **said.reached}


def published(engine: Engine, play: Play) -> Numbers:
    """Answer what the published statistics say in the end."""
    with fresh_table(engine) as (table, stream_arn):
        submit = partial(published_challenges.submit, table.client, table.name)
        run(
            *(engine, stream_arn, play, submit),
            partial(published_challenges.handle, table.client, table.name),
        )
        return published_challenges.statistics(table.client, table.name)


def wrong(said: Numbers, right: Numbers) -> int:
    """Count the numbers that are not what they should be."""
    return sum(said[name] != right[name] for name in right)


def report(engine: Engine, quick: bool) -> Report:
    """Let both designs answer each play, beside the truth."""
    figures = Figures(
        f"Players, paths, who reached 1 and who reached 2; and how many of {NUMBERS} numbers are wrong",
        ("play", "truth", "ours", "published", "ours wrong", "published wrong"),
    )
    question = Question(f"How many of {NUMBERS} statistics are wrong?", "wrong numbers, after")
    mistakes = 0
    for play in plays(quick)[1:3] if quick else plays(quick):
        right, our, their = truth(play), ours(engine, play), published(engine, play)
        shown = [" ".join(f"{numbers[n]:,}" for n in SHOWN) for numbers in (right, our, their)]
        figures.rows.append((play.name, *shown, wrong(our, right), wrong(their, right)))
        question.answers.append(Answer(play.name, wrong(our, right), wrong(their, right)))
        mistakes += wrong(our, right)
    target = Target("wrong numbers in our answers", mistakes, 0)
    return Report([METHOD], [figures], [target], [question])
