"""Faulty histories keep every invariant, and follow from their seeds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from local.engines.engine import Engine
from proof import runner
from proof.cli import main, read, write
from proof.history import Outcome, run
from proof.runner import IN_PROCESS
from proof.scenario import scenario

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


def test_histories_end_without_a_difference() -> None:
    for seed in range(9_000_001, 9_000_005):
        outcome = run(runner.engine(IN_PROCESS), seed)
        assert outcome.differences == [], f"python -m proof histories --seed {seed} --histories 1"
        assert outcome.faults.total() > 0


def test_a_history_on_a_real_engine_ends_without_a_difference(engine: Engine) -> None:
    """The same over HTTP, on engines that split streams and order results in their own way."""
    outcome = run(engine, 9_000_100)
    assert outcome.differences == []
    assert outcome.faults.total() > 10


def test_a_seed_is_the_same_history_each_time() -> None:
    first, again = (run(runner.engine(IN_PROCESS), 9_000_001) for _ in range(2))
    assert (first.trace, first.calls, first.faults) == (again.trace, again.calls, again.faults)
    assert scenario(7) == scenario(7) != scenario(8)


@pytest.mark.long
def test_hundreds_of_histories_end_without_a_difference_and_have_every_kind_of_fault() -> None:
    outcomes = list(runner.histories(IN_PROCESS, range(1, 301), 2))
    assert {one.seed: one.differences for one in outcomes if one.differences} == {}
    assert missing(sum((one.faults for one in outcomes), start=Counter())) == set()


def outcomes(*_: Any) -> Iterator[Outcome]:
    yield Outcome(5, faults=Counter(throttled=2), calls=9)
    yield Outcome(6, ["views: one is lost"], calls=1)


def test_the_command_names_the_seed_that_failed_and_writes_its_tables_into_a_page(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(runner, "histories", outcomes)
    monkeypatch.setattr(runner, "set_environment", lambda: None)
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- histories -->\n<!-- end of histories -->\nafter\n")
    options = ["histories", "--seed", "5", "--histories", "2", "--write", str(page)]
    done = CliRunner().invoke(main, options)
    assert done.exit_code == 1
    assert "seed 6 has a difference; repeat: python -m proof histories --seed 6 --histories 1" in done.stderr
    assert "| 6 | views: one is lost |" in done.stdout
    written = page.read_text()
    assert written.startswith("before\n<!-- histories -->\n")
    assert written.endswith("<!-- end of histories -->\nafter\n")
    assert "`python -m proof histories --seed 5 --histories 2`" in written
    assert "| throttled | 2 |" in written


def test_an_interrupted_command_goes_on_with_the_histories_that_are_left(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked: list[list[int]] = []

    def run_until(last: int) -> None:
        def some(kind: str, seeds: Iterable[int], processes: int) -> Iterator[Outcome]:
            asked.append(list(seeds))
            for seed in asked[-1]:
                if seed > last:
                    raise KeyboardInterrupt
                yield Outcome(seed, faults=Counter(throttled=2), calls=9, records=3)

        monkeypatch.setattr(runner, "histories", some)
        options = ["histories", "--seed", "5", "--histories", "4", "--outcomes", str(log)]
        results.append(CliRunner().invoke(main, options))

    log, results = tmp_path / "outcomes.jsonl", list[Result]()
    monkeypatch.setattr(runner, "set_environment", lambda: None)
    run_until(6)
    took = read(log, range(5, 9))[1]
    run_until(9)
    assert [done.exit_code for done in results] == [1, 0]
    assert asked == [[5, 6, 7, 8], [7, 8]]
    assert "| histories | 2 |" in results[0].stdout
    for row in ("histories | 4", "calls of the table | 36", "stream records | 12", "throttled | 8"):
        assert f"| {row} |" in results[1].stdout
    assert 0 < took < read(log, range(5, 9))[1]
    assert [outcome.seed for outcome in read(log, range(8, 20))[0]] == [8]


def test_a_page_without_marks_is_left_alone(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("nothing\n")
    with pytest.raises(ValueError, match="marks of histories"):
        write(page, "histories", "text")
    assert page.read_text() == "nothing\n"
