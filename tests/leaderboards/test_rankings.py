"""Compare leaderboards with a sorted list under random changes, redelivery and reordering."""

from __future__ import annotations

import itertools
import random
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from threading import Event
from typing import Any, NamedTuple
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as examples
from hypothesis import strategies as st

from chalicelib import settings, times
from chalicelib.aggregates import engine as aggregates
from chalicelib.api import cursors
from chalicelib.api.auth import Caller
from chalicelib.concurrency import THREADS
from chalicelib.dynamo.table import Table
from chalicelib.leaderboards import boards, ranks, scores, standings
from chalicelib.leaderboards import queries as board_queries
from chalicelib.leaderboards.schemas import (
    BoardBody,
    BoardQuery,
    EntriesQuery,
    PercentileQuery,
    RankQuery,
    ScoreBody,
    SeasonBody,
    StandingQuery,
    StandingsQuery,
    Ties,
)
from chalicelib.ranking import deepening, positions, ranking, tree
from local.engines.engine import Engine
from tests.conftest import EngineTable
from tests.support.contexts import new_context
from tests.support.faults import instead
from tests.support.meter import Meter
from tests.support.records import Reader, drift, scan
from tests.support.round_trips import RoundTrips
from tests.support.tables import store_on

CONTRIBUTIONS = (scores.contribution,)
ADMIN = Caller("admin-1", admin=True, problem="")
STAGE = settings.read({"HUBBUB_SECRET": "0123456789abcdef0123456789abcdef"})
NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
LONG_AGO = NOW - timedelta(days=1)

BODIES = [
    BoardBody(title="points", max=Decimal(50)),
    BoardBody(title="mixed", decimals=2, min=Decimal("-9.99"), max=Decimal("9.99"), shards=3),
    BoardBody(title="strokes", max=Decimal(5), order="asc"),
    BoardBody(title="race", decimals=2, min=Decimal(1), max=Decimal(90), order="asc", operator="best"),
    BoardBody(title="jump", decimals=1, max=Decimal(9), operator="best", shards=2),
    BoardBody(title="level", min=Decimal(-2), max=Decimal(2), operator="set"),
    BoardBody(title="extreme", min=Decimal(-(10**15)), max=Decimal(10**15), operator="set", order="asc"),
    BoardBody(title="first sum", max=Decimal(2), ties="first", shards=2),
    BoardBody(title="first best", max=Decimal(3), operator="best", order="asc", ties="first"),
    BoardBody(title="first set", min=Decimal(-(10**15)), max=Decimal(10**15), operator="set", ties="first"),
]
# Every second board has each operator, several shards, both orders and both kinds of ties.
EACH_BODY = [
    pytest.param(body, marks=() if number % 2 else pytest.mark.long, id=body.title)
    for number, body in enumerate(BODIES)
]


def apply(table: Table, batch: list[Any]) -> None:
    """Deliver a batch, as app.py does."""
    changes = aggregates.apply(table, CONTRIBUTIONS, batch, now=NOW.timestamp).changes
    scores.follow(new_context(table), changes)
    deepening.follow(new_context(table, NOW), [scores.rank], changes)


class Submission(NamedTuple):
    player: str
    id: str
    value: int  # in hundredths of the range, so that both ends occur
    at: int  # minutes after LONG_AGO


class Model:
    """The model of a board: a dict of scores, sorted on each read."""

    def __init__(self, body: BoardBody) -> None:
        self.body = body
        self.seasons: list[dict[str, Decimal]] = [{}]
        self.times: dict[str, int] = {}  # of the scores
        self.ids: set[tuple[str, str]] = set()

    @property
    def scores(self) -> dict[str, Decimal]:
        return self.seasons[-1]

    def value(self, submission: Submission) -> Decimal:
        exact = self.body.min + (self.body.max - self.body.min) * submission.value / 100
        return round(exact, self.body.decimals) + 0

    def submit(self, submission: Submission) -> None:
        player, value = submission.player, self.value(submission)
        if (player, submission.id) in self.ids:
            return
        self.ids.add((player, submission.id))
        old = self.scores.get(player)
        if old is None or self.body.operator == "increment":
            self.scores[player] = (old or 0) + value
        elif self.body.operator == "best":
            self.scores[player] = max(old, value) if self.body.order == "desc" else min(old, value)
        elif submission.at >= self.times[player]:
            self.scores[player] = value
        score = self.scores[player]
        if old is None or (self.body.operator == "best" and old != score):
            self.times[player] = submission.at
        elif self.body.operator != "best":
            self.times[player] = max(self.times[player], submission.at)
        elif value == score:
            self.times[player] = min(self.times[player], submission.at)

    def remove(self, player: str) -> None:
        for season in self.seasons:
            season.pop(player, None)

    def rank(self, player: str) -> int:
        """Return the rank of a player, the best that it may be."""
        return 1 + sum(self.key(other) > self.key(player) for other in self.scores)

    def key(self, player: str) -> tuple[Decimal, int]:
        """Return the value that orders a player: the score, and the time where the earlier is ahead."""
        sign = 1 if self.body.order == "desc" else -1
        return sign * self.scores[player], -self.times[player] * (self.body.ties == "first")

    def ordered(self, season: int = -1) -> list[Decimal]:
        return sorted(self.seasons[season].values(), reverse=self.body.order == "desc")


class Board:
    """A board on an engine, with a stream that a test delivers."""

    def __init__(self, table: Table, reader: Reader, body: BoardBody) -> None:
        self.table, self.reader, self.body = table, reader, body
        self.name = f"b-{uuid4().hex}"
        self.delivered: list[dict[str, Any]] = []
        boards.define(new_context(table, LONG_AGO), self.name, body)

    def submit(self, submission: Submission, value: Decimal, now: datetime = LONG_AGO) -> Any:
        time = (LONG_AGO + timedelta(minutes=submission.at)).isoformat()
        body = ScoreBody(id=submission.id, value=value, time=time, player=submission.player)
        return scores.submit(
            new_context(self.table, max(now, LONG_AGO + timedelta(days=1))), self.name, body, ADMIN
        )

    def deliver(self, rng: random.Random | None = None) -> None:
        """Deliver the new records. With `rng`, repeat old records, shuffle, and use batches of any size."""
        new = self.reader.read()
        self.delivered += new
        if rng:
            new += rng.sample(self.delivered, rng.randint(0, len(self.delivered)))
            rng.shuffle(new)
        while new:
            size = rng.randint(1, 20) if rng else 100
            batch, new = new[:size], new[size:]
            apply(self.table, batch)

    def settle(self) -> None:
        """Deliver what is pending, and what its delivery writes, until the stream is empty."""
        while new := self.reader.read():
            self.delivered += new
            for first in range(0, len(new), 100):
                apply(self.table, new[first : first + 100])

    def standing(self, player: str, *, consistent: bool = False, season: int = 0) -> Any:
        query = StandingQuery(season=season, consistent=consistent)
        return standings.get(new_context(self.table, NOW + timedelta(hours=1)), self.name, player, query)

    def entries(self, **query: Any) -> list[tuple[int, str, Decimal]]:
        found = board_queries.list_entries(
            new_context(self.table, NOW, STAGE), self.name, EntriesQuery(**query)
        )
        return [(item.rank, item.player, item.score) for item in found.items]

    def pages(self, **query: Any) -> Iterator[tuple[int, str, Decimal]]:
        cursor = None
        while True:
            page_query = EntriesQuery(cursor=cursor, **query)
            page = board_queries.list_entries(new_context(self.table, NOW, STAGE), self.name, page_query)
            yield from ((item.rank, item.player, item.score) for item in page.items)
            cursor = page.cursor
            if cursor is None:
                return

    def pages_upwards(self, **query: Any) -> list[tuple[int, str, Decimal]]:
        """List what precedes the page of a query, from there to the top."""
        found, page = [], self.page(**query)
        while page.previous:
            page = self.page(**query | {"cursor": page.previous})
            found += [(item.rank, item.player, item.score) for item in reversed(page.items)]
        return found

    def page(self, **query: Any) -> Any:
        context = new_context(self.table, NOW, STAGE)
        return board_queries.list_entries(context, self.name, EntriesQuery(**query))

    def assert_answers(self, whole: list[tuple[int, str, Decimal]], every: int = 1) -> None:
        """Compare the rank of a score, the score at a percentile and the ranks among some with a list."""
        context, number = new_context(self.table, NOW, STAGE), len(whole)
        scale = boards.find(context, self.name).ranking.scale
        merits = [scale.merit(score) for _, _, score in whole]
        asked = {merit + by for merit in merits[::every] for by in (-1, 0, 1)} | {1, scale.span}
        for merit in asked:
            if 0 < merit <= scale.span:
                query = RankQuery(score=format(scale.score(merit), "f"))
                found = ranks.find_rank(context, self.name, query)
                equal = merits.count(merit)
                better = sum(other > merit for other in merits) + equal * (self.body.ties == "first")
                assert (found.rank, found.players, found.of) == (1 + better, equal, number)
        for percentile in (0, 0.01, 12.5, 50, 66.67, 95, 100):
            least = ranks.find_score(context, self.name, PercentileQuery(percentile=percentile))
            reached = [
                s for rank, _, s in whole if (number - rank + 1) * 100 >= Fraction(str(percentile)) * number
            ]
            assert (least.score, least.of) == (reached[-1] if whole else None, number)
        players = [player for _, player, _ in whole[::every]][:100]
        assert ranks.compare(context, self.name, StandingsQuery(players="nobody")).of == number
        names = StandingsQuery(players=",".join([*reversed(players), "nobody"]))
        listed = ranks.compare(context, self.name, names)
        chosen = [(rank, player, score) for rank, player, score in whole if player in set(players)]
        places = [rank for rank, _, _ in chosen]
        assert listed.of == number
        assert [(item.rank, item.player, item.score, item.among) for item in listed.items] == [
            (*entry, places.index(entry[0]) + 1) for entry in chosen
        ]

    def assert_equals(self, model: Model) -> None:
        """Compare the result of every read with the model."""
        assert drift(self.table, CONTRIBUTIONS) == {}
        season, ordered = len(model.seasons), model.ordered()
        board_ranking = boards.find(new_context(self.table, NOW), self.name).ranking
        tree.check(ranking.collect_nodes(board_ranking, scan(self.table)))
        assert boards.describe(new_context(self.table, NOW), self.name).players == len(ordered)
        whole = list(self.pages(limit=100))
        assert {(player, score) for _, player, score in whole} == set(model.scores.items())
        assert [(rank, score) for rank, _, score in whole] == list_ranks(self.body, ordered)
        keys = [model.key(player) for _, player, _ in whole]
        assert keys == sorted(keys, reverse=True)
        assert list(self.pages(limit=3)) == whole
        self.assert_answers(whole, every=max(1, len(whole) // 3))
        for place in {1, len(whole) // 2 + 1, len(whole) + 1}:
            assert self.pages_upwards(place=place, limit=3) == whole[: place - 1][::-1]
        if cursor := self.page(limit=3).cursor:
            assert self.pages_upwards(cursor=cursor, limit=3) == whole[:3][::-1]
        for place in range(1, len(whole) + 2):
            assert self.entries(place=place, limit=2) == whole[place - 1 :][:2]
        for i, (rank, player, score) in enumerate(whole):
            found = self.standing(player)
            assert (found.score, found.rank, found.of) == (score, rank, len(whole))
            better = [abs(score - other) for other in ordered[: rank - 1] if other != score]
            assert found.to_next == (min(better) if better else None)
            assert self.standing(player, consistent=True, season=season) == found
            start = max(0, min(i - 1, len(whole) - 3))
            assert self.entries(around=player, limit=3) == whole[start : start + 3]
        buckets = board_queries.get_distribution(new_context(self.table, NOW), self.name, BoardQuery()).items
        for bucket in buckets:
            assert bucket.players == sum(bucket.from_ <= score <= bucket.to for score in ordered)
        assert sum(bucket.players for bucket in buckets) == len(ordered)
        for past in range(1, season):
            listed = [score for _, _, score in self.entries(season=past, limit=100)]
            assert listed == model.ordered(past - 1)


def list_ranks(body: BoardBody, ordered: list[Any]) -> list[tuple[int, Any]]:
    """Return sorted scores with their ranks."""
    if body.ties == "first":
        return list(enumerate(ordered, 1))
    return [(ordered.index(score) + 1, score) for score in ordered]


class Crowd(Board):
    """A board of many players whose scores are written at once, without their activities."""

    def __init__(self, table: Table, reader: Reader, body: BoardBody) -> None:
        super().__init__(table, reader, body)
        self.moved: dict[str, int] = {}  # the minutes of the latest submissions

    def place(self, values: dict[str, int], depth: int = 1) -> None:
        """Write scores as submissions would that know nothing of the tree."""
        board_ranking = boards.find(new_context(self.table, NOW), self.name).ranking
        fields = {
            "scale": list(board_ranking.scale),
            "shards": board_ranking.shards,
            "time": "",
            "version": 1,
            "depth": depth,
        }
        self.table.batch_put(
            scores.score_key(self.name, 1, player)._asdict()
            | fields
            | {"score": value}
            | ranking.index_key(board_ranking, player, self.number(player, value))
            for player, value in values.items()
        )

    def submit(self, submission: Submission, value: Decimal, now: datetime = LONG_AGO) -> Any:
        self.moved[submission.player] = submission.at
        return super().submit(submission, value, now)

    def number(self, player: str, value: int) -> int:
        """Return the number of a player, whose score was written at once or submitted."""
        time = LONG_AGO - timedelta(seconds=zlib.crc32(player.encode()) % 10**6)
        if player in self.moved:
            time = LONG_AGO + timedelta(minutes=self.moved[player])
        board_ranking = boards.find(new_context(self.table, NOW), self.name).ranking
        return board_ranking.number(board_ranking.scale.merit(value), player, times.milliseconds(time))

    def assert_exact(self, values: dict[str, int], sample: int = 12) -> None:
        """Compare ranks, places and the list with those of the sorted values, and check the tree."""
        assert drift(self.table, CONTRIBUTIONS) == {}
        board_ranking = boards.find(new_context(self.table, NOW), self.name).ranking
        items = scan(self.table)
        tree.check(ranking.collect_nodes(board_ranking, items))
        ordered = sorted(values.values(), reverse=True)
        whole = list(self.pages(limit=100))
        assert {player: int(score) for _, player, score in whole} == values
        assert [(rank, int(score)) for rank, _, score in whole] == list_ranks(self.body, ordered)
        numbers = [self.number(player, int(score)) for _, player, score in whole]
        assert numbers == sorted(numbers, reverse=True)
        self.assert_answers(whole, every=max(1, len(whole) // sample))
        if len(whole) > 20:
            assert self.pages_upwards(place=len(whole), limit=20) == whole[:-1][::-1]
        for place in range(1, len(whole) + 1, max(1, len(whole) // sample)):
            assert self.entries(place=place, limit=3) == whole[place - 1 :][:3]
            found = self.standing(whole[place - 1][1])
            assert (found.rank, found.of) == (whole[place - 1][0], len(whole))
            assert whole[place - 1] in self.entries(around=whole[place - 1][1], limit=3)
        buckets = board_queries.get_distribution(new_context(self.table, NOW), self.name, BoardQuery()).items
        assert sum(bucket.players for bucket in buckets) == len(values)
        for bucket in buckets:
            assert bucket.players == sum(bucket.from_ <= value <= bucket.to for value in ordered)

    def largest_bucket(self) -> int:
        """Return the number of players in the largest bucket that could be divided."""
        found = Counter(entry.bucket for item in scan(self.table) if (entry := scores.rank(item)))
        return max(found.values(), default=0)


PLAYERS = st.sampled_from(["ann", "bob", "çem", "dee", "eve", "flo"])
SUBMISSIONS = st.builds(
    Submission,
    PLAYERS,
    st.sampled_from("123456"),
    st.sampled_from([0, 50, 100]) | st.integers(0, 100),
    st.integers(0, 3),
)
CHANGES = st.lists(
    st.one_of(*[SUBMISSIONS] * 6, PLAYERS, st.sampled_from([Event, None])), min_size=4, max_size=40
)


@pytest.fixture
def store(engine_table: EngineTable) -> tuple[Table, Reader]:
    engine, name, stream_arn = engine_table
    return Table(name, engine.client("dynamodb")), Reader(engine.client("dynamodbstreams"), stream_arn)


def play(store: tuple[Table, Reader], body: BoardBody, changes: list[Any], seed: int) -> None:
    """Apply the changes to a board and to its model, with deliveries between them, and compare the two."""
    rng, model, board = random.Random(seed), Model(body), Board(*store, body)
    for change in changes:
        if isinstance(change, Submission):
            model.submit(change)
            result, _ = board.submit(change, model.value(change))
            assert result.score == model.scores.get(change.player)
        elif isinstance(change, str):
            model.remove(change)
            scores.remove_player(new_context(board.table, NOW), board.name, change, ADMIN)
        elif change is Event:
            boards.end_season(
                new_context(board.table, NOW), board.name, SeasonBody(season=len(model.seasons))
            )
            model.seasons.append({})
        else:
            board.deliver(rng)
    board.deliver(rng)
    board.deliver(rng)
    board.settle()
    board.assert_equals(model)


A_FEW = examples(
    max_examples=15,
    deadline=None,
    database=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
any_game = given(st.sampled_from(BODIES), CHANGES, st.integers(0, 2**32))


@A_FEW
@any_game
def test_a_board_equals_the_model_after_random_changes(
    store: tuple[Table, Reader], body: BoardBody, changes: list[Any], seed: int
) -> None:
    play(store, body, changes, seed)


@pytest.mark.long
@examples(A_FEW, max_examples=300)
@any_game
def test_a_board_equals_the_model_after_300_random_games(
    store: tuple[Table, Reader], body: BoardBody, changes: list[Any], seed: int
) -> None:
    play(store, body, changes, seed)


@pytest.mark.parametrize("body", EACH_BODY)
def test_a_board_with_one_player_or_none_equals_the_model(
    store: tuple[Table, Reader], body: BoardBody
) -> None:
    play(store, body, [], 1)
    play(store, body, [Submission("ann", "1", 100, 0)], 2)
    play(store, body, [Submission("ann", "1", 0, 0), None, "ann"], 3)


@pytest.mark.parametrize("body", EACH_BODY)
def test_a_pending_change_of_the_players_own_is_ranked_by_the_new_score(
    store: tuple[Table, Reader], body: BoardBody
) -> None:
    """The rank is that of the new score. With several pending changes it may be one better, never worse."""
    rng, board = random.Random(7), Board(*store, body)
    model = Model(body)
    for i, player in enumerate(["ann", "bob", "cem", "dee", "eve"]):
        first = Submission(player, "first", 20 * i, i)
        model.submit(first)
        board.submit(first, model.value(first))
    board.deliver()
    for i in range(12):
        change = Submission("cem", f"later-{i}", rng.randint(0, 100), i + 5)
        before = board.standing("cem").rank
        model.submit(change)
        board.submit(change, model.value(change))
        after = model.rank("cem")
        for consistent in (False, True):
            found = board.standing("cem", consistent=consistent)
            assert (found.rank, found.of) == (after, 5) or (i % 3 and found.rank == after - 1), (before, i)
        if i % 3 == 2:
            board.settle()
    board.deliver()
    board.assert_equals(model)


def test_a_loss_is_passed_in_whatever_order_its_records_come(store: tuple[Table, Reader]) -> None:
    board, model = Board(*store, BODIES[1]), Model(BODIES[1])
    for change in (Submission("ann", "1", 50, 0), Submission("ann", "2", 0, 0)):
        model.submit(change)
        board.submit(change, model.value(change))
    apply(board.table, board.reader.read()[::-1])
    board.settle()
    board.assert_equals(model)


@pytest.fixture(scope="module", params=["shared", pytest.param("first", marks=pytest.mark.long)])
def crowd(engine: Engine, request: pytest.FixtureRequest) -> Iterator[Crowd]:
    """A board of 760 players with buckets of every depth, and long ties beside short ones."""
    with store_on(engine) as store:
        board = Crowd(*store, BoardBody(title="crowd", max=Decimal(50), ties=request.param))
        board.place(
            {f"p{i}": 7 for i in range(300)}
            | {f"q{i}": i % 5 for i in range(200)}
            | {f"r{i}": 10**6 + i // 15 for i in range(200)}
            | {f"s{i}": 10**9 * i for i in range(60)}
        )
        board.settle()
        yield board


def test_a_page_can_begin_at_any_place_inside_a_tie_of_hundreds(crowd: Crowd) -> None:
    whole = list(crowd.pages(limit=100))
    scores = [score for _, _, score in whole]
    assert scores == sorted(scores, reverse=True)
    assert [(rank, score) for rank, _, score in whole] == list_ranks(crowd.body, scores)
    assert len({player for _, player, _ in whole}) == 760
    begin = scores.index(Decimal(7))
    end = begin + 300
    assert scores[begin:end] == [7] * 300
    for place in (*range(begin, end, 27), end - 1, end, end + 1):
        assert crowd.entries(place=place, limit=3) == whole[place - 1 :][:3]


def test_a_list_goes_on_from_every_entry_whatever_depth_its_cursor_has(crowd: Crowd) -> None:
    """The depth decides what is read, and not what is found, also where a node is not full yet."""
    ranked = boards.find(new_context(crowd.table, NOW), crowd.name).ranking
    whole = list(crowd.pages(limit=100))
    numbers = [crowd.number(player, int(score)) for _, player, score in whole]
    scope = ("entries", crowd.name, "0", "0", "")
    for position in (f"[1, {numbers[9]}, 0]", f"[1, {numbers[9]}, 3]"):
        assert crowd.entries(limit=5, cursor=cursors.encode(STAGE, scope, position)) == whole[10:15]
    items = scan(crowd.table)
    rng, nodes = random.Random(3), ranking.collect_nodes(ranked, items)
    prefixes = sorted(nodes)
    for filling in ([], prefixes[1::3], prefixes[1:]):
        for prefix in filling:
            key, above = (ranking.node_key(ranked, begin) for begin in (prefix, prefix[:-2]))
            given: Any = {"names": {"#counter": max(nodes[prefix].counters)}, "values": {":few": 1}}
            crowd.table.update(key, "SET #counter = :few", **given)
            given = {"names": {"#full": "full"}, "values": {":digits": {prefix[-2:]}}}
            crowd.table.update(above, "DELETE #full :digits", **given)
        for i in range(760):
            is_tied = ranked.is_shared and i < 759 and whole[i][2] == whole[i + 1][2]
            is_last_of_tie = is_tied and whole[i][2] != whole[min(i + 3, 759)][2]
            if i % 114 and not is_last_of_tie:
                continue
            below = (-numbers[i] if is_tied else numbers[i], rng.choice([0, 1, rng.randint(2, 12)]))
            page = positions.list_ranked(crowd.table, ranked, 4, positions.Start(below))
            found = [(item.rank, item.entry.player) for item in page.items]
            assert found == [entry[:2] for entry in whole[i + 1 : i + 5]], (i, below)
    crowd.table.batch_put(items)


def test_a_page_around_every_kind_of_neighbor_is_a_part_of_the_list(crowd: Crowd) -> None:
    whole, trips_of = list(crowd.pages(limit=100)), []
    for limit, i in itertools.product((2, 10), range(0, 760, 38)):
        start = max(0, min(i - limit // 2, 760 - limit))
        # On a busy machine, calls that begin together would seem to follow each other if they were shorter.
        with (trips := RoundTrips()).count(crowd.table.client, 0.05):
            assert crowd.entries(around=whole[i][1], limit=limit) == whole[start : start + limit], i
        trips_of.append(trips.in_sequence)
    assert Counter(trips_of)[2] >= (38 if crowd.body.ties == "shared" else 30), trips_of


def test_a_next_page_costs_two_round_trips_and_at_most_5_rcu(crowd: Crowd) -> None:
    """A page that leaves the bucket it follows may take another trip."""
    whole = list(crowd.pages(limit=100))
    for query in ({"place": 100}, {"place": 400}, {"around": whole[300][1]}, {}):
        trips_of, cursor = [], None
        for _ in range(14):
            following: dict[str, Any] = {"limit": 10, "cursor": cursor, **query}
            with Meter(crowd.table.client) as meter:
                crowd.entries(**following)
            with (trips := RoundTrips()).count(crowd.table.client, 0.02):
                page = board_queries.list_entries(
                    new_context(crowd.table, NOW, STAGE), crowd.name, EntriesQuery(**following)
                )
            trips_of.append(trips.in_sequence)
            cursor = page.cursor
            assert meter.read_units <= 5
        assert Counter(trips_of[1:])[2] >= 11, trips_of


def test_a_place_is_found_in_two_round_trips_by_the_nodes_that_the_process_has_seen(
    store: tuple[Table, Reader],
) -> None:
    """The nodes are a guess: the page is right when players have moved since, and in another season."""
    positions._seen_nodes.cache_clear()
    board = Crowd(*store, BODIES[0])
    board.place({f"p{i}": 7 for i in range(200)} | {f"q{i}": i % 5 for i in range(150)})
    board.settle()
    whole = list(board.pages(limit=100))
    for most in (4, 2):
        for place in (100, 250):
            with (trips := RoundTrips()).count(board.table.client, 0.02):
                assert board.entries(place=place, limit=3) == whole[place - 1 :][:3]
            assert trips.in_sequence <= most
    assert trips.in_sequence == 2
    for i in range(0, 200, 10):
        board.submit(Submission(f"p{i}", "1", 0, 0), Decimal(30))
    board.settle()
    changed = list(board.pages(limit=100))
    for place in (50, 100, 150, 250, 350):
        assert board.entries(place=place, limit=3) == changed[place - 1 :][:3]
    boards.end_season(new_context(board.table, NOW), board.name, SeasonBody(season=1))
    assert board.entries(place=100) == []


@pytest.mark.long
def test_the_ranks_around_a_player_are_right_where_long_ties_meet(store: tuple[Table, Reader]) -> None:
    board = Crowd(*store, BODIES[0])
    scores = {"p": (7, 300), "q": (6, 40), "r": (5, 1), "s": (4, 20)}
    board.place({f"{name}{i}": score for name, (score, count) in scores.items() for i in range(count)})
    board.settle()
    whole = list(board.pages(limit=100))
    assert [rank for rank, _, _ in whole] == [*[1] * 300, *[301] * 40, 341, *[342] * 20]
    assert list(board.pages(limit=7)) == whole
    places = (1, 2, 6, 150, 295, 299, 300, 301, 302, 306, 320, 339, 340, 341, 342, 343, 350, 360, 361)
    for place, limit in itertools.product(places, (1, 3, 10)):
        start = max(0, min(place - 1 - limit // 2, len(whole) - limit))
        around = board.entries(around=whole[place - 1][1], limit=limit)
        assert around == whole[start : start + limit], (place, limit)


def test_uneven_shards_are_merged_in_order(store: tuple[Table, Reader]) -> None:
    board = Board(*store, BODIES[1])
    alike = [f"p{i}" for i in range(200) if zlib.crc32(f"p{i}".encode()) % 3 == 0]
    players = [*alike[:30], "q1", "q2"]
    for i, player in enumerate(players):
        board.submit(Submission(player, "1", 0, 0), Decimal(i) / 10)
    board.deliver()
    wanted = [(i + 1, player) for i, player in enumerate(reversed(players))]
    assert [(rank, player) for rank, player, _ in board.entries(limit=25)] == wanted[:25]
    assert [(rank, player) for rank, player, _ in board.pages(limit=25)] == wanted
    middle = board.entries(around=players[15], limit=25)
    assert [(rank, player) for rank, player, _ in middle] == wanted[4:29]


# -- races ---------------------------------------------------------------------------------------------


def test_many_concurrent_rank_reads_of_a_sharded_board_do_not_deadlock(
    store: tuple[Table, Reader],
) -> None:
    """There are more callers than reading threads. No caller may hold a thread while it waits for another."""
    board = Board(*store, BODIES[1])
    for i in range(4):
        board.submit(Submission(f"p{i}", "1", 0, 0), Decimal(i))
    board.deliver()
    with ThreadPoolExecutor(3 * THREADS) as pool:
        futures = [pool.submit(board.standing, f"p{i % 4}") for i in range(6 * THREADS)]
        assert [future.result(60).rank for future in futures] == [4 - i % 4 for i in range(6 * THREADS)]


# -- cost of changes -----------------------------------------------------------------------------------


def test_a_gain_inside_a_bucket_writes_no_counter(store: tuple[Table, Reader]) -> None:
    board = Board(*store, BODIES[0])
    for i in range(5):
        board.submit(Submission(f"p{i}", "1", 0, 0), Decimal(i))
    board.settle()
    root_key = ranking.node_key(boards.find(new_context(board.table, NOW), board.name).ranking, "")
    root = board.table.get(root_key)
    with instead(board.table, "TransactWriteItems") as transactions, instead(board.table, "PutItem") as puts:
        board.submit(Submission("p0", "2", 0, 0), Decimal(7))
        board.settle()
    assert (len(transactions), len(puts)) == (0, 2)
    assert board.table.get(root_key) == root


# -- growth --------------------------------------------------------------------------------------------


GROWTHS: dict[str, Callable[[random.Random], int]] = {
    "uniform": lambda rng: rng.randint(0, 9_999),
    "Zipf": lambda rng: int(10_000 ** rng.random()) - 1,
    "clustered": lambda rng: rng.randint(5_000, 5_009) if rng.random() < 0.9 else rng.randint(0, 9_999),
    "tied": lambda rng: 1_000 * rng.randint(0, 2),
}


@pytest.fixture
def small_buckets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make buckets of at most 4 players, so that a few players need a deep tree."""
    monkeypatch.setattr(tree, "LIMIT", 4)
    monkeypatch.setattr(deepening, "STEP", 7)


@pytest.mark.usefixtures("small_buckets")
@pytest.mark.parametrize("growth", GROWTHS)
@pytest.mark.parametrize("ties", ["shared", "first"])
@pytest.mark.long
def test_a_board_that_grows_is_exact_and_its_buckets_are_small(
    store: tuple[Table, Reader], growth: str, ties: Ties
) -> None:
    rng, board = random.Random(growth), Crowd(*store, BoardBody(title="crowd", operator="set", ties=ties))
    values: dict[str, int] = {}
    for number in range(1, 61):
        player = f"p{rng.randrange(45)}"
        values[player] = GROWTHS[growth](rng)
        board.submit(Submission(player, f"{number}", 0, number), Decimal(values[player]))
        if number % 3 == 0:
            board.deliver(rng)
    board.settle()
    board.assert_exact(values)
    assert board.largest_bucket() <= 4


@pytest.mark.usefixtures("small_buckets")
@pytest.mark.parametrize("ties", ["shared", "first"])
def test_a_board_stays_exact_when_all_move_into_one_percent_and_when_it_collapses(
    store: tuple[Table, Reader], ties: Ties
) -> None:
    rng, board = random.Random(5), Crowd(*store, BoardBody(title="crowd", operator="set", ties=ties))
    values = {f"p{number}": rng.randint(0, 9_999) for number in range(40)}
    board.place(values)
    board.settle()
    for number, player in enumerate(values):
        values[player] = rng.randint(7_000, 7_099)
        board.submit(Submission(player, "moved", 0, number), Decimal(values[player]))
    board.settle()
    board.assert_exact(values)
    for player in list(values)[3:]:
        scores.remove_player(new_context(board.table, NOW), board.name, player, ADMIN)
        del values[player]
    board.settle()
    board.assert_exact(values)


@pytest.mark.usefixtures("small_buckets")
def test_a_rank_is_exact_at_every_moment_of_a_deepening(store: tuple[Table, Reader]) -> None:
    """The scores do not change meanwhile, so each rank is that of the sorted scores after any record."""
    rng, board = random.Random(11), Crowd(*store, BoardBody(title="crowd", operator="set"))
    values = {f"p{number}": rng.randint(0, 9_999) for number in range(30)}
    board.place(values)
    records = board.reader.read()
    changes = aggregates.apply(board.table, CONTRIBUTIONS, records, now=NOW.timestamp).changes
    ordered = sorted(values.values(), reverse=True)
    deepening.follow(new_context(board.table, NOW), [scores.rank], changes)
    moments = 0
    while records := board.reader.read():
        for record in records:
            apply(board.table, [record])
            for player in rng.sample(list(values), 3):
                assert board.standing(player).rank == ordered.index(values[player]) + 1
            moments += 1
    assert moments > 30


@pytest.mark.parametrize("depths", [(1, 0), (1, 2), (1, 2, 0)], ids=["gone", "deeper", "deeper and gone"])
def test_a_node_is_full_once_the_last_shallow_player_of_its_bucket_has_left(
    store: tuple[Table, Reader], depths: tuple[int, ...]
) -> None:
    """Nobody comes to the bucket any more, so the change of the one who leaves is the last one to tell.

    The player has these depths, one after the other, in one batch.
    """
    table, _ = store
    whole = ranking.Ranking("BOARD#left#1", tree.Scale(0, 999_999, 0, descending=True), 1)
    number = whole.number(500_000, "ann")
    bucket = tree.bucket(whole.scale.path(number), 1)
    root, node = ranking.node_key(whole, ""), ranking.node_key(whole, bucket)
    ranks = [lambda item: ranking.Ranked(whole, "ann", number, item["depth"])]
    images = [{"depth": depth} if depth else {} for depth in depths]
    left: list[Any] = [(scores.score_key("left", 1, "ann"), *pair) for pair in itertools.pairwise(images)]
    table.put(node._asdict() | {"49": 2})
    for shallow in (1, 0):
        table.put(root._asdict() | {bucket: 2 * tree.DEEP + shallow})
        deepening.follow(new_context(table, NOW), ranks, left)
        is_marked = bucket in (table.get(root, consistent=True) or {}).get("full", ())
        assert is_marked == (not shallow)
