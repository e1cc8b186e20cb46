"""The bench of several shards: a run repeats exactly, and cancelled transactions are charged."""

from __future__ import annotations

import pytest

from bench import tables
from bench.shards import SCENARIOS, SHARDS, Clock, Tally, applied
from bench.tables import Drifted, fresh_table
from chalicelib.dynamo.items import Key
from chalicelib.dynamo.table import Table
from local.engines.engine import Engine
from local.engines.in_process import InProcessEngine
from local.engines.meter import Meter
from tests.support.faults import cancelled, instead

pytestmark = pytest.mark.long

VIEWS, ONE_PAGE, _, SCORES = SCENARIOS.values()


@pytest.fixture(scope="module")
def inside() -> Engine:
    """ministack's tables in this process: nothing is sent."""
    return InProcessEngine()


def test_views_of_many_pages_meet_nobody(inside: Engine) -> None:
    alone, four = (applied(inside, VIEWS, count, 60) for count in (1, SHARDS))
    for one in (alone, four):
        assert (one.refused, one.conflicts, one.moves, one.lost_units, one.redelivered) == (0, 0, 0, 0, 0)
    assert four.units == alone.units
    assert four.seconds < alone.seconds


def test_many_views_of_one_page_move_tags_once_a_batch(inside: Engine) -> None:
    alone = applied(inside, ONE_PAGE, 1, 120)
    assert (alone.moves, alone.conflicts, alone.redelivered) == (4, 0, 0)  # page and day, events and visitors
    assert alone.units / alone.changes < 0.6


def test_scores_of_four_shards_meet_at_the_nodes_of_their_tree(inside: Engine) -> None:
    four = applied(inside, SCORES, SHARDS, 200)
    assert four.refused + four.conflicts > 0
    assert four.redelivered == 0


def test_a_run_repeats_exactly_and_another_seed_is_another_run(inside: Engine) -> None:
    first, again, other = (applied(inside, VIEWS, SHARDS, 40, seed) for seed in (1, 1, 2))
    assert first == again != other


def test_a_write_that_is_refused_or_meets_a_conflict_is_billed(inside: Engine) -> None:
    action = {"Put": {"Item": {"pk": "P", "sk": "s"}}}
    with fresh_table(inside) as (made, _):
        table = Table(made.name, made.client, pause=lambda _: None)
        meter = Meter(table.client)
        tally = Tally(meter)
        with meter, tally.attached(table.client):
            with instead(table, "TransactWriteItems", cancelled("TransactionConflict")):
                assert table.transact([action]) == ()
            assert dict(tally.counts) == {"updates": 1, "conflicts": 1}
            assert (tally.lost_units, meter.write_units) == (2, 2 + 2)
            assert table.update(Key("P", "s"), "SET n = :n", condition="n = :n", values={":n": 1}) is None
            assert dict(tally.counts) == {"updates": 1, "conflicts": 1, "refused": 1}
            assert tally.lost_units == 2 + 1


def test_wrong_sums_are_no_result(inside: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "find_drift", lambda *_: {"a sum": (1, 2)})
    with pytest.raises(Drifted):
        applied(inside, VIEWS, 1, 2)


def test_workers_take_turns_on_one_clock() -> None:
    clock, done = Clock(1), []

    def work(name: str, seconds: float) -> None:
        for _ in range(2):
            clock.sleep(seconds)
            done.append((name, clock()))

    clock.run([lambda: work("slow", 3), lambda: work("quick", 2)])
    assert done == [("quick", 2), ("slow", 3), ("quick", 4), ("slow", 6)]
