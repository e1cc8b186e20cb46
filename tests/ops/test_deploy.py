"""A deployment's steps besides Chalice: record, URLs, logs and smoke test."""

from __future__ import annotations

import json
from pathlib import Path
from threading import Thread
from types import SimpleNamespace
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, make_server

import boto3
import click
import pytest
from botocore.exceptions import ClientError
from botocore.stub import Stubber
from moto import mock_aws

from chalicelib.settings import Settings
from local.ports import free_ports
from ops.aws import deploy, smoke
from ops.aws.deploy import Urls
from ops.aws.record import record_path
from ops.aws.template import create_table
from tests.support.tables import record_calls

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
def deployed(project: Path) -> Path:
    record_path(project, "dev").parent.mkdir()
    record_path(project, "dev").write_text(json.dumps(RECORD))
    return project


def test_a_stage_answers_where_chalice_has_deployed_it(deployed: Path) -> None:
    assert deploy.find_urls(deployed, "dev") == Urls(
        "https://abc.execute-api.eu-central-1.amazonaws.com/api",
        "wss://def.execute-api.eu-central-1.amazonaws.com/api",
    )


def test_a_deployed_rest_api_has_one_stage(deployed: Path) -> None:
    assert deploy.find_rest_stage(deployed, "dev") == ("abc", "api")


def test_on_an_engine_it_answers_under_the_engines_paths(deployed: Path) -> None:
    assert deploy.find_urls(deployed, "dev", "http://127.0.0.1:4566/") == Urls(
        "http://127.0.0.1:4566/_aws/execute-api/abc/api", "ws://127.0.0.1:4566/_aws/execute-api/def/api"
    )


def test_a_stage_that_was_never_deployed_has_no_address(project: Path) -> None:
    with pytest.raises(click.ClickException, match="dev is not deployed: "):
        deploy.find_urls(project, "dev")


def test_a_stage_lets_through_what_its_stack_says(deployed: Path) -> None:
    """The operations and values of Amazon API Gateway's API reference, UpdateStage, of both versions."""
    rest, sockets = boto3.client("apigateway"), boto3.client("apigatewayv2")
    outputs = {"RequestRate": "20", "RequestBurst": "40", "FrameRate": "50"}
    operations = [
        {"op": "replace", "path": "/*/*/throttling/rateLimit", "value": "20"},
        {"op": "replace", "path": "/*/*/throttling/burstLimit", "value": "40"},
    ]
    limits = {"ThrottlingRateLimit": 50, "ThrottlingBurstLimit": 50}
    with Stubber(rest) as stub, Stubber(sockets) as other:
        stub.add_response(
            "update_stage", {}, {"restApiId": "abc", "stageName": "api", "patchOperations": operations}
        )
        other.add_response(
            "update_stage",
            {"StageName": "api"},
            {"ApiId": "def", "StageName": "api", "DefaultRouteSettings": limits},
        )
        clients = {"apigateway": rest, "apigatewayv2": sockets}
        deploy.set_throttling(clients.__getitem__, deployed, "dev", outputs)
        stub.assert_no_pending_responses()
        other.assert_no_pending_responses()


@mock_aws
def test_a_table_without_deletion_protection_is_not_updated_before_it_is_deleted() -> None:
    """DynamoDB refuses some updates that change nothing; each takes the table through UPDATING."""
    dynamodb: Any = boto3.client("dynamodb")
    dynamodb.create_table(
        TableName="hubbub-dev",
        KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "pk", "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
    )
    called = record_calls(dynamodb)
    make: Any = boto3.client
    clients = {"dynamodb": dynamodb}
    deploy.delete_data(lambda name: clients.get(name) or make(name), "hubbub-dev", [], "")
    assert "DeleteTable" in called
    assert "UpdateTable" not in called


@mock_aws
def test_a_table_that_has_its_options_is_not_given_them_again() -> None:
    dynamodb: Any = boto3.client("dynamodb")
    create_table(dynamodb, "dev")
    called = record_calls(dynamodb)
    create_table(dynamodb, "dev")
    assert not [name for name in called if name.startswith("Update")]


@mock_aws
def test_deleting_the_data_deletes_the_named_resources_and_is_idempotent() -> None:
    client: Any = boto3.client
    dynamodb, sqs = client("dynamodb"), client("sqs")
    for name in ("hubbub-dev", "hubbub-dev-eu"):
        dynamodb.create_table(
            TableName=name,
            KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}],
            AttributeDefinitions=[{"AttributeName": "pk", "AttributeType": "S"}],
            BillingMode="PAY_PER_REQUEST",
            DeletionProtectionEnabled=True,
        )
        sqs.create_queue(QueueName=f"{name}-views-dead")
    for _ in range(2):
        deploy.delete_data(client, "hubbub-dev", ["hubbub-dev-views-dead"], "/hubbub/dev/secret")
    assert dynamodb.list_tables()["TableNames"] == ["hubbub-dev-eu"]
    assert [url.rpartition("/")[2] for url in sqs.list_queues()["QueueUrls"]] == ["hubbub-dev-eu-views-dead"]
    with pytest.raises(ClientError):
        sqs.get_queue_url(QueueName="hubbub-dev-views-dead")


def test_a_stage_that_does_not_answer_fails_every_check_and_names_it() -> None:
    [port] = free_ports(1)
    urls = Urls(f"http://127.0.0.1:{port}/api", f"ws://127.0.0.1:{port}/api")
    settings = Settings(stage="dev", sites=frozenset({"example.org"}))
    checks = list(smoke.run_checks(urls, settings, lambda: "token"))
    assert [check.passed for check in checks] == [False] * 4
    assert all("refused" in check.detail for check in checks)


class Fresh:
    """A stage that was just made: it answers 403, then 502, and counts a view after some questions."""

    def __init__(self, waits: int = 3, for_ever: int = 0) -> None:
        self.asked: list[str] = []
        answers = iter([403, 502])
        views = iter([0] * (waits + 1))

        def answer(environ: Any, start: Any) -> list[bytes]:
            path = environ["PATH_INFO"]
            self.asked.append(path)
            status, body = 200, {"stage": "dev", "accepted": 1, "items": []}
            if code := for_ever or next(answers, 0):
                status, body = code, {"message": "Forbidden"}
            elif path.endswith("/quarantine") and "HTTP_AUTHORIZATION" not in environ:
                status = 401
            elif path.endswith("/views") and environ["REQUEST_METHOD"] == "GET":
                body = {"views": next(views, 1)}
            start(f"{status} Status", [("Content-Type", "application/json")])
            return [json.dumps(body).encode()]

        self.server = make_server("127.0.0.1", 0, answer, handler_class=Silent)
        self.thread = Thread(target=self.server.serve_forever)
        self.thread.start()

    def __enter__(self) -> Fresh:
        return self

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()

    def checks(self, monkeypatch: pytest.MonkeyPatch, seconds: float) -> tuple[dict[str, Any], list[str]]:
        """Run the checks with a simulated clock that advances by each pause."""
        [port] = free_ports(1)
        clock: list[float] = [0.0]
        told: list[str] = []

        def sleep(pause: float) -> None:
            clock[0] += pause * 10

        monkeypatch.setattr(smoke, "time", SimpleNamespace(monotonic=lambda: clock[0], sleep=sleep))
        urls = Urls(f"http://127.0.0.1:{self.server.server_port}/api", f"ws://127.0.0.1:{port}/api")
        settings = Settings(stage="dev", sites=frozenset({"example.org"}))
        found = {
            check.name: check
            for check in smoke.run_checks(urls, settings, lambda: "token", told.append, seconds)
        }
        return found, told


class Silent(WSGIRequestHandler):
    def log_message(self, *_: object) -> None:
        """Write nothing."""


def test_the_smoke_test_waits_for_a_new_stage_and_reports_it(monkeypatch: pytest.MonkeyPatch) -> None:
    with Fresh(waits=20) as stage:
        checks, told = stage.checks(monkeypatch, smoke.TIMEOUT)
    for name in ("REST responds", "a view is counted", "an admin token is accepted"):
        assert checks[name].passed, checks[name]
    assert stage.asked[:3] == ["/api/health"] * 3
    waits = [line for line in told if "the stream counts the view" in line]
    assert len(waits) > 5
    assert all("of 300" in line for line in waits)


def test_a_stage_that_stays_forbidden_fails_after_300_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    with Fresh(for_ever=403) as stage:
        checks, told = stage.checks(monkeypatch, smoke.TIMEOUT)
    assert checks["REST responds"].passed is False
    assert checks["REST responds"].detail.endswith("HTTP 403, after 300 s")
    assert len(told) > 10
    assert stage.asked.count("/api/health") > 20
    assert len([path for path in stage.asked if path != "/api/health"]) == 2, "the others are tried once"


@pytest.mark.parametrize(("limit", "warns"), [(10, True), (99, True), (100, False), (1000, False)])
def test_an_account_that_may_run_few_functions_is_warned_of(limit: int, warns: bool) -> None:
    settings = SimpleNamespace(get_account_settings=lambda: {"AccountLimit": {"ConcurrentExecutions": limit}})
    warning = deploy.check_concurrency(settings)
    assert bool(warning) is warns
    assert f"{limit} concurrent executions" in warning or not warns


def test_an_account_that_may_not_read_its_settings_is_not_warned() -> None:
    def refused() -> Any:
        raise ClientError({"Error": {"Code": "AccessDeniedException"}}, "GetAccountSettings")

    assert deploy.check_concurrency(SimpleNamespace(get_account_settings=refused)) == ""


def test_without_a_site_the_view_check_is_skipped() -> None:
    [port] = free_ports(1)
    urls = Urls(f"http://127.0.0.1:{port}/api", f"ws://127.0.0.1:{port}/api")
    checks = {check.name: check for check in smoke.run_checks(urls, Settings(stage="dev"), lambda: "token")}
    assert checks["a view is counted"].passed is None
    assert "HUBBUB_SITES is empty" in checks["a view is counted"].detail
