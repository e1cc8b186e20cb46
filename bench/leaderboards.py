"""Leaderboards: the cost of reads and changes, and the time of reads, beside COUNT and a Redis sorted set."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from bench import redis_board
from bench.boards import (
    BEST,
    DISTRIBUTIONS,
    HIGHEST,
    LEVELS,
    NOW,
    POINTS,
    SEED,
    SHARDED,
    LargeBoard,
    uniform_board,
)
from bench.boards import name as name_of
from bench.boards import players as players_of
from bench.published import ranking as published_ranking
from bench.report import Cell, Figures, Question, Report, Result
from bench.round_trips import RoundTrips
from bench.tables import Drifted, check, drain, fresh_table, load
from chalicelib.aggregates import engine as aggregates
from chalicelib.api.auth import Caller
from chalicelib.dynamo import capacity
from chalicelib.dynamo.items import Item, Key, pack, read_images, unpack
from chalicelib.dynamo.table import Table, connect
from chalicelib.leaderboards import queries as board_queries
from chalicelib.leaderboards import scores as leaderboards
from chalicelib.leaderboards.schemas import BoardBody, EntriesQuery, ScoreBody, StandingQuery
from chalicelib.ranking import deepening
from chalicelib.ranking import positions as ranks
from chalicelib.settings import Settings
from local.engines.engine import Engine
from local.engines.memory import Memory
from local.engines.meter import Meter
from local.event_sources import StreamPump
from local.soak.target import Target
from ops.costs import load_prices

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

SIZES = (1_000, 10_000, 100_000, 1_000_000)
COMPARED, FEW = 1_000, 20  # players of the boards that an engine holds too; in a quick run
SHARES = (0.001, 0.5, 1.0)  # the positions of the measured players, as shares of the board
LATENCY, TRIES = 0.020, 2  # seconds of each call, so that concurrent calls overlap; of the round trips
NAMES, COUNT = ("rank", "top 10", "around", "place"), "COUNT"  # COUNT: the published rank
READS = (*NAMES, "place again", "next page")
UNITS, TRIPS = 5, {"rank": 2, "around": 4, "place again": 4, "next page": 4}  # at most
FLOOR = 0.5  # the RRU of one item
SETTINGS = Settings(secret="0123456789abcdef0123456789abcdef")  # noqa: S106 (of cursors nobody reads)
METHOD = f"""Reads. Read units (RRU) by AWS's published rules, computed from the items and index pages \
that each call reads, eventually consistent as by default. Round trips are those in sequence: the longest \
chain of calls each of which began after the one before had its reply, with {1000 * LATENCY:g} ms added to \
every call; concurrent calls are one, and the fewest of {TRIES} tries count. Each figure is the dearest of \
the players at the best position, in the middle and at the last. Lists have 10 entries. A place is in the \
middle of the board: in a process that has seen no node, in one that has seen those on the way (again), and \
the page after it. A table in memory serves the product's own calls, because all these boards would take an \
engine an hour to hold. An engine (dynoxide) holds {SIZES[-1]:,} uniform players, and {COMPARED:,} of each \
distribution, with the aggregates of a recount; results, units and calls must be equal, or the run fails \
(quick: {FEW} players). Each rank is compared with the number of better scores. Names are UUIDs, scores lie \
from 0 to {HIGHEST:,}. Clustered: 90% of the players in 1% of the range. Tied: ten different scores. The \
boards' operator is increment; the second table has other kinds. The first request of a process for a board, \
which also reads the season, is not counted. The published design (COUNT) reads one page and stops; here its \
pages are followed to the right rank."""

Ask = Callable[[], Any]


class Read(NamedTuple):
    """The cost of a read, and its result."""

    units: float
    trips: int
    calls: int
    result: Any


def questions(table: Table, board: LargeBoard, position: int) -> dict[str, Ask]:
    """Return the reads of a leaderboard, for the player at a position."""
    player, place = board.player_at(position), max(2, len(board.scores) // 2)

    def entries(**query: Any) -> Ask:
        return lambda: board_queries.list_entries(table, board.name, EntriesQuery(**query), SETTINGS, NOW)

    def first_time() -> Any:
        ranks._seen_nodes.cache_clear()
        return again()

    again = entries(place=place)
    return {
        "rank": lambda: board_queries.get_standing(table, board.name, player, StandingQuery(), NOW),
        "top 10": entries(),
        "around": entries(around=player),
        "place": first_time,
        "place again": again,
        "next page": entries(place=place, cursor=again().cursor),
    }


def read(question: Ask, client: DynamoDBClient, reader: DynamoDBClient, latency: float = LATENCY) -> Read:
    """Ask a question: once unmeasured, once for the units, and some times for the round trips.

    `reader` is another client of the same table. The fewest round trips count: a busy machine may start a
    call late, and dependent calls never overlap.
    """
    question()
    with Meter(client, reader=reader) as meter:
        result = question()
    chains = []
    for _ in range(TRIES):
        trips = RoundTrips()
        with trips.of(client, latency):
            question()
        chains.append(trips.in_sequence)
    return Read(meter.read_units, min(chains), meter.calls, result)


def positions(count: int, shares: Sequence[float] = SHARES) -> list[int]:
    """Return the positions of the measured players."""
    return [max(1, round(share * count)) for share in shares]


def ours(board: LargeBoard, names: Sequence[str] = READS) -> dict[str, Read]:
    """Measure the dearest read of each kind on a board in memory. Raises Drifted for a wrong rank."""
    dearest: dict[str, Read] = {}
    with board.memory.client() as client, board.memory.client() as reader:
        table = Table("memory", client)
        for position in positions(len(board.scores)):
            for name in names:
                one = read(questions(table, board, position)[name], client, reader)
                if name == "rank" and one.result.rank != (right := board.rank(one.result.player)):
                    raise Drifted(f"{one.result} and not {right}")
                before = dearest.get(name, one)
                units, trips = max(before.units, one.units), max(before.trips, one.trips)
                dearest[name] = one._replace(units=units, trips=trips)
    return dearest


def compare(engine: Engine, board: LargeBoard) -> None:
    """Compare the reads of an engine that holds the same board. Raises Drifted for any difference."""
    with fresh_table(engine) as (table, _), board.memory.client() as client, board.memory.client() as reader:
        board.define(table)
        items = board.items() if len(board.scores) <= COMPARED else board.scores_and_nodes()
        load(engine, table.name, map(pack, items))
        memory = Table("memory", client)
        for position in positions(len(board.scores)):
            for name in READS:
                there, here = questions(table, board, position), questions(memory, board, position)
                on_engine = read(there[name], table.client, table.client, latency=0)
                in_memory = read(here[name], client, reader, latency=0)
                if on_engine._replace(trips=0) != in_memory._replace(trips=0):
                    raise Drifted(f"{name}, {position}: {on_engine} and not {in_memory}")


def published(board: LargeBoard, position: int) -> Read:
    """Measure the published rank of the player at a position. Raises Drifted when it is wrong."""
    event, scores, player = f"EVENT#{board.name}", board.scores, board.player_at(position)

    def runner(key: Key) -> Item:
        user = key.pk.removeprefix("USER#")
        return unpack(published_ranking.runner(user, board.name, scores[user]))

    memory = Memory(runner)
    memory.put_partition(event, sorted((score, f"USER#{user}") for user, score in scores.items()), event)
    with memory.client() as client, memory.client() as reader:
        with Meter(client, reader=reader) as meter:
            rank = published_ranking.position(client, "memory", player, board.name)
        if rank != board.rank(player):
            raise Drifted(f"the published rank {rank} and not {board.rank(player)}")
        return Read(meter.read_units, meter.calls, meter.calls, rank)


KINDS: dict[str, BoardBody] = {
    "increment, sums to 10^15": POINTS,
    f"best, from 0 to {HIGHEST:,}": BEST,
    "set, the same": LEVELS,
    "increment, over 8 shards": SHARDED,
}


def reads(engine: Engine, quick: bool) -> Report:
    """Measure every read for every distribution and size, kinds of boards, and the published rank."""
    sizes = SIZES[:1] if quick else SIZES
    columns = [column for name in READS for column in (name, "trips")]
    by_size = Figures("Reads of increment boards: RRU, and trips", ("scores", "players", *columns))
    by_kind = Figures(f"A rank among {sizes[-1]:,} players, by kind of board", ("board", "RRU", "trips"))
    last = Figures("The published rank (COUNT) of the last player", ("players", "RRU", "trips"))
    cost = Question("What does a rank cost, of a player in the middle?", "RRU, uniform scores")
    trips = Question("… and how many round trips, one after the other?", "round trips")
    largest: list[dict[str, Read]] = []
    for distribution in ("uniform",) if quick else DISTRIBUTIONS:
        compare(engine, LargeBoard(POINTS, players_of(distribution, FEW if quick else COMPARED)))
        for size in sizes:
            board = LargeBoard(POINTS, players_of(distribution, size))
            found = ours(board)
            largest += [found] if size == sizes[-1] else []
            cells = [cell for name in READS for cell in (found[name].units, found[name].trips)]
            by_size.rows.append((distribution, size, *cells))
            if distribution != "uniform":
                continue
            if size == SIZES[-1]:
                compare(engine, board)
            rank, middle, final = found["rank"], published(board, size // 2), published(board, size)
            cost.results.append(Result(f"{size:,} players", rank.units, middle.units, FLOOR))
            trips.results.append(Result(f"{size:,} players", rank.trips, middle.trips, 1))
            last.rows.append((f"{size:,}", final.units, final.trips))
    for kind, body in KINDS.items():
        rank = ours(uniform_board(body.title, sizes[-1]), ("rank",))["rank"]
        by_kind.rows.append((kind, rank.units, rank.trips))
    targets = []
    for name, most in TRIPS.items():
        judged = f"{name}, {sizes[-1]:,} players, the most of any distribution"
        targets.append(Target(f"RRU of {judged}", max(one[name].units for one in largest), UNITS))
        targets.append(Target(f"round trips of {judged}", max(one[name].trips for one in largest), most))
    return Report([METHOD], [by_size, by_kind, last], targets, [cost, trips])


# -- changes ---------------------------------------------------------------------------------------

CONTRIBUTIONS = (leaderboards.contribution,)
PLAYERS, FEWER = 1_000, 100  # on the board before; in a quick run
BATCHES = (1, 10, 100)
TARGETS = {"small gains": 4.5, "new players": 7, "random moves": 7.5}
PARTIAL = 10_000  # players, from which the engine holds all nodes, and of the scores those that change
SMALL = 10  # the most that a small gain adds
WRITES = f"""Writes. Write units (WCU) for each change of score, as the engine reports them, divided by the \
rules of AWS: the submission (activity and score, and the move of the score's entry in the index), then the \
aggregator over the stream, whose batch holds as many changes as the row says, until the stream is empty. \
{PLAYERS:,} players with uniform scores are on the board, or a million, and change at random. \
A small gain is 1 to {SMALL}. Afterwards all aggregates are compared with a recount. Nodes: counters and \
tags. Upkeep: depths that are stamped, nodes that are marked as full, and deepenings. RRU: of the submission \
and of the aggregator. Published: one update, which counts a repeated request twice, and no tree."""


class Cost(NamedTuple):
    """WCU for each change of score, by the kind of item; and the RRU."""

    submission: float
    indexes: float
    nodes: float
    upkeep: float
    reads: float

    @property
    def total(self) -> float:
        """Return all write units."""
        return sum(self[:-1])


Draw = Callable[[random.Random, int], int]


def _anywhere(rng: random.Random, _: int) -> int:
    return rng.randint(0, HIGHEST)


CHANGES: dict[str, tuple[BoardBody, Draw]] = {
    "new players, increment": (POINTS, _anywhere),
    "small gains, increment": (POINTS, lambda rng, _: rng.randint(1, SMALL)),
    "random moves, increment": (POINTS, _anywhere),
    "new players, 0 to 999,999": (LEVELS, _anywhere),
    "small gains, 0 to 999,999": (LEVELS, lambda rng, score: min(HIGHEST, score + rng.randint(1, SMALL))),
    "random moves, 0 to 999,999": (LEVELS, _anywhere),
}


def change_costs(
    engine: Engine, name: str, batches: Sequence[int] = BATCHES, players: int = PLAYERS
) -> dict[int, Cost]:
    """Measure changes in batches of each size. Raises Drifted when the aggregates are wrong afterwards."""
    body, draw = CHANGES[name]
    board = uniform_board(body.title, players)
    rng, count = random.Random(SEED), 10 + sum(batches)
    chosen = rng.sample(sorted(board.scores), count)
    if name.startswith("new"):
        chosen = [name_of(players + number) for number in range(count)]
    values = iter([(player, draw(rng, board.scores.get(player, 0))) for player in chosen])
    found = {}
    with fresh_table(engine) as (table, stream_arn):
        client = connect(Settings(endpoint=engine.endpoint, table=table.name, capacity=True)).client
        table = Table(table.name, client)
        records: list[Any] = []
        stream = engine.client("dynamodbstreams")
        pump = StreamPump(stream, stream_arn, lambda event, _: records.extend(event["Records"]))
        board.define(table)
        is_whole = players < PARTIAL
        table.batch_put(board.items() if is_whole else board.nodes())
        table.batch_put(board.score(player) for player in chosen if player in board.scores and not is_whole)
        drain(pump)
        for size in batches:
            rounds = max(1, 10 // size)
            with Meter(client, reader=engine.client("dynamodb")) as meter, capacity.count_units() as reported:
                for _ in range(rounds):
                    for _ in range(size):
                        player, value = next(values)
                        score = ScoreBody(id="change", value=value)  # type: ignore[arg-type]
                        leaderboards.submit(table, board.name, score, Caller(player), NOW)
                    while True:
                        records.clear()
                        drain(pump)
                        if not records:
                            break
                        deliver(table, records)
            # The engine does not report a write with a false condition, which AWS bills.
            if engine.kind == "dynoxide" and not 0 <= meter.write_units - reported.write <= size / 50:
                raise Drifted(f"the engine reports {reported.write} WCU and not {meter.write_units}")
            found[size] = _split(meter, rounds * size)
        if is_whole:
            check(CONTRIBUTIONS, table, name)
    return found


def deliver(table: Table, records: Sequence[Any]) -> None:
    """Deliver records to the aggregator, as app.py does."""
    aggregates.apply(table, CONTRIBUTIONS, records)
    changes = read_images(records)
    leaderboards.follow(table, changes, NOW)
    deepening.follow(table, [leaderboards.rank], changes, NOW)


def _split(meter: Meter, changes: int) -> Cost:
    """Split the cost of some changes by the kind of item, for each change."""

    def by(sk: str, pk: str = "") -> float:
        return sum(
            one.table
            for one in meter.writes
            if one.key["sk"]["S"].startswith(sk) and one.key["pk"]["S"].startswith(pk)
        )

    scores, nodes = by("ACTIVITY#") + by("BOARD#"), by("NODE")
    whole = sum(one.table for one in meter.writes)
    indexes = sum(one.indexes for one in meter.writes)
    submission = min(scores, 2.0 * changes)
    parts = submission, indexes, nodes, whole - submission - nodes, meter.read_units
    return Cost(*(part / changes for part in parts))


def published_change(engine: Engine) -> float:
    """Measure changes in the published design, in WCU for each."""
    scores = players_of("uniform", 20)
    with fresh_table(engine) as (table, _):
        for player, score in scores.items():
            item = published_ranking.runner(player, "event", score)
            table.client.put_item(TableName=table.name, Item=item)
        with Meter(table.client) as meter:
            for player in scores:
                published_ranking.run(table.client, table.name, player, "event", SMALL)
    return meter.write_units / len(scores)


def changes(engine: Engine, quick: bool) -> Report:
    """Measure all changes beside the published design, on a small board and on a large one."""
    given, parts = ("changes, board", "players", "in a batch"), ("submission", "index", "nodes", "upkeep")
    columns = (*given, *parts, "RRU", "all WCU")
    figures = Figures("Write units for each change of score, ours, by the item written", columns)
    question = Question("What does a change of score cost?", "WCU a change")
    theirs, targets = published_change(engine), []
    for players in (FEWER,) if quick else (PLAYERS, SIZES[-1]):
        for name in [*CHANGES][1:2] if quick else CHANGES:
            found = change_costs(engine, name, BATCHES[:2] if quick else BATCHES, players)
            for size, cost in found.items():
                figures.rows.append((name, f"{players:,}", size, *cost[:-1], cost.reads, cost.total))
                batch = "alone" if size == 1 else f"{size} at once"
                row = f"{name}, {batch}, among {players:,}"
                question.results.append(Result(row, cost.total, theirs, 1.0))
                most = next(limit for kind, limit in TARGETS.items() if name.startswith(kind))
                if size == 1 or name.startswith("small"):
                    # A loss that leaves its bucket costs 1 WCU more; half of these moves are losses.
                    can_fall = name == "random moves, 0 to 999,999"
                    targets.append(Target(f"WCU of {row}", cost.total, most, strict=not can_fall))
    return Report([WRITES], [figures], targets, [question])


# -- time ------------------------------------------------------------------------------------------

TIMED, TIMED_FEW = 100_000, 100  # players
REPEATS, FASTER = 9, 100
TIMED_SHARES = (0.1, 0.3, 0.5, 0.7, 0.9)
TIMES = f"""Time. The same players with uniform scores, ours and the published design in one table of one \
engine, and a Redis sorted set on this machine (its own client, nothing kept on disk). The engine holds \
each player's item of the published design, and our scores and nodes. A figure is the mean over players at \
10, 30, 50, 70 and 90% of the board of the median of {REPEATS} repeats. The questions of a player take \
turns, COUNT's among them, so that all meet the same machine. All results are compared. ministack scans its \
whole table for each query: there, and in a quick run, {TIMED_FEW:,} players are compared once, and no \
target is strict. No call crosses a network. Redis needs two for a rank and around a player."""


def _milliseconds(reads: Sequence[Mapping[str, Ask]], repeats: int = REPEATS) -> dict[str, float]:
    """Return the mean over players of the median time of each question. The questions take turns."""
    medians: dict[str, list[float]] = {name: [] for name in reads[0]}
    for questions in reads:
        elapsed: dict[str, list[float]] = {name: [] for name in questions}
        for _ in range(repeats):
            for name, question in questions.items():
                begin = time.perf_counter()
                question()
                elapsed[name].append(1000 * (time.perf_counter() - begin))
        for name, some in elapsed.items():
            medians[name].append(statistics.median(some))
    return {name: statistics.mean(some) for name, some in medians.items()}


def times(
    engine: Engine, table: Table, board: LargeBoard, at: Sequence[int], repeats: int
) -> dict[str, float]:
    """Measure our reads, and the published rank as COUNT. Raises Drifted for a wrong result."""
    players = [board.player_at(position) for position in at]
    with board.memory.client() as client:
        here = [questions(Table("memory", client), board, position) for position in at]
        right = [
            {name: one[name]() for name in NAMES} | {COUNT: board.rank(player)}
            for one, player in zip(here, players, strict=True)
        ]
    board.define(table)
    load(engine, table.name, map(pack, board.scores_and_nodes()))
    runners = (published_ranking.runner(one, board.name, score) for one, score in board.scores.items())
    load(engine, table.name, runners)
    there: list[dict[str, Ask]] = []
    for position, player in zip(at, players, strict=True):
        asked = questions(table, board, position)
        count = partial(published_ranking.position, table.client, table.name, player, board.name)
        there.append({name: asked[name] for name in NAMES} | {COUNT: count})
    if [{name: question() for name, question in one.items()} for one in there] != right:
        raise Drifted("a result is not that of the table in memory")
    return _milliseconds(there, repeats)


def redis_times(quick: bool) -> Report:
    """Fill and measure sorted sets of all sizes; an empty report that says why where there is no Redis."""
    title = "Redis sorted set, uniform scores: memory, and ms on this machine"
    figures = Figures(title, ("players", "MB", *NAMES, "change"))
    try:
        with redis_board.server() as client:
            for size in SIZES[:1] if quick else SIZES:
                board = LargeBoard(BEST, players_of("uniform", size))
                memory = redis_board.fill(client, board.scores)
                reads = []
                for position in positions(size, TIMED_SHARES):
                    player = board.player_at(position)
                    if redis_board.rank(client, player) != board.rank(player):
                        raise Drifted("the rank in Redis is wrong")
                    reads.append(redis_board.questions(client, player, position))
                figures.rows.append((f"{size:,}", memory / 1e6, *_milliseconds(reads).values()))
    except redis_board.RedisUnavailable as reason:
        return Report([f"Redis is left out: {reason}."])
    return Report([], [figures])


def elapsed(engine: Engine, quick: bool) -> Report:
    """Measure the times of all three designs."""
    is_judged = engine.kind == "dynoxide" and not quick
    size = TIMED if is_judged else TIMED_FEW
    board, at = LargeBoard(POINTS, players_of("uniform", size)), positions(size, TIMED_SHARES)
    with fresh_table(engine) as (table, _):
        found = times(engine, table, board, at, REPEATS if is_judged else 1)
    count = found.pop(COUNT)
    rows: list[Sequence[Cell]] = [("ours", *found.values()), (COUNT, count, *"---")]
    figures = Figures(f"{size:,} players, {engine.kind}: ms", ("design", *NAMES), rows)
    name = f"times faster than COUNT, a rank among {size:,}"
    target = Target(name, count / found["rank"], FASTER, at_most=False, strict=is_judged)
    return Report([TIMES], [figures], [target]) + redis_times(quick)


def measure(engine: Engine, quick: bool) -> Report:
    """Measure time and units on an engine; `quick` takes small boards and judges no time."""
    timed = elapsed(engine, quick)
    read, changed = reads(engine, quick), changes(engine, quick)
    return read + changed + timed + bills(read, changed)


# -- a month ---------------------------------------------------------------------------------------

MONTH = {"change": 150, "rank": 150, "top 10": 60}  # of each player: 5, 5 and 2 a day
BILLS = {"1,000": 0.70, "100,000": 55, "1,000,000": 550}  # dollars at most
MONTHS = """A month. The units above at AWS's prices of on-demand tables. A player changes the score five \
times a day by a small gain, alone in its batch, and reads a rank five times and the top ten twice. COUNT's \
ranks are those in the middle, its top ten is ours. Sizes without changes above have those among a million. \
Lambda, requests and storage are left out: `python -m ops cost` has them."""


def bills(read: Report, changed: Report) -> Report:
    """Price a month of each size, and find the size from which COUNT costs more."""
    prices = load_prices()["prices"]
    wcu, rru = (prices[kind]["usd"] / prices[kind]["per"] for kind in ("write", "read"))
    gains = [row for row in changed.figures[0].rows if "small gains" in str(row[0]) and row[2] == 1]
    report = Report([MONTHS], [Figures("Dollars a month", ("players", "ours", "COUNT"))])
    sizes: Any = zip(read.figures[0].rows, read.questions[0].results, strict=False)  # uniform comes first
    for (_, players, rank, _, top, *_), middle in sizes:
        size, row = f"{players:,}", next((row for row in gains if row[1] == f"{players:,}"), gains[-1])
        change: Any = row[-1] * wcu + row[-2] * rru
        tops = MONTH["top 10"] * top * rru
        ours = MONTH["change"] * change + MONTH["rank"] * rank * rru + tops
        theirs = MONTH["change"] * (changed.questions[0].results[0].published or 0) * wcu + tops
        count = MONTH["rank"] * middle.published * rru
        report.figures[0].rows.append((size, players * ours, players * (theirs + count)))
        if size in BILLS:
            report.targets.append(Target(f"dollars a month, {size} players", players * ours, BILLS[size]))
        if size == "1,000":  # ranks of COUNT cost in proportion to the players
            even = players * (ours - theirs) / count
            report.targets.append(Target("players, from whom on COUNT costs more", even, 2_000))
    return report
