"""Several calls at once, in threads that a process makes once.

What runs in them must not begin anything itself: all threads could then wait for calls that none is left to
make. Each is mostly waiting, for the table or for a connection.
"""

from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from functools import cache, partial
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")

THREADS = 32  # as many as the table's client has connections


def begin(call: Callable[[], R], pool: str = "at-once") -> "Future[R]":
    """Begin a call beside what comes next; its `result()` waits for it."""
    return _threads(pool).submit(copy_context().run, call)  # what it consumes counts for the same request


def at_once(work: Callable[[T], R], things: Iterable[T], pool: str = "at-once") -> list[R]:
    """Do the same with several things at once, and answer in their order. What one raises is raised.

    Work that may be slow for reasons of others has a `pool` of threads of its own.
    """
    things = list(things)
    if len(things) < 2:
        return [work(thing) for thing in things]
    return [begun.result() for begun in [begin(partial(work, thing), pool) for thing in things]]


@cache
def _threads(pool: str) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(THREADS, thread_name_prefix=pool)
