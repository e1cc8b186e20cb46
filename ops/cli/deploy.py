"""The commands that deploy a stage to AWS and delete it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ops.cli.options import SETTLE, YES, settings_client

if TYPE_CHECKING:
    from chalicelib.settings import Settings
    from ops.aws.cloudformation import ChangeSet
    from ops.aws.provision import Clients

STAGE = click.option("--stage", required=True, help="The stage.")
NEW_STAGE = click.option("--stage", required=True, help="The stage. A new stage is created as a copy of dev.")
PARAMETER = click.option(
    "--parameter", "pairs", multiple=True, metavar="NAME=VALUE", help="Set a parameter of the template."
)
QUEUE = click.option(
    "--queue/--no-queue", default=None, help="Send views through a queue or not.  [default: unchanged]"
)


@click.command()
@NEW_STAGE
@YES
@PARAMETER
@QUEUE
@click.option("--dry-run", is_flag=True, help="Show the change set and change nothing.")
@click.option("--only-secret", is_flag=True, help="Create only the secret. A pipeline's stack has the rest.")
def provision(
    stage: str, yes: bool, pairs: tuple[str, ...], queue: bool | None, dry_run: bool, only_secret: bool
) -> None:
    """Create or update a stage's table, queues, alarms and secret, and record them for Chalice.

    Shows each change set before it is executed. Idempotent. Exit code 1: a change was refused or failed.
    """
    settings, clients = _prepared(stage, makes=not dry_run, yes=yes, queue=queue)
    if only_secret:
        _secret(settings, dry_run)
        return
    _provision(settings, clients, pairs, yes, dry_run)


@click.command()
@NEW_STAGE
@YES
@PARAMETER
@QUEUE
def deploy(stage: str, yes: bool, pairs: tuple[str, ...], queue: bool | None) -> None:
    """Provision a stage, deploy it with Chalice, configure its event sources and test it."""
    settings, clients = _prepared(stage, makes=True, yes=yes, queue=queue)
    _deploy(settings, clients, pairs, yes)


def _deploy(settings: Settings, clients: Clients, pairs: Sequence[str], yes: bool) -> None:
    """Provision, deploy, configure and test a stage."""
    from ops.aws import bundle, chalice_config, cloudformation, domains, event_sources, firewall, record
    from ops.aws import deploy as deploys
    from ops.aws import provision as work
    from ops.stage import ROOT

    stage, functions = settings.stage, settings_client(settings)("lambda")
    if warning := deploys.check_concurrency(functions):
        click.echo(f"WARNING: {warning}", err=True)
    settings = _provision(settings, clients, pairs, yes, False)
    wanted = event_sources.expect_mappings(clients, settings)
    for mapping in event_sources.delete_stale(functions, wanted):
        click.echo(f"{mapping.function}: {mapping.problem}: mapping deleted")
        command = f".venv/bin/python -m ops repair --stage {stage}"
        click.echo(f"  records that it had not read are not counted; run {command}")
    bundle.bundle(ROOT, stage)
    record.rebuild_record(settings_client(settings), ROOT, stage)
    deploys.run_chalice(ROOT, "deploy", "--stage", stage)
    urls = deploys.find_urls(ROOT, stage, _endpoint(settings))
    names = domains.find(ROOT, stage)
    if chalice_config.record_variables(
        ROOT, stage, {chalice_config.SOCKET: names.socket_address or urls.socket}
    ):
        # The functions need the socket address, which only the first deployment creates.
        deploys.run_chalice(ROOT, "deploy", "--stage", stage)
    for line in domains.list_records(settings_client(settings)("apigatewayv2"), names):
        click.echo(f"set this DNS record: {line}")
    if acl := firewall.find_acl(clients.cloudformation, work.stack_name(stage)):
        wafv2 = settings_client(settings)("wafv2")
        if firewall.attach(wafv2, acl, firewall.stage_arn(wafv2, *deploys.find_rest_stage(ROOT, stage))):
            click.echo("requests per address are limited (AddressLimit in docs/deployment.md)")
    for mapping in event_sources.configure(functions, wanted):
        click.echo(f"{mapping.function}: set {mapping.problem}")
    outputs = cloudformation.read_outputs(clients.cloudformation, work.stack_name(stage))
    deploys.set_throttling(settings_client(settings), ROOT, stage, outputs)
    click.echo(f"all clients together may send {outputs['RequestRate']} requests a second")
    if left := event_sources.find_drift(functions, wanted):
        raise click.ClickException("\n".join(f"{mapping.function}: {mapping.problem}" for mapping in left))
    _smoke(settings, urls)


@click.command()
@STAGE
@click.option("--to", "revision", required=True, help="The git revision to deploy, such as a tag or HEAD~1.")
@YES
def rollback(stage: str, revision: str, yes: bool) -> None:
    """Deploy an earlier version of the code to a stage. Its data and its variables stay.

    For stages that `ops deploy` has deployed. A pipeline deploys the earlier revision by itself.
    """
    from ops.aws import rollback as work
    from ops.stage import ROOT, read_variables

    read_variables(stage)  # raises for an unknown stage
    if not yes:
        click.confirm(f"Deploy {revision} to {stage}?", abort=True)
    work.roll_back(ROOT, stage, revision)


def _moment(ctx: click.Context, parameter: click.Parameter, text: str) -> datetime:
    with contextlib.suppress(ValueError):
        moment = datetime.fromisoformat(text).replace(microsecond=0)
        if moment.tzinfo:
            return moment
    raise click.BadParameter(f"{text!r} is not a time with its zone, such as 2026-11-25T12:00:00Z")


@click.command()
@STAGE
@click.option(
    "--to",
    "moment",
    required=True,
    metavar="TIME",
    callback=_moment,
    help="The time, such as 2026-11-25T12:00:00Z.",
)
@YES
@SETTLE
def restore(stage: str, moment: datetime, yes: bool, settle: float) -> None:
    """Restore a stage's table to a time of the last 35 days, and move the stage to the restored table.

    DynamoDB restores into a new table, which takes up to some hours. Then the stage is deployed with it, and
    its sums are repaired, because changes that were in the stream at that time are not counted. The former
    table is kept with all later writes. Safe to interrupt and run again. Exit code 1: a step failed.
    """
    from ops.aws import chalice_config
    from ops.aws import restore as work
    from ops.cli.maintenance import recount
    from ops.stage import ROOT, read_variables

    if stage != "local":
        read_variables(stage, ROOT)  # raises for an unknown stage
    settings, clients = _prepared(stage, makes=True)
    former, target = settings.table, work.target_name(stage, moment)
    if former != target:
        work.check_moment(clients.dynamodb, former, moment)
        if not yes:
            click.confirm(
                f"Restore {former} as {target}, and move {stage} to it? {stage} loses later writes, which "
                f"{former} keeps.",
                abort=True,
            )
        click.echo(f"{target}: restoring, which may take hours")
        work.restore(clients.dynamodb, former, target, moment)
        chalice_config.record_variables(ROOT, stage, {"HUBBUB_TABLE": target})
        os.environ["HUBBUB_TABLE"] = target
        settings = settings._replace(table=target)
        chalice_config.localize_policies(ROOT, settings, clients.cloudformation.meta.partition)
        click.echo(f"{stage}: recorded its table in .chalice/config.json; {former} is kept")
    _deploy(settings, clients, (), True)
    recount(stage, settle, as_json=False, repairs=True)


@click.command()
@STAGE
@click.option("--url", help="The URL of the REST API.  [default: from Chalice's record]")
@click.option("--socket-url", help="The URL of the WebSocket API, unless the stage has no chat.")
def smoke(stage: str, url: str | None, socket_url: str | None) -> None:
    """Test a deployed stage through its URLs: REST, counting a view, an admin token, a socket."""
    from ops.aws import deploy as deploys
    from ops.aws import record
    from ops.stage import ROOT, load

    settings = load(stage, ROOT)
    if settings.has("chat") and bool(url) != bool(socket_url):
        raise click.UsageError("--url and --socket-url must be given together")
    if not url:
        record.rebuild_record(settings_client(settings), ROOT, stage, deletes=False)
    found = (
        deploys.Urls(url.rstrip("/"), (socket_url or "").rstrip("/"))
        if url
        else deploys.find_urls(ROOT, stage, _endpoint(settings))
    )
    _smoke(settings, found)


@click.command()
@STAGE
@YES
@click.option(
    "--delete-data", is_flag=True, help="Also delete table, queues and secret. This cannot be undone."
)
def destroy(stage: str, yes: bool, delete_data: bool) -> None:
    """Delete a stage. Its table, queues and secret are kept unless --delete-data is given.

    The next provision adopts the kept resources.
    """
    from ops.aws import chalice_config, cloudformation, firewall, provision, record
    from ops.aws import deploy as deploys
    from ops.aws.template import definition
    from ops.stage import ROOT

    settings, clients = _prepared(stage)
    scope = f"{stage} and ALL ITS DATA" if delete_data else f"{stage}; its data is kept"
    if not yes and click.prompt(f"This deletes {scope}. Enter the stage's name to confirm") != stage:
        raise click.ClickException("the name does not match; nothing deleted")
    acl = firewall.find_acl(clients.cloudformation, provision.stack_name(stage))
    firewall.detach(settings_client(settings)("wafv2"), acl)
    if record.rebuild_record(settings_client(settings), ROOT, stage):
        deploys.run_chalice(ROOT, "delete", "--stage", stage)
    cloudformation.delete(clients.cloudformation, provision.stack_name(stage))
    click.echo(f"{provision.stack_name(stage)}: deleted")
    if not delete_data:
        click.echo(f"{settings.table}: kept, with its data")
        return
    wanted = definition(stage)
    queues = [str(queue["QueueName"]) for queue in (wanted.views_queue, wanted.views_dead_letters)]
    deploys.delete_data(settings_client(settings), settings.table, queues, settings.secret_parameter)
    chalice_config.record_variables(
        ROOT, stage, dict.fromkeys((*chalice_config.RECORDED, chalice_config.SOCKET), "")
    )
    click.echo(f"{settings.table}: deleted, with its data")


@click.command()
@NEW_STAGE
@click.argument("output", type=click.Path(file_okay=False, path_type=Path), default="out")
def package(stage: str, output: Path) -> None:
    """Write a stage as one stack for `aws cloudformation package`: sam.yaml and deployment.zip."""
    from ops.aws import chalice_config, domains
    from ops.aws import package as packages
    from ops.aws.account import check_place
    from ops.aws.environment import check_environment
    from ops.stage import ROOT, read_variables

    region, partition = packages.find_region()
    check_place(stage, read_variables(stage, ROOT), region)  # an unknown stage is refused too
    check_environment(ROOT, stage)
    domains.check(ROOT, stage, region)
    chalice_config.ensure_stage(ROOT, stage)
    chalice_config.localize_policies(ROOT, chalice_config.read_settings(ROOT, stage), partition)
    packages.package(ROOT, stage, output)
    click.echo(f"{output}: wrote sam.yaml and deployment.zip")


@click.command()
def lock() -> None:
    """Write the locks of requirements*.txt: the deployed libraries and the tools that deploy them."""
    from ops.aws import lock as locks
    from ops.stage import ROOT

    for libraries in locks.LOCKED:
        for requirement in locks.write(ROOT, libraries):
            click.echo(f"{requirement.name} {requirement.version}: {len(requirement.hashes)} wheels")


def _prepared(
    stage: str, *, makes: bool = False, yes: bool = True, queue: bool | None = None
) -> tuple[Settings, Clients]:
    """Load a stage's configuration, and create the clients.

    `makes` writes the stage's policies, and creates a new stage after confirmation. Nothing is written before
    the name, the credentials and the region are checked.
    """
    from chalicelib.settings import Settings
    from ops.aws import chalice_config, domains
    from ops.aws.account import check_account
    from ops.aws.environment import check_environment
    from ops.aws.provision import Clients
    from ops.stage import ROOT, load, read_variables

    if stage == "local":
        raise click.ClickException(
            "the local stage is not deployed: make run starts it, and make run ARGS=--fresh empties it"
        )
    is_new = makes and not chalice_config.is_stage(ROOT, stage)
    session = settings_client(Settings(endpoint=os.environ.get("HUBBUB_ENDPOINT", "")))
    check_account(session, stage, {} if is_new else read_variables(stage, ROOT))
    if makes:
        check_environment(ROOT, stage)
        domains.check(ROOT, stage, session("sts").meta.region_name)
    if is_new and not yes:
        click.confirm(f"There is no stage {stage}. Create it as a copy of dev?", abort=True)
    if makes and chalice_config.ensure_stage(ROOT, stage):
        click.echo(f"{stage}: created as a copy of dev in .chalice/config.json; set HUBBUB_SITES there")
    if makes and queue is not None:
        chalice_config.record_variables(ROOT, stage, {"HUBBUB_QUEUE": "on" if queue else ""})
        chalice_config.ensure_stage(ROOT, stage)  # its function and permissions
    settings = load(stage, ROOT)
    client = settings_client(settings)
    clients = Clients(client("cloudformation"), client("dynamodb"), client("sqs"))
    if makes:
        chalice_config.localize_policies(ROOT, settings, clients.cloudformation.meta.partition)
    return settings, clients


def _provision(
    settings: Settings, clients: Clients, pairs: Sequence[str], yes: bool, dry_run: bool
) -> Settings:
    """Provision a stage, record its resources, and return the settings with them."""
    from ops import costs
    from ops.aws import chalice_config, cloudformation, features, firewall
    from ops.aws import provision as work
    from ops.stage import ROOT

    stage = settings.stage
    _secret(settings, dry_run)
    parameters = dict(pair.split("=", 1) for pair in pairs if "=" in pair)
    if len(parameters) != len(pairs):
        raise click.BadParameter("--parameter: must be NAME=VALUE, with each name once")
    parameters["TableName"] = settings.table
    if settings.queue:
        parameters["Queue"] = "on"
    parameters["Notices"] = features.notices_parameter(settings)

    functions = chalice_config.list_functions(ROOT, stage)

    def approve(change: ChangeSet, why: str) -> bool:
        _show(change, why)
        if change.kind == "CREATE":
            is_full = parameters.get("Size") == "full"
            assumed = costs.Assumed(is_full=is_full, queue=settings.queue, chat="sweep" in functions)
            click.echo(f"{stage}: {costs.describe_idle(assumed)}")
        if not dry_run and not (yes or click.confirm("Execute it?")):
            raise click.Abort
        if not dry_run and firewall.removes(change):
            acl = firewall.find_acl(clients.cloudformation, change.stack)
            firewall.detach(settings_client(settings)("wafv2"), acl)
        return not dry_run

    if not work.provision(clients, stage, parameters, approve, functions):
        click.echo(f"{work.stack_name(stage)}: no changes")
    if dry_run:
        return settings
    found = work.find_resources(clients, settings)
    outputs = cloudformation.read_outputs(clients.cloudformation, work.stack_name(stage))
    variables = {
        "HUBBUB_STREAM_ARN": found.stream_arn,
        "HUBBUB_QUEUE_URL": found.queue_url,
        "HUBBUB_NOTICE_TOPIC": outputs.get("NoticeTopicArn", ""),
        "HUBBUB_SIZE": (size := outputs["Size"]),
    }
    if chalice_config.record_variables(ROOT, stage, variables):
        click.echo(f"{stage}: recorded its stream, queue and size in .chalice/config.json")
    return settings._replace(stream_arn=found.stream_arn, queue_url=found.queue_url, is_full=size == "full")


def _secret(settings: Settings, dry_run: bool) -> None:
    """Create the stage's secret unless it exists, and print which."""
    from ops.aws.provision import create_secret

    if not settings.secret_parameter:
        raise click.ClickException(
            f"HUBBUB_SECRET_PARAMETER is not set for {settings.stage} in .chalice/config.json"
        )
    if not dry_run:
        made = create_secret(settings_client(settings)("ssm"), settings.secret_parameter)
        click.echo(f"{settings.secret_parameter}: {'created' if made else 'exists, unchanged'}")


def _show(change: ChangeSet, why: str) -> None:
    """Print a change set as a table."""
    click.echo(f"{change.stack}: {change.kind.lower()}: {why}")
    for changed in change.changes:
        replaced = {"True": "replaced", "Conditional": "may be replaced"}.get(changed.replacement, "")
        click.echo(f"  {changed.action:8}{changed.resource:24}{changed.kind:32}{replaced}".rstrip())


def _endpoint(settings: Settings) -> str:
    """Return the address of an engine that replaces AWS; empty for AWS."""
    return settings.endpoint or os.environ.get("AWS_ENDPOINT_URL", "")


def _smoke(settings: Settings, urls: Any) -> None:
    """Run the smoke tests and print changed line each. Raises ClickException when changed fails."""
    from chalicelib.api import auth
    from ops.aws import smoke as checks

    failed = False

    def progress(line: str) -> None:
        click.echo(f"        {line}", err=True)

    def token() -> str:
        return auth.mint(settings, "smoke", scope="admin", seconds=900)

    for check in checks.run_checks(urls, settings, token, progress):
        word = {True: "ok", False: "FAILED", None: "skipped"}[check.passed]
        click.echo(f"{word:8}{check.name}: {check.detail}")
        failed |= check.passed is False
    if failed:
        raise click.ClickException(f"{settings.stage} is deployed at {urls.rest}/, but a smoke test failed")
    click.echo(f"{settings.stage}: {urls.rest}/ {urls.socket}".rstrip())


COMMANDS = (provision, deploy, restore, rollback, smoke, destroy, package, lock)
