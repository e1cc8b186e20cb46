"""A soak kills the product and loses nothing, and its comparison sees what is missing."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.soak import MEGABYTES, Accepted, differences, soak
from tests.support.running import small_disk

PAGE = "https://www.example.org/0"


@pytest.mark.long
def test_nothing_is_lost_when_the_processes_are_killed_under_load(tmp_path: Path) -> None:
    with small_disk(tmp_path / "data", MEGABYTES):
        accepted = soak(tmp_path / "data", minutes=0.5, every=4, seed=1)
    assert accepted.wrong == []
    assert accepted.numbers["requests"] > 50
    assert [name for name in accepted.numbers if name.startswith("faults: ")]


def test_the_comparison_names_each_kind_of_loss() -> None:
    shown: dict[str, Any] = {
        "/views": {"views": 1},
        "/leaderboards": {"score": 7},
        "/challenges": {"paths": ["oak"]},
        "/products": {"items": [{"id": "1"}], "cursor": None},
    }

    def call(method: str, path: str) -> tuple[int, Any]:
        return 200, shown["/" + path.split("/")[1].partition("?")[0]]

    client: Any = SimpleNamespace(call=call)
    whole = Accepted(
        views={PAGE: {"a"}}, scores={"ann": {"1": 3, "2": 4}}, paths={"ann": {"oak"}}, comments={"p": {"1"}}
    )
    assert list(differences(client, whole)) == []
    more = Accepted(
        views={PAGE: {"a", "b"}}, scores={"ann": {"1": 3}}, paths={"ann": set()}, comments={"p": {"1", "2"}}
    )
    assert len(list(differences(client, more))) == 4
