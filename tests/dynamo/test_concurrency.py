"""Concurrent calls: their results, and what a failure leaves behind."""

import threading

import pytest

from chalicelib.concurrency import map_concurrently


def test_results_come_in_the_order_of_the_values() -> None:
    assert map_concurrently(lambda n: n * n, range(40)) == [n * n for n in range(40)]


def test_no_call_goes_on_behind_a_failure() -> None:
    failed, ended = threading.Event(), []

    def call(n: int) -> None:
        if n == 0:
            failed.set()
            raise ValueError("first")
        failed.wait(10)
        ended.append(n)
        if n == 3:
            raise KeyError("third")

    with pytest.raises(ValueError, match="first"):
        map_concurrently(call, range(50))
    assert sorted(ended) == list(range(1, 50))
