"""Counts the round trips in sequence: concurrent calls are one."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import TYPE_CHECKING, Any

from tests.support.faults import hooked

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient


class RoundTrips:
    """The start and end of each call of a client."""

    def __init__(self) -> None:
        self.calls: list[tuple[float, float]] = []
        self._lock = Lock()

    @property
    def in_sequence(self) -> int:
        """Return the length of the longest chain of calls each of which began after the one before ended.

        It is the greatest number of calls of which no two overlap: always take the one that ends first.
        """
        count, ended = 0, float("-inf")
        for begun, end in sorted(self.calls, key=lambda call: call[1]):
            if begun >= ended:
                count, ended = count + 1, end
        return count

    @contextmanager
    def count(self, client: DynamoDBClient, latency: float) -> Iterator[None]:
        """Record the calls of a client, each of which takes `latency` seconds longer."""

        def begin(context: dict[str, Any], **_: object) -> None:
            context["begun"] = time.perf_counter()

        def end(context: dict[str, Any], **_: object) -> None:
            time.sleep(latency)
            with self._lock:
                self.calls.append((context.pop("begun"), time.perf_counter()))

        hooks: dict[str, Any] = {"before-parameter-build.dynamodb": begin, "after-call.dynamodb": end}
        with hooked(client, hooks):
            yield
