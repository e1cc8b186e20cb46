"""What a process remembers of a table for some seconds."""

from __future__ import annotations

import time
from collections.abc import Collection
from unittest.mock import Mock

import pytest

from chalicelib.dynamo.recent import Recent
from chalicelib.dynamo.table import Table


class Source:
    """A table's values, with the reads of it."""

    def __init__(self) -> None:
        self.reads: list[list[str]] = []

    def read(self, names: Collection[str]) -> dict[str, int]:
        self.reads.append(sorted(names))
        return {name: len(self.reads) for name in names}


@pytest.fixture
def table() -> Table:
    return Table("a-table", Mock())


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [1_000.0]
    monkeypatch.setattr(time, "time", lambda: now[0])
    return now


def test_an_old_value_is_read_again_also_after_the_clock_went_back(table: Table, clock: list[float]) -> None:
    source, recent = Source(), Recent[int](seconds=10)
    assert recent.find_all(table, ["a"], source.read) == {"a": 1}
    assert recent.find_all(table, ["a", "b", "b"], source.read) == {"a": 1, "b": 2}
    clock[0] += 10
    assert recent.find_all(table, ["a"], source.read) == {"a": 3}
    clock[0] -= 1
    assert recent.find_all(table, ["a"], source.read) == {"a": 4}
    assert source.reads == [["a"], ["b"], ["a"], ["a"]]


def test_a_forgotten_table_is_read_again(table: Table) -> None:
    source, recent = Source(), Recent[int](seconds=10)
    recent.find_all(table, ["a"], source.read)
    recent.forget(table)
    assert recent.find_all(table, ["a"], source.read) == {"a": 2}


def test_a_table_has_a_bounded_number_of_values_and_every_one_that_was_asked_for(table: Table) -> None:
    source, recent = Source(), Recent[int](seconds=10, most=5)
    for first in range(20):
        names = [str(first), str(first + 1), "always"]
        assert recent.find_all(table, names, source.read).keys() == set(names)
        assert len(recent._kept[table]) <= 5


def test_a_value_that_another_thread_drops_meanwhile_is_still_found(table: Table) -> None:
    recent = Recent[int](seconds=10)
    recent.find_all(table, ["a"], lambda names: dict.fromkeys(names, 1))

    def read(names: Collection[str]) -> dict[str, int]:
        recent.forget(table)
        return dict.fromkeys(names, 2)

    assert recent.find_all(table, ["a", "b"], read) == {"a": 1, "b": 2}
