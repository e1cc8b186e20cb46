"""One history: people, an admin and chatters on one table, everything going wrong, and then the reckoning."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from functools import cache
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from unittest import mock

import app
from bench.admins import Admin
from bench.chatters import Chatter
from bench.connections import FaultyWire
from bench.deliveries import Queue, Stream, surprised
from bench.network import Network
from bench.people import Facts, Person
from bench.plans import BOARDS, LIMIT, PATHS, Plan, plan
from bench.simulation import Sequential, World
from chalicelib import boards, challenges, connections, lobby, notes, queue, threads
from chalicelib.board_schemas import BoardBody, Order
from chalicelib.challenge_schemas import ChallengeBody
from chalicelib.items import Item, unpack
from chalicelib.posts import Posts
from chalicelib.settings import Settings
from chalicelib.table import Table
from local.engine import Engine
from ops.definition import definition

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

QUIET = timedelta(seconds=130)  # after which nobody is kept for anybody, and every claim has run out
TICK = dict.fromkeys(("version", "account", "region", "detail", "source", "time", "id", "resources"), "")
TICK["detail-type"] = "Scheduled Event"


@dataclass
class Outcome:
    """What came of a history; `differences` are `check: what`, none if all is as it should be."""

    seed: int
    differences: list[str] = field(default_factory=list)
    faults: Counter[str] = field(default_factory=Counter)
    calls: int = 0
    invocations: int = 0
    records: int = 0
    seconds: float = 0.0
    trace: str = ""


@dataclass
class History:
    """A history under way: the world, who lives in it, and what it left in the table."""

    world: World
    table: Table
    stream: Stream
    queue: Queue
    wire: FaultyWire
    facts: Facts
    people: list[Person]
    admin: Admin
    chatters: list[Chatter]
    settings: Settings
    plan: Plan
    expired: list[Item] = field(default_factory=list)
    items: list[Item] = field(default_factory=list)

    @property
    def everybody(self) -> tuple[Person | Chatter, ...]:
        """Answer all who live in it."""
        return (*self.people, self.admin, *self.chatters)

    def live(self) -> None:
        """Let everybody do what they want, and the deliveries come as they will."""
        chance = self.world.chance
        begins = 0.6 if self.plan.theme.is_rush else 0.1  # of the moments somebody does the next thing
        while self.world.tasks or not all(one.is_done for one in self.everybody):
            draw = chance.random()
            if draw < 0.9 - begins:
                self.world.step()
            elif draw < 0.9:
                chance.choice(self.everybody).act()
            elif draw < 0.955:
                self.stream.deliver()
            elif draw < 0.97:
                self.queue.deliver()
            elif draw < 0.985:
                self.stream.poll()
            elif draw < 0.988:
                self.sweep()
            elif draw > 0.995:
                self.world.pass_time(chance.choice((0.2, 1, 3, 8)))

    def drain(self) -> None:
        """Deliver until nothing is left, what the deliveries themselves change included."""
        while self.stream.poll() or not self.stream.is_empty or self.queue.waiting or self.world.tasks:
            if self.world.chance.random() < 0.15:
                self.stream.deliver()
                self.queue.deliver()
            if not self.world.step():
                self.stream.deliver()
                self.world.pass_time(0.5)
            for _ in range(20):
                if not self.world.step():
                    break

    def sweep(self) -> None:
        """Begin a sweep, as the schedule does each minute."""
        self.world.start(
            "sweep",
            lambda: app.sweep(TICK, None),
            failed=lambda error: surprised(self.world, "sweep", error),
            seconds=60,
        )

    def settle(self) -> None:
        """Let all faults end, and whatever heals by itself do so: in half of the histories by sweeps alone.

        In the others each client says something first, as clients do; a connection that was taken for dead
        says something in all.
        """
        self.world.is_calm = True
        for _ in range(3):  # found dead, let go by whom it was kept for, matched
            self.world.pass_time(QUIET.total_seconds())
            if self.world.seed % 2:
                self._ping(self.wire.open)
            self.sweep()
            self.world.run()
        self._ping({id for id in self.wire.open if connections.find(self.table, id) is None})
        self.world.pass_time(1)

    def _ping(self, ids: set[str]) -> None:
        for id in sorted(ids):
            self.chatters[0].say("ping", id=id)
            self.world.run()

    def expire(self, client: DynamoDBClient) -> None:
        """Let TTL take some views away, long after they were counted."""
        pages = client.get_paginator("scan").paginate(TableName=self.table.name, ConsistentRead=True)
        for typed in [item for page in pages for item in page["Items"]]:
            if typed["sk"]["S"].startswith("T#2") and self.world.chance.random() < 0.2:
                key = {"pk": typed["pk"], "sk": typed["sk"]}
                self.stream.expiring.add((key["pk"]["S"], key["sk"]["S"]))
                self.expired.append(unpack(typed))
                client.delete_item(TableName=self.table.name, Key=key)
                self.world.fault("a view expired")


def consume(event: dict[str, Any], context: Any) -> None:
    """Hand a batch to both consumers of the stream; a failure of either brings it again to both."""
    app.apply(event, context)
    app.push(event, context)


@contextmanager
def history(engine: Engine, client: DynamoDBClient, world: World) -> Iterator[tuple[History, Network]]:
    """Make a table, and everybody of a history; in here the app lives in the history's world."""
    network = Network(world, engine)
    boards._met.cache_clear()  # each history begins in a new process, as far as it can tell
    with table_of(client) as (name, arn), ExitStack() as on:
        on.enter_context(network.attached(client))
        table = Table(name, client, pause=world.sleep, clock=world.monotonic)
        wire, facts, wishes = FaultyWire(world), Facts(), plan(world.seed)
        messages = Queue(world, app.write_views)
        stream = Stream(world, engine.client("dynamodbstreams"), arn, consume)
        stage = app.stage._replace(queue_url="simulated" if wishes.has_queue else "")
        for patched in (
            mock.patch.object(app, "connect", return_value=table),
            mock.patch.object(app, "posts", Posts(lambda: wire, pause=world.sleep)),
            mock.patch.object(app, "refusals", connections.Refusals()),
            mock.patch.object(app, "datetime", SimpleNamespace(now=world.clock)),
            mock.patch.object(app, "stage", stage),
            mock.patch.object(queue, "_client", return_value=messages),
            mock.patch.object(threads, "_threads", return_value=Sequential()),
            mock.patch.object(lobby, "time", SimpleNamespace(monotonic=world.monotonic)),
            mock.patch.dict(lobby.sweep.__kwdefaults__, pause=world.sleep),
            mock.patch.object(notes.wait_until_told, "__defaults__", (world.sleep,)),
        ):
            on.enter_context(patched)
        yield (
            History(
                *(world, table, stream, messages, wire, facts),
                people=[
                    Person(world, facts, f"person-{0 if wishes.theme.is_one_player else i}", steps)
                    for i, steps in enumerate(wishes.people)
                ],
                admin=Admin(world, facts, wishes.admin, table, messages),
                chatters=[
                    Chatter(world, wire, f"chatter-{i}", steps, asks=not wishes.theme.is_rush)
                    for i, steps in enumerate(wishes.chatters)
                ],
                settings=stage,
                plan=wishes,
            ),
            network,
        )


@cache
def _shape() -> Any:
    """Write down the request that makes a table of the stage's own shape, but for its name."""
    properties = definition("local").table
    request = {n: v for n, v in properties.items() if not n.endswith("Specification")}
    return request | {"StreamSpecification": {"StreamEnabled": True, **properties["StreamSpecification"]}}


@contextmanager
def table_of(client: DynamoDBClient) -> Iterator[tuple[str, str]]:
    """Make a table for one history, and delete it after; answer its name and its stream's ARN."""
    name = f"history-{uuid.uuid4().hex}"
    made = client.create_table(**_shape() | {"TableName": name})["TableDescription"]
    try:
        yield name, made["LatestStreamArn"]
    finally:
        client.delete_table(TableName=name)


def prepare(table: Table, now: datetime) -> None:
    """Make the boards and the challenge of a history."""
    for name, operator in BOARDS.items():
        order: Order = "asc" if name == "best" else "desc"
        body = BoardBody(title=name, operator=operator, min=Decimal(-100), max=Decimal(100), order=order)
        boards.define(table, name, body, now)
    challenges.define(table, "hunt", ChallengeBody(title="Hunt", paths=list(PATHS), limit=LIMIT, ranked=True))
