"""The measured cost of a path, ours and the published design's."""

from __future__ import annotations

import pytest

from bench.challenges import SCENARIOS, Cost, cost
from local.engines.engine import Engine


@pytest.mark.long
def test_a_path_costs_exactly_this(ministack: Engine) -> None:
    paths = SCENARIOS["100 players, a path each"]
    assert cost(ministack, paths) == pytest.approx(Cost(4, 0.06, 4.06, 4.02))
    alone = SCENARIOS["a path, alone"]
    assert cost(ministack, alone) == pytest.approx(Cost(4, 1, 5, 5))
    assert cost(ministack, alone, is_published=True) == pytest.approx(Cost(1, 3, 4, 0.5))
