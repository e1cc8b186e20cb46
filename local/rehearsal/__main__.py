"""`python -m local.rehearsal`: rehearse a whole deployment on an engine on this machine.

The rehearsal runs the commands that deploy a stage to AWS in a temporary copy of the project, with the
engine's address in `AWS_ENDPOINT_URL` and dummy credentials. Chalice's own CLI deploys, and every call goes
through the engine's API Gateway and Lambda into the functions of the zip.

Two settings differ from a deployment. The functions are built for this machine's architecture, so that the
libraries in the zip can be imported here. This works only on Linux, because Lambda's wheels are for Linux.
One site is allowed, so that its views are counted.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import boto3
import click
from botocore.config import Config

from chalicelib.settings import Settings
from local.engines import EngineUnavailable
from local.engines.engine import REGION, ROOT, Engine
from local.rehearsal import alarms, interrupts, walk
from local.rehearsal.account import start
from ops.waiting import wait_until

STAGE = "dev"
SMALL = "views"  # a stage with this feature alone
SITE = "www.example.org"
NEEDED = (
    *("app.py", "chalicelib", "web", ".chalice", "ops"),
    *("requirements.txt", "requirements.lock"),
)
ARCHITECTURES = {"x86_64": "x86_64", "amd64": "x86_64", "aarch64": "arm64", "arm64": "arm64"}


PROBE_PATIENCE = 150.0  # seconds: a probe waits a minute for its count
SCHEDULED = json.dumps(
    dict.fromkeys(("id", "source", "account", "time", "region"), "")
    | {"version": "0", "detail-type": "Scheduled Event", "resources": [], "detail": {}}
)


class RehearsalFailed(Exception):
    """A step of the rehearsal failed. The message names it."""


class Rehearsal:
    """A copy of the project, and the engine to which its commands deploy."""

    def __init__(self, root: Path, engine: Engine) -> None:
        self.root = root
        self.engine = engine
        self.environment: Mapping[str, str] = {
            **os.environ,
            "AWS_ENDPOINT_URL": engine.endpoint,
            "AWS_ACCESS_KEY_ID": "rehearsal",
            "AWS_SECRET_ACCESS_KEY": "rehearsal",
            "AWS_DEFAULT_REGION": REGION,
            "AWS_EC2_METADATA_DISABLED": "true",
            "NO_PROXY": "127.0.0.1",
            "PYTHONUNBUFFERED": "1",
        }

    def ops(self, *arguments: str, shows: bool = True) -> str:
        """Run a command of `python -m ops` and return its output. Raises RehearsalFailed when it fails."""
        if shows:
            report(f"$ python -m ops {' '.join(arguments)}")
        process = subprocess.Popen(
            [sys.executable, "-m", "ops", *arguments],
            cwd=self.root,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        lines = []
        with process:
            for line in process.stdout or ():
                lines.append(line)
                if shows:
                    report(line.rstrip("\n"))
        if process.returncode:
            for line in () if shows else lines[-20:]:
                report(line.rstrip("\n"))
            raise RehearsalFailed(f"python -m ops {' '.join(arguments)}: exit code {process.returncode}")
        return "".join(lines)

    def token(self, sub: str, *options: str, stage: str = STAGE) -> str:
        """Mint a token of a stage."""
        return self.ops("token", "--stage", stage, "--sub", sub, *options, shows=False).strip()

    def client(self, service: str) -> Any:
        """Return the engine's client for a service."""
        return self.engine.client(service)

    def patient_client(self, service: str) -> Any:
        """Return a client for calls that take up to some minutes, each of which is sent once."""
        config = Config(read_timeout=PROBE_PATIENCE, retries={"mode": "standard", "total_max_attempts": 1})
        make: Any = boto3.client
        return make(service, config=config, **Settings(endpoint=self.engine.endpoint).client_options())


def report(line: str) -> None:
    """Print a line without buffering."""
    print(line, flush=True)


def check(holds: bool, statement: str) -> None:
    """Print a statement that holds. Raises RehearsalFailed for one that does not."""
    if not holds:
        raise RehearsalFailed(statement)
    report(f"  ✓ {statement}")


def configure(root: Path) -> None:
    """Configure the stage of a copy for this machine."""
    file = root / ".chalice" / "config.json"
    config = json.loads(file.read_text())
    config["lambda_architecture"] = ARCHITECTURES[platform.machine().lower()]
    config["stages"][STAGE]["environment_variables"] |= {"HUBBUB_SITES": SITE, "HUBBUB_NOTICES": "on"}
    file.write_text(json.dumps(config))


def copy_project(root: Path) -> None:
    """Copy what a deployment needs, without the record of a deployment."""
    ignored = shutil.ignore_patterns("__pycache__", "deployed", "deployments")
    for name in NEEDED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, root / name, ignore=ignored)
        elif source.is_file():
            shutil.copy(source, root / name)


@contextlib.contextmanager
def prepare() -> Iterator[Rehearsal]:
    """Copy the project, configure its stage for this machine, and start an engine."""
    for name in [name for name in os.environ if name.startswith(("AWS_", "HUBBUB_", "POWERTOOLS_"))]:
        del os.environ[name]  # the commands and the engine's workers must not see another stage
    with (
        tempfile.TemporaryDirectory(prefix="hubbub-rehearsal-") as folder,
        start(has_functions=True) as engine,
    ):
        root = Path(folder) / "hubbub"
        root.mkdir()
        copy_project(root)
        configure(root)
        yield Rehearsal(root, engine)


def use_stage(rehearsal: Rehearsal) -> walk.Stage:
    """Use every entry point of the stage once."""
    from ops.aws import deploy

    urls = deploy.find_urls(rehearsal.root, STAGE, rehearsal.engine.endpoint)
    admin = rehearsal.token("admin-1", "--scope", "admin")
    stage = walk.Stage(*urls, SITE, rehearsal.token("player-1"), admin)
    check(True, walk.load_page(stage))
    check(True, walk.submit_score(stage))
    for statement in walk.use_sockets(stage):
        check(True, statement)
    sqs = rehearsal.client("sqs")
    url = sqs.get_queue_url(QueueName=f"hubbub-{STAGE}-views")["QueueUrl"]
    check(True, walk.send_to_queue(stage, sqs, url))
    check(True, walk.tell_team(stage, rehearsal.client("sns"), sqs))
    return stage


def inventory(rehearsal: Rehearsal) -> dict[str, int]:
    """Count the resources in the account."""
    client = rehearsal.client
    return {
        "functions": len(client("lambda").list_functions()["Functions"]),
        "mappings": len(client("lambda").list_event_source_mappings()["EventSourceMappings"]),
        "REST APIs": len(client("apigateway").get_rest_apis()["items"]),
        "socket APIs": len(client("apigatewayv2").get_apis()["Items"]),
        "roles": len(client("iam").list_roles()["Roles"]),
        "tables": len(client("dynamodb").list_tables()["TableNames"]),
        "queues": len(client("sqs").list_queues().get("QueueUrls", [])),
        "secrets": len(client("ssm").describe_parameters()["Parameters"]),
        "rules": len(client("events").list_rules()["Rules"]),
        "stacks": len(client("cloudformation").describe_stacks()["Stacks"]),
        "log groups": len(client("logs").describe_log_groups()["logGroups"]),
    }


def format_inventory(counts: Mapping[str, int]) -> str:
    """Format an inventory as one line."""
    words = [f"{number} {name if number > 1 else name[:-1]}" for name, number in counts.items() if number]
    return ", ".join(words) or "nothing"


def deploy_views_alone(rehearsal: Rehearsal) -> None:
    """Deploy a stage with one feature, and check that it has nothing of the others."""
    from ops.aws import chalice_config, deploy

    config = chalice_config.read(rehearsal.root)
    pattern = chalice_config.without_recorded(config["stages"][STAGE])
    config["stages"][SMALL] = chalice_config.rename_stage(pattern, SMALL)
    variables = {"HUBBUB_FEATURES": "views", "HUBBUB_SITES": SITE, "HUBBUB_NOTICES": "off"}
    config["stages"][SMALL]["environment_variables"] |= variables
    (rehearsal.root / chalice_config.CONFIG).write_text(chalice_config.format_config(config))
    rehearsal.ops("deploy", "--stage", SMALL, "--yes")
    found = rehearsal.client("lambda").list_functions()["Functions"]
    names = {policy["FunctionName"].removeprefix(f"hubbub-{SMALL}") for policy in found}
    check(names == {"", "-apply", "-identify", "-probe"}, "views alone are four functions")
    counts = inventory(rehearsal)
    check(not counts["socket APIs"] and counts["queues"] == 1, "there is no socket API and no queue of views")
    urls = deploy.find_urls(rehearsal.root, SMALL, rehearsal.engine.endpoint)
    stage = walk.Stage(*urls, SITE, "", rehearsal.token("admin-1", "--scope", "admin", stage=SMALL))
    check(True, walk.miss_other_features(stage))
    policies = "".join(
        path.read_text() for path in (rehearsal.root / ".chalice").glob(f"policy-*-{SMALL}.json")
    )
    unused = ("execute-api:ManageConnections", "index/gsi2", "dynamodb:ConditionCheckItem")
    check(
        not [permission for permission in unused if permission in policies],
        "no policy has a permission of another feature",
    )
    rehearsal.ops("destroy", "--stage", SMALL, "--yes", "--delete-data")


def check_limits(rehearsal: Rehearsal) -> None:
    """Check that the stages of both APIs, the table and the logs have the limits of a small stage."""
    from ops.aws import deploy

    api, name = deploy.find_rest_stage(rehearsal.root, STAGE)
    stage = rehearsal.client("apigateway").get_stage(restApiId=api, stageName=name)
    limits = stage["methodSettings"]["*/*"]
    check(
        (limits["throttlingRateLimit"], limits["throttlingBurstLimit"]) == (20, 40),
        "20 requests a second pass",
    )
    table = rehearsal.client("dynamodb").describe_table(TableName=f"hubbub-{STAGE}")["Table"]
    check(
        table["OnDemandThroughput"]["MaxWriteRequestUnits"] == 200, "the table takes 200 write units a second"
    )
    groups = rehearsal.client("logs").describe_log_groups()["logGroups"]
    check({group["retentionInDays"] for group in groups} == {30}, "logs expire after 30 days")


def clone(rehearsal: Rehearsal) -> None:
    """Run the following commands in a copy of the project without Chalice's record, as in another clone."""
    root = rehearsal.root.with_name("clone")
    shutil.copytree(rehearsal.root, root, symlinks=True, ignore=shutil.ignore_patterns("deployed"))
    rehearsal.root = root
    report("  the next commands run in a clone without Chalice's record")


def restart_stream(rehearsal: Rehearsal) -> None:
    """Disable and enable the table's stream. The mapping then points to the old stream."""
    dynamodb, table = rehearsal.client("dynamodb"), f"hubbub-{STAGE}"
    dynamodb.update_table(TableName=table, StreamSpecification={"StreamEnabled": False})
    specification = {"StreamEnabled": True, "StreamViewType": "NEW_AND_OLD_IMAGES"}
    dynamodb.update_table(TableName=table, StreamSpecification=specification)
    report("  the table's stream was disabled and enabled")


def rehearse(rehearsal: Rehearsal, loses_stream: bool) -> None:
    """Deploy, use, deploy again, destroy, import the retained resources, and destroy with all data.

    Then do the same with a stage of views alone.
    """
    rehearsal.ops("deploy", "--stage", STAGE, "--yes", "--queue")
    stage = use_stage(rehearsal)
    check_limits(rehearsal)
    before, seen = inventory(rehearsal), stage.views("live")
    clone(rehearsal)
    rehearsal.ops("deploy", "--stage", STAGE, "--yes")
    check(inventory(rehearsal) == before, f"no resource is duplicated: {format_inventory(before)}")
    check(stage.views("live") == seen, f"the data is kept: {seen} view of the page")
    if loses_stream:
        restart_stream(rehearsal)
        rehearsal.ops("deploy", "--stage", STAGE, "--yes")
        check(inventory(rehearsal) == before, "the new stream has the one mapping")
    rehearsal.ops("destroy", "--stage", STAGE, "--yes")
    report(f"  left: {format_inventory(inventory(rehearsal))}")
    rehearsal.ops("provision", "--stage", STAGE, "--yes")
    rehearsal.ops("destroy", "--stage", STAGE, "--yes", "--delete-data")
    check(not any(inventory(rehearsal).values()), "nothing is left")
    deploy_views_alone(rehearsal)
    check(not any(inventory(rehearsal).values()), "nothing is left")


def rehearse_restore(rehearsal: Rehearsal) -> None:
    """Restore the table while a view is in the stream. The stage moves to the restored table and counts it.

    The engine restores the present data, whatever the time.
    """
    from ops.aws import deploy
    from ops.aws.restore import target_name

    rehearsal.ops("deploy", "--stage", STAGE, "--yes", shows=False)
    urls = deploy.find_urls(rehearsal.root, STAGE, rehearsal.engine.endpoint)
    stage = walk.Stage(*urls, SITE, "", rehearsal.token("admin-1", "--scope", "admin"))
    before = inventory(rehearsal)
    stop_counting(rehearsal)
    stage.call("POST", "/views", stage.view("live", "in-flight"))
    check(stage.views("live") == 0, "a view is in the stream and not counted")
    moment = datetime.now(UTC)
    command = ("restore", "--stage", STAGE, "--to", moment.isoformat(), "--yes", "--settle", "1")
    rehearsal.ops(*command)
    check(stage.views("live") == 1, "the repair has counted it")
    check(inventory(rehearsal) == {**before, "tables": 2}, "only a table has been added")
    dynamodb, restored = rehearsal.client("dynamodb"), target_name(STAGE, moment)
    [mapping] = rehearsal.client("lambda").list_event_source_mappings(FunctionName=f"hubbub-{STAGE}-apply")[
        "EventSourceMappings"
    ]
    check(f":table/{restored}/stream/" in mapping["EventSourceArn"], "its stream is counted")
    stage.call("POST", "/views", stage.view("live", "later"))
    wait_until(lambda: stage.views("live") == 2, "a later view is counted", walk.PATIENCE)
    former = dynamodb.scan(TableName=f"hubbub-{STAGE}", Select="COUNT")["Count"]
    rehearsal.ops(*command, shows=False)
    check(inventory(rehearsal) == {**before, "tables": 2}, "the same restore again changes nothing")
    check(dynamodb.scan(TableName=f"hubbub-{STAGE}", Select="COUNT")["Count"] == former, "the former is kept")
    rehearsal.ops("destroy", "--stage", STAGE, "--yes", "--delete-data")
    dynamodb.delete_table(TableName=f"hubbub-{STAGE}")
    check(not any(inventory(rehearsal).values()), "nothing is left")


def stop_counting(rehearsal: Rehearsal, *, is_enabled: bool = False) -> None:
    """Disable the mapping of `apply`, or enable it again."""
    functions = rehearsal.client("lambda")
    found = functions.list_event_source_mappings(FunctionName=f"hubbub-{STAGE}-apply")
    [mapping] = found["EventSourceMappings"]
    functions.update_event_source_mapping(UUID=mapping["UUID"], Enabled=is_enabled)


def rehearse_alarm(rehearsal: Rehearsal) -> None:
    """Disable the mapping. The alarm stream-lag then fires, and ends when the mapping is enabled again."""
    rehearsal.ops("deploy", "--stage", STAGE, "--yes", shows=False)
    cloudwatch = rehearsal.client("cloudwatch")
    [alarm] = cloudwatch.describe_alarms(AlarmNames=[f"hubbub-{STAGE}-stream-lag"])["MetricAlarms"]

    functions = rehearsal.patient_client("lambda")
    began = datetime.now(UTC) - timedelta(minutes=5)

    def run_probe() -> float:
        """Run the probe as its schedule does, and return what it adds to the metric of the alarm."""
        before = alarms.read_sum(cloudwatch, alarm, began)
        functions.invoke(FunctionName=f"hubbub-{STAGE}-probe", Payload=SCHEDULED)
        return alarms.read_sum(cloudwatch, alarm, began) - before

    good = run_probe()
    check(alarms.evaluate(alarm, [good] * 3) == "OK", "the probe is counted: no alarm")
    stop_counting(rehearsal)
    report("  the mapping of apply is disabled")
    bad = run_probe()
    check(alarms.evaluate(alarm, [good, good, bad]) == "OK", "one late probe is no alarm")
    check(alarms.evaluate(alarm, [good, bad, bad]) == "ALARM", "two late probes are the alarm stream-lag")
    check(alarms.evaluate(alarm, [good, None, None]) == "ALARM", "and so are two probes that did not run")
    stop_counting(rehearsal, is_enabled=True)
    wait_until(lambda: run_probe() == good, "the probe is counted again", PROBE_PATIENCE)
    check(True, "after the mapping is enabled, the probe is counted again")
    rehearsal.ops("destroy", "--stage", STAGE, "--yes", "--delete-data", shows=False)
    check(not any(inventory(rehearsal).values()), "nothing is left")


def rehearse_interrupts(rehearsal: Rehearsal, is_every_call: bool) -> None:
    """Interrupt Chalice after its calls. The next command completes its work, from any directory."""
    rehearsal.ops("provision", "--stage", STAGE, "--yes", "--queue", shows=False)
    chalice = interrupts.Chalice(rehearsal.root, STAGE, rehearsal.environment, rehearsal.client)
    for line in interrupts.interrupt_everywhere(
        chalice, lambda: inventory(rehearsal), is_every_call=is_every_call
    ):
        check(True, line)
    rehearsal.ops("destroy", "--stage", STAGE, "--yes", "--delete-data")
    check(not any(inventory(rehearsal).values()), "nothing is left")


@click.command()
@click.option(
    "--loses-stream", is_flag=True, help="Also disable and enable the table's stream, and repair its mapping."
)
@click.option(
    "--interrupts",
    "after",
    type=click.Choice(["operations", "calls"]),
    help="Only interrupt Chalice, after each kind of call (2 minutes) or after each call (20 minutes).",
)
@click.option("--restores", is_flag=True, help="Only restore the table of a stage.")
@click.option("--alarms", "fires", is_flag=True, help="Only stop counting, and check that the alarm fires.")
def main(loses_stream: bool, after: str | None, restores: bool, fires: bool) -> None:
    """Rehearse a deployment on an engine on this machine."""
    started = time.monotonic()
    try:
        with prepare() as rehearsal:
            if after:
                rehearse_interrupts(rehearsal, after == "calls")
            elif restores:
                rehearse_restore(rehearsal)
            elif fires:
                rehearse_alarm(rehearsal)
            else:
                rehearse(rehearsal, loses_stream)
    except (RehearsalFailed, EngineUnavailable, AssertionError, OSError, ValueError) as error:
        raise click.ClickException(str(error)) from error
    report(f"rehearsed in {time.monotonic() - started:.0f} s")


if __name__ == "__main__":
    main()
