"""Writes what Chalice reads: a stage's part of `.chalice/config.json`, and the policies of its functions.

The dev stage is the pattern of every other: a stage that is not there yet is a copy of it, and its policies
(`policy-<function>-<stage>.json`) are copies of dev's, each time the stage is provisioned, with the stage's
name in place of dev's. What else stands in a stage's part is its owner's.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

PATTERN = "dev"
CONFIG = Path(".chalice") / "config.json"
FLAT = 4  # levels down is what a function of a stage has
RECORDED = {
    "HUBBUB_TABLE": "table",
    "HUBBUB_STREAM_ARN": "stream_arn",
    "HUBBUB_QUEUE_NAME": "queue_name",
    "HUBBUB_QUEUE_URL": "queue_url",
}
"""The variables that provisioning records, and the setting that each is."""
PARTITION = re.compile(r"\barn:aws(?:-[a-z]+)*:")
SOCKET = "HUBBUB_SOCKET"
"""The variable that a deploy records: where the sockets are, which the page asks for."""


def read(root: Path) -> dict[str, Any]:
    """Read the configuration; ClickException for a file that is none."""
    try:
        config: dict[str, Any] = json.loads((root / CONFIG).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise click.ClickException(f"{root / CONFIG}: it cannot be read ({error})") from None
    return config


def ensure_stage(root: Path, stage: str) -> bool:
    """Make a stage from dev's unless there is one, and its policies from dev's; tell whether it was made.

    A function that dev has and an older stage has not is added to it. The local stage is never deployed.
    """
    if stage == "local":
        raise click.ClickException("the local stage runs on one machine (make run): it is not deployed")
    if stage == PATTERN:
        return False
    config = read(root)
    stages, pattern = config["stages"], config["stages"][PATTERN]
    is_new = stage not in stages
    mine = stages.setdefault(stage, rename_stage(without_recorded(pattern), stage))
    functions = mine.setdefault("lambda_functions", {})
    for name, settings in rename_stage(pattern["lambda_functions"], stage).items():
        functions.setdefault(name, settings)
        functions[name]["iam_policy_file"] = own = policy_file(settings["iam_policy_file"], stage)
        text = (root / ".chalice" / pattern["lambda_functions"][name]["iam_policy_file"]).read_text()
        write_atomically(root / ".chalice" / own, rename_stage(text, stage))
    write_atomically(root / CONFIG, format_config(config))
    return is_new


def localize_policies(root: Path, stage: str, partition: str) -> None:
    """Write a stage's policies for a partition: aws, aws-cn (China) or aws-us-gov (GovCloud).

    An ARN of another partition names nothing, and IAM refuses a policy that has one. The policies of dev are
    the pattern of the others, so a stage that is made anew needs this after `ensure`.
    """
    folder = root / ".chalice"
    for settings in read(root)["stages"][stage].get("lambda_functions", {}).values():
        path = folder / settings["iam_policy_file"]
        write_atomically(path, PARTITION.sub(f"arn:{partition}:", path.read_text(encoding="utf-8")))


def record_variables(root: Path, stage: str, values: Mapping[str, str]) -> bool:
    """Set variables in a stage's part, an empty one is taken out; tell whether anything changed."""
    config = read(root)
    variables = config["stages"][stage].setdefault("environment_variables", {})
    before = dict(variables)
    for name, value in values.items():
        if value:
            variables[name] = value
        else:
            variables.pop(name, None)
    if variables == before:
        return False
    write_atomically(root / CONFIG, format_config(config))
    return True


def without_recorded(part: dict[str, Any]) -> dict[str, Any]:
    """Copy a stage's part without what belongs to its own account: its sites, its stream, its queue."""
    own = {*RECORDED, SOCKET}
    own = {*RECORDED, SOCKET}
    variables = {n: value for n, value in part["environment_variables"].items() if n not in own}
    return {**part, "environment_variables": {**variables, "HUBBUB_SITES": ""}}


def rename_stage(node: Any, stage: str) -> Any:
    """Copy JSON, or its text, with dev's names replaced by the stage's.

    >>> renamed({"HUBBUB_STAGE": "dev", "Resource": "arn:aws:sqs:*:*:hubbub-dev-views"}, "prod")
    {'HUBBUB_STAGE': 'prod', 'Resource': 'arn:aws:sqs:*:*:hubbub-prod-views'}
    """
    if isinstance(node, dict):
        return {key: rename_stage(value, stage) for key, value in node.items()}
    if isinstance(node, list):
        return [rename_stage(value, stage) for value in node]
    if not isinstance(node, str):
        return node
    if node == PATTERN:
        return stage
    return node.replace(f"hubbub-{PATTERN}", f"hubbub-{stage}").replace(f"/{PATTERN}/", f"/{stage}/")


def policy_file(file: str, stage: str) -> str:
    """Name a stage's own copy of one of dev's policies.

    >>> policy_of("policy-api.json", "prod")
    'policy-api-prod.json'
    """
    return f"{file.removesuffix('.json').removesuffix(f'-{stage}')}-{stage}.json"


def format_config(config: Mapping[str, Any]) -> str:
    """Write the configuration as it is kept: two blanks a level, a function's settings on one line."""
    return _format_node(config, 0) + "\n"


def _format_node(node: Any, depth: int) -> str:
    if not isinstance(node, dict) or not node or depth == FLAT:
        return json.dumps(node, ensure_ascii=False)
    blanks = "  " * depth
    lines = [f"{blanks}  {json.dumps(key)}: {_format_node(value, depth + 1)}" for key, value in node.items()]
    return "{\n" + ",\n".join(lines) + f"\n{blanks}}}"


def write_atomically(path: Path, text: str) -> None:
    """Put a file in the place of another, whole or not at all; the same text is left as it stands."""
    if path.exists() and path.read_text(encoding="utf-8") == text:
        return
    descriptor, draft = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        Path(draft).chmod(0o644)
        Path(draft).replace(path)
    finally:
        Path(draft).unlink(missing_ok=True)
