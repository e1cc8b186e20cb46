"""A feature that is off has no route, no function and no permission."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

import app
from chalicelib import settings
from chalicelib.feature import select
from ops.aws import chalice_config, event_sources, features, package
from ops.stage import ROOT
from tests.support.running import ENVIRONMENT

FEATURES = [feature.name for feature in app.FEATURES if feature.is_named]
BY_NAME = {feature.name: feature for feature in app.FEATURES}
SHOW = """
import json, app
from chalicelib.api import openapi
print(json.dumps({
    "routes": sorted(app.app.routes),
    "functions": sorted(name for name in app.app.handler_map),
    "sockets": sorted(app.app.websocket_handlers),
    "topics": sorted(app.TOPICS),
    "paths": sorted(openapi.describe(app.router, "0")["paths"]),
}))
"""
ROOTS = {feature.name: set(feature.paths) for feature in app.FEATURES}
FUNCTIONS = {"apply", "probe", "push", "sweep", "write_views"}
SERVICE = {"", "docs", "health", "openapi.json", "web"}
COUNTING = {"lag", "quarantine"}
SOCKETS = {"$connect", "$default", "$disconnect"}


def show(names: str) -> dict[str, list[str]]:
    """Return what the app of a stage with some features has."""
    environment = ENVIRONMENT | {"HUBBUB_FEATURES": names, "HUBBUB_STAGE": "small"}
    done = subprocess.run(
        [sys.executable, "-c", SHOW], cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    )
    found: dict[str, list[str]] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("name", FEATURES)
def test_a_stage_with_one_feature_has_its_routes_and_functions_alone(name: str) -> None:
    found, feature = show(name), BY_NAME[name]
    tops = {path.split("/")[1] for path in found["routes"]}
    assert tops == ROOTS[name] | SERVICE | (COUNTING if feature.contribution else set())
    assert found["paths"] == found["routes"]
    assert set(found["sockets"]) == (SOCKETS if name == "chat" else set())
    expected = FUNCTIONS & set(feature.functions) | ({"apply", "probe"} if feature.contribution else set())
    assert FUNCTIONS & set(found["functions"]) == expected
    assert found["topics"] == sorted(feature.topics)


def test_without_the_setting_a_stage_has_everything() -> None:
    found = show("")
    assert {path.split("/")[1] for path in found["routes"]} >= set().union(
        *(ROOTS[name] for name in FEATURES)
    ) | COUNTING
    assert found["sockets"] == sorted(SOCKETS)
    assert show(",".join(FEATURES)) == found


def test_an_unknown_feature_is_named() -> None:
    with pytest.raises(ValueError, match="HUBBUB_FEATURES has 'games': the features are views, leaderb"):
        select(app.FEATURES, settings.read({"HUBBUB_FEATURES": "views,games"}))


# -- what is deployed ------------------------------------------------------------------------------------


@pytest.fixture
def project(project: Path) -> Path:
    """A copy of the configuration, with a stage of views alone."""
    chalice_config.ensure_stage(project, "small")
    enable(project, "views")
    chalice_config.ensure_stage(project, "small")
    return project


def enable(project: Path, names: str, stage: str = "small") -> None:
    config = chalice_config.read(project)
    config["stages"][stage]["environment_variables"]["HUBBUB_FEATURES"] = names
    (project / chalice_config.CONFIG).write_text(chalice_config.format_config(config))


def functions(project: Path) -> dict[str, Any]:
    found: dict[str, Any] = chalice_config.read(project)["stages"]["small"]["lambda_functions"]
    return found


def test_a_stage_of_views_alone_has_four_functions_and_their_permissions(project: Path) -> None:
    assert set(functions(project)) == {"api_handler", "identify", "apply", "probe"}
    files = {path.name for path in (project / ".chalice").glob("policy-*-small.json")}
    assert files == {function["iam_policy_file"] for function in functions(project).values()}
    text = (project / ".chalice" / "policy-api-small.json").read_text()
    assert "gsi2" not in text
    assert "ConditionCheckItem" not in text
    assert "hubbub-small-views" not in text, "it has no queue"
    mappings = event_sources.expect_mappings_on(chalice_config.read_settings(project, "small"), "s", "q", "f")
    assert [mapping.function for mapping in mappings] == ["hubbub-small-apply"]


def test_a_stage_with_a_queue_has_its_function_its_mapping_and_the_permission_to_send(project: Path) -> None:
    chalice_config.record_variables(project, "small", {"HUBBUB_QUEUE": "on"})
    chalice_config.ensure_stage(project, "small")
    assert set(functions(project)) == {"api_handler", "identify", "apply", "probe", "write_views"}
    assert "hubbub-small-views" in (project / ".chalice" / "policy-api-small.json").read_text()
    mappings = event_sources.expect_mappings_on(chalice_config.read_settings(project, "small"), "s", "q", "f")
    assert [mapping.function for mapping in mappings] == ["hubbub-small-apply", "hubbub-small-write_views"]


def test_a_feature_that_is_switched_on_later_gets_its_functions(project: Path) -> None:
    enable(project, "views,chat")
    chalice_config.ensure_stage(project, "small")
    assert {"push", "sweep", "websocket_message"} <= set(functions(project))
    enable(project, ",".join(FEATURES))
    chalice_config.record_variables(project, "small", {"HUBBUB_QUEUE": "on", "HUBBUB_NOTICES": "on"})
    chalice_config.ensure_stage(project, "small")
    for name, function in functions(project).items():
        text = (project / ".chalice" / function["iam_policy_file"]).read_text()
        pattern = chalice_config.read(project)["stages"]["dev"]["lambda_functions"][name]["iam_policy_file"]
        assert text == chalice_config.rename_stage((project / ".chalice" / pattern).read_text(), "small")


def test_dev_has_every_feature_because_it_is_the_pattern(project: Path) -> None:
    enable(project, "views", stage="dev")
    with pytest.raises(click.ClickException, match="dev is the pattern of all stages"):
        chalice_config.ensure_stage(project, "dev")


def test_the_packaged_stack_names_only_its_own_functions(project: Path) -> None:
    whole = yaml.safe_dump(package.merge_templates(project, "small"))
    for name in ("Websocket", "Sweep:", "Push:", "WriteViews:"):
        assert name not in whole, name
    for name in ("Apply:", "Probe:", "APIHandler:", "Identify:"):
        assert name in whole, name
    enable(project, "chat")
    chat = package.merge_templates(project, "small")["Resources"]
    assert {"Push", "Sweep", "WebsocketMessage", "WebsocketAPIStage"} <= set(chat)
    assert not {"Apply", "Probe", "WriteViews"} & set(chat)


def test_every_function_with_a_condition_exists() -> None:
    config = chalice_config.read(ROOT)
    assert set(config["stages"]["dev"]["lambda_functions"]) >= features.optional_functions()
