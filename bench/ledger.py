"""Takes a client's writes in an engine's place, for more of them than an engine here takes in an hour.

A ledger knows the writes that views and their aggregates make: puts in batches, and transactions of updates
that add and set. It charges each by the rules of `capacity`, hands its change over as the stream would, and
keeps the items that are updated; those that are only put, it forgets.
"""

from __future__ import annotations

import itertools
import re
from collections import defaultdict, deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from bench.capacity import Item, write_units
from bench.memory import offline
from chalicelib.items import Key

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

ADDITIONS = re.compile(r"ADD (.*?)(?: SET |$)")
SETTINGS = re.compile(r"SET (.*)")


class Ledger:
    """The items that were updated, the records of all changes in order, and the cost by kinds of items."""

    def __init__(self) -> None:
        self.items: dict[Key, dict[str, Any]] = {}
        self.records: deque[dict[str, Any]] = deque()
        self.units: defaultdict[str, float] = defaultdict(float)
        self._numbers = itertools.count(1)

    @contextmanager
    def client(self) -> Iterator[DynamoDBClient]:
        """Make a client whose writes this ledger takes; nothing is ever sent."""
        with offline(self._answer) as made:
            yield made

    def _answer(self, operation: str, request: Any) -> Mapping[str, Any]:
        match operation:
            case "BatchWriteItem":
                for put in itertools.chain(*request["RequestItems"].values()):
                    self._changed({}, put["PutRequest"]["Item"], is_transaction=False)
            case "TransactWriteItems":
                for action in request["TransactItems"]:
                    self._update(action["Update"])
            case _:
                raise NotImplementedError(f"{operation} of a ledger")
        return {}

    def _update(self, request: Mapping[str, Any]) -> None:
        """Add and set. A condition is that of a guard page, and false for an id that is on it."""
        key = Key(request["Key"]["pk"]["S"], request["Key"]["sk"]["S"])
        before = self.items.get(key, {})
        after: dict[str, Any] = {**request["Key"], **before}
        names, values = request.get("ExpressionAttributeNames", {}), request["ExpressionAttributeValues"]
        if "ConditionExpression" in request:
            again = set(values[":ids"]["BS"]) & set(before.get("ids", {"BS": ()})["BS"])
            if again:
                raise NotImplementedError("a record that comes twice")
        for part in _parts(ADDITIONS, request["UpdateExpression"]):
            name, value = part.split(" ")
            name = names.get(name, name)
            after[name] = _sum(after.get(name), values[value])
        for part in _parts(SETTINGS, request["UpdateExpression"]):
            name, value = part.split(" = ")
            after[names.get(name, name)] = values[value.rpartition(", ")[2].rstrip(")")]  # if_not_exists
        self.items[key] = after
        self._changed(before, after, is_transaction=True)

    def _changed(self, before: Item, after: Item, *, is_transaction: bool) -> None:
        kind = after["pk"]["S"].partition("#")[0]
        if kind == "URL":
            kind = after["sk"]["S"].partition("#")[0]
        self.units[kind] += write_units(before, after, transactional=is_transaction)
        images = {"NewImage": after} | ({"OldImage": before} if before else {})
        self.records.append(
            {
                "eventID": str(next(self._numbers)),
                "eventName": "MODIFY" if before else "INSERT",
                "dynamodb": {"Keys": {"pk": after["pk"], "sk": after["sk"]}, **images},
            }
        )


def _parts(clause: re.Pattern[str], expression: str) -> list[str]:
    found = clause.search(expression)
    return re.split(", (?=#)", found[1]) if found else []


def _sum(before: Mapping[str, Any] | None, amount: Mapping[str, Any]) -> dict[str, Any]:
    [(kind, value)] = amount.items()
    if before is None:
        return {kind: value}
    return {kind: str(Decimal(before["N"]) + Decimal(value)) if kind == "N" else [*before[kind], *value]}
