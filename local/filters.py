"""Leaves out the stream records that the filters of `.chalice/gateway.yaml` leave out, as Lambda does.

So what the filter would lose on AWS is lost on one machine too, where a test or an eye finds it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import yaml

from local.engines.engine import ROOT

Handler = Callable[[dict[str, Any], Any], Any]


@cache
def patterns(function: str) -> tuple[Mapping[str, Any], ...]:
    """Read the patterns of the function `apply` or `push`."""
    template = yaml.safe_load((ROOT / ".chalice" / "gateway.yaml").read_text(encoding="utf-8"))
    [event] = template["Resources"][function.title()]["Properties"]["Events"].values()
    return tuple(json.loads(one["Pattern"]) for one in event["Properties"]["FilterCriteria"]["Filters"])


def passes(record: Mapping[str, Any], function: str) -> bool:
    """Return whether Lambda would hand a record to a function: one pattern that matches is enough."""
    return any(matches(record, pattern) for pattern in patterns(function))


def matches(value: Any, pattern: Any) -> bool:
    """Tell whether a value matches a pattern: every field of it, by one of that field's alternatives.

    An alternative is the value itself, a prefix, or whether there is one; Lambda's other operators raise
    ValueError.

    >>> matches({"sk": "T#1", "pk": "a"}, {"sk": ["S", {"prefix": "T#"}]})
    True
    """
    if isinstance(pattern, Mapping):
        return isinstance(value, Mapping) and all(
            matches(value.get(name), inner) for name, inner in pattern.items()
        )
    return any(_is(value, alternative) for alternative in pattern)


def _is(value: Any, alternative: Any) -> bool:
    if not isinstance(alternative, Mapping):
        return bool(value == alternative)
    if set(alternative) == {"exists"}:
        return (value is not None) == bool(alternative["exists"])
    if set(alternative) != {"prefix"}:
        raise ValueError(f"a filter with {alternative}: only values, prefixes and exists are read here")
    return isinstance(value, str) and value.startswith(alternative["prefix"])


def filtered(handler: Handler, function: str) -> Handler:
    """Call a function's handler with what passes of a batch, and not at all for nothing."""

    def handle(event: dict[str, Any], context: Any) -> Any:
        records = [record for record in event["Records"] if passes(record, function)]
        return handler({**event, "Records": records}, context) if records else None

    return handle
