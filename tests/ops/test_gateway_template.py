"""The packaged template is valid and has the contract's errors and limits."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from zipfile import ZipFile

import click
import pytest
import yaml
from chalice.app import AuthResponse, Chalice
from click.testing import CliRunner
from samtranslator.translator.transform import transform

from chalicelib import errors
from local.rest import Rest
from ops.aws import bundle, chalice_config, deploy
from ops.aws import package as packages
from ops.aws.template import function_name, read_template
from ops.cli.main import main

ROOT = Path(__file__).parents[2]
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


def copied(project: Path, **variables: str) -> Path:
    """Copy the project without libraries and pages, and change variables of the stage dev."""
    shutil.copy(ROOT / "app.py", project)
    for folder in ("chalicelib", ".chalice"):
        shutil.copytree(
            ROOT / folder, project / folder, ignore=shutil.ignore_patterns("deployments", "deployed")
        )
    (project / "requirements.txt").touch()
    shutil.copytree(ROOT / "web", project / "web")
    file = project / ".chalice" / "config.json"
    config = json.loads(file.read_text())
    config["stages"]["dev"]["environment_variables"] |= variables
    file.write_text(json.dumps(config))
    return project


@pytest.fixture(scope="session")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copied(tmp_path_factory.mktemp("project"))


@pytest.fixture(scope="session")
def package(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Package the dev stage as one stack."""
    out = tmp_path_factory.mktemp("package")
    packages.package(checkout, "dev", out)
    return out / "sam.yaml"


def translate(package: Path) -> dict[str, Any]:
    """Return the resources that SAM's own translator creates from a template."""
    template = yaml.safe_load(package.read_text())
    for resource in template["Resources"].values():
        if resource["Type"] == "AWS::Serverless::Function":
            resource["Properties"]["CodeUri"] = "s3://bucket/key"  # as `aws cloudformation package` writes it
    loader = SimpleNamespace(load=dict)  # of managed policies: the template names none
    return dict(transform(template, {}, loader)["Resources"])


@pytest.fixture(scope="session")
def resources(package: Path) -> dict[str, Any]:
    return translate(package)


def select(resources: dict[str, Any], kind: str) -> dict[str, Any]:
    return {name: resource for name, resource in resources.items() if resource["Type"] == kind}


@pytest.fixture(scope="session")
def template(package: Path) -> Any:
    return yaml.safe_load(package.read_text())


@pytest.fixture(scope="session")
def queued(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Package a stage with a queue."""
    out = tmp_path_factory.mktemp("queued")
    packages.package(copied(tmp_path_factory.mktemp("project"), HUBBUB_QUEUE="on"), "dev", out)
    return yaml.safe_load((out / "sam.yaml").read_text())


@pytest.fixture(scope="session")
def responses(template: Any) -> Any:
    return template["Resources"]["RestAPI"]["Properties"]["GatewayResponses"]


def test_the_package_and_the_tables_template_are_valid(package: Path) -> None:
    sent = package.with_name("resources.json")
    sent.write_text(json.dumps(read_template(chalice_config.list_functions(ROOT, "dev"))))
    run(sys.executable, "-c", "from cfnlint.runner import main; main()", str(package), str(sent), cwd=ROOT)


def test_every_answer_of_api_gateway_has_the_contracts_shape_code_and_status(responses: Any) -> None:
    statuses = {
        name: error.STATUS_CODE for name, error in vars(errors).items() if hasattr(error, "STATUS_CODE")
    }
    assert {"DEFAULT_4XX", "DEFAULT_5XX"} <= set(responses) <= TYPES
    for kind, response in responses.items():
        assert set(response["ResponseTemplates"]) == {"application/json"}
        text = response["ResponseTemplates"]["application/json"]
        body = json.loads(text.replace("$context.error.messageString", '"said by API Gateway"'))
        assert list(body) == ["code", "message"]
        if kind == "DEFAULT_4XX":  # keeps the status of what it stands for
            assert (body["code"], response.get("StatusCode")) == ("BadRequest", None)
        else:
            assert response["StatusCode"] == (statuses | PLATFORM)[body["code"]], kind


def test_every_answer_of_api_gateway_may_be_read_by_the_site_and_names_its_request(responses: Any) -> None:
    for kind, response in responses.items():
        headers = response["ResponseParameters"]["Headers"]
        assert headers["Access-Control-Allow-Origin"] == "'*'"
        assert headers["X-Request-Id"] == "context.requestId"
        waits = response.get("StatusCode") in (429, 503)
        assert headers.get("Retry-After", "").strip("'").isdecimal() == waits, kind


def test_api_gateways_responses_expose_the_same_headers_as_the_apps(template: Any, responses: Any) -> None:
    paths = template["Resources"]["RestAPI"]["Properties"]["DefinitionBody"]["paths"]
    preflight = paths["/views"]["options"]["x-amazon-apigateway-integration"]["responses"]["default"]
    exposed = preflight["responseParameters"]["method.response.header.Access-Control-Expose-Headers"]
    for response in responses.values():
        assert response["ResponseParameters"]["Headers"]["Access-Control-Expose-Headers"] == exposed


def limit(name: str) -> dict[str, Any]:
    """Return a limit in the template: that of a parameter, or by the size of the stage."""
    by_size = {"Fn::FindInMap": ["Sizes", {"Ref": "Size"}, name]}
    return {"Fn::If": [f"Own{name}", {"Ref": name}, by_size]}


def test_the_stages_are_throttled_by_size_or_by_parameters(template: Any) -> None:
    resources = template["Resources"]
    [setting] = resources["RestAPI"]["Properties"]["MethodSettings"]
    assert (setting["HttpMethod"], setting["ResourcePath"]) == ("*", "/*")
    sockets = resources["WebsocketAPIStage"]["Properties"]["DefaultRouteSettings"]
    assert setting["ThrottlingRateLimit"] == limit("RequestRate")
    assert setting["ThrottlingBurstLimit"] == limit("RequestBurst")
    assert sockets == {
        "ThrottlingRateLimit": limit("FrameRate"),
        "ThrottlingBurstLimit": limit("FrameRate"),
    }
    assert template["Parameters"]["Size"]["Default"] == "small"
    assert template["Mappings"]["Sizes"] == {
        "small": {"RequestRate": 20, "RequestBurst": 40, "FrameRate": 50},
        "full": {"RequestRate": 1000, "RequestBurst": 2000, "FrameRate": 1000},
    }


def test_each_api_has_one_stage_and_its_limits_apply_to_it(resources: dict[str, Any]) -> None:
    """SAM makes a second public stage named Stage, without limits, for an API without `OpenApiVersion`.

    Source: AWS SAM Developer Guide, AWS::Serverless::Api, OpenApiVersion. A deployment with a StageName makes
    such a stage: CloudFormation's reference, AWS::ApiGateway::Deployment.
    """
    [(name, stage)] = select(resources, "AWS::ApiGateway::Stage").items()
    [(deployment, made)] = select(resources, "AWS::ApiGateway::Deployment").items()
    assert stage["Properties"]["StageName"] == "api"
    assert "StageName" not in made["Properties"]
    assert stage["Properties"]["DeploymentId"] == {"Ref": deployment}
    [setting] = stage["Properties"]["MethodSettings"]
    assert setting["ThrottlingRateLimit"] == limit("RequestRate")
    [socket_stage] = select(resources, "AWS::ApiGatewayV2::Stage").values()
    assert socket_stage["Properties"]["DefaultRouteSettings"]["ThrottlingRateLimit"] == limit("FrameRate")
    [waf] = select(resources, "AWS::WAFv2::WebACLAssociation").values()
    assert waf["Properties"]["ResourceArn"]["Fn::Sub"].endswith(f"/restapis/${{RestAPI}}/stages/${{{name}}}")
    assert waf["Properties"]["WebACLArn"] == {"Fn::GetAtt": ["AddressLimits", "Arn"]}
    assert list(select(resources, "AWS::WAFv2::WebACL")) == ["AddressLimits"]


def test_the_rest_api_is_regional(resources: dict[str, Any]) -> None:
    [api] = select(resources, "AWS::ApiGateway::RestApi").values()
    assert api["Properties"]["EndpointConfiguration"] == {"Types": ["REGIONAL"]}


@pytest.mark.long
def test_a_stage_follows_a_change_of_its_origins(
    tmp_path: Path, package: Path, resources: dict[str, Any]
) -> None:
    """A stage serves a snapshot, so a new origin needs a new deployment."""
    origins = ("https://www.example.org", "https://www.example.org,https://example.net")
    found = {"": next(iter(select(resources, "AWS::ApiGateway::Deployment")))}
    for number, value in enumerate(origins):
        (tmp_path / f"{number}").mkdir()
        project = copied(tmp_path / f"{number}", HUBBUB_ORIGINS=value)
        packages.package(project, "dev", tmp_path / f"out{number}")
        other = translate(tmp_path / f"out{number}" / "sam.yaml")
        [found[value]] = select(other, "AWS::ApiGateway::Deployment")
        [api] = select(other, "AWS::ApiGateway::RestApi").values()
        answers = api["Properties"]["Body"]["x-amazon-apigateway-gateway-responses"]
        header = "gatewayresponse.header.Access-Control-Allow-Origin"
        allowed = {answer["responseParameters"][header] for answer in answers.values()}
        assert allowed == {
            f"'{value}'" if "," not in value else "'*'"
        }  # a constant: API Gateway has no choice
    assert found[""] == next(iter(select(translate(package), "AWS::ApiGateway::Deployment")))
    assert found[""] != found[origins[0]]
    assert found[""] == found[origins[1]], "the definition is the same, so nothing is deployed again"


def test_the_deployed_definition_depends_on_no_parameter(template: Any, resources: dict[str, Any]) -> None:
    """A parameter that is changed later makes no new deployment, so none may be in the API's definition."""
    [api] = select(resources, "AWS::ApiGateway::RestApi").values()
    text = json.dumps(api["Properties"])
    used = set(re.findall(r"\$\{(\w+)\}", text)) | set(re.findall(r'"Ref": "(\w+)"', text))
    assert not used & set(template["Parameters"])
    body = api["Properties"]["Body"]
    assert body["x-amazon-apigateway-minimum-compression-size"] == 1400  # … and neither beside it


def test_the_addresses_of_a_full_stage_are_limited_unless_that_is_switched_off(template: Any) -> None:
    assert template["Parameters"]["AddressLimit"]["Default"] == 3000
    condition = "LimitsAddresses"
    switched_off = {"Fn::Not": [{"Fn::Equals": [{"Ref": "AddressLimit"}, 0]}]}
    assert template["Conditions"][condition] == {"Fn::And": [{"Condition": "Full"}, switched_off]}
    waf = {
        n: resource
        for n, resource in template["Resources"].items()
        if resource["Type"].startswith("AWS::WAFv2::")
    }
    assert {resource["Type"] for resource in waf.values()} == {
        "AWS::WAFv2::WebACL",
        "AWS::WAFv2::WebACLAssociation",
    }
    assert all(resource["Condition"] == condition for resource in waf.values())
    [rule] = waf["AddressLimits"]["Properties"]["Rules"]
    limit = rule["Statement"]["RateBasedStatement"]
    assert (limit["AggregateKeyType"], limit["Limit"]) == ("IP", {"Ref": "AddressLimit"})


INLINE, STORED = 51_200, 1_048_576
"""Bytes of a template in a request, and in S3: AWS CloudFormation User Guide, quotas, template body size."""
SENDS = {"deploy", "create-stack", "update-stack", "create-change-set", "validate-template"}


def sent(text: str) -> list[list[str]]:
    """Find the calls of `aws cloudformation` that send a template, each as its arguments."""
    found = re.findall(r"aws cloudformation ([^\n`]*)", text.replace("\\\n", " "))
    calls = [shlex.split(re.sub(r"\$\{\{.*?\}\}", "value", resource), comments=True) for resource in found]
    return [call for call in calls if call and call[0] in SENDS and "--use-previous-template" not in call]


@pytest.mark.parametrize(
    "document",
    [ROOT / "docs" / "deployment.md", *(ROOT / ".github" / "workflows").iterdir()],
    ids=lambda path: path.name,
)
def test_a_template_that_is_too_large_for_a_request_is_sent_by_s3(document: Path, package: Path) -> None:
    size = {"out/sam.yaml": package.stat().st_size, "out/packaged.yaml": package.stat().st_size}
    for call in (calls := sent(document.read_text())):
        options = {name.partition("=")[0] for name in call if name.startswith("--")}
        name = call[call.index("--template-file") + 1] if "--template-file" in call else call[-1]
        bytes_ = size.get(name) or (ROOT / name.removeprefix("file://")).stat().st_size
        assert bytes_ < STORED
        assert bytes_ < INLINE or {"--s3-bucket", "--template-url"} & options, call
    assert calls or document.name not in ("deploy.yml", "deployment.md")


def test_the_pipelines_template_does_need_s3_and_a_provision_does_not(package: Path) -> None:
    assert INLINE < package.stat().st_size < STORED
    resources = read_template(chalice_config.list_functions(ROOT, "dev"))
    assert len(json.dumps(resources, separators=(",", ":"))) < INLINE  # as ops/aws/cloudformation.py sends it


def test_without_a_region_packaging_fails_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_DEFAULT_REGION", "AWS_REGION", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    done = CliRunner().invoke(main, ["package", "--stage", "dev", str(tmp_path / "out")])
    assert done.exit_code == 1
    assert "AWS_DEFAULT_REGION" in done.output
    assert not (tmp_path / "out").exists()


def test_packaging_that_writes_nothing_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`chalice package` may exit with 0 and write nothing; what an earlier run wrote is not taken for it."""
    (tmp_path / "out").mkdir()
    for name in ("sam.yaml", "deployment.zip"):
        (tmp_path / "out" / name).write_text("old")
    monkeypatch.setattr(deploy, "run_chalice", lambda *_: None)
    monkeypatch.setattr(bundle, "bundle", lambda *_: None)
    with pytest.raises(click.ClickException, match=r"did not write .*sam\.yaml"):
        packages.package(ROOT, "dev", tmp_path / "out")


def test_a_packaged_stack_has_the_same_zip_as_a_deploy(checkout: Path, package: Path) -> None:
    """Both ways bundle: without what is unused, and with bytecode, so that cold starts are the same."""
    zipped = package.with_name("deployment.zip")
    assert zipped.read_bytes() == bundle.bundle(checkout, "dev").read_bytes()
    names = ZipFile(zipped).namelist()
    assert [name for name in names if name.startswith("chalicelib/api/__pycache__/auth.")]


def test_no_message_and_no_record_is_lost_by_its_source(queued: Any) -> None:
    template = queued
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


def test_the_stack_has_everything_of_both_templates_and_is_for_one_stage(template: Any, queued: Any) -> None:
    parts = [
        yaml.safe_load((ROOT / ".chalice" / name).read_text()) for name in ("resources.yaml", "gateway.yaml")
    ]
    for section in ("Conditions", "Resources", "Outputs"):
        names = [name for part in parts for name in part.get(section, ())]
        assert len(names) == len(set(names))
        assert set(names) <= set(queued[section]) | {"Queued", "WatchesWaiting"}
    assert set(parts[0]["Parameters"]) - {"Queue"} == set(template["Parameters"])
    assert {"EndpointURL", "WebsocketConnectEndpointURL"} <= set(template["Outputs"])  # the pipeline's test
    assert template["Parameters"]["Stage"]["Default"] == "dev"
    assert template["Parameters"]["Stage"]["AllowedPattern"] == "^dev$"


def test_a_stage_has_its_queue_only_if_it_is_asked_for(template: Any, queued: Any) -> None:
    """A stack never changes between the two by a parameter, because its functions are packaged for one."""
    assert set(queued["Resources"]) - set(template["Resources"]) == {
        *("WriteViews", "WriteViewsRole", "WriteViewsLogs"),
        *("ViewsQueue", "ViewsDeadLetters", "DeadViewsAlarm", "WaitingViewsAlarm"),
    }
    assert "Queue" not in queued["Parameters"]
    api = queued["Resources"]["APIHandler"]["Properties"]["Environment"]["Variables"]
    assert api["HUBBUB_QUEUE_URL"] == {"Ref": "ViewsQueue"}


def test_every_function_knows_the_size_and_has_a_log_that_expires(template: Any) -> None:
    """A log group that Lambda creates keeps its lines for ever: AWS Lambda Developer Guide, log groups."""
    functions = {
        name: resource["Properties"]
        for name, resource in template["Resources"].items()
        if resource["Type"] == "AWS::Serverless::Function"
    }
    for properties in functions.values():
        assert properties["Environment"]["Variables"]["HUBBUB_SIZE"] == {"Ref": "Size"}
    groups = {
        resource["Properties"]["LogGroupName"]["Fn::Sub"]: resource["Properties"]["RetentionInDays"]
        for resource in template["Resources"].values()
        if resource["Type"] == "AWS::Logs::LogGroup"
    }
    names = {function["FunctionName"]["Fn::Sub"] for function in functions.values()}
    assert groups == {f"/aws/lambda/{name}": {"Ref": "LogDays"} for name in names}
    assert template["Parameters"]["LogDays"]["Default"] == 30


def test_no_role_may_create_a_log_group(package: Path) -> None:
    """So a late invocation of a deleted stage leaves no log behind that never expires."""
    assert "logs:CreateLogGroup" not in package.read_text()


def test_the_functions_have_the_names_that_a_deploy_without_a_stack_gives_them(template: Any) -> None:
    functions = [
        resource
        for resource in template["Resources"].values()
        if resource["Type"] == "AWS::Serverless::Function"
    ]
    names = [
        function["Properties"]["FunctionName"]["Fn::Sub"].replace("${Stage}", "dev") for function in functions
    ]
    own = chalice_config.list_functions(ROOT, "dev")
    assert sorted(names) == sorted(function_name("dev", name) for name in own)


def test_the_local_stand_in_answers_as_api_gateway_will(responses: Any) -> None:
    small = Chalice(app_name="small")

    @small.authorizer()
    def identify(request: Any) -> AuthResponse:
        raise AssertionError("nobody is asked without a token")

    @small.route("/guarded", authorizer=identify)
    def guarded() -> None:
        raise AssertionError("nobody comes here")

    rest = Rest(small, 0)
    rest.start()
    try:
        for path, kind in (("nowhere", "MISSING_AUTHENTICATION_TOKEN"), ("guarded", "UNAUTHORIZED")):
            with pytest.raises(urllib.error.HTTPError) as refused:
                urllib.request.urlopen(f"{rest.url}/{path}", timeout=60)
            meant = json.loads(responses[kind]["ResponseTemplates"]["application/json"])
            answer = json.loads(refused.value.read())
            assert (refused.value.code, answer["code"]) == (responses[kind]["StatusCode"], meant["code"])
    finally:
        rest.stop()
