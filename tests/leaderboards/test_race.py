"""A real race: each rank is the official place, or the file itself explains the difference.

The file lists 22,690 finishers with official places and times to 0.01 minute. A rank is one plus the number
of finishers with a strictly better time. So the rank of each runner must be

    place - places left out before - equal times listed before
          - slower ones listed before + faster ones listed after + athletes on wheels and faster

All terms but the rank are counted in the file. CAUSES has the number of finishers for each combination of
terms that are not zero.
"""

from __future__ import annotations

import bisect
import csv
import gzip
import io
import re
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

import pytest

import app
from chalicelib import settings
from chalicelib.aggregates import sums
from chalicelib.dynamo.items import Item
from chalicelib.dynamo.table import Table
from chalicelib.leaderboards import boards, scores
from chalicelib.leaderboards import queries as board_queries
from chalicelib.leaderboards.boards import Board
from chalicelib.leaderboards.schemas import BoardBody, EntriesQuery, StandingQuery
from chalicelib.leaderboards.scores import Submission
from chalicelib.ranking import ranking, tree
from local.engines.engine import Engine
from ops.aws.template import create_table
from ops.imports.scores import Columns, Outcome, read, wait, write
from tests.conftest import EngineTable
from tests.histories.world import Killed
from tests.support.contexts import new_context
from tests.support.faults import instead
from tests.support.records import Reader, drift

ROOT = Path(__file__).parents[2]
FILE = ROOT / "tests" / "data" / "race-2010.csv.gz"
NOW = datetime(2026, 11, 21, 10, 0, tzinfo=UTC)
RACE = BoardBody(
    title="City marathon",
    unit="minutes",
    decimals=2,
    min=Decimal(60),
    max=Decimal(600),
    order="asc",
    operator="best",
)
CAUSES = {
    "none": 4_069,  # the rank is the place
    "equal times": 10_254,  # the places are by more than 0.01 minute; equal times share the best rank
    "places left out": 3_852,  # nobody has the places 14593 and 14597, so later finishers are better
    "places left out, equal times": 4_226,
    "slower before": 57,  # listed after R17323, who was slower
    "equal times, slower before": 211,
    "faster after": 1,  # R17323, listed at 224.97 minutes among those of 223.98
    "on wheels": 20,  # R201 to R223 have places of their own, 1 to 20
}


class Finisher(NamedTuple):
    """A row of the file."""

    place: int
    bib: str
    minutes: Decimal

    @property
    def on_wheels(self) -> bool:
        return re.fullmatch(r"R2[0-2]\d", self.bib) is not None and self.bib != "R200"


def read_lines() -> list[bytes]:
    return gzip.decompress(FILE.read_bytes()).splitlines(keepends=True)


@cache
def read_finishers() -> list[Finisher]:
    rows = csv.DictReader(io.StringIO(b"".join(read_lines()).decode()))
    return [Finisher(int(row["place"]), row["bib"], Decimal(row["minutes"])) for row in rows]


# -- the terms -----------------------------------------------------------------------------------------


class Terms(NamedTuple):
    """The terms of the difference between the place and the rank of a finisher on foot, from the file."""

    left_out: int  # number of unassigned places before this one
    equal: int  # number of finishers with the same time, listed before
    slower: int  # number of slower finishers, listed before
    faster: int  # number of faster finishers, listed after

    @property
    def causes(self) -> str:
        """Return the names of the terms that are not zero."""
        names = ("places left out", "equal times", "slower before", "faster after")
        return ", ".join(name for name, number in zip(names, self, strict=True) if number) or "none"


def compute_terms(listed: list[Finisher]) -> dict[str, Terms]:
    """Return each finisher's terms, computed from the order of the list alone."""
    after = sorted(one.minutes for one in listed)
    before: list[Decimal] = []
    found = {}
    for number, one in enumerate(listed):
        del after[bisect.bisect_left(after, one.minutes)]
        equal = bisect.bisect_right(before, one.minutes) - bisect.bisect_left(before, one.minutes)
        found[one.bib] = Terms(
            left_out=one.place - 1 - number,
            equal=equal,
            slower=len(before) - bisect.bisect_right(before, one.minutes),
            faster=bisect.bisect_left(after, one.minutes),
        )
        bisect.insort(before, one.minutes)
    return found


def count_causes(ranks: Mapping[str, int]) -> Counter[str]:
    """Check every rank against the finisher's terms. Return the number of finishers by cause."""
    assert ranks.keys() == {one.bib for one in read_finishers()}
    wheels = [one for one in read_finishers() if one.on_wheels]
    found = compute_terms([one for one in read_finishers() if not one.on_wheels])
    causes: Counter[str] = Counter()
    for one in read_finishers():
        faster_wheels = sum(other.minutes < one.minutes for other in wheels)
        if one.on_wheels:
            ahead = sum(ranks[other.bib] < ranks[one.bib] for other in wheels)
            assert one.place == 1 + ahead == 1 + faster_wheels, one
            causes["on wheels"] += 1
            continue
        left_out, equal, slower, faster = found[one.bib]
        explained = one.place - left_out - equal - slower + faster + faster_wheels
        assert ranks[one.bib] == explained, (one, found[one.bib])
        causes[found[one.bib].causes] += 1
    return causes


# -- ranks ---------------------------------------------------------------------------------------------


def read_submissions(board: Board, rows: int = 22_690) -> list[Submission]:
    found = read(read_lines()[: rows + 1], Columns("bib", "minutes"), board, NOW)
    return [one for one in found if isinstance(one, Submission)]


def build_score(board: Board, one: Submission) -> Item:
    """Return the score item that a first submission creates."""
    key = scores.score_key(board.name, board.season, one.player)._asdict()
    fields = {"score": one.value, "scale": list(board.scale), "shards": board.shards}
    path = board.ranking.scale.path(board.ranking.number(board.scale.merit(one.value), one.player))
    return key | fields | {"depth": board.scale.score_levels(path)}


@pytest.mark.long
def test_every_rank_in_the_tree_of_the_whole_race_is_accounted_for() -> None:
    """The product's own contribution and rank functions are used, without an engine."""
    fields = {name: getattr(RACE, name) for name in RACE.__struct_fields__}
    board = Board(**fields, name="race", season=1, started="2026-11-21T10:00:00Z")
    given = read_submissions(board)
    nodes: dict[str, dict[str, int]] = {}
    root = ranking.node_key(board.ranking, "").pk
    items = (build_score(board, one) for one in given)
    for (key, digits), count in sums.recount([scores.contribution], items).items():
        assert isinstance(count, int)
        nodes.setdefault(key.pk.removeprefix(root), {})[digits] = count
    full = {prefix: tree.Node(counters) for prefix, counters in nodes.items()}
    assert full[""].total() == len(given)
    ranks = {}
    for one in given:
        ranked = scores.rank(build_score(board, one))
        assert ranked
        ranks[one.player] = 1 + tree.count_better(ranked.path, ranked.depth, full)
    causes = count_causes(ranks)
    assert causes == CAUSES


def list_ranks(table: Table) -> dict[str, int]:
    """Read the whole leaderboard page by page, as a client does. Return the listed ranks."""
    found: dict[str, int] = {}
    cursor = None
    while True:
        query = EntriesQuery(limit=100, cursor=cursor)
        page = board_queries.list_entries(new_context(table, settings=settings.current()), "race", query)
        assert not found.keys() & {one.player for one in page.items}
        found |= {one.player: one.rank for one in page.items}
        if page.cursor is None:
            return found
        cursor = page.cursor


def get_rank(table: Table, player: str) -> int:
    return board_queries.get_standing(new_context(table), "race", player, StandingQuery()).rank


def test_the_first_200_rows_are_imported_and_ranked_as_a_sorted_list(
    engine_table: EngineTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, name, stream_arn = engine_table
    table = Table(name, engine.client("dynamodb"))
    boards.define(new_context(table, NOW), "race", RACE)
    given = read_submissions(boards.find(new_context(table, NOW), "race"), 200)
    assert write(table, "race", given).outcomes.total() == 200
    monkeypatch.setattr(app, "connect", lambda: table)
    stream = Reader(engine.client("dynamodbstreams"), stream_arn)
    while records := stream.read():
        app.apply({"Records": records}, None)
    assert drift(table, app.CONTRIBUTIONS) == {}
    times = sorted(one.value for one in given)
    right = {one.player: 1 + bisect.bisect_left(times, one.value) for one in given}
    assert list_ranks(table) == right
    assert {player: get_rank(table, player) for player in [*right][::10]} == dict([*right.items()][::10])


@pytest.mark.long
def test_the_whole_race_is_imported_on_an_engine_and_every_rank_is_accounted_for(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first two imports are killed before they end. The third one completes them."""
    made = create_table(engine.client("dynamodb"), "dev", name=f"test-{uuid4().hex}")
    table = Table(made.name, engine.client("dynamodb"))
    boards.define(new_context(table, NOW), "race", RACE)
    given = read_submissions(boards.find(new_context(table, NOW), "race"))
    for number in (800, 400):  # of 1,853 requests with up to 25 activities or scores
        with (
            instead(table, "BatchExecuteStatement", *[None] * number, Killed()),
            pytest.raises(Killed),
        ):
            write(table, "race", given)
    became = write(table, "race", given).outcomes
    assert became[Outcome.KNOWN] > 10_000
    assert became[Outcome.KNOWN] + became[Outcome.NEW] == 22_690
    monkeypatch.setattr(app, "connect", lambda: table)
    stream = Reader(engine.client("dynamodbstreams"), made.stream_arn)
    while records := stream.read():
        for start in range(0, len(records), 1000):
            app.apply({"Records": records[start : start + 1000]}, None)
    assert drift(table, app.CONTRIBUTIONS) == {}
    board = boards.find(new_context(table, NOW), "race")
    assert wait(table, board, [one.player for one in given], lambda done: None)
    ranks = list_ranks(table)
    causes = count_causes(ranks)
    assert causes == CAUSES
    assert {player: get_rank(table, player) for player in [*ranks][::100]} == dict([*ranks.items()][::100])
    engine.client("dynamodb").delete_table(TableName=made.name)
