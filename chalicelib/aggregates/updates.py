"""Update expressions that add amounts to an item, and tags that protect the addition against duplicates.

`Update` builds one `UpdateItem`, or the same update as an action of a transaction. It reads and writes
nothing. engine.py describes the tags.
"""

from collections.abc import Collection, Iterator, Mapping
from decimal import Decimal
from typing import Any

from chalicelib.aggregates.sums import (
    FOREVER,
    KEPT,
    Amounts,
    Constant,
    FirstStep,
    Lifetime,
    Sums,
    group_by_key,
    is_added,
)
from chalicelib.aggregates.toplist import step_of
from chalicelib.dynamo.items import Item, Key


class Update:
    """An update of one item under construction. Its methods return it, so that calls can be chained."""

    def __init__(self, amounts: Amounts | None = None, now: int = 0) -> None:
        """Add amounts. A `Lifetime` begins at `now`, in epoch seconds. Constants alone are not written."""
        self._verbs: dict[str, list[str]] = {"ADD": [], "SET": [], "REMOVE": []}
        self._conditions: list[str] = []
        self._names: dict[str, str] = {}
        self._values: dict[str, Any] = {}
        amounts = amounts if amounts and is_added(amounts) else {}
        for i, (name, amount) in enumerate(amounts.items()):
            value: Any
            match amount:
                case Lifetime():
                    clause = f"#{i} = if_not_exists({KEPT}, :{i})"
                    value = now + int(amount.value) if amount.value else FOREVER.value
                case FirstStep():
                    clause, value = f"#{i} = if_not_exists(#{i}, :{i})", _first_step(amount, amounts)
                    if not value:
                        continue
                case Constant():
                    clause, value = f"#{i} = :{i}", amount.value
                case _:
                    clause, value = f"#{i} :{i}", amount
            self._verbs["SET" if isinstance(amount, Constant) else "ADD"].append(clause)
            self._names[f"#{i}"], self._values[f":{i}"] = name, value

    def tag(self, tags: Collection[bytes]) -> "Update":
        """Add tags to `applied`, on condition that none of them is there."""
        self._verbs["ADD"].append("applied :tags")
        self._values[":tags"] = set(tags)
        self._values |= {f":t{i}": tag for i, tag in enumerate(sorted(tags))}
        there = " OR ".join(f"contains(applied, :t{i})" for i in range(len(tags)))
        self._conditions.append(f"NOT ({there})")
        return self

    def spill(self, kept: Collection[bytes], spilled: int, spills: int) -> "Update":
        """Keep some tags in `applied`. The others move to guard pages in the same transaction."""
        if kept:
            return self.set(applied=set(kept), spilled=spilled, spills=spills)
        self._verbs["REMOVE"].append("applied")
        return self.set(spilled=spilled, spills=spills)

    def set(self, **values: Any) -> "Update":
        """Set attributes, whose names must not be reserved words of DynamoDB."""
        self._verbs["SET"] += [f"{name} = :{name}" for name in values]
        self._values |= {f":{name}": value for name, value in values.items()}
        return self

    def require(self, condition: str, **values: Any) -> "Update":
        """Require a condition."""
        self._conditions.append(condition)
        self._values |= {f":{name}": value for name, value in values.items()}
        return self

    def require_same(self, name: str, seen: Item) -> "Update":
        """Require that an attribute is as it was read."""
        if name not in seen:
            return self.require(f"attribute_not_exists({name})")
        return self.require(f"{name} = :seen_{name}", **{f"seen_{name}": seen[name]})

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of `Table.update`."""
        parts = (f"{verb} {', '.join(clauses)}" for verb, clauses in self._verbs.items() if clauses)
        return {
            "expression": " ".join(parts),
            "condition": " AND ".join(self._conditions),
            "names": self._names,
            "values": self._values,
        }

    def action(self, key: Key) -> dict[str, Any]:
        """Return the update as an action of a transaction."""
        arguments: Mapping[str, Any] = self.arguments()
        fields = {
            "Key": key._asdict(),
            "UpdateExpression": arguments["expression"],
            "ConditionExpression": arguments["condition"],
            "ExpressionAttributeNames": arguments["names"],
            "ExpressionAttributeValues": arguments["values"],
        }
        return {"Update": {name: value for name, value in fields.items() if value}}


def _first_step(amount: FirstStep, amounts: Amounts) -> int:
    """Return the step of a sum that begins with these amounts, or 0 if they do not make it positive."""
    total = amounts.get(str(amount.value), 0)
    return step_of(int(total)) if isinstance(total, int | Decimal) else 0


def additions(sums: Sums, now: int) -> Iterator[dict[str, Any]]:
    """Build a transaction's updates that add sums without tags. Another action of it must guard them.

    An aggregate whose amounts are all constants is not written. A `Lifetime` begins at `now`, in epoch
    seconds.
    """
    for key, amounts in group_by_key(sums).items():
        yield Update(amounts, now).action(key)
