"""Associate the WAF web ACL that limits requests per address with the REST API.

`.chalice/resources.yaml` creates the web ACL. The stack of `ops package` associates it with its API, and `ops
deploy` uses this module to associate it with the API that Chalice has created. WAF refuses to delete an
associated web ACL, so it is dissociated first.

AWS WAF inspects REST APIs but not WebSocket APIs. Source: AWS WAF Developer Guide, resources that can be
protected.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from ops.aws import cloudformation
from ops.waiting import wait_until

if TYPE_CHECKING:
    from mypy_boto3_cloudformation import CloudFormationClient

KIND = "AWS::WAFv2::WebACL"
TIMEOUT = 120.0  # seconds until a new web ACL or a new stage can be associated
UNKNOWN = "WAFNonexistentItemException"
NOT_YET = {UNKNOWN, "WAFUnavailableEntityException"}
"""The errors of WAF for a web ACL or a resource that was just created."""


def find_acl(client: CloudFormationClient, stack: str) -> str:
    """Return the ARN of a stack's web ACL; empty if the limit is disabled or the stack does not exist."""
    return cloudformation.read_outputs(client, stack).get("AddressLimitsArn", "")


def removes(change: cloudformation.ChangeSet) -> bool:
    """Return whether a change set deletes the web ACL."""
    return any(changed.kind == KIND and changed.action == "Remove" for changed in change.changes)


def stage_arn(wafv2: Any, api: str, stage: str) -> str:
    """Return the ARN of a REST API's stage, in the form that WAF accepts."""
    region, partition = wafv2.meta.region_name, wafv2.meta.partition
    return f"arn:{partition}:apigateway:{region}::/restapis/{api}/stages/{stage}"


def attach(wafv2: Any, acl: str, resource: str) -> bool:
    """Associate a web ACL with a resource; return False if it was associated before.

    Raises: ClickException when WAF does not know one of them within two minutes.
    """
    if _find_association(wafv2, resource) == acl:
        return False

    def is_done() -> bool:
        try:
            wafv2.associate_web_acl(WebACLArn=acl, ResourceArn=resource)
        except ClientError as error:
            if error.response["Error"]["Code"] not in NOT_YET:
                raise
            return False
        return True

    return wait_until(is_done, f"WAF to know {resource}", TIMEOUT, 2.0)


def detach(wafv2: Any, acl: str) -> None:
    """Dissociate a web ACL from every REST API, so that it can be deleted. Idempotent."""
    if not acl:
        return
    try:
        found = wafv2.list_resources_for_web_acl(WebACLArn=acl, ResourceType="API_GATEWAY")["ResourceArns"]
    except ClientError as error:
        if error.response["Error"]["Code"] != UNKNOWN:
            raise
        return
    for resource in found:
        wafv2.disassociate_web_acl(ResourceArn=resource)


def _find_association(wafv2: Any, resource: str) -> str:
    """Return the ARN of the web ACL that a resource has; empty when it has none."""
    try:
        return str(wafv2.get_web_acl_for_resource(ResourceArn=resource).get("WebACL", {}).get("ARN", ""))
    except ClientError as error:
        if error.response["Error"]["Code"] != UNKNOWN:
            raise
        return ""
