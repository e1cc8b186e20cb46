"""Values that a process has read from a table, and uses again for some seconds."""

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Generic, NamedTuple, TypeVar
from weakref import WeakKeyDictionary

from chalicelib.dynamo.table import Table

T = TypeVar("T")

MOST = 1_000  # values of a table


class _Entry(NamedTuple, Generic[T]):
    """A value, and the time at which it was read."""

    value: T
    at: float


class Recent(Generic[T]):
    """The values that were read of each table by name. The clock goes on while the process is frozen.

    Threads share it. What one of them forgets, another one that is reading may store once more.
    """

    def __init__(self, seconds: float, most: int = MOST) -> None:
        self.seconds = seconds
        self._most = most
        self._kept: WeakKeyDictionary[Table, dict[str, _Entry[T]]] = WeakKeyDictionary()

    def find_all(
        self, table: Table, names: Iterable[str], read: Callable[[Collection[str]], Mapping[str, T]]
    ) -> dict[str, T]:
        """Return the values of names. `read` returns those of the names that are not known or too old."""
        kept, now = self._kept.setdefault(table, {}), time.time()
        entries = {name: kept.get(name) for name in names}
        used = {
            name: entry for name, entry in entries.items() if entry and 0 <= now - entry.at < self.seconds
        }
        found = {name: entry.value for name, entry in used.items()}
        if missing := entries.keys() - found.keys():
            values = read(missing)
            if len(kept) + len(values) > self._most:
                kept.clear()
            kept.update((name, _Entry(value, now)) for name, value in values.items())
            found.update(values)
        return found

    def forget(self, table: Table) -> None:
        """Forget the values of a table."""
        self._kept.pop(table, None)
