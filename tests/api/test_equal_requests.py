"""Equal concurrent requests all get a correct response."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pytest

from chalicelib.api.auth import Caller
from chalicelib.challenges import definitions
from chalicelib.challenges.schemas import ChallengeBody
from chalicelib.comments import comments
from chalicelib.comments.schemas import CommentBody, CommentPatch
from chalicelib.dynamo.items import Key
from chalicelib.dynamo.table import Page, Table
from chalicelib.errors import HubbubError
from chalicelib.leaderboards import boards, scores
from chalicelib.leaderboards import schemas as board_schemas
from chalicelib.ranking import positions, ranking
from chalicelib.ranking.tree import Scale
from tests.conftest import EngineTable
from tests.support.contexts import new_context

MANY, ROUNDS = 12, 8
ADMIN = Caller("admin-1", admin=True, problem="")


@pytest.fixture
def table(engine_table: EngineTable) -> Table:
    engine, name, _ = engine_table
    return Table(name, engine.client("dynamodb"))


def at_once(*calls: Callable[[], Any]) -> Counter[Any]:
    """Make calls at the same moment. Count those that created something (201), the others, and the errors."""
    ready = threading.Barrier(len(calls))

    def run(call: Callable[[], Any]) -> Any:
        ready.wait(60)
        try:
            _, is_new = call()
            return 201 if is_new is True else 200
        except HubbubError as error:
            return type(error).__name__

    with ThreadPoolExecutor(len(calls)) as threads:
        return Counter(threads.map(run, calls))


def now() -> datetime:
    return datetime.now(UTC)


def test_a_comment_that_is_hidden_and_shown_again_and_again_is_never_missing(table: Table) -> None:
    body = CommentBody(rating=5, language="en", text="Fits.")
    id = comments.post(new_context(table), "p", body, Caller("me"), None).comment.id
    seen: Counter[Any] = Counter()
    for _ in range(ROUNDS):
        seen += at_once(
            *(
                partial(
                    comments.patch, new_context(table), "p", id, CommentPatch(hidden=i % 2 == 0), ADMIN, None
                )
                for i in range(MANY)
            )
        )
    assert seen == {200: MANY * ROUNDS}
    assert comments.find_stored(table, "p", id)


def test_a_comment_is_found_while_it_is_hidden_and_shown(table: Table) -> None:
    """It moves between any two reads, so only a transactional read of both keys always finds it."""
    body = CommentBody(rating=5, language="en", text="Fits.")
    id = comments.post(new_context(table), "p", body, Caller("me"), None).comment.id
    hidden = False

    def move(**_: Any) -> None:
        nonlocal hidden
        hidden = not hidden
        comments.patch(new_context(other, now()), "p", id, CommentPatch(hidden=hidden), ADMIN, None)

    other = Table(table.name, table.client, table._pause)
    moving = MovesAfterEachRead(table, move)
    move()
    for read in (comments.find_stored(moving, "p", id), comments.find(moving, "p", id, ADMIN).comment):
        assert read


class MovesAfterEachRead(Table):
    """A table that calls a function after each single read."""

    def __init__(self, table: Table, happens: Callable[[], None]) -> None:
        super().__init__(table.name, table.client, table._pause)
        self._happens = happens

    def get(self, key: Key, *, consistent: bool = False) -> Any:
        found = super().get(key, consistent=consistent)
        self._happens()
        return found


def test_equal_ends_of_a_season_end_it_once(table: Table) -> None:
    boards.define(new_context(table), "b", board_schemas.BoardBody(title="t"))
    for season in range(1, ROUNDS + 1):
        end = partial(boards.end_season, new_context(table), "b", board_schemas.SeasonBody(season=season))
        assert at_once(*[end] * MANY) == {201: 1, 200: MANY - 1}
    assert boards.find(new_context(table), "b").season == ROUNDS + 1


def test_a_season_that_ends_while_the_title_changes_is_ended_with_the_new_title(table: Table) -> None:
    boards.define(new_context(table), "b", board_schemas.BoardBody(title="0"))
    for season in range(1, ROUNDS + 1):
        title = board_schemas.BoardBody(title=str(season))
        end = partial(boards.end_season, new_context(table), "b", board_schemas.SeasonBody(season=season))
        rename = partial(boards.define, new_context(table), "b", title)
        assert at_once(*[end] * 4, *[rename] * 4) == {201: 1, 200: 7}
        board = boards.find(new_context(table), "b", consistent=True)
        assert (board.season, board.title) == (season + 1, str(season))


def test_equal_definitions_of_a_board_all_succeed(table: Table) -> None:
    for i in range(ROUNDS):
        define = partial(boards.define, new_context(table), f"b{i}", board_schemas.BoardBody(title="t"))
        assert at_once(*[define] * MANY) == {201: 1, 200: MANY - 1}
        change = partial(boards.define, new_context(table), f"b{i}", board_schemas.BoardBody(title="u"))
        assert at_once(*[change] * MANY) == {200: MANY}
        assert boards.find(new_context(table), f"b{i}").title == "u"


def test_equal_definitions_of_a_challenge_all_succeed(table: Table) -> None:
    body = ChallengeBody(title="Hunt", paths=["oak", "mill"])
    for i in range(ROUNDS):
        assert at_once(*[partial(definitions.define, new_context(table), f"c{i}", body)] * MANY) == {
            201: 1,
            200: MANY - 1,
        }
        other = ChallengeBody(title="Hunt", paths=["well"])
        assert at_once(*[partial(definitions.define, new_context(table), f"c{i}", other)] * MANY) == {
            200: MANY
        }
        found = definitions.load(table, f"c{i}")
        assert found.find_answer("well")
        assert not found.find_answer("oak")
        assert found.edition == 2


# -- around --------------------------------------------------------------------------------------------

RANKING = ranking.Ranking("BOARD#b#1", Scale(0, 9_999, 0, True))


def put(table: Table, player: str, score: int) -> None:
    """Write a player's score, as far as the index needs it."""
    item = scores.score_key("b", 1, player)._asdict()
    number = RANKING.number(RANKING.scale.merit(score), player)
    table.put(item | ranking.index_key(RANKING, player, number))


def players(part: positions.EntriesPage) -> list[str]:
    return [item.entry.player for item in part.items]


@pytest.mark.parametrize(("start", "goes"), [(10, 90), (90, 10)])
def test_a_player_who_passes_between_two_reads_is_listed_once(
    table: Table, monkeypatch: pytest.MonkeyPatch, start: int, goes: int
) -> None:
    for i in range(40, 60):
        put(table, f"p{i}", i)
    put(table, "mover", start)
    read, lock, done = Table.query, threading.Lock(), threading.Event()

    def query(self: Table, *args: Any, **options: Any) -> Page:
        """Resume the first reader after the second has read and the player has moved."""
        with lock:
            page = read(self, *args, **options)
            if not done.is_set():
                put(table, "mover", goes)
                done.set()
        return page

    monkeypatch.setattr(Table, "query", query)
    own = ranking.Ranked(RANKING, "p50", RANKING.number(RANKING.scale.merit(50), "p50"), 1)
    seen = players(positions.list_ranked(table, RANKING, 41, positions.Start(around=own)))
    assert len(seen) == len(set(seen))
    assert seen.count("mover") <= 1
    assert len(seen) >= 20
