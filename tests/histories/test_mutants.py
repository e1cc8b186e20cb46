"""Histories catch every fault that is planted in the product: in `make test` some, in `make test-all` all."""

from __future__ import annotations

import pytest

import app
from local.engines.engine import Engine
from tests.histories.history import run
from tests.histories.mutants import FAULTS, MUTANTS, Mutant, Unfit, hunt, unconditional
from tests.histories.scenario import EVERYTHING, THEMES

QUICK = {
    *("a visitor is not written", "a stranger may change scores", "a comment is not listed"),
    *("a repeated vote counts again", "nobody is found in the pool", "everybody is banned"),
}


def test_the_functions_that_mutants_wrap_exist() -> None:
    assert len(MUTANTS) > 20
    assert MUTANTS.keys() > QUICK
    assert {theme.name for theme in (EVERYTHING, *THEMES)} >= FAULTS.keys()
    for mutant in MUTANTS.values():
        assert len(mutant.patches()) == len(mutant.functions.split())


def test_a_mutant_that_takes_no_effect_fails_loudly(engine: Engine) -> None:
    unfit = unconditional("a key that nothing has", "NOSUCH#", "", "Put")
    with pytest.raises(Unfit, match="a key that nothing has: took no effect in 1 histories"):
        hunt(engine, unfit, 1)
    with pytest.raises(AttributeError, match="no_such_handler"):
        Mutant("no function", app, "no_such_handler", lambda function: None).patches()


def test_a_mutant_changes_the_requests_of_handlers_and_is_gone_afterwards(engine: Engine) -> None:
    mutant = MUTANTS["a stranger may change scores"]
    [outcome, after] = (run(engine, 1, planted=planted) for planted in (mutant, None))
    assert outcome.differences
    assert after.differences == []


def test_a_mutant_without_changes_changes_nothing() -> None:
    mutant = Mutant("nothing")
    assert not mutant.rewrite("PutItem", {})
    assert not mutant.rewrite("PutItem", {}, {})
    assert (mutant.patches(), mutant.applied) == ([], 0)


@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.long) for name in MUTANTS]
)
def test_a_planted_fault_is_caught(name: str, engine: Engine) -> None:
    caught = hunt(engine, MUTANTS[name])
    print(f"{caught.difference} (after {caught.histories} histories)")
    assert caught.difference, f"not in {caught.histories} histories"
