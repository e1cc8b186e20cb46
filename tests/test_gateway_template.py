"""What `chalice package` writes with the merge template: valid, with the contract's errors and limits."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest
import yaml
from chalice.app import AuthResponse, Chalice

from chalicelib import errors
from local.rest import Rest
from ops import deploy
from ops import package as packages

ROOT = Path(__file__).parents[1]
# What the platform answers and the app never raises: a failure of its own, and a limit of the stage.
PLATFORM = {"InternalError": 500, "SlowDown": 429}
# Every type that API Gateway knows: a template with another one is refused.
TYPES = {
    *("ACCESS_DENIED", "API_CONFIGURATION_ERROR", "AUTHORIZER_CONFIGURATION_ERROR", "AUTHORIZER_FAILURE"),
    *("BAD_REQUEST_BODY", "BAD_REQUEST_PARAMETERS", "DEFAULT_4XX", "DEFAULT_5XX", "EXPIRED_TOKEN"),
    *("INTEGRATION_FAILURE", "INTEGRATION_TIMEOUT", "INVALID_API_KEY", "INVALID_SIGNATURE"),
    *("MISSING_AUTHENTICATION_TOKEN", "QUOTA_EXCEEDED", "REQUEST_TOO_LARGE", "RESOURCE_NOT_FOUND"),
    *("THROTTLED", "UNAUTHORIZED", "UNSUPPORTED_MEDIA_TYPE", "WAF_FILTERED"),
}


def run(*command: str, cwd: Path) -> None:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="session")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Package the dev stage as one stack, without its libraries: they would be fetched."""
    project, out = tmp_path_factory.mktemp("project"), tmp_path_factory.mktemp("package")
    shutil.copy(ROOT / "app.py", project)
    for folder in ("chalicelib", ".chalice"):
        shutil.copytree(
            ROOT / folder, project / folder, ignore=shutil.ignore_patterns("deployments", "deployed")
        )
    (project / "requirements.txt").touch()
    packages.package(project, "dev", out)
    return out / "sam.yaml"


@pytest.fixture(scope="session")
def template(package: Path) -> Any:
    return yaml.safe_load(package.read_text())


@pytest.fixture(scope="session")
def responses(template: Any) -> Any:
    return template["Resources"]["RestAPI"]["Properties"]["GatewayResponses"]


def test_the_package_and_the_tables_template_are_valid(package: Path) -> None:
    for file in (package, ROOT / ".chalice" / "resources.yaml"):
        run(sys.executable, "-c", "from cfnlint.runner import main; main()", str(file), cwd=ROOT)


def test_every_answer_of_api_gateway_has_the_contracts_shape_code_and_status(responses: Any) -> None:
    statuses = {
        name: error.STATUS_CODE for name, error in vars(errors).items() if hasattr(error, "STATUS_CODE")
    }
    assert {"DEFAULT_4XX", "DEFAULT_5XX"} <= set(responses) <= TYPES
    for kind, response in responses.items():
        assert set(response["ResponseTemplates"]) == {"application/json"}
        text = response["ResponseTemplates"]["application/json"]
        body = json.loads(text.replace("$context.error.messageString", '"said by API Gateway"'))
        assert list(body) == ["Code", "Message"]
        if kind == "DEFAULT_4XX":  # keeps the status of what it stands for
            assert (body["Code"], response.get("StatusCode")) == ("BadRequest", None)
        else:
            assert response["StatusCode"] == (statuses | PLATFORM)[body["Code"]], kind


def test_every_answer_of_api_gateway_may_be_read_by_the_site_and_names_its_request(responses: Any) -> None:
    for kind, response in responses.items():
        headers = response["ResponseParameters"]["Headers"]
        assert headers["Access-Control-Allow-Origin"] == {"Fn::Sub": "'${Origin}'"}
        assert headers["X-Request-Id"] == "context.requestId"
        waits = response.get("StatusCode") in (429, 503)
        assert headers.get("Retry-After", "").strip("'").isdecimal() == waits, kind


def test_the_answers_of_api_gateway_expose_what_the_apps_own_expose(template: Any, responses: Any) -> None:
    paths = template["Resources"]["RestAPI"]["Properties"]["DefinitionBody"]["paths"]
    preflight = paths["/views"]["options"]["x-amazon-apigateway-integration"]["responses"]["default"]
    exposed = preflight["responseParameters"]["method.response.header.Access-Control-Expose-Headers"]
    for response in responses.values():
        assert response["ResponseParameters"]["Headers"]["Access-Control-Expose-Headers"] == exposed


def test_the_stages_are_throttled_by_parameters(template: Any) -> None:
    resources, parameters = template["Resources"], template["Parameters"]
    [setting] = resources["RestAPI"]["Properties"]["MethodSettings"]
    assert (setting["HttpMethod"], setting["ResourcePath"]) == ("*", "/*")
    sockets = resources["WebsocketAPIStage"]["Properties"]["DefaultRouteSettings"]
    for limits in (setting, sockets):
        for name in ("ThrottlingRateLimit", "ThrottlingBurstLimit"):
            assert parameters[limits[name]["Ref"]]["Default"] > 0


def test_an_address_is_limited_only_where_it_is_asked_for(template: Any) -> None:
    assert template["Parameters"]["AddressLimit"]["Default"] == 0
    condition = "LimitsAddresses"
    assert template["Conditions"][condition] == {"Fn::Not": [{"Fn::Equals": [{"Ref": "AddressLimit"}, 0]}]}
    waf = {n: one for n, one in template["Resources"].items() if one["Type"].startswith("AWS::WAFv2::")}
    assert {one["Type"] for one in waf.values()} == {"AWS::WAFv2::WebACL", "AWS::WAFv2::WebACLAssociation"}
    assert all(one["Condition"] == condition for one in waf.values())
    [rule] = waf["AddressLimits"]["Properties"]["Rules"]
    limit = rule["Statement"]["RateBasedStatement"]
    assert (limit["AggregateKeyType"], limit["Limit"]) == ("IP", {"Ref": "AddressLimit"})


def test_no_message_and_no_record_is_lost_by_its_source(template: Any) -> None:
    [queue] = template["Resources"]["WriteViews"]["Properties"]["Events"].values()
    assert queue["Properties"]["FunctionResponseTypes"] == ["ReportBatchItemFailures"]
    assert template["Resources"]["WriteViews"]["DependsOn"] == ["ViewsQueue"]
    [stream] = template["Resources"]["Apply"]["Properties"]["Events"].values()
    assert stream["Properties"]["StartingPosition"] == "TRIM_HORIZON"
    assert stream["Properties"]["Stream"] == {"Fn::GetAtt": ["Table", "StreamArn"]}
    [push] = template["Resources"]["Push"]["Properties"]["Events"].values()
    assert push["Properties"]["StartingPosition"] == "LATEST"
    assert push["Properties"]["Stream"] == stream["Properties"]["Stream"]
    # apply answers nothing, so with partial failures switched on Lambda would take it for a failure of none.
    assert "FunctionResponseTypes" not in stream["Properties"]


def test_the_stack_has_everything_of_both_templates_and_is_for_one_stage(template: Any) -> None:
    parts = [yaml.safe_load((ROOT / ".chalice" / name).read_text()) for name in packages.PARTS]
    for section in ("Parameters", "Conditions", "Resources", "Outputs"):
        names = [name for part in parts for name in part.get(section, ())]
        assert len(names) == len(set(names))
        assert set(names) <= set(template[section])
    assert {"EndpointURL", "WebsocketConnectEndpointURL"} <= set(template["Outputs"])  # the pipeline's test
    assert template["Parameters"]["Stage"]["Default"] == "dev"
    assert template["Parameters"]["Stage"]["AllowedPattern"] == "^dev$"


def test_the_functions_have_the_names_that_a_deploy_without_a_stack_gives_them(template: Any) -> None:
    functions = [one for one in template["Resources"].values() if one["Type"] == "AWS::Serverless::Function"]
    names = [one["Properties"]["FunctionName"]["Fn::Sub"].replace("${Stage}", "dev") for one in functions]
    assert sorted(names) == sorted(deploy.functions(ROOT, "dev"))


def test_the_local_stand_in_answers_as_api_gateway_will(responses: Any) -> None:
    one = Chalice(app_name="one")

    @one.authorizer()
    def identify(request: Any) -> AuthResponse:
        raise AssertionError("nobody is asked without a token")

    @one.route("/guarded", authorizer=identify)
    def guarded() -> None:
        raise AssertionError("nobody comes here")

    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    rest = Rest(one, port)
    rest.start()
    try:
        for path, kind in (("nowhere", "MISSING_AUTHENTICATION_TOKEN"), ("guarded", "UNAUTHORIZED")):
            with pytest.raises(urllib.error.HTTPError) as refused:
                urllib.request.urlopen(f"{rest.url}/{path}", timeout=60)
            meant = json.loads(responses[kind]["ResponseTemplates"]["application/json"])
            answer = json.loads(refused.value.read())
            assert (refused.value.code, answer["Code"]) == (responses[kind]["StatusCode"], meant["Code"])
    finally:
        rest.stop()
