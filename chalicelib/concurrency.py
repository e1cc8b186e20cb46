"""Concurrent calls in thread pools that are created once per process.

A call that runs in a pool must not submit calls to the same pool. All threads could then wait for calls that
have no thread. The calls mostly wait for the table or for a connection.
"""

from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextvars import copy_context
from functools import cache, partial
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")

THREADS = 32  # the number of connections of the table's client


def submit(call: Callable[[], R], pool: str = "default") -> "Future[R]":
    """Begin a call in a thread; `result()` waits for it."""
    return _threads(pool).submit(copy_context().run, call)  # the context has the request's budget and units


def map_concurrently(function: Callable[[T], R], values: Iterable[T], pool: str = "default") -> list[R]:
    """Call a function for several values concurrently; return the results in order.

    All calls have ended when this returns or raises, so none of them writes behind a caller that has failed.
    Calls that may be slow for external reasons use a `pool` of their own.

    Raises: the error of the first call that failed, in the order of the values.
    """
    values = list(values)
    if len(values) < 2:
        return [function(value) for value in values]
    futures = [submit(partial(function, value), pool) for value in values]
    wait(futures)
    return [future.result() for future in futures]


@cache
def _threads(pool: str) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(THREADS, thread_name_prefix=pool)
