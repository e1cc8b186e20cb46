"""The features of a stage: which functions it has, and which permissions of its policies remain.

The pattern stage dev has every feature. `chalice_config.ensure_stage` copies its functions and policies for
another stage, without those that only switched-off features need.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from chalicelib.feature import Feature, select
from chalicelib.settings import Settings


def every() -> tuple[Feature, ...]:
    """Return all features."""
    import app  # here, because it reads the settings

    return app.FEATURES


def names() -> frozenset[str]:
    """Return the names that a stage can name in HUBBUB_FEATURES."""
    return frozenset(one.name for one in every() if one.is_named)


def optional_functions() -> frozenset[str]:
    """Return the functions that need a feature. Every stage has the other functions."""
    return frozenset(function for one in every() for function in one.functions)


def enabled(named: Collection[str]) -> tuple[Feature, ...]:
    """Return the features of a stage that names some, or all, with those that serve them, and guests.

    Raises: ValueError for an unknown name.
    """
    return select(every(), Settings(features=frozenset(named), guests=True))


def has_function(name: str, features: Collection[str]) -> bool:
    """Return whether a stage with these features has a function."""
    return name not in optional_functions() or any(name in one.functions for one in enabled(features))


def restrict(name: str, policy: Any, features: Collection[str]) -> Any:
    """Return a function's policy without the permissions that only other features need."""
    if name != "api_handler":
        return policy
    mine = enabled(features)
    allowed = frozenset().union(*(one.actions for one in mine))
    indexes = {index for one in mine for index in one.indexes}
    statements = []
    for statement in policy["Statement"]:
        match statement["Sid"]:
            case "Table":
                actions = [action for action in statement["Action"] if action in allowed]
                statements.append(statement | {"Action": actions})
            case "Indexes":
                kept = [arn for arn in statement["Resource"] if arn.rpartition("/")[2] in indexes]
                statements += [statement | {"Resource": kept}] if kept else []
            case "Queue":
                statements += [statement] if any(one.sends for one in mine) else []
            case "Connections":
                statements += [statement] if any(one.posts for one in mine) else []
            case _:
                statements.append(statement)
    return policy | {"Statement": statements}
