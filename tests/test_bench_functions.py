"""What the bench says of functions: measured in a process of their own, divided by the share of a CPU."""

from __future__ import annotations

from bench import functions
from local.engine import Engine
from tests import permissions


def test_every_function_is_measured_and_given_memory() -> None:
    assert set(functions.CALLS) == set(functions.configured()) == set(permissions.files())


def test_a_function_runs_in_a_process_of_its_own(ministack: Engine) -> None:
    functions.keep_secret(ministack)
    taken = functions.run(ministack, "apply", 1)
    assert 0 < taken.cpu <= taken.first + taken.imported
    assert 20 < taken.memory < functions.configured()["apply"] - functions.RUNTIME


def test_compiling_what_a_cold_start_imports_takes_time() -> None:
    assert 0.01 < functions.compiling() < 10


def test_half_the_memory_takes_twice_the_time() -> None:
    one = functions.Taken(imported=0.2, first=0.1, cpu=0.01, clock=1, memory=60)
    assert functions.text(one, functions.WHOLE) == "300 / 10"
    assert functions.text(one, functions.WHOLE // 2) == "600 / 20"
