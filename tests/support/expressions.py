"""The expressions that the engine sends to DynamoDB, evaluated on items in memory."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from chalicelib.dynamo.items import Item

TRANSLATION = (
    (r"\b(\w+) (=|<) (:\w+)", r"(item.get('\1') \2\2 values['\3'])"),
    (r"<<", "<"),
    (r"contains\((\w+), (:\w+)\)", r"(values['\2'] in item.get('\1', ()))"),
    (r"size\((\w+)\) <= (:\w+)", r"(len(item.get('\1', ())) <= values['\2'])"),
    (r"attribute_not_exists\((\w+)\)", r"('\1' not in item)"),
    (r"\bNOT\b", "not"),
    (r"\bAND\b", "and"),
    (r"\bOR\b", "or"),
)


def holds(
    condition: str, item: Item, values: Mapping[str, Any], names: Mapping[str, str] | None = None
) -> bool:
    """Return whether a condition is true, by translating it into Python."""
    for placeholder, name in (names or {}).items():
        condition = re.sub(rf"{placeholder}\b", name, condition)
    for dynamo, python in TRANSLATION:
        condition = re.sub(dynamo, python, condition)
    return not condition or bool(eval(condition, {"item": item, "values": values}))


def updated(
    item: Item, expression: str, names: Mapping[str, str], values: Mapping[str, Any]
) -> dict[str, Any]:
    """Return an item after an update expression."""
    after = dict(item)
    for verb, clauses in re.findall(r"(ADD|SET|REMOVE) (.*?)(?= ADD | SET | REMOVE |$)", expression):
        for clause in re.split(r", (?![^(]*\))", clauses):
            place, _, text = clause.replace(" = ", " ", 1).partition(" ")
            name = names.get(place, place)
            kept = re.fullmatch(r"if_not_exists\((\w+), (:\w+)\)", text)
            if verb == "REMOVE":
                after.pop(name, None)
            elif kept and kept[1] in item:
                after[name] = item[kept[1]]
            elif verb == "SET":
                after[name] = values[kept[2] if kept else text]
            elif isinstance(values[text], set | frozenset):
                after[name] = after.get(name, set()) | set(values[text])
            else:
                after[name] = after.get(name, 0) + values[text]
    return after
