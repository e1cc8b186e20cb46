"""Runs one function as Lambda would, and prints what it took: `python -m bench.one_function NAME CALLS`.

Engine, table and secret are those of the environment. CPU time is this process's own, of all its threads.
"""

import re
import resource
import sys
import time
from pathlib import Path

begun = time.process_time()
import app  # noqa: E402 - nothing that the function does not import comes before it
from chalicelib.table import connect  # noqa: E402

if sys.argv[1] != "identify":  # which never talks to the table
    connect()
IMPORTED = time.process_time() - begun

import itertools  # noqa: E402
import json  # noqa: E402
from collections.abc import Callable, Iterator  # noqa: E402
from datetime import UTC, datetime  # noqa: E402
from typing import Any  # noqa: E402

from chalicelib import auth, settings  # noqa: E402

PAGE = "https://www.example.org/page"
Call = Callable[[], Any]


def rest(method: str, path: str, query: dict[str, list[str]], body: str = "") -> Call:
    """Call a route as API Gateway does."""
    event = {
        "requestContext": {"httpMethod": method, "resourcePath": path, "identity": {"sourceIp": "192.0.2.1"}},
        "headers": {"content-type": "application/json", "user-agent": "a browser"},
        "multiValueQueryStringParameters": query or None,
        "pathParameters": None,
        "stageVariables": None,
        "body": body,
        "isBase64Encoded": False,
    }
    return lambda: app.app(event, None)


def events(count: int) -> str:
    """Write a body of so many views, each of another visitor."""
    now = datetime.now(UTC).isoformat()
    made = [{"url": PAGE, "time": now, "clientId": f"{time.monotonic_ns()}-{i}"} for i in range(count)]
    return json.dumps({"events": made})


def api() -> Iterator[Call]:
    """Read a page's views, for ever."""
    while True:
        yield rest("GET", "/views", {"url": [PAGE]})


def identify() -> Iterator[Call]:
    """Check a token."""
    token = auth.mint(settings.current(), "me")
    auth.parameter.cache_clear()
    arn = "arn:aws:execute-api:us-east-1:123456789012:abcdef1234/api/GET/views"
    event = {"type": "TOKEN", "authorizationToken": f"Bearer {token}", "methodArn": arn}
    while True:
        yield lambda: app.identify(event, None)


def write_views() -> Iterator[Call]:
    """Write ten messages of 25 views."""
    while True:
        records = [{"messageId": str(i), "body": events(25)} for i in range(10)]
        yield lambda records=records: app.write_views({"Records": records}, None)  # type: ignore[misc]


def apply() -> Iterator[Call]:
    """Count 100 views of a page, of visitors who are new, in each batch."""
    from local.engine import start
    from local.pumps import StreamPump

    batches: list[Any] = []
    stream = start(settings.current().endpoint, data=None).client("dynamodbstreams")
    pump = StreamPump(stream, app.stage.stream_arn, lambda event, _: batches.append(event))
    while True:
        for _ in range(4):
            rest("POST", "/views", {}, events(25))()
        while pump.step():
            pass
        batch = {"Records": [record for one in batches for record in one["Records"]][:100]}
        batches.clear()
        yield lambda batch=batch: app.apply(batch, None)  # type: ignore[misc]


def push() -> Iterator[Call]:
    """Look for the listeners of a page that has changed 100 times, of whom there are none."""
    while True:
        yield lambda: app.push({"Records": [CHANGED] * 100}, None)


CHANGED = {
    "eventID": "1",
    "eventName": "MODIFY",
    "dynamodb": {"Keys": {"pk": {"S": f"URL#{PAGE}"}, "sk": {"S": "STATISTICS"}}},
}


def sweep() -> Iterator[Call]:
    """Look at connections, of whom there are none."""
    names = ("id", "account", "region", "time", "source", "detail-type")
    event = dict.fromkeys(names, "") | {"version": "0", "resources": [], "detail": {}}
    while True:
        yield lambda: app.sweep(event, None)


def sockets(kind: str) -> Iterator[Call]:
    """Come, or leave and come again to the pool, or go: nobody else is there, so nothing is posted."""
    for number in itertools.count():
        context = {"connectionId": f"c{number}", "apiId": "a", "stage": "api", "domainName": "d"}
        event = {"requestContext": context, "body": '{"action": "leave"}'}
        if kind != "connect":
            app.socket_connect(event, None)
        yield lambda event=event: getattr(app, f"socket_{kind}")(event, None)  # type: ignore[misc]
        app.socket_disconnect(event, None)


FUNCTIONS: dict[str, Callable[[], Iterator[Call]]] = {
    "api_handler": api,
    "identify": identify,
    "write_views": write_views,
    "apply": apply,
    "push": push,
    "sweep": sweep,
    "websocket_connect": lambda: sockets("connect"),
    "websocket_message": lambda: sockets("message"),
    "websocket_disconnect": lambda: sockets("disconnect"),
}


def timed(call: Call) -> tuple[float, float]:
    """Make a call; answer its CPU seconds and its seconds."""
    cpu, clock = time.process_time(), time.perf_counter()
    call()
    return time.process_time() - cpu, time.perf_counter() - clock


def main(name: str, calls: int) -> None:
    """Call a function so often, and print what it took as JSON."""
    some = FUNCTIONS[name]()
    first, *others = [timed(next(some)) for _ in range(calls + 1)]
    print(
        json.dumps(
            {
                "imported": IMPORTED,
                "first": first[0],
                "cpu": sorted(cpu for cpu, _ in others)[calls // 2],
                "clock": sorted(clock for _, clock in others)[calls // 2],
                "memory": _peak(),
            }
        )
    )


def _peak() -> float:
    """Read how many MB this process has had at most; where Linux tells, without those of its parent."""
    status = Path("/proc/self/status")
    found = re.search(r"VmHWM:\s+(\d+) kB", status.read_text()) if status.exists() else None
    return (int(found[1]) if found else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss) / 1024


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
