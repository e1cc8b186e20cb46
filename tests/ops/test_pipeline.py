"""The example pipeline calls existing commands with valid options and stores no key."""

from __future__ import annotations

import json
import re
import shlex
from typing import Any

import click
import pytest
import yaml
from click.testing import CliRunner

from local.engines.engine import ROOT
from ops.aws import deploy, lock
from ops.cli.main import main

WORKFLOW = (ROOT / ".github" / "workflows" / "deploy.yml").read_text()


JOBS: dict[str, Any] = yaml.safe_load(WORKFLOW)["jobs"]


def scripts(*jobs: str) -> list[str]:
    """Return the scripts of jobs, in their order."""
    return [step.get("run", "") for job in jobs for step in JOBS[job]["steps"]]


def commands(text: str) -> list[list[str]]:
    """Find the calls of `python -m ops` in a text, each as its arguments."""
    joined = text.replace("\\\n", " ")
    found = re.findall(
        r"\.venv/bin/python -m ops ([^\n`]*)|^    python -m ops ([^\n`#]*)", joined, re.MULTILINE
    )
    return [shlex.split(re.sub(r'"\$\([^)]*\)"', "https://x", first or second)) for first, second in found]


def test_a_tag_is_deployed_with_a_role_and_no_stored_key() -> None:
    workflow = yaml.safe_load(WORKFLOW)
    assert workflow[True] == {"push": {"tags": ["v*"]}}  # YAML 1.1 reads `on` as true
    [credentials] = [
        step for step in JOBS["deploy"]["steps"] if "configure-aws-credentials" in step.get("uses", "")
    ]
    assert set(credentials["with"]) == {"role-to-assume", "aws-region"}
    assert "secrets." not in WORKFLOW


@pytest.mark.security
def test_only_the_job_that_deploys_may_ask_for_the_role() -> None:
    assert yaml.safe_load(WORKFLOW)["permissions"] == {"contents": "read"}
    asking = {name for name, job in JOBS.items() if "permissions" in job}
    assert asking == {"deploy"}
    assert JOBS["deploy"]["permissions"] == {"contents": "read", "id-token": "write"}


@pytest.mark.security
def test_what_is_deployed_is_built_and_deployed_with_locked_tools() -> None:
    """A package without a hash can change neither the artifact nor the stage."""
    locked = {name for name in JOBS if all(map(is_locked, scripts(name)))}
    assert locked == {"build", "deploy"}
    assert {name for name, job in JOBS.items() if "upload-artifact" in str(job)} == {"build"}
    [taken] = [step for step in JOBS["deploy"]["steps"] if "download-artifact" in step.get("uses", "")]
    assert taken["with"] == {"artifact-ids": "${{ needs.build.outputs.artifact }}", "path": "out"}
    for name in locked:
        assert "cache" not in str(JOBS[name]["steps"]), "a cache is shared with other workflows"


def is_locked(script: str) -> bool:
    """Return whether a script installs nothing, or only wheels whose hashes are in a lock of this tree."""
    installs = [line for line in script.replace("\\\n", " ").splitlines() if re.search("install|setup", line)]
    options = {"--require-hashes", "--no-deps", "--only-binary=:all:", lock.DEPLOYING.lock}
    return all(options <= set(line.split()) for line in installs)


@pytest.mark.security
def test_the_role_of_the_document_trusts_exactly_the_job_that_deploys() -> None:
    """A job with an environment has that in `sub`, not its tag. Source: GitHub, OpenID Connect reference."""
    text = (ROOT / "docs" / "deployment.md").read_text()
    blocks = [json.loads(block) for block in re.findall(r"```json\n(.*?)```", text, re.DOTALL)]
    [policy] = [block for block in blocks if "Statement" in block]
    [statement] = policy["Statement"]
    prefix = "token.actions.githubusercontent.com"
    assert statement["Principal"]["Federated"].endswith(f":oidc-provider/{prefix}")
    environment = JOBS["deploy"]["environment"]
    assert statement["Condition"] == {
        "StringEquals": {
            f"{prefix}:aud": "sts.amazonaws.com",
            f"{prefix}:sub": f"repo:OWNER/REPOSITORY:environment:{environment}",
        }
    }


SERVICES = {
    "AWS::ApiGateway": "apigateway",
    "AWS::ApiGatewayV2": "apigateway",
    "AWS::Budgets": "budgets",
    "AWS::CloudWatch": "cloudwatch",
    "AWS::DynamoDB": "dynamodb",
    "AWS::Events": "events",
    "AWS::IAM": "iam",
    "AWS::Lambda": "lambda",
    "AWS::Logs": "logs",
    "AWS::SNS": "sns",
    "AWS::SQS": "sqs",
    "AWS::Serverless": "lambda",
    "AWS::WAFv2": "wafv2",
}
"""The service prefix of the actions by which CloudFormation handles a resource."""


@pytest.mark.security
def test_the_policy_of_the_role_is_for_the_resources_of_the_stack_alone() -> None:
    """CloudFormation acts with the caller's permissions: CloudFormation User Guide, "Service role"."""
    statements = json.loads((ROOT / ".github" / "deploy-role.json").read_text())["Statement"]
    actions = {action for statement in statements for action in statement["Action"]}
    assert not [action for action in actions if "*" in action]
    parts = [yaml.safe_load((ROOT / ".chalice" / n).read_text()) for n in ("resources.yaml", "gateway.yaml")]
    types = {
        resource["Type"] for part in parts for resource in part["Resources"].values() if "Type" in resource
    }
    types |= {"AWS::Serverless::Function", "AWS::Serverless::Api", "AWS::IAM::Role", "AWS::Events::Rule"}
    types |= {"AWS::Logs::LogGroup", "AWS::ApiGatewayV2::Api"}
    for kind in types:
        assert SERVICES[kind.rpartition("::")[0]] in {action.partition(":")[0] for action in actions}, kind
    for statement in statements:
        if statement["Resource"] == ["*"]:  # a mapping has no name; its function has
            assert "Condition" in statement or statement["Action"] == ["lambda:GetEventSourceMapping"]
        for arn in statement["Resource"]:
            assert statement["Sid"] in ("Apis", "Logs", "Artifacts") or arn == "*" or re.search(OWN, arn), arn


OWN = r"hubbub.prod|:transform/|/restapis/\*/stages/api"


@pytest.mark.security
def test_every_action_is_pinned_by_its_digest() -> None:
    """A tag can be moved to other code, a commit cannot.

    Source: GitHub, Security hardening for GitHub Actions, "Pin actions to a full length commit SHA".
    """
    for file in sorted((ROOT / ".github" / "workflows").iterdir()):
        used = re.findall(r"uses: *(\S+)( *#.*)?$", file.read_text(), re.MULTILINE)
        assert used, file.name
        for action, comment in used:
            assert re.fullmatch(r"[\w.-]+/[\w./-]+@[0-9a-f]{40}", action), (file.name, action)
            assert re.fullmatch(r" # v\d+\.\d+\.\d+", comment), (file.name, action)


def test_the_template_is_linted_before_it_is_deployed() -> None:
    assert JOBS["check"]["needs"] == "build"
    assert JOBS["deploy"]["needs"] == ["build", "check"]
    lines = scripts("build", "check", "deploy")
    place = {word: next(i for i, script in enumerate(lines) if word in script) for word in WORDS}
    assert [place[word] for word in WORDS] == sorted(place.values())


WORDS = ("ops package", "cfn-lint", "--only-secret", "cloudformation deploy", "ops smoke")


def test_every_command_of_the_workflow_can_be_called_so() -> None:
    shown = commands(WORKFLOW)
    assert len(shown) > 1
    context = click.Context(main)
    for name, *arguments in shown:
        command = main.get_command(context, name)
        assert command, name
        command.make_context(name, arguments, parent=context)


def test_a_stage_without_chat_is_tested_without_a_socket(monkeypatch: pytest.MonkeyPatch) -> None:
    """The workflow passes an empty address then, because the stack has no such output."""
    seen: list[Any] = []
    monkeypatch.setattr("ops.cli.deploy._smoke", lambda settings, urls: seen.append(urls))
    call = ["smoke", "--stage", "dev", "--url", "https://x/api/", "--socket-url", ""]
    assert CliRunner().invoke(main, call, env={"HUBBUB_FEATURES": "views"}).exit_code == 0
    assert seen == [deploy.Urls("https://x/api", "")]
    assert CliRunner().invoke(main, call, env={"HUBBUB_FEATURES": ""}).exit_code == 2


def test_the_smoke_test_asks_for_outputs_that_the_stack_has() -> None:
    """Chalice names them; test_gateway_template.py packages the stack."""
    asked = set(re.findall(r"\$\(output (\w+)\)", WORKFLOW))
    assert asked == {"EndpointURL", "WebsocketConnectEndpointURL"}
