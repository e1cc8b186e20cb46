"""What a leaderboard's reads cost in read units and in round trips, ours and the published design's."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from bench import crowds, published_rank
from bench.crowded_boards import BEST, LEVELS, NOW, POINTS, SHARDED, CrowdedBoard
from bench.memory import Memory
from bench.meter import Meter
from bench.report import Answer, Figures, Plot, Question, Report, Target
from bench.round_trips import RoundTrips
from bench.view_costs import Drifted, fresh_table
from chalicelib import standings, times
from chalicelib.board_schemas import BoardBody
from chalicelib.items import unpack
from chalicelib.score_schemas import EntriesQuery, StandingQuery
from chalicelib.settings import Settings
from chalicelib.table import Table
from local.engine import Engine

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

SIZES = (1_000, 10_000, 100_000, 1_000_000)
COMPARED, FEW = 1_000, 20  # players of the boards that the engine holds too, of a quick run
SHARES = (0.001, 0.5, 1.0)  # how far down the board those who are asked for stand
LATENCY = 0.020  # seconds of each call, so that calls made at the same time overlap
TRIES = 2
NAMES = ("rank", "top 10", "around", "place")
UNITS, TRIPS = 6, 2
FLOOR = 0.5  # one item, read once
SETTINGS = Settings(secret="0123456789abcdef0123456789abcdef")  # noqa: S106 (of cursors nobody reads)

METHOD = f"""Reads. Read units (RRU) by the rules AWS publishes, computed from the items and index pages \
that each call reads, eventually consistent as by default. Round trips are those one waits for: the \
longest chain of calls each of which began after the one before had its answer, with {1000 * LATENCY:g} ms \
added to every call; calls at the same time are one, and the fewest of {TRIES} tries count. Each figure is \
the dearest of the players at the best place, in the middle and at the last. Lists have 10 entries; a \
place is one in the middle of the board. No engine here takes a million players in reasonable time, so a \
table in memory answers the product's own calls, its nodes counted from the sorted scores. At {COMPARED:,} \
players an engine (dynoxide) holds the same board with the aggregates of a recount, and answers, units \
and calls must be equal, or the run fails (quick: {FEW} players). Each rank is compared with the number of \
better scores. Names of players and boards are UUIDs, scores lie from 0 to {crowds.MOST:,}. Clustered: 90% \
of the players in 1% of the range. Tied: ten different scores. The boards' operator is increment, whose \
tree has the most levels, for sums may grow to 10^15; the second table has other kinds. A process's first \
request for a board is one trip longer, for it has to learn the season: it is made before, and not \
counted. The published design (COUNT) asks for one page and stops; here its pages are followed to the \
right answer."""

Ask = Callable[[], Any]


class Read(NamedTuple):
    """What a question cost, and its answer."""

    units: float
    trips: int
    calls: int
    answer: Any


def questions(table: Table, board: CrowdedBoard, place: int) -> dict[str, Ask]:
    """Answer what can be asked for a player at a place, and for the place."""
    player = board.player_at(place)

    def entries(query: EntriesQuery) -> Ask:
        return lambda: standings.entries(table, board.name, query, SETTINGS, NOW)

    return {
        "rank": lambda: standings.standing(table, board.name, player, StandingQuery(), NOW),
        "top 10": entries(EntriesQuery()),
        "around": entries(EntriesQuery(around=player)),
        "place": entries(EntriesQuery(place=max(2, len(board.scores) // 2))),
    }


def ask(question: Ask, client: DynamoDBClient, reader: DynamoDBClient, latency: float = LATENCY) -> Read:
    """Ask: once for nothing, once for the units, some times for the round trips, of which the fewest count.

    `reader` is another client of the same table. A busy machine may begin a call later than it could, which
    makes trips more; calls that need each other's answers never overlap, so nothing makes them fewer.
    """
    question()
    with Meter(client, reader=reader) as meter:
        answer = question()
    chains = []
    for _ in range(TRIES):
        trips = RoundTrips()
        with trips.of(client, latency):
            question()
        chains.append(trips.in_sequence)
    return Read(meter.read_units, min(chains), meter.calls, answer)


def places(count: int) -> list[int]:
    """Answer the places of those who are asked for."""
    return [max(1, round(share * count)) for share in SHARES]


def ours(board: CrowdedBoard, asked: tuple[str, ...] = ()) -> dict[str, Read]:
    """Measure each question on a board in memory: the dearest. Raises Drifted for a rank that is wrong."""
    dearest: dict[str, Read] = {}
    with board.memory.client() as client, board.memory.client() as reader:
        table = Table("memory", client)
        for place in places(len(board.scores)):
            for name, question in questions(table, board, place).items():
                if asked and name not in asked:
                    continue
                read = ask(question, client, reader)
                if name == "rank" and read.answer.rank != (right := board.rank(read.answer.player)):
                    raise Drifted(f"{read.answer} and not {right}")
                before = dearest.get(name, read)
                units, trips = max(before.units, read.units), max(before.trips, read.trips)
                dearest[name] = read._replace(units=units, trips=trips)
    return dearest


def compare(engine: Engine, board: CrowdedBoard) -> None:
    """Ask an engine that holds the same board. Raises Drifted unless it says and costs what memory does."""
    with fresh_table(engine) as (table, _), board.memory.client() as client, board.memory.client() as reader:
        board.define(table)
        table.batch_put(board.items())
        memory = Table("memory", client)
        for place in places(len(board.scores)):
            there, here = questions(table, board, place), questions(memory, board, place)
            for name in there:
                on_engine = ask(there[name], table.client, table.client, latency=0)
                in_memory = ask(here[name], client, reader, latency=0)
                if on_engine._replace(trips=0) != in_memory._replace(trips=0):
                    raise Drifted(f"{name}, {place}: {on_engine} and not {in_memory}")


@contextmanager
def counted(scores: Mapping[str, int], event: str) -> Iterator[tuple[DynamoDBClient, DynamoDBClient]]:
    """Make two clients of the published design's table, in memory."""
    memory = Memory(
        lambda key: unpack(
            published_rank.runner(player := key.pk.removeprefix("USER#"), event, scores[player])
        )
    )
    entries = sorted((score, f"USER#{player}") for player, score in scores.items())
    memory.put_partition(f"EVENT#{event}", entries, f"EVENT#{event}")
    with memory.client() as client, memory.client() as reader:
        yield client, reader


def published(board: CrowdedBoard, place: int) -> Read:
    """Measure the published rank of the player at a place. Raises Drifted when it is wrong."""
    player = board.player_at(place)
    with counted(board.scores, board.name) as (client, reader), Meter(client, reader=reader) as meter:
        rank = published_rank.position(client, "memory", player, board.name)
        if rank != board.rank(player):
            raise Drifted(f"the published rank {rank} and not {board.rank(player)}")
        return Read(meter.read_units, meter.calls, meter.calls, rank)


def kinds(scores: Mapping[str, int]) -> Iterator[tuple[str, CrowdedBoard]]:
    """Yield boards of all kinds with the same players, and what they are."""
    told: dict[str, tuple[BoardBody, bool]] = {
        "increment: sums to 10^15, 8 levels": (POINTS, True),
        f"best, from 0 to {crowds.MOST:,}: 3 levels": (BEST, True),
        "set, the same": (LEVELS, True),
        "set, the score has changed in the last minute": (LEVELS, False),
        "increment, over 8 shards": (SHARDED, True),
    }
    for name, (body, is_settled) in told.items():
        changed = {} if is_settled else {"changed": times.epoch(NOW)}
        yield name, CrowdedBoard(body, scores, **changed)


class Reads(NamedTuple):
    """All that was measured: ours by scores and size, by kind of board; the published rank by size."""

    ours: dict[tuple[str, int], dict[str, Read]]
    kinds: dict[str, Read]
    published: dict[int, list[Read]]

    @property
    def largest(self) -> int:
        """Answer the size of the largest boards."""
        return max(self.published)


def measure(engine: Engine, quick: bool) -> Reads:
    """Measure every question for every distribution and size, kinds of boards, and the published rank.

    Raises Drifted when memory and engine disagree, or a rank is wrong.
    """
    sizes = SIZES[:1] if quick else SIZES
    found = Reads({}, {}, {})
    for distribution in ("uniform",) if quick else crowds.DISTRIBUTIONS:
        compare(engine, CrowdedBoard(POINTS, crowds.crowd(distribution, FEW if quick else COMPARED)))
        for size in sizes:
            board = CrowdedBoard(POINTS, crowds.crowd(distribution, size))
            found.ours[distribution, size] = ours(board)
            if distribution == "uniform":
                found.published[size] = [published(board, place) for place in (size // 2, size)]
    for kind, board in kinds(crowds.crowd("uniform", sizes[-1])):
        found.kinds[kind] = ours(board, ("rank",))["rank"]
    return found


def report(reads: Reads) -> Report:
    """Show what was measured, and judge the ranks on the largest boards."""
    columns = [column for name in NAMES for column in (name, "trips")]
    by_size = Figures(
        "Reads of increment boards: RRU, and round trips in sequence", ("scores", "players", *columns)
    )
    for at, found in reads.ours.items():
        by_size.rows.append(
            (*at, *(cell for name in NAMES for cell in (found[name].units, found[name].trips)))
        )
    by_kind = Figures(
        f"A rank among {reads.largest:,} players with uniform scores, by kind of board",
        ("board", "RRU", "trips"),
        [(kind, read.units, read.trips) for kind, read in reads.kinds.items()],
    )
    cost = Question("What does a rank cost, of a player in the middle?", "RRU, uniform scores")
    trips = Question("… and how many round trips, one after the other?", "round trips")
    plot = Plot("ranks", "What a rank costs, by the number of players", "players", "RRU a rank")
    plot.series = {"ours": [], "published, in the middle": [], "floor": []}
    for size, (middle, _) in reads.published.items():
        mine, players = reads.ours["uniform", size]["rank"], f"{size:,} players"
        cost.answers.append(Answer(players, mine.units, middle.units, FLOOR))
        trips.answers.append(Answer(players, mine.trips, middle.trips, 1))
        for points, units in zip(plot.series.values(), (mine.units, middle.units, FLOOR), strict=True):
            points.append((size, units))
    last = Figures(
        "The published rank (COUNT) of the last player",
        ("players", "RRU", "trips"),
        [(f"{size:,}", last.units, last.trips) for size, (_, last) in reads.published.items()],
    )
    ranks = [found["rank"] for (_, size), found in reads.ours.items() if size == reads.largest]
    judged = f"a rank, {reads.largest:,} players, the most of any distribution"
    said = Report([METHOD], [by_size, by_kind, last], questions=[cost, trips], plots=[plot])
    said.targets.append(Target(f"RRU of {judged}", max(read.units for read in ranks), UNITS))
    said.targets.append(Target(f"round trips of {judged}", max(read.trips for read in ranks), TRIPS))
    if 100_000 in reads.published:
        middle, mine = reads.published[100_000][0], reads.ours["uniform", 100_000]["rank"]
        times = middle.units / mine.units
        said.targets.append(
            Target("times the RRU, COUNT, in the middle of 100,000", times, 100, at_most=False)
        )
    return said
