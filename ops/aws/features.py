"""The features of a stage: which functions it has, and which permissions of its policies remain.

The pattern stage dev has every feature. `chalice_config.ensure_stage` copies its functions and policies for
another stage, without those that only switched-off features need.
"""

from __future__ import annotations

from typing import Any

from chalicelib.feature import Feature, select
from chalicelib.settings import Settings


def every() -> tuple[Feature, ...]:
    """Return all features."""
    import app  # here, because it reads the settings

    return app.FEATURES


def enabled(settings: Settings) -> tuple[Feature, ...]:
    """Return the features of a stage. Raises ValueError for an unknown name in HUBBUB_FEATURES."""
    return select(every(), settings)


def optional_functions() -> frozenset[str]:
    """Return the functions that need a feature. Every stage has the other functions."""
    return frozenset(function for feature in every() for function in feature.functions + feature.consumers)


def has_function(name: str, settings: Settings) -> bool:
    """Return whether a stage has a function."""
    return name not in optional_functions() or any(
        name in feature.functions + feature.consumers * settings.queue for feature in enabled(settings)
    )


def restrict(name: str, policy: Any, settings: Settings) -> Any:
    """Return a function's policy without the permissions that only other features need."""
    mine = enabled(settings)
    if name == "push":
        return _restrict_push(policy, settings, mine)
    if name != "api_handler":
        return policy
    allowed = frozenset().union(*(feature.actions for feature in mine))
    indexes = {index for feature in mine for index in feature.indexes}
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
                statements += (
                    [statement] if settings.queue and any(feature.consumers for feature in mine) else []
                )
            case "Connections":
                statements += [statement] if any(feature.posts for feature in mine) else []
            case _:
                statements.append(statement)
    return policy | {"Statement": statements}


def _restrict_push(policy: Any, settings: Settings, mine: tuple[Feature, ...]) -> Any:
    """Return the policy of `push` for live values, for notices on the stage's topic, or for both."""
    statements = []
    for statement in policy["Statement"]:
        match statement["Sid"]:
            case "MarkNotices":
                statements += [statement] if settings.notices else []
            case "PublishNotices":
                own = {} if settings.notices == "on" else {"Resource": [settings.notices]}
                statements += [statement | own] if settings.notices else []
            case "Table" if not any(feature.posts for feature in mine):
                statements.append(statement | {"Action": ["dynamodb:BatchGetItem"]})
            case "Indexes" | "Connections" if not any(feature.posts for feature in mine):
                continue
            case _:
                statements.append(statement)
    return policy | {"Statement": statements}


def notices_parameter(settings: Settings) -> str:
    """Return the template's parameter Notices: `on` if the stack has the topic, `other`, or `off`."""
    return {"": "off", "on": "on"}.get(settings.notices, "other")
