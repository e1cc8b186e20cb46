"""The stored format: what 1.0.0 stores keeps its keys, its names, its types and what it counts."""

from __future__ import annotations

from local.engines.engine import Engine
from tests.support import format


def test_every_recorded_key_name_and_type_is_still_stored(engine: Engine) -> None:
    stored = {kind: format.names(item) for kind, item in format.record(engine).items()}
    recorded = {kind: format.names(entry["item"]) for kind, entry in format.read().items()}
    for kind, attributes in recorded.items():
        assert attributes.items() <= stored.get(kind, {}).items(), kind
    assert stored == recorded, "`make generate` records what is new"


def test_every_recorded_item_still_adds_what_it_added() -> None:
    for kind, entry in format.read().items():
        assert format.amounts(entry["item"]) == entry["adds"], kind
