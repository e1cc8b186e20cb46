"""A stage with notices has a topic, and only its function `push` may publish to it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ops.aws import chalice_config, event_sources, features, package
from tests.notices.test_notices import ARN

OTHER = "arn:aws:sns:eu-central-1:123456789012:team"


@pytest.fixture
def project(project: Path) -> Path:
    """A copy of the configuration, with a stage that has everything."""
    chalice_config.ensure_stage(project, "small")
    return project


def configure(project: Path, **variables: str) -> dict[str, Any]:
    """Set variables of the stage, and return the policy of `push` by the ids of its statements."""
    chalice_config.record_variables(project, "small", {f"HUBBUB_{name}": v for name, v in variables.items()})
    chalice_config.ensure_stage(project, "small")
    file = project / ".chalice" / "policy-push-small.json"
    policy = json.loads(file.read_text()) if file.exists() else {"Statement": []}
    return {statement["Sid"]: statement for statement in policy["Statement"]}


def push_mapping(project: Path) -> event_sources.Mapping:
    settings = chalice_config.read_settings(project, "small")
    mappings = event_sources.expect_mappings_on(settings, "stream", "queue", "failures")
    return next(mapping for mapping in mappings if mapping.function.endswith("-push"))


def test_only_push_may_publish_and_only_to_the_topic_of_the_stage(project: Path) -> None:
    policy = configure(project, NOTICES="on")
    assert policy["PublishNotices"]["Action"] == ["sns:Publish"]
    assert policy["PublishNotices"]["Resource"] == ["arn:aws:sns:*:*:hubbub-small-notices"]
    others = [path for path in (project / ".chalice").glob("policy-*-small.json") if "push" not in path.name]
    assert others
    assert not any("sns:" in path.read_text() for path in others)
    assert configure(project, NOTICES=OTHER)["PublishNotices"]["Resource"] == [OTHER]


def test_a_stage_without_notices_has_no_topic_and_no_permission(project: Path) -> None:
    assert not {"PublishNotices", "MarkNotices"} & set(configure(project))
    whole = package.merge_templates(project, "small")
    assert whole["Parameters"]["Notices"]["AllowedValues"] == ["off"]
    assert "HUBBUB_NOTICE_TOPIC" not in whole["Resources"]["Push"]["Properties"]["Environment"]["Variables"]
    assert push_mapping(project).settings["MaximumRecordAgeInSeconds"] == 60


def test_notices_without_chat_need_no_sockets(project: Path) -> None:
    policy = configure(project, NOTICES="on", FEATURES="comments")
    assert set(policy) == {"WriteLogs", "Table", "ReadStream", "MarkNotices", "PublishNotices"}
    assert policy["Table"]["Action"] == ["dynamodb:BatchGetItem"]
    [found] = push_mapping(project).settings["FilterCriteria"]["Filters"][1:]
    assert "COMMENT#" in found["Pattern"]
    assert "SEASON#" not in found["Pattern"]
    assert configure(project, NOTICES="", FEATURES="comments") == {}, "there is no function"


def test_a_failed_batch_of_a_stage_with_notices_is_kept_for_half_a_day(project: Path) -> None:
    configure(project, NOTICES="on")
    settings = push_mapping(project).settings
    assert (settings["MaximumRetryAttempts"], settings["MaximumRecordAgeInSeconds"]) == (-1, 43_200)
    assert settings["BisectBatchOnFunctionError"] is True


def test_the_packaged_stack_makes_the_topic_and_names_it_to_push(project: Path) -> None:
    configure(project, NOTICES="on")
    whole = package.merge_templates(project, "small")
    variables = whole["Resources"]["Push"]["Properties"]["Environment"]["Variables"]
    assert variables["HUBBUB_NOTICE_TOPIC"] == {"Ref": "NoticeTopic"}
    assert whole["Parameters"]["Notices"]["Default"] == "on"
    assert whole["Resources"]["NoticeMail"]["Properties"]["Endpoint"] == {"Ref": "NoticeEmail"}


@pytest.mark.parametrize(("value", "parameter"), [("", "off"), ("on", "on"), (ARN, "other")])
def test_the_stack_has_a_topic_only_when_it_is_used(project: Path, value: str, parameter: str) -> None:
    configure(project, NOTICES=value)
    assert features.notices_parameter(chalice_config.read_settings(project, "small")) == parameter
