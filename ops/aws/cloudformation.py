"""Change stacks with CloudFormation change sets, which can be inspected before they are executed."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import click
from botocore.exceptions import ClientError

from ops.waiting import wait_until

if TYPE_CHECKING:
    from mypy_boto3_cloudformation import CloudFormationClient

Kind = Literal["CREATE", "UPDATE", "IMPORT"]
Template = dict[str, Any]

REVIEW = "REVIEW_IN_PROGRESS"
"""The status of a stack that has change sets and no resources."""
TIMEOUT = 3600.0  # seconds: creating an index of a large table takes long
PAUSE = 0.5
NOTHING = ("didn't contain changes", "No updates are to be performed")
"""The reasons that CloudFormation returns for a change set without changes."""


@dataclass(frozen=True)
class Change:
    """The change of one resource.

    `replacement` is CloudFormation's True, False or Conditional. `causes` are the properties that may cause a
    replacement.
    """

    action: str
    resource: str
    kind: str
    replacement: str
    causes: frozenset[str]


@dataclass(frozen=True)
class ChangeSet:
    """A change set that can be executed."""

    stack: str
    id: str
    kind: Kind
    changes: tuple[Change, ...]


def find_stack(client: CloudFormationClient, name: str) -> dict[str, Any] | None:
    """Describe a stack; None if it does not exist or is only the shell of a change set never executed.

    A stack that is being changed, as by a command that was interrupted, is waited for. A stack whose creation
    was rolled back has no resources and is deleted first.

    Raises: ClickException for a stack whose rollback or deletion failed.
    """
    found = _describe(client, name)
    if found and found["StackStatus"].endswith("_IN_PROGRESS") and found["StackStatus"] != REVIEW:
        click.echo(f"{name}: {found['StackStatus']}, waiting until it is stable", err=True)
        wait_until(lambda: _stable_status(client, name), name, TIMEOUT, PAUSE)
        found = _describe(client, name)
    status = found["StackStatus"] if found else "DELETE_COMPLETE"
    if status in (REVIEW, "DELETE_COMPLETE"):
        return None
    is_empty = status == "IMPORT_ROLLBACK_COMPLETE" and not list_resources(client, name)
    if status == "ROLLBACK_COMPLETE" or is_empty:
        delete(client, name)
        return None
    if status == "DELETE_FAILED":
        raise click.ClickException(
            f"the deletion of the stack {name} failed; delete the stage with make destroy, which keeps its "
            "data, then run this again"
        )
    if not status.endswith("_COMPLETE"):
        raise click.ClickException(
            f"the stack {name} is {status}; repair it in CloudFormation, then run this again"
        )
    return found


def _describe(client: CloudFormationClient, name: str) -> dict[str, Any] | None:
    """Describe a stack in any state; None if it does not exist."""
    try:
        return dict(client.describe_stacks(StackName=name)["Stacks"][0])
    except ClientError as error:
        if "does not exist" in error.response["Error"]["Message"]:
            return None
        raise


def read_outputs(client: CloudFormationClient, name: str) -> dict[str, str]:
    """Return the outputs of a stack, also of one whose deletion failed; empty if it does not exist."""
    outputs = (_describe(client, name) or {}).get("Outputs", ())
    return {output["OutputKey"]: str(output["OutputValue"]) for output in outputs}


def read_template(client: CloudFormationClient, name: str) -> Template:
    """Return the template with which a stack was changed last."""
    return dict(client.get_template(StackName=name)["TemplateBody"])


def list_resources(client: CloudFormationClient, name: str) -> dict[str, str]:
    """Return the physical id of each resource that a stack has."""
    pages = client.get_paginator("list_stack_resources").paginate(StackName=name)
    return {
        resource["LogicalResourceId"]: resource.get("PhysicalResourceId", "")
        for page in pages
        for resource in page["StackResourceSummaries"]
        if not resource["ResourceStatus"].startswith("DELETE_")
    }


def create_change_set(
    client: CloudFormationClient,
    name: str,
    template: Template,
    parameters: Mapping[str, str],
    imports: Sequence[Any] = (),
) -> ChangeSet | None:
    """Create a change set and wait until it can be executed; None if it has no changes.

    A parameter that is not given keeps its value, or gets its default in a new stack. With `imports` the
    change set imports existing resources into the stack.
    """
    stack = find_stack(client, name)
    kind: Kind = "IMPORT" if imports else "UPDATE" if stack else "CREATE"
    before = {parameter["ParameterKey"] for parameter in (stack or {}).get("Parameters", ())}
    values: list[Any] = [
        {"ParameterKey": key, "ParameterValue": parameters[key]}
        if key in parameters
        else {"ParameterKey": key, "UsePreviousValue": True}
        for key in template.get("Parameters", {})
        if key in parameters or key in before
    ]
    options: dict[str, Any] = {"ResourcesToImport": list(imports)} if imports else {}
    id = client.create_change_set(
        StackName=name,
        ChangeSetName=f"provision-{time.time_ns()}",
        ChangeSetType=kind,
        TemplateBody=json.dumps(template, separators=(",", ":")),  # compact: the limit is 51,200 bytes
        Parameters=values,
        **options,
    )["Id"]
    found: dict[str, Any] = wait_until(
        lambda: _described(client, id) or {}, f"the change set of {name}", TIMEOUT, PAUSE
    )
    if found["Status"] == "FAILED":
        client.delete_change_set(ChangeSetName=id)
        reason = found.get("StatusReason", "no reason given")
        if any(words in reason for words in NOTHING):
            return None
        raise click.ClickException(f"CloudFormation refused the change set of {name}: {reason}")
    return ChangeSet(name, id, kind, tuple(_change(change["ResourceChange"]) for change in found["Changes"]))


def _described(client: CloudFormationClient, id: str) -> dict[str, Any] | None:
    """Describe a change set with all its changes; None while it is being created."""
    found: Any = client.describe_change_set(ChangeSetName=id)
    if found["Status"] not in ("CREATE_COMPLETE", "FAILED"):
        return None
    changes, token = list(found.get("Changes", ())), found.get("NextToken")
    while token:
        page: Any = client.describe_change_set(ChangeSetName=id, NextToken=token)
        changes, token = changes + page.get("Changes", []), page.get("NextToken")
    return {**found, "Changes": changes}


def _change(found: Mapping[str, Any]) -> Change:
    targets = [detail.get("Target", {}) for detail in found.get("Details", ())]
    causes = {t.get("Name", "") for t in targets if t.get("RequiresRecreation", "Never") != "Never"}
    return Change(
        found["Action"],
        found["LogicalResourceId"],
        found["ResourceType"],
        found.get("Replacement") or "False",
        frozenset(causes),
    )


def execute(client: CloudFormationClient, change_set: ChangeSet) -> None:
    """Execute a change set and wait until the stack is stable.

    Raises: ClickException with the failed resources and the reasons.
    """
    begun = time.time()
    client.execute_change_set(ChangeSetName=change_set.id)
    wait_until(lambda: _is_executed(client, change_set), f"the stack {change_set.stack}", TIMEOUT, PAUSE)
    status = wait_until(lambda: _stable_status(client, change_set.stack), change_set.stack, TIMEOUT, PAUSE)
    if status not in ("CREATE_COMPLETE", "UPDATE_COMPLETE", "IMPORT_COMPLETE"):
        raise click.ClickException(
            f"{change_set.stack}: {status}{_failures(client, change_set.stack, begun)}"
        )


def discard(client: CloudFormationClient, change_set: ChangeSet) -> None:
    """Delete a change set, and the empty stack that was created with it."""
    client.delete_change_set(ChangeSetName=change_set.id)
    if find_stack(client, change_set.stack) is None:
        delete(client, change_set.stack)


def delete(client: CloudFormationClient, name: str) -> None:
    """Delete a stack, if it exists, and wait until it is deleted. Retained resources are kept."""
    begun = time.time()
    client.delete_stack(StackName=name)
    status = wait_until(
        lambda: (now := _stable_status(client, name)).startswith("DELETE_") and now, name, TIMEOUT, PAUSE
    )
    if status != "DELETE_COMPLETE":
        raise click.ClickException(f"{name}: {status}{_failures(client, name, begun)}")


def _is_executed(client: CloudFormationClient, change_set: ChangeSet) -> bool:
    """Return whether a change set has been executed. Its stack may not show this right after the call."""
    try:
        found = client.describe_change_set(ChangeSetName=change_set.id)
    except client.exceptions.ChangeSetNotFoundException:
        return True
    return found["ExecutionStatus"] in ("EXECUTE_COMPLETE", "EXECUTE_FAILED", "OBSOLETE")


def _stable_status(client: CloudFormationClient, name: str) -> str:
    """Return the status of a stable stack; empty while the stack is changing."""
    status = str((_describe(client, name) or {}).get("StackStatus", "DELETE_COMPLETE"))
    return "" if status.endswith("_IN_PROGRESS") else status


def _failures(client: CloudFormationClient, name: str, since: float) -> str:
    """Return the resources that failed since a time and the reasons, oldest first."""
    events = client.describe_stack_events(StackName=name)["StackEvents"]
    reasons = [
        f"\n  {event['LogicalResourceId']}: {event.get('ResourceStatusReason', event['ResourceStatus'])}"
        for event in reversed(events)
        if event.get("ResourceStatus", "").endswith("_FAILED")
        and event["Timestamp"].timestamp() >= since - 60
    ]
    return "".join(reasons)
