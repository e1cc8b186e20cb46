"""The leaderboard bench: its in-memory table agrees with an engine, and its costs are exact."""

from __future__ import annotations

import threading

import pytest

from bench import leaderboards
from bench.boards import BEST, DISTRIBUTIONS, POINTS, SHARDED, LargeBoard, players
from bench.published import ranking as published_ranking
from bench.round_trips import RoundTrips
from bench.tables import Drifted
from chalicelib.dynamo.items import Key
from chalicelib.leaderboards.schemas import BoardBody
from chalicelib.ranking import ranking, tree
from local.engines import memory
from local.engines.engine import Engine

pytestmark = pytest.mark.long

# --- the table in memory ---


@pytest.mark.parametrize("body", [POINTS, BEST, SHARDED], ids=["points", "best", "sharded"])
@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_the_items_in_memory_are_those_of_a_recount(body: BoardBody, distribution: str) -> None:
    board = LargeBoard(body, players(distribution, 150))
    items = list(board.items())
    assert len(items) > 150
    for item in items:
        assert board.memory.item(Key(item["pk"], item["sk"])) == item
    tree.check(ranking.collect_nodes(board.board.ranking, items))


def test_an_engine_that_holds_another_board_fails_the_run(
    ministack: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    board = LargeBoard(BEST, players("uniform", 30))
    leaderboards.compare(ministack, board)
    fewer = [item for item in board.items() if item["sk"] != "NODE" or item["pk"][-1] != "#"]
    monkeypatch.setattr(board, "items", lambda: fewer)  # without the tree's root
    with pytest.raises(Drifted):
        leaderboards.compare(ministack, board)


def test_the_published_rank_is_right_because_its_pages_are_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "PAGE", 4096)
    board = LargeBoard(BEST, players("uniform", 100))
    read = leaderboards.published(board, 100)
    assert (read.result, read.trips) == (board.rank(board.player_at(100)), 5)


@pytest.mark.long
@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_a_rank_costs_the_same_whatever_the_scores(distribution: str) -> None:
    reads = leaderboards.ours(LargeBoard(POINTS, players(distribution, 300)))
    assert (reads["rank"].units <= 5, reads["rank"].trips) == (True, 2)
    assert (reads["top 10"].units, reads["top 10"].trips) == (1, 2)


# --- round trips ---


def test_calls_at_the_same_time_are_one_round_trip() -> None:
    board = LargeBoard(BEST, players("uniform", 10))
    with board.memory.client() as client:
        trips = RoundTrips()
        gate = threading.Barrier(2)

        def get() -> None:
            gate.wait()
            client.get_item(TableName="memory", Key={"pk": {"S": "a"}, "sk": {"S": "b"}})

        with trips.of(client, 0.05):
            for _ in range(2):
                threads = [threading.Thread(target=get) for _ in range(2)]
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join()
    assert (len(trips.calls), trips.in_sequence) == (4, 2)


def test_a_call_that_outlasts_two_others_hides_neither() -> None:
    trips = RoundTrips()
    trips.calls = [(0, 10), (1, 4), (5, 9), (9, 12)]
    assert trips.in_sequence == 3


# --- changes ---


@pytest.mark.parametrize("name", leaderboards.CHANGES)
def test_a_change_costs_no_more_than_its_target(ministack: Engine, name: str) -> None:
    most = next(limit for kind, limit in leaderboards.TARGETS.items() if name.startswith(kind))
    for size, cost in leaderboards.change_costs(ministack, name, (1, 10), 30).items():
        assert cost.total <= most, (size, cost)
    if name == "small gains, increment":
        assert cost.total == 4  # activity, score, and the move of the entry in the index


@pytest.mark.long
@pytest.mark.parametrize("name", leaderboards.CHANGES)
def test_a_change_among_a_million_costs_no_more_than_its_target(engine: Engine, name: str) -> None:
    most = next(limit for kind, limit in leaderboards.TARGETS.items() if name.startswith(kind))
    losses = 0.5 if name == "random moves, 0 to 999,999" else 0  # 1 WCU for one that leaves its bucket
    assert leaderboards.change_costs(engine, name, (1,), 1_000_000)[1].total <= most + losses


def test_the_published_change_costs_3_write_units(ministack: Engine) -> None:
    assert leaderboards.published_change(ministack) == 3


# --- Redis, and the published design ---


def test_without_a_redis_its_rows_are_left_out_for_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    report = leaderboards.redis_times(quick=True)
    assert report.figures == []
    assert "no redis-server on the PATH" in report.method[0]


def test_the_published_key_of_a_user_in_an_event_is_as_published() -> None:
    assert published_ranking.runner_key("u", "e") == {"pk": {"S": "USER#u"}, "sk": {"S": "EVENT#e"}}
