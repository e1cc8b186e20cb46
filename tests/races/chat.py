"""The races of the chat, over sockets of the running product: `python -m tests.races.chat --rounds 1000`.

Each race is a coroutine that plays one round in a lobby of its own and yields the faults it has seen. A round
knows only the contract: what was acknowledged must be so. `--load` runs two busy processes for each core.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import random
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, contextmanager
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from chalicelib.api import auth
from chalicelib.settings import Settings
from tests.races import Result, main, product
from tests.support.running import ENVIRONMENT, Run

SETTINGS = Settings(secret=ENVIRONMENT["HUBBUB_SECRET"])
AGAIN = 1.0  # seconds after which two who have parted may meet again
PATIENCE = 60.0  # seconds until a round gives up waiting
JITTER = 0.02  # seconds between the two frames of a race, at most
FILLERS = 8  # messages after an insult
CONNECTED, DISCONNECTED = "partner_connected", "partner_disconnected"

Faults = AsyncIterator[str]


class Refused(Exception):
    """A frame was refused, so that the round has shown nothing."""


class Stage:
    """A running product, and an address of this machine for each client: reports are limited by address."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._addresses = (
            f"127.{a}.{b}.{c}" for a in range(1, 255) for b in range(254) for c in range(1, 255)
        )
        self._admin = run.token("admin", "admin")

    @property
    def url(self) -> str:
        """The address of the sockets."""
        return f"ws://127.0.0.1:{self._run.socket_port}/"

    def new_address(self) -> str:
        """Return an address that no other client has."""
        return next(self._addresses)

    async def find_reports(self, reason: str) -> list[Any]:
        """Return the stored reports with this reason, among the last hundred."""
        path = "/chat/reports?limit=100"
        status, page = await asyncio.to_thread(self._run.call, "GET", path, None, self._admin)
        assert status == 200, page
        return [item for item in page["items"] if item["reason"] == reason]


class Client:
    """A raw client of the socket. `frames` has everything that it has received, in order."""

    def __init__(self, stage: Stage, lobby: str) -> None:
        self._stage, self._lobby = stage, lobby
        self.frames: list[Any] = []
        self.pair: str | None = None  # announced to a client with receipts
        self.confirms = True  # whether it sends receipts
        self._refs = itertools.count(1)
        self._changed = asyncio.Event()

    async def enter(self, **query: str) -> Client:
        """Connect, and ask for the status."""
        named = "&".join(f"{name}={value}" for name, value in {"lobby": self._lobby, **query}.items())
        self.socket: ClientConnection = await connect(
            f"{self._stage.url}?{named}",
            open_timeout=PATIENCE,
            ping_interval=None,
            local_addr=(self._stage.new_address(), 0),
        )
        self.reader = asyncio.create_task(self._read())
        await self.call("status")
        return self

    async def _read(self) -> None:
        try:
            async for raw in self.socket:
                frame = json.loads(raw)
                self.frames.append(frame)
                if frame.get("type") in ("system", "status"):
                    self.pair = frame.get("pair")
                if "id" in frame and self.confirms:
                    await self.socket.send(json.dumps({"action": "received", "ids": [frame["id"]]}))
                self._changed.set()
        except ConnectionClosed:
            pass
        self._changed.set()

    async def send(self, action: str, **fields: Any) -> str:
        """Send a frame with a `ref`, and return the ref."""
        ref = str(next(self._refs))
        await self.socket.send(json.dumps({"action": action, "ref": ref, **fields}))
        return ref

    async def answer(self, ref: str) -> str:
        """Return `ack`, or the code of the error of a frame. Raises Refused for one that came too fast."""
        frame = await self.until(
            lambda: next((frame for frame in self.frames if frame.get("ref") == ref), None)
        )
        answer = str(frame.get("code") or frame["type"])
        if answer == "slow_down":
            raise Refused(answer)
        return answer

    async def call(self, action: str, **fields: Any) -> str:
        """Send a frame, and return its answer."""
        return await self.answer(await self.send(action, **fields))

    async def until(self, condition: Callable[[], Any], patience: float = PATIENCE) -> Any:
        """Wait until a condition of the frames is true, and return its value."""
        async with asyncio.timeout(patience):
            while not (found := condition()):
                if self.reader.done():
                    raise Refused("the connection was lost")
                self._changed.clear()
                await self._changed.wait()
        return found

    def notices(self, since: int = 0) -> list[str]:
        """Return the codes of the notices since a number of frames."""
        return [frame["code"] for frame in self.frames[since:] if frame["type"] == "system"]

    def texts(self) -> list[str]:
        """Return the messages."""
        return [frame["text"] for frame in self.frames if frame["type"] == "message"]

    async def state(self) -> str:
        """Return the state that the server names."""
        await self.call("status")
        return str([frame["state"] for frame in self.frames if frame["type"] == "status"][-1])

    async def matched(self) -> None:
        """Wait until there is a partner."""

        def is_matched() -> bool:
            told = [
                frame.get("code") or frame["state"]
                for frame in self.frames
                if frame["type"] in ("system", "status")
            ]
            return told[-1:] in ([CONNECTED], ["matched"])

        await self.until(is_matched)

    async def part(self, how: str) -> str:
        """Send `next` or `leave`, or close the connection. Return the answer of a frame."""
        if how == "abort":
            self.socket.transport.abort()
        elif how == "close":
            await self.socket.close(1000)
        else:
            return await self.call(how)
        return ""


class Round:
    """A round in a lobby of its own, whose clients are closed at its end."""

    def __init__(self, stage: Stage, name: str, rng: random.Random) -> None:
        self.stage, self.name, self.rng = stage, name, rng
        self._opened = AsyncExitStack()

    async def __aenter__(self) -> Round:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._opened.aclose()

    async def enter(self, **query: str) -> Client:
        """Make a client enter the lobby."""
        client = await Client(self.stage, self.name).enter(**query)
        self._opened.push_async_callback(client.socket.close)
        return client

    async def pair(self, **query: str) -> tuple[Client, Client]:
        """Make two clients meet."""
        first, other = await self.enter(**query), await self.enter(**query)
        await first.matched()
        await other.matched()
        return first, other

    async def at_once(self, *frames: Any) -> list[Any]:
        """Run coroutines at almost the same moment, in any order."""

        async def run(work: Any) -> Any:
            await asyncio.sleep(self.rng.random() * JITTER)
            return await work

        return await asyncio.gather(*map(run, self.rng.sample(frames, len(frames))))


# -- the races -------------------------------------------------------------------------------------------


async def leave(round: Round, how: str) -> Faults:
    """A visitor leaves while its partner parts, and another waits: it is idle until `find`."""
    first, other = await round.pair()
    third = await round.enter()
    answered: list[str] = []

    async def leave() -> None:
        answered.append(await first.call("leave"))

    await round.at_once(leave(), other.part(how))
    since = next(
        i for i, frame in enumerate(first.frames) if frame.get("type") == "ack" and frame["ref"] == "2"
    )
    states = {await first.state()}
    for client in (third, other):
        if not client.reader.done():
            await client.call("ping")
    states.add(await first.state())
    if answered == ["ack"] and states != {"idle"}:
        yield f"after an acknowledged leave it is {', '.join(sorted(states))}"
    if answered == ["ack"] and first.notices(since)[-1:] == [CONNECTED]:
        yield "the last announcement after an acknowledged leave is a partner"


async def report(round: Round, how: str) -> Faults:
    """A visitor reports its partner, which parts: the report is kept, and the two never meet again."""
    first, other = await round.pair()
    resume = await _resume_token(other) if how == "abort" else ""
    answer, _ = await _ordered(round, first.call("report", reason=round.name), other.part(how))
    if answer != "ack":
        yield f"a report of the partner was {answer}"
        return
    if len(await round.stage.find_reports(round.name)) != 1:
        yield "an acknowledged report is not kept"
    if how in ("close", "abort"):
        other = await round.enter(**({"resume": resume} if resume else {}))
        if not resume:
            return
    async for fault in _never_meet(first, other):
        yield fault


async def insult(round: Round, how: str) -> Faults:
    """A visitor insults its partner, sends fillers, and one of the two parts: the report has a proof."""
    first, other = await round.pair()
    since = len(first.frames)
    resume = await _resume_token(other) if how == "abort" else ""
    for text in ("insult", *map(str, range(FILLERS))):
        await other.call("message", text=text)
    if how == "a leave of the other":
        await first.call("leave")
    else:
        await other.part(how)
        await first.until(lambda: DISCONNECTED in first.notices(since))
    answer = await first.call("report", reason=round.name, messages=[{"text": "insult"}, {"text": "a lie"}])
    if answer != "ack":
        yield f"a report of the last partner was {answer}"
        return
    found = await round.stage.find_reports(round.name)
    if [[quoted["proved"] for quoted in item["messages"]] for item in found] != [[True, False]]:
        yield "the insult is not proved"
    if how not in ("close", "abort") or resume:
        other = await round.enter(resume=resume) if resume else other
        async for fault in _never_meet(first, other):
            yield fault


async def tabs(round: Round, how: str) -> Faults:
    """Two tabs of one person wait side by side; a stranger is matched with one of them."""
    token = auth.mint(SETTINGS, f"guest-{round.name}")
    first, second = await asyncio.gather(round.enter(token=token), round.enter(token=token))
    for _ in range(2):
        await round.at_once(first.call("next"), second.call("find"))
    if first.notices() or second.notices():
        yield "two tabs of one person were matched"
        return
    third = await round.enter()
    await third.matched()
    await asyncio.gather(third.part(how), first.call("ping"), second.call("ping"))
    for tab in (first, second):
        await tab.call("ping")
    if {await first.state(), await second.state()} != {"waiting"}:
        yield "two tabs of one person were matched after a stranger has left"


async def replaced(round: Round, how: str) -> Faults:
    """Messages to a partner that is replaced meanwhile do not reach the next one."""
    first, other = await round.pair(receipts="1")
    third = await round.enter(receipts="1")
    acknowledged: list[str] = []

    async def talk() -> None:
        for number in range(6):
            pair = first.pair
            if pair is None:  # it has been told that its partner has parted
                break
            text = f"{number} {pair}"
            try:
                ref = await first.send("message", text=text, pair=pair)
                if await asyncio.wait_for(first.answer(ref), 3) == "ack":
                    acknowledged.append(text)
            except TimeoutError:
                pass  # the partner has parted, and confirms nothing

    await round.at_once(talk(), other.part(how))
    await third.call("ping")
    if not acknowledged and not first.notices():
        yield "no message was acknowledged"
    pairs = {frame.get("pair") for frame in third.frames if frame["type"] in ("system", "status")}
    if [text for text in third.texts() if text.split()[1] not in pairs]:
        yield "a message reached the next partner"
    if set(acknowledged) - {*other.texts(), *third.texts()}:
        yield "an acknowledged message was not received"


async def half_open(round: Round, how: str) -> Faults:
    """A partner that confirms nothing any more is noticed, and none of the messages to it is acknowledged."""
    first, other = await round.pair(receipts="1")
    if await first.call("message", text="hello", pair=first.pair) != "ack":
        yield "a message that arrived was not acknowledged"
    other.confirms = False
    since, begun = len(first.frames), time.monotonic()
    sent = [await first.send("message", text=str(number), pair=first.pair) for number in range(3)]
    while DISCONNECTED not in first.notices(since) and time.monotonic() < begun + 15:
        await asyncio.sleep(1)
        await first.call("check", pair=first.pair)
    if DISCONNECTED not in first.notices(since):
        yield "a partner that does not respond is not noticed within 15 seconds"
    if any(frame["type"] == "ack" and frame["ref"] in sent for frame in first.frames):
        yield "a message that nobody has confirmed was acknowledged"


async def _ordered(round: Round, first: Any, second: Any) -> list[Any]:
    """Run two coroutines at almost the same moment, and return their results in order."""
    results: dict[int, Any] = {}

    async def keep(number: int, work: Any) -> None:
        results[number] = await work

    await round.at_once(keep(0, first), keep(1, second))
    return [results[0], results[1]]


async def _resume_token(client: Client) -> str:
    await client.call("resume")
    return str(next(frame["token"] for frame in client.frames if frame["type"] == "resume"))


async def _never_meet(first: Client, other: Client) -> Faults:
    """Let two who are alone in their lobby look for a partner, until they may meet again."""
    since = len(first.frames)
    ends = time.monotonic() + AGAIN + 0.3
    while True:
        for client in (first, other):
            await client.call("find")
        if CONNECTED in first.notices(since) or await first.state() == "matched":
            yield "two were matched again after a report"
            return
        if time.monotonic() > ends:
            return
        await asyncio.sleep(0.4)


Race = Callable[[Round, str], Faults]
PARTINGS = ("next", "leave", "close", "abort")
RACES: dict[str, tuple[Race, str]] = {
    f"{race.__name__} against {how}": (race, how)
    for race, ways in (
        (leave, ("next", "leave", "close")),
        (report, PARTINGS),
        (insult, (*PARTINGS, "a leave of the other")),
        (tabs, ("next",)),
        (replaced, ("next", "leave", "close")),
        (half_open, ("nothing",)),
    )
    for how in ways
}


# -- run ---------------------------------------------------------------------------------------------------


async def play(stage: Stage, name: str, rounds: int, at_a_time: int = 6) -> Result:
    """Play rounds of a race, some of them at a time."""
    race, how = RACES[name]
    faults: Counter[str] = Counter()
    refused = 0
    door = asyncio.Semaphore(at_a_time)
    run = os.urandom(3).hex()

    numbers = itertools.count()

    async def play(_: int) -> None:
        nonlocal refused
        async with door:
            for number in numbers:
                async with Round(stage, f"{run}-{number}", random.Random(f"{run} {number}")) as round:
                    try:
                        faults.update([fault async for fault in race(round, how)])
                        return
                    except Refused:
                        refused += 1

    await asyncio.gather(*map(play, range(rounds)))
    return Result(faults, refused)


@contextmanager
def running() -> Iterator[Stage]:
    """Run the product, where two who have parted may soon meet again."""
    with product(HUBBUB_CHAT_AGAIN_SECONDS=f"{AGAIN:.0f}") as run:
        yield Stage(run)


if __name__ == "__main__":
    sys.exit(main(RACES, running, lambda stage, name, rounds: asyncio.run(play(stage, name, rounds))))
