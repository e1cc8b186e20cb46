"""What a change of score costs in write units, ours and the published design's."""

from __future__ import annotations

import random
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from bench import crowds, published_rank
from bench.crowded_boards import LEVELS, NOW, POINTS, CrowdedBoard
from bench.meter import Meter, Write
from bench.report import Answer, Figures, Question, Report
from bench.view_costs import Drifted, drain, fresh_table
from chalicelib import aggregates, leaderboards
from chalicelib.auth import Caller
from chalicelib.board_schemas import BoardBody
from chalicelib.score_schemas import ScoreBody
from local.engine import Engine
from local.pumps import StreamPump
from ops.recount import drift, scan

CONTRIBUTIONS = (leaderboards.contribution,)
PLAYERS, FEW = 1_000, 100  # on the board before; in a quick run
BATCHES = (1, 10, 100)
FLOOR = 1.0  # a score that is stored at all
SMALL = 10  # what a small gain adds at most
METHOD = f"""Writes. Write units (WCU) for each change of score, by the same rules as those of a view: the \
submission's transaction (score and activity), then the aggregator over the stream, whose batch holds as \
many changes as the row says, until the stream is empty. {PLAYERS:,} players with uniform scores are on \
the board, and change at random. A small gain is 1 to {SMALL}. A change costs the same among a million \
players, but for batches in which two of them share fewer nodes. Afterwards all aggregates are compared \
with a recount. Guard: what makes a record count once. Index: an entry that moves, which the \
transaction does not double. Transactions: of the aggregator, for each change. A submission also \
reads 3 RRU. Published: one update, 3 WCU, with no proof against counting a repeated request twice, and no \
tree."""


class Cost(NamedTuple):
    """WCU for each change of score, by what is written; and the aggregator's transactions for each."""

    submission: float
    guards: float
    nodes: float
    entries: float
    indexes: float
    transactions: float

    @property
    def total(self) -> float:
        """All write units."""
        return sum(self[:-1])


class Changes(NamedTuple):
    """How scores change: whose, and by what value."""

    name: str
    body: BoardBody
    draw: Any

    def values(self, board: CrowdedBoard, count: int) -> dict[str, int]:
        """Answer the players whose score changes, with the value that each submits."""
        chance = random.Random(crowds.SEED)
        players = chance.sample(sorted(board.scores), count)
        if self.name.startswith("new"):
            players = [crowds.name(len(board.scores) + number) for number in range(count)]
        return {player: self.draw(chance, board.scores.get(player, 0)) for player in players}


def _anywhere(chance: random.Random, _: int) -> int:
    return chance.randint(0, crowds.MOST)


def _gain(chance: random.Random, _: int) -> int:
    return chance.randint(1, SMALL)


def _better(chance: random.Random, score: int) -> int:
    return min(crowds.MOST, score + chance.randint(1, SMALL))


CHANGES = (
    Changes("new players, increment", POINTS, _anywhere),
    Changes("small gains, increment", POINTS, _gain),
    Changes("random moves, increment", POINTS, _anywhere),
    Changes("new players, 0 to 999,999", LEVELS, _anywhere),
    Changes("small gains, 0 to 999,999", LEVELS, _better),
    Changes("random moves, 0 to 999,999", LEVELS, _anywhere),
)


def ours(
    engine: Engine, changes: Changes, batches: Sequence[int] = BATCHES, players: int = PLAYERS
) -> dict[int, Cost]:
    """Measure changes in batches of each size. Raises Drifted when the aggregates are wrong afterwards."""
    board = CrowdedBoard(changes.body, crowds.crowd("uniform", players))
    found = {}
    with fresh_table(engine) as (table, stream_arn):
        records: list[Any] = []
        pump = StreamPump(
            engine.client("dynamodbstreams"), stream_arn, lambda event, _: records.extend(event["Records"])
        )
        board.define(table)
        table.batch_put(board.items())
        drain(pump)
        values = iter(changes.values(board, 10 + sum(batches)).items())
        second = int(time.time())
        for size in batches:
            rounds = max(1, 10 // size)
            transactions = 0
            with Meter(table.client) as meter:
                for _ in range(rounds):
                    for _ in range(size):
                        player, value = next(values)
                        body = ScoreBody(id="change", value=value)  # type: ignore[arg-type]
                        leaderboards.submit(table, board.name, body, Caller(player), NOW)
                    records.clear()
                    drain(pump)
                    second += 1
                    for record in records:
                        record["dynamodb"]["ApproximateCreationDateTime"] = second
                    transactions += aggregates.apply(table, CONTRIBUTIONS, records).transactions
            found[size] = split(meter.writes, rounds * size, transactions)
        drain(pump)
        if wrong := drift(CONTRIBUTIONS, scan(table.client, table.name)):
            raise Drifted(f"{changes.name}: {dict(list(wrong.items())[:3])}")
    return found


def split(writes: Sequence[Write], changes: int, transactions: int) -> Cost:
    """Part the cost of some writes by what they write, for each change."""

    def by(attribute: str, start: str) -> float:
        return sum(one.table for one in writes if one.key[attribute]["S"].startswith(start))

    indexes = sum(one.indexes for one in writes)
    parts = [
        by("sk", "BOARD#") + by("sk", "ACTIVITY#"),
        by("pk", "GUARD#"),
        by("pk", "RANK#"),
        by("sk", "RANKED#"),
    ]
    if sum(parts) != sum(one.table for one in writes):
        raise Drifted("a write is none of a score's")
    return Cost(*(part / changes for part in (*parts, indexes, transactions)))


def published(engine: Engine) -> float:
    """Measure changes in the published design, in WCU for each."""
    scores: Mapping[str, int] = crowds.crowd("uniform", 20)
    with fresh_table(engine) as (table, _):
        for player, score in scores.items():
            table.client.put_item(TableName=table.name, Item=published_rank.runner(player, "event", score))
        with Meter(table.client) as meter:
            for player in scores:
                published_rank.run(table.client, table.name, player, "event", SMALL)
    return meter.write_units / len(scores)


def report(engine: Engine, quick: bool) -> tuple[Report, dict[tuple[str, int], Cost]]:
    """Measure all changes, and show them beside the published design; answer the costs too."""
    figures = Figures(
        "WCU for each change of score, ours, by what is written",
        (
            "changes, board",
            "in a batch",
            *("submission", "guard", "nodes", "entry", "index", "all", "transactions"),
        ),
    )
    theirs = published(engine)
    question = Question("What does a change of score cost?", "WCU a change")
    found: dict[tuple[str, int], Cost] = {}
    for changes in CHANGES[1:2] if quick else CHANGES:
        measured = ours(engine, changes, BATCHES[:2], FEW) if quick else ours(engine, changes)
        for size, cost in measured.items():
            found[changes.name, size] = cost
            figures.rows.append((changes.name, size, *cost[:-1], cost.total, cost.transactions))
            batch = "alone" if size == 1 else f"{size} at once"
            question.answers.append(Answer(f"{changes.name}, {batch}", cost.total, theirs, FLOOR))
    return Report([METHOD], [figures], questions=[question]), found
