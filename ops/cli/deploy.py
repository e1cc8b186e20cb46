"""The commands that bring a stage to AWS and take it away, each with its options and what it says."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from chalicelib.settings import Settings
    from ops.aws.cloudformation import ChangeSet
    from ops.aws.provision import Clients

STAGE = click.option("--stage", required=True, help="A stage; one that is not there yet is made from dev's.")
YES = click.option("--yes", is_flag=True, help="Do not ask.")
PARAMETER = click.option(
    "--parameter", "pairs", multiple=True, metavar="NAME=VALUE", help="A parameter of the template."
)
QUEUE = click.option(
    "--queue/--no-queue", default=None, help="Whether views go through the queue; else as it is."
)


@click.command()
@STAGE
@YES
@PARAMETER
@QUEUE
@click.option("--dry-run", is_flag=True, help="Show the change set, and change nothing.")
@click.option("--only-secret", is_flag=True, help="Make the secret alone: a pipeline's stack has the rest.")
def provision(
    stage: str, yes: bool, pairs: tuple[str, ...], queue: bool | None, dry_run: bool, only_secret: bool
) -> None:
    """Make or update a stage's table, queues, alarms and secret, and record them for Chalice.

    Shows each change set before it is executed. Run again it changes nothing. Exit codes: 0 done or nothing
    to do, 1 refused or failed.
    """
    settings, clients = _prepared(stage, makes=not dry_run)
    if only_secret:
        _secret(settings, dry_run)
        return
    _provision(settings, clients, pairs, queue, yes, dry_run)


@click.command()
@STAGE
@YES
@PARAMETER
@QUEUE
@click.option(
    "--log-days", type=click.IntRange(1), default=30, show_default=True, help="Logs are kept so long."
)
def deploy(stage: str, yes: bool, pairs: tuple[str, ...], queue: bool | None, log_days: int) -> None:
    """Provision a stage, deploy it with Chalice, tune what reads the stream and the queue, and check it."""
    from ops.aws import bundle, chalice_config, event_sources, firewall
    from ops.aws import deploy as deploys
    from ops.aws import provision as work
    from ops.stage import ROOT

    settings, clients = _prepared(stage, makes=True)
    functions = settings_client(settings)("lambda")
    deploys.check_record(functions, ROOT, stage)
    if warning := deploys.concurrency_warning(functions):
        click.echo(f"WARNING: {warning}", err=True)
    settings = _provision(settings, clients, pairs, queue, yes, False)
    wanted = event_sources.wanted(clients, stage)
    for one in event_sources.release(functions, wanted):
        deploys.forget(ROOT, stage, one.id)
        click.echo(f"{one.function}: {one.problem}: the mapping is deleted")
        click.echo(f"  what it had not read is not counted: python -m ops repair --stage {stage}")
    bundle.bundle(ROOT, stage)
    deploys.chalice(ROOT, "deploy", "--stage", stage)
    urls = deploys.urls(ROOT, stage, _endpoint(settings))
    if chalice_config.record(ROOT, stage, {chalice_config.SOCKET: urls.socket}):
        deploys.chalice(ROOT, "deploy", "--stage", stage)  # once: the functions learn where the sockets are
    if acl := firewall.find(clients.cloudformation, work.stack_name(stage)):
        wafv2 = settings_client(settings)("wafv2")
        if firewall.attach(wafv2, acl, firewall.stage_arn(wafv2, *deploys.rest_stage(ROOT, stage))):
            click.echo("requests of one address are limited: AddressLimit, in docs/deployment.md")
    for one in event_sources.tune(functions, wanted):
        click.echo(f"{one.function}: {one.problem} set")
    names = deploys.functions(ROOT, stage)
    if kept := list(deploys.keep_logs(settings_client(settings)("logs"), names, log_days)):
        click.echo(f"logs of {len(kept)} functions are kept for {log_days} days from now on")
    if left := event_sources.drift(functions, wanted):
        raise click.ClickException("\n".join(f"{one.function}: {one.problem}" for one in left))
    _smoke(settings, urls)


@click.command()
@STAGE
@click.option("--url", help="Where the calls go; else where Chalice has deployed them from here.")
@click.option("--socket-url", help="Where the sockets go.")
def smoke(stage: str, url: str | None, socket_url: str | None) -> None:
    """Check a deployed stage by its URLs: REST, a view counted end to end, a token, a socket."""
    from ops.aws import deploy as deploys
    from ops.stage import ROOT, load

    settings = load(stage, ROOT)
    if bool(url) != bool(socket_url):
        raise click.UsageError("--url and --socket-url go together")
    found = (
        deploys.Urls(url.rstrip("/"), socket_url.rstrip("/"))
        if url and socket_url
        else deploys.urls(ROOT, stage, _endpoint(settings))
    )
    _smoke(settings, found)


@click.command()
@STAGE
@YES
@click.option(
    "--delete-data", is_flag=True, help="The table, its queues, secret and logs too: there is no undo."
)
def destroy(stage: str, yes: bool, delete_data: bool) -> None:
    """Take a stage away; its table, dead letters, secret and logs stay unless --delete-data is given.

    What stays is taken over again by the next provision.
    """
    from ops.aws import chalice_config, cloudformation, firewall, provision
    from ops.aws import deploy as deploys
    from ops.aws.template import definition
    from ops.stage import ROOT

    settings, clients = _prepared(stage)
    deploys.check_record(settings_client(settings)("lambda"), ROOT, stage)
    what = f"{stage} with ALL ITS DATA" if delete_data else f"{stage}; its data stays"
    if not yes and click.prompt(f"this deletes {what}. The stage's name, to go on") != stage:
        raise click.ClickException("that is not its name: nothing is deleted")
    acl = firewall.find(clients.cloudformation, provision.stack_name(stage))
    firewall.detach(settings_client(settings)("wafv2"), acl)
    if deploys.deployed(ROOT, stage):
        deploys.chalice(ROOT, "delete", "--stage", stage)
    cloudformation.delete(clients.cloudformation, provision.stack_name(stage))
    click.echo(f"{provision.stack_name(stage)}: deleted")
    if not delete_data:
        click.echo(f"{definition(stage).table['TableName']}: stays, with its data")
        return
    wanted = definition(stage)
    queues = [str(wanted.views_dead_letters["QueueName"])]
    table = str(wanted.table["TableName"])
    names = deploys.functions(ROOT, stage)
    deploys.delete_data(settings_client(settings), table, queues, settings.secret_parameter, names)
    chalice_config.record(ROOT, stage, dict.fromkeys((*chalice_config.RECORDED, chalice_config.SOCKET), ""))
    click.echo(f"{table}: deleted, with its data")


@click.command()
@STAGE
@click.argument("output", type=click.Path(file_okay=False, path_type=Path), default="out")
def package(stage: str, output: Path) -> None:
    """Write the whole stage as one stack, for `aws cloudformation package`: sam.yaml and a zip."""
    from ops.aws import chalice_config
    from ops.aws import package as packages
    from ops.stage import ROOT

    partition = packages.partition()
    chalice_config.ensure(ROOT, stage)
    chalice_config.localize(ROOT, stage, partition)
    packages.package(ROOT, stage, output)
    click.echo(f"{output}: sam.yaml and deployment.zip")


def settings_client(settings: Settings) -> Callable[[str], Any]:
    """Answer what makes a client of any service for a stage."""
    import boto3

    make: Any = boto3.client
    return lambda service: make(service, **settings.client_options())


def _prepared(stage: str, makes: bool = False) -> tuple[Settings, Clients]:
    """Put a stage's configuration in effect, after making it where there is none, and make the clients."""
    from ops.aws import chalice_config
    from ops.aws.provision import Clients
    from ops.stage import ROOT, load

    if makes and chalice_config.ensure(ROOT, stage):
        click.echo(f"{stage}: made from dev's in .chalice/config.json; set HUBBUB_SITES there")
    settings = load(stage, ROOT)
    client = settings_client(settings)
    clients = Clients(client("cloudformation"), client("dynamodb"), client("sqs"))
    if makes:
        chalice_config.localize(ROOT, stage, clients.cloudformation.meta.partition)
    return settings, clients


def _provision(
    settings: Settings, clients: Clients, pairs: Sequence[str], queue: bool | None, yes: bool, dry_run: bool
) -> Settings:
    """Provision a stage and record what it has; answer the settings with it."""
    from ops.aws import chalice_config, firewall
    from ops.aws import provision as work
    from ops.stage import ROOT

    stage = settings.stage
    _secret(settings, dry_run)
    parameters = dict(pair.split("=", 1) for pair in pairs if "=" in pair)
    if len(parameters) != len(pairs):
        raise click.BadParameter("a parameter is NAME=VALUE, each name once")

    def approve(change: ChangeSet, why: str) -> bool:
        _show(change, why)
        if not dry_run and not (yes or click.confirm("execute it?")):
            raise click.Abort
        if not dry_run and firewall.removes(change):
            acl = firewall.find(clients.cloudformation, change.stack)
            firewall.detach(settings_client(settings)("wafv2"), acl)
        return not dry_run

    if not work.provision(clients, stage, parameters, approve):
        click.echo(f"{work.stack_name(stage)}: no changes")
    if dry_run:
        return settings
    found = work.find(clients, stage)
    is_queued = bool(settings.queue_url) if queue is None else queue
    now = settings._replace(**found._asdict() | {"queue_url": found.queue_url if is_queued else ""})
    if chalice_config.record(
        ROOT, stage, {name: getattr(now, field) for name, field in chalice_config.RECORDED.items()}
    ):
        click.echo(f"{stage}: table, stream and queue are recorded in .chalice/config.json")
    return now


def _secret(settings: Settings, dry_run: bool) -> None:
    """Make the stage's secret, and say whether there was one."""
    from ops.aws.provision import secret

    if not settings.secret_parameter:
        raise click.ClickException(
            f"{settings.stage} names no HUBBUB_SECRET_PARAMETER in .chalice/config.json"
        )
    if not dry_run:
        made = secret(settings_client(settings)("ssm"), settings.secret_parameter)
        click.echo(f"{settings.secret_parameter}: {'made' if made else 'there already, left as it is'}")


def _show(change: ChangeSet, why: str) -> None:
    """Print a change set as a table."""
    click.echo(f"{change.stack}: {change.kind.lower()}, {why}")
    for one in change.changes:
        replaced = {"True": "replaced", "Conditional": "replaced if need be"}.get(one.replacement, "")
        click.echo(f"  {one.action:8}{one.resource:24}{one.kind:32}{replaced}".rstrip())


def _endpoint(settings: Settings) -> str:
    """Answer the engine that stands in for AWS, by the SDK's own variable; empty for AWS."""
    return settings.endpoint or os.environ.get("AWS_ENDPOINT_URL", "")


def _smoke(settings: Settings, urls: Any) -> None:
    """Make the checks, a line each; ClickException when one fails."""
    from chalicelib.api import auth
    from ops.aws import smoke as checks

    failed = False

    def progress(line: str) -> None:
        click.echo(f"        {line}", err=True)

    def token() -> str:
        return auth.mint(settings, "smoke", scope="admin", seconds=900)

    for check in checks.run(urls, settings, token, progress):
        word = {True: "well", False: "FAILED", None: "skipped"}[check.is_well]
        click.echo(f"{word:8}{check.name}: {check.said}")
        failed |= check.is_well is False
    if failed:
        raise click.ClickException(f"{settings.stage} at {urls.rest}/ is deployed, and not well")
    click.echo(f"{settings.stage}: {urls.rest}/ {urls.socket}")
