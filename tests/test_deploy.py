"""What a deployment does around Chalice: records, addresses, logs, and checks from outside."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import boto3
import click
import pytest
from botocore.exceptions import ClientError
from moto import mock_aws

from chalicelib.settings import Settings
from local.engine import ROOT
from ops import deploy, smoke
from ops.deploy import Urls
from tests.running import free_ports

RECORD = {
    "resources": [
        {"name": "apply", "resource_type": "lambda_function", "lambda_arn": "arn:aws:lambda:x:0:function:f"},
        {"name": "apply-dynamodb-event-source", "resource_type": "dynamodb_event", "event_uuid": "one"},
        {"name": "write_views-sqs-event-source", "resource_type": "sqs_event", "event_uuid": "two"},
        {
            "name": "rest_api",
            "resource_type": "rest_api",
            "rest_api_id": "abc",
            "rest_api_url": "https://abc.execute-api.eu-central-1.amazonaws.com/api/",
        },
        {
            "name": "websocket_api",
            "resource_type": "websocket_api",
            "websocket_api_id": "def",
            "websocket_api_url": "wss://def.execute-api.eu-central-1.amazonaws.com/api/",
        },
    ],
    "schema_version": "2.0",
    "backend": "api",
}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / ".chalice" / "deployed").mkdir(parents=True)
    shutil.copy(ROOT / ".chalice" / "config.json", tmp_path / ".chalice")
    return tmp_path


@pytest.fixture
def deployed(project: Path) -> Path:
    deploy.record_of(project, "dev").write_text(json.dumps(RECORD))
    return project


def test_a_stage_answers_where_chalice_has_deployed_it(deployed: Path) -> None:
    assert deploy.urls(deployed, "dev") == Urls(
        "https://abc.execute-api.eu-central-1.amazonaws.com/api",
        "wss://def.execute-api.eu-central-1.amazonaws.com/api",
    )


def test_on_an_engine_it_answers_under_the_engines_paths(deployed: Path) -> None:
    assert deploy.urls(deployed, "dev", "http://127.0.0.1:4566/") == Urls(
        "http://127.0.0.1:4566/_aws/execute-api/abc/api", "ws://127.0.0.1:4566/_aws/execute-api/def/api"
    )


def test_a_stage_that_was_never_deployed_has_no_address(project: Path) -> None:
    with pytest.raises(click.ClickException, match="dev is not deployed from here"):
        deploy.urls(project, "dev")


def test_chalice_forgets_the_mapping_that_was_deleted_and_nothing_else(deployed: Path) -> None:
    deploy.forget(deployed, "dev", "one")
    left = [one["name"] for one in deploy.deployed(deployed, "dev")]
    assert left == ["apply", "write_views-sqs-event-source", "rest_api", "websocket_api"]
    record = json.loads(deploy.record_of(deployed, "dev").read_text())
    assert {key: record[key] for key in ("schema_version", "backend")} == {
        "schema_version": "2.0",
        "backend": "api",
    }


def test_the_functions_have_the_names_that_chalice_gives_them(project: Path) -> None:
    names = deploy.functions(project, "dev")
    assert {"hubbub-dev", "hubbub-dev-apply", "hubbub-dev-write_views"} <= set(names)
    assert "hubbub-dev-api_handler" not in names


class Lambda:
    """Answers for functions that are there, as Lambda does."""

    class exceptions:  # noqa: N801 (boto3's name)
        class ResourceNotFoundException(Exception):
            pass

    def __init__(self, *names: str) -> None:
        self._names = names

    def get_function_configuration(self, *, FunctionName: str) -> dict[str, Any]:  # noqa: N803
        if FunctionName not in self._names:
            raise self.exceptions.ResourceNotFoundException
        return {}


def test_a_stage_that_was_deployed_from_elsewhere_is_left_alone(project: Path) -> None:
    deploy.check_record(Lambda(), project, "dev")
    with pytest.raises(click.ClickException, match=r"hubbub-dev-sweep is deployed, and not from here"):
        deploy.check_record(Lambda("hubbub-dev-sweep"), project, "dev")
    deploy.record_of(project, "dev").write_text(json.dumps(RECORD))
    deploy.check_record(Lambda("hubbub-dev-sweep"), project, "dev")


@mock_aws
def test_every_functions_logs_expire_whether_it_has_any_yet_or_not() -> None:
    logs = boto3.client("logs")
    logs.create_log_group(logGroupName="/aws/lambda/hubbub-dev")
    logs.create_log_group(logGroupName="/aws/lambda/hubbub-dev-other")
    names = ["hubbub-dev", "hubbub-dev-apply"]
    assert list(deploy.keep_logs(logs, names, 30)) == names
    assert list(deploy.keep_logs(logs, names, 30)) == []
    assert list(deploy.keep_logs(logs, names, 7)) == names
    groups = {
        one["logGroupName"]: one.get("retentionInDays") for one in logs.describe_log_groups()["logGroups"]
    }
    assert groups == {
        "/aws/lambda/hubbub-dev": 7,
        "/aws/lambda/hubbub-dev-apply": 7,
        "/aws/lambda/hubbub-dev-other": None,
    }


@mock_aws
def test_deleting_the_data_takes_what_is_named_and_again_is_no_harm() -> None:
    client: Any = boto3.client
    dynamodb, sqs, logs = client("dynamodb"), client("sqs"), client("logs")
    for name in ("hubbub-dev", "hubbub-dev-eu"):
        dynamodb.create_table(
            TableName=name,
            KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}],
            AttributeDefinitions=[{"AttributeName": "pk", "AttributeType": "S"}],
            BillingMode="PAY_PER_REQUEST",
            DeletionProtectionEnabled=True,
        )
        sqs.create_queue(QueueName=f"{name}-views-dead")
        logs.create_log_group(logGroupName=f"/aws/lambda/{name}")
    for _ in range(2):
        deploy.delete_data(
            client, "hubbub-dev", ["hubbub-dev-views-dead"], "/hubbub/dev/secret", ["hubbub-dev"]
        )
    assert dynamodb.list_tables()["TableNames"] == ["hubbub-dev-eu"]
    assert [url.rpartition("/")[2] for url in sqs.list_queues()["QueueUrls"]] == ["hubbub-dev-eu-views-dead"]
    assert [one["logGroupName"] for one in logs.describe_log_groups()["logGroups"]] == [
        "/aws/lambda/hubbub-dev-eu"
    ]
    with pytest.raises(ClientError):
        sqs.get_queue_url(QueueName="hubbub-dev-views-dead")


def test_a_stage_that_does_not_answer_fails_every_check_and_names_it() -> None:
    [port] = free_ports(1)
    urls = Urls(f"http://127.0.0.1:{port}/api", f"ws://127.0.0.1:{port}/api")
    settings = Settings(stage="dev", sites=frozenset({"example.org"}))
    checks = list(smoke.run(urls, settings, lambda: "token"))
    assert [check.is_well for check in checks] == [False] * 4
    assert all("refused" in check.said for check in checks)


def test_without_a_site_no_view_can_be_checked_and_that_is_said() -> None:
    [port] = free_ports(1)
    urls = Urls(f"http://127.0.0.1:{port}/api", f"ws://127.0.0.1:{port}/api")
    checks = {check.name: check for check in smoke.run(urls, Settings(stage="dev"), lambda: "token")}
    assert checks["a view is counted"].is_well is None
    assert "HUBBUB_SITES is empty" in checks["a view is counted"].said
