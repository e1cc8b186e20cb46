"""Prepares Chalice's own commands: `chalice local`, `chalice deploy` and `chalice package`.

Each of them imports app.py, which calls `prepare` first. Chalice sets AWS_CHALICE_CLI_MODE for that purpose,
and `python -m ops`, which has made its own checks, sets HUBBUB_OPS.

`chalice local` becomes a local run, whose engine, stream and page it needs. `chalice deploy` and `chalice
package` need a stage that is provisioned, and end with one sentence before Chalice has created anything.
`chalice deploy` and `chalice delete` work after an interruption.
"""

from __future__ import annotations

import os
import sys
from typing import Any

import boto3
import botocore.session
import chalice.cli
import click

from ops.aws import record
from ops.aws.account import check_other_regions, check_place
from ops.aws.bundle import link_page
from ops.aws.environment import check_environment
from ops.aws.template import table_name
from ops.stage import DATA, ROOT, find_run, read_variables


def prepare() -> None:
    """Prepare the Chalice command of this process.

    Raises: click.ClickException for a stage that cannot be deployed or packaged.
    """
    del os.environ["AWS_CHALICE_CLI_MODE"]  # a local run imports app.py too
    context = click.get_current_context(silent=True)
    if context is None:  # the worker of `chalice local` imports app.py in another thread
        context = chalice.cli.local.make_context("local", sys.argv[sys.argv.index("local") + 1 :])
    options = context.params
    if context.info_name == "local":
        become_local_run(options["port"], reloads=options["autoreload"])
    if context.info_name in ("deploy", "package"):
        check_stage(options["stage"], options["profile"])
        link_page(ROOT)
    if context.info_name == "delete":
        check_region(options["stage"], options["profile"])
    if context.info_name in ("deploy", "delete"):
        update_record(options["stage"], options["profile"], is_read=context.info_name == "deploy")


def become_local_run(port: int, *, reloads: bool) -> None:
    """Replace this process by a local run with REST on a port.

    Beside another run, or on the engine in HUBBUB_ENDPOINT, it serves REST alone. A local run watches the
    sources only. Chalice's own server would watch the data folder too, and restart after each write.
    """
    command = [sys.executable, "-m", "local", "--port", str(port)]
    run = find_run(DATA) or {}
    if engine := os.environ.get("HUBBUB_ENDPOINT") or run.get("engine"):
        command += ["--rest-only", "--engine", engine]
    else:
        command += ["--socket-port", "auto"]
    if not reloads:
        command.append("--no-reload")
    sys.stdout.flush()
    os.execv(sys.executable, command)  # noqa: S606 (our own arguments)


def check_stage(stage: str, profile: str | None) -> None:
    """Raise click.ClickException for a stage that cannot be deployed or packaged.

    It is unknown, local, not provisioned or in another region, or its variables are too long for Lambda.
    """
    try:
        variables = read_variables(stage)
    except click.BadParameter as unknown:
        raise click.ClickException(unknown.message) from None
    if stage == "local":
        raise click.ClickException("the local stage is not deployed: start it with make run")
    if not variables.get("HUBBUB_STREAM_ARN"):
        raise click.ClickException(f"{stage} is not provisioned: run make provision STAGE={stage} first")
    region = botocore.session.Session(profile=profile).get_config_variable("region")
    check_place(stage, variables, region)
    check_environment(ROOT, stage)


def check_region(stage: str, profile: str | None) -> None:
    """Raise click.ClickException for a stage that is in another region, whose roles would be deleted."""
    session, variables = boto3.session.Session(profile_name=profile), read_variables(stage)
    check_place(stage, variables, session.region_name)
    if not variables.get("HUBBUB_STREAM_ARN"):
        check_other_regions(session.client, stage, variables.get("HUBBUB_TABLE") or table_name(stage))


def update_record(stage: str, profile: str | None, *, is_read: bool) -> None:
    """Rebuild Chalice's record, which a command that broke off has left incomplete.

    Raises: click.ClickException when the record was incomplete and Chalice has read it already.
    """
    client: Any = boto3.session.Session(profile_name=profile).client
    before = record.read_record(ROOT, stage)
    record.rebuild_record(client, ROOT, stage)
    if is_read and _by_name(before) != _by_name(record.read_record(ROOT, stage)):
        raise click.ClickException(
            f"{stage} was deployed from another directory, or a deployment of it broke off. Chalice's record "
            "has what exists now: run the command again"
        )


def _by_name(resources: list[record.Resource]) -> dict[str, record.Resource]:
    return {resource["name"]: resource for resource in resources}
