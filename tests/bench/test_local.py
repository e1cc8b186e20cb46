"""The measurement of the local run, with small numbers: it counts, ranks and compares what it says."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench import local
from local.engines.engine import default_kind


@pytest.mark.long
def test_the_local_run_is_measured_from_its_start_to_its_imports(tmp_path: Path) -> None:
    kind = default_kind(tmp_path)
    said: list[str] = []
    report = local.measure([kind], local.Sizes(100, 40, 50, 60), said.append)
    [(engine, *seconds)] = report.figures[0].rows
    assert engine == kind
    assert len(seconds) == 5
    assert all(isinstance(one, float) and one > 0 for one in seconds)
    assert said[0] == f"{kind}: start"
    assert [target.bound for target in report.targets] == [local.START_BOUND, local.RACE_BOUND]
    assert not any(target.strict for target in report.targets)  # of small numbers nothing is judged


def test_a_view_that_is_refused_ends_the_measurement(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "PAGE", "ftp://example.org/")
    with pytest.raises(RuntimeError, match="a view was refused: 400"):
        local.measure([default_kind(tmp_path)], local.Sizes(1, 1, 1, 1), lambda _: None)
