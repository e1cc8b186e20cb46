"""Makes and updates what a stage keeps its state in: a stack of `.chalice/resources.yaml`, and its secret.

Every change is a change set, shown before it is executed. The table is never replaced and never removed. One
that is there without a stack (`ops destroy` leaves it) is adopted with its data, by an import that describes
it as it is; an update then brings it to what the template says. DynamoDB makes or deletes one index at a
time, so an older table takes as many updates as it lacks indexes.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

import click
import yaml

from ops.aws import adopt
from ops.aws import cloudformation as stacks
from ops.aws.cloudformation import ChangeSet
from ops.aws.template import TEMPLATE, definition

if TYPE_CHECKING:
    from mypy_boto3_cloudformation import CloudFormationClient
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_sqs import SQSClient
    from mypy_boto3_ssm import SSMClient

TABLE = "AWS::DynamoDB::Table"

Approve = Callable[[ChangeSet, str], bool]


class Clients(NamedTuple):
    """Whom provisioning talks to."""

    cloudformation: CloudFormationClient
    dynamodb: DynamoDBClient
    sqs: SQSClient


class StageResources(NamedTuple):
    """What a stage has, as the configuration records it."""

    table: str
    stream_arn: str
    queue_name: str
    queue_url: str


def stack_name(stage: str) -> str:
    """Name the stack of a stage's resources."""
    return f"hubbub-{stage}-resources"


def create_secret(ssm: SSMClient, name: str) -> bool:
    """Make a random secret in SSM's Parameter Store, encrypted; False when there is one, which stays.

    CloudFormation cannot make a SecureString. Two runs at once make one: SSM itself refuses to overwrite. The
    secret is never printed.
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


def provision(clients: Clients, stage: str, parameters: Mapping[str, str], approve: Approve) -> int:
    """Bring a stage's stack to the template; answer the number of change sets that were shown.

    `approve` is asked about each change set, with what it is for, and answers whether to execute it; the
    first that it declines ends the run. Again is no harm, also after an interruption at any point. Raises
    ClickException for what would lose the table, and for what CloudFormation refuses.
    """
    client, name, shown = clients.cloudformation, stack_name(stage), 0
    template = yaml.safe_load(TEMPLATE.read_text(encoding="utf-8"))
    wanted = definition(stage).table
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
        if not approve(change, step.why):
            stacks.discard(client, change)
            break
        stacks.execute(client, change)
    return shown


def find_resources(clients: Clients, stage: str) -> StageResources:
    """Look up what a stage has; ClickException when a part is missing.

    The stream is the one that the table has now: it is another one when it was switched off and on, or the
    table was restored, and no stack knows of that.
    """
    wanted = definition(stage)
    live = adopt.describe_table(clients.dynamodb, str(wanted.table["TableName"]))
    queue_name = str(wanted.views_queue["QueueName"])
    queue_url = adopt.find_queue_url(clients.sqs, queue_name)
    if not live or not live["StreamArn"] or not queue_url:
        raise click.ClickException(
            f"{stage} has no table with a stream, or no queue: python -m ops provision --stage {stage}"
        )
    return StageResources(live["TableName"], live["StreamArn"], queue_name, queue_url)


def _check_owner(stack: str, table: str, is_owned: bool, is_there: bool) -> None:
    """Raise ClickException when the table that is there is not the stack's, or the stack's is not there."""
    if is_there and not is_owned:
        raise click.ClickException(f"there is a table {table}, and it is not the one of the stack {stack}")
    if is_owned and not is_there:
        raise click.ClickException(
            f"the stack {stack} has lost its table {table}: restore it under this name from a backup, or "
            f"begin with an empty one: delete the stack and run this again"
        )


def _refuse_loss(dynamodb: DynamoDBClient, table: str, change_set: ChangeSet) -> None:
    """Raise ClickException for a change set that would replace or remove the table.

    Conditional is what CloudFormation says of new attributes of a key as well: it replaces a table when the
    type of one changes, and `adoption.refuse_another` has seen that none does.
    """
    for change in change_set.changes:
        may_lose = change.replacement == "Conditional" and not change.causes <= {"AttributeDefinitions"}
        if change.kind == TABLE and (change.action == "Remove" or change.replacement == "True" or may_lose):
            verb = "remove" if change.action == "Remove" else "replace"
            holds = dynamodb.scan(TableName=table, Limit=1)["Count"]
            what = "which holds data" if holds else "which is empty"
            raise click.ClickException(
                f"this would {verb} the table {table}, {what}: nothing is changed. docs/deployment.md says "
                f"what to do"
            )
