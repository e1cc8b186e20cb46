"""Runs histories in worker processes, each with an engine of its own or with one that is there."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from functools import cache, partial
from multiprocessing import get_context
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from local.engines.engine import Engine
    from proof.history import Outcome

T = TypeVar("T")
R = TypeVar("R")
IN_PROCESS = "in-process"  # the engine kind of local/engines/in_process.py, imported by the workers alone
ENVIRONMENT = {
    "HUBBUB_STAGE": "local",
    "HUBBUB_SECRET": "0123456789abcdef0123456789abcdef",
    "POWERTOOLS_METRICS_DISABLED": "true",
    "POWERTOOLS_LOG_LEVEL": "CRITICAL",
    "PYTHONHASHSEED": "0",  # of the workers: the order of a set follows from it
}
HISTORIES = 150  # of a process: an engine keeps some of each deleted table


def set_environment() -> None:
    """Set the environment of histories in this process, before app.py is imported."""
    for name in [name for name in os.environ if name.startswith(("AWS_", "HUBBUB_", "POWERTOOLS_"))]:
        del os.environ[name]
    os.environ.update(ENVIRONMENT)


def begin() -> None:
    """Begin a worker. Ctrl-C reaches the command alone, which then ends its workers."""
    os.setsid()
    set_environment()


@cache
def engine(kind: str) -> Engine:
    """Start an engine, or connect to one, for the life of this process."""
    from local.engines.engine import start
    from local.engines.in_process import InProcessEngine

    return InProcessEngine() if kind == IN_PROCESS else start(kind, data=None)


def run_one(kind: str, seed: int) -> Outcome:
    """Run one history in this process."""
    from proof.history import run

    return run(engine(kind), seed)


def in_processes(work: Callable[[T], R], values: Iterable[T], processes: int) -> Iterator[R]:
    """Do the work for each value in worker processes, and yield the results as they come."""
    with get_context("spawn").Pool(processes, begin, maxtasksperchild=HISTORIES) as pool:
        yield from pool.imap_unordered(work, values)


def histories(kind: str, seeds: Iterable[int], processes: int) -> Iterator[Outcome]:
    """Run histories in worker processes, and yield their outcomes as they end."""
    return in_processes(partial(run_one, kind), seeds, processes)
