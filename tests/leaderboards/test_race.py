"""A real race: everybody's rank is the official place, or the file itself says why it is not."""

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
from chalicelib.dynamo.items import Item, Key
from chalicelib.dynamo.table import Table
from chalicelib.leaderboards import boards
from chalicelib.leaderboards import queries as board_queries
from chalicelib.leaderboards import scores as leaderboards
from chalicelib.leaderboards.boards import Board
from chalicelib.leaderboards.schemas import BoardBody
from chalicelib.leaderboards.score_schemas import EntriesQuery, StandingQuery
from chalicelib.leaderboards.scores import Submission
from chalicelib.ranking import ranking
from local.engines.engine import Engine
from ops.aws.template import create_table
from ops.imports.scores import Columns, Outcome, read, wait, write
from proof.world import Killed
from tests.conftest import EngineTable
from tests.support.faults import instead
from tests.support.records import Reader, drift

ROOT = Path(__file__).parents[2]
FILE = ROOT / "tests" / "data" / "race-2010.csv.gz"
PAGE = ROOT / "docs" / "race.md"
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


class Finisher(NamedTuple):
    """A row of the file."""

    place: int
    bib: str
    minutes: Decimal

    @property
    def on_wheels(self) -> bool:
        return re.fullmatch(r"R2[0-2]\d", self.bib) is not None and self.bib != "R200"


def lines() -> list[bytes]:
    return gzip.decompress(FILE.read_bytes()).splitlines(keepends=True)


@cache
def finishers() -> list[Finisher]:
    rows = csv.DictReader(io.StringIO(b"".join(lines()).decode()))
    return [Finisher(int(row["place"]), row["bib"], Decimal(row["minutes"])) for row in rows]


# -- the account ---------------------------------------------------------------------------------------


class Account(NamedTuple):
    """What the file says about the difference between a place and a rank among those on foot."""

    left_out: int  # places before this one that nobody has
    equal: int  # listed before with the same time
    slower: int  # listed before
    faster: int  # listed after

    @property
    def causes(self) -> str:
        """Name the causes as docs/race.md does."""
        names = ("places left out", "equal times", "slower before", "faster after")
        return ", ".join(name for name, number in zip(names, self, strict=True) if number) or "none"


def accounts(listed: list[Finisher]) -> dict[str, Account]:
    """Count each finisher's terms along the list, in its order; ranks have no part in it."""
    after = sorted(one.minutes for one in listed)
    before: list[Decimal] = []
    found = {}
    for number, one in enumerate(listed):
        del after[bisect.bisect_left(after, one.minutes)]
        equal = bisect.bisect_right(before, one.minutes) - bisect.bisect_left(before, one.minutes)
        found[one.bib] = Account(
            left_out=one.place - 1 - number,
            equal=equal,
            slower=len(before) - bisect.bisect_right(before, one.minutes),
            faster=bisect.bisect_left(after, one.minutes),
        )
        bisect.insort(before, one.minutes)
    return found


def accounted(ranks: Mapping[str, int]) -> Counter[str]:
    """Hold every rank to the finisher's account; answer how many finishers have which causes."""
    assert ranks.keys() == {one.bib for one in finishers()}
    wheels = [one for one in finishers() if one.on_wheels]
    found = accounts([one for one in finishers() if not one.on_wheels])
    causes: Counter[str] = Counter()
    for one in finishers():
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


def table_of_the_page() -> dict[str, int]:
    rows = re.findall(r"^\| ([a-z, ]+) \| ([\d,]+) \|", PAGE.read_text(), re.MULTILINE)
    found = {causes: int(count.replace(",", "")) for causes, count in rows}
    assert len(found) == len(rows)
    return found


# -- the file ------------------------------------------------------------------------------------------


def test_the_page_says_of_the_file_what_is_in_it() -> None:
    listed = finishers()
    wheels = [one for one in listed if one.on_wheels]
    foot = [one for one in listed if not one.on_wheels]
    assert len({one.bib for one in listed}) == len(listed) == 22_690
    assert sorted(one.place for one in wheels) == list(range(1, 21))
    missing = set(range(1, foot[-1].place + 1)) - {one.place for one in foot}
    assert [one.place for one in foot] == sorted({one.place for one in foot})
    page = PAGE.read_text()
    assert f"the places {' and '.join(map(str, sorted(missing)))}" in page
    found = accounts(foot)
    [early] = [one for one in foot if found[one.bib].faster]
    around = foot[foot.index(early) - 1]
    assert (
        f"{early.bib} herself: listed at {early.minutes} minutes among those of {around.minutes}, "
        f"{found[early.bib].faster} faster" in page
    )
    assert f"the first took {min(one.minutes for one in wheels)} minutes" in page
    assert f"the first on foot {min(one.minutes for one in foot)}" in page


# -- ranks ---------------------------------------------------------------------------------------------


def submissions(board: Board, rows: int = 22_690) -> list[Submission]:
    found = read(lines()[: rows + 1], Columns("bib", "minutes"), board, NOW)
    return [one for one in found if isinstance(one, Submission)]


def score(board: Board, one: Submission) -> Item:
    """The score that a first submission makes."""
    key = leaderboards.score_key(board.name, board.season, one.player)._asdict()
    return key | {"score": one.value, "scale": list(board.scale), "shards": board.shards}


def test_every_rank_in_the_tree_of_the_whole_race_is_accounted_for() -> None:
    """Added up by the product's own contribution and read by its own rank, without an engine."""
    fields = {name: getattr(RACE, name) for name in RACE.__struct_fields__}
    board = Board(**fields, name="race", season=1, started="2026-11-21T10:00:00Z")
    given = submissions(board)
    nodes: dict[Key, Item] = {}
    scores = (score(board, one) for one in given)
    for (key, digits), count in sums.recount([leaderboards.contribution], scores).items():
        if key.sk == "NODE":
            nodes.setdefault(key, {})[digits] = count
    ranks = {}
    for one in given:
        rank, of, _ = ranking.position(board.ranking, board.scale.merit(one.value), nodes)
        assert of == len(given)
        ranks[one.player] = rank
    causes = accounted(ranks)
    assert table_of_the_page() == causes | {"all": causes.total()}


def listed(table: Table) -> dict[str, int]:
    """Read the whole leaderboard page by page, as a client does; the ranks as they are answered."""
    found: dict[str, int] = {}
    cursor = None
    while True:
        query = EntriesQuery(limit=100, cursor=cursor)
        page = board_queries.entries(table, "race", query, settings.current(), datetime.now(UTC))
        assert not found.keys() & {one.player for one in page.items}
        found |= {one.player: one.rank for one in page.items}
        if page.cursor is None:
            return found
        cursor = page.cursor


def rank(table: Table, player: str) -> int:
    return board_queries.standing(table, "race", player, StandingQuery(), datetime.now(UTC)).rank


def test_the_first_200_rows_are_imported_and_ranked_as_a_sorted_list(
    engine_table: EngineTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, name, stream_arn = engine_table
    table = Table(name, engine.client("dynamodb"))
    boards.define(table, "race", RACE, NOW)
    given = submissions(boards.find(table, "race", NOW), 200)
    assert write(table, "race", given).outcomes.total() == 200
    monkeypatch.setattr(app, "connect", lambda: table)
    stream = Reader(engine.client("dynamodbstreams"), stream_arn)
    while records := stream.read():
        app.apply({"Records": records}, None)
    assert drift(table, app.CONTRIBUTIONS) == {}
    times = sorted(one.value for one in given)
    right = {one.player: 1 + bisect.bisect_left(times, one.value) for one in given}
    assert listed(table) == right
    assert {player: rank(table, player) for player in [*right][::10]} == dict([*right.items()][::10])


@pytest.mark.long
def test_the_whole_race_is_imported_on_an_engine_and_every_rank_is_accounted_for(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three imports: the first two are killed on their way, the third finds what they have left."""
    made = create_table(engine.client("dynamodb"), "dev", name=f"test-{uuid4().hex}")
    table = Table(made.name, engine.client("dynamodb"))
    boards.define(table, "race", RACE, NOW)
    given = submissions(boards.find(table, "race", NOW))
    for number in (100, 150):  # transactions of 464
        with (
            instead(table, "TransactWriteItems", *[None] * number, Killed()),
            pytest.raises(Killed),
        ):
            write(table, "race", given)
    became = write(table, "race", given).outcomes
    assert became[Outcome.KNOWN] > 200 * 49
    assert became[Outcome.KNOWN] + became[Outcome.NEW] == 22_690
    monkeypatch.setattr(app, "connect", lambda: table)
    stream = Reader(engine.client("dynamodbstreams"), made.stream_arn)
    while records := stream.read():
        for start in range(0, len(records), 1000):
            app.apply({"Records": records[start : start + 1000]}, None)
    assert drift(table, app.CONTRIBUTIONS) == {}
    board = boards.find(table, "race", NOW)
    assert wait(table, board, [one.player for one in given], lambda done: None)
    ranks = listed(table)
    causes = accounted(ranks)
    assert table_of_the_page() == causes | {"all": causes.total()}
    assert {player: rank(table, player) for player in [*ranks][::100]} == dict([*ranks.items()][::100])
    engine.client("dynamodb").delete_table(TableName=made.name)
