"""The rate limit per address is created with a stage, associated with its API, and can be disabled."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any
from unittest import mock
from uuid import uuid4

import click
import pytest
from botocore.exceptions import ClientError
from click.testing import CliRunner, Result

from local.engines.engine import Engine
from ops.aws import cloudformation, firewall, provision
from ops.aws.provision import Clients
from ops.cli.main import main


@pytest.fixture
def stage() -> str:
    return f"t{uuid4().hex[:8]}"


def arrange(clients: Clients, wafv2: Any, stage: str, **parameters: str) -> None:
    """Provision a stage as `ops provision` does: a web ACL that goes is dissociated first."""

    def approve(change: cloudformation.ChangeSet, why: str) -> bool:
        if firewall.removes(change):
            firewall.detach(wafv2, firewall.find_acl(clients.cloudformation, change.stack))
        return True

    provision.provision(clients, stage, {"Size": "full", **parameters}, approve)


def limits(wafv2: Any, resource: str) -> list[int]:
    """Return the limits of the web ACL that a resource has; none when it has none."""
    try:
        found = wafv2.get_web_acl_for_resource(ResourceArn=resource)["WebACL"]
    except wafv2.exceptions.WAFNonexistentItemException:
        return []
    return [int(rule["Statement"]["RateBasedStatement"]["Limit"]) for rule in found["Rules"]]


@pytest.mark.security
def test_a_stage_limits_addresses_unless_that_is_switched_off(
    cloud: Engine, clients: Clients, stage: str
) -> None:
    wafv2 = cloud.client("wafv2")
    arrange(clients, wafv2, stage)
    resource = firewall.stage_arn(wafv2, "abc123", "api")
    assert resource == "arn:aws:apigateway:us-east-1::/restapis/abc123/stages/api"
    acl = firewall.find_acl(clients.cloudformation, provision.stack_name(stage))
    assert limits(wafv2, resource) == []
    assert firewall.attach(wafv2, acl, resource) is True
    assert firewall.attach(wafv2, acl, resource) is False
    assert limits(wafv2, resource) == [3000]
    arrange(clients, wafv2, stage, AddressLimit="500")
    assert limits(wafv2, resource) == [500]
    arrange(clients, wafv2, stage, AddressLimit="0")
    assert limits(wafv2, resource) == []
    assert firewall.find_acl(clients.cloudformation, provision.stack_name(stage)) == ""
    arrange(clients, wafv2, stage)
    assert firewall.find_acl(clients.cloudformation, provision.stack_name(stage)) == "", "it keeps its value"


def test_a_stage_with_an_associated_web_acl_is_deleted_also_after_a_failed_deletion(
    cloud: Engine, clients: Clients, stage: str, project: Path
) -> None:
    environment = {"HUBBUB_ENDPOINT": cloud.endpoint, "HUBBUB_TABLE": f"hubbub-{stage}", "HUBBUB_QUEUE": ""}
    wafv2, name = cloud.client("wafv2"), provision.stack_name(stage)

    def run(*arguments: str) -> Result:
        with mock.patch.dict(os.environ, environment):
            return CliRunner().invoke(main, [*arguments, "--stage", stage, "--yes"])

    for fails in (False, True):
        done = run("provision", "--parameter", "Size=full")
        assert done.exit_code == 0, done.output
        acl = firewall.find_acl(clients.cloudformation, name)
        firewall.attach(wafv2, acl, firewall.stage_arn(wafv2, "abc123", "api"))
        if fails:  # as with `aws cloudformation delete-stack`
            with pytest.raises(click.ClickException, match="DELETE_FAILED"):
                cloudformation.delete(clients.cloudformation, name)
            assert "make destroy" in run("provision").output
        done = run("destroy")
        assert done.exit_code == 0, done.output
        assert cloudformation.find_stack(clients.cloudformation, name) is None
        assert not limits(wafv2, firewall.stage_arn(wafv2, "abc123", "api"))


class Waf:
    """A WAF that keeps AWS's rule: a web ACL that is still associated is not deleted.

    Source: AWS WAF API Reference, DeleteWebACL, WAFAssociatedItemException. It knows a new stage late.
    """

    def __init__(self, misses: int) -> None:
        self.misses = misses
        self.acls: dict[str, str] = {}

    def get_web_acl_for_resource(self, *, ResourceArn: str) -> Any:  # noqa: N803
        return {"WebACL": {"ARN": self.acls[ResourceArn]}} if ResourceArn in self.acls else {}

    def associate_web_acl(self, *, WebACLArn: str, ResourceArn: str) -> None:  # noqa: N803
        self.misses -= 1
        if self.misses >= 0:
            raise ClientError({"Error": {"Code": "WAFUnavailableEntityException"}}, "AssociateWebACL")
        self.acls[ResourceArn] = WebACLArn

    def list_resources_for_web_acl(self, *, WebACLArn: str, ResourceType: str) -> Any:  # noqa: N803
        assert ResourceType == "API_GATEWAY"  # without it AWS lists load balancers alone
        return {"ResourceArns": [name for name, acl in self.acls.items() if acl == WebACLArn]}

    def disassociate_web_acl(self, *, ResourceArn: str) -> None:  # noqa: N803
        del self.acls[ResourceArn]


def test_a_stage_that_was_just_made_is_associated_once_waf_knows_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ops.waiting.time.sleep", lambda _: None)
    waf = Waf(misses=3)
    assert firewall.attach(waf, "acl", "stage")
    assert waf.acls == {"stage": "acl"}
    waf.acls["another"] = "another acl"
    firewall.detach(waf, "acl")
    assert waf.acls == {"another": "another acl"}
    firewall.detach(waf, "")
