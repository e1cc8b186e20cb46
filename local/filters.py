"""Applies the filters of the stream, as Lambda does.

A record that a wrong filter would drop on AWS is dropped in a local run too, where tests find it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from chalicelib.feature import filter_patterns

Handler = Callable[[dict[str, Any], Any], Any]


@cache
def patterns(function: str) -> tuple[Mapping[str, Any], ...]:
    """Return the patterns of the function `apply` or `push`."""
    import app  # here, because it reads the settings of the run

    return tuple(filter_patterns(app.FEATURES, function))


def passes(record: Mapping[str, Any], function: str) -> bool:
    """Return whether Lambda would deliver a record to a function. One matching pattern is enough."""
    return any(matches(record, pattern) for pattern in patterns(function))


def matches(value: Any, pattern: Any) -> bool:
    """Return whether a value matches a pattern: each field must match one of the field's alternatives.

    An alternative is a value, a prefix, or `exists`. Raises ValueError for Lambda's other operators.

    >>> matches({"sk": "T#1", "pk": "a"}, {"sk": ["S", {"prefix": "T#"}]})
    True
    """
    if isinstance(pattern, Mapping):
        return isinstance(value, Mapping) and all(
            matches(value.get(name), inner) for name, inner in pattern.items()
        )
    return any(_matches_pattern(value, alternative) for alternative in pattern)


def _matches_pattern(value: Any, alternative: Any) -> bool:
    if not isinstance(alternative, Mapping):
        return bool(value == alternative)
    if set(alternative) == {"exists"}:
        return (value is not None) == bool(alternative["exists"])
    if set(alternative) != {"prefix"}:
        raise ValueError(f"filter {alternative}: only values, prefix and exists are supported")
    return isinstance(value, str) and value.startswith(alternative["prefix"])


def filtered(handler: Handler, function: str) -> Handler:
    """Return a handler that gets only the records that pass the filter. It is not called without records."""

    def handle(event: dict[str, Any], context: Any) -> Any:
        records = [record for record in event["Records"] if passes(record, function)]
        return handler({**event, "Records": records}, context) if records else None

    return handle
