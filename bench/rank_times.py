"""How long a leaderboard's reads take on one engine, beside the published design and a Redis sorted set."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from bench import crowds, published_rank, redis_sets
from bench.crowded_boards import BEST, POINTS, CrowdedBoard
from bench.rank_reads import NAMES, SIZES, questions
from bench.redis_sets import RedisUnavailable
from bench.report import Cell, Figures, Report, Target
from bench.round_trips import RoundTrips
from bench.view_costs import Drifted, fresh_table
from chalicelib.items import pack
from chalicelib.table import BATCH_WRITE, Table
from local.engine import Engine

PLAYERS, FEW = 100_000, 100
LATENCY = 0.010  # seconds added to every round trip of all designs, in a table that says so
REPEATS = 5
BOUND = 100
SHARES = (0.1, 0.3, 0.5, 0.7, 0.9)
WRITERS = 4

METHOD = f"""Time. The same players with uniform scores, ours and the published design in one table of one \
engine, and a Redis sorted set on this machine (Debian's redis-server, its own client, nothing kept on \
disk). The engine holds each player's item of the published design, each player's entry of ours, and of \
our scores and nodes those that are asked for. A figure is the mean over players at 10, 30, 50, 70 and 90% \
of the board, of ours and Redis's the median of {REPEATS} repeats each. All answers are compared. Once as \
the engine answers, which is what the strict target is about, and once with {1000 * LATENCY:g} ms added to \
every round trip: a stand-in for a network, no figure of AWS's. What DynamoDB itself takes for a page of 1 \
MB no run on this machine says; the units and trips above are what it would be asked for. ministack \
looks at its whole table for each query: there, and in a quick run, {FEW:,} players are compared, and \
judged on nothing. \
Redis answers on the same machine without a network; each of its calls is one round trip, rank and around \
are two."""


def load(engine_table: Table, items: Sequence[Mapping[str, Any]]) -> None:
    """Write items in typed JSON, some batches at a time."""

    def put(some: Sequence[Mapping[str, Any]]) -> None:
        left: Any = {engine_table.name: [{"PutRequest": {"Item": item}} for item in some]}
        while left:
            left = engine_table.client.batch_write_item(RequestItems=left).get("UnprocessedItems")

    parts = [items[i : i + BATCH_WRITE] for i in range(0, len(items), BATCH_WRITE)]
    with ThreadPoolExecutor(WRITERS) as writers:
        list(writers.map(put, parts))


def taken(question: Callable[[], Any], repeats: int) -> float:
    """Answer the median time of a question, in milliseconds."""
    times = []
    for _ in range(repeats):
        begin = time.perf_counter()
        question()
        times.append(1000 * (time.perf_counter() - begin))
    return statistics.median(times)


def by_name(asked: Sequence[Mapping[str, Callable[[], Any]]], repeats: int = REPEATS) -> dict[str, float]:
    """Answer the mean time of each question over those who are asked for."""
    return {name: statistics.mean(taken(one[name], repeats) for one in asked) for name in asked[0]}


def ours(
    table: Table, board: CrowdedBoard, at: Sequence[int], repeats: int = REPEATS
) -> list[dict[str, float]]:
    """Measure our questions without and with latency. Raises Drifted for another answer than memory's."""
    with board.memory.client() as client:
        here = [questions(Table("memory", client), board, place) for place in at]
        right = [{name: question() for name, question in one.items()} for one in here]
    entries = [pack(board.entry(player)) for player in board.scores]
    rest = [item for key in board.memory.asked if (item := board.memory.item(key))]
    listed = {entry["pk"]["S"] + entry["sk"]["S"] for entry in entries}
    load(table, entries + [pack(item) for item in rest if item["pk"] + item["sk"] not in listed])
    there = [questions(table, board, place) for place in at]
    if [{name: question() for name, question in one.items()} for one in there] != right:
        raise Drifted("the engine's answers are not those of the table in memory")
    alone = by_name(there, repeats)
    with RoundTrips().of(table.client, LATENCY):
        return [alone, by_name(there, repeats)]


def theirs(table: Table, board: CrowdedBoard, at: Sequence[int]) -> list[float]:
    """Measure the published rank without and with latency. Raises Drifted when it is wrong."""
    load(table, [published_rank.runner(player, board.name, score) for player, score in board.scores.items()])
    players = [board.player_at(place) for place in at]

    def mean() -> float:
        begin = time.perf_counter()
        ranks = [published_rank.position(table.client, table.name, one, board.name) for one in players]
        taken = time.perf_counter() - begin
        if ranks != [board.rank(player) for player in players]:
            raise Drifted("the published rank is wrong")
        return 1000 * taken / len(players)

    alone = mean()
    with RoundTrips().of(table.client, LATENCY):
        return [alone, mean()]


def redis(client: Any, board: CrowdedBoard, at: Sequence[int]) -> dict[str, float]:
    """Measure a filled sorted set: its questions, and a change. Raises Drifted when a rank is wrong."""
    asked: list[dict[str, Callable[[], Any]]] = []
    for place in at:
        player = board.player_at(place)
        if redis_sets.standing(client, player).rank != board.rank(player):
            raise Drifted("the rank in Redis is wrong")
        asked.append(
            {
                "rank": partial(redis_sets.standing, client, player),
                "top 10": partial(redis_sets.top, client),
                "around": partial(redis_sets.around, client, player),
                "place": partial(redis_sets.from_place, client, place),
            }
        )
    changes: dict[str, Callable[[], Any]] = {
        "change": partial(redis_sets.change, client, board.player_at(1), 1)
    }
    return by_name(asked) | by_name([changes])


def sorted_sets(quick: bool) -> tuple[Report, dict[int, int]]:
    """Fill and measure sorted sets of all sizes; answer their bytes too, none where there is no Redis."""
    columns = ("players", "MB", *NAMES, "change")
    figures = Figures("Redis sorted set, uniform scores: memory, and ms on this machine", columns)
    memory: dict[int, int] = {}
    try:
        with redis_sets.server() as client:
            for size in SIZES[:1] if quick else SIZES:
                board = CrowdedBoard(BEST, crowds.crowd("uniform", size))
                memory[size] = redis_sets.fill(client, board.scores)
                times = redis(client, board, spread(size))
                figures.rows.append((f"{size:,}", memory[size] / 1e6, *times.values()))
    except RedisUnavailable as reason:
        return Report([f"Redis is left out: {reason}."]), {}
    return Report([], [figures]), memory


def spread(count: int) -> list[int]:
    """Answer the places of those who are asked for."""
    return [max(1, round(share * count)) for share in SHARES]


def report(engine: Engine, quick: bool) -> tuple[Report, dict[int, int]]:
    """Measure all three designs; answer the bytes of sorted sets by size too."""
    is_judged = engine.kind == "dynoxide" and not quick
    size = PLAYERS if is_judged else FEW
    board, at = CrowdedBoard(POINTS, crowds.crowd("uniform", size)), spread(size)
    with fresh_table(engine) as (table, _):
        published = theirs(table, board, at)
        board.define(table)
        mine = ours(table, board, at, REPEATS if is_judged else 1)
    sets, memory = sorted_sets(quick)
    said = Report([METHOD, *sets.method])
    none = dict.fromkeys(NAMES, "-")
    for i, added in enumerate(("no latency added", f"{1000 * LATENCY:g} ms added to each round trip")):
        rows: list[Sequence[Cell]] = [("ours", *(mine[i][name] for name in NAMES))]
        rows.append(("COUNT", *(none | {"rank": published[i]}).values()))
        title = f"{size:,} players, {engine.kind}, {added}: ms"
        said.figures.append(Figures(title, ("design", *NAMES), rows))
        times = published[i] / mine[i]["rank"]
        what = f"times faster than COUNT, a rank among {size:,}, {added}"
        said.targets.append(Target(what, times, BOUND, at_most=False, strict=is_judged and not i))
    said.figures += sets.figures
    return said, memory
