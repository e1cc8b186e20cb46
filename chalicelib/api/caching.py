"""Responses of public lists that a process keeps for some seconds.

A list of sums may cost a hundred times as much as the count of a page, and is public. A route with
`is_cached` responds from memory for HUBBUB_CACHE_SECONDS, and browsers and proxies may cache its responses as
long. `Age` counts the time in memory, so nobody sees an older list.

Invariant: only responses to requests without a token are stored and reused. So a response that depends on a
caller never reaches another caller, and a request with a token always reads the table.
"""

import time
from collections.abc import Callable, Hashable
from threading import Lock
from typing import NamedTuple

Headers = dict[str, str | list[str]]

MOST = 100  # responses in a process, of up to 64 KB each


class _Kept(NamedTuple):
    """A response, and the time at which it was made."""

    body: str
    headers: Headers
    at: float


class ResponseCache:
    """The last responses of public lists, by request. The clock goes on while the process is frozen."""

    def __init__(self, seconds: int, clock: Callable[[], float] = time.time) -> None:
        self.seconds = seconds
        self._clock = clock
        self._kept: dict[Hashable, _Kept] = {}
        self._lock = Lock()

    def find(self, request: Hashable) -> tuple[str, Headers] | None:
        """Return the body and the headers of the response to a request, unless it is too old."""
        kept = self._kept.get(request)
        age = self._clock() - kept.at if kept else -1
        if kept is None or not 0 <= age < self.seconds:
            return None
        return kept.body, kept.headers | {"Age": str(int(age))}

    def keep(self, request: Hashable, body: str, headers: Headers) -> None:
        """Store a response, and drop the oldest one if there are too many."""
        with self._lock:
            self._kept.pop(request, None)
            while len(self._kept) >= MOST:
                del self._kept[next(iter(self._kept))]
            self._kept[request] = _Kept(body, dict(headers), self._clock())
