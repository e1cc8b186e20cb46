"""The bench of several shards: a run repeats exactly, and cancelled transactions are charged."""

from __future__ import annotations

import pytest

from bench import shards
from bench.shards import SCENARIOS, SHARDS, Clock, Scenario, Tally, applied
from bench.tables import Drifted, fresh_table
from chalicelib.dynamo.table import Table
from local.engines.engine import Engine
from local.engines.in_process import InProcessEngine
from local.engines.meter import Meter
from tests.support.faults import cancelled, instead

VIEWS, MORE_PAGES, ONE_PAGE, SCORES, _ = SCENARIOS


@pytest.fixture(scope="module")
def inside() -> Engine:
    """ministack's tables in this process: nothing is sent."""
    return InProcessEngine()


def test_one_shard_conflicts_with_nobody_and_four_meet_at_the_guard(inside: Engine) -> None:
    alone, four = (applied(inside, VIEWS, count, 60) for count in (1, SHARDS))
    assert (alone.cancelled, alone.cancelled_units, alone.redelivered) == (0, 0, 0)
    assert four.cancelled >= four.guard > 0
    assert four.root == 0
    assert four.units - four.cancelled_units >= alone.units, "four batches are smaller ones"


def test_more_guard_pages_part_what_meets_at_the_guard(inside: Engine) -> None:
    assert applied(inside, MORE_PAGES, SHARDS, 60).guard < applied(inside, VIEWS, SHARDS, 60).guard


def test_scores_meet_at_the_root_of_their_tree(inside: Engine) -> None:
    assert applied(inside, SCORES, SHARDS, 40).root > 0


def test_a_run_repeats_exactly_and_another_seed_is_another_run(inside: Engine) -> None:
    first, again, other = (applied(inside, VIEWS, SHARDS, 40, seed) for seed in (1, 1, 2))
    assert first == again != other


def test_a_cancelled_transaction_is_billed_like_a_written_one(inside: Engine) -> None:
    action = {"Put": {"Item": {"pk": "GUARD#1#0", "sk": "s"}}}
    with fresh_table(inside) as (made, _):
        table = Table(made.name, made.client, pause=lambda _: None)
        meter = Meter(table.client)
        tally = Tally(meter)
        with meter, tally.attached(table.client):
            with instead(table, "TransactWriteItems", cancelled("TransactionConflict")):
                assert table.transact([action]) == ()
            assert dict(tally.counts) == {"written": 1, "cancelled": 1, "guard": 1}
            assert (tally.cancelled_units, meter.write_units) == (2, 2 + 2)
            with instead(table, "TransactWriteItems", cancelled("ConditionalCheckFailed")):
                assert table.transact([action]) == (0,)
            assert tally.counts["cancelled"] == 1, "a false condition is no conflict"


def test_wrong_sums_are_no_result(inside: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shards, "find_drift", lambda *_: {"a sum": (1, 2)})
    with pytest.raises(Drifted):
        applied(inside, Scenario("two views", VIEWS.write), 1, 2)


def test_workers_take_turns_on_one_clock() -> None:
    clock, done = Clock(1), []

    def work(name: str, seconds: float) -> None:
        for _ in range(2):
            clock.sleep(seconds)
            done.append((name, clock()))

    clock.run([lambda: work("slow", 3), lambda: work("quick", 2)])
    assert done == [("quick", 2), ("slow", 3), ("quick", 4), ("slow", 6)]
