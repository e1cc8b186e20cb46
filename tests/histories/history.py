"""One history: clients on one table while faults are injected, and then the check of every invariant."""

from __future__ import annotations

import os
import random
import traceback
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from functools import cache, partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from unittest import mock

import msgspec

import app
from chalicelib import concurrency
from chalicelib.aggregates import engine as engine_of_sums
from chalicelib.challenges import definitions
from chalicelib.challenges.schemas import ChallengeBody
from chalicelib.chat import connections, matchmaker, outbox
from chalicelib.chat.gateway import ConnectionGateway
from chalicelib.comments import definitions as product_definitions
from chalicelib.dynamo.items import Item, Key
from chalicelib.dynamo.table import Table, connect
from chalicelib.leaderboards import boards
from chalicelib.leaderboards.schemas import BoardBody, Order, Recurrence
from chalicelib.notices import sns
from chalicelib.ranking import positions, tree
from chalicelib.settings import Settings
from chalicelib.views import definitions as site_definitions
from chalicelib.views import queue
from chalicelib.views import visitors as visitors_without_id
from chalicelib.views.schemas import SiteBody
from local.engines.engine import Engine
from local.filters import filtered
from ops.aws.template import definition, table_request
from ops.maintenance.audit import read_items
from tests.histories.clients import Admin, Chatter, Known, Visitor
from tests.histories.event_sources import Queue, Stream
from tests.histories.network import FaultyGateway, FaultyTopic, Network, Planted
from tests.histories.scenario import (
    BLOCKED,
    BOARDS,
    LIMIT,
    PATHS,
    SERVER,
    TALK,
    ZONE,
    ZONED,
    Scenario,
    scenario,
)
from tests.histories.world import Stuck, World
from tests.support.contexts import new_context
from tests.support.interleavings import Sequential

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

TAGS = (2, 3, 6, 50)  # that an aggregate holds, in a history: with few of them they move to guard pages often
QUIET = timedelta(seconds=130)  # after which no partner is kept and every claim has expired
LENGTH = 400  # characters of a difference
TABLE_REQUEST = cache(lambda: table_request(definition("local").table))
TICK = dict.fromkeys(("version", "account", "region", "detail", "source", "time", "id", "resources"), "")
TICK["detail-type"] = "Scheduled Event"


@dataclass
class Outcome:
    """The outcome of a history. `differences` are `invariant: text`, none when every invariant holds."""

    seed: int
    differences: list[str] = field(default_factory=list)
    faults: Counter[str] = field(default_factory=Counter)
    calls: int = 0
    invocations: int = 0
    records: int = 0
    trace: str = ""


@dataclass
class History:
    """A running history: the world, the clients, and afterwards the items of the table."""

    world: World
    table: Table
    stream: Stream
    queue: Queue
    gateway: FaultyGateway
    topic: FaultyTopic
    known: Known
    visitors: list[Visitor]
    admin: Admin
    chatters: list[Chatter]
    settings: Settings
    scenario: Scenario
    expired: list[Item] = field(default_factory=list)
    items: list[Item] = field(default_factory=list)

    @property
    def clients(self) -> tuple[Visitor | Chatter, ...]:
        """Return all clients."""
        return (*self.visitors, self.admin, *self.chatters)

    def run(self) -> None:
        """Run the clients' actions while deliveries arrive at random."""
        rng = self.world.rng
        acts = 0.6 if self.scenario.theme.is_rush else 0.1  # the share of moments in which a client acts
        while self.world.tasks or not all(client.is_done for client in self.clients):
            draw = rng.random()
            if draw < 0.9 - acts:
                self.world.step()
            elif draw < 0.9:
                rng.choice(self.clients).act()
            elif draw < 0.955:
                self.stream.deliver()
            elif draw < 0.97:
                self.queue.deliver()
            elif draw < 0.985:
                self.stream.poll()
            elif draw < 0.988:
                self.sweep()
            elif draw > 0.995:
                self.world.advance(rng.choice((0.2, 1, 3, 8)))

    def drain(self) -> None:
        """Deliver until nothing is left, including the changes that deliveries cause."""
        while self.stream.poll() or not self.stream.is_empty or self.queue.waiting or self.world.tasks:
            if self.world.rng.random() < 0.15:
                self.stream.deliver()
                self.queue.deliver()
            if not self.world.step():
                self.stream.deliver()
                self.world.advance(0.5)
            for _ in range(20):
                if not self.world.step():
                    break

    def sweep(self) -> None:
        """Start a sweep, as the schedule does each minute."""
        self.world.start("sweep", lambda: app.sweep(TICK, None), seconds=60)

    def recover(self) -> None:
        """Stop all faults and let the chat recover: in half of the histories through sweeps alone.

        In the others each open connection sends a ping first. A connection that was taken for dead sends one
        in all histories.
        """
        self.world.is_calm = True
        self.gateway.open -= self.gateway.frozen  # API Gateway has noticed
        for _ in range(3):  # sweeps: find the dead, release the kept partners, match
            self.world.advance(QUIET.total_seconds())
            if self.world.seed % 2:
                self._ping(self.gateway.open)
            self.sweep()
            self.world.run()
        self._ping({id for id in self.gateway.open if connections.find(self.table, id) is None})
        self.world.advance(1)

    def _ping(self, ids: set[str]) -> None:
        for id in sorted(ids):
            self.chatters[0].send("ping", id=id)
            self.world.run()

    def expire(self, client: DynamoDBClient) -> None:
        """Expire some views through TTL, long after they were counted."""
        for item in list(read_items(client, self.table.name)):
            if item["sk"].startswith("T#2") and self.world.rng.random() < 0.2:
                self.stream.expiring.add((item["pk"], item["sk"]))
                self.expired.append(item)
                self.table.delete(Key(item["pk"], item["sk"]))
                self.world.fault("a view expired")


def run(engine: Engine, seed: int, planted: Planted | None = None) -> Outcome:
    """Run one history and check every invariant. An error raised on the way is a difference too."""
    from tests.histories.invariants import CHECKS, unmatched

    client = connect(Settings(endpoint=engine.endpoint)).client
    world = World(seed)
    outcome = Outcome(seed)
    random.seed(seed)  # the product's own generator: a random partner, the jitter of a retry
    with started(engine, client, world, planted) as (history, network):
        try:
            world.is_calm = True
            create_definitions(history.table, world.now)
            world.is_calm = history.scenario.is_calm
            history.run()
            history.drain()
            history.items = list(read_items(client, history.table.name))
            outcome.differences += [f"chat: {difference}" for difference in unmatched(history)]
            history.recover()
            history.expire(client)
            world.is_calm = history.scenario.is_calm
            history.drain()
            world.is_calm = True
            history.items = list(read_items(client, history.table.name))
            for name, check in CHECKS.items():
                outcome.differences += [f"{name}: {difference}"[:LENGTH] for difference in check(history)]
        except Stuck as error:
            outcome.differences += [
                f"handlers: {unexpected}"[:LENGTH] for unexpected in (*world.unexpected[:3], error)
            ]
        except Exception:
            outcome.differences.append(f"handlers: {traceback.format_exc()[-1500:]}")
        outcome.faults, outcome.calls = world.faults, network.calls
        outcome.records, outcome.invocations = len(history.stream.records), world.invocations
    outcome.trace = world.trace
    return outcome


def _consume(event: Any, context: Any) -> None:
    """Deliver a batch to both consumers of the stream, each through its filter.

    A failure of either delivers it again to both.
    """
    filtered(app.apply, "apply")(event, context)
    filtered(app.push, "push")(event, context)


@contextmanager
def started(
    engine: Engine, client: DynamoDBClient, world: World, planted: Planted | None = None
) -> Iterator[tuple[History, Network]]:
    """Create the table and the clients of a history, and run the app in the history's world."""
    network = Network(world, planted)
    positions._seen_nodes.cache_clear()
    boards._cached_boards.cache_clear()  # each history begins in a new process, as far as it can tell
    with created_table(client) as (name, arn), ExitStack() as stack:
        stack.enter_context(network.attached(client))
        table = Table(name, client, pause=world.sleep, clock=world.monotonic)
        gateway, known, plan = FaultyGateway(world), Known(), scenario(world.seed)
        messages = Queue(world, lambda event, context: app.write_views(event, context))
        stream = Stream(world, engine.client("dynamodbstreams"), arn, _consume)
        topic = FaultyTopic(world)
        stage = app.stage._replace(queue_url="simulated" if plan.has_queue else "", comments_block=(BLOCKED,))
        stage = stage._replace(notices="on", notice_topic="simulated")
        for patch in (
            mock.patch.object(uuid, "uuid4", partial(_draw_uuid, os.urandom)),
            mock.patch.object(os, "urandom", source := random.Random(f"system {world.seed}").randbytes),
            mock.patch.object(random, "_urandom", source),  # what `secrets` calls
            mock.patch.object(app, "connect", return_value=table),
            mock.patch.object(app, "gateway", ConnectionGateway(lambda: gateway, pause=world.sleep)),
            mock.patch.object(tree, "LIMIT", 1),  # so that the few players of a history need a deep tree
            mock.patch.object(app, "datetime", SimpleNamespace(now=world.clock)),
            mock.patch.object(app, "stage", stage),
            mock.patch.object(engine_of_sums, "TAGS", random.Random(f"tags {world.seed}").choice(TAGS)),
            mock.patch.object(queue, "client", return_value=messages),
            mock.patch.object(sns, "client", return_value=topic),
            mock.patch.object(sns, "time", SimpleNamespace(sleep=world.sleep)),
            mock.patch.object(visitors_without_id, "_salts", side_effect=dict),  # as in new processes
            mock.patch.object(app, "refusals", connections.RefusalCache()),
            mock.patch.object(concurrency, "_threads", return_value=Sequential()),
            mock.patch.object(matchmaker, "time", SimpleNamespace(monotonic=world.monotonic)),
            mock.patch.dict(matchmaker.sweep.__kwdefaults__, pause=world.sleep),
            mock.patch.object(outbox.wait_until_delivered, "__defaults__", (world.sleep,)),
            *(planted.patches() if planted else ()),
        ):
            stack.enter_context(patch)
        visitors = [
            Visitor(world, known, f"person-{0 if plan.theme.is_one_player else i}", actions)
            for i, actions in enumerate(plan.visitors)
        ]
        chatters = [Chatter(world, gateway, known, i, actions) for i, actions in enumerate(plan.chatters)]
        admin = Admin(world, known, plan.admin, table, messages)
        clients = (known, visitors, admin, chatters)
        yield History(world, table, stream, messages, gateway, topic, *clients, stage, plan), network


def _draw_uuid(draw: Callable[[int], bytes]) -> uuid.UUID:
    """Return a UUID that no other history has: the engine remembers the tokens of transactions."""
    return uuid.UUID(bytes=draw(16), version=4)


@contextmanager
def created_table(client: DynamoDBClient) -> Iterator[tuple[str, str]]:
    """Create a table for one history and delete it afterwards; yield its name and its stream's ARN."""
    name = f"history-{uuid.uuid4().hex}"
    created = client.create_table(**TABLE_REQUEST() | {"TableName": name})["TableDescription"]
    try:
        yield name, created["LatestStreamArn"]
    finally:
        client.delete_table(TableName=name)


def create_definitions(table: Table, now: datetime) -> None:
    """Create the boards and the challenge of a history."""
    for name, operator in BOARDS.items():
        order: Order = "asc" if name == "best" else "desc"
        body = BoardBody(title=name, operator=operator, min=Decimal(-100), max=Decimal(100), order=order)
        if name == "first":
            resets = Recurrence(every="day", timezone=ZONE)
            body = msgspec.structs.replace(body, ties="first", metadata=True, resets=resets)
        if name == SERVER:
            body = msgspec.structs.replace(body, submit="server")
        boards.define(new_context(table, now - timedelta(hours=1)), name, body)
    hunt = ChallengeBody(title="Hunt", paths=list(PATHS), limit=LIMIT, ranked=True)
    definitions.define(new_context(table, now), "hunt", hunt)
    product_definitions.begin_discussion(table, TALK)
    site_definitions.define(table, ZONED, SiteBody(timezone=ZONE, hosts=[f"www.{ZONED}"]), now)
