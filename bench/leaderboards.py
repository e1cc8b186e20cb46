"""Leaderboards: the price of a rank and of a change, beside COUNT over an index and a Redis sorted set.

The published design stores a score with an index entry and counts the better entries: its rank is COUNT over
the same index, one page of 1 MB after the other. Its change is one update, which moves the index entry and
counts a repeated request twice.
"""

from __future__ import annotations

import random
import statistics
import time
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any

from bench import redis_board
from bench.report import Answer, Cell
from chalicelib.aggregates import engine as aggregates
from chalicelib.api.auth import Caller
from chalicelib.dynamo.items import Item, chunks, pack
from chalicelib.dynamo.table import Table
from chalicelib.leaderboards import boards, scores, standings
from chalicelib.leaderboards.schemas import BoardBody, ScoreBody, StandingQuery
from chalicelib.ranking import deepening, ranking, tree
from local.engines.engine import Engine
from local.event_sources import StreamPump
from ops.maintenance.streams import Stream
from tests.support.contexts import new_context
from tests.support.meter import Meter
from tests.support.round_trips import RoundTrips
from tests.support.tables import drain, fresh_table

SIZES, SMALL_SIZES = (1_000, 10_000, 100_000, 1_000_000), (1_000,)
HIGHEST, SEED = 999_999, 20261121
NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
LONG_AGO = 1_700_000_000_000  # milliseconds: the last change of a settled score
CHANGES = 100  # measured changes of each kind, in batches of BATCH records
BATCH = 100
WRITERS = 4
PUBLISHED_CHANGE = 3.0  # WCU: the item, and its index entry, which is removed and put
CONTRIBUTIONS = (scores.contribution,)


class LargeBoard:
    """A board of players with uniform scores, whose items are computed and written directly."""

    def __init__(self, table: Table, count: int) -> None:
        boards._cached_boards().clear()
        boards.define(new_context(table, NOW), "large", BoardBody(title="Points", operator="increment"))
        self.board = boards.find(new_context(table, NOW), "large")
        self.ranking = self.board.ranking
        rng = random.Random(SEED)
        self.scores = {f"player-{number:07}": rng.randint(0, HIGHEST) for number in range(count)}
        self._entries = {player: self._entry(player) for player in self.scores}
        self._numbers = sorted(entry["gsi1sk"] for entry in self._entries.values())

    @property
    def middle(self) -> str:
        """Return the player in the middle of the board."""
        return sorted(self.scores, key=lambda player: -self.scores[player])[len(self.scores) // 2]

    def items(self) -> Iterator[Item]:
        """Yield the scores, and the nodes of the tree as the stream would have counted them."""
        for player, score in self.scores.items():
            yield (
                scores.score_key("large", self.board.season, player)._asdict()
                | self._entries[player]
                | {
                    "score": score,
                    "scale": list(self.board.scale),
                    "shards": self.board.shards,
                    "time": "2023-11-14T22:13:20.000000Z",
                    "version": LONG_AGO,
                    "depth": self._depth(self._entries[player]["gsi1sk"]),
                }
            )
        prefixes = [""]
        while prefixes:
            prefix = prefixes.pop()
            counts = {f"{number:02}": self._count(f"{prefix}{number:02}") for number in range(100)}
            deep = [digits for digits, n in counts.items() if n > tree.LIMIT]
            node = {digits: n * (tree.DEEP if digits in deep else 1) for digits, n in counts.items() if n}
            full = {"full": set(deep)} if deep else {}
            yield ranking.node_key(self.ranking, prefix)._asdict() | node | full
            prefixes += [prefix + digits for digits in deep]

    def _entry(self, player: str) -> Item:
        merit = self.ranking.scale.merit(self.scores[player])
        return ranking.index_key(self.ranking, player, self.ranking.number(merit, player))

    def _depth(self, number: int) -> int:
        path, depth = self.ranking.scale.path(number), 1
        while self._count(tree.bucket(path, depth)) > tree.LIMIT:
            depth += 1
        return depth

    def _count(self, prefix: str) -> int:
        if abs(int(prefix[: tree.DIGITS]) - tree.ZERO) not in range(1, 10):  # no number begins so
            return 0
        least, most = self.ranking.scale.numbers(prefix)
        return max(0, bisect_right(self._numbers, most) - bisect_left(self._numbers, least))


def load(engine: Engine, name: str, items: Iterator[Item]) -> None:
    """Write items from some threads, in batches of 25."""
    client: Any = engine.client("dynamodb")

    def put(chunk: Sequence[Mapping[str, Any]]) -> None:
        left: Any = {name: [{"PutRequest": {"Item": item}} for item in chunk]}
        while left:
            left = client.batch_write_item(RequestItems=left).get("UnprocessedItems")

    with ThreadPoolExecutor(WRITERS) as writers:
        for chunk in chunks(map(pack, items), 25 * 400):
            list(writers.map(put, chunks(chunk, 25)))


def count_better(client: Any, table: str, board: LargeBoard, player: str) -> int:
    """Return a rank as the published design does: COUNT over the entries of the index that are better."""
    own = board._entries[player]
    equal = own["gsi1sk"] // tree.TIE * tree.TIE + tree.TIE - 1  # the greatest number with the same score
    request: Any = {
        "TableName": table,
        "IndexName": "gsi1",
        "Select": "COUNT",
        "KeyConditionExpression": "gsi1pk = :pk AND gsi1sk > :equal",
        "ExpressionAttributeValues": pack({":pk": own["gsi1pk"], ":equal": equal}),
    }
    ahead = 0
    while True:
        page = client.query(**request)
        ahead += int(page["Count"])
        if "LastEvaluatedKey" not in page:
            return 1 + ahead
        request["ExclusiveStartKey"] = page["LastEvaluatedKey"]


def measure_rank(engine: Engine, size: int) -> tuple[Cell, ...]:
    """Return a row: the units, round trips and milliseconds of a rank, ours and the others'."""
    with fresh_table(engine) as (table, _):
        board = LargeBoard(table, size)
        load(engine, table.name, board.items())
        player = board.middle

        def ours() -> int:
            return standings.get(new_context(table, NOW), "large", player, StandingQuery()).rank

        right = 1 + sum(score > board.scores[player] for score in board.scores.values())
        assert ours() == right
        with Meter(table.client) as meter:
            ours()
        trips = RoundTrips()
        with trips.count(table.client, 0.02):
            ours()
        with Meter(table.client) as published:
            assert count_better(table.client, table.name, board, player) == right
        with redis_board.server() as redis:
            redis_board.fill(redis, board.scores)
            assert redis_board.rank(redis, player) == right
            beside = _milliseconds(lambda: redis_board.rank(redis, player))
        return (
            f"{size:,}",
            meter.read_units,
            published.read_units,
            trips.in_sequence,
            published.calls,
            _milliseconds(ours),
            beside,
        )


def _milliseconds(ask: Callable[[], object], times: int = 50) -> float:
    taken = []
    for _ in range(times):
        begun = time.perf_counter()
        ask()
        taken.append(1000 * (time.perf_counter() - begun))
    return statistics.median(taken)


def measure_changes(engine: Engine, size: int) -> list[tuple[Cell, ...]]:
    """Return a row for each kind of change: its WCU with everything that it adds to, and the published."""
    rng, rows = random.Random(SEED), list[tuple[Cell, ...]]()
    with fresh_table(engine) as (table, stream_arn):
        board = LargeBoard(table, size)
        load(engine, table.name, board.items())

        def deliver(event: dict[str, Any], _: object) -> None:
            changes = aggregates.apply(table, CONTRIBUTIONS, event["Records"]).changes
            scores.follow(new_context(table, NOW), changes)
            deepening.follow(new_context(table, NOW), [scores.rank], changes)

        pump = StreamPump(Stream(engine.client("dynamodbstreams"), stream_arn), deliver, BATCH)
        drain(pump)
        old = rng.sample(sorted(board.scores), CHANGES)
        for name, players, most in (
            ("a new player", [f"new-{number}" for number in range(CHANGES)], HIGHEST),
            ("a gain of 1 to 10", old, 10),
            ("a gain of any size", old, HIGHEST),
        ):
            with Meter(table.client) as meter:
                for player in players:
                    score = ScoreBody(id=name, value=rng.randint(1, most))  # type: ignore[arg-type]
                    scores.submit(new_context(table, NOW), "large", score, Caller(player))
                drain(pump)
            rows.append((f"{name}, among {size:,}", meter.write_units / CHANGES, PUBLISHED_CHANGE))
    return rows


def measure(engine: Engine, quick: bool) -> list[Answer]:
    """Measure ranks on boards of each size, and changes on the smallest and on one of 100,000."""
    sizes = SMALL_SIZES if quick else SIZES
    changes = [row for size in sizes[:3:2] for row in measure_changes(engine, size)]
    columns = ("players", "ours, RRU", "published, RRU", "round trips", "published", "ours, ms", "Redis, ms")
    return [
        Answer(
            "What does a rank cost, of a player in the middle?",
            columns,
            [measure_rank(engine, size) for size in sizes],
            "Scores are uniform. The published rank is COUNT over the same index. Redis is a sorted set on "
            "this machine, and our milliseconds are those of the local engine.",
        ),
        Answer(
            "What does a change of score cost?",
            ("WCU a change", "ours", "published"),
            changes,
            f"{CHANGES} changes of each kind, delivered in batches of {BATCH} records. The published design "
            "keeps no tree and counts a repeated request twice.",
        ),
    ]
