"""The races of the ranks show no fault. `python -m tests.races.ranks` plays more of them, also under load."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.races import product, ranks
from tests.support.running import Run


@pytest.fixture(scope="module")
def run() -> Iterator[Run]:
    with product() as running:
        yield running


@pytest.mark.parametrize(("race", "rounds"), [("loss", 12), ("mixed", 2), ("imported", 1)])
def test_a_race_of_ranks_has_no_fault(run: Run, race: str, rounds: int) -> None:
    assert ranks.play(run, race, rounds).faults == {}


@pytest.mark.long
@pytest.mark.parametrize("race", ranks.RACES)
def test_a_thousand_rounds_have_no_fault(run: Run, race: str) -> None:
    assert ranks.play(run, race, 1_000).faults == {}
