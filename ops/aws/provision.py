"""Create and update a stage's resources: the stack of `.chalice/resources.yaml` and the secret.

Every change is a change set that is shown before it is executed.

Invariant: the table is never replaced and never removed. A table without a stack, as `ops destroy` leaves it,
is imported with its data as it is, and an update then applies the template. DynamoDB creates or deletes one
index at a time, so an older table needs one update per missing index. The live table is compared with the
template afterwards, because CloudFormation does not see what a restore has left out.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, NamedTuple

import click

from chalicelib.settings import Settings
from ops.aws import adopt, live_table
from ops.aws import cloudformation as stacks
from ops.aws.adopt import Step
from ops.aws.cloudformation import Change, ChangeSet, Template
from ops.aws.template import definition, read_template, table_name

if TYPE_CHECKING:
    from mypy_boto3_cloudformation import CloudFormationClient
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_sqs import SQSClient
    from mypy_boto3_ssm import SSMClient

TABLE = "AWS::DynamoDB::Table"

Approve = Callable[[ChangeSet, str], bool]


class Clients(NamedTuple):
    """The AWS clients that provisioning needs."""

    cloudformation: CloudFormationClient
    dynamodb: DynamoDBClient
    sqs: SQSClient


class StageResources(NamedTuple):
    """The resources of a stage that the configuration records. The URL is empty without a queue."""

    stream_arn: str
    queue_url: str


def stack_name(stage: str) -> str:
    """Return the name of the stack of a stage's resources."""
    return f"hubbub-{stage}-resources"


def create_secret(ssm: SSMClient, name: str) -> bool:
    """Create a random encrypted secret in SSM's Parameter Store; return False if it exists already.

    CloudFormation cannot create a SecureString. Two concurrent runs create one secret, because SSM refuses to
    overwrite it. The secret is never printed.
    """
    try:
        ssm.put_parameter(
            Name=name,
            Value=secrets.token_hex(32),
            Type="SecureString",
            Overwrite=False,
            Description="Signs Hubbub's tokens and cursors",
        )
    except ssm.exceptions.ParameterAlreadyExists:
        return False
    return True


def provision(
    clients: Clients,
    stage: str,
    parameters: Mapping[str, str],
    approve: Approve,
    functions: Collection[str] = (),
) -> int:
    """Apply the template to a stage's stack, and return the number of change sets shown.

    `functions` are those that the stage has, for their logs and alarms. `approve` gets each change set and
    its reason, and returns whether to execute it. The first one that it declines ends the run. A queue stays
    in the stack when the stage no longer uses it, because it may hold views and costs nothing at rest.
    Idempotent, also after an interruption at any point.

    Raises: ClickException for a change that would lose the table, and for one that CloudFormation refuses.
    """
    client, name = clients.cloudformation, stack_name(stage)
    if adopt.find_queue_url(clients.sqs, f"hubbub-{stage}-views-dead"):
        parameters = {**parameters, "Queue": "on"}
    parameters = {"TableName": table_name(stage), **parameters, "Stage": stage}
    steps = _plan(clients, stage, parameters, read_template(functions))
    shown = 0
    for step in steps:
        values = {"TableName": parameters["TableName"]} if step.is_partial else parameters
        change = stacks.create_change_set(client, name, step.template, values, step.imports)
        if change is None:
            continue
        shown += 1
        try:
            if not step.releases:
                _refuse_loss(clients.dynamodb, parameters["TableName"], change)
        except click.ClickException:
            stacks.discard(client, change)
            raise
        if not approve(change, step.reason):
            stacks.discard(client, change)
            return shown
        stacks.execute(client, change)
    return shown + _set_differences(clients, stage, approve)


def _plan(clients: Clients, stage: str, parameters: Mapping[str, str], template: Template) -> list[Step]:
    """Return the change sets that lead from what exists to the template.

    Raises: ClickException for a table with other keys, and for a stack whose table is missing.
    """
    client, name, table = clients.cloudformation, stack_name(stage), parameters["TableName"]
    wanted = definition(stage, parameters).table
    live = adopt.describe_table(clients.dynamodb, table)
    if live:
        adopt.check_keys(live, wanted)
    if stacks.find_stack(client, name) is None:
        first = adopt.plan_import(template, stage, live, clients.sqs)
        return [*([first] if first else ()), *adopt.plan_index_updates(template, live, wanted)]
    owned = stacks.list_resources(client, name).get("Table")
    if owned and not live:
        raise click.ClickException(
            f"the table {table} of the stack {name} is missing. Restore a backup under the same name, "
            f"or run make destroy STAGE={stage} and then this again to create an empty table"
        )
    now = stacks.read_template(client, name)
    if owned == table:
        before = now["Resources"]["Table"]["Properties"]
        return list(adopt.plan_index_updates(template, before, wanted))
    swap = adopt.plan_swap(now, live) if live else ()
    return [*swap, *adopt.plan_index_updates(template, live, wanted)]


def _set_differences(clients: Clients, stage: str, approve: Approve) -> int:
    """Correct the live table after all change sets. Return the number of changes that were shown, 0 or 1."""
    found = stacks.find_stack(clients.cloudformation, stack_name(stage)) or {}
    values = {
        parameter["ParameterKey"]: parameter["ParameterValue"] for parameter in found.get("Parameters", ())
    }
    wanted = definition(stage, values).table
    live = adopt.describe_table(clients.dynamodb, wanted["TableName"])
    differences = list(live_table.find_differences(live, wanted)) if live else []
    if not differences:
        return 0
    changes = [Change("Modify", difference.name, TABLE, "False", frozenset()) for difference in differences]
    if approve(ChangeSet(wanted["TableName"], "", "UPDATE", tuple(changes)), "set what the table lacks"):
        for difference in differences:
            live_table.apply_difference(clients.dynamodb, wanted["TableName"], difference)
    return 1


def find_resources(clients: Clients, settings: Settings) -> StageResources:
    """Return the resources of a stage.

    The stream is the table's current one. It changes without the stack's knowledge when it is disabled and
    enabled, or when the table is restored.

    Raises: ClickException when a resource is missing.
    """
    live = adopt.describe_table(clients.dynamodb, settings.table)
    queue_url = adopt.find_queue_url(clients.sqs, settings.queue_name) if settings.queue else ""
    if not live or not live["StreamArn"] or (settings.queue and not queue_url):
        raise click.ClickException(
            f"{settings.stage} has no table with a stream, or no queue; "
            f"run make provision STAGE={settings.stage}"
        )
    return StageResources(live["StreamArn"], queue_url)


def _refuse_loss(dynamodb: DynamoDBClient, table: str, change_set: ChangeSet) -> None:
    """Raise ClickException for a change set that would replace or remove the table.

    CloudFormation also reports Conditional for new key attributes, because it replaces a table when the type
    of an attribute changes. `adopt.check_keys` has excluded such a change.
    """
    for change in change_set.changes:
        may_lose = change.replacement == "Conditional" and not change.causes <= {"AttributeDefinitions"}
        if change.kind == TABLE and (change.action == "Remove" or change.replacement == "True" or may_lose):
            verb = "remove" if change.action == "Remove" else "replace"
            has_items = dynamodb.scan(TableName=table, Limit=1)["Count"]
            content = "has data" if has_items else "is empty"
            raise click.ClickException(
                f"this would {verb} the table {table}, which {content}; nothing changed. "
                "See docs/deployment.md"
            )
