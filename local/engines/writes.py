"""Lets clients of a local engine wait for its next write, so that they need not poll.

`GET /_hubbub/writes/<number>` returns the number of writes so far as soon as it differs from `<number>`, and
after 20 s in any case. The guard of dynoxide serves it.
"""

from __future__ import annotations

import asyncio
import http.client
import socket
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from urllib.parse import urlsplit

PATH = "/_hubbub/writes/"
WAIT = 20.0  # seconds
READS = ("Get", "BatchGet", "Query", "Scan", "Describe", "List", "Receive", "TransactGet", "Head")
"""The beginnings of the names of operations that write nothing."""


class Writes:
    """Counts the writes of an engine. All methods belong to its event loop, except `add_from_thread`."""

    def __init__(self) -> None:
        self._number = 0
        self._next = asyncio.Event()
        self._loop = asyncio.get_running_loop()

    def add(self, target: str = "") -> None:
        """Count a write, unless the target names an operation that writes nothing."""
        if not target.rpartition(".")[2].startswith(READS):
            self._number += 1
            self._next.set()
            self._next = asyncio.Event()

    def add_from_thread(self) -> None:
        """Count a write that another thread has made."""
        self._loop.call_soon_threadsafe(self.add)

    async def wait(self, path: str) -> bytes:
        """Return the number of writes once it differs from the one in the path, or after 20 s."""
        if path.removeprefix(PATH) == str(self._number):
            with suppress(TimeoutError):
                await asyncio.wait_for(self._next.wait(), WAIT)
        return str(self._number).encode()


class Watch(threading.Thread):
    """Calls functions after each write of an engine, in a thread, until it is stopped.

    If the engine does not serve the path, the functions are called every `interval` seconds.
    """

    def __init__(self, endpoint: str, wakes: Sequence[Callable[[], None]], interval: float) -> None:
        super().__init__(name="writes", daemon=True)
        address = urlsplit(endpoint)
        self._connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=WAIT + 10)
        self._wakes = wakes
        self._interval = interval
        self._stopping = threading.Event()

    def run(self) -> None:
        """Wait for writes."""
        number = ""
        while not self._stopping.is_set():
            try:
                self._connection.request("GET", PATH + number)
                response = self._connection.getresponse()
                text = response.read().decode(errors="replace")
                if response.status != 200 or not text.isdecimal():
                    raise OSError(response.status)
            except (OSError, http.client.HTTPException):
                self._connection.close()
                text = ""
                self._stopping.wait(self._interval)
            if text != number or not text:
                number = text
                for wake in self._wakes:
                    wake()

    def stop(self) -> None:
        """Stop waiting."""
        self._stopping.set()
        with suppress(OSError, AttributeError):  # not connected
            self._connection.sock.shutdown(socket.SHUT_RDWR)
