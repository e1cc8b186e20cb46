"""Every interleaving of an import's preparation, submissions and the stream, with a pause at every step.

A worker delivers the changes of its own player, as a shard of the stream does: each is counted and then
followed. The index is read at once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

from chalicelib import concurrency
from chalicelib.aggregates import engine
from chalicelib.dynamo.items import Item, Key
from chalicelib.ranking import deepening, positions, ranking, tree
from chalicelib.ranking.positions import Point
from chalicelib.ranking.ranking import Ranked, Ranking
from chalicelib.ranking.tree import Scale
from tests.leaderboards.test_rankings import NOW
from tests.support.contexts import new_context
from tests.support.interleavings import Memory, Sequential, Worker, explore
from tests.support.records import record

RANKING = Ranking("BOARD#b#1", Scale(0, 9999, 0, True))
FIRST = RANKING._replace(is_shared=False)
TIMES = {"a": 3, "b": 9, "c": 1, "d": 7}  # of the scores, in units that the first level of ties tells apart
BUCKET = "52"  # of all scores here: 1100 to 1300


class Stage(Memory):
    """A table with its stream, which has a shard for each item."""

    def __init__(self) -> None:
        super().__init__()
        self.acknowledged: dict[Key, int] = {}

    def next_change(self, key: Key) -> tuple[int, Item | None, Item] | None:
        number = self.acknowledged.get(key, 0)
        found = self.request(lambda: self.changes.get(key, [])[number:][:1])
        return (number, *found[0]) if found else None


def key_of(player: str) -> Key:
    return Key(f"PLAYER#{player}", "BOARD#b#1")


def rank(item: Item) -> Ranked | None:
    if not item["pk"].startswith("PLAYER#") or "depth" not in item:
        return None
    return Ranked(RANKING, item["pk"].removeprefix("PLAYER#"), item["gsi1sk"], item["depth"])


def contribution(item: Item) -> Any:
    ranked = rank(item)
    return ranking.count_player(ranked) if ranked else {}


def write(table: Any, player: str, score: int) -> None:
    """Write a score as a submission does: read the item and the depth of its path, then write."""
    before = table.get(key_of(player), consistent=True)
    number = RANKING.number(score + 1, player, TIMES[player] * 10**11)
    depth = ranking.choose_depth(table, RANKING, number, before)
    given: dict[str, Any] = {"condition": "attribute_not_exists(pk)"}
    if before:
        given = {
            "condition": "#depth = :was",
            "names": {"#depth": "depth"},
            "values": {":was": before["depth"]},
        }
    entry = ranking.index_key(RANKING, player, number)
    table.put(key_of(player)._asdict() | entry | {"depth": depth}, **given)


def deliver(table: Stage, key: Key) -> None:
    """Deliver the changes of an item, each in a batch of its own, until all are acknowledged."""
    while change := table.next_change(key):
        number, old, new = change
        batch = [record(old, new) | {"eventID": f"{key} {number}"}]
        engine.apply(table, [contribution], batch, now=lambda: 1_700_000_010)  # type: ignore[arg-type]
        deepening.follow(new_context(table, NOW), [rank], [(key, old or {}, new)])  # type: ignore[arg-type]
        table.acknowledged[key] = number + 1


def player(text: str) -> Worker:
    """A player's steps: a score (a number), a departure ("-"), the delivery of all changes ("~").

    "deepen" delivers the deepening of the bucket.
    """
    name, *steps = text.split()
    if name == "deepen":
        return lambda table: deliver(table, deepening.key_of(RANKING, BUCKET))

    def work(table: Any) -> None:
        for step in steps:
            if step == "~":
                deliver(table, key_of(name))
            elif step == "-":
                table.put(key_of(name)._asdict())
            else:
                write(table, name, int(step))

    return work


def importer(*scores: int) -> Worker:
    """An import's preparation of the ranking for these scores."""
    numbers = [RANKING.number(score + 1, f"i{i}") for i, score in enumerate(scores)]
    return lambda table: deepening.prepare(table, RANKING, numbers)


def settled(table: Stage) -> Stage:
    """Return a copy in which no worker goes on, and all that is not acknowledged was delivered."""
    copy = Stage()
    copy.items, copy.acknowledged = dict(table.items), dict(table.acknowledged)
    copy.changes = {key: [*changes] for key, changes in table.changes.items()}
    while keys := [key for key in copy.changes if key.sk != "NODE" and copy.next_change(key)]:
        for key in keys:
            deliver(copy, key)
    return copy


def assert_exact(table: Memory) -> None:
    nodes = ranking.collect_nodes(RANKING, table.items.values())
    tree.check(nodes)
    found = [ranked for item in table.items.values() if (ranked := rank(item))]
    counted = Counter[tuple[str, str]]()
    for ranked in found:
        counted.update(tree.amounts(RANKING.scale, ranked.number, ranked.depth))
    stored = {(prefix, digits): n for prefix, node in nodes.items() for digits, n in node.counters.items()}
    assert {at: n for at, n in stored.items() if n} == counted
    ordered = sorted((ranked.number for ranked in found), reverse=True)
    for ranked in found:
        position = positions.locate(table, RANKING, Point(ranked.number, ranked.depth))  # type: ignore[arg-type]
        better = sum(RANKING.rank_key(other) > RANKING.rank_key(ranked.number) for other in ordered)
        place = 1 + ordered.index(ranked.number)
        assert (position.rank, position.place, position.players) == (better + 1, place, len(found))


def explore_workers(workers: Sequence[Worker], before: Sequence[str] = ()) -> int:
    """Check each state as if all workers had died in it, and all that they have written was delivered.

    The players of `before` have come, and are counted, when the workers begin.
    """

    def begin() -> Stage:
        table = Stage()
        for text in before:
            player(text)(table)
        return table

    def check(table: Any, has_ended: Sequence[bool], schedule: object) -> None:
        try:
            assert_exact(settled(table))
        except AssertionError as error:
            raise AssertionError(f"{schedule}: {error}") from None

    return explore(workers, check, begin)


CROWD = ["a 1100 ~", "b 1101 ~"]  # a deepening of their bucket has begun
DEEPENED = [*CROWD, "deepen", "a ~"]  # both are re-stamped, and one of them is counted
SCENARIOS: dict[str, tuple[list[Worker], list[str]]] = {
    "an import, and one player": ([importer(1100, 1200), player("a 1100 ~")], []),
    "an import of two levels, and a player": ([importer(1100, 1101), player("a 1100 ~")], []),
    "an import, and a player who moves": ([importer(1100, 1200), player("a 1100 ~ 1200 ~")], []),
    "an import, and a player who leaves": ([importer(1100, 1200), player("a 1100 ~ - ~")], []),
    "an import, and a player who gains": ([importer(1100, 1200), player("a 1100 1200 ~")], []),
    "two who come to a crowd": ([player("c 1200 ~"), player("d 1300 ~")], CROWD),
    "a deepening, and one who comes": ([player("deepen"), player("c 1200 ~")], CROWD),
    "the last of a deepening, and one who leaves": ([player("b ~"), player("a - ~")], DEEPENED),
}
TIED = ["a 1100 ~", "b 1100 ~"]
TIES: dict[str, tuple[list[Worker], list[str]]] = {
    "two who come to a tie": ([player("c 1100 ~"), player("d 1100 ~")], TIED),
    "a deepening, and one who comes to a tie": ([player("deepen"), player("c 1100 ~")], TIED),
    "one who comes to a tie, and one who leaves it": ([player("c 1100 ~"), player("a 1200 ~")], TIED),
}
LONG: dict[str, tuple[list[Worker], list[str]]] = {
    "two imports, and a player": ([importer(1100, 1200), importer(1100, 1101), player("a 1100 ~")], []),
    "the last of a deepening, and one who comes": ([player("b ~"), player("c 1200 ~")], DEEPENED),
    "the last of a deepening leaves": ([player("b - ~"), player("c 1200 ~")], DEEPENED),
}


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Buckets of one player, and no threads."""
    monkeypatch.setattr(tree, "LIMIT", 1)
    monkeypatch.setattr(concurrency, "_threads", lambda pool: Sequential())


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_every_interleaving_leaves_exact_ranks(scenario: str) -> None:
    assert explore_workers(*SCENARIOS[scenario]) > 50


@pytest.mark.parametrize(
    "scenario", [pytest.param(name, marks=pytest.mark.long if "deepening" in name else ()) for name in TIES]
)
def test_every_interleaving_leaves_exact_ranks_where_the_first_is_ahead(
    scenario: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(globals(), "RANKING", FIRST)
    assert explore_workers(*TIES[scenario]) > 40


@pytest.mark.long
@pytest.mark.parametrize("scenario", LONG)
def test_every_interleaving_of_more_workers_leaves_exact_ranks(scenario: str) -> None:
    assert explore_workers(*LONG[scenario]) > 1_000


# -- the faults that the search must find ------------------------------------------------------------------


def _mark_anyway(table: Memory, key: Key, expression: str, **given: Any) -> Item | None:
    given |= {"condition": ""} if ":digits" in expression else {}
    return UPDATE(table, key, expression, **given)


def _stamp_the_first_number(table: Any, ranking: Ranking, key: Key, bucket: str, depth: int) -> None:
    first, last = (table.changes[key][n][1].get("gsi1sk") for n in (0, -1))
    if first == last:
        STAMP(table, ranking, key, bucket, depth)


UPDATE, STAMP = Memory.update, deepening._stamp
FAULTS: dict[str, tuple[Any, str, Any]] = {
    "a mark rests on an earlier read": (Memory, "update", _mark_anyway),
    "a player who gains is not re-stamped": (deepening, "_stamp", _stamp_the_first_number),
    "nobody is re-stamped": (deepening, "_stamp", lambda *_: None),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_of_the_protocol_is_found(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(*FAULTS[fault])
    with pytest.raises(AssertionError):
        [explore_workers(*scenario) for scenario in SCENARIOS.values()]
