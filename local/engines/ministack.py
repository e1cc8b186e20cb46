"""Runs ministack 1.5.33 with corrections of its differences from AWS.

Each function below applies one correction and states the behaviour of AWS. `main` applies them before the
server starts. ministack handles DynamoDB requests one at a time on the event loop, so they need no lock.

| variable | default | |
|---|---|---|
| `TTL_SWEEP_SECONDS` | 5 | pause between two sweeps for expired items |
| `SERVE_FUNCTIONS` | unset | set for a stage that is deployed here; its corrections cost more imports |
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
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import hypercorn.asyncio
from hypercorn.config import Config
from ministack import app as ministack
from ministack.core import persistence
from ministack.core.responses import AccountRegionScopedDict, set_request_account_id, set_request_region
from ministack.services import apigateway_v1 as rest_apis
from ministack.services import dynamodb, sqs

from local.engines.guard import FIVE_YEARS
from local.engines.writes import PATH, Writes
from local.origins import refusal

logger = logging.getLogger("hubbub.local")

SERVICE = "dynamodb.amazonaws.com"
SERVICE_IDENTITY = {"Type": "Service", "PrincipalId": SERVICE, "type": "Service", "principalId": SERVICE}
"""The identity in the stream record of an expired item, as GetRecords and as Lambda spell it."""

Response = tuple[int, dict[str, str], bytes]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


def use_38_digits() -> None:
    """Set DynamoDB's precision of 38 digits in every thread. Python's default is 28."""
    decimal.DefaultContext.prec = 38
    decimal.setcontext(decimal.DefaultContext.copy())


def save_streams_with_their_tables() -> None:
    """Keep stream records and iterator positions over a restart.

    A DynamoDB stream keeps its records for 24 hours. ministack saves tables and their stream ARNs, but not
    the records. Sequence numbers continue from the highest one saved.
    """
    get_tables, restore_tables = dynamodb.get_state, dynamodb.load_persisted_state

    def get_state() -> dict[str, Any]:
        return {
            **get_tables(),
            "stream_records": dynamodb._stream_records,
            "stream_trimmed": dynamodb._stream_trimmed,
            "closed_streams": dynamodb._closed_streams,
            "stream_sequence": dynamodb._stream_seq_counter,
        }

    def load_persisted_state(state: dict[str, Any]) -> None:
        restore_tables(state)
        dynamodb._stream_records.update(state.get("stream_records", {}))
        dynamodb._stream_trimmed.update(state.get("stream_trimmed", {}))
        dynamodb._closed_streams.update(state.get("closed_streams", {}))
        dynamodb._stream_seq_counter = state.get("stream_sequence", 0)

    dynamodb.get_state, dynamodb.load_persisted_state = get_state, load_persisted_state


class DiskFailures(logging.Handler):
    """Notices when ministack logs that a file could not be written."""

    has_failed = False

    def emit(self, record: logging.LogRecord) -> None:
        """Look at a record, whose last argument may be the error."""
        self.has_failed |= isinstance(record.args, tuple) and isinstance(record.args[-1:][0], OSError)


def wait_for_space_to_save() -> None:
    """Save a state again each second until the disk has space for it.

    ministack logs the failure and ends, and its data is lost.
    """
    save, failures = persistence.save_state, DiskFailures()
    persistence.logger.addHandler(failures)

    def save_state(service: str, data: dict[str, Any]) -> None:
        failures.has_failed = True
        while failures.has_failed:
            failures.has_failed = False
            save(service, data)
            if failures.has_failed:
                time.sleep(1)

    persistence.save_state = save_state


def find_saved_queues_on_another_port() -> None:
    """Give restored queues their current URL.

    ministack identifies a queue by its URL, which contains the port, so on another port it would not find the
    messages of the queue.
    """
    restore = sqs.load_persisted_state

    def load_persisted_state(state: dict[str, Any]) -> None:
        moved = AccountRegionScopedDict()
        for (account, region, _), queue in state["queues"].all_items():
            url = sqs._queue_url_for_account(account, queue["name"])
            moved.set_scoped(account, region, url, {**queue, "url": url})
        restore({**state, "queues": moved})

    sqs.load_persisted_state = load_persisted_state


def disable_the_reaper() -> None:
    """Disable ministack's own reaper, which runs once a minute and writes no stream records."""
    remove_item = dynamodb._remove_item

    def remove(table: dict[str, Any], pk: str, sk: str) -> Any:
        if threading.current_thread().name == "dynamodb-ttl-reaper":
            return None
        return remove_item(table, pk, sk)

    dynamodb._remove_item = remove


def delete_expired_items(now: float) -> int:
    """Delete the items that have expired at `now`, and return their number.

    As on AWS, each deletion is a REMOVE record in the table's stream with the identity of the service. A
    value that is not a number, or lies more than five years back, never expires.

    Cost: reads every item of every table with a time to live.
    """
    deleted = 0
    for (account, region, name), setting in list(dynamodb._ttl_settings.all_items()):
        table = dynamodb._tables.get_scoped(account, region, name)
        if setting.get("TimeToLiveStatus") != "ENABLED" or not table:
            continue
        set_request_account_id(account)
        set_request_region(region)
        for pk, items in list(table["items"].items()):
            for sk, item in list(items.items()):
                expiry = item.get(setting["AttributeName"], {}).get("N")
                if expiry is None or not now - FIVE_YEARS < float(expiry) <= now:
                    continue
                dynamodb._remove_item(table, pk, sk)
                dynamodb._emit_stream_event(name, "REMOVE", item, None)
                deleted += 1
                for record in dynamodb._live_stream_records(name)[-1:]:
                    record["userIdentity"] = SERVICE_IDENTITY
    return deleted


def sweep_while_serving() -> None:
    """Run `delete_expired_items` every `TTL_SWEEP_SECONDS` while the server runs.

    AWS deletes expired items after minutes to days.
    """
    serve: Callable[[Message, Receive, Send], Awaitable[None]] = ministack.app
    pause = float(os.environ.get("TTL_SWEEP_SECONDS", "5"))

    async def sweep() -> None:
        while True:
            await asyncio.sleep(pause)
            try:
                delete_expired_items(time.time())
            except Exception:
                logger.exception("The sweep for expired items failed; the next one is in %g s", pause)

    async def serve_and_sweep(scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "lifespan":
            await serve(scope, receive, send)
            return
        sweeping = asyncio.create_task(sweep())
        try:
            await serve(scope, receive, send)
        finally:
            sweeping.cancel()

    ministack.app = serve_and_sweep


def count_writes() -> None:
    """Count writes, and let clients wait for the next one (writes.py)."""
    serve: Callable[[Message, Receive, Send], Awaitable[None]] = ministack.app
    writes: Writes | None = None

    async def counting(scope: Message, receive: Receive, send: Send) -> None:
        nonlocal writes
        writes = writes or Writes()  # in its event loop
        if scope["type"] == "http" and scope["path"].startswith(PATH):
            body = await writes.wait(scope["path"])
            await send(
                {
                    "type": "http.response.start",
                    "status": 200,
                    "headers": [(b"content-length", b"%d" % len(body))],
                }
            )
            await send({"type": "http.response.body", "body": body})
            return
        await serve(scope, receive, send)
        if scope["type"] == "http":
            writes.add(dict(scope["headers"]).get(b"x-amz-target", b"").decode("latin-1"))

    ministack.app = counting


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


# -- corrections for a deployed stage (SERVE_FUNCTIONS) ------------------------------------------------

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
    """Apply time to live and point-in-time recovery to the table of a stack, which ministack ignores."""
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
        return made

    def created(logical_id: str, properties: dict[str, Any], stack: str) -> Any:
        return specify(create(logical_id, properties, stack), properties)

    def updated(id: str, old: dict[str, Any], new: dict[str, Any], *rest: Any, **named: Any) -> Any:
        return specify(update(id, old, new, *rest, **named), new)

    handler |= {"create": created, "update": updated}


# -- running -------------------------------------------------------------------------------------------


def stop_at_end_of_input() -> None:
    """Save the state and stop when the pipe on standard input is closed.

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
    save_streams_with_their_tables()
    wait_for_space_to_save()
    find_saved_queues_on_another_port()
    disable_the_reaper()
    sweep_while_serving()
    count_writes()
    refuse_other_sites()
    import_rest_apis()
    if os.environ.get("SERVE_FUNCTIONS"):
        route_socket_posts_to_the_engine()
        make_functions_ready_at_once()
        apply_all_table_properties()
    stop_at_end_of_input()
    config = Config()
    config.bind = [f"fd://{sys.argv[1]}"]  # a listening socket that the parent has opened
    config.keep_alive_timeout = 75
    asyncio.run(hypercorn.asyncio.serve(ministack.app, config))


if __name__ == "__main__":
    main()
