"""A file's scores count once, however often it is imported, and every row has an outcome."""

from __future__ import annotations

import contextlib
import gzip
import json
import re
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from unittest import mock

import msgspec
import pytest
from click.testing import CliRunner, Result

import app
from chalicelib.api.auth import Caller
from chalicelib.dynamo.table import Table
from chalicelib.leaderboards import boards
from chalicelib.leaderboards import scores as leaderboards
from chalicelib.leaderboards.boards import Board
from chalicelib.leaderboards.schemas import BoardBody, ScoreBody, SeasonBody
from chalicelib.leaderboards.scores import Submission
from chalicelib.ranking import deepening, ranking, tree
from ops.cli.main import main
from ops.imports import scores as import_scores
from ops.imports.formats import Columns
from ops.imports.scores import Outcome, Skip, is_counted, read, wait, write, write_group
from tests.conftest import EngineTable
from tests.histories.world import Killed
from tests.support.contexts import new_context
from tests.support.faults import after, instead
from tests.support.records import Reader, drift, scan

NOW = datetime(2026, 11, 21, 10, 0, tzinfo=UTC)
POINTS = BoardBody(title="Points", max=Decimal(10_000))
RACE = BoardBody(title="Race", decimals=2, min=Decimal(60), max=Decimal(600), order="asc", operator="best")
LEVEL = BoardBody(title="Level", operator="set")
GAMES = Columns("player", "points", "game", "time")


def defined(table: Table, body: BoardBody = POINTS, name: str = "points") -> Board:
    boards.define(new_context(table, NOW), name, body)
    return boards.find(new_context(table, NOW), name)


def lines(*rows: str, header: str = "player,points,game,time") -> list[bytes]:
    return [f"{row}\n".encode() for row in (header, *rows)]


def history(players: int, games: int) -> list[bytes]:
    """A history in which everybody plays every game; player 3 has 30, 31, 32 and so on."""
    return lines(
        *(
            f"p{player},{player * 10 + game},g{game},2026-11-01T00:00:0{game}Z"
            for game in range(games)
            for player in range(players)
        )
    )


def scores(table: Table, board: str = "points", season: int = 1) -> dict[str, Any]:
    """Read every score of a season."""
    return {
        item["pk"].removeprefix("PLAYER#"): item["score"]
        for item in scan(table)
        if item["sk"] == f"BOARD#{board}#{season}"
    }


def sums(players: int, games: int) -> dict[str, int]:
    return {f"p{player}": sum(player * 10 + game for game in range(games)) for player in range(players)}


# -- rows ----------------------------------------------------------------------------------------------


@pytest.fixture
def board() -> Board:
    fields: dict[str, Any] = msgspec.structs.asdict(RACE)
    return Board(**fields, name="race", season=1, started="2026-11-21T10:00:00Z")


def test_a_row_is_a_submission(board: Board) -> None:
    found = list(read(lines(" Zoë ,+090.50,finish,2010-04-19T16:05:52+02:00"), GAMES, board, NOW))
    assert found == [Submission("Zoë", "finish", Decimal("90.5"), "2010-04-19T14:05:52.000000Z")]


def test_without_columns_for_them_the_id_is_the_player_and_the_time_now(board: Board) -> None:
    [found] = read(lines("1,R6,125.87", header="place,bib,minutes"), Columns("bib", "minutes"), board, NOW)
    assert found == Submission("R6", "R6", Decimal("125.87"), "2026-11-21T10:00:00.000000Z")


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ("a,90,g", "malformed"),
        ("a,90,g,2026-11-01T00:00:00Z,more", "malformed"),
        ("x" * 140_000, "malformed"),
        ('"' + "x" * 140_000, "malformed"),
        (",90,g,2026-11-01T00:00:00Z", "bad_player"),
        ("a#b,90,g,2026-11-01T00:00:00Z", "bad_player"),
        ("two words,90,g,2026-11-01T00:00:00Z", "bad_player"),
        ("..,90,g,2026-11-01T00:00:00Z", "bad_player"),
        ("a,90,.,2026-11-01T00:00:00Z", "bad_id"),
        ("x" * 129 + ",90,g,2026-11-01T00:00:00Z", "bad_player"),
        ("a,90,,2026-11-01T00:00:00Z", "bad_id"),
        ("a,90," + "😀" * 127 + ",2026-11-01T00:00:00Z", "bad_id"),
        ("😀" * 127 + ",90,g,2026-11-01T00:00:00Z", "bad_player"),
        ("a\u200d,90,g,2026-11-01T00:00:00Z", "bad_player"),
        ("a,90,g g,2026-11-01T00:00:00Z", "bad_id"),
        ("a,,g,2026-11-01T00:00:00Z", "bad_value"),
        ("a,NaN,g,2026-11-01T00:00:00Z", "bad_value"),
        ("a,1:30:00,g,2026-11-01T00:00:00Z", "bad_value"),
        ('a,"90,5",g,2026-11-01T00:00:00Z', "bad_value"),
        ("a,9e1,g,2026-11-01T00:00:00Z", "bad_value"),
        ("a,٩٠,g,2026-11-01T00:00:00Z", "bad_value"),
        ("a,90,g,", "bad_time"),
        ("a,90,g,2026-11-01", "bad_time"),
        ("a,90,g,2026-11-01T00:00:00", "bad_time"),
        ("a,90,g,2026-11-22T00:00:00Z", "bad_time"),
        ("a,90.125,g,2026-11-01T00:00:00Z", "off_range"),
        ("a,59.99,g,2026-11-01T00:00:00Z", "off_range"),
        ("a,600.01,g,2026-11-01T00:00:00Z", "off_range"),
        (f"a,{'9' * 20}.{'9' * 18},g,2026-11-01T00:00:00Z", "off_range"),
    ],
)
def test_a_row_that_is_no_submission_says_why_and_the_next_one_counts(
    board: Board, row: str, reason: str
) -> None:
    good = "last,90,g,2026-11-01T00:00:00Z"
    *found, last = read(lines(row, good), GAMES, board, NOW)
    assert {str(submission) for submission in found} == {reason}
    assert isinstance(last, Submission)


def test_bytes_that_are_no_utf8_are_nobodys_name(board: Board) -> None:
    rows = [*lines(), b"M\xfcller,90,g,2026-11-01T00:00:00Z\n"]
    assert list(read(rows, GAMES, board, NOW)) == [Skip.BAD_PLAYER]


def test_names_in_two_notations_are_one_player(board: Board) -> None:
    rows = lines("Zoe\u0308,90,g,2026-11-01T00:00:00Z", "Zoë,91,g,2026-11-01T00:00:00Z")
    first, second = read(rows, GAMES, board, NOW)
    assert isinstance(first, Submission)
    assert (first.player, second) == ("Zoë", Skip.REPEATED)


def test_a_row_after_one_with_the_same_id_is_counted_as_repeated(board: Board) -> None:
    rows = lines("a,59,g,2026-11-01T00:00:00Z", *["a,90,g,2026-11-01T00:00:00Z"] * 2)
    first, two, three = read(rows, GAMES, board, NOW)
    assert (first, type(two), three) == (Skip.OFF_RANGE, Submission, Skip.REPEATED)


def test_a_file_as_spreadsheets_write_it_is_read(board: Board) -> None:
    text = '\ufeff"player","points"\r\n"Ann",90\r\n\r\n"Bob","91.5"\r\n'
    found = list(read(text.encode().splitlines(keepends=True), Columns("player", "points"), board, NOW))
    assert [
        (submission.player, submission.value) for submission in found if isinstance(submission, Submission)
    ] == [
        ("Ann", 90),
        ("Bob", Decimal("91.5")),
    ]


# -- on an engine ----------------------------------------------------------------------------------------


@pytest.fixture
def table(engine_table: EngineTable, monkeypatch: pytest.MonkeyPatch) -> Table:
    """A table of its own, without the settings of a stage."""
    engine, name, _ = engine_table
    table = Table(name, engine.client("dynamodb"))
    monkeypatch.setattr(app, "connect", lambda: table)
    return table


def settle(engine_table: EngineTable, table: Table) -> None:
    """Count what is written, as the stream does, and compare every aggregate with a recount."""
    engine, _, stream_arn = engine_table
    stream = Reader(engine.client("dynamodbstreams"), stream_arn)
    while records := stream.read():
        app.apply({"Records": records}, None)
    assert drift(table, app.CONTRIBUTIONS) == {}


def imported(table: Table, file: list[bytes], board: str = "points") -> dict[str, int]:
    found = read(file, GAMES, boards.find(new_context(table, NOW), board), NOW)
    return {str(what): count for what, count in write(table, board, found).outcomes.items() if count}


def test_every_row_counts_once_however_often_the_file_is_imported(
    engine_table: EngineTable, table: Table
) -> None:
    defined(table)
    file = history(players=60, games=2)
    assert imported(table, file) == {"new": 120}
    before = scan(table)
    assert scores(table) == sums(60, 2)
    assert imported(table, file) == {"known": 120}
    assert scan(table) == before
    settle(engine_table, table)
    assert is_counted(table, boards.find(new_context(table, NOW), "points"), sums(60, 2))


@pytest.mark.parametrize("lost", [0, 1, 30])
def test_an_import_that_is_killed_goes_on_where_it_was(table: Table, lost: int) -> None:
    """Killed before a write, or after it was written and before its answer came."""
    defined(table)
    file = history(players=60, games=3)
    for kill in (
        instead(table, "PutItem", *[None] * lost, Killed()),
        after(table, "PutItem", Killed()),
    ):
        with kill, pytest.raises(Killed):
            imported(table, file)
    done = imported(table, file)
    assert done.get("known", 0) + done["new"] == 180
    assert scores(table) == sums(60, 3)


@pytest.mark.parametrize("lost", range(6))  # 60 players: three requests with activities, three with scores
def test_an_import_that_is_killed_among_first_scores_goes_on_where_it_was(table: Table, lost: int) -> None:
    defined(table)
    file = history(players=60, games=1)
    for kill in instead, after:
        errors = [*[None] * lost, Killed()] if kill is instead else [Killed()]
        with kill(table, "BatchExecuteStatement", *errors), contextlib.suppress(Killed):
            imported(table, file)
    done = imported(table, file)
    assert done.get("known", 0) + done.get("new", 0) == 60
    assert scores(table) == sums(60, 1)


def test_a_row_that_is_refused_holds_up_no_other(table: Table) -> None:
    """Each kind of refusal: a sum that would leave the range, and an id that came in between."""
    most = 10**15
    defined(table, BoardBody(title="Points", max=Decimal(most)))
    assert imported(table, lines(f"full,{most},g0,2026-11-01T00:00:00Z")) == {"new": 1}
    rows = [f"p{i},{i},g1,2026-11-01T00:00:00Z" for i in range(20)]
    file = lines(*rows[:10], "full,1,g1,2026-11-01T00:00:00Z", *rows[10:])
    found = read(file, GAMES, boards.find(new_context(table, NOW), "points"), NOW)
    group = [submission for submission in found if isinstance(submission, Submission)]

    real = table.put_new

    def late(items: Any) -> list[bool]:
        """After the group has looked, somebody else brings the row of p7."""
        items = list(items)
        if "score" not in items[0]:
            body = ScoreBody(id="g1", value=Decimal(7), time="2026-11-01T00:00:00Z")
            assert leaderboards.submit(new_context(table, NOW), "points", body, Caller("p7"))[1]
        return real(items)

    with mock.patch.object(table, "put_new", late):
        assert +write_group(table, "points", group) == {
            Outcome.NEW: 19,
            Outcome.KNOWN: 1,
            Skip.OFF_RANGE: 1,
        }
    assert scores(table) == {"full": most} | {f"p{i}": i for i in range(20)}


def test_best_keeps_the_better_value_and_set_the_latest(table: Table) -> None:
    rows = lines(
        "a,70,g1,2026-11-03T00:00:00Z",
        "a,90,g2,2026-11-02T00:00:00Z",
        "b,90,g1,2026-11-01T00:00:00Z",
        "b,70,g2,2026-11-02T00:00:00Z",
        "c,80,g1,2026-11-01T00:00:00Z",
        "c,81,g2,2026-11-01T00:00:00Z",
    )
    for body, right in (
        (RACE, {"a": 70, "b": 70, "c": 80}),
        (LEVEL, {"a": 70, "b": 70, "c": 81}),  # of the same time the later row
    ):
        defined(table, body, body.operator)
        assert imported(table, rows, body.operator) == {"new": 6}
        assert scores(table, body.operator) == right
        kept = [item for item in scan(table) if item["sk"].startswith(f"ACTIVITY#{body.operator}#")]
        assert len(kept) == 6


def test_an_import_over_the_end_of_a_season_counts_in_one_of_the_two(table: Table) -> None:
    defined(table)
    file = history(players=10, games=1)
    imported(table, file[:6])
    boards.end_season(new_context(table), "points", SeasonBody(season=1))
    assert imported(table, file) == {"known": 5, "new": 5}
    right = sums(10, 1)
    assert scores(table) == {player: right[player] for player in list(right)[:5]}
    assert scores(table, season=2) == {player: right[player] for player in list(right)[5:]}


def test_a_score_that_comes_between_the_two_writes_of_a_first_one_keeps_both(table: Table) -> None:
    """The activity of the import is there, its score is not, and another submission writes a score."""
    board, real = defined(table), table.put_new
    rows = [Submission("ann", "g1", Decimal(5), "2026-11-01T00:00:00.000000Z")]

    def late(items: Any) -> list[bool]:
        items = list(items)
        if "score" in items[0]:
            leaderboards.submit(
                new_context(table, NOW), "points", ScoreBody(id="g2", value=Decimal(7)), Caller("ann")
            )
        return real(items)

    with mock.patch.object(table, "put_new", late):
        assert leaderboards.write_first(new_context(table, NOW), board, rows) == [True]
    assert scores(table) == {"ann": 12}


@pytest.mark.long
def test_an_import_marks_the_buckets_that_its_players_crowd_ahead(
    engine_table: EngineTable, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stream re-stamps no player of the first file. The second file crowds buckets that have players."""
    stamps: list[Any] = []
    stamp = deepening._stamp
    monkeypatch.setattr(deepening, "_stamp", lambda *arguments: stamps.append(stamp(*arguments)))
    defined(table)
    file = lines(*(f"p{n},{1_000 + 7 * n % 4_000},g,2026-11-01T00:00:00Z" for n in range(700)))
    assert imported(table, file) == {"new": 700}
    settle(engine_table, table)
    assert stamps == []
    assert largest_bucket(table) <= tree.LIMIT
    more = lines(*(f"q{n},{2_000 + n // 2},g,2026-11-01T00:00:00Z" for n in range(600)))
    assert imported(table, more) == {"new": 600}
    settle(engine_table, table)
    assert stamps
    assert largest_bucket(table) <= tree.LIMIT


def largest_bucket(table: Table) -> int:
    """Check the tree, and return the number of players of its most crowded bucket."""
    points = boards.find(new_context(table, NOW), "points").ranking
    nodes = ranking.collect_nodes(points, scan(table))
    tree.check(nodes)
    return max(tree.divide(count)[0] for node in nodes.values() for count in node.counters.values())


def test_waiting_ends_when_all_is_ranked_or_nothing_moves(
    engine_table: EngineTable, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    board = defined(table)
    imported(table, history(players=60, games=1))
    players = [*sums(60, 1), "nobody"]
    ticks: list[int] = []
    monkeypatch.setattr(import_scores, "TIMEOUT", 0.0)
    assert not wait(table, board, players, ticks.append)
    settle(engine_table, table)
    assert wait(table, board, players, ticks.append)
    assert ticks == [61]
    imported(table, lines("p0,500,late,2026-11-01T00:00:00Z"))
    assert not wait(table, board, players, ticks.append)


# -- the command ---------------------------------------------------------------------------------------


WORDS = ["--player", "player", "--value", "points", "--id", "game", "--time", "time"]


def run(*words: str, stage: str = "dev", stdin: bytes | None = None, waits: str = "--no-wait") -> Result:
    command = ["import-scores", "--board", "points", "--stage", stage, waits, *WORDS, *words]
    return CliRunner().invoke(main, command, input=stdin)


def file(folder: Path, *rows: str) -> str:
    (folder / "games.csv").write_bytes(b"".join(lines(*rows)))
    return str(folder / "games.csv")


def failure(done: Result) -> str:
    """The one line that a command failed with."""
    assert (done.exit_code, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    return done.stderr


GOOD = "a,90,g,2026-11-01T00:00:00Z"


def test_the_summary_accounts_for_every_row(stage: Table, tmp_path: Path) -> None:
    defined(stage)
    games = file(tmp_path, GOOD, GOOD, "b,x,g,", "c,5,g,2026-11-01T00:00:00Z", "")
    done = run(games, "--json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout) == {
        "rows": 4,
        "new": 2,
        "known": 0,
        "players": 2,
        "skipped": {reason.value: int(reason in ("bad_value", "repeated")) for reason in Skip},
        "counted": None,
    }
    rows = dict(re.split(r"\s{2,}", row.strip()) for row in run(games).stdout.splitlines())
    assert (rows["rows"], rows["known"], rows["skipped: bad value"]) == ("4", "2", "1")


def test_a_missing_board_is_a_one_line_error_that_explains_how_to_create_it(
    stage: Table, tmp_path: Path
) -> None:
    said = failure(run(file(tmp_path, GOOD)))
    assert "There is no leaderboard points" in said
    assert "PUT /leaderboards/points" in said


def test_an_unreadable_file_is_a_one_line_error(stage: Table, tmp_path: Path) -> None:
    defined(stage)
    missing = str(tmp_path / "none.csv")
    assert failure(run(missing)) == f"Error: {missing}: No such file or directory\n"
    (tmp_path / "cut.gz").write_bytes(gzip.compress(b"".join(history(3, 1)))[:-9])
    assert "damaged" in failure(run(str(tmp_path / "cut.gz")))
    assert "it has: player, points, game, time" in failure(run(file(tmp_path, GOOD), "--player", "name"))
    assert "needs one column 'player'; it has: none\n" in failure(run("-", stdin=b""))
    assert "the most frequent reason is bad_value" in failure(run(file(tmp_path, GOOD), "--value", "game"))


@pytest.mark.parametrize("board", ["", "a#b", "a b", "x" * 129])
def test_a_board_that_cannot_be_is_a_usage_error(stage: Table, tmp_path: Path, board: str) -> None:
    assert run(file(tmp_path, GOOD), "--board", board).exit_code == 2


def test_scores_that_are_yet_to_be_ranked_are_reported(
    stage: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    defined(stage)
    monkeypatch.setattr(import_scores, "TIMEOUT", 0.0)
    done = run(file(tmp_path, GOOD), "--json", waits="--wait")
    assert (done.exit_code, json.loads(done.stdout)["counted"]) == (3, False)
    assert "the stream has not ranked all of them yet" in done.stderr
