"""The rank tree, compared with a sorted list."""

from __future__ import annotations

import doctest
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chalicelib.ranking import tree
from chalicelib.ranking.tree import MOST, Nodes, Scale

SCALES = (
    Scale(0, 0, 0, True),
    Scale(0, 99, 0, True),
    Scale(-50, 50, 0, False),
    Scale(0, 100, 0, True),
    Scale(0, 60_000, 2, False),
    Scale(-MOST, MOST, 0, True),
    Scale(0, MOST, 9, False),
)


def build_nodes(scale: Scale, scores: dict[str, Decimal]) -> Nodes:
    nodes: Nodes = {}
    for player, score in scores.items():
        for prefix, digits in tree.path(scale, scale.merit(score), tree.tie("t", player)):
            node = nodes.setdefault(prefix, {})
            node[digits] = node.get(digits, 0) + 1
    return nodes


@st.composite
def boards(draw: Any) -> tuple[Scale, dict[str, Decimal]]:
    scale = draw(st.sampled_from(SCALES))
    ends = st.sampled_from([scale.least, scale.most, (scale.least + scale.most) // 2])
    units = st.lists(ends | st.integers(scale.least, scale.most), max_size=40)
    return scale, {f"p{i}": scale.write(one) for i, one in enumerate(draw(units))}


@settings(max_examples=300, deadline=None, derandomize=True)
@given(boards())
def test_ranks_places_and_counts_equal_those_of_a_sorted_list(
    board: tuple[Scale, dict[str, Decimal]],
) -> None:
    scale, scores = board
    nodes = build_nodes(scale, scores)
    tree.check(scale, nodes)
    ordered = sorted(scores.values(), reverse=scale.descending)
    assert tree.count_players(nodes.get("", {})) == len(scores)
    for score in scores.values():
        merit = scale.merit(score)
        assert scale.score(merit) == score
        assert tree.rank(scale, merit, nodes) == ordered.index(score) + 1
        assert tree.count_equal(scale, merit, nodes) == ordered.count(score)
    for place, score in enumerate(ordered):
        prefix, left = "", place
        for _ in range(scale.depth):
            digits, left = tree.descend(nodes[prefix], left) or pytest.fail(f"no place {place}")
            prefix += digits
        assert scale.score(int(prefix) + 1) == score
    assert tree.descend(nodes.get("", {}), len(scores)) is None


def test_a_better_score_has_a_greater_merit() -> None:
    for scale in SCALES[1:]:
        better, worse = (scale.most, scale.least) if scale.descending else (scale.least, scale.most)
        assert scale.merit(scale.write(better)) == scale.span
        assert scale.merit(scale.write(worse)) == 1


@pytest.mark.parametrize(
    ("score", "why"),
    [
        ("0.001", "at most 2 decimals"),
        ("600.01", "from 0 to 600"),
        ("-0.01", "from 0 to 600"),
        ("1e20", "from 0 to 600"),
        ("1e125", "from 0 to 600"),
        ("1e-130", "at most 2 decimals"),
        ("1.0000000000000000000000000000000000001", "at most 2 decimals"),
    ],
)
def test_a_score_off_the_scale_is_refused(score: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        Scale(0, 60_000, 2, False).merit(Decimal(score))


def test_a_score_is_written_without_an_exponent() -> None:
    scale = Scale(-MOST, MOST, 2, True)
    assert [str(scale.write(units)) for units in (100_000, 150, -1, 0)] == ["1000", "1.5", "-0.01", "0"]
    assert scale.units(Decimal("1.50")) == 150


@pytest.mark.parametrize(
    "wrong",
    [
        {"": {"01": 2}, "01": {"00": 1}},  # the counter is greater than the sum of its node
        {"": {"01": 1}},  # counted and missing
        {"": {}, "01": {"00": 1}},  # present and not counted
        {"": {"01": -1}, "01": {"00": -1}},
        {"": {"1": 1}, "1": {"00": 1}},
    ],
)
def test_check_finds_a_wrong_tree(wrong: Nodes) -> None:
    with pytest.raises(AssertionError):
        tree.check(Scale(0, 9_999, 0, True), wrong)


def test_a_scale_has_one_level_per_two_digits() -> None:
    assert Scale(0, 999_999, 0, True).depth == 3
    assert Scale(0, 1_000_000, 0, True).depth == 4
    assert Scale(0, MOST, 0, True).depth == 8


def test_the_documented_examples_run() -> None:
    assert doctest.testmod(tree).failed == 0
