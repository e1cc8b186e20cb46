"""Chat with real WebSocket clients on the running product, one of them from npm."""

from __future__ import annotations

import asyncio
import json
import random
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from tests.support.running import ENVIRONMENT, PAGE, Run, view

PATIENCE = 120.0  # seconds: a crowd is slow on a slow machine


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    with Run(tmp_path_factory.mktemp("chat") / "data", "--no-reload") as running:
        yield running


class Client:
    """A client that keeps the messages of its current partner, and all notices."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.state = ""
        self.heard: list[str] = []
        self.errors: list[str] = []
        self.notes: list[str] = []
        self.changes: list[Any] = []

    async def enter(self, url: str) -> None:
        self.socket: ClientConnection = await connect(url, open_timeout=60, ping_interval=None)
        self.reader = asyncio.create_task(self._read())
        await self.send("status")

    async def send(self, action: str, **fields: Any) -> None:
        await self.socket.send(json.dumps({"action": action, **fields}))

    async def _read(self) -> None:
        try:
            async for raw in self.socket:
                self._take(json.loads(raw))
        except ConnectionClosed:
            pass

    def _take(self, frame: Any) -> None:
        if frame["type"] == "status":
            self.state = frame["state"]
        elif frame["type"] == "system":
            if frame["code"] == "partner_connected":
                assert not self.has_partner, "two partners at once"
            else:  # both may leave at the same time
                assert self.notes, "a partner was lost that was never there"
            self.notes.append(frame["code"])
            self.heard.clear()
        elif frame["type"] == "message":
            self.heard.append(frame["text"])
        elif frame["type"] == "error":
            self.errors.append(frame["code"])
        elif frame["type"] == "update":
            self.changes.append(frame)

    @property
    def has_partner(self) -> bool:
        return self.notes[-1:] == ["partner_connected"]

    def leave_partner(self) -> None:
        """Record that this client leaves its partner, for which there is no notice."""
        self.notes.append("left")
        self.heard.clear()


async def until(condition: Callable[[], Any], what: str, patience: float = PATIENCE) -> None:
    deadline = time.monotonic() + patience
    while not condition():
        assert time.monotonic() < deadline, f"after {patience} s still not: {what}"
        await asyncio.sleep(0.02)


async def introduce(clients: list[Client]) -> dict[int, int]:
    """Send each client's number to its partner. Return the partner of each client."""
    await asyncio.gather(*(one.send("message", text=f"{one.number} 0") for one in clients))
    await until(lambda: all(one.heard for one in clients), "every client has a message of its partner")
    return {one.number: int(one.heard[0].split()[0]) for one in clients}


async def crowd(url: str, count: int, seed: int) -> None:
    chance = random.Random(seed)
    clients = [Client(number) for number in range(count)]
    door = asyncio.Semaphore(50)  # simultaneous handshakes: each must succeed within 29 seconds

    async def admit(one: Client) -> None:
        async with door:
            await one.enter(url)

    await asyncio.gather(*(admit(one) for one in clients))
    await until(lambda: all(one.has_partner for one in clients), "every client has a partner")

    partners = await introduce(clients)
    assert all(partners[other] == one != other for one, other in partners.items())

    for number in range(1, 11):
        await asyncio.gather(*(one.send("message", text=f"{one.number} {number}") for one in clients))
    await until(lambda: all(len(one.heard) >= 11 for one in clients), "all messages have come")
    for one in clients:
        assert one.heard == [f"{partners[one.number]} {number}" for number in range(11)]
        assert one.errors == []

    # Some clients die without a close and some leave. Those who stay are matched again.
    shuffled = chance.sample(clients, count)
    fifth = count // 5
    dying, leaving, staying = shuffled[:fifth], shuffled[fifth : 2 * fifth], shuffled[2 * fifth :]
    gone = {one.number for one in (*dying, *leaving)}
    lost = [(one, len(one.notes)) for one in staying if partners[one.number] in gone]
    for one in dying:
        one.socket.transport.abort()
    await asyncio.gather(*(one.socket.close() for one in leaving))
    await until(
        lambda: all(len(one.notes) > count for one, count in lost),
        "every client that has lost its partner is notified",
    )
    matched, partners = await introduce_matched(staying)

    # Then one client of every other pair sends `next`.
    going = [one for one in matched if one.number < partners[one.number]][::2]
    left = {partners[one.number] for one in going}
    lost = [(one, len(one.notes)) for one in matched if one.number in left]
    for one in going:
        one.leave_partner()
    await asyncio.gather(*(one.send("next") for one in going))
    await until(
        lambda: all(len(one.notes) > count for one, count in lost),
        "every client whose partner has left is notified",
    )
    await introduce_matched(staying)
    await asyncio.gather(*(one.socket.close() for one in staying))
    assert not [one.number for one in clients if one.reader.done() and one.reader.exception()]


async def introduce_matched(clients: list[Client]) -> tuple[list[Client], dict[int, int]]:
    """Wait until clients are matched, and check that they are in pairs. Return them and their partners."""
    await all_but_one(clients)
    matched = [one for one in clients if one.has_partner]
    for one in matched:
        one.heard.clear()
    partners = await introduce(matched)
    assert all(partners[other] == one != other for one, other in partners.items())
    return matched, partners


async def all_but_one(clients: list[Client]) -> None:
    """Wait until at most one client has no partner. Those without one send pings, as real ones do."""
    deadline = time.monotonic() + PATIENCE
    while sum(not one.has_partner for one in clients) > len(clients) % 2:
        assert time.monotonic() < deadline, "a client that stayed has no partner"
        await asyncio.sleep(2)
        for one in clients:
            if not one.has_partner:
                await one.send("ping")


@pytest.mark.long
@pytest.mark.parametrize("count", [20, *(pytest.param(many, marks=pytest.mark.long) for many in (60, 500))])
def test_a_crowd_of_clients_joins_talks_leaves_and_dies(run: Run, count: int) -> None:
    """Every message comes once, in order, and only to the partner."""
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    asyncio.run(crowd(f"ws://127.0.0.1:{run.socket_port}/?lobby=crowd-{count}", count, seed))


def test_views_are_pushed_to_a_subscriber_of_the_page_with_the_last_value(run: Run) -> None:
    async def listen() -> None:
        client = Client(1)
        await client.enter(f"ws://127.0.0.1:{run.socket_port}/?lobby=listener")
        await client.send("subscribe", topic=f"views:{PAGE}")
        await until(lambda: client.state, "a status")
        await client.send("ping")
        for number in range(20):
            await asyncio.to_thread(run.post, view(f"push-{number}"))
        await until(
            lambda: client.changes and client.changes[-1]["value"]["visitors"] == 20, "the last value", 20
        )
        values = [change["value"]["views"] for change in client.changes]
        assert values == sorted(values)
        assert values[-1] == 20
        assert client.changes[-1] == {
            "type": "update",
            "topic": f"views:{PAGE}",
            "value": {"url": PAGE, "views": 20, "visitors": 20},
        }
        await client.send("unsubscribe", topic=f"views:{PAGE}")
        await client.socket.close()

    asyncio.run(listen())


OTHERS = """
const WebSocket = require("ws");
const said = [];
const open = (name) => {
  const socket = new WebSocket(process.argv[2]);
  socket.on("open", () => socket.send(JSON.stringify({action: "status"})));
  socket.on("message", (data) => {
    const frame = JSON.parse(data);
    said.push([name, frame]);
    if (frame.code === "partner_connected" && name === "b")
      socket.send(JSON.stringify({action: "message", text: "h\\u00e9llo"}));
    if (frame.type === "message") socket.close();
    if (frame.code === "partner_disconnected") {
      console.log(JSON.stringify(said));
      process.exit(0);
    }
  });
  return socket;
};
open("a").once("message", () => open("b"));
setTimeout(() => { console.log(JSON.stringify(said)); process.exit(1); }, 20000);
"""


def test_a_third_party_client_can_chat(run: Run, tmp_path: Path) -> None:
    """The client is npm's ws, which the test installs."""
    npm, node = shutil.which("npm"), shutil.which("node")
    if not npm or not node:
        pytest.skip("npm is not installed")
    fetched = subprocess.run(
        [npm, "install", "--silent", "--no-audit", "--no-fund", "ws@8"],
        cwd=tmp_path,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=600,
    )
    if fetched.returncode:
        pytest.skip(f"npm cannot install ws: {fetched.stderr.strip()[:200]}")
    (tmp_path / "talk.js").write_text(OTHERS)
    url = f"ws://127.0.0.1:{run.socket_port}/?lobby=others"
    talk = subprocess.run([node, "talk.js", url], cwd=tmp_path, capture_output=True, text=True, timeout=300)
    frames = json.loads(talk.stdout)
    assert talk.returncode == 0, frames
    of = {name: [frame for who, frame in frames if who == name] for name in "ab"}
    assert [(f["type"], f.get("code", f.get("state", f.get("text")))) for f in of["a"]] == [
        ("status", "waiting"),
        ("system", "partner_connected"),
        ("message", "héllo"),
    ]
    *matched, last = [f.get("code", f.get("state")) for f in of["b"]]
    assert (sorted(matched), last) == (["matched", "partner_connected"], "partner_disconnected")
