"""Rankings of version 0.1.0 are converted while scores are submitted and ranks are read."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from chalice.test import Client

import app
from chalicelib.api.auth import Caller
from chalicelib.challenges import submissions
from chalicelib.dynamo.table import Table
from chalicelib.leaderboards import boards, scores
from chalicelib.leaderboards import queries as board_queries
from chalicelib.leaderboards.schemas import EntriesQuery, ScoreBody, StandingQuery
from chalicelib.ranking import ranking, tree
from chalicelib.settings import Settings
from local.engines.meter import Meter
from ops.maintenance.convert import convert
from tests.conftest import EngineTable
from tests.support.faults import instead
from tests.support.records import drift, scan
from tests.support.shapes import ask
from tests.test_upgrades import SHAPES, Older, without_new_fields

STAGE = Settings(secret="x" * 32)


class Killed(BaseException):
    """The end of a process."""


@pytest.fixture
def older(engine_table: EngineTable, monkeypatch: pytest.MonkeyPatch) -> Older:
    """Return a table of version 0.1.0 with the app of today."""
    older = Older(engine_table, SHAPES[0])
    monkeypatch.setattr(app, "connect", lambda: older.table)
    monkeypatch.setattr(older, "apply", lambda event, _=None: app.apply(event, None))
    return older


@contextmanager
def delivered(older: Older) -> Iterator[None]:
    """Deliver the stream during the block, and the rest of it at the end."""
    done = threading.Event()

    def deliver() -> None:
        while not done.is_set():
            older.drain()
            done.wait(0.02)

    thread = threading.Thread(target=deliver)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
        older.drain()


def submit(older: Older, player: str, id: str, value: int) -> None:
    body = ScoreBody(id=id, value=Decimal(value))
    assert scores.submit(older.table, "kart", body, Caller(player), datetime.now(UTC)).status == 201


def right_ranks(older: Older) -> dict[str, int]:
    """Return the ranks of a sorted list of the stored scores."""
    found = {
        item["pk"].removeprefix("PLAYER#"): item["score"]
        for item in scan(older.table)
        if item["sk"] == "BOARD#kart#1" and "score" in item
    }
    return {player: 1 + sum(other > score for other in found.values()) for player, score in found.items()}


def assert_converted(older: Older) -> None:
    """Check ranks, lists, trees and answers, and that nothing of the older tree is left."""
    assert drift(older.table, app.CONTRIBUTIONS) == {}
    now, items = datetime.now(UTC), scan(older.table)
    for name in ("kart", "golf"):
        board = boards.find(older.table, name, now, 1)
        assert board.is_converted
        tree.check(ranking.collect_nodes(board.ranking, items))
    assert not [item for item in items if "older" in item]
    left = [item for item in items if item["pk"].startswith("RANK#") or item["sk"].startswith("RANKED#")]
    assert left
    assert all("ttl" in item for item in left)
    ranks = right_ranks(older)
    page = board_queries.list_entries(older.table, "kart", EntriesQuery(limit=100), STAGE, now)
    assert {one.player: one.rank for one in page.items} == ranks
    for player, rank in ranks.items():
        found = board_queries.get_standing(older.table, "kart", player, StandingQuery(), now)
        assert (found.rank, found.of) == (rank, len(ranks))


def test_a_board_that_is_not_converted_goes_on_working(older: Older) -> None:
    with delivered(older):
        submit(older, "zoe", "first", 500)
        submit(older, "driver-0", "later", 600)
    assert drift(older.table, app.CONTRIBUTIONS) == {}
    now, ranks = datetime.now(UTC), right_ranks(older)
    assert not boards.find(older.table, "kart", now).is_converted
    page = board_queries.list_entries(older.table, "kart", EntriesQuery(limit=100), STAGE, now)
    assert {one.player: one.rank for one in page.items} == ranks
    for place, one in enumerate(page.items, 1):
        found = board_queries.get_standing(older.table, "kart", one.player, StandingQuery(), now)
        assert (found.rank, found.of, found.score) == (ranks[one.player], len(ranks), one.score)
        query = EntriesQuery(place=place, limit=1)
        assert board_queries.list_entries(older.table, "kart", query, STAGE, now).items == [one]


def test_a_rank_of_a_board_that_is_not_converted_costs_what_it_did(older: Older) -> None:
    query, now = StandingQuery(), datetime.now(UTC)
    board_queries.get_standing(older.table, "kart", "driver-2", query, now)
    with Meter(older.table.client) as meter:
        board_queries.get_standing(older.table, "kart", "driver-2", query, now)
    assert meter.read_units == 0.5 + 0.5 + 8 * 0.5 + 0.5  # board, score, nodes, next better


def test_a_conversion_under_live_traffic_keeps_ranks_and_answers(older: Older) -> None:
    done = threading.Event()
    problems: list[Any] = []

    def play() -> None:
        for number in range(10**6):
            if done.is_set():
                return
            submit(older, f"new-{number % 7}", f"{number}", 10 * (number % 9))
            query, now = StandingQuery(), datetime.now(UTC)
            found = board_queries.get_standing(older.table, "kart", "driver-2", query, now)
            if found.rank != 1:  # nobody reaches the score of the first
                problems.append(found)

    with delivered(older):
        thread = threading.Thread(target=play)
        thread.start()
        try:
            counts = convert(older.table, 2, None, lambda _: None, pause=lambda _: None)
        finally:
            done.set()
            thread.join()
    assert problems == []
    assert counts["switched"] >= 3
    assert counts["stamped"] >= 7
    convert(older.table, 2, None, lambda _: None, pause=lambda _: older.drain())
    assert_converted(older)
    with Client(app.app) as client:
        for question, answer in older.answers.items():
            if "golf" in question or "hunt" in question:
                assert without_new_fields(ask(client.http, question), answer) == answer, question
    submissions.submit(older.table, "hunt", "anna", "c", datetime.now(UTC))
    older.drain()
    assert drift(older.table, app.CONTRIBUTIONS) == {}


@pytest.mark.parametrize(
    "writes", [0, 8, *(pytest.param(n, marks=pytest.mark.long) for n in (3, 10, 14, 22))]
)
def test_a_conversion_that_is_killed_is_completed_by_the_next_run(older: Older, writes: int) -> None:
    ready: list[Any] = [None] * writes
    own = Table(older.table.name, older.engine.client("dynamodb"))  # the stream has another client
    with delivered(older), instead(own, "UpdateItem", *ready, Killed()), contextlib.suppress(Killed):
        convert(own, 1, None, lambda _: None, pause=lambda _: None)
    with delivered(older):
        convert(older.table, 1, None, lambda _: None)
    assert_converted(older)
    assert convert(older.table, 1, None, lambda _: None).total() == 0
