"""Every interleaving of a few workers: the product's own code on a table in memory.

A worker runs in a greenlet, and yields before each request. The search visits every state that the workers
can reach, one request at a time. A worker that is never continued is one that has died there, so the search
covers a crash at every point.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from greenlet import getcurrent, greenlet

from chalicelib.dynamo.items import Item, Key
from chalicelib.dynamo.table import Page
from tests.support.expressions import holds, updated

T = TypeVar("T")


class Memory:
    """A table that evaluates the conditions of writes, and yields to the search before each request."""

    def __init__(self) -> None:
        self.items: dict[Key, Item] = {}
        self.replies: dict[greenlet, list[str]] = {}

    def get(self, key: Key, *, consistent: bool = False) -> Item | None:
        assert consistent
        return self.request(lambda: self._copy(key))

    def get_many(self, keys: Iterable[Key], *, consistent: bool = False) -> dict[Key, Item]:
        assert consistent
        wanted = list(keys)
        return self.request(lambda: {key: item for key in wanted if (item := self._copy(key))})

    def query_pages(self, pk: str, sk: tuple[str, str], *, consistent: bool = False) -> Iterator[Page]:
        assert consistent
        found = self.request(
            lambda: [
                dict(item) for key, item in self.items.items() if key.pk == pk and sk[0] <= key.sk <= sk[1]
            ]
        )
        yield Page(found, None)

    def back_off(self, number: int) -> None:
        """Continue at once: the search decides who goes on."""

    def put(self, item: Item, *, condition: str = "", **given: Any) -> bool:
        return not self.transact([_put(item, condition, **given)])

    def update(self, key: Key, expression: str, *, idempotent: bool, **given: Any) -> Item | None:
        assert idempotent

        def write() -> Item | None:
            item = self._updated(key, expression, **given)
            if item is not None:
                self.items[key] = item
            return None if item is None else dict(item)

        return self.request(write)

    def transact(self, actions: Iterable[Mapping[str, Any]]) -> tuple[int, ...]:
        def write() -> tuple[int, ...]:
            changes = [self._changed(action) for action in actions]
            refused = tuple(i for i, item in enumerate(changes) if item is None)
            if not refused:
                self.items |= {Key(item["pk"], item["sk"]): item for item in changes if item}
            return refused

        return self.request(write)

    def request(self, work: Callable[[], T]) -> T:
        """Yield to the search, then do the work of a request. The reply is a part of the worker's state."""
        worker = getcurrent()
        assert worker.parent is not None
        worker.parent.switch()
        result = work()
        self.replies.setdefault(worker, []).append(repr(result))
        return result

    def _copy(self, key: Key) -> Item | None:
        return dict(self.items[key]) if key in self.items else None

    def _changed(self, action: Mapping[str, Any]) -> Item | None:
        """Return the item after an action of a transaction, or None when its condition is false."""
        [(verb, write)] = action.items()
        given = {
            "condition": write.get("ConditionExpression", ""),
            "names": write.get("ExpressionAttributeNames", {}),
            "values": write.get("ExpressionAttributeValues", {}),
        }
        if verb == "Update":
            return self._updated(Key(**write["Key"]), write["UpdateExpression"], **given)
        item = dict(write["Item"])
        stored = self.items.get(Key(item["pk"], item["sk"]), {})
        return item if holds(given["condition"], stored, given["values"], given["names"]) else None

    def _updated(
        self,
        key: Key,
        expression: str,
        *,
        condition: str = "",
        names: Mapping[str, str] | None = None,
        values: Mapping[str, Any] | None = None,
    ) -> Item | None:
        """Return the item after an update, or None when the condition is false."""
        item = self.items.get(key, {**key._asdict()})
        if not holds(condition, item, values or {}, names or {}):
            return None
        return updated(item, expression, names or {}, values or {})


def _put(
    item: Item,
    condition: str,
    names: Mapping[str, str] | None = None,
    values: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    put = {"Item": item, "ConditionExpression": condition}
    return {"Put": put | {"ExpressionAttributeNames": names or {}, "ExpressionAttributeValues": values or {}}}


Worker = Callable[[Any], None]
"""What a worker does with a table."""

Check = Callable[[Memory, Sequence[bool], object], None]
"""Asserts what holds in a state: the table, which workers have ended, and the schedule that led here."""


def explore(workers: Sequence[Worker], check: Check) -> int:
    """Visit every state that the workers can reach, and check it. Return how many states there are."""
    todo: list[tuple[int, ...]] = [()]
    visited: set[str] = set()
    while todo:
        schedule = todo.pop()
        table, running = _run(workers, schedule)
        check(table, [one.dead for one in running], schedule)
        replies = [table.replies.get(one) for one in running]  # a worker's next request follows from them
        state = repr((sorted(table.items.items(), key=str), replies))
        if state not in visited:
            visited.add(state)
            todo += [(*schedule, number) for number, one in enumerate(running) if not one.dead]
    return len(visited)


def _run(workers: Sequence[Worker], schedule: Iterable[int]) -> tuple[Memory, list[greenlet]]:
    """Run workers in the order of a schedule, one request at each step."""
    table = Memory()
    running = [greenlet(lambda work=work: work(table)) for work in workers]
    for one in running:
        one.switch()  # up to its first request
    for number in schedule:
        running[number].switch()
    return table, running
