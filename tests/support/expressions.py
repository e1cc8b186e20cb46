"""The writes that the product sends to DynamoDB, evaluated on items in memory.

A write has the fields of DynamoDB's API, with plain values.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from types import CodeType
from typing import Any

from chalicelib.dynamo.items import Item, Key

TRANSLATION = (
    (r"\b(\w+) = (:\w+)", r"(item.get('\1') == values['\2'])"),
    (r"\b(\w+) < (:\w+)", r"('\1' in item and item['\1'] < values['\2'])"),
    (
        r"\b(\w+) BETWEEN (:\w+) AND (:\w+)",
        r"('\1' in item and values['\2'] <= item['\1'] <= values['\3'])",
    ),
    (r"contains\((\w+), (:\w+)\)", r"(values['\2'] in item.get('\1', ()))"),
    (r"size\((\w+)\) (<=?) (:\w+)", r"(len(item.get('\1', ())) \2 values['\3'])"),
    (r"size\((\w+)\) = (:\w+)", r"(len(item.get('\1', ())) == values['\2'])"),
    (r"attribute_exists\((\w+)\)", r"('\1' in item)"),
    (r"attribute_not_exists\((\w+)\)", r"('\1' not in item)"),
    (r"\bNOT\b", "not"),
    (r"\bAND\b", "and"),
    (r"\bOR\b", "or"),
)


def update_action(key: Key, expression: str, *, condition: str = "", **given: Any) -> dict[str, Any]:
    """Return an update as an action of a transaction."""
    return {"Update": {"Key": key._asdict(), "UpdateExpression": expression} | _fields(condition, **given)}


def put_action(item: Item, *, condition: str = "", **given: Any) -> dict[str, Any]:
    """Return a put as an action of a transaction."""
    return {"Put": {"Item": item} | _fields(condition, **given)}


def _fields(condition: str, names: Any = None, values: Any = None) -> dict[str, Any]:
    return {
        "ConditionExpression": condition,
        "ExpressionAttributeNames": names or {},
        "ExpressionAttributeValues": values or {},
    }


def key_of(write: Mapping[str, Any]) -> Key:
    """Return the key of the item that is written."""
    return Key(**write["Key"]) if "Key" in write else Key(write["Item"]["pk"], write["Item"]["sk"])


def is_allowed(write: Mapping[str, Any], items: Mapping[Key, Item]) -> bool:
    """Return whether the condition of a write is true."""
    values, names = write.get("ExpressionAttributeValues", {}), write.get("ExpressionAttributeNames", {})
    condition = write.get("ConditionExpression", "")
    for placeholder, name in names.items():
        condition = re.sub(rf"{placeholder}\b", name, condition)
    return _holds(condition, items.get(key_of(write), {}), values)


def written(write: Mapping[str, Any], items: Mapping[Key, Item]) -> Item:
    """Return the item after a write."""
    if "Item" in write:
        return dict(write["Item"])
    key, names = key_of(write), write.get("ExpressionAttributeNames", {})
    values = write.get("ExpressionAttributeValues", {})
    return _updated(items.get(key, key._asdict()), write["UpdateExpression"], names, values)


def _holds(condition: str, item: Item, values: Mapping[str, Any]) -> bool:
    """Return whether a condition is true."""
    return bool(eval(_translate(condition), {"item": item, "values": values}))


@cache
def _translate(condition: str) -> CodeType:
    """Translate a condition into Python."""
    for dynamo, python in TRANSLATION:
        condition = re.sub(dynamo, python, condition)
    return compile(condition or "True", "a condition", "eval")


def _updated(
    item: Item, expression: str, names: Mapping[str, str], values: Mapping[str, Any]
) -> dict[str, Any]:
    """Return an item after an update expression."""
    after = dict(item)
    for verb, clauses in re.findall(r"(ADD|SET|REMOVE) (.*?)(?= ADD | SET | REMOVE |$)", expression):
        for clause in re.split(r", (?![^(]*\))", clauses):
            place, _, text = clause.replace(" = ", " ", 1).partition(" ")
            name = names.get(place, place)
            kept = re.fullmatch(r"if_not_exists\((#?\w+), (:\w+)\)", text)
            added = re.fullmatch(r"list_append\(if_not_exists\((\w+), (:\w+)\), (:\w+)\)", text)
            if verb == "REMOVE":
                after.pop(name, None)
            elif added:
                after[name] = [*item.get(added[1], values[added[2]]), *values[added[3]]]
            elif kept and (there := names.get(kept[1], kept[1])) in item:
                after[name] = item[there]
            elif verb == "SET":
                after[name] = values[kept[2] if kept else text]
            elif isinstance(values[text], set | frozenset):
                after[name] = after.get(name, set()) | set(values[text])
            else:
                after[name] = after.get(name, 0) + values[text]
    return after
