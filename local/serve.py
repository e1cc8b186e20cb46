"""The app on one machine: REST, sockets and pumps around the app's own handlers, on a running engine."""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path

from chalicelib.api import auth
from local.demo import Demo
from local.engines.engine import Engine
from local.event_sources import Pump, QueuePump, StreamPump
from local.filters import filtered
from local.gateway import Gateway
from local.page_api import Desk
from local.rest import HOST, Rest
from local.schedule import schedules
from ops.aws.template import Queue, create_queue, create_table
from ops.stage import load

DAY = 86_400  # seconds


def serve(
    engine: Engine,
    *,
    port: int,
    socket_port: int,
    data: Path,
    queue: bool,
    word: str,
    with_parent: bool,
    prefix: str = "",
) -> None:
    """Run the app until SIGINT or SIGTERM, then drain what it has taken. Prints `word` once it answers.

    `queue` puts the views queue behind POST /views. `prefix` is the path below which REST and the page are
    served. `with_parent` also stops it when standard input ends.
    """
    stopping = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopping.set())
    if with_parent:
        threading.Thread(target=_stop_at_end_of_input, args=(stopping,), daemon=True).start()

    # 1. The environment that Chalice would make for this stage; app.py reads it when it is imported.
    for name in [name for name in os.environ if name.startswith("AWS_") or name.lower().endswith("_proxy")]:
        del os.environ[name]  # nobody's credentials, profile or proxy has business here
    settings = load("local")

    # 2. The table and its queue, from the template that a deployment uses.
    table = create_table(engine.client("dynamodb"), "local", settings.table)
    views_queue = None
    if engine.has_queues:
        views_queue = create_queue(engine.client("sqs"), "local", settings.queue_name)
    os.environ.update(
        HUBBUB_ENDPOINT=engine.endpoint,
        HUBBUB_STREAM_ARN=table.stream_arn,
        HUBBUB_QUEUE_URL=views_queue.url if queue and views_queue else "",
        HUBBUB_SOCKET=f"ws://{HOST}:{socket_port}",
    )
    if engine.has_queues:  # ministack reports the units of reads wrongly
        os.environ["HUBBUB_CAPACITY"] = "off"
    import app  # after its environment

    # 3. The doors: REST, and sockets whose posts stay in this process.
    rest = Rest(app.app, port, prefix)
    demo = Demo(rest.url, lambda sub, scope: auth.mint(settings, sub, scope=scope))
    rest.open_desk(Desk(rest.url, demo, lambda sub: auth.mint(settings, sub, seconds=DAY)))
    gateway = Gateway(app.app, socket_port)
    app.app.websocket_api.session = gateway.session()
    gateway.start()

    # 4. The pumps, which bring stream and queue to the handlers, and what runs once a minute.
    streams = engine.client("dynamodbstreams")
    apply, checkpoint = filtered(app.apply, "apply"), data / "stream.json"
    push = filtered(app.push, "push")
    pumps: list[Pump] = [
        StreamPump(streams, table.stream_arn, apply, checkpoint=checkpoint),
        StreamPump(streams, table.stream_arn, push, name="push pump", begins="LATEST"),
    ]
    if views_queue:
        pumps.insert(0, QueuePump(engine.client("sqs"), views_queue, app.write_views))
    scheduled = schedules(app.app)
    for pump in pumps:
        pump.start()
    for schedule in scheduled:
        schedule.start()
    rest.start()

    # 5. Everything answers.
    for name, url in {
        "page": f"{rest.url}/",
        "REST": rest.url,
        "sockets": gateway.url,
        "engine": engine.endpoint,
        "table": table.name,
        "queue": _described(views_queue, queue),
        "data": str(data),
    }.items():
        print(f"{name:8} {url}", flush=True)
    print(word, flush=True)
    stopping.wait()

    # 6. In order: nothing new comes in, what came in is counted, then the sockets close.
    print("stopping: counting what has been taken", file=sys.stderr, flush=True)
    demo.stop()
    rest.stop()
    for schedule in scheduled:
        schedule.stop()
    for pump in pumps:
        if not pump.stop():
            print(f"the {pump.name} had more to do: it goes on at the next start", file=sys.stderr)
    gateway.stop()


def _described(views_queue: Queue | None, is_used: bool) -> str:
    if views_queue is None:
        return "none (this engine has no SQS)"
    return f"{views_queue.url} ({'views go through it' if is_used else 'views go past it: --queue'})"


def _stop_at_end_of_input(stopping: threading.Event) -> None:
    """Stop when the parent has gone, even by kill -9."""
    sys.stdin.buffer.read()
    stopping.set()
