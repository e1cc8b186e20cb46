"""The whole product under mixed load, its process killed at random, and an audit of all that it took."""

from __future__ import annotations

import random
import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

from bench.product import SETTINGS, Product
from bench.report import Figures, Report, Target
from bench.soak_audit import compared, settled
from bench.soak_clients import Pair, Probe, Taken, Visitor, prepare
from chalicelib.table import Table
from local.engine import Engine

VISITORS, PAIRS = 4, 2
KILLS = 0.6  # the part of the time in which it is killed; in the rest its memory is watched
BETWEEN = 20.0  # seconds between two kills, on average
LAG, HIDDEN = 60.0, 180.0  # seconds: a restart in them; and those in which a killed pump's messages stay away
SLOPE = 2.0  # megabytes a minute
LONG = 5.0  # minutes from which on the slope of the memory is judged
METHOD = """Soak. `python -m local` in a process of its own, on an engine that outlives it{queue}; \
{visitors} HTTP clients send {rate:g} requests a second in all (views, scores, paths, comments, edits, \
deletions, reads; one in twenty twice), {pairs} pairs chat over sockets and listen to a page. In the first \
{part:.0%} of {minutes:g} minutes the process, and with it REST, sockets and both pumps in the middle of \
whatever they do, is killed (SIGKILL) every {between:g} seconds on average and started again at once. \
Clients send again what was not answered. A probe posts views and looks until each is counted: that is the \
lag, restarts included{hidden}. Memory is the process's resident set, each second; its slope is that of a \
line through the last life's second half. In the end every write that was acknowledged must be in the \
table once and nothing else, and `ops audit` must find every sum right."""


class Memory(threading.Thread):
    """Looks each second how much memory the product has."""

    def __init__(self, product: Product, stop: threading.Event) -> None:
        super().__init__(name="memory", daemon=True)
        self.life: list[tuple[float, float]] = []
        self._product, self._stopping = product, stop

    def run(self) -> None:
        """Take a sample a second until told to stop."""
        while not self._stopping.wait(1):
            self.life.append((time.monotonic(), self._product.memory()))

    def slope(self) -> float:
        """Answer megabytes a minute of the second half of the life that is being watched."""
        half = [one for one in self.life[len(self.life) // 2 :] if one[1]]
        if len(half) < 3:
            return 0.0
        return 60 * statistics.linear_regression(*zip(*half, strict=True)).slope


def soak(engine: Engine, minutes: float, rate: float, seed: int, tell: Callable[[str], None]) -> Report:
    """Run it all. Raises what a client could not help."""
    chance, taken, stop = random.Random(seed), Taken(), threading.Event()
    uses_queue = engine.has_queues and minutes >= 1
    between = min(BETWEEN, max(1.0, KILLS * 60 * minutes / 2))
    data = tempfile.TemporaryDirectory()
    with data, Product(engine, Path(data.name) / "data", uses_queue) as product:
        prepare(product)
        visitors = [Visitor(product, taken, n, rate / VISITORS, stop) for n in range(VISITORS)]
        pairs = [Pair(product, n, stop) for n in range(PAIRS)]
        memory = Memory(product, stop)
        begun = time.monotonic()
        clients = [*visitors, *pairs, Probe(product, taken, stop), memory]
        for client in clients:
            client.start()
        restarts = _kill(product, memory, begun + KILLS * 60 * minutes, between, chance, tell)
        while (left := begun + 60 * minutes - time.monotonic()) > 0:
            tell(f"{len(restarts)} kills, {sum(taken.requests.values()):,} requests, {left:.0f} s to go")
            time.sleep(min(1.0, left))
        stop.set()
        for client in clients:
            client.join(150)
        taken.wrong += [f"{client.name} did not end" for client in clients if client.is_alive()]
        tell("counting what is left")
        table = Table(SETTINGS.table, engine.client("dynamodb"))
        waited, found = settled(table, engine.client("dynamodbstreams"), lambda: _queued(engine), tell)
    missing, surplus = compared(table, taken)
    method = METHOD.format(
        queue=", views through the queue" if uses_queue else "",
        hidden=f" (what a killed pump has received comes again after {HIDDEN:.0f} s)" if uses_queue else "",
        visitors=VISITORS,
        rate=rate,
        pairs=PAIRS,
        part=KILLS,
        minutes=minutes,
        between=between,
    )
    lags = sorted(taken.lags) or [0.0]
    figures = Figures(f"A soak of {minutes:g} minutes", ("what", "measured"))
    figures.rows = [
        *((f"requests: {kind}", count) for kind, count in sorted(taken.requests.items())),
        ("sent again, for there was no answer", sum(visitor.caller.repeats for visitor in visitors)),
        ("kills", len(restarts)),
        ("the longest restart, seconds", max(restarts)),
        ("chat messages sent, received", f"{sum(p.sent for p in pairs)}, {sum(p.received for p in pairs)}"),
        ("pushes of a page", sum(pair.updates for pair in pairs)),
        ("connections that broke", sum(pair.breaks for pair in pairs)),
        ("lag, median and longest, seconds", f"{statistics.median(lags):.2f}, {lags[-1]:.2f} of {len(lags)}"),
        ("memory of the last life, first and last, MB", _ends(memory)),
        ("its slope, MB a minute", memory.slope()),
        ("seconds until all was counted, after the last request", waited),
        ("items in the table", found.items),
    ]
    said = Report([method], [figures])
    said.targets = [
        Target("acknowledged writes that are lost", len(missing), 0),
        Target("writes that are there and were not acknowledged", len(surplus), 0),
        Target("sums that have drifted", len(found.drifted) + len(found.unsettled), 0),
        Target("malformed items", found.malformed, 0),
        Target("answers that were not right", len(taken.wrong), 0),
        Target("chat messages received twice", sum(pair.twice for pair in pairs), 0),
        Target("lags that were measured", len(taken.lags), 1, at_most=False),
        Target("the longest lag, seconds", lags[-1], LAG + HIDDEN * uses_queue),
        Target("memory, MB a minute", memory.slope(), SLOPE, strict=minutes >= LONG),
    ]
    if wrong := [*taken.wrong, *map(str, sorted(missing)), *map(str, sorted(surplus))]:
        said.figures.append(Figures("What went wrong", ("what",), [(line,) for line in wrong[:20]]))
    return said


def _kill(
    product: Product,
    memory: Memory,
    until: float,
    between: float,
    chance: random.Random,
    tell: Callable[[str], None],
) -> list[float]:
    """Kill the product at random until then, at least once; answer how long each restart took."""
    taken: list[float] = []
    while True:
        time.sleep(min(chance.expovariate(1 / between), 2 * between))
        if taken and time.monotonic() > until:
            return taken
        tell(f"kill {len(taken) + 1}")
        taken.append(product.kill())
        memory.life.clear()


def _queued(engine: Engine) -> int:
    """Count the messages that wait in the product's queue, those that somebody has received included."""
    if not engine.has_queues:
        return 0
    sqs = engine.client("sqs")
    url = sqs.get_queue_url(QueueName=SETTINGS.queue_name)["QueueUrl"]
    told = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
    return int(told["ApproximateNumberOfMessages"]) + int(told["ApproximateNumberOfMessagesNotVisible"])


def _ends(memory: Memory) -> str:
    known = [size for _, size in memory.life if size]
    return f"{known[0]:.0f}, {known[-1]:.0f} of {len(known)}" if known else "cannot be read here"
