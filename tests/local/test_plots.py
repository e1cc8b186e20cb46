"""Plots as text: bars on one scale, and values over a time."""

from __future__ import annotations

import pytest

from local.plots import HEIGHT, WIDTH, bars, columns


def test_bars_end_where_their_numbers_are_on_one_scale() -> None:
    *lines, scale = bars([("one", (1, 2, None)), ("two more", (4, 2, 1))], "PF")
    quarter, half = 16, 30  # the column of a quarter and of a half of 60
    assert lines[0] == "one      │" + "█" * quarter + " " * (half - quarter) + "P"
    assert lines[1] == "two more │" + "█" * (quarter - 1) + "F" + "█" * (half - quarter) + "P" + "█" * (
        WIDTH - half - 1
    )
    assert scale == "         └0" + " " * (WIDTH - 2) + "4"


def test_numbers_that_lie_far_apart_have_a_logarithmic_scale() -> None:
    *lines, scale = bars([("1", (1.0,)), ("100", (100.0,)), ("100", (10_000.0,)), ("none", (None,))], "")
    assert [line.count("█") for line in lines] == [1, 1 + round((WIDTH - 1) / 2), WIDTH, 0]
    assert scale.endswith("10,000 (logarithmic)")


def test_a_column_has_the_largest_value_of_its_time() -> None:
    lines = list(columns([(0, 1.0), (0.5, 4.0), (30, 2.0), (99, 1.0)], 60, marks=[30, 59.9]))
    body = [line.partition("│")[2].ljust(WIDTH) for line in lines[:HEIGHT]]
    assert lines[0].startswith("  4.0 │")
    heights = {column: sum(row[column] == "█" for row in body) for column in range(WIDTH)}
    assert {column: height for column, height in heights.items() if height} == {0: 8, 30: 4, WIDTH - 1: 2}
    assert [column for column, mark in enumerate(lines[-1][7:]) if mark == "×"] == [30, WIDTH - 1]


@pytest.mark.parametrize("points", [[], [(1.0, 0.0)]])
def test_a_plot_of_nothing_is_empty(points: list[tuple[float, float]]) -> None:
    assert not any(block in line for line in columns(points, 60) for block in "▁▂▃▄▅▆▇█")
