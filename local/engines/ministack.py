"""Runs ministack with the corrections that Hubbub needs to find on AWS's side of the wire.

Each function below is one correction of ministack 1.5.33, and says what AWS does; `main` makes them before
the server starts. DynamoDB's requests are answered on the event loop, one by one: there no lock is needed.
Two variables beside ministack's own: `TTL_SWEEP_SECONDS`, the pause between two sweeps for expired items
(default 5), and `SERVE_FUNCTIONS`, set for a stage that is deployed here (deployed.py).
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

from ministack import app as ministack
from ministack.core.responses import AccountRegionScopedDict, set_request_account_id, set_request_region
from ministack.services import apigateway_v1 as rest_apis
from ministack.services import dynamodb, sqs

from local.engines.guard import FIVE_YEARS, refusal

logger = logging.getLogger("hubbub.launcher")

SERVICE = "dynamodb.amazonaws.com"
SERVICE_IDENTITY = {"Type": "Service", "PrincipalId": SERVICE, "type": "Service", "principalId": SERVICE}
"""Whom a stream record names when time to live deleted the item, as GetRecords and as Lambda spell it."""

Answer = tuple[int, dict[str, str], bytes]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


def calculate_with_38_digits() -> None:
    """Give every thread decimals of 38 digits: DynamoDB's precision, where Python's default is 28."""
    decimal.DefaultContext.prec = 38
    decimal.setcontext(decimal.DefaultContext.copy())


def save_streams_with_their_tables() -> None:
    """Keep stream records, and the positions iterators point at, over a restart.

    A DynamoDB stream holds its records for 24 hours whatever happens to its readers; ministack saves tables,
    and with them their stream ARNs, but forgets the records. Sequence numbers go on from the highest one
    saved.
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


def find_saved_queues_on_another_port() -> None:
    """Give queues restored from the state the address they have now.

    ministack knows a queue by its URL, which holds the port: on another port it would not find its messages.
    """
    restore = sqs.load_persisted_state

    def load_persisted_state(state: dict[str, Any]) -> None:
        moved = AccountRegionScopedDict()
        for (account, region, _), queue in state["queues"].all_items():
            url = sqs._queue_url_for_account(account, queue["name"])
            moved.set_scoped(account, region, url, {**queue, "url": url})
        restore({**state, "queues": moved})

    sqs.load_persisted_state = load_persisted_state


def leave_expired_items_to_the_sweep() -> None:
    """Make ministack's own reaper delete nothing: it runs once a minute and writes no stream record."""
    remove_item = dynamodb._remove_item

    def remove(table: dict[str, Any], pk: str, sk: str) -> Any:
        if threading.current_thread().name == "dynamodb-ttl-reaper":
            return None
        return remove_item(table, pk, sk)

    dynamodb._remove_item = remove


def delete_expired_items(now: float) -> int:
    """Delete what has expired at `now` in every table with a time to live; return the number of items.

    As on AWS each deletion is a REMOVE in the table's stream, by the service's identity; a value that is no
    number, or lies more than five years back, never expires. Reads every item of every such table.
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
    """Run `delete_expired_items` every `TTL_SWEEP_SECONDS` for as long as the server is up.

    AWS takes minutes to days, which nobody wants to wait for on one machine.
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


def refuse_foreign_pages() -> None:
    """Refuse requests and sockets that a browser makes for a foreign page, before anything reads them."""
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
    """Answer ImportRestApi and PutRestApi, with which `chalice deploy` creates and overwrites its REST API.

    API Gateway also takes `minimumCompressionSize` in a patch as text, like every patched value, and keeps a
    number.
    """
    others: Callable[..., Awaitable[Answer]] = rest_apis.handle_request

    async def handle_request(
        method: str, path: str, headers: dict[str, str], body: bytes, query: dict[str, Any]
    ) -> Answer:
        match [method, *path.strip("/").split("/")]:
            case ["POST", "restapis"] if query.get("mode") in ("import", ["import"]):
                spec = json.loads(body)
                api_id = rest_apis._import_rest_api(spec, {"binaryMediaTypes": _media_types(spec)})
                return _answer(api_id, 201)
            case ["PUT", "restapis", api_id] if api_id in rest_apis._rest_apis:
                _overwrite(api_id, json.loads(body))
                return _answer(api_id, 200)
            case ["PATCH", "restapis", _]:
                body = _with_numeric_compression_size(body)
        return await others(method, path, headers, body, query)

    rest_apis.handle_request = handle_request


def _answer(api_id: str, status: int) -> Answer:
    answer: Answer = rest_apis._v1_response(rest_apis._rest_api_view(rest_apis._rest_apis[api_id]), status)
    return answer


def _media_types(spec: dict[str, Any]) -> list[str]:
    return list(spec.get("x-amazon-apigateway-binary-media-types", []))


def _overwrite(api_id: str, spec: dict[str, Any]) -> None:
    """Replace everything below the API's root resource, its methods and authorizers; its id stays."""
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


def stop_at_end_of_input() -> None:
    """Stop, saving the state, once the pipe on standard input is closed.

    That is when the parent has gone, even by kill -9. A terminal or /dev/null on standard input is not
    watched.
    """
    if not stat.S_ISFIFO(os.fstat(sys.stdin.fileno()).st_mode):
        return

    def wait_for_the_end() -> None:
        while os.read(sys.stdin.fileno(), 1024):
            pass
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=wait_for_the_end, name="end-of-input", daemon=True).start()


def main() -> None:
    """Make every correction, then serve until SIGTERM, SIGINT or the end of the input."""
    calculate_with_38_digits()
    save_streams_with_their_tables()
    find_saved_queues_on_another_port()
    leave_expired_items_to_the_sweep()
    sweep_while_serving()
    refuse_foreign_pages()
    import_rest_apis()
    if os.environ.get("SERVE_FUNCTIONS"):
        from local.engines import ministack_deployed

        ministack_deployed.correct()
    stop_at_end_of_input()
    ministack.main()


if __name__ == "__main__":
    main()
