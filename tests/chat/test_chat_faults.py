"""Chat with real WebSocket clients during faults of the table, the posts and the process."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError
from websockets.exceptions import InvalidStatus

import app
from chalicelib.chat import outbox
from chalicelib.dynamo.table import Table
from local.engines.engine import Engine
from local.gateway import Gateway
from tests.chat import test_chat_clients
from tests.chat.test_chat_clients import until
from tests.chat.test_chat_races import history
from tests.conftest import EngineTable
from tests.histories.invariants import pairs
from tests.support.conflicts import InFlight
from tests.support.faults import refused
from tests.support.tables import table_on

COUNT = 16
STEPS = 12


class Crash(Exception):
    """A simulated end of the process: the handler stops here."""


class Faults:
    """Random faults while `is_on`. They are counted, so that a test can check that there were some."""

    def __init__(self, seed: int) -> None:
        self.is_on = False
        self.count = 0
        self._chance = random.Random(seed)
        self._lock = threading.Lock()

    def strikes(self, share: float) -> bool:
        with self._lock:
            is_hit = self.is_on and self._chance.random() < share
            self.count += is_hit
        return is_hit

    def throttle(self, **_: Any) -> Any:
        return refused("ThrottlingException") if self.strikes(0.1) else None

    def crash(self, **_: Any) -> None:
        if self.strikes(0.05):
            raise Crash


class Session:
    """The gateway's session. Its posts may fail."""

    region_name = "local"

    def __init__(self, management: Any, before: Callable[[], None]) -> None:
        self._management, self._before = management, before

    def client(self, *_: Any, **__: Any) -> Session:
        return self

    def post_to_connection(self, **fields: Any) -> Any:
        self._before()
        return self._management.post_to_connection(**fields)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._management, name)


class Client(test_chat_clients.Client):
    """A client that survives faults, and counts its notices."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.all_heard: list[str] = []
        self.partner: int | None = None  # the author of the last message
        self.sent = self.notified = 0

    def _take(self, frame: Any) -> None:
        if frame.get("message") == "Internal server error":
            return
        if frame["type"] == "system" and frame["code"] == "partner_connected":
            self.notified += 1
            self.notes.append("perhaps left")  # its own `next` and a notice may cross
        if frame["type"] == "message":
            self.all_heard.append(frame["text"])
            self.partner = int(frame["text"].split()[0])
        super()._take(frame)

    async def enter(self, url: str) -> None:
        while True:
            try:
                return await super().enter(url)
            except InvalidStatus as error:  # 502 from a crashed handler, 503 from a busy table
                if error.response.status_code not in (502, 503):
                    raise

    async def talk(self) -> None:
        self.sent += 1
        await self.send("message", text=f"{self.number} {self.sent}")


@pytest.fixture
def table(engine: Engine) -> Iterator[EngineTable]:
    with table_on(engine) as made:
        yield engine, made.name, made.stream_arn


@contextmanager
def serving(
    engine_table: EngineTable, faults: Faults, kind: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[str]:
    """Serve the app with faults of a kind, and yield the socket's address."""
    engine, name, _ = engine_table
    client = engine.client("dynamodb")
    monkeypatch.setattr(app, "connect", lambda: Table(name, client))
    monkeypatch.setattr(app, "stage", app.stage._replace(chat_again=timedelta(seconds=1)))
    gateway = Gateway(app.app, 0)
    posting = {"throttles": lambda: _throttle(faults), "crashes": faults.crash}.get(kind, lambda: None)
    session = Session(gateway.session().client("apigatewaymanagementapi"), posting)
    monkeypatch.setattr(app.app.websocket_api, "session", session)
    if kind == "silence":  # $disconnect is best effort on AWS: here it never comes
        monkeypatch.delitem(app.app.websocket_handlers, "$disconnect")
    with ExitStack() as on:
        if kind == "conflicts":
            in_flight = InFlight(latency=0.005)
            on.enter_context(in_flight.attached(client))
            on.callback(lambda: setattr(faults, "count", in_flight.refused))
        hooks: list[tuple[str, Any]] = []
        if kind == "throttles":
            hooks = [("before-call.dynamodb", faults.throttle)]
        elif kind == "crashes":  # after a transaction, before its notices are delivered, and before any call
            monkeypatch.setattr(outbox, "CLAIM", 3)
            hooks = [
                ("after-call.dynamodb.TransactWriteItems", faults.crash),
                ("before-call.dynamodb", faults.crash),
            ]
        for event, hook in hooks:
            client.meta.events.register(event, hook)
            on.callback(client.meta.events.unregister, event, hook)
        gateway.start()
        on.callback(gateway.stop)
        yield gateway.url


def _throttle(faults: Faults) -> None:
    if faults.strikes(0.1):
        raise ClientError({"Error": {"Code": "LimitExceededException", "Message": ""}}, "PostToConnection")


async def live(url: str, faults: Faults, kind: str, chance: random.Random) -> list[Client]:
    """Make clients join, talk, change partners, leave and die. Then check that all are in pairs.

    Returns all clients.
    """
    clients = [Client(number) for number in range(COUNT)]
    every_client = list(clients)
    faults.is_on = True
    await asyncio.gather(*(one.enter(url) for one in clients))
    for _ in range(STEPS):
        for index, one in enumerate(clients):
            what = chance.choices(("message", "next", "status", "leave", "die"), (12, 3, 2, 1, 1))[0]
            if what == "message":
                await one.talk()
            elif what != "die":
                await one.send(what)
            else:
                one.socket.transport.abort()
                clients[index] = Client(len(every_client))
                every_client.append(clients[index])
                await clients[index].enter(url)
        await asyncio.gather(*(_answered(one) for one in clients))
    faults.is_on = False
    for one in clients:
        one.partner = None
    for one in clients:
        await one.send("find")
    alive = {one.number: one for one in clients}

    def is_paired(one: Client) -> bool:
        partner = alive.get(-1 if one.partner is None else one.partner)
        return partner is not None and partner.partner == one.number

    async def all_talk() -> None:
        while not all(map(is_paired, clients)):
            for one in clients:
                await one.talk()
            await asyncio.sleep(1)  # keeps below thirty frames in ten seconds

    await asyncio.wait_for(all_talk(), test_chat_clients.PATIENCE)
    for one in clients:
        await one.socket.close()
        await one.reader
    return every_client


async def _answered(one: Client) -> None:
    """Wait until a client's frames are handled, which happens in order."""
    one.state = ""
    while not one.state:
        await one.send("status")
        try:
            await until(lambda: one.state, "a status", 2)
        except AssertionError:  # its handler crashed, or the connection is marked as gone
            assert not one.reader.done(), "an open connection was closed"


@pytest.mark.long
@pytest.mark.parametrize(
    "kind",
    [
        "conflicts",
        *(pytest.param(one, marks=pytest.mark.long) for one in ("throttles", "silence", "crashes")),
    ],
)
def test_clients_talk_during_faults_and_are_matched_after_them(
    table: EngineTable, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    faults = Faults(seed)
    with serving(table, faults, kind, monkeypatch) as url:
        clients = asyncio.run(live(url, faults, kind, random.Random(seed)))
    assert kind == "silence" or faults.count > 10
    met = pairs(history(table), may_meet_again=True)
    assert len(met) > COUNT
    if kind != "crashes":  # after a crash a notice may be sent twice
        assert sum(one.notified for one in clients) <= 2 * len(met)
    for one in clients:
        received: dict[str, list[int]] = {}
        for text in one.all_heard:
            sender, number = text.split()
            received.setdefault(sender, []).append(int(number))
        assert all(numbers == sorted(set(numbers)) for numbers in received.values()), (
            "a message came twice, or out of order"
        )
