"""Create and update a stage's resources: the stack of `.chalice/resources.yaml` and the secret.

Every change is a change set that is shown before it is executed.

Invariant: the table is never replaced and never removed. A table without a stack, as `ops destroy` leaves it,
is imported with its data as it is, and an update then applies the template. DynamoDB creates or deletes one
index at a time, so an older table needs one update per missing index.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, NamedTuple

import click

from ops.aws import adopt
from ops.aws import cloudformation as stacks
from ops.aws.cloudformation import ChangeSet
from ops.aws.template import definition, read_template

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
    client, name, shown = clients.cloudformation, stack_name(stage), 0
    template = read_template(functions)
    wanted = definition(stage).table
    if adopt.find_queue_url(clients.sqs, f"hubbub-{stage}-views-dead"):
        parameters = {**parameters, "Queue": "on"}
    live = adopt.describe_table(clients.dynamodb, str(wanted["TableName"]))
    if live:
        adopt.check_keys(live, wanted)
    steps = list(adopt.plan_index_updates(template, live, stage))
    if stacks.find_stack(client, name) is None:
        if first := adopt.plan_import(template, stage, live, clients.sqs):
            steps.insert(0, first)
    else:
        _check_owner(
            name, str(wanted["TableName"]), "Table" in stacks.list_resources(client, name), bool(live)
        )
    for step in steps:
        change = stacks.create_change_set(
            client, name, step.template, {**parameters, "Stage": stage}, step.imports
        )
        if change is None:
            continue
        shown += 1
        try:
            _refuse_loss(clients.dynamodb, str(wanted["TableName"]), change)
        except click.ClickException:
            stacks.discard(client, change)
            raise
        if not approve(change, step.reason):
            stacks.discard(client, change)
            break
        stacks.execute(client, change)
    return shown


def find_resources(clients: Clients, stage: str, *, has_queue: bool) -> StageResources:
    """Return a stage's resources.

    The stream is the table's current one. It changes without the stack's knowledge when it is disabled and
    enabled, or when the table is restored.

    Raises: ClickException when a resource is missing.
    """
    wanted = definition(stage)
    live = adopt.describe_table(clients.dynamodb, str(wanted.table["TableName"]))
    queue_url = ""
    if has_queue:
        queue_url = adopt.find_queue_url(clients.sqs, str(wanted.views_queue["QueueName"]))
    if not live or not live["StreamArn"] or (has_queue and not queue_url):
        raise click.ClickException(
            f"{stage} has no table with a stream, or no queue; run make provision STAGE={stage}"
        )
    return StageResources(live["StreamArn"], queue_url)


def _check_owner(stack: str, table: str, is_owned: bool, is_there: bool) -> None:
    """Raise ClickException when the existing table is not the stack's, or the stack's table is missing."""
    if is_there and not is_owned:
        raise click.ClickException(f"the table {table} exists but does not belong to the stack {stack}")
    if is_owned and not is_there:
        raise click.ClickException(
            f"the table {table} of the stack {stack} is missing. Restore a backup under the same name, "
            "or delete the stack and run this again to create an empty table"
        )


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
