"""Check that the variables of each function fit into Lambda's environment, before anything is written.

A function's variables have at most 4 KB together: AWS Lambda Developer Guide, Lambda quotas. Lambda measures
them as a JSON object, as its error for a longer one shows ("String measured: {...}").
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from ops.aws import chalice_config

MAX_BYTES = 4096
ADVICE = {
    "HUBBUB_SITES": "define its sites with PUT /sites/{site} and its `paths` instead (docs/embed.md, A site)",
    "HUBBUB_LEADERS": "list fewer products",
    "HUBBUB_COMMENTS_BLOCK": "block fewer words and hosts",
}


def check_environment(root: Path, stage: str) -> None:
    """Measure the variables of each function of a stage, with those that provisioning and deploying record.

    A stage that does not exist yet is measured as the copy of dev that it becomes.

    Raises: ClickException with the longest variable when they do not fit.
    """
    config = chalice_config.read(root)
    part = config["stages"].get(stage) or chalice_config.without_recorded(
        config["stages"][chalice_config.PATTERN]
    )
    for function, variables in _list_environments(config, part, stage):
        size = measure(variables)
        if size > MAX_BYTES:
            name = max(variables, key=lambda name: len(variables[name].encode()))
            raise click.ClickException(
                f"the variables of {stage}'s function {function} have {size:,} bytes and Lambda takes "
                f"{MAX_BYTES:,}, so nothing changed: {name} is the longest with "
                f"{len(variables[name].encode()):,}; {ADVICE.get(name, 'shorten it')}"
            )


def measure(variables: dict[str, str]) -> int:
    """Return the bytes of variables as Lambda measures them.

    >>> measure({"A": "b"})
    9
    """
    return len(json.dumps(variables, separators=(",", ":"), ensure_ascii=False).encode())


def _list_environments(config: Any, part: Any, stage: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the functions of a stage, each with its variables as Chalice merges them."""
    shared = {
        **recorded_at_most(stage),
        **config.get("environment_variables", {}),
        **part.get("environment_variables", {}),
    }
    for function, settings in part.get("lambda_functions", {}).items():
        yield function, {**shared, **settings.get("environment_variables", {})}


def recorded_at_most(stage: str) -> dict[str, str]:
    """Return the variables that commands record, as long as they become in any region."""
    region, account = "ap-southeast-99", "123456789012"
    table = f"hubbub-{stage}-20261125T120000Z"
    stream = f"{region}:{account}:table/{table}/stream/2026-11-25T12:00:00.000"
    return {
        "HUBBUB_TABLE": table,
        "HUBBUB_STREAM_ARN": f"arn:aws-us-gov:dynamodb:{stream}",
        "HUBBUB_QUEUE": "on",
        "HUBBUB_QUEUE_URL": f"https://sqs.{region}.amazonaws.com/{account}/hubbub-{stage}-views",
        "HUBBUB_NOTICE_TOPIC": f"arn:aws-us-gov:sns:{region}:{account}:hubbub-{stage}-notices",
        "HUBBUB_SIZE": "small",
        chalice_config.SOCKET: f"wss://abcdefghij.execute-api.{region}.amazonaws.com.cn/api",
    }
