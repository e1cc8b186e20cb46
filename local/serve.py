"""Runs the app on this machine: REST, sockets, event sources and schedules, on a running engine."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from chalicelib.api import auth, listing
from chalicelib.context import Context
from chalicelib.dynamo.table import connect
from chalicelib.notices import sns
from chalicelib.settings import Settings
from chalicelib.views import queue as queue_of_views
from chalicelib.views import site_queries
from local import event_sources, notices
from local.demo import Demo
from local.engines.engine import Engine
from local.engines.writes import Watch
from local.event_sources import Pump, QueuePump, StreamPump
from local.filters import filtered
from local.gateway import Gateway
from local.options import Options
from local.page_api import PageApi
from local.queue import FILE, QUEUE, LocalQueue
from local.recount import recount_if_needed
from local.rest import HOST, Rest
from local.schedule import schedules
from ops.aws.template import create_table
from ops.maintenance.streams import Stream, keep_json
from ops.stage import RUN, find_run, load, write_atomically

IDLE = 5.0  # seconds after which a pump reads its source without being woken
CANNOT_WRITE = ("database or disk is full", "disk I/O error", "readonly database")
"""Parts of an engine's messages about a disk that it cannot write to."""


def wait_for_signal(stopping: threading.Event) -> None:
    """Wait until a signal's handler has set the event.

    Handlers run in the main thread alone. A signal that another thread receives does not wake it, so it wakes
    by itself once a second.
    """
    while not stopping.wait(1):
        pass


def serve(engine: Engine, options: Options) -> None:
    """Run the app until SIGINT or SIGTERM, then process the accepted views and stop.

    Prints `word` once everything is serving. The end of an engine that was started here stops the app too.
    """
    data = options.data
    stopping = _stop_on_signals(options.child)
    if engine.process:
        threading.Thread(target=_stop_at_end, args=(engine.process, stopping), daemon=True).start()

    # 1. Set the environment that Chalice would set for this stage. app.py reads it on import.
    settings = _load_stage(engine)

    # 2. Create the table from the template of a deployment, and the queue.
    table = create_table(engine.client("dynamodb"), "local", settings.table)
    views_queue = LocalQueue(data)
    os.environ.update(
        HUBBUB_STREAM_ARN=table.stream_arn,
        HUBBUB_QUEUE="on",
        HUBBUB_QUEUE_URL=QUEUE.url if options.queue else "",
        HUBBUB_NOTICES="on",
        HUBBUB_NOTICE_TOPIC=notices.ARN,
        HUBBUB_SOCKET=f"ws://{HOST}:{options.socket_port}" if settings.has("chat") else "",
    )
    import app  # reads the environment

    queue_of_views.client = lambda _: views_queue  # type: ignore[assignment]
    topic = notices.LocalTopic()
    sns.client = lambda _: topic  # type: ignore[assignment]

    connect().client.meta.events.register("after-call.dynamodb", DiskReport(data).see)

    # 3. Recount the sums if the stream has lost changes since the last stop.
    stream = Stream(keep_json(engine.client("dynamodbstreams")), table.stream_arn)
    pumps: list[Pump] = []
    if app.router.has("aggregates"):
        apply, checkpoint = filtered(app.apply, "apply"), data / "stream.json"
        counting = StreamPump(stream, apply, checkpoint=checkpoint)
        pumps.append(counting)
        try:
            recount_if_needed(counting, stream, lambda: _raise_if(stopping))
        except KeyboardInterrupt:
            return

    # 4. Start REST, and the WebSocket gateway whose posts stay in this process.
    rest = Rest(app.app, options.port, options.prefix, settings.origins)
    demo = Demo(rest.url, lambda sub, scope: auth.mint(settings, sub, scope=scope))
    rest.serve_page_api(PageApi(demo, lambda: _list_sites(app.new_context()), topic.list_newest))
    gateway = Gateway(app.app, options.socket_port, origins=settings.origins)
    app.app.websocket_api.session = gateway.session()
    gateway.start()

    # 5. Start the pumps of the stream and the queue, and the schedules.
    pumps.append(StreamPump(stream, filtered(app.push, "push"), name="push pump", begins="LATEST"))
    if app.router.has("views"):
        queue_pump = QueuePump(views_queue, QUEUE, app.write_views)
        views_queue.wake = queue_pump.wake
        pumps.insert(0, queue_pump)
    # Nothing watches the probe here.
    scheduled = [schedule for schedule in schedules(app.app) if schedule.name != "probe"]
    writes = Watch(engine.endpoint, [pump.wake for pump in pumps], event_sources.IDLE)
    for pump in pumps:
        pump.idle = IDLE
        pump.start()
    writes.start()
    for schedule in scheduled:
        schedule.start()
    rest.start()

    # 6. Report that everything is serving.
    addresses = {
        "page": f"{rest.url}/",
        "REST": rest.url,
        "sockets": gateway.url,
        "engine": engine.endpoint,
        "table": table.name,
        "queue": str(data / FILE) if options.queue else "not used: see --queue",
        "data": str(data),
    }
    write_atomically(data / RUN, json.dumps(addresses), mode=0o600)
    _report(addresses, options.word)
    wait_for_signal(stopping)

    # 7. Stop in order: accept no more requests, process the accepted ones, then close the sockets.
    has_ended = engine.has_ended()
    if not has_ended:
        _say("stopping: processing the accepted views")
    demo.stop()
    rest.stop()
    for schedule in scheduled:
        schedule.stop()
    for pump in pumps:
        if not pump.stop(0 if has_ended else 10) and not has_ended:
            _say(f"the {pump.name} is not drained. It continues at the next start.")
    gateway.stop(abandons=has_ended)
    writes.stop()


def serve_rest(engine: Engine, options: Options) -> None:
    """Run REST alone until SIGINT or SIGTERM, beside the run that owns the engine and counts."""
    stopping = _stop_on_signals(options.child)
    settings = _load_stage(engine)
    os.environ["HUBBUB_SOCKET"] = (find_run(options.data) or {}).get("sockets", "")
    import app  # reads the environment

    rest = Rest(app.app, options.port, origins=settings.origins)
    rest.start()
    _report({"page": f"{rest.url}/", "REST": rest.url, "engine": engine.endpoint}, options.word)
    wait_for_signal(stopping)
    rest.stop()


def _load_stage(engine: Engine) -> Settings:
    """Set the environment of the local stage on an engine, and return its settings."""
    for name in [name for name in os.environ if name.startswith("AWS_") or name.lower().endswith("_proxy")]:
        del os.environ[name]  # no credentials, profile or proxy of the user
    os.environ["HUBBUB_ENDPOINT"] = engine.endpoint
    return load("local")


def _list_sites(context: Context) -> list[str]:
    """Return the sites that have views, largest first."""
    return [listed.site for listed in site_queries.list_sites(context, listing.ListQuery()).items]


def _report(addresses: dict[str, str], word: str) -> None:
    """Print the addresses, and that everything is serving."""
    for name, url in addresses.items():
        print(f"{name:8} {url}", flush=True)
    print(word, flush=True)


def _stop_on_signals(with_parent: bool) -> threading.Event:
    """Return an event that SIGINT, SIGTERM and, with a parent, the end of standard input set."""
    stopping = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopping.set())
    if with_parent:
        threading.Thread(target=_stop_at_end_of_input, args=(stopping,), daemon=True).start()
    return stopping


class DiskReport:
    """Prints one line a minute while the engine cannot write to its disk.

    The engine refuses such a write. The client gets 503, and no acknowledged write is lost.
    """

    def __init__(self, data: Path) -> None:
        self._data = data
        self._reported_at = float("-inf")

    def see(self, parsed: Any, **_: Any) -> None:
        """Look at the response to a call of the app's client."""
        message = str(parsed.get("Error", {}).get("Message", ""))
        reason = next((part for part in CANNOT_WRITE if part in message), "")
        if reason and time.monotonic() - self._reported_at > 60:
            self._reported_at = time.monotonic()
            _say(f"the engine cannot write to {self._data} ({reason}): writes get 503 until it can")


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _raise_if(stopping: threading.Event) -> None:
    if stopping.is_set():
        raise KeyboardInterrupt


def _stop_at_end(process: subprocess.Popen[bytes], stopping: threading.Event) -> None:
    process.wait()
    stopping.set()


def _stop_at_end_of_input(stopping: threading.Event) -> None:
    """Stop when the parent process ends, even by kill -9. The parent writes nothing.

    A thread that holds the lock of `sys.stdin` would break the end of a process whose start has failed.
    """
    os.read(sys.stdin.fileno(), 1)
    stopping.set()
