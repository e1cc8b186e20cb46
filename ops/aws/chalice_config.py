"""Write the files that Chalice reads: a stage's part of `.chalice/config.json` and the functions' policies.

The stage dev is the template of all others. A new stage is created as a copy of dev. Its policies
(`policy-<function>-<stage>.json`) are copied from dev each time the stage is provisioned, with the stage's
name instead of dev's. Other values in a stage's part are never changed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from chalicelib import settings as stage_settings
from chalicelib.settings import Settings
from ops.aws import features
from ops.stage import write_atomically

PATTERN = "dev"
CONFIG = Path(".chalice") / "config.json"
FLAT = 4  # the depth at which a function's settings are written on one line
RECORDED = (
    "HUBBUB_TABLE",
    "HUBBUB_STREAM_ARN",
    "HUBBUB_QUEUE",
    "HUBBUB_QUEUE_URL",
    "HUBBUB_NOTICE_TOPIC",
    "HUBBUB_SIZE",
)
"""The variables that provisioning and a restore record."""
PARTITION = re.compile(r"\barn:aws(?:-[a-z]+)*:")
TABLE = re.compile(r":table/[\w.-]+")
SOCKET = "HUBBUB_SOCKET"
"""The variable that a deploy records: the address of the WebSocket API, which the page needs."""


def read(root: Path) -> dict[str, Any]:
    """Read the configuration.

    Raises: ClickException when it cannot be read.
    """
    try:
        config: dict[str, Any] = json.loads((root / CONFIG).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise click.ClickException(f"{root / CONFIG}: cannot be read ({error})") from None
    return config


NAME = re.compile(r"[a-z][a-z0-9-]{0,30}")
"""The names that the template allows a stage."""


def is_stage(root: Path, stage: str) -> bool:
    """Return whether the configuration has a stage.

    Raises: ClickException for a name that no stage can have.
    """
    if not NAME.fullmatch(stage):
        raise click.ClickException(
            f"{stage!r} cannot be a stage: 1 to 31 lower-case letters, digits and hyphens, the first a letter"
        )
    return stage in read(root)["stages"]


def ensure_stage(root: Path, stage: str) -> bool:
    """Create a stage as a copy of dev unless it exists, and copy dev's policies. Return whether it is new.

    A function that only dev has is added to an older stage. The functions and permissions of features that
    are off are left out.

    Raises: ClickException for the local stage, which is never deployed, and for dev without all features.
    """
    if stage == "local":
        raise click.ClickException("the local stage cannot be deployed; start it with make run")
    own_settings = read_settings(root, stage)
    if stage == PATTERN:
        if own_settings.features:
            raise click.ClickException(
                f"{PATTERN} is the pattern of all stages and has every feature; "
                "set HUBBUB_FEATURES in another stage"
            )
        return False
    config = read(root)
    stages, pattern = config["stages"], config["stages"][PATTERN]
    is_new = stage not in stages
    mine = stages.setdefault(stage, rename_stage(without_recorded(pattern), stage))
    functions = mine.setdefault("lambda_functions", {})
    for name, settings in rename_stage(pattern["lambda_functions"], stage).items():
        own = policy_file(settings["iam_policy_file"], stage)
        if not features.has_function(name, own_settings):
            functions.pop(name, None)
            (root / ".chalice" / own).unlink(missing_ok=True)
            continue
        functions.setdefault(name, settings)
        functions[name]["iam_policy_file"] = own
        policy = (root / ".chalice" / pattern["lambda_functions"][name]["iam_policy_file"]).read_text()
        text = json.dumps(features.restrict(name, json.loads(policy), own_settings), indent=2) + "\n"
        write_atomically(root / ".chalice" / own, rename_stage(text, stage))
    write_atomically(root / CONFIG, format_config(config))
    return is_new


def read_settings(root: Path, stage: str) -> Settings:
    """Return the settings of a stage, or the defaults for a stage that does not exist yet.

    Raises: ClickException for a malformed setting.
    """
    config = read(root)
    own = config["stages"].get(stage, {}).get("environment_variables", {})
    try:
        variables = {**config.get("environment_variables", {}), **own, "HUBBUB_STAGE": stage}
        found = stage_settings.read(variables)
        features.enabled(found)  # raises for an unknown name
    except ValueError as error:
        raise click.ClickException(str(error)) from None
    return found


def list_functions(root: Path, stage: str) -> list[str]:
    """Return the functions that a stage has, by their names in the configuration."""
    settings = read_settings(root, stage)
    names = read(root)["stages"][stage].get("lambda_functions", {})
    return [name for name in names if features.has_function(name, settings)]


def localize_policies(root: Path, settings: Settings, partition: str) -> None:
    """Write a stage's policies for its table and a partition: aws, aws-cn (China) or aws-us-gov (GovCloud).

    IAM refuses a policy with an ARN of another partition. `ensure_stage` copies dev's policies, so this must
    be called after it.
    """
    folder = root / ".chalice"
    for function in read(root)["stages"][settings.stage].get("lambda_functions", {}).values():
        path = folder / function["iam_policy_file"]
        text = PARTITION.sub(f"arn:{partition}:", path.read_text(encoding="utf-8"))
        write_atomically(path, TABLE.sub(f":table/{settings.table}", text))


def record_variables(root: Path, stage: str, values: Mapping[str, str]) -> bool:
    """Set variables of a stage, and remove those with empty values. Return whether anything changed."""
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
    """Copy a stage's part without the values of its own: sites, stream, queue and custom domains."""
    own = {*RECORDED, SOCKET}
    part = {name: value for name, value in part.items() if not name.endswith("_custom_domain")}
    variables = {n: value for n, value in part["environment_variables"].items() if n not in own}
    return {**part, "environment_variables": {**variables, "HUBBUB_SITES": ""}}


def rename_stage(node: Any, stage: str) -> Any:
    """Copy JSON data or text, and replace dev's names by the stage's.

    >>> rename_stage({"HUBBUB_STAGE": "dev", "Resource": "arn:aws:sqs:*:*:hubbub-dev-views"}, "prod")
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
    """Return the file name of a stage's copy of a policy of dev.

    >>> policy_file("policy-api.json", "prod")
    'policy-api-prod.json'
    """
    return f"{file.removesuffix('.json').removesuffix(f'-{stage}')}-{stage}.json"


def format_config(config: Mapping[str, Any]) -> str:
    """Format the configuration with two spaces per level and a function's settings on one line."""
    return _format_node(config, 0) + "\n"


def _format_node(node: Any, depth: int) -> str:
    if not isinstance(node, dict) or not node or depth == FLAT:
        return json.dumps(node, ensure_ascii=False)
    blanks = "  " * depth
    lines = [f"{blanks}  {json.dumps(key)}: {_format_node(value, depth + 1)}" for key, value in node.items()]
    return "{\n" + ",\n".join(lines) + f"\n{blanks}}}"
