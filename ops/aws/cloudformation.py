"""CloudFormation, a change set at a time: what would change is known before anything does."""

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

TIMEOUT = 3600.0  # seconds: an index of a large table takes its time
PAUSE = 0.5
NOTHING = ("didn't contain changes", "No updates are to be performed")
"""What CloudFormation gives as the reason why a change set without a change has failed."""


@dataclass(frozen=True)
class Change:
    """What a change set does to one resource.

    `replacement` is True, False or Conditional, as CloudFormation writes it; `causes` are the properties for
    which it may be replaced.
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
    """Describe a stack; None when there is none, or none but the shell of a change set never executed.

    A stack that could not be created, and of which nothing is left but its name, is deleted first. Raises
    ClickException for one that is being changed, or whose rollback failed.
    """
    try:
        found: Any = client.describe_stacks(StackName=name)["Stacks"][0]
    except ClientError as error:
        if "does not exist" in error.response["Error"]["Message"]:
            return None
        raise
    status = found["StackStatus"]
    if status in ("REVIEW_IN_PROGRESS", "DELETE_COMPLETE"):
        return None
    if status in ("ROLLBACK_COMPLETE", "IMPORT_ROLLBACK_COMPLETE"):
        delete(client, name)
        return None
    if not status.endswith("_COMPLETE"):
        raise click.ClickException(
            f"the stack {name} is {status}: wait for it, or mend it, and run this again"
        )
    return dict(found)


def list_resources(client: CloudFormationClient, name: str) -> dict[str, str]:
    """Name the resources of a stack, each with its physical id."""
    pages = client.get_paginator("list_stack_resources").paginate(StackName=name)
    return {
        one["LogicalResourceId"]: one.get("PhysicalResourceId", "")
        for page in pages
        for one in page["StackResourceSummaries"]
    }


def create_change_set(
    client: CloudFormationClient,
    name: str,
    template: Template,
    parameters: Mapping[str, str],
    imports: Sequence[Any] = (),
) -> ChangeSet | None:
    """Make a change set, and wait for it; None when it has no changes.

    A parameter that is not given keeps the value that the stack has, or has its default. With `imports` the
    change set takes resources that exist into the stack.
    """
    stack = find_stack(client, name)
    kind: Kind = "IMPORT" if imports else "UPDATE" if stack else "CREATE"
    before = {one["ParameterKey"] for one in (stack or {}).get("Parameters", ())}
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
        TemplateBody=json.dumps(
            template, separators=(",", ":")
        ),  # without comments: 51,200 bytes is the limit
        Parameters=values,
        **options,
    )["Id"]
    found: dict[str, Any] = wait_until(
        lambda: _described(client, id) or {}, f"the change set of {name}", TIMEOUT, PAUSE
    )
    if found["Status"] == "FAILED":
        client.delete_change_set(ChangeSetName=id)
        reason = found.get("StatusReason", "it says no reason")
        if any(words in reason for words in NOTHING):
            return None
        raise click.ClickException(f"CloudFormation refuses the change set of {name}: {reason}")
    return ChangeSet(name, id, kind, tuple(_change(one["ResourceChange"]) for one in found["Changes"]))


def _described(client: CloudFormationClient, id: str) -> dict[str, Any] | None:
    """Describe a change set with all its changes; None while it is made."""
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
    """Execute a change set, and wait for its end; ClickException says what failed, and why."""
    begun = time.time()
    client.execute_change_set(ChangeSetName=change_set.id)
    wait_until(lambda: _is_executed(client, change_set), f"the stack {change_set.stack}", TIMEOUT, PAUSE)
    status = wait_until(lambda: _stable_status(client, change_set.stack), change_set.stack, TIMEOUT, PAUSE)
    if status not in ("CREATE_COMPLETE", "UPDATE_COMPLETE", "IMPORT_COMPLETE"):
        raise click.ClickException(
            f"{change_set.stack}: {status}{_failures(client, change_set.stack, begun)}"
        )


def discard(client: CloudFormationClient, change_set: ChangeSet) -> None:
    """Delete a change set that will not be executed, and the empty stack that came with it."""
    client.delete_change_set(ChangeSetName=change_set.id)
    if find_stack(client, change_set.stack) is None:
        delete(client, change_set.stack)


def delete(client: CloudFormationClient, name: str) -> None:
    """Delete a stack, and wait for its end; what the template retains stays. None there is no harm."""
    begun = time.time()
    client.delete_stack(StackName=name)
    status = wait_until(
        lambda: (now := _stable_status(client, name)).startswith("DELETE_") and now, name, TIMEOUT, PAUSE
    )
    if status != "DELETE_COMPLETE":
        raise click.ClickException(f"{name}: {status}{_failures(client, name, begun)}")


def _is_executed(client: CloudFormationClient, change_set: ChangeSet) -> bool:
    """Tell whether a change set has been executed: right after the call its stack may look as before."""
    try:
        found = client.describe_change_set(ChangeSetName=change_set.id)
    except client.exceptions.ChangeSetNotFoundException:
        return True
    return found["ExecutionStatus"] in ("EXECUTE_COMPLETE", "EXECUTE_FAILED", "OBSOLETE")


def _stable_status(client: CloudFormationClient, name: str) -> str:
    """Answer the status of a stack that nothing changes any more; empty while something does."""
    try:
        status: str = client.describe_stacks(StackName=name)["Stacks"][0]["StackStatus"]
    except ClientError as error:
        if "does not exist" in error.response["Error"]["Message"]:
            return "DELETE_COMPLETE"
        raise
    return "" if status.endswith("_IN_PROGRESS") else status


def _failures(client: CloudFormationClient, name: str, since: float) -> str:
    """Say which resources failed since an instant, and why, first things first."""
    events = client.describe_stack_events(StackName=name)["StackEvents"]
    reasons = [
        f"\n  {one['LogicalResourceId']}: {one.get('ResourceStatusReason', one['ResourceStatus'])}"
        for one in reversed(events)
        if one.get("ResourceStatus", "").endswith("_FAILED") and one["Timestamp"].timestamp() >= since - 60
    ]
    return "".join(reasons)
