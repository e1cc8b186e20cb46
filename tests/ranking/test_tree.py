"""The rank tree, compared with a sorted list."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chalicelib.ranking import tree
from chalicelib.ranking.ranking import Ranking
from chalicelib.ranking.tree import DEEP, MOST, Node, Nodes, Scale

SCALES = (
    Scale(0, 0, 0, True),
    Scale(0, 99, 0, True),
    Scale(-50, 50, 0, False),
    Scale(0, 100, 0, True),
    Scale(0, 60_000, 2, False),
    Scale(-MOST, MOST, 0, True),
    Scale(0, MOST, 9, False),
)


def build_nodes(scale: Scale, players: dict[int, int]) -> Nodes:
    """Count players, given by number and depth. A node is full when it counts all players of its prefix."""
    counters: dict[str, dict[str, int]] = {}
    for number, depth in players.items():
        for (prefix, digits), amount in tree.amounts(scale, number, depth).items():
            node = counters.setdefault(prefix, {})
            node[digits] = node.get(digits, 0) + amount
    nodes = {prefix: Node(node) for prefix, node in counters.items()}
    full = {prefix for prefix in nodes if tree.is_complete(prefix, nodes)}
    return {
        prefix: Node(node, {digits for digits in node if prefix + digits in full})
        for prefix, node in counters.items()
    }


@st.composite
def boards(draw: Any) -> tuple[Scale, dict[int, int]]:
    """Return a scale, and the depth of each player's number."""
    scale = draw(st.sampled_from(SCALES))
    merits = st.sampled_from([1, scale.span, (scale.span + 1) // 2]) | st.integers(1, scale.span)
    ties = st.sampled_from([0, tree.TIE - 1]) | st.integers(0, tree.TIE - 1)
    numbers = st.builds(lambda merit, tie: merit * tree.TIE + tie, merits, ties)
    return scale, draw(st.dictionaries(numbers, st.integers(1, 5), max_size=40))


def count_through(scale: Scale, players: dict[int, int], nodes: Nodes, number: int, depth: int) -> int:
    """Count the players ahead of a number as a read does: counters, and the bucket through the index."""
    path = scale.path(number)
    depth = tree.usable_depth(path, min(depth, len(path) // tree.DIGITS), nodes)
    most = scale.numbers(tree.bucket(path, depth))[1]
    return tree.count_better(path, depth, nodes) + sum(number < other <= most for other in players)


@settings(max_examples=300, deadline=None, derandomize=True)
@given(boards())
def test_places_at_any_depth_equal_those_of_a_sorted_list(board: tuple[Scale, dict[int, int]]) -> None:
    scale, players = board
    nodes = build_nodes(scale, players)
    tree.check(nodes)
    ordered = sorted(players, reverse=True)
    assert [scale.path(number) for number in ordered] == sorted(map(scale.path, ordered), reverse=True)
    assert nodes.get("", Node()).total() == len(players)
    for place, number in enumerate(ordered):
        for depth in range(1, 6):
            assert count_through(scale, players, nodes, number, depth) == place
        path = scale.path(number)
        for depth in range(1, len(path) // tree.DIGITS + 1):
            least, most = scale.numbers(tree.bucket(path, depth))
            assert least <= number <= most
            assert scale.path(least)[: 2 * depth] == scale.path(most)[: 2 * depth] == path[: 2 * depth]
            first, last = scale.offsets(tree.bucket(path, depth))
            assert first <= number // tree.TIE - 1 + scale.low <= last
        prefix, left = tree.descend(nodes[""], place) or pytest.fail(f"no place {place}")
        assert path.startswith(prefix)
        assert [other for other in ordered if scale.path(other).startswith(prefix)][left] == number
    assert tree.descend(nodes.get("", Node()), len(players)) is None


@given(st.integers(-3, 10**6), st.integers(-3, 10**6))
def test_a_counter_is_divided_into_shallow_and_deep_players(shallow: int, deep: int) -> None:
    assert tree.divide(shallow + deep * tree.DEEP) == (shallow, deep)


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
        {"": Node({"53": 2 * DEEP}), "53": Node({"00": 1})},  # a deep player is not counted below
        {"": Node({"53": DEEP})},
        {"": Node(), "53": Node({"00": 1})},  # counted below, and not above
        {"": Node({"53": -1})},
        {"": Node({"5": 1})},
        {"": Node({"53": DEEP + 1}, {"53"}), "53": Node({"00": 1})},  # full, and a player is shallow
    ],
)
def test_check_finds_a_wrong_tree(wrong: Nodes) -> None:
    with pytest.raises(AssertionError):
        tree.check(wrong)


def test_a_path_begins_at_the_magnitude_of_the_score() -> None:
    wide = Scale(-MOST, MOST, 0, True)
    for score, levels in ((0, 2), (99, 2), (100, 3), (999_999, 4), (-1, 2), (-100, 2), (-101, 3), (MOST, 9)):
        assert wide.score_levels(wide.path(wide.merit(score) * tree.TIE)) == levels


def test_the_earlier_of_two_equal_scores_has_the_greater_number() -> None:
    first = Ranking("BOARD#b#1", SCALES[5], is_shared=False)
    span = SCALES[5].span
    times = [-1, 0, 1, 1_732_000_000_000, 1_732_000_000_001, tree.MILLISECONDS - 1]
    numbers = [first.number(span, f"p{time}", time) for time in times]
    assert numbers[1:] == sorted(numbers[1:], reverse=True)
    assert numbers[0] // 10**9 == numbers[1] // 10**9  # a time before 1970 is read as 1970
    assert all(span * tree.TIE <= number < (span + 1) * tree.TIE < 10**38 for number in numbers)
