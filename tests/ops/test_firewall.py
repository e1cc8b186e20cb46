"""The rate limit per address is created with a stage, associated with its API, and can be disabled."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest
from botocore.exceptions import ClientError

from local.engines.engine import Engine
from ops.aws import cloudformation, firewall, provision
from ops.aws.provision import Clients


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


class Waf:
    """A WAF that keeps AWS's rule: a web ACL that is still associated is not deleted.

    Source: AWS WAF API Reference, DeleteWebACL, WAFAssociatedItemException. It knows a new stage late.
    """

    def __init__(self, misses: int) -> None:
        self.misses = misses
        self.of: dict[str, str] = {}

    def get_web_acl_for_resource(self, *, ResourceArn: str) -> Any:  # noqa: N803
        return {"WebACL": {"ARN": self.of[ResourceArn]}} if ResourceArn in self.of else {}

    def associate_web_acl(self, *, WebACLArn: str, ResourceArn: str) -> None:  # noqa: N803
        self.misses -= 1
        if self.misses >= 0:
            raise ClientError({"Error": {"Code": "WAFUnavailableEntityException"}}, "AssociateWebACL")
        self.of[ResourceArn] = WebACLArn

    def list_resources_for_web_acl(self, *, WebACLArn: str, ResourceType: str) -> Any:  # noqa: N803
        assert ResourceType == "API_GATEWAY"  # without it AWS lists load balancers alone
        return {"ResourceArns": [name for name, acl in self.of.items() if acl == WebACLArn]}

    def disassociate_web_acl(self, *, ResourceArn: str) -> None:  # noqa: N803
        del self.of[ResourceArn]


def test_a_stage_that_was_just_made_is_associated_once_waf_knows_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ops.waiting.time.sleep", lambda _: None)
    waf = Waf(misses=3)
    assert firewall.attach(waf, "acl", "stage")
    assert waf.of == {"stage": "acl"}
    waf.of["another"] = "another acl"
    firewall.detach(waf, "acl")
    assert waf.of == {"another": "another acl"}
    firewall.detach(waf, "")
