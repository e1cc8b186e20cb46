"""Every interleaving of workers that count the same records, with a crash at every point."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pytest

from chalicelib.aggregates import engine, tags
from chalicelib.aggregates.sums import Amount
from chalicelib.aggregates.updates import Update
from chalicelib.dynamo.items import Item, Key
from tests.support.interleavings import Memory, Worker, explore
from tests.support.records import record

NOW = 1_700_000_000
SUM = Key("SUM", "all")
AMOUNTS = {name: 10**i for i, name in enumerate("abcdef")}  # one decimal digit counts each record
SECONDS = {"a": NOW + 1, "b": NOW + 1, "c": NOW + 2, "d": NOW + 3, "e": NOW + 3, "f": NOW + 3}
RECORDS = {
    name: record(None, {"pk": "X", "sk": name, "n": amount}, second=SECONDS[name])
    for name, amount in AMOUNTS.items()
}
Batches = tuple[str, ...]


def contribution(item: Item) -> dict[tuple[Key, str], Amount]:
    return {(SUM, "n"): item["n"]} if "n" in item else {}


def deliver(batches: Batches) -> Worker:
    """A worker that receives batches one after the other. One that comes twice is delivered again."""

    def work(table: Any) -> None:
        for batch in batches:
            engine.apply(table, [contribution], [RECORDS[name] for name in batch], now=lambda: NOW + 10)

    return work


def explore_deliveries(deliveries: list[Batches]) -> int:
    """Check in every state that each record is counted once at most, and at least if it is acknowledged."""

    def check(table: Memory, has_ended: Sequence[bool], schedule: object) -> None:
        for ended, batches in zip(has_ended, deliveries, strict=True):
            if ended:
                assert all(digit(table, name) == 1 for name in "".join(batches)), schedule
        assert all(digit(table, name) <= 1 for name in RECORDS), schedule

    return explore([deliver(batches) for batches in deliveries], check)


def digit(table: Any, name: str) -> int:
    """Return how often a record is counted."""
    counted: int = table.items.get(SUM, {}).get("n", 0) // AMOUNTS[name] % 10
    return counted


SCENARIOS: list[list[Batches]] = [
    [("a",), ("a",)],
    [("a", "b"), ("ab",)],
    [("ab", "c"), ("a", "bc")],
    [("abc", "d"), ("ab", "cd")],
    [("a", "b", "c", "d"), ("abcd",)],
    [("d", "a"), ("c", "ab")],
    [("d", "ab"), ("cd", "ab")],
    [("a",), ("bcd", "a", "e", "f")],  # two moves between a read and its write
]


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Aggregates that hold two tags, so that a few records fill them."""
    monkeypatch.setattr(engine, "TAGS", 2)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("deliveries", SCENARIOS, ids=str)
def test_every_interleaving_of_two_workers_counts_each_record_once(deliveries: list[Batches]) -> None:
    assert explore_deliveries(deliveries) > 5


@pytest.mark.long
@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(
    "deliveries", [[("ab",), ("bc",), ("ca",)], [("d", "a"), ("ad",), ("c", "ab")]], ids=str
)
def test_every_interleaving_of_three_workers_counts_each_record_once(deliveries: list[Batches]) -> None:
    assert explore_deliveries(deliveries) > 50


# -- the faults that the search must find ------------------------------------------------------------------


def _pages_first(table: Any, key: Key, seen: Item, changes: Any) -> Any:
    """Look at the guard pages as they were before the aggregate was read."""
    moved = tags.find_moved(table, key, {change.tag for change in changes})
    seen.clear()
    seen.update(table.get(key, consistent=True) or {})
    return [
        change for change in changes if change.tag not in seen.get("applied", ()) and change.tag not in moved
    ]


def _tag_without_condition(update: Update, tags: set[bytes]) -> Update:
    TAG(update, tags)._conditions.pop()
    return update


def _despite_moves(amounts: Any, tags: set[bytes], now: int) -> Update:
    update = ONCE(amounts, tags, now)
    update._conditions = [condition for condition in update._conditions if "spilled" not in condition]
    return update


def _tags_apart(*, is_first: bool) -> Any:
    """Write the tags of an addition in an update of their own."""

    def update(table: Memory, key: Key, expression: str, **given: Any) -> Item | None:
        if ", applied :tags" not in expression:
            return UPDATE(table, key, expression, **given)
        both = ("ADD applied :tags", expression.replace(", applied :tags", ""))
        first, second = both if is_first else both[::-1]
        if UPDATE(table, key, first, **given) is None:
            return None
        return UPDATE(table, key, second, **given | {"condition": ""})

    return update


def _pages_apart(*, is_first: bool) -> Any:
    """Write the guard pages of a move in a transaction of their own."""

    def transact(table: Memory, actions: Iterable[Mapping[str, Any]]) -> tuple[int, ...]:
        aggregate, *pages = actions
        if is_first:
            return TRANSACT(table, pages) or TRANSACT(table, [aggregate])
        return TRANSACT(table, [aggregate]) or TRANSACT(table, pages)

    return transact


ONCE = engine.update_once
TAG, SPILL, SAME = Update.tag, Update.spill, Update.require_same
UPDATE, TRANSACT = Memory.update, Memory.transact
FAULTS: dict[str, tuple[Any, str, Any]] = {
    "the pages are read before the aggregate": (engine, "_not_counted", _pages_first),
    "the pages are not read": (tags, "find_moved", lambda table, key, tags: set()),
    "a tag is not written": (Update, "tag", lambda update, tags: update),
    "a tag is written without its condition": (Update, "tag", _tag_without_condition),
    "a tag is written before the sum": (Memory, "update", _tags_apart(is_first=True)),
    "a tag is written after the sum": (Memory, "update", _tags_apart(is_first=False)),
    "a guard page is written before the sum": (Memory, "transact", _pages_apart(is_first=True)),
    "a guard page is written after the sum": (Memory, "transact", _pages_apart(is_first=False)),
    "a refusal is taken for a duplicate": (engine, "_add_slowly", lambda *_: (set(), {})),
    "`spilled` is not compared": (engine, "update_once", _despite_moves),
    "`spilled` goes back": (Update, "spill", lambda update, kept, _, spills: SPILL(update, kept, 0, spills)),
    "`spills` is not raised": (
        Update,
        "spill",
        lambda update, kept, newest, _: SPILL(update, kept, newest, 1),
    ),
    "`spills` is not compared": (
        Update,
        "require_same",
        lambda update, name, seen: update if name == "spills" else SAME(update, name, seen),
    ),
    "`applied` is not compared when it moves": (
        Update,
        "require_same",
        lambda update, name, seen: update if name == "applied" else SAME(update, name, seen),
    ),
    "every tag is forgotten at once": (tags, "RETENTION", -100),
}


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_of_the_protocol_is_found(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(*FAULTS[fault])
    with pytest.raises(AssertionError):
        [explore_deliveries(deliveries) for deliveries in SCENARIOS]
