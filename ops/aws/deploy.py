"""Deploy a stage with the Chalice CLI, configure what Chalice does not, and delete a stage."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import click
from botocore.exceptions import ClientError

from ops.aws.record import read_record, record_path

CHALICE = (sys.executable, "-c", "import sys; from chalice.cli import main; sys.exit(main())")
MIN_CONCURRENCY = 100  # concurrent executions; a new account may have 10


class Urls(NamedTuple):
    """The URLs of a stage's REST API and WebSocket API."""

    rest: str
    socket: str


def run_chalice(root: Path, *arguments: str) -> None:
    """Run a Chalice command in the project.

    Chalice reads the stage's variables itself, so this process's variables, which may be outdated, are
    removed.

    Raises: ClickException when the command fails. Chalice has printed the reason.
    """
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HUBBUB_")}
    environment["PYTHONDONTWRITEBYTECODE"] = "1"  # Chalice would package bytecode as source
    environment["HUBBUB_OPS"] = "1"
    sys.stdout.flush()
    done = subprocess.run([*CHALICE, *arguments], cwd=root, env=environment, check=False)  # noqa: S603 (our own arguments)
    if done.returncode:
        raise click.ClickException(
            f"chalice {' '.join(arguments)} failed; correct the cause and run this again"
        )


def find_urls(root: Path, stage: str, endpoint: str = "") -> Urls:
    """Return the URLs of a deployed stage, or those of an engine at `endpoint`.

    The URL of the sockets is empty for a stage without the feature chat.

    Raises: ClickException when the stage is not deployed.
    """
    found = {resource["resource_type"]: resource for resource in read_record(root, stage)}
    if "rest_api" not in found:
        raise click.ClickException(f"{stage} is not deployed: {record_path(root, stage)} has no API")
    rest, socket = found["rest_api"], found.get("websocket_api")
    if endpoint:
        base = f"{endpoint.rstrip('/')}/_aws/execute-api"
        name = rest["rest_api_url"].rstrip("/").rpartition("/")[2]
        socket_base = base.replace("http", "ws", 1)
        return Urls(
            f"{base}/{rest['rest_api_id']}/{name}",
            f"{socket_base}/{socket['websocket_api_id']}/{name}" if socket else "",
        )
    return Urls(rest["rest_api_url"].rstrip("/"), socket["websocket_api_url"].rstrip("/") if socket else "")


def find_rest_stage(root: Path, stage: str) -> tuple[str, str]:
    """Return the id of a stage's REST API and the name of the API's own stage."""
    [api] = [resource for resource in read_record(root, stage) if resource["resource_type"] == "rest_api"]
    return str(api["rest_api_id"]), str(api["rest_api_url"].rstrip("/").rpartition("/")[2])


def check_concurrency(client: Any) -> str:
    """Return a warning if the account's quota of concurrent executions is too low; empty otherwise.

    The quota of a new account may be 10, shared by all its functions, and one page view can use them all.
    Source: AWS Lambda Developer Guide, Lambda quotas. There is no warning without permission to read it.
    """
    try:
        limit = int(client.get_account_settings()["AccountLimit"]["ConcurrentExecutions"])
    except (ClientError, KeyError):
        return ""
    if limit >= MIN_CONCURRENCY:
        return ""
    return (
        f"this account's quota is {limit} concurrent executions, less than {MIN_CONCURRENCY}; visitors will "
        "get 503 or 429. Request an increase in Service Quotas: AWS Lambda, Concurrent executions"
    )


def set_throttling(client: Callable[[str], Any], root: Path, stage: str, outputs: Mapping[str, str]) -> None:
    """Limit the requests and frames of a stage, of all clients together, as the stack's outputs say.

    Chalice has no setting for this. Sources: Amazon API Gateway Developer Guide, "Throttle requests to your
    REST APIs", and the patch operations of update-stage.
    """
    api, name = find_rest_stage(root, stage)
    limits = {"rateLimit": outputs["RequestRate"], "burstLimit": outputs["RequestBurst"]}
    client("apigateway").update_stage(
        restApiId=api,
        stageName=name,
        patchOperations=[
            {"op": "replace", "path": f"/*/*/throttling/{limit}", "value": value}
            for limit, value in limits.items()
        ],
    )
    for socket in (
        resource for resource in read_record(root, stage) if resource["resource_type"] == "websocket_api"
    ):
        rate = int(outputs["FrameRate"])
        client("apigatewayv2").update_stage(
            ApiId=socket["websocket_api_id"],
            StageName=name,
            DefaultRouteSettings={"ThrottlingRateLimit": rate, "ThrottlingBurstLimit": rate},
        )


def delete_data(client: Callable[[str], Any], table: str, queues: list[str], secret: str) -> None:
    """Delete the table, the queues and the secret of a stage. This cannot be undone.

    DynamoDB keeps a backup of a table with point-in-time recovery for 35 days. Missing resources are ignored.
    """
    dynamodb, sqs, ssm = client("dynamodb"), client("sqs"), client("ssm")
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
