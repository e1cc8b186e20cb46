"""What the bench says of challenges: who answers what for the same records, and what a path costs."""

from __future__ import annotations

import pytest

from bench.challenges import SCENARIOS, Cost, Play, cost, ours, plays, published, right, wrong
from local.engines.engine import Engine

PLAYS = {play.name: play for play in plays(quick=True)}
PUBLISHED_WRONG = {
    "each path once, in a batch of its own": 0,
    "two paths of a player in one batch": 3,
    "a batch that comes twice": 3,
    "a batch that comes again in halves": 3,
    "the same path submitted twice": 0,
    "13 paths of a player, where 12 are the limit": 0,
    "the same in one batch": 14,
}


@pytest.mark.parametrize("play", PLAYS.values(), ids=list(PLAYS))
def test_our_statistics_are_true_after_every_play(ministack: Engine, play: Play) -> None:
    assert ours(ministack, play) == right(play)


@pytest.mark.parametrize("name", PUBLISHED_WRONG)
def test_the_published_statistics_are_wrong_where_records_repeat_or_share_a_batch(
    ministack: Engine, name: str
) -> None:
    assert wrong(published(ministack, PLAYS[name]), right(PLAYS[name])) == PUBLISHED_WRONG[name]


def test_the_truth_is_counted_in_sets() -> None:
    expected = right(PLAYS["13 paths of a player, where 12 are the limit"])
    assert (expected["players"], expected["paths"], expected["12"]) == (1, 12, 1)
    assert wrong(expected, expected) == 0
    assert wrong(expected | {"3": 0, "paths": 13}, expected) == 2


@pytest.mark.long
def test_a_path_costs_exactly_this(ministack: Engine) -> None:
    paths = SCENARIOS["100 players, a path each"]
    assert cost(ministack, paths) == pytest.approx(Cost(6, 4, 0.06, 0))
    alone = SCENARIOS["a path, alone"]
    assert cost(ministack, alone) == pytest.approx(Cost(6, 4, 4, 0))
    assert cost(ministack, alone, is_published=True) == pytest.approx(Cost(1, 0, 3, 0.5))
