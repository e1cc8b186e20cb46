"""Faulty histories keep every invariant, and follow from their seeds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest
from click.testing import CliRunner

import tests.histories.__main__ as command
from local.engines.engine import Engine
from tests.histories import workers
from tests.histories.history import Outcome, run
from tests.histories.scenario import scenario

KINDS = {  # of faults that some histories have among them, by their first words
    *("killed before sending", "killed after sending", "killed after the reply", "killed after a post"),
    *("TransactionConflict", "throttled", "500, applied", "500, not applied", "clock skew"),
    *("time-out, applied", "time-out, not applied", "a batch that was done, again", "a shard delayed"),
    *("a batch that failed, split", "a batch that failed, regrown", "a batch beside the one before"),
    *("a page cut short", "a batch done in part", "poison planted", "a view expired"),
    *("a message that was done, again", "the table out of reach", "$disconnect never comes"),
}


def missing(faults: Counter[str]) -> set[str]:
    return {kind for kind in KINDS if not any(fault.startswith(kind) for fault in faults)}


def test_histories_end_without_a_difference(engine: Engine) -> None:
    for seed in range(9_000_001, 9_000_005):
        outcome = run(engine, seed)
        assert outcome.differences == [], f"python -m tests.histories --seed {seed} --histories 1"
        assert outcome.faults.total() > 0


def test_a_seed_is_the_same_history_each_time(engine: Engine) -> None:
    first, again = (run(engine, 620_003) for _ in range(2))
    assert (first.trace, first.calls, first.faults) == (again.trace, again.calls, again.faults)
    assert scenario(7) == scenario(7) != scenario(8)


@pytest.mark.long
def test_hundreds_of_histories_end_without_a_difference_and_have_every_kind_of_fault() -> None:
    outcomes = list(workers.run_all(range(1, 301), 2))
    assert {outcome.seed: outcome.differences for outcome in outcomes if outcome.differences} == {}
    assert missing(sum((outcome.faults for outcome in outcomes), start=Counter())) == set()


def test_the_command_names_the_seed_that_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    outcomes = [Outcome(5, faults=Counter(throttled=2), calls=9), Outcome(6, ["views: one is lost"], calls=1)]
    monkeypatch.setattr(workers, "run_all", lambda seeds, processes: iter(outcomes))
    monkeypatch.setattr(workers, "set_environment", lambda: None)
    done = CliRunner().invoke(command.main, ["--seed", "5", "--histories", "2"])
    assert done.exit_code == 1
    assert "seed 6 has a difference; repeat: python -m tests.histories --seed 6 --histories 1" in done.stderr
    for row in ("histories | 2", "calls of the table | 10", "throttled | 2", "6 | views: one is lost"):
        assert f"| {row} |" in done.stdout


def test_an_interrupted_command_shows_the_histories_that_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    def run_all(seeds: range, processes: int) -> Iterator[Outcome]:
        yield Outcome(seeds[0])
        raise KeyboardInterrupt

    monkeypatch.setattr(workers, "run_all", run_all)
    monkeypatch.setattr(workers, "set_environment", lambda: None)
    done = CliRunner().invoke(command.main, ["--histories", "2"])
    assert done.exit_code == 1
    assert "| histories | 1 |" in done.stdout
