"""Provisioning creates and updates stacks, shows changes first, and never loses the table."""

from __future__ import annotations

import copy
import json
import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock
from uuid import uuid4

import boto3
import click
import pytest
from click.testing import CliRunner, Result
from moto import mock_aws

from chalicelib.api import auth
from chalicelib.settings import Settings
from local.engines.engine import Engine
from ops.aws import adopt, chalice_config, cloudformation, live_table
from ops.aws import provision as provisioning
from ops.aws.cloudformation import Change, ChangeSet
from ops.aws.provision import Clients, find_resources, provision
from ops.aws.template import TEMPLATE, create_table, definition, read_yaml
from ops.cli.main import main
from tests.ops import test_definition

NAME = "/hubbub/dev/secret"
EVERYTHING = "apply the template"


@pytest.fixture
def stage() -> str:
    return f"t{uuid4().hex[:8]}"


class Shown(list[tuple[str, str, dict[str, str]]]):
    """Approves of every change set, and remembers what it was: its kind, what it is for, its changes."""

    def __call__(self, change: ChangeSet, why: str) -> bool:
        self.append((change.kind, why, {changed.resource: changed.action for changed in change.changes}))
        return True


def settings_of(stage: str, *, queue: bool = False) -> Settings:
    table, views = f"hubbub-{stage}", f"hubbub-{stage}-views"
    return Settings(stage=stage, table=table, queue=queue, queue_name=views)


def run(clients: Clients, stage: str) -> Shown:
    shown = Shown()
    assert provision(clients, stage, {}, shown) == len(shown)
    return shown


def older(indexes: list[str], **changes: Any) -> dict[str, Any]:
    """Return the template as an older version had it: with these indexes alone."""
    template: dict[str, Any] = read_yaml(TEMPLATE)
    table = template["Resources"]["Table"]["Properties"]
    table["GlobalSecondaryIndexes"] = [
        index for index in table["GlobalSecondaryIndexes"] if index["IndexName"] in indexes
    ]
    kept = {"pk", "sk", *(f"{index}{end}" for index in indexes for end in ("pk", "sk"))}
    table["AttributeDefinitions"] = [
        attribute for attribute in table["AttributeDefinitions"] if attribute["AttributeName"] in kept
    ]
    if not table["GlobalSecondaryIndexes"]:
        del table["GlobalSecondaryIndexes"]
    table |= changes
    return template


def put_together(clients: Clients, stage: str, template: dict[str, Any], **parameters: str) -> None:
    """Create a stack from a template, as an older version of the command did."""
    change = cloudformation.create_change_set(
        clients.cloudformation,
        provisioning.stack_name(stage),
        template,
        {"Stage": stage, "TableName": f"hubbub-{stage}", **parameters},
    )
    assert change
    cloudformation.execute(clients.cloudformation, change)


def put(clients: Clients, stage: str) -> None:
    item = {"pk": {"S": "a"}, "sk": {"S": "b"}, "gsi1pk": {"S": "c"}, "gsi1sk": {"N": "1"}}
    clients.dynamodb.put_item(TableName=f"hubbub-{stage}", Item=item)


def holds_its_item(clients: Clients, stage: str) -> bool:
    return clients.dynamodb.scan(TableName=f"hubbub-{stage}")["Count"] == 1


def agrees_with_the_template(clients: Clients, stage: str) -> None:
    name = f"hubbub-{stage}"
    test_definition.agrees_with_the_template(
        clients.dynamodb, name, find_resources(clients, settings_of(stage)).stream_arn
    )
    assert table_of(clients, stage)["DeletionProtectionEnabled"] is True
    backups = clients.dynamodb.describe_continuous_backups(TableName=name)["ContinuousBackupsDescription"]
    assert backups["PointInTimeRecoveryDescription"]["PointInTimeRecoveryStatus"] == "ENABLED"


def test_a_small_stage_without_a_queue_has_nothing_that_costs_at_rest(clients: Clients, stage: str) -> None:
    """What CloudWatch, WAF and SQS bill by the month is left out, up to five alarms, of which ten are free.

    Source: Amazon CloudWatch pricing, free tier; AWS WAF pricing; Amazon SQS pricing (an idle queue has no
    requests unless Lambda polls it).
    """
    functions = ("api_handler", "identify", "apply", "probe", "push", "sweep")
    provision(clients, stage, {}, Shown(), functions)
    made = {
        resource["LogicalResourceId"]: resource["ResourceType"] for resource in resources_of(clients, stage)
    }
    kinds = Counter(made.values())
    assert kinds.pop("AWS::CloudWatch::Alarm") == 5
    assert kinds.pop("AWS::Logs::LogGroup") == len(functions)
    assert kinds == {"AWS::DynamoDB::Table": 1, "AWS::SQS::Queue": 1}
    assert "StreamFailures" in made
    assert table_of(clients, stage)["OnDemandThroughput"]["MaxWriteRequestUnits"] == 200


def test_a_full_stage_has_a_web_acl_a_dashboard_and_no_ceiling(clients: Clients, stage: str) -> None:
    provision(clients, stage, {"Size": "full", "Queue": "on"}, Shown(), ("identify", "push", "sweep"))
    kinds = Counter(resource["ResourceType"] for resource in resources_of(clients, stage))
    assert kinds["AWS::WAFv2::WebACL"] == kinds["AWS::CloudWatch::Dashboard"] == 1
    assert kinds["AWS::CloudWatch::Alarm"] > 5
    assert kinds["AWS::SQS::Queue"] == 3
    assert not table_of(clients, stage).get("OnDemandThroughput")
    provision(clients, stage, {"MaxWriteUnits": "5000"}, Shown(), ("identify", "push", "sweep"))
    assert int(table_of(clients, stage)["OnDemandThroughput"]["MaxWriteRequestUnits"]) == 5000


def resources_of(clients: Clients, stage: str) -> list[Any]:
    client: Any = clients.cloudformation
    return list(client.describe_stack_resources(StackName=provisioning.stack_name(stage))["StackResources"])


def table_of(clients: Clients, stage: str) -> Any:
    return clients.dynamodb.describe_table(TableName=f"hubbub-{stage}")["Table"]


def test_one_change_set_creates_everything_and_a_second_run_has_none(clients: Clients, stage: str) -> None:
    [(kind, why, changes)] = run(clients, stage)
    assert (kind, why) == ("CREATE", EVERYTHING)
    assert {"Table", "StreamFailures"} <= set(changes)
    assert set(changes.values()) == {"Add"}
    agrees_with_the_template(clients, stage)
    assert run(clients, stage) == []


@pytest.mark.parametrize(("before", "steps"), [(["gsi1"], 1), ([], 2)])
def test_an_older_stack_gets_its_indexes_one_at_a_time_and_keeps_its_items(
    clients: Clients, stage: str, before: list[str], steps: int
) -> None:
    put_together(clients, stage, older(before))
    put(clients, stage)
    shown = run(clients, stage)
    assert [kind for kind, _, _ in shown] == ["UPDATE"] * steps
    assert all(changes["Table"] == "Modify" for _, _, changes in shown)
    agrees_with_the_template(clients, stage)
    assert holds_its_item(clients, stage)
    assert run(clients, stage) == []


def test_resources_that_an_older_stack_lacks_are_added(clients: Clients, stage: str) -> None:
    template = older(["gsi1", "gsi2"])
    del template["Resources"]["StreamFailures"]
    put_together(clients, stage, template)
    [(_, _, changes)] = run(clients, stage)
    assert changes["StreamFailures"] == "Add"
    assert "Table" not in changes


def test_a_change_set_that_is_declined_changes_nothing(clients: Clients, stage: str) -> None:
    assert provision(clients, stage, {}, lambda *_: False) == 1
    assert f"hubbub-{stage}" not in clients.dynamodb.list_tables()["TableNames"]
    assert cloudformation.find_stack(clients.cloudformation, provisioning.stack_name(stage)) is None
    assert len(run(clients, stage)) == 1


@pytest.mark.parametrize("indexes", [[], ["gsi1"], ["gsi1", "gsi2"]])
def test_a_table_without_a_stack_is_taken_over_with_its_data(
    clients: Clients, stage: str, indexes: list[str]
) -> None:
    put_together(clients, stage, older(indexes), Queue="on")
    put(clients, stage)
    cloudformation.delete(clients.cloudformation, provisioning.stack_name(stage))
    assert holds_its_item(clients, stage)
    shown = run(clients, stage)
    assert shown[0][0] == "IMPORT"
    assert shown[0][2] == {"Table": "Import", "ViewsQueue": "Import", "ViewsDeadLetters": "Import"}
    assert {kind for kind, _, _ in shown[1:]} == {"UPDATE"}
    agrees_with_the_template(clients, stage)
    assert holds_its_item(clients, stage)
    assert run(clients, stage) == []


def test_a_table_made_by_hand_is_taken_over_and_brought_to_the_template(clients: Clients, stage: str) -> None:
    clients.dynamodb.create_table(
        TableName=f"hubbub-{stage}",
        KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}, {"AttributeName": "sk", "KeyType": "RANGE"}],
        AttributeDefinitions=[
            {"AttributeName": "pk", "AttributeType": "S"},
            {"AttributeName": "sk", "AttributeType": "S"},
        ],
        BillingMode="PAY_PER_REQUEST",
    )
    put(clients, stage)
    assert [kind for kind, _, _ in run(clients, stage)] == ["IMPORT", "UPDATE", "UPDATE"]
    agrees_with_the_template(clients, stage)
    assert holds_its_item(clients, stage)


@pytest.mark.parametrize("key", [{"AttributeName": "id", "KeyType": "HASH"}, None])
def test_another_programs_table_of_that_name_is_refused_and_left(
    clients: Clients, stage: str, key: Any
) -> None:
    """One has another key, one the same keys and a number where an index of ours has text."""
    keys = [{"AttributeName": "pk", "KeyType": "HASH"}, {"AttributeName": "sk", "KeyType": "RANGE"}]
    schema = [key] if key else keys
    attributes: Any = [{"AttributeName": key["AttributeName"], "AttributeType": "S"} for key in schema]
    options: Any = {}
    if not key:
        attributes.append({"AttributeName": "gsi1pk", "AttributeType": "N"})
        index = {"IndexName": "other", "KeySchema": [{"AttributeName": "gsi1pk", "KeyType": "HASH"}]}
        options["GlobalSecondaryIndexes"] = [{**index, "Projection": {"ProjectionType": "ALL"}}]
    clients.dynamodb.create_table(
        TableName=f"hubbub-{stage}",
        KeySchema=schema,  # type: ignore[arg-type]
        AttributeDefinitions=attributes,
        BillingMode="PAY_PER_REQUEST",
        **options,
    )
    with pytest.raises(click.ClickException, match=r"keys of table .* differ from Hubbub's"):
        run(clients, stage)
    assert cloudformation.find_stack(clients.cloudformation, provisioning.stack_name(stage)) is None
    assert clients.dynamodb.describe_table(TableName=f"hubbub-{stage}")["Table"]["KeySchema"] == schema


@pytest.mark.parametrize(
    "change",
    [
        Change("Modify", "Table", "AWS::DynamoDB::Table", "True", frozenset({"KeySchema"})),
        Change("Modify", "Table", "AWS::DynamoDB::Table", "Conditional", frozenset({"TableName"})),
        Change("Remove", "Table", "AWS::DynamoDB::Table", "False", frozenset()),
    ],
)
@pytest.mark.parametrize("holds", [True, False])
def test_a_change_set_that_would_lose_the_table_is_discarded_unseen(
    clients: Clients, stage: str, change: Change, holds: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(clients, stage)
    if holds:
        put(clients, stage)
    real = cloudformation.create_change_set

    def propose(client: Any, name: str, template: Any, *rest: Any) -> ChangeSet | None:
        template = copy.deepcopy(template)
        template["Resources"]["StreamFailures"]["Properties"]["MessageRetentionPeriod"] = 86_400
        made = real(client, name, template, *rest)
        assert made
        return ChangeSet(made.stack, made.id, made.kind, (change, *made.changes))

    monkeypatch.setattr(cloudformation, "create_change_set", propose)
    verb = "remove" if change.action == "Remove" else "replace"
    with pytest.raises(
        click.ClickException, match=f"would {verb} .* which {'has data' if holds else 'is empty'}"
    ):
        provision(clients, stage, {}, lambda *_: pytest.fail("it was shown"))
    left: Any = clients.cloudformation.list_change_sets(StackName=provisioning.stack_name(stage))
    assert [summary for summary in left["Summaries"] if summary["ExecutionStatus"] == "AVAILABLE"] == []
    assert holds_its_item(clients, stage) is holds


def test_new_attributes_of_a_key_are_no_replacement(
    clients: Clients, stage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CloudFormation says Conditional of every change of the declared attributes."""
    put_together(clients, stage, older(["gsi1"]))
    real = cloudformation.create_change_set

    def propose(*arguments: Any) -> ChangeSet | None:
        made = real(*arguments)
        assert made
        causes = frozenset({"AttributeDefinitions"})
        table = Change("Modify", "Table", "AWS::DynamoDB::Table", "Conditional", causes)
        return ChangeSet(made.stack, made.id, made.kind, (table,))

    monkeypatch.setattr(cloudformation, "create_change_set", propose)
    assert len(run(clients, stage)) == 1
    agrees_with_the_template(clients, stage)


def test_a_stack_that_has_lost_its_table_is_not_touched(clients: Clients, stage: str) -> None:
    run(clients, stage)
    clients.dynamodb.update_table(TableName=f"hubbub-{stage}", DeletionProtectionEnabled=False)
    clients.dynamodb.delete_table(TableName=f"hubbub-{stage}")
    with pytest.raises(click.ClickException, match=r"table .* of the stack .* is missing"):
        run(clients, stage)


def lose_by_a_restore(clients: Clients, stage: str) -> None:
    """Replace the table by a restored one of the same name, which lacks what a restore does not include."""
    table = f"hubbub-{stage}"
    backup = clients.dynamodb.create_backup(TableName=table, BackupName="before")["BackupDetails"]
    clients.dynamodb.update_table(TableName=table, DeletionProtectionEnabled=False)
    clients.dynamodb.delete_table(TableName=table)
    clients.dynamodb.restore_table_from_backup(TargetTableName=table, BackupArn=backup["BackupArn"])
    clients.dynamodb.update_time_to_live(
        TableName=table, TimeToLiveSpecification={"Enabled": False, "AttributeName": "ttl"}
    )
    clients.dynamodb.update_continuous_backups(
        TableName=table, PointInTimeRecoverySpecification={"PointInTimeRecoveryEnabled": False}
    )
    restored: Any = clients.dynamodb.describe_table(TableName=table)["Table"]
    assert not {"StreamSpecification", "OnDemandThroughput"} & {key for key, it in restored.items() if it}


def test_a_restored_table_gets_what_the_restore_has_left_out(clients: Clients, stage: str) -> None:
    """Source: DynamoDB API Reference, RestoreTableFromBackup, what must be set up manually."""
    run(clients, stage)
    put(clients, stage)
    lose_by_a_restore(clients, stage)
    declined = provision(clients, stage, {}, lambda *_: False)
    assert (declined, "LatestStreamArn" in table_of(clients, stage)) == (1, False)
    [(kind, why, changes)] = run(clients, stage)
    assert (kind, why) == ("UPDATE", "set what the table lacks")
    assert {"StreamSpecification", "TimeToLiveSpecification", "DeletionProtectionEnabled"} < set(changes)
    assert {"PointInTimeRecoverySpecification", "OnDemandThroughput"} < set(changes)
    agrees_with_the_template(clients, stage)
    made = table_of(clients, stage)
    for part in (made, *made["GlobalSecondaryIndexes"]):
        assert part["OnDemandThroughput"]["MaxWriteRequestUnits"] == 200
    assert holds_its_item(clients, stage)
    assert run(clients, stage) == []


@pytest.mark.parametrize("index", ["gsi1", "gsi2"])
def test_an_index_that_somebody_has_deleted_is_made_again(clients: Clients, stage: str, index: str) -> None:
    run(clients, stage)
    put(clients, stage)
    deletion: Any = [{"Delete": {"IndexName": index}}]
    clients.dynamodb.update_table(TableName=f"hubbub-{stage}", GlobalSecondaryIndexUpdates=deletion)
    [(_, _, changes)] = run(clients, stage)
    assert set(changes) == {f"index {index}"}
    agrees_with_the_template(clients, stage)
    assert holds_its_item(clients, stage)


def test_a_stream_of_another_view_type_is_begun_again(clients: Clients, stage: str) -> None:
    run(clients, stage)
    for specification in (
        {"StreamEnabled": False},
        {"StreamEnabled": True, "StreamViewType": "KEYS_ONLY"},
    ):
        clients.dynamodb.update_table(TableName=f"hubbub-{stage}", StreamSpecification=specification)  # type: ignore[arg-type]
    assert len(run(clients, stage)) == 1
    assert table_of(clients, stage)["StreamSpecification"]["StreamViewType"] == "NEW_AND_OLD_IMAGES"


def test_a_ceiling_that_somebody_has_changed_is_set_again(clients: Clients, stage: str) -> None:
    provision(clients, stage, {"MaxWriteUnits": "500"}, Shown())
    clients.dynamodb.update_table(
        TableName=f"hubbub-{stage}", OnDemandThroughput={"MaxWriteRequestUnits": 90}
    )
    assert [set(changes) for _, _, changes in run(clients, stage)] == [{"OnDemandThroughput"}]
    assert table_of(clients, stage)["OnDemandThroughput"]["MaxWriteRequestUnits"] == 500


def test_a_protection_that_somebody_has_added_is_kept(clients: Clients) -> None:
    name = f"t{uuid4().hex[:8]}"
    run(clients, name)
    wanted = {**definition("dev").table, "TableName": f"hubbub-{name}"}
    live = adopt.describe_table(clients.dynamodb, f"hubbub-{name}")
    assert live
    assert live["DeletionProtectionEnabled"]
    assert not wanted["DeletionProtectionEnabled"]
    names = [difference.name for difference in live_table.find_differences(live, wanted)]
    assert "DeletionProtectionEnabled" not in names


def test_a_stage_moves_to_another_table_and_the_former_is_kept(clients: Clients, stage: str) -> None:
    """CloudFormation can only let one table go and import another: AWS CloudFormation User Guide, import."""
    run(clients, stage)
    put(clients, stage)
    restored = f"hubbub-{stage}-restored"
    clients.dynamodb.restore_table_to_point_in_time(
        SourceTableName=f"hubbub-{stage}", TargetTableName=restored, UseLatestRestorableTime=True
    )
    clients.dynamodb.delete_item(TableName=f"hubbub-{stage}", Key={"pk": {"S": "a"}, "sk": {"S": "b"}})
    shown = Shown()
    provision(clients, stage, {"TableName": restored}, shown)
    assert [kind for kind, _, _ in shown][:3] == ["UPDATE", "IMPORT", "UPDATE"]
    assert (shown[0][2]["Table"], shown[1][2]) == ("Remove", {"Table": "Import"})
    owned = cloudformation.list_resources(clients.cloudformation, provisioning.stack_name(stage))
    assert owned["Table"] == restored
    assert clients.dynamodb.scan(TableName=restored)["Count"] == 1
    assert not holds_its_item(clients, stage)
    settings = settings_of(stage)._replace(table=restored)
    assert f":table/{restored}/stream/" in find_resources(clients, settings).stream_arn
    again = Shown()
    assert provision(clients, stage, {"TableName": restored}, again) == 0
    outputs = cloudformation.read_outputs(clients.cloudformation, provisioning.stack_name(stage))
    assert outputs["TableName"] == restored
    provision(clients, stage, {"TableName": f"hubbub-{stage}"}, lambda *_: True)
    owned = cloudformation.list_resources(clients.cloudformation, provisioning.stack_name(stage))
    assert owned["Table"] == f"hubbub-{stage}", "it moves back"
    assert clients.dynamodb.scan(TableName=restored)["Count"] == 1


@pytest.mark.parametrize("done", [0, 1, 2])
def test_a_move_that_broke_off_after_any_change_set_is_completed(
    clients: Clients, stage: str, done: int
) -> None:
    run(clients, stage)
    restored = f"hubbub-{stage}-restored"
    clients.dynamodb.restore_table_to_point_in_time(
        SourceTableName=f"hubbub-{stage}", TargetTableName=restored, UseLatestRestorableTime=True
    )
    shown: list[str] = []

    def approve(change: ChangeSet, why: str) -> bool:
        shown.append(why)
        return len(shown) <= done

    provision(clients, stage, {"TableName": restored}, approve)
    provision(clients, stage, {"TableName": restored, "MaxWriteUnits": "77"}, lambda *_: True)
    owned = cloudformation.list_resources(clients.cloudformation, provisioning.stack_name(stage))
    assert owned["Table"] == restored
    found: Any = clients.dynamodb.describe_table(TableName=restored)["Table"]
    assert found["DeletionProtectionEnabled"]
    assert found["OnDemandThroughput"]["MaxWriteRequestUnits"] == 77
    assert table_of(clients, stage)["DeletionProtectionEnabled"]


def test_a_table_that_does_not_exist_is_not_moved_to(clients: Clients, stage: str) -> None:
    run(clients, stage)
    with pytest.raises(click.ClickException, match=r"table hubbub-other of the stack .* is missing"):
        provision(clients, stage, {"TableName": "hubbub-other"}, Shown())
    assert len(resources_of(clients, stage)) > 1


def test_a_run_that_is_interrupted_while_the_stack_changes_is_completed_at_once(
    clients: Clients, stage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(cloudformation, "_is_executed", interrupt)
        with pytest.raises(KeyboardInterrupt):
            run(clients, stage)
    states = iter(["CREATE_IN_PROGRESS", "CREATE_IN_PROGRESS"])
    describe = cloudformation._describe

    def describe_late(client: Any, name: str) -> dict[str, Any] | None:
        found = describe(client, name)
        return {**found, "StackStatus": next(states, found["StackStatus"])} if found else None

    monkeypatch.setattr(cloudformation, "_describe", describe_late)
    assert run(clients, stage) == []
    agrees_with_the_template(clients, stage)


def test_a_failure_names_the_resource_and_the_reason(clients: Clients, stage: str) -> None:
    properties = {"Type": "SecureString", "Value": "a"}  # CloudFormation cannot make one
    template = {"Resources": {"Wrong": {"Type": "AWS::SSM::Parameter", "Properties": properties}}}
    change = cloudformation.create_change_set(
        clients.cloudformation, provisioning.stack_name(stage), template, {}
    )
    assert change
    with pytest.raises(click.ClickException, match="ROLLBACK_COMPLETE\n  Wrong: "):
        cloudformation.execute(clients.cloudformation, change)
    assert len(run(clients, stage)) == 1  # what is left of the failed stack is in nobody's way


Command = Callable[..., Result]


@pytest.fixture
def project(cloud: Engine, project: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project of its own, whose commands use the account."""
    monkeypatch.setenv("HUBBUB_ENDPOINT", cloud.endpoint)
    for name in ("HUBBUB_TABLE", "HUBBUB_QUEUE"):
        monkeypatch.delenv(name, raising=False)
    return project


@pytest.fixture
def command(project: Path) -> Command:
    """The command, in the project."""

    def run(*arguments: str, **options: Any) -> Result:
        with mock.patch.dict(os.environ):
            return CliRunner().invoke(main, ["provision", *arguments], **options)

    return run


def test_the_command_creates_a_stage_from_dev_and_records_its_resources(
    command: Command, tmp_path: Path, clients: Clients, stage: str
) -> None:
    first = command("--stage", stage, "--yes", "--queue")
    assert first.exit_code == 0, first.output
    assert f"hubbub-{stage}-resources: create: {EVERYTHING}" in first.output
    assert "Table                   AWS::DynamoDB::Table" in first.output
    config = json.loads((tmp_path / ".chalice" / "config.json").read_text())
    mine, dev = config["stages"][stage], config["stages"]["dev"]
    found = find_resources(clients, settings_of(stage, queue=True))
    recorded = {"HUBBUB_QUEUE": "on", "HUBBUB_QUEUE_URL": found.queue_url}
    recorded |= {"HUBBUB_STREAM_ARN": found.stream_arn, "HUBBUB_SIZE": "small"}
    assert recorded.items() <= mine["environment_variables"].items()
    assert mine["environment_variables"]["HUBBUB_STAGE"] == stage
    assert set(mine["lambda_functions"]) == set(dev["lambda_functions"])
    for name, settings in mine["lambda_functions"].items():
        if name == "push":
            continue  # without the permissions of notices (tests/notices/test_deployment.py)
        policy = (tmp_path / ".chalice" / settings["iam_policy_file"]).read_text()
        pattern = (tmp_path / ".chalice" / dev["lambda_functions"][name]["iam_policy_file"]).read_text()
        assert policy == pattern.replace("hubbub-dev", f"hubbub-{stage}").replace("/dev/", f"/{stage}/")
    written = (tmp_path / ".chalice" / "config.json").read_text()
    again = command("--stage", stage)
    assert (again.exit_code, again.output.splitlines()[-1]) == (0, f"hubbub-{stage}-resources: no changes")
    assert (tmp_path / ".chalice" / "config.json").read_text() == written
    assert command("--stage", stage, "--no-queue", "--yes").exit_code == 0
    config = json.loads((tmp_path / ".chalice" / "config.json").read_text())
    assert "HUBBUB_QUEUE_URL" not in config["stages"][stage]["environment_variables"]


def test_the_command_makes_the_topic_of_notices_and_records_it(
    command: Command, tmp_path: Path, cloud: Engine, stage: str
) -> None:
    assert command("--stage", stage, "--yes").exit_code == 0
    chalice_config.record_variables(tmp_path, stage, {"HUBBUB_NOTICES": "on"})
    done = command("--stage", stage, "--yes", "--parameter", "NoticeEmail=team@example.org")
    assert done.exit_code == 0, done.output

    def variables() -> dict[str, str]:
        found: dict[str, str] = chalice_config.read(tmp_path)["stages"][stage]["environment_variables"]
        return found

    topic = variables()["HUBBUB_NOTICE_TOPIC"]
    assert topic.endswith(f":hubbub-{stage}-notices")
    [mail] = cloud.client("sns").list_subscriptions_by_topic(TopicArn=topic)["Subscriptions"]
    assert (mail["Protocol"], mail["Endpoint"]) == ("email", "team@example.org")
    chalice_config.record_variables(tmp_path, stage, {"HUBBUB_NOTICES": ""})
    assert command("--stage", stage, "--yes").exit_code == 0
    assert "HUBBUB_NOTICE_TOPIC" not in variables()
    assert topic not in str(cloud.client("sns").list_topics()["Topics"])


def files(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def parameters(clients: Clients) -> list[Any]:
    """Return the parameters in the account."""
    ssm = boto3.client("ssm", endpoint_url=clients.dynamodb.meta.endpoint_url)
    return list(ssm.describe_parameters()["Parameters"])


def test_a_dry_run_shows_and_changes_nothing(command: Command, tmp_path: Path, clients: Clients) -> None:
    before = (tmp_path / ".chalice" / "config.json").read_text()
    done = command("--stage", "dev", "--dry-run")
    assert (done.exit_code, done.output.splitlines()[0]) == (
        0,
        f"hubbub-dev-resources: create: {EVERYTHING}",
    )
    assert cloudformation.find_stack(clients.cloudformation, "hubbub-dev-resources") is None
    assert (tmp_path / ".chalice" / "config.json").read_text() == before
    assert command("--stage", "no-such", "--dry-run").exit_code == 2


def test_a_declined_change_set_changes_nothing(command: Command, clients: Clients) -> None:
    done = command("--stage", "dev", input="n\n")
    assert done.exit_code == 1
    assert cloudformation.find_stack(clients.cloudformation, "hubbub-dev-resources") is None


@pytest.mark.parametrize("name", ["Prod", "a" * 32, "pord.", "-a", "a_b", ""])
def test_a_name_that_no_stage_can_have_is_refused_before_anything_is_written(
    command: Command, tmp_path: Path, name: str
) -> None:
    before = files(tmp_path)
    assert command("--stage", name, "--yes").exit_code == 1
    assert files(tmp_path) == before


def test_a_mistyped_stage_is_not_written_unless_it_is_confirmed(command: Command, tmp_path: Path) -> None:
    before = files(tmp_path)
    done = command("--stage", "pord", input="n\n")
    assert "There is no stage pord. Create it as a copy of dev?" in done.output
    assert (done.exit_code, files(tmp_path)) == (1, before)


def test_without_valid_credentials_nothing_is_written(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = files(tmp_path)
    monkeypatch.setenv("HUBBUB_ENDPOINT", "http://127.0.0.1:1")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    for stage in ("pord", "dev"):
        assert command("--stage", stage, "--yes").exit_code == 1
        assert files(tmp_path) == before


@pytest.mark.parametrize("place", ["eu-central-1:000000000000", "us-east-1:123456789012"])
def test_a_stage_is_refused_in_another_region_and_account(
    command: Command, tmp_path: Path, clients: Clients, place: str
) -> None:
    """The recorded ARN of the table's stream has both: Service Authorization Reference, DynamoDB."""
    arn = f"arn:aws:dynamodb:{place}:table/hubbub-dev/stream/2026-01-01T00:00:00.000"
    chalice_config.record_variables(tmp_path, "dev", {"HUBBUB_STREAM_ARN": arn})
    before, secrets = files(tmp_path), parameters(clients)
    done = command("--stage", "dev", "--yes")
    assert done.exit_code == 1
    assert place.split(":")[0] in done.output or place.split(":")[1] in done.output
    assert "nothing changed" in done.output
    assert (files(tmp_path), parameters(clients)) == (before, secrets)
    assert cloudformation.find_stack(clients.cloudformation, "hubbub-dev-resources") is None


def client_elsewhere(cloud: Engine) -> Any:
    keys: Any = {"aws_access_key_id": "local", "aws_secret_access_key": "local"}
    return boto3.client("dynamodb", endpoint_url=cloud.endpoint, region_name="eu-west-1", **keys)


CHANGES = (
    ("provision", "--yes"),
    ("provision", "--dry-run"),
    ("provision", "--only-secret"),
    ("deploy", "--yes"),
    ("restore", "--to", "2026-11-25T12:00:00Z", "--yes"),
    ("destroy", "--yes"),
)


@pytest.mark.parametrize(
    ("table", "commands"),
    [("hubbub-dev", CHANGES), ("hubbub-dev-restored", CHANGES[:1])],
    ids=["named", "restored"],
)
def test_a_stage_of_another_region_is_refused_by_a_clone_without_its_record(
    project: Path, cloud: Engine, clients: Clients, table: str, commands: tuple[tuple[str, ...], ...]
) -> None:
    """The roles of a stage are global, so a second region would share them: IAM User Guide, "Regions"."""
    if table != "hubbub-dev":
        chalice_config.record_variables(project, "dev", {"HUBBUB_TABLE": table})
    elsewhere = client_elsewhere(cloud)
    create_table(elsewhere, "dev", table)
    try:
        before, secrets = files(project), parameters(clients)
        for arguments in commands:
            done = CliRunner().invoke(main, [*arguments, "--stage", "dev"])
            assert done.exit_code == 1, done.output
            [line] = done.output.splitlines()
            assert "dev is in eu-west-1" in line
            assert "this session in us-east-1; nothing changed" in line
            assert (files(project), parameters(clients)) == (before, secrets)
            assert cloudformation.find_stack(clients.cloudformation, "hubbub-dev-resources") is None
    finally:
        elsewhere.delete_table(TableName=table)


def test_a_stage_of_another_region_is_not_packaged(project: Path) -> None:
    arn = "arn:aws:dynamodb:eu-west-1:000000000000:table/hubbub-dev/stream/2026-01-01T00:00:00.000"
    chalice_config.record_variables(project, "dev", {"HUBBUB_STREAM_ARN": arn})
    before = files(project)
    done = CliRunner().invoke(main, ["package", "--stage", "dev", str(project / "out")])
    assert (done.exit_code, "dev is in eu-west-1" in done.output) == (1, True)
    assert files(project) == before


def test_a_table_of_this_region_outweighs_that_of_another(
    command: Command, cloud: Engine, clients: Clients, stage: str
) -> None:
    elsewhere = client_elsewhere(cloud)
    provision(clients, stage, {}, lambda *_: True)
    create_table(elsewhere, stage)
    assert command("--stage", stage, "--yes").exit_code == 0


def test_the_local_stage_is_not_deployed(command: Command) -> None:
    done = command("--stage", "local")
    assert (done.exit_code, "make run" in done.output) == (1, True)


@mock_aws
def test_the_secret_is_made_once_and_never_printed() -> None:
    ask = ["provision", "--stage", "dev", "--only-secret"]
    first = CliRunner().invoke(main, ask)
    assert (first.exit_code, first.output) == (0, f"{NAME}: created\n")
    kept = boto3.client("ssm").get_parameter(Name=NAME, WithDecryption=True)["Parameter"]
    assert (len(kept["Value"]), kept["Type"]) == (64, "SecureString")
    again = CliRunner().invoke(main, ask)
    assert (again.exit_code, again.output) == (0, f"{NAME}: exists, unchanged\n")
    assert (
        boto3.client("ssm").get_parameter(Name=NAME, WithDecryption=True)["Parameter"]["Value"]
        == kept["Value"]
    )
    assert auth.read_secret(Settings(stage="dev", secret_parameter=NAME)) == kept["Value"].encode()
