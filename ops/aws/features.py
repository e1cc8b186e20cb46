"""The features of a stage: which functions it has, and which permissions of its policies remain.

The pattern stage dev has every feature. `chalice_config.ensure_stage` copies its functions and policies for
another stage, without what the features that are off would need.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from chalicelib.settings import FEATURES

COUNTED = frozenset(FEATURES) - {"chat"}  # the features with aggregates, which the function `apply` adds up
FEATURES_OF = {
    "apply": COUNTED,
    "push": {"chat"},
    "write_views": {"views"},
    "sweep": {"chat"},
    "websocket_connect": {"chat"},
    "websocket_message": {"chat"},
    "websocket_disconnect": {"chat"},
}
"""The features that need a function: one of them is enough. Every stage has the other functions."""

GET, MANY, QUERY, BATCH = (
    f"dynamodb:{one}" for one in ("GetItem", "BatchGetItem", "Query", "BatchWriteItem")
)
PUT, UPDATE, DELETE = (f"dynamodb:{one}" for one in ("PutItem", "UpdateItem", "DeleteItem"))
API_ACTIONS: Mapping[str, frozenset[str]] = {
    "": frozenset({GET, MANY, QUERY, PUT, UPDATE}),  # guests, lag, quarantine
    "views": frozenset({GET, QUERY, BATCH}),
    "leaderboards": frozenset({GET, MANY, QUERY, PUT, UPDATE, DELETE}),
    "challenges": frozenset({GET, MANY, QUERY, PUT, UPDATE, DELETE}),
    "comments": frozenset({GET, MANY, QUERY, PUT, UPDATE, DELETE}),
    "chat": frozenset({GET, QUERY, PUT, DELETE}),
}
"""The actions of the REST function on the table, by feature. The empty name is for calls of no feature."""
API_INDEXES = {"gsi1": COUNTED, "gsi2": {"comments"}}
API_QUEUES = {"views"}  # the features that send messages


def has_function(name: str, features: Collection[str]) -> bool:
    """Return whether a stage with these features has a function."""
    return name not in FEATURES_OF or bool(FEATURES_OF[name] & set(features))


def restrict(name: str, policy: Any, features: Collection[str]) -> Any:
    """Return a function's policy without the permissions that only other features need."""
    if name != "api_handler" or set(features) == set(FEATURES):
        return policy
    allowed = API_ACTIONS[""].union(*(API_ACTIONS[one] for one in features))
    statements = []
    for statement in policy["Statement"]:
        match statement["Sid"]:
            case "Table":
                actions = [action for action in statement["Action"] if action in allowed]
                statements.append(statement | {"Action": actions})
            case "Indexes":
                names = [name for name, needs in API_INDEXES.items() if needs & set(features)]
                kept = [arn for arn in statement["Resource"] if arn.rpartition("/")[2] in names]
                statements += [statement | {"Resource": kept}] if kept else []
            case "Queue":
                statements += [statement] if API_QUEUES & set(features) else []
            case _:
                statements.append(statement)
    return policy | {"Statement": statements}
