"""Every interleaving of a few workers: the product's own code on a table in memory.

A worker runs in a greenlet, and yields before each request. The search visits every state that the workers
can reach, one request at a time. A worker that is never continued is one that has died there, so the search
covers a crash at every point.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, TypeVar

from greenlet import getcurrent, greenlet

from chalicelib.dynamo.items import Item, Key, Range
from chalicelib.dynamo.table import Page
from tests.support.expressions import is_allowed, key_of, put_action, update_action, written

T = TypeVar("T")


class Memory:
    """A table that evaluates the conditions of writes, and yields to the search before each request."""

    def __init__(self) -> None:
        self.items: dict[Key, Item] = {}
        self.changes: dict[Key, list[tuple[Item | None, Item]]] = {}
        self.replies: dict[greenlet, list[str]] = {}

    def get(self, key: Key, *, consistent: bool = False) -> Item | None:
        assert consistent
        return self.request(lambda: self._copy(key))

    def get_many(self, keys: Iterable[Key], *, consistent: bool = False) -> dict[Key, Item]:
        wanted = list(keys)
        return self.request(lambda: {key: item for key in wanted if (item := self._copy(key))})

    def query_pages(self, span: Range, *, consistent: bool = False) -> Iterator[Page]:
        assert consistent
        low, high = span.sk or ("", "~")
        found = self.request(
            lambda: [
                dict(item) for key, item in self.items.items() if key.pk == span.pk and low <= key.sk <= high
            ]
        )
        yield Page(found, None)

    def query(self, span: Range, *, limit: int, **given: Any) -> Page:
        index, (low, high) = span.index_name, span.sk or (0, 10**11)

        def read() -> Page:
            listed = {key: item for key, item in self.items.items() if item.get(f"{index}pk") == span.pk}
            numbers = ((item[f"{index}sk"], key) for key, item in listed.items())
            found = sorted((n, key) for n, key in numbers if low <= n <= high)
            found = found[::-1] if given.get("newest_first") else found
            return Page([key._asdict() | {f"{index}sk": n} for n, key in found[:limit]], None)

        return self.request(read)

    def back_off(self, number: int) -> None:
        """Continue at once: the search decides who goes on."""

    def put(self, item: Item, **given: Any) -> bool:
        return not self.transact([put_action(item, **given)])

    def update(self, key: Key, expression: str, *, idempotent: bool, **given: Any) -> Item | None:
        assert idempotent
        action = update_action(key, expression, **given)
        return self.request(lambda: None if self._write([action]) else self._copy(key))

    def transact(self, actions: Iterable[Mapping[str, Any]]) -> tuple[int, ...]:
        listed = list(actions)
        return self.request(lambda: self._write(listed))

    def request(self, work: Callable[[], T]) -> T:
        """Yield to the search, then do the work of a request. The reply is a part of the worker's state."""
        worker = getcurrent()
        if worker.parent is None:  # a check, which is not a worker
            return work()
        worker.parent.switch()
        result = work()
        self.replies.setdefault(worker, []).append(repr(result))
        return result

    def _copy(self, key: Key) -> Item | None:
        return dict(self.items[key]) if key in self.items else None

    def _write(self, actions: Iterable[Mapping[str, Any]]) -> tuple[int, ...]:
        """Write all, unless a condition is false. Return the places of those whose condition is false."""
        parts = [part for action in actions for part in action.items()]
        refused = tuple(i for i, (_, write) in enumerate(parts) if not is_allowed(write, self.items))
        writes = [write for verb, write in parts if verb != "ConditionCheck"]
        for write in () if refused else writes:
            key, old = key_of(write), self.items.get(key_of(write))
            if write.keys() == {"Key"}:
                self.items.pop(key, None)
                continue
            self.items[key] = written(write, self.items)
            self.changes.setdefault(key, []).append((old, self.items[key]))
        return refused


class Sequential:
    """Replaces the thread pools of chalicelib/concurrency.py: runs each call at once, in order."""

    def submit(self, call: Callable[..., Any], *arguments: Any) -> Future[Any]:
        done: Future[Any] = Future()
        try:
            done.set_result(call(*arguments))
        except Exception as error:
            done.set_exception(error)
        return done


Worker = Callable[[Any], None]
"""What a worker does with a table."""

Check = Callable[[Memory, Sequence[bool], object], None]
"""Asserts what holds in a state: the table, which workers have ended, and the schedule that led here."""


def explore(workers: Sequence[Worker], check: Check, begin: Callable[[], Memory] = Memory) -> int:
    """Visit every state that the workers can reach, and check it. Return how many states there are."""
    todo: list[tuple[int, ...]] = [()]
    visited: set[str] = set()
    while todo:
        schedule = todo.pop()
        table, running = _run(workers, schedule, begin())
        replies = [table.replies.get(task) for task in running]  # a worker's next request follows from them
        state = repr((sorted(table.items.items(), key=str), table.changes, replies))
        if state not in visited:
            visited.add(state)
            check(table, [task.dead for task in running], schedule)
            todo += [(*schedule, number) for number, task in enumerate(running) if not task.dead]
    return len(visited)


def _run(workers: Sequence[Worker], schedule: Iterable[int], table: Memory) -> tuple[Memory, list[greenlet]]:
    """Run workers in the order of a schedule, one request at each step."""
    running = [greenlet(lambda work=work: work(table)) for work in workers]
    for task in running:
        task.switch()  # up to its first request
    for number in schedule:
        running[number].switch()
    return table, running
