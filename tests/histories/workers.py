"""Worker processes of histories, each with an engine of its own."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from functools import cache
from multiprocessing import get_context
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from local.engines.engine import Engine
    from tests.histories.history import Outcome

PER_PROCESS = 150  # histories of a process: an engine keeps a part of each deleted table
ENVIRONMENT = {
    "HUBBUB_STAGE": "local",
    "HUBBUB_QUEUE": "on",
    "HUBBUB_SECRET": "0123456789abcdef0123456789abcdef",
    "POWERTOOLS_METRICS_DISABLED": "true",
    "POWERTOOLS_LOG_LEVEL": "CRITICAL",
    "PYTHONHASHSEED": "0",  # of the workers: the order of a set follows from it
}


def run_all(seeds: Iterable[int], processes: int) -> Iterator[Outcome]:
    """Run histories in worker processes, and yield their outcomes as they end."""
    with get_context("spawn").Pool(processes, begin_worker, maxtasksperchild=PER_PROCESS) as pool:
        yield from pool.imap_unordered(run_in_worker, seeds)


def begin_worker() -> None:
    """Begin a worker. Ctrl-C reaches the command alone, which then ends its workers."""
    os.setsid()
    set_environment()


def set_environment() -> None:
    """Set the environment of histories in this process, before app.py is imported."""
    for name in [name for name in os.environ if name.startswith(("AWS_", "HUBBUB_", "POWERTOOLS_"))]:
        del os.environ[name]
    os.environ.update(ENVIRONMENT)


@cache
def start_engine() -> Engine:
    """Start the engine of this worker, which ends with it."""
    from local.engines.engine import start

    return start("dynoxide", data=None)


def run_in_worker(seed: int) -> Outcome:
    """Run one history."""
    from tests.histories.history import run

    return run(start_engine(), seed)
