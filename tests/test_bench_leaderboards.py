"""What the bench says of leaderboards: a table in memory that is as good as an engine, and exact costs."""

from __future__ import annotations

import threading

import pytest

from bench import crowds, memory, published_rank, rank_prices, rank_reads, rank_times, rank_writes
from bench.crowded_boards import BEST, POINTS, SHARDED, CrowdedBoard
from bench.rank_writes import CHANGES, Cost
from bench.round_trips import RoundTrips
from bench.view_costs import Drifted
from chalicelib import ranking, ranktree
from chalicelib.board_schemas import BoardBody
from chalicelib.items import Key
from local.engine import Engine

# --- the table in memory ---


@pytest.mark.parametrize("body", [POINTS, BEST, SHARDED], ids=["points", "best", "sharded"])
@pytest.mark.parametrize("distribution", crowds.DISTRIBUTIONS)
def test_the_items_in_memory_are_those_of_a_recount(body: BoardBody, distribution: str) -> None:
    board = CrowdedBoard(body, crowds.crowd(distribution, 150))
    items = list(board.items())
    assert len(items) > 2 * 150
    for item in items:
        assert board.memory.item(Key(item["pk"], item["sk"])) == item
    ranktree.check(board.board.scale, ranking.nodes(board.board.ranking, items))


def test_an_engine_that_holds_another_board_fails_the_run(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    board = CrowdedBoard(BEST, crowds.crowd("uniform", 30))
    rank_reads.compare(engine, board)
    fewer = [item for item in board.items() if item["sk"] != "NODE" or item["pk"][-1] != "#"]
    monkeypatch.setattr(board, "items", lambda: fewer)  # without the tree's root
    with pytest.raises(Drifted):
        rank_reads.compare(engine, board)


def test_the_published_rank_is_right_because_its_pages_are_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "PAGE", 4096)
    board = CrowdedBoard(BEST, crowds.crowd("uniform", 100))
    read = rank_reads.published(board, 100)
    assert (read.answer, read.trips) == (board.rank(board.player_at(100)), 5)


@pytest.mark.long
@pytest.mark.parametrize("distribution", crowds.DISTRIBUTIONS)
def test_a_rank_costs_the_same_whatever_the_scores(distribution: str) -> None:
    reads = rank_reads.ours(CrowdedBoard(POINTS, crowds.crowd(distribution, 300)))
    assert [(reads[name].units, reads[name].trips) for name in ("rank", "top 10")] == [(5.5, 2), (1, 2)]


# --- round trips ---


def test_calls_at_the_same_time_are_one_round_trip() -> None:
    board = CrowdedBoard(BEST, crowds.crowd("uniform", 10))
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


@pytest.mark.long
def test_a_small_gain_alone_costs_16_write_units_and_a_new_player_27(engine: Engine) -> None:
    new, gains, *_ = CHANGES
    assert rank_writes.ours(engine, gains, (1,), 30)[1] == Cost(4, 2, 6, 2, 2, 1)
    assert rank_writes.ours(engine, new, (1,), 30)[1] == Cost(4, 2, 18, 2, 1, 1)


def test_the_published_change_costs_3_write_units(engine: Engine) -> None:
    assert rank_writes.published(engine) == 3


# --- Redis, and dollars ---


def test_without_a_redis_its_rows_are_left_out_for_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    said, held = rank_times.sorted_sets(quick=True)
    assert (held, said.figures) == ({}, [])
    assert "no redis-server on the PATH" in said.method[0]


def test_a_board_is_priced_on_the_smallest_node_that_holds_it() -> None:
    names = [rank_prices.node(gigabytes * 2**30).name for gigabytes in (0.1, 0.376, 2, 1000)]
    assert names == ["cache.t4g.micro", "cache.t4g.small", "cache.t4g.medium", "cache.m7g.large"]


def test_the_published_key_of_a_user_in_an_event_is_as_published() -> None:
    assert published_rank.runner_key("u", "e") == {"pk": {"S": "USER#u"}, "sk": {"S": "EVENT#e"}}
