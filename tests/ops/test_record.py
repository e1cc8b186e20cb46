"""Chalice's record is rebuilt from what exists, and never takes what belongs to somebody else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
import pytest

from local.engines.engine import Engine
from ops.aws.record import read_record, rebuild_record, record_path
from tests.support.tables import create_function

TAGS = {"aws-chalice": "version=1.34.0:stage=dev:app=hubbub"}
API = {"swagger": "2.0", "info": {"title": "hubbub-dev", "version": "1"}, "paths": {}}


def test_a_stage_without_resources_has_no_record(cloud: Engine, project: Path) -> None:
    record_path(project, "dev").parent.mkdir()
    record_path(project, "dev").write_text(json.dumps({"resources": []}))
    assert not rebuild_record(cloud.client, project, "dev")
    assert not record_path(project, "dev").exists()


@pytest.mark.parametrize(
    ("tags", "why"),
    [
        ({**TAGS, "aws:cloudformation:stack-name": "hubbub-dev"}, "belongs to the stack hubbub-dev"),
        ({}, "belongs to another application"),
        ({"app": "hubbub"}, "belongs to another application"),
    ],
)
def test_a_function_of_somebody_else_is_refused(
    cloud: Engine, project: Path, tags: dict[str, str], why: str
) -> None:
    create_function(cloud, "hubbub-dev-sweep", **tags)
    try:
        with pytest.raises(click.ClickException, match=why):
            rebuild_record(cloud.client, project, "dev")
    finally:
        cloud.client("lambda").delete_function(FunctionName="hubbub-dev-sweep")
    assert not record_path(project, "dev").exists()


def test_an_api_without_a_stage_is_deleted_and_one_with_a_stage_is_recorded(
    cloud: Engine, project: Path
) -> None:
    """Chalice creates the stage of a socket API only together with the API: chalice/deploy/planner.py."""
    rest: Any = cloud.client("apigateway")
    half, whole = (rest.import_rest_api(body=json.dumps(API).encode())["id"] for _ in range(2))
    rest.create_deployment(restApiId=whole, stageName="api")
    sockets = cloud.client("apigatewayv2")
    options = {"ProtocolType": "WEBSOCKET", "RouteSelectionExpression": "$request.body.action"}
    sockets.create_api(Name="hubbub-dev-websocket-api", **options)
    other = sockets.create_api(Name="hubbub-dev2-websocket-api", **options)["ApiId"]
    assert rebuild_record(cloud.client, project, "dev", deletes=False)
    assert {half, whole} == {api["id"] for api in rest.get_rest_apis()["items"]}, "a reader deletes nothing"
    assert len(sockets.get_apis()["Items"]) == 2
    assert rebuild_record(cloud.client, project, "dev")
    [api] = read_record(project, "dev")
    assert api["rest_api_id"] == whole
    assert api["rest_api_url"] == f"https://{whole}.execute-api.us-east-1.amazonaws.com/api/"
    assert half not in [item["id"] for item in rest.get_rest_apis()["items"]]
    assert [item["ApiId"] for item in sockets.get_apis()["Items"]] == [other]
    second = rest.import_rest_api(body=json.dumps(API).encode())["id"]
    rest.create_deployment(restApiId=second, stageName="api")
    with pytest.raises(click.ClickException, match="several APIs are named hubbub-dev"):
        rebuild_record(cloud.client, project, "dev")
    for id in (whole, second):
        rest.delete_rest_api(restApiId=id)


def test_a_domain_name_stays_in_the_record(cloud: Engine, project: Path) -> None:
    create_function(cloud, "hubbub-dev", **TAGS)
    domain = {"name": "api_gateway_custom_domain", "resource_type": "domain_name"}
    record_path(project, "dev").parent.mkdir()
    record_path(project, "dev").write_text(json.dumps({"resources": [domain]}))
    assert rebuild_record(cloud.client, project, "dev")
    names = [resource["name"] for resource in read_record(project, "dev")]
    assert names == ["api_handler", "api_gateway_custom_domain"]
    cloud.client("lambda").delete_function(FunctionName="hubbub-dev")
