"""The permissions of each function: those of its policy, and those that its calls in the tests need.

`watch` patches the SDK to record each call for the function whose handler runs, in every thread.
test_permissions.py compares the policies with the calls of all functions. On an engine with the policies
(`enforce`), a function's calls are signed by a user with only this function's policy.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import pytest
from botocore.client import BaseClient
from botocore.credentials import Credentials, ReadOnlyCredentials
from chalice.app import Chalice, ChaliceAuthorizer, EventSourceHandler, WebsocketEventSourceHandler

from local.engines.engine import Engine

CONFIGURATION = Path(__file__).parents[2] / ".chalice"
PARTS = {  # IAM has no action for a whole transaction, only for its parts
    "Put": "PutItem",
    "Update": "UpdateItem",
    "Delete": "DeleteItem",
    "ConditionCheck": "ConditionCheckItem",
    "Get": "GetItem",
}
SOCKETS = {f"socket_{event}": f"websocket_{event}" for event in ("connect", "message", "disconnect")}
METHODS = {"PostToConnection": "POST", "GetConnection": "GET", "DeleteConnection": "DELETE"}


class Permission(NamedTuple):
    """An IAM action on a resource. In a policy the ARN may have wildcards."""

    action: str
    resource: str

    def covers(self, other: Permission) -> bool:
        """Return whether a policy with this permission allows the other one."""
        return self.action == other.action and fnmatchcase(other.resource, self.resource)


class Seen(NamedTuple):
    """A permission that a function has needed."""

    function: str
    permission: Permission


_running: ContextVar[str] = ContextVar("running", default="")
_seen: set[Seen] = set()
_users: dict[tuple[str, str], ReadOnlyCredentials] = {}  # by engine and function
_signer: ContextVar[ReadOnlyCredentials | None] = ContextVar("signer", default=None)


def running() -> str:
    """Return the function whose handler runs here, as `.chalice/config.json` names it, or an empty text."""
    return _running.get()


@contextmanager
def run_as(function: str) -> Iterator[None]:
    """Record the calls in this block as those of a function; with an empty name record none."""
    token = _running.set(function)
    try:
        yield
    finally:
        _running.reset(token)


@contextmanager
def seen() -> Iterator[set[Seen]]:
    """Collect the permissions that functions need in this block."""
    global _seen
    before, _seen = _seen, set()
    try:
        yield _seen
    finally:
        before |= _seen
        _seen = before


def see(service: str, operation: str, request: Mapping[str, Any], endpoint: str = "") -> None:
    """Record a call, if a function makes it."""
    if function := running():
        _seen.update(
            Seen(function, permission) for permission in needed(service, operation, request, endpoint)
        )


def needed(service: str, operation: str, request: Mapping[str, Any], endpoint: str = "") -> set[Permission]:
    """Return the permissions that a call needs, by AWS's Service Authorization Reference."""
    match service, operation:
        case "dynamodb", "TransactWriteItems" | "TransactGetItems":
            parts = [part for item in request["TransactItems"] for part in item.items()]
            return {_on_table(PARTS[verb], fields["TableName"]) for verb, fields in parts}
        case "dynamodb", "BatchGetItem" | "BatchWriteItem":
            return {_on_table(operation, name) for name in request["RequestItems"]}
        case "dynamodb", _:
            return {_on_table(operation, request["TableName"], request.get("IndexName", ""))}
        case "sqs", _:
            account, name = urlsplit(request["QueueUrl"]).path.split("/")[-2:]
            action = operation.removesuffix("Batch")  # a batch is allowed as its messages are
            return {Permission(f"sqs:{action}", f"arn:aws:sqs:us-east-1:{account}:{name}")}
        case "sns", "PublishBatch":  # a batch is allowed as its messages are
            return {Permission("sns:Publish", request["TopicArn"])}
        case "ssm", _:
            name = request["Name"].lstrip("/")
            return {Permission(f"ssm:{operation}", f"arn:aws:ssm:us-east-1:000000000000:parameter/{name}")}
        case "apigatewaymanagementapi", _:
            host, _, stage = endpoint.partition("://")[2].rpartition("/")
            api = host.rpartition("/")[2].split(".")[0]
            path = f"{api}/{stage}/{METHODS[operation]}/@connections/{request['ConnectionId']}"
            arn = f"arn:aws:execute-api:us-east-1:000000000000:{path}"
            return {Permission("execute-api:ManageConnections", arn)}
    raise NotImplementedError(f"which permission {service} {operation} needs")


def _on_table(action: str, table: str, index: str = "") -> Permission:
    name = "hubbub-dev" if table.startswith("test-") else table  # tests.tables names those of one test so
    path = f"table/{name}/index/{index}" if index else f"table/{name}"
    return Permission(f"dynamodb:{action}", f"arn:aws:dynamodb:us-east-1:000000000000:{path}")


def files() -> dict[str, Path]:
    """Return the policy file of each function."""
    configuration = json.loads((CONFIGURATION / "config.json").read_text())
    functions = configuration["stages"]["dev"]["lambda_functions"]
    return {name: CONFIGURATION / function["iam_policy_file"] for name, function in functions.items()}


@functools.cache
def allowed(function: str) -> list[Permission]:
    """Read the permissions of a function's policy, one for each action and resource."""
    return parse(json.loads(files()[function].read_text()))


def parse(policy: Any) -> list[Permission]:
    """Return the permissions of a policy, one for each action and resource."""
    found = []
    for statement in policy["Statement"]:
        resources = statement["Resource"]
        for resource in [resources] if isinstance(resources, str) else resources:
            found += [Permission(action, resource) for action in statement["Action"]]
    return found


def missing(calls: Iterable[Seen]) -> list[Seen]:
    """Return the needed permissions that the functions' policies do not allow."""
    policies = {name: allowed(name) for name in files()}
    return sorted(
        call for call in calls if not any(own.covers(call.permission) for own in policies[call.function])
    )


def enforce(engine: Engine) -> None:
    """Create a user with the policy of each function, on an engine that was started with AUTH=true."""
    iam = engine.client("iam")
    for function, file in files().items():
        iam.create_user(UserName=function)
        give(engine, function, file.read_text())
        key = iam.create_access_key(UserName=function)["AccessKey"]
        made = ReadOnlyCredentials(key["AccessKeyId"], key["SecretAccessKey"], None)
        _users[urlsplit(engine.endpoint).netloc, function] = made


def give(engine: Engine, function: str, policy: str) -> None:
    """Replace the policy of a function's user.

    ministack has an action of its own for batches. IAM on AWS has only sqs:SendMessage and sns:Publish.
    """
    policy = policy.replace('"sqs:SendMessage"', '"sqs:SendMessage", "sqs:SendMessageBatch"')
    policy = policy.replace('"sns:Publish"', '"sns:Publish", "sns:PublishBatch"')
    user = {"UserName": function, "PolicyName": "own"}
    engine.client("iam").put_user_policy(**user, PolicyDocument=policy)


def watch(patch: pytest.MonkeyPatch) -> None:
    """Record the calls of functions from now on, and let each function sign as its own user.

    Marks handlers with their function, passes the mark to threads, and patches the SDK.
    """
    call, submit = BaseClient._make_api_call, ThreadPoolExecutor.submit  # type: ignore[attr-defined]
    freeze = Credentials.get_frozen_credentials

    def make_api_call(self: Any, operation: str, request: Any) -> Any:
        see(self.meta.service_model.service_name, operation, request, self.meta.endpoint_url)
        token = _signer.set(_users.get((urlsplit(self.meta.endpoint_url).netloc, running())))
        try:
            return call(self, operation, request)
        finally:
            _signer.reset(token)

    patch.setattr(Credentials, "get_frozen_credentials", lambda self: _signer.get() or freeze(self))

    def submit_with_context(self: Any, work: Any, /, *more: Any, **named: Any) -> Any:
        return submit(self, copy_context().run, work, *more, **named)

    patch.setattr(BaseClient, "_make_api_call", make_api_call)
    patch.setattr(ThreadPoolExecutor, "submit", submit_with_context)
    _tag(patch, Chalice, lambda _: "api_handler")
    _tag(patch, ChaliceAuthorizer, lambda authorizer: authorizer.name)
    _tag(patch, EventSourceHandler, lambda handler: handler.func.__name__)
    _tag(patch, WebsocketEventSourceHandler, lambda handler: SOCKETS.get(handler.func.__name__, ""))


def _tag(patch: pytest.MonkeyPatch, kind: Any, name: Callable[[Any], str]) -> None:
    """Run the handlers of a kind as their functions."""
    handle = kind.__call__

    def tagged(self: Any, *event: Any) -> Any:
        with run_as(running() or name(self)):  # a socket's handler calls its base class's
            return handle(self, *event)

    patch.setattr(kind, "__call__", tagged)
