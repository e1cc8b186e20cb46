"""Deploys a stage with the Chalice CLI, does what it leaves undone, and takes everything away again."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import click
from botocore.exceptions import ClientError

from ops.aws import chalice_config

CHALICE = (sys.executable, "-c", "from chalice.cli import main; main()")
LOGS = "/aws/lambda/"
MIN_CONCURRENCY = 100  # functions at once; a new account may have 10


class Urls(NamedTuple):
    """Where a stage's calls and sockets go."""

    rest: str
    socket: str


def run_chalice(root: Path, *arguments: str) -> None:
    """Run a command of Chalice in the project; ClickException when it fails, which it has explained itself.

    It reads the stage's variables by itself: what this process has of them is of before.
    """
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HUBBUB_")}
    environment["PYTHONDONTWRITEBYTECODE"] = "1"  # it would package the bytecode as code of ours
    sys.stdout.flush()
    done = subprocess.run([*CHALICE, *arguments], cwd=root, env=environment, check=False)  # noqa: S603 (our own arguments)
    if done.returncode:
        raise click.ClickException(f"chalice {' '.join(arguments)} failed: run it again when it is mended")


def record_path(root: Path, stage: str) -> Path:
    """Name the file in which Chalice writes down what it has deployed."""
    return root / ".chalice" / "deployed" / f"{stage}.json"


def read_record(root: Path, stage: str) -> list[dict[str, Any]]:
    """Read what Chalice has deployed; nothing when it never has."""
    path = record_path(root, stage)
    return list(json.loads(path.read_text(encoding="utf-8"))["resources"]) if path.exists() else []


def forget_mapping(root: Path, stage: str, mapping: str) -> None:
    """Take a mapping that was deleted out of Chalice's record, so that the next deploy makes another."""
    path = record_path(root, stage)
    if path.exists():
        record = json.loads(path.read_text(encoding="utf-8"))
        record["resources"] = [one for one in record["resources"] if one.get("event_uuid") != mapping]
        chalice_config.write_atomically(path, json.dumps(record, indent=2) + "\n")


def list_functions(root: Path, stage: str) -> list[str]:
    """Name the functions of a stage, as Chalice does."""
    config = chalice_config.read(root)
    names = config["stages"][stage]["lambda_functions"]
    app = f"{config['app_name']}-{stage}"
    return [app if name == "api_handler" else f"{app}-{name}" for name in names]


def check_record(functions_of: Any, root: Path, stage: str) -> None:
    """Raise ClickException when the stage is deployed and Chalice has no record of it here.

    It would make a second API beside the first, and could delete neither.
    """
    if read_record(root, stage):
        return
    for name in list_functions(root, stage):
        with contextlib.suppress(functions_of.exceptions.ResourceNotFoundException):
            functions_of.get_function_configuration(FunctionName=name)
            raise click.ClickException(
                f"{name} is deployed, and not from here: bring {record_path(root, stage).name} from where it "
                f"is to .chalice/deployed/ first"
            )


def find_urls(root: Path, stage: str, endpoint: str = "") -> Urls:
    """Say where the stage answers; on an engine at `endpoint`, by the paths that it has for it.

    ClickException when the stage is not deployed.
    """
    found = {one["resource_type"]: one for one in read_record(root, stage)}
    if not {"rest_api", "websocket_api"} <= set(found):
        raise click.ClickException(
            f"{stage} is not deployed from here: there is no {record_path(root, stage)}"
        )
    rest, socket = found["rest_api"], found["websocket_api"]
    if endpoint:
        base = f"{endpoint.rstrip('/')}/_aws/execute-api"
        name = rest["rest_api_url"].rstrip("/").rpartition("/")[2]
        socket_base = base.replace("http", "ws", 1)
        return Urls(
            f"{base}/{rest['rest_api_id']}/{name}", f"{socket_base}/{socket['websocket_api_id']}/{name}"
        )
    return Urls(rest["rest_api_url"].rstrip("/"), socket["websocket_api_url"].rstrip("/"))


def find_rest_stage(root: Path, stage: str) -> tuple[str, str]:
    """Return the id of a stage's REST API, and the name of the API's own stage."""
    [api] = [one for one in read_record(root, stage) if one["resource_type"] == "rest_api"]
    return str(api["rest_api_id"]), str(api["rest_api_url"].rstrip("/").rpartition("/")[2])


def check_concurrency(functions_of: Any) -> str:
    """Say that an account may run too few functions at once; empty when it may run enough.

    A new account's quota may be 10 concurrent executions, shared by all its functions: one page view can use
    them all. Source: AWS Lambda Developer Guide, Lambda quotas. An account that may not read its settings is
    not warned.
    """
    try:
        limit = int(functions_of.get_account_settings()["AccountLimit"]["ConcurrentExecutions"])
    except (ClientError, KeyError):
        return ""
    if limit >= MIN_CONCURRENCY:
        return ""
    return (
        f"this account may run {limit} functions at once, fewer than {MIN_CONCURRENCY}: visitors will get 503 or 429. "
        "Ask for more in Service Quotas: AWS Lambda, Concurrent executions"
    )


def set_log_retention(logs: Any, names: list[str], days: int) -> Iterator[str]:
    """Let the functions' logs expire after so many days; name those for which that was not so.

    Chalice's own setting names the wrong log group for the REST function, and a group that Lambda makes by
    itself keeps its lines for ever.
    """
    for name in names:
        group = LOGS + name
        there = {
            one["logGroupName"]: one
            for one in logs.describe_log_groups(logGroupNamePrefix=group)["logGroups"]
        }
        if group not in there:
            logs.create_log_group(logGroupName=group)
        if there.get(group, {}).get("retentionInDays") != days:
            logs.put_retention_policy(logGroupName=group, retentionInDays=days)
            yield name


def delete_data(
    client: Callable[[str], Any], table: str, queues: list[str], secret: str, names: list[str]
) -> None:
    """Delete the table, the queues, the secret and the functions' logs of a stage. There is no undo.

    Of a table with point-in-time recovery DynamoDB itself keeps a backup for 35 days. What is not there is no
    harm.
    """
    dynamodb, sqs, ssm, logs = client("dynamodb"), client("sqs"), client("ssm"), client("logs")
    patience: Any = {"Delay": 2, "MaxAttempts": 90}
    with contextlib.suppress(dynamodb.exceptions.ResourceNotFoundException):
        if dynamodb.describe_table(TableName=table)["Table"].get("DeletionProtectionEnabled"):
            dynamodb.update_table(TableName=table, DeletionProtectionEnabled=False)
            dynamodb.get_waiter("table_exists").wait(TableName=table, WaiterConfig=patience)
        dynamodb.delete_table(TableName=table)
        dynamodb.get_waiter("table_not_exists").wait(TableName=table, WaiterConfig=patience)
    for name in queues:
        with contextlib.suppress(sqs.exceptions.QueueDoesNotExist):
            sqs.delete_queue(QueueUrl=sqs.get_queue_url(QueueName=name)["QueueUrl"])
    if secret:
        ssm.delete_parameters(Names=[secret])
    for name in names:
        with contextlib.suppress(logs.exceptions.ResourceNotFoundException):
            logs.delete_log_group(logGroupName=LOGS + name)
