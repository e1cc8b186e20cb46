"""Processes that live histories: each has an engine of its own, or one that is there, and at most one mutant.

What is imported here comes before a mutant is planted, so nothing of chalicelib does.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache, partial
from multiprocessing import get_context
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from bench.histories import Outcome
    from local.engine import Engine

ENVIRONMENT = {
    "HUBBUB_STAGE": "local",
    "HUBBUB_SECRET": "0123456789abcdef0123456789abcdef",
    "POWERTOOLS_METRICS_DISABLED": "true",
    "POWERTOOLS_LOG_LEVEL": "CRITICAL",
}
TASKS = 150  # of a process: an engine keeps some of each table that is deleted


class Caught(NamedTuple):
    """What became of a mutant: after how many histories it was caught, if it was, and by what."""

    name: str
    histories: int
    difference: str = ""
    seconds: float = 0.0


def settle_in() -> None:
    """Give this process the environment that histories are lived in, before app.py is imported."""
    for name in [name for name in os.environ if name.startswith(("AWS_", "HUBBUB_", "POWERTOOLS_"))]:
        del os.environ[name]
    os.environ.update(ENVIRONMENT)


def begin() -> None:
    """Begin as a worker: Ctrl-C is for the command alone, which then ends its workers."""
    os.setsid()
    settle_in()


@cache
def engine(kind: str) -> Engine:
    """Start an engine, or find one, for as long as this process lives."""
    from bench.inside import KIND, Inside
    from local.engine import start

    return Inside() if kind == KIND else start(kind, data=None)


def one(kind: str, seed: int) -> Outcome:
    """Live one history in this process."""
    from bench.faults import live

    return live(engine(kind), seed)


def lived(kind: str, seeds: Iterable[int], processes: int) -> Iterator[Outcome]:
    """Live histories in processes, and answer them as they end; an engine ends after some hundred."""
    with get_context("spawn").Pool(processes, begin, maxtasksperchild=TASKS) as pool:
        yield from pool.imap_unordered(partial(one, kind), seeds)


def one_published(kind: str, seed: int) -> Counter[str]:
    """Live one history with the published designs in this process."""
    from bench.published_histories import live

    return live(engine(kind), seed)


def lived_published(kind: str, seeds: Iterable[int], processes: int) -> Iterator[Counter[str]]:
    """Live histories with the published designs, as `lived` does."""
    with get_context("spawn").Pool(processes, begin, maxtasksperchild=TASKS) as pool:
        yield from pool.imap_unordered(partial(one_published, kind), seeds)


def caught(kind: str, name: str, *, seeds: range) -> Caught:
    """Live histories with a mutant in the code until one has a difference; in a process of its own."""
    from bench.mutants import mutants, plant

    plant(mutants()[name])
    seconds = 0.0
    for number, seed in enumerate(seeds, 1):
        outcome = one(kind, seed)
        seconds += outcome.seconds
        if outcome.differences:
            return Caught(name, number, outcome.differences[0], seconds)
    return Caught(name, len(seeds), seconds=seconds)


def hunted(kind: str, names: Iterable[str], seeds: range, processes: int) -> Iterator[Caught]:
    """Hunt mutants, each in a process of its own, and answer them as they end."""
    with get_context("spawn").Pool(processes, begin, maxtasksperchild=1) as pool:
        yield from pool.imap_unordered(partial(caught, kind, seeds=seeds), names)
