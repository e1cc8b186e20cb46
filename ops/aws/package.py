"""Package a stage as one stack: the output of `chalice package` merged with the templates of `.chalice/`.

Chalice merges one template, so the two templates are combined first. They have no names in common. The zip is
the same as in `ops deploy`.

API Gateway serves a deployment, which is a snapshot of the API. SAM creates a new deployment when the hash of
the API's definition changes, but not when a parameter changes. So every value of the snapshot is written into
the definition: the origin in API Gateway's own responses, and the minimum size for compression.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import boto3
import click
import yaml
from botocore.exceptions import NoRegionError

from chalicelib.settings import Settings, read
from ops.aws import bundle, chalice_config, deploy, domains, event_sources, features
from ops.aws.template import logical_name, read_template, read_yaml
from ops.stage import read_variables

ALLOWED = "Access-Control-Allow-Origin"


def merge_templates(root: Path, stage: str) -> dict[str, Any]:
    """Combine the templates for one stage, whose name is the only allowed value of the parameter Stage.

    The functions are packaged for one stage, so the stack must not be deployed as another.
    """
    whole = read_template(chalice_config.list_functions(root, stage))
    gateway = read_yaml(root / ".chalice" / "gateway.yaml")
    for section, value in gateway.items():
        whole[section] = {**whole.get(section, {}), **value}
    settings = chalice_config.read_settings(root, stage)
    _leave_out(whole, settings)
    for function in ("apply", "push"):
        if features.has_function(function, settings):
            [event] = whole["Resources"][function.title()]["Properties"]["Events"].values()
            event["Properties"]["FilterCriteria"] = event_sources.filter_criteria(function, settings)
    for name, value in (("Stage", stage), ("TableName", settings.table)):
        whole["Parameters"][name] |= {"Default": value, "AllowedPattern": f"^{value}$"}
    notices = features.notices_parameter(settings)
    whole["Parameters"]["Notices"] |= {"Default": notices, "AllowedValues": [notices]}
    _settle_queue(whole, settings)
    domains.merge(whole, domains.find(root, stage))
    for function in chalice_config.list_functions(root, stage):
        environment = whole["Resources"][logical_name(function)]["Properties"].setdefault("Environment", {})
        environment.setdefault("Variables", {})["HUBBUB_SIZE"] = {"Ref": "Size"}
    api = whole["Resources"]["RestAPI"]["Properties"]
    for response in api["GatewayResponses"].values():
        headers = response["ResponseParameters"]["Headers"]
        response["ResponseParameters"] = {"Headers": headers | {ALLOWED: f"'{find_origin(root, stage)}'"}}
    if least := chalice_config.read(root).get("minimum_compression_size"):
        api["DefinitionBody"] = {"x-amazon-apigateway-minimum-compression-size": int(least)}
    return whole


def _leave_out(whole: dict[str, Any], settings: Settings) -> None:
    """Remove the parts of functions that a stage does not have."""
    for name in features.optional_functions():
        if not features.has_function(name, settings):
            del whole["Resources"][logical_name(name)]
    variables = whole["Resources"]["APIHandler"]["Properties"]["Environment"]["Variables"]
    if not settings.has("chat"):
        del whole["Resources"]["WebsocketAPIStage"], variables["HUBBUB_SOCKET"]
    if not settings.queue:
        del variables["HUBBUB_QUEUE_URL"]
    if settings.notices != "on" and "Push" in whole["Resources"]:
        del whole["Resources"]["Push"]["Properties"]["Environment"]["Variables"]["HUBBUB_NOTICE_TOPIC"]


def _settle_queue(whole: dict[str, Any], settings: Settings) -> None:
    """Replace the parameter Queue, because the functions are packaged for a stage with a queue or without."""
    del whole["Parameters"]["Queue"], whole["Conditions"]["Queued"], whole["Conditions"]["WatchesWaiting"]
    for name, resource in list(whole["Resources"].items()):
        if resource.get("Condition") in ("Queued", "WatchesWaiting"):
            if not settings.queue:
                del whole["Resources"][name]
            elif resource.pop("Condition") == "WatchesWaiting":
                resource["Condition"] = "Full"


def find_origin(root: Path, stage: str) -> str:
    """Return the origin that may read API Gateway's own responses: a stage's only origin, or any.

    API Gateway cannot choose by the request's origin. The app's preflight responses follow the same rule.
    """
    origins = read(read_variables(stage, root)).origins
    return origins[0] if len(origins) == 1 else "*"


def find_region() -> tuple[str, str]:
    """Return the configured region and its partition, such as aws or aws-cn.

    Raises: NoRegionError when no region is set.
    """
    session = boto3.session.Session()
    if not session.region_name:
        raise NoRegionError
    return session.region_name, session.get_partition_for_region(session.region_name)


def package(root: Path, stage: str, output: Path) -> None:
    """Write `sam.yaml` and `deployment.zip` into a folder.

    Raises: ClickException when Chalice fails.
    """
    files = [output / name for name in ("sam.yaml", "deployment.zip")]
    for file in files:
        file.unlink(missing_ok=True)  # files of an earlier run: Chalice may fail with exit code 0
    bundle.bundle(root, stage)
    with tempfile.TemporaryDirectory() as folder:
        template = Path(folder) / "merge.yaml"
        template.write_text(yaml.safe_dump(merge_templates(root, stage), sort_keys=False), encoding="utf-8")
        merge = ("--pkg-format", "cloudformation", "--merge-template", str(template))
        deploy.run_chalice(root, "package", "--stage", stage, *merge, str(output.resolve()))
    if missing := [str(file) for file in files if not file.is_file()]:
        raise click.ClickException(f"chalice package did not write {', '.join(missing)}")
