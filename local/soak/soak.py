"""The whole product under mixed load and random kills, and an audit of everything it accepted."""

from __future__ import annotations

import contextlib
import random
import statistics
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from chalicelib import times, urls
from chalicelib.challenges import progress
from chalicelib.comments import comments
from chalicelib.dynamo.items import Key
from chalicelib.dynamo.table import Table
from chalicelib.leaderboards import scores as leaderboards
from chalicelib.views import events as views
from chalicelib.views.events import View
from local import plots
from local.engines.engine import Engine, start
from local.soak.clients import AT_ONCE, BOARD, CHALLENGE, Accepted, Pair, Probe, Storm, Visitor, define
from local.soak.product import SETTINGS, Product
from local.soak.target import Target
from ops.maintenance import audit
from ops.maintenance.audit import scan
from ops.maintenance.streams import follow_stream

if TYPE_CHECKING:
    from mypy_boto3_dynamodbstreams import DynamoDBStreamsClient

VISITORS, PAIRS = 4, 2
KILLED = 0.6  # the share of the time in which processes are killed; in the rest the memory is watched
BETWEEN = 20.0  # seconds between two kills, on average
DURABLE = "dynoxide"  # the engine that keeps every acknowledged write when it is killed
KILLS = ("kill -9 of the app", "kill -9 of the engine, then of the app", "SIGINT")
LAG, HIDDEN = 60.0, 180.0  # seconds, restarts included; those in which a killed pump's messages are hidden
SLOPE = 2.0  # megabytes a minute
LONG = 5.0  # minutes from which on the slope of the memory decides
SETTLED, SETTLE = 300.0, 3.0  # seconds that counting may take, and between two audits
METHOD = """Soak. `python -m local` in a process of its own{engine}; {visitors} HTTP clients send {rate:g} \
requests a second in all (views, scores, paths, comments, edits, deletions, reads; one in twenty twice), \
{pairs} pairs chat over sockets and subscribe to a page. Storms of {at_once} concurrent requests hide and \
show a comment, end a season, define a challenge, and read around players that move. In the first \
{part:.0%} of {minutes:g} minutes, every {between:g} seconds on average, {kills}. It is started again on \
the same data. Clients retry every request without a response. A probe posts views and polls until each is \
counted: that is the lag, restarts included{hidden}. Memory is the process's resident set, each second; its \
slope is that of a line through the last life's second half. In the end `ops audit` must find every sum \
right. The process is then interrupted once more, and every acknowledged write must be in the table once \
and nothing else."""


class Memory(threading.Thread):
    """Samples the product's memory each second."""

    def __init__(self, product: Product, stop: threading.Event) -> None:
        super().__init__(name="memory", daemon=True)
        self.samples: list[tuple[float, float]] = []  # of the present life
        self._product, self._stopping = product, stop

    def run(self) -> None:
        """Sample until told to stop."""
        while not self._stopping.wait(1):
            self.samples.append((time.monotonic(), self._product.memory()))

    def slope(self) -> float:
        """Return megabytes a minute in the second half of the present life."""
        half = [one for one in self.samples[len(self.samples) // 2 :] if one[1]]
        return 60 * statistics.linear_regression(*zip(*half, strict=True)).slope if len(half) > 2 else 0.0

    def ends(self) -> str:
        """Return the first and the last sample as text."""
        known = [size for _, size in self.samples if size]
        return f"{known[0]:.0f}, {known[-1]:.0f} of {len(known)}" if known else "unknown"


class Soak(NamedTuple):
    """The outcome of a soak: its method, its figures, a plot of the lag, its targets and the errors."""

    method: str
    figures: list[tuple[str, str | int | float]]
    plot: list[str]
    targets: list[Target]
    errors: list[str]


def soak(kind: str, minutes: float, rate: float, seed: int, tell: Callable[[str], None]) -> Soak:
    """Run it all. dynoxide is killed too; another engine is started here and outlives the product.

    Raises EngineUnavailable, and RuntimeError when the product does not start again.
    """
    rng, accepted, stop, killing = random.Random(seed), Accepted(), threading.Event(), threading.Lock()
    is_durable = kind == DURABLE
    between = min(BETWEEN, max(1.0, KILLED * 60 * minutes / 2))
    with contextlib.ExitStack() as running:
        data = Path(running.enter_context(tempfile.TemporaryDirectory())) / "data"
        other = None if is_durable else running.enter_context(start(kind, data=None))
        uses_queue = False
        options = ["--queue"] if uses_queue else []
        product = running.enter_context(Product(other.endpoint if other else kind, data, *options))
        define(product)
        visitors = [Visitor(product, accepted, n, rate / VISITORS, stop) for n in range(VISITORS)]
        pairs = [Pair(product, n, stop) for n in range(PAIRS)]
        memory = Memory(product, stop)
        begun = time.monotonic()
        storm, probe = Storm(product, accepted, killing, stop), Probe(product, accepted, stop)
        clients = [*visitors, *pairs, storm, probe, memory]
        for client in clients:
            client.start()
        kinds = KILLS if is_durable else (KILLS[0], KILLS[2])
        kills = Kills(product, memory, killing, kinds, accepted.wrong)
        kills.run(begun + KILLED * 60 * minutes, between, rng, tell)
        tell(f"{len(kills.starts)} kills, {sum(accepted.requests.values()):,} requests")
        stop.wait(max(0.0, begun + 60 * minutes - time.monotonic()))
        stop.set()
        for client in clients:
            client.join(150)
        accepted.wrong += [f"{client.name} did not end" for client in clients if client.is_alive()]
        engine = start(other.endpoint if other else f"http://127.0.0.1:{product.engine_port}", data=None)
        table = Table(SETTINGS.table, engine.client("dynamodb"))
        waited, found = _settle(table, engine.client("dynamodbstreams"), lambda: _queued(engine), tell)
        code = product.interrupt()
        if is_durable:
            table = Table(SETTINGS.table, running.enter_context(start(kind, data)).client("dynamodb"))
        missing, surplus = compare(table, accepted)
    method = METHOD.format(
        engine=", which starts its engine" if is_durable else ", on an engine that outlives it",
        hidden=f" (messages of a killed pump come again after {HIDDEN:.0f} s)" if uses_queue else "",
        kills=f"the process is stopped in one of these ways in turn: {', '.join(kinds)}",
        **{"visitors": VISITORS, "rate": rate, "pairs": PAIRS, "part": KILLED, "at_once": AT_ONCE},
        **{"minutes": minutes, "between": between},
    )
    lags = sorted(lag for _, lag in accepted.lags) or [0.0]
    figures: list[tuple[str, str | int | float]] = [
        *((f"requests: {kind}", count) for kind, count in sorted(accepted.requests.items())),
        ("retries", sum(visitor.caller.retries for visitor in visitors)),
        ("kills", len(kills.starts)),
        *((f"kills: {kind}", count) for kind, count in sorted(kills.counts.items())),
        ("the longest start, seconds", max(kills.starts)),
        ("chat messages sent, received", f"{sum(p.sent for p in pairs)}, {sum(p.received for p in pairs)}"),
        ("pushes of a page", sum(pair.updates for pair in pairs)),
        ("broken connections", sum(pair.breaks for pair in pairs)),
        ("lag, median and longest, seconds", f"{statistics.median(lags):.2f}, {lags[-1]:.2f} of {len(lags)}"),
        ("memory of the last life, first and last, MB", memory.ends()),
        ("its slope, MB a minute", memory.slope()),
        ("seconds from the last request until all was counted", waited),
        ("items in the table", found.items),
    ]
    moments = [(accepted_at - begun, lag) for accepted_at, lag in accepted.lags]
    plot = [
        f"The longest lag, in seconds, by the time of the view, over {minutes:g} minutes; × is a kill.",
        *plots.columns(moments, 60 * minutes, [moment - begun for moment in kills.moments]),
    ]
    errors = sum(one.caller.errors for one in visitors) + probe.caller.errors
    targets = [
        Target("acknowledged writes that are lost", len(missing), 0),
        Target("stored writes that were not acknowledged", len(surplus), 0),
        Target("wrong sums", len(found.drifted) + len(found.unsettled), 0),
        Target("malformed items", found.malformed, 0),
        Target("wrong responses", len(accepted.wrong), 0),
        Target("responses with 500 while all processes ran", errors, 0),
        Target("chat messages received twice", sum(pair.twice for pair in pairs), 0),
        Target("chat messages before partner_connected", sum(pair.early for pair in pairs), 0),
        Target("exit code of the last SIGINT", code, 0),
        Target("measured lags", len(accepted.lags), 1, at_most=False),
        Target("the longest lag, seconds", lags[-1], LAG + HIDDEN * uses_queue),
        Target("memory, MB a minute", memory.slope(), SLOPE, strict=minutes >= LONG),
    ]
    wrong = [*accepted.wrong, *map(str, sorted(missing)), *map(str, sorted(surplus))]
    return Soak(method, figures, plot, targets, wrong)


class Kills:
    """Kills and restarts the product; `moments` are when, `starts` the seconds of each restart."""

    def __init__(
        self,
        product: Product,
        memory: Memory,
        killing: threading.Lock,
        kinds: Sequence[str],
        wrong: list[str],
    ) -> None:
        self.moments: list[float] = []
        self.starts: list[float] = []
        self.counts: Counter[str] = Counter()
        self._product, self._memory, self._killing = product, memory, killing
        self._kinds, self._wrong = kinds, wrong

    def run(self, until: float, between: float, rng: random.Random, tell: Callable[[str], None]) -> None:
        """Kill at random until then, at least once, and each kind of kill in turn."""
        while True:
            time.sleep(min(rng.expovariate(1 / between), 2 * between))
            if self.starts and time.monotonic() > until:
                return
            kind = self._kinds[len(self.starts) % len(self._kinds)]
            with self._killing:
                tell(f"kill {len(self.starts) + 1}: {kind}")
                self.moments.append(time.monotonic())
                self._kill(kind, rng)
            self.counts[kind] += 1
            self.starts.append(self._product.seconds)
            self._memory.samples.clear()

    def _kill(self, kind: str, rng: random.Random) -> None:
        if kind == KILLS[2]:
            if code := self._product.interrupt():
                self._wrong.append(f"SIGINT ended with {code}")
        else:
            if kind == KILLS[1]:
                self._product.kill_engine()
                time.sleep(rng.random())  # requests meet an app without its engine
            self._product.kill()
        self._product.start()


# -- the audit -------------------------------------------------------------------------------------


def _queued(engine: Engine) -> int:
    """Return the number of messages in the product's queue, the received ones included."""
    return 0


def _settle(
    table: Table, streams: DynamoDBStreamsClient, queued: Callable[[], int], tell: Callable[[str], None]
) -> tuple[float, audit.AuditResult]:
    """Wait until the queue is empty and every sum is right; return the seconds and the last audit."""
    from app import CONTRIBUTIONS

    begun = time.monotonic()
    while True:
        waiting = queued()
        found = audit.audit(table, CONTRIBUTIONS, follow_stream(table, streams), SETTLE, lambda _: None)
        seconds, wrong = time.monotonic() - begun, len(found.drifted) + len(found.unsettled)
        if not (waiting or wrong) or seconds > SETTLED:
            return seconds, found
        tell(f"counting: {waiting} messages wait, {wrong} sums differ")


def compare(table: Table, accepted: Accepted) -> tuple[set[Key], set[Key]]:
    """Return the acknowledged items that are missing or wrong, and the stored ones nobody acknowledged."""
    expected = {
        views.event_key(View(urls.canonical(url), times.parse(time), client))
        for url, events in accepted.views.items()
        for time, client in events
    }
    for player, scores in accepted.scores.items():
        expected |= {leaderboards.activity_key(BOARD, player, id) for id in scores}
    for player, paths in accepted.paths.items():
        expected |= {progress.path_key(CHALLENGE, player, path) for path in paths}
    for product, ids in accepted.comments.items():
        expected |= {comments.comment_key(product, id) for id in ids}
    items = {Key(item["pk"], item["sk"]): item for item in scan(table.client, table.name)}
    stored = {key for key in items if key.sk.startswith(("T#", "ACTIVITY#", "PATH#", "COMMENT#"))}
    wrong_scores = {
        key
        for player, ids in accepted.scores.items()
        if items.get(key := leaderboards.score_key(BOARD, 1, player), {}).get("score") != sum(ids.values())
    }
    return (expected - stored) | wrong_scores, stored - expected
