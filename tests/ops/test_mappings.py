"""Event source mappings: expected settings, differences and their correction."""

from __future__ import annotations

import os
from typing import Any
from unittest import mock
from uuid import uuid4

import click
import pytest
import yaml
from click.testing import CliRunner

from chalicelib.settings import Settings
from local.engines.engine import Engine
from ops.aws import event_sources
from ops.aws.event_sources import Drift, Mapping
from ops.aws.provision import Clients, provision
from ops.cli.main import main
from tests.support.tables import create_function


@pytest.fixture
def stage(cloud: Engine, clients: Clients) -> str:
    """A stage with its table, its queues and its two functions, and without a mapping."""
    name = f"t{uuid4().hex[:8]}"
    provision(clients, name, {"Queue": "on"}, lambda *_: True)
    for function in event_sources.SOURCES:
        create_function(cloud, f"hubbub-{name}-{function}")
    return name


def expect_mappings(clients: Clients, stage: str) -> list[Mapping]:
    return event_sources.expect_mappings(
        clients,
        Settings(stage=stage, table=f"hubbub-{stage}", queue=True, queue_name=f"hubbub-{stage}-views"),
    )


def deploy(cloud: Engine, wanted: list[Mapping]) -> None:
    """Create the mappings as Chalice does, with a source and a batch size only."""
    for mapping in wanted:
        position = {"StartingPosition": "TRIM_HORIZON"} if "/stream/" in mapping.source else {}
        cloud.client("lambda").create_event_source_mapping(
            EventSourceArn=mapping.source, FunctionName=mapping.function, BatchSize=10, **position
        )


def restart_stream(clients: Clients, stage: str) -> None:
    table = f"hubbub-{stage}"
    clients.dynamodb.update_table(TableName=table, StreamSpecification={"StreamEnabled": False})
    clients.dynamodb.update_table(
        TableName=table,
        StreamSpecification={"StreamEnabled": True, "StreamViewType": "NEW_AND_OLD_IMAGES"},
    )


def test_the_expected_mappings_are_on_the_current_sources(clients: Clients, stage: str) -> None:
    stream, push, queue = expect_mappings(clients, stage)
    table = clients.dynamodb.describe_table(TableName=f"hubbub-{stage}")["Table"]
    assert (stream.function, stream.source) == (f"hubbub-{stage}-apply", table["LatestStreamArn"])
    failures = stream.settings.pop("DestinationConfig")["OnFailure"]["Destination"]
    assert failures.endswith(f":hubbub-{stage}-stream-failures")
    assert stream.settings.pop("FilterCriteria")["Filters"]
    assert stream.settings == {
        "BisectBatchOnFunctionError": True,
        "MaximumRetryAttempts": -1,
        "MaximumRecordAgeInSeconds": 43_200,
    }
    assert (push.function, push.source) == (f"hubbub-{stage}-push", table["LatestStreamArn"])
    assert len(push.settings.pop("FilterCriteria")["Filters"]) == 2
    assert push.settings == {"MaximumRetryAttempts": 2, "MaximumRecordAgeInSeconds": 60}
    assert queue.source.endswith(f":hubbub-{stage}-views")
    scaling = {"MaximumConcurrency": 2}
    assert queue.settings == {"FunctionResponseTypes": ["ReportBatchItemFailures"], "ScalingConfig": scaling}


@pytest.mark.parametrize(("is_full", "most"), [(False, 2), (True, 50)])
def test_a_peak_in_the_queue_leaves_functions_for_the_page(is_full: bool, most: int) -> None:
    """A new account runs ten functions at once: AWS Lambda Developer Guide, Lambda quotas."""
    settings = Settings(stage="prod", queue=True, is_full=is_full)
    *_, queue = event_sources.expect_mappings_on(settings, "stream", "queue", "failures")
    assert queue.settings["ScalingConfig"] == {"MaximumConcurrency": most}


def test_mappings_are_tuned_once(cloud: Engine, clients: Clients, stage: str) -> None:
    client, wanted = cloud.client("lambda"), expect_mappings(clients, stage)
    assert [mapping.problem for mapping in event_sources.find_drift(client, wanted)] == [
        f"no mapping on {mapping.source}" for mapping in wanted
    ]
    deploy(cloud, wanted)
    assert {mapping.problem for mapping in event_sources.find_drift(client, wanted)} == {
        f"{name} is misconfigured" for mapping in wanted for name in mapping.settings
    }
    changed = event_sources.configure(client, wanted)
    assert {mapping.function for mapping in changed} == {mapping.function for mapping in wanted}
    assert event_sources.find_drift(client, wanted) == []
    assert event_sources.configure(client, wanted) == []


@pytest.mark.parametrize(
    ("number", "change", "problem"),
    [
        (0, {"MaximumRecordAgeInSeconds": 60}, "MaximumRecordAgeInSeconds is misconfigured"),
        (2, {"Enabled": False}, "state Disabled"),
    ],
)
def test_a_mapping_that_someone_has_changed_is_found_and_put_right(
    cloud: Engine, clients: Clients, stage: str, number: int, change: dict[str, Any], problem: str
) -> None:
    client, wanted = cloud.client("lambda"), expect_mappings(clients, stage)
    deploy(cloud, wanted)
    event_sources.configure(client, wanted)
    function = wanted[number].function
    [mapping] = client.list_event_source_mappings(FunctionName=function)["EventSourceMappings"]
    client.update_event_source_mapping(UUID=mapping["UUID"], **change)
    assert event_sources.find_drift(client, wanted) == [Drift(function, mapping["UUID"], problem)]
    assert [done.problem for done in event_sources.configure(client, wanted)] == list(change)
    assert event_sources.find_drift(client, wanted) == []


def state(cloud: Engine, function: str) -> str:
    found = cloud.client("lambda").list_event_source_mappings(FunctionName=function)
    [mapping] = found["EventSourceMappings"]
    return str(mapping["State"])


@pytest.mark.parametrize("was_disabled", [False, True])
def test_pushes_are_paused_and_resumed_also_after_an_error(
    cloud: Engine, clients: Clients, stage: str, was_disabled: bool
) -> None:
    client, wanted = cloud.client("lambda"), expect_mappings(clients, stage)
    deploy(cloud, wanted)
    apply, push, queue = (mapping.function for mapping in wanted)
    if was_disabled:  # by a command that was killed
        [mapping] = client.list_event_source_mappings(FunctionName=push)["EventSourceMappings"]
        client.update_event_source_mapping(UUID=mapping["UUID"], Enabled=False)
    seen: list[str] = []

    def breaks_off() -> None:
        with event_sources.push_paused(client, stage):
            seen.extend(state(cloud, mapping) for mapping in (apply, push, queue))
            raise RuntimeError("broke off")

    with pytest.raises(RuntimeError, match="broke off"):
        breaks_off()
    assert (seen, state(cloud, push)) == (["Enabled", "Disabled", "Enabled"], "Enabled")


def test_a_stage_without_live_topics_has_no_pushes_to_pause(cloud: Engine) -> None:
    with event_sources.push_paused(cloud.client("lambda"), "no-such-stage"):
        pass


@pytest.mark.parametrize(
    ("command", "work"),
    [
        (["audit"], "ops.maintenance.audit.audit"),
        (["repair"], "ops.maintenance.audit.audit"),
        (["replay", "stream"], "ops.maintenance.replay.replay_batches"),
    ],
)
def test_a_command_that_reads_the_stream_pauses_pushes_meanwhile(
    cloud: Engine,
    clients: Clients,
    stage: str,
    command: list[str],
    work: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    wanted = expect_mappings(clients, stage)
    deploy(cloud, wanted)
    seen = []

    def breaks_off(*_: Any, **__: Any) -> None:
        seen.append(state(cloud, f"hubbub-{stage}-push"))
        raise click.ClickException("it broke off")

    monkeypatch.setattr(work, breaks_off)
    monkeypatch.setattr("ops.stage.read_variables", lambda *_: {})
    variables = {"HUBBUB_ENDPOINT": cloud.endpoint, "HUBBUB_TABLE": f"hubbub-{stage}"}
    with mock.patch.dict(os.environ, variables):
        done = CliRunner().invoke(main, [*command, "--stage", stage])
    assert (done.exit_code, "it broke off" in done.output) == (1, True), done.output
    assert (seen, state(cloud, f"hubbub-{stage}-push")) == (["Disabled"], "Enabled")


def test_a_mapping_left_on_an_old_stream_is_found_and_deleted_and_no_other(
    cloud: Engine, clients: Clients, stage: str
) -> None:
    client, before = cloud.client("lambda"), expect_mappings(clients, stage)
    deploy(cloud, before)
    event_sources.configure(client, before)
    restart_stream(clients, stage)
    wanted = expect_mappings(clients, stage)
    assert wanted[0].source != before[0].source
    found = event_sources.find_drift(client, wanted)
    old, missing = found[::2], found[1::2]
    assert all(before[0].source in mapping.problem for mapping in old)
    assert missing == [
        Drift(mapping.function, "", f"no mapping on {wanted[0].source}") for mapping in wanted[:2]
    ]
    assert event_sources.delete_stale(client, wanted) == old
    assert event_sources.find_drift(client, wanted) == missing
    deploy(cloud, wanted[:2])
    event_sources.configure(client, wanted)
    assert event_sources.find_drift(client, wanted) == []


@pytest.mark.parametrize(
    ("there", "should"),
    [
        ({"Filters": [{"Pattern": '{"a":["b"]}'}]}, {"Filters": [{"Pattern": '{ "a": [ "b" ] }'}]}),
        ({"OnFailure": {"Destination": "x"}, "OnSuccess": {}}, {"OnFailure": {"Destination": "x"}}),
        ([], None),
    ],
)
def test_two_notations_of_a_setting_are_the_same(there: Any, should: Any) -> None:
    assert event_sources._differing_settings({"Setting": there}, {"Setting": should}) == []


def test_no_shard_has_more_readers_than_dynamodb_streams_allows() -> None:
    """At most two functions may read one shard at the same time; a third is throttled.

    No engine enforces it. Source: https://docs.aws.amazon.com/lambda/latest/dg/with-ddb.html, "Simultaneous
    readers of a shard in DynamoDB Streams". Commands that read the stream pause `push` meanwhile.
    """
    template = yaml.safe_load(event_sources.GATEWAY.read_text())["Resources"]
    events = {name: str(resource.get("Properties", {}).get("Events")) for name, resource in template.items()}
    read = [name for name, text in events.items() if "StreamArn" in text]
    assert read == ["Apply", "Push"]
    assert sum(source == "Stream" for _, source in event_sources.SOURCES.values()) == 2
