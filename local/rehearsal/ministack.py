"""Runs ministack as the account of a rehearsal, with corrections of its differences from AWS.

Each function below applies one correction. `main` applies them in the process of the server, before it
starts. ministack handles requests to DynamoDB one at a time on the event loop, so a correction needs no lock.
Nothing is kept when the server stops.
"""

from __future__ import annotations

import asyncio
import decimal
import json
import logging
import os
import signal
import stat
import sys
import threading
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import hypercorn.asyncio
from hypercorn.config import Config
from ministack import app as ministack
from ministack.services import apigateway_v1 as rest_apis
from ministack.services import dynamodb

from local.origins import refusal
from local.rehearsal.account import FUNCTIONS

logger = logging.getLogger("hubbub.local")

Response = tuple[int, dict[str, str], bytes]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


def use_38_digits() -> None:
    """Set DynamoDB's precision of 38 digits in every thread. Python's default is 28."""
    decimal.DefaultContext.prec = 38
    decimal.setcontext(decimal.DefaultContext.copy())


def disable_the_reaper() -> None:
    """Let no item expire: ministack's own reaper writes no stream records."""
    remove_item = dynamodb._remove_item

    def remove(table: dict[str, Any], pk: str, sk: str) -> Any:
        if threading.current_thread().name == "dynamodb-ttl-reaper":
            return None
        return remove_item(table, pk, sk)

    dynamodb._remove_item = remove


def refuse_other_sites() -> None:
    """Refuse requests and sockets that a browser opens for a page of another site."""
    serve: Callable[[Message, Receive, Send], Awaitable[None]] = ministack.app

    async def guarded(scope: Message, receive: Receive, send: Send) -> None:
        names = [
            (name.decode("latin-1"), value.decode("latin-1")) for name, value in scope.get("headers", ())
        ]
        reason = "" if scope["type"] == "lifespan" else refusal(names)
        if not reason:
            await serve(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008, "reason": reason})
        else:
            body = json.dumps({"__type": "AccessDeniedException", "message": reason}).encode()
            headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
            await send({"type": "http.response.start", "status": 403, "headers": headers})
            await send({"type": "http.response.body", "body": body})

    ministack.app = guarded


def import_rest_apis() -> None:
    """Support ImportRestApi and PutRestApi, with which `chalice deploy` creates and overwrites its REST API.

    In a patch, API Gateway also accepts `minimumCompressionSize` as a string and stores a number.
    """
    others: Callable[..., Awaitable[Response]] = rest_apis.handle_request

    async def handle_request(
        method: str, path: str, headers: dict[str, str], body: bytes, query: dict[str, Any]
    ) -> Response:
        match [method, *path.strip("/").split("/")]:
            case ["POST", "restapis"] if query.get("mode") in ("import", ["import"]):
                spec = json.loads(body)
                api_id = rest_apis._import_rest_api(spec, {"binaryMediaTypes": _media_types(spec)})
                return _describe_api(api_id, 201)
            case ["PUT", "restapis", api_id] if api_id in rest_apis._rest_apis:
                _overwrite(api_id, json.loads(body))
                return _describe_api(api_id, 200)
            case ["PATCH", "restapis", _]:
                body = _with_numeric_compression_size(body)
        return await others(method, path, headers, body, query)

    rest_apis.handle_request = handle_request


def _describe_api(api_id: str, status: int) -> Response:
    response: Response = rest_apis._v1_response(
        rest_apis._rest_api_view(rest_apis._rest_apis[api_id]), status
    )
    return response


def _media_types(spec: dict[str, Any]) -> list[str]:
    return list(spec.get("x-amazon-apigateway-binary-media-types", []))


def _overwrite(api_id: str, spec: dict[str, Any]) -> None:
    """Replace the resources, methods and authorizers of an API, but keep its id and root resource."""
    root = next(r for r in rest_apis._resources[api_id].values() if r["path"] == "/")
    root["resourceMethods"] = {}
    rest_apis._resources[api_id] = {root["id"]: root}
    rest_apis._authorizers_v1[api_id] = {}
    rest_apis._rest_apis[api_id]["binaryMediaTypes"] = _media_types(spec)
    schemes = rest_apis._import_security_schemes(api_id, spec)
    for path, item in (spec.get("paths") or {}).items():
        rest_apis._import_path_item(api_id, path, item, schemes, spec.get("security"))


def _with_numeric_compression_size(body: bytes) -> bytes:
    patch = json.loads(body)
    for operation in patch.get("patchOperations", []):
        if operation.get("path") == "/minimumCompressionSize":
            operation["value"] = int(operation["value"]) if operation.get("value") else None
    return json.dumps(patch).encode()


# -- corrections for a deployed stage (has_functions) ------------------------------------------------

POSTS = """
def _to_the_engine():
    import os, re
    import botocore.handlers

    def redirect(params, **_):
        found = re.match(r"https://([^.]+)[.]execute-api[.][^/]+(/.*)", params["url"])
        if found:
            api, path = found.groups()
            params["url"] = os.environ["AWS_ENDPOINT_URL"] + "/_aws/execute-api/" + api + path

    name = "before-call.apigatewaymanagementapi"
    botocore.handlers.BUILTIN_HANDLERS.append((name, redirect))

_to_the_engine()
"""
"""Runs in a worker before the function's code is imported. It replaces DNS and a certificate."""


def route_socket_posts_to_the_engine() -> None:
    """Route `https://<api>.execute-api.<region>.amazonaws.com`, the API's address on AWS, to the engine."""
    from ministack.core import lambda_runtime

    lambda_runtime._PYTHON_WORKER_SCRIPT = POSTS + lambda_runtime._PYTHON_WORKER_SCRIPT


def make_functions_ready_at_once() -> None:
    """Make a created or updated function Active at once.

    AWS takes seconds and ministack half a second, but Chalice polls every five seconds for each function.
    """
    from ministack.services import lambda_svc

    def ready(name: str, delay: float) -> None:
        config = lambda_svc._functions[name]["config"]
        config |= {"State": "Active", "StateReason": "", "StateReasonCode": ""}
        config |= {"LastUpdateStatus": "Successful", "LastUpdateStatusReason": ""}

    lambda_svc._schedule_state_transition = ready


def apply_all_table_properties() -> None:
    """Apply time to live, recovery and the ceilings of a stack's table, which ministack ignores."""
    from ministack.services.cloudformation import provisioners

    handler = provisioners._RESOURCE_HANDLERS["AWS::DynamoDB::Table"]
    create, update = handler["create"], handler["update"]

    def specify(made: Any, properties: dict[str, Any]) -> Any:
        if expiry := properties.get("TimeToLiveSpecification"):
            status = "ENABLED" if expiry.get("Enabled") else "DISABLED"
            dynamodb._ttl_settings[made[0]] = {
                "TimeToLiveStatus": status,
                "AttributeName": expiry["AttributeName"],
            }
        if recovery := properties.get("PointInTimeRecoverySpecification"):
            dynamodb._pitr_settings[made[0]] = recovery["PointInTimeRecoveryEnabled"]
        parts = [(dynamodb._tables[made[0]], properties)]
        indexes = {index["IndexName"]: index for index in properties.get("GlobalSecondaryIndexes", ())}
        there = dynamodb._tables[made[0]].get("GlobalSecondaryIndexes") or ()
        parts += [(index, indexes[index["IndexName"]]) for index in there if index["IndexName"] in indexes]
        for part, wanted in parts:  # numbers, as AWS describes them
            ceiling = wanted.get("OnDemandThroughput") or {}
            part["OnDemandThroughput"] = {key: int(value) for key, value in ceiling.items()}
        return made

    def created(logical_id: str, properties: dict[str, Any], stack: str) -> Any:
        return specify(create(logical_id, properties, stack), properties)

    def updated(id: str, old: dict[str, Any], new: dict[str, Any], *rest: Any, **named: Any) -> Any:
        return specify(update(id, old, new, *rest, **named), new)

    handler |= {"create": created, "update": updated}


def date_recovery_from_the_table() -> None:
    """Allow a restore to any time since the creation of the table. ministack allows only the present second.

    The restored table has the present data. AWS restores the data of any second in the last 35 days.
    """
    describe = dynamodb._describe_continuous_backups

    def dated(data: dict[str, Any]) -> Response:
        status, headers, body = describe(data)
        found = json.loads(body)
        recovery = found.get("ContinuousBackupsDescription", {}).get("PointInTimeRecoveryDescription", {})
        if "EarliestRestorableDateTime" in recovery:
            recovery["EarliestRestorableDateTime"] = dynamodb._tables[data["TableName"]]["CreationDateTime"]
        return status, headers, json.dumps(found).encode()

    dynamodb._describe_continuous_backups = dated


def create_budgets() -> None:
    """Create the budget of a stack. ministack has budgets, but its CloudFormation does not know them."""
    from ministack.services import budgets
    from ministack.services.cloudformation import provisioners

    def create(logical_id: str, properties: dict[str, Any], stack: str) -> Any:
        status, _, body = budgets._create_budget(properties)
        if status != 200:
            raise ValueError(body.decode())
        return properties["Budget"]["BudgetName"], {}

    def update(id: str, old: dict[str, Any], new: dict[str, Any], stack: str) -> Any:
        delete(id, old)
        return create("", new, stack)

    def delete(id: str, properties: dict[str, Any]) -> None:
        budgets._delete_budget({"BudgetName": id})

    handlers = {"create": create, "update": update, "delete": delete}
    provisioners._RESOURCE_HANDLERS["AWS::Budgets::Budget"] = handlers


def report_removals_by_condition() -> None:
    """Report a resource whose condition becomes false as removed. ministack removes it unreported."""
    from ministack.services.cloudformation import changesets

    resolve_all = changesets._resolve_props_for_diff

    def resolve(template: dict[str, Any], params: dict[str, Any], *names: str) -> dict[str, Any]:
        resolved: dict[str, Any] = resolve_all(template, params, *names)
        holds = changesets._evaluate_conditions(template, params) if template else {}
        for name, resource in list(resolved.get("Resources", {}).items()):
            if not holds.get(resource.get("Condition"), True):
                del resolved["Resources"][name]
        return resolved

    changesets._resolve_props_for_diff = resolve


def keep_associated_web_acls() -> None:
    """Fail the deletion of a web ACL that is still associated: AWS WAF API Reference, DeleteWebACL."""
    from ministack.services import waf
    from ministack.services.cloudformation import provisioners

    handler = provisioners._RESOURCE_HANDLERS["AWS::WAFv2::WebACL"]
    delete = handler["delete"]

    def guarded(id: str, properties: dict[str, Any]) -> None:
        if any(f"/{id.split('|')[1]}" in arn for arn in waf._associations.values()):
            raise ValueError("WAFAssociatedItemException: the web ACL is associated with a resource")
        delete(id, properties)

    handler["delete"] = guarded


# -- running -------------------------------------------------------------------------------------------


def stop_at_end_of_input() -> None:
    """Stop when the pipe on standard input is closed.

    The pipe closes when the parent ends, even by kill -9. A terminal or /dev/null on standard input is
    ignored.
    """
    if not stat.S_ISFIFO(os.fstat(sys.stdin.fileno()).st_mode):
        return

    def wait_for_the_end() -> None:
        while os.read(sys.stdin.fileno(), 1024):
            pass
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=wait_for_the_end, name="end-of-input", daemon=True).start()


def main() -> None:
    """Apply every correction, then serve until SIGTERM, SIGINT or the end of standard input."""
    use_38_digits()
    disable_the_reaper()
    refuse_other_sites()
    import_rest_apis()
    create_budgets()
    report_removals_by_condition()
    keep_associated_web_acls()
    if os.environ.get(FUNCTIONS):
        route_socket_posts_to_the_engine()
        make_functions_ready_at_once()
        apply_all_table_properties()
        date_recovery_from_the_table()
    stop_at_end_of_input()
    config = Config()
    config.bind = [f"fd://{sys.argv[1]}"]  # a listening socket that the parent has opened
    config.keep_alive_timeout = 75
    asyncio.run(hypercorn.asyncio.serve(ministack.app, config))


if __name__ == "__main__":
    main()
