"""Runs the product under load and kills its processes, then looks for every acknowledged write.

    python -m tests.soak --minutes 10

Visitors send views, scores, paths and comments, one request in ten twice, and repeat each request until it
is acknowledged. Pairs chat over sockets. Meanwhile the run, its engine or the engine's guard is killed, or
stopped by SIGINT, and started again on the same data, once in a while with a clock that is up to two minutes
off. Or its disk is full for some seconds. In the end each count and list of the API must be what was
acknowledged, `ops audit` must find no drift, and the processes must not have grown.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import random
import secrets
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

import click
import jwt
import pytest
from websockets.exceptions import WebSocketException
from websockets.sync.client import connect

from chalicelib.api import auth
from chalicelib.settings import Settings
from local.engines.engine import ROOT
from tests.support.running import ENVIRONMENT, Run, small_disk

HERE = Path(__file__).parent
SETTINGS = Settings(secret=ENVIRONMENT["HUBBUB_SECRET"])
VISITORS, PAIRS = 4, 2
PATIENCE = 120.0  # seconds until a request must have a response, a restart of the run included
COUNTED = 60.0  # seconds after the last request until everything must be counted
PAGES = [f"https://www.example.org/{n}" for n in range(5)]
PRODUCTS = [f"lamp-{n}" for n in range(3)]
PATHS = [f"door {n}" for n in range(12)]
TRANSIENT = {429, 502, 503}  # a 500 is wrong, whatever was killed
CLOCK, DISK = "SIGINT, and another clock", "a full disk"
KILLS = {
    "the run, with its server and pumps": ["local"],
    "the engine": ["dynoxide"],
    "the guard": ["guard"],
    CLOCK: [],
    "everything": ["local", "guard", "dynoxide"],
    DISK: [],
}
MEGABYTES = 256  # of the disk
SHIFT = 120  # seconds at most that a clock is off
FULL = 5.0  # seconds that the disk is full
GROWTH = 1.5  # at most, of the memory of all processes


@dataclass
class Accepted:
    """The acknowledged writes, and what was wrong. Clients share it under its lock."""

    views: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))  # of a page: clients
    scores: dict[str, dict[str, int]] = field(default_factory=lambda: defaultdict(dict))  # of a player, by id
    paths: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    comments: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))  # of a product: ids
    numbers: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)


def token(sub: str) -> str:
    """Return a token of a person, or of the admin, which is valid by a clock that is late."""
    minted = auth.mint(SETTINGS, sub, scope="admin" if sub == "admin" else "")
    claims = jwt.decode(minted, options={"verify_signature": False})
    return jwt.encode(claims | {"iat": claims["iat"] - SHIFT}, auth.read_secret(SETTINGS), "HS256")


class Client(threading.Thread):
    """A client in a thread that ends by an event. What it raises is wrong."""

    def __init__(self, name: str, run: Run, accepted: Accepted, stopping: threading.Event, seed: int) -> None:
        super().__init__(name=name, daemon=True)
        self._run, self.accepted, self.stopping = run, accepted, stopping
        self.rng = random.Random(f"{seed} {name}")

    def run(self) -> None:
        try:
            self.work()
        except Exception as error:
            self.accepted.wrong.append(f"{self.name} ended: {type(error).__name__}: {error}")

    def work(self) -> None:
        raise NotImplementedError

    def call(
        self, method: str, path: str, body: Any = None, sub: str = "admin", **headers: str
    ) -> tuple[int, Any]:
        """Send a request until it has a response that is not transient. Raises TimeoutError."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError, http.client.HTTPException):
                status, answer = self._run.call(method, path, body, token(sub), headers=headers)
                if status not in TRANSIENT:
                    return status, answer
            self.accepted.numbers["retries"] += 1
            time.sleep(0.2)
        raise TimeoutError(f"{method} {path} has no response")


class Visitor(Client):
    """Acts for ten persons."""

    def work(self) -> None:
        """Send until told to stop. A started request is sent to its end."""
        kinds = (self.view, self.view, self.score, self.find_path, self.comment, self.delete)
        for number in range(10**9):
            if self.stopping.wait(self.rng.uniform(0.1, 0.3)):
                return
            self.rng.choice(kinds)(number, f"{self.name}-{self.rng.randrange(10)}")

    def write(self, right: set[int], method: str, path: str, *more: Any, **headers: str) -> Any:
        """Send a request, one in ten twice, and return the last answer."""
        for _ in range(2 if self.rng.random() < 0.1 else 1):
            status, answer = self.call(method, path, *more, **headers)
            self.accepted.numbers["requests"] += 1
            if status not in right:
                self.accepted.wrong.append(f"{method} {path}: {status} {answer}"[:300])
        return answer

    def view(self, number: int, person: str) -> None:
        page, now = self.rng.choice(PAGES), datetime.now(UTC).isoformat()
        clients = [f"{person}-{number}-{i}" for i in range(self.rng.randint(1, 5))]
        events = [{"url": page, "time": now, "clientId": client} for client in clients]
        self.write({202}, "POST", "/views", {"events": events})
        with self.accepted.lock:
            self.accepted.views[page].update(clients)

    def score(self, number: int, person: str) -> None:
        id, value = f"game-{number}", self.rng.randint(1, 100)
        self.write({200, 201}, "POST", "/leaderboards/soak/scores", {"id": id, "value": value}, person)
        with self.accepted.lock:
            self.accepted.scores[person][id] = value

    def find_path(self, _: int, person: str) -> None:
        path = self.rng.choice(PATHS)
        self.write({200, 201}, "POST", "/challenges/soak/paths", {"path": path}, person)
        with self.accepted.lock:
            self.accepted.paths[person].add(path)

    def comment(self, number: int, person: str) -> None:
        product, author = self.rng.choice(PRODUCTS), f"{person}-{number}"
        route, body = (
            f"/products/{product}/comments",
            {"rating": 5, "language": "en", "text": f"No. {number}"},
        )
        answer = self.write({201}, "POST", route, body, author, **{"Idempotency-Key": author})
        with self.accepted.lock:
            self.accepted.comments[product].add(answer["id"])

    def delete(self, *_: Any) -> None:
        product = self.rng.choice(PRODUCTS)
        with self.accepted.lock:
            known = sorted(self.accepted.comments[product])
            chosen = self.rng.sample(known, min(1, len(known)))
            self.accepted.comments[product].difference_update(chosen)
        for id in chosen:
            self.write({204, 404}, "DELETE", f"/products/{product}/comments/{id}")


class Pair(Client):
    """Two sockets that meet in a lobby of their own and chat, and meet again after a break."""

    def work(self) -> None:
        while not self.stopping.is_set():
            try:
                self.talk()
            except (OSError, TimeoutError, WebSocketException):
                self.accepted.numbers["broken connections"] += 1
                self.stopping.wait(0.3)

    def talk(self) -> None:
        """Send numbers from one to the other. They arrive once and in order, after the two were matched."""
        url = f"ws://127.0.0.1:{self._run.socket_port}/?lobby={self.name}"
        with connect(url, open_timeout=10) as first, connect(url, open_timeout=10) as other:
            for socket in (first, other):
                socket.send('{"action": "status"}')
            last, is_matched = -1, False
            for number in range(100):
                first.send(json.dumps({"action": "message", "text": str(number)}))
                deadline = time.monotonic() + 0.3
                while (left := deadline - time.monotonic()) > 0 and not self.stopping.is_set():
                    with contextlib.suppress(TimeoutError):
                        frame = json.loads(other.recv(timeout=left))
                        is_matched |= frame.get("state") == "matched" or "connected" in frame.get("code", "")
                        if frame["type"] != "message":
                            continue
                        self.accepted.numbers["chat messages"] += 1
                        if not is_matched or int(frame["text"]) <= last:
                            self.accepted.wrong.append(f"{self.name}: {frame} after {last}, {is_matched=}")
                        last = int(frame["text"])


# -- kills -----------------------------------------------------------------------------------------


def kill(run: Run, kind: str, rng: random.Random) -> None:
    """End a run in one way, and start it again."""
    processes = run.commands()
    for name in KILLS[kind]:
        with contextlib.suppress(ProcessLookupError):  # it ended with the one before
            os.kill(processes[name], signal.SIGKILL)
    if kind == CLOCK:
        run.process.send_signal(signal.SIGINT)
        run.environment["CLOCK_OFFSET"] = str(rng.uniform(-SHIFT, SHIFT))
    code = run.process.wait(PATIENCE)
    if kind == CLOCK and code:
        raise RuntimeError(f"SIGINT ended the run with {code}")
    run.begin()
    run.wait_for("ready")


def fill(disk: Path) -> None:
    """Fill a disk for some seconds."""
    ballast = disk / "ballast"
    try:
        with ballast.open("wb") as file, contextlib.suppress(OSError):
            while True:
                file.write(bytes(2**20))
        time.sleep(FULL)
    finally:
        ballast.unlink()


def memory(run: Run) -> int:
    """Return the memory of all processes of a run, in MB."""
    pages = (Path(f"/proc/{id}/statm").read_text().split()[1] for id in run.processes())
    return sum(map(int, pages)) * os.sysconf("SC_PAGE_SIZE") // 2**20


# -- the comparison --------------------------------------------------------------------------------


def differences(client: Client, accepted: Accepted) -> Iterator[str]:
    """Yield what the API shows differently from what it has acknowledged."""

    def get(path: str) -> Any:
        status, answer = client.call("GET", path)
        return answer if status == 200 else {}

    for page, clients in accepted.views.items():
        if (views := get(f"/views?url={quote(page, safe='')}").get("views")) != len(clients):
            yield f"{page} has {views} views, not {len(clients)}"
    for player, scores in accepted.scores.items():
        if (score := get(f"/leaderboards/soak/players/{player}").get("score")) != sum(scores.values()):
            yield f"{player} has the score {score}, not {sum(scores.values())}"
    for player, paths in accepted.paths.items():
        found = get(f"/challenges/soak/players/{player}").get("paths", [])
        if sorted(str(item["path"] if isinstance(item, dict) else item) for item in found) != sorted(paths):
            yield f"{player} has found {found}, not {sorted(paths)}"
    for product, ids in accepted.comments.items():
        shown: list[str] = []
        cursor: str | None = ""
        while cursor is not None:
            page = get(f"/products/{product}/comments?limit=100" + (f"&cursor={cursor}" if cursor else ""))
            shown += [item["id"] for item in page.get("items", ())]
            cursor = page.get("cursor")
        if sorted(shown) != sorted(ids):
            yield f"{product} shows {len(shown)} comments, and {len(ids)} are acknowledged"


def soak(data: Path, minutes: float, every: float, seed: int) -> Accepted:
    """Run everything, and return what was acknowledged and what was wrong."""
    accepted, stopping, rng = Accepted(), threading.Event(), random.Random(seed)
    environment = {"PYTHONPATH": str(HERE / "support" / "shifted_clock"), "CLOCK_OFFSET": "0"}
    grown: list[int] = []
    with Run(data, "--no-reload", names_engine=False, environment=environment) as run:
        admin = Client("admin", run, accepted, stopping, seed)
        hunt = {"title": "Soak", "paths": PATHS, "limit": len(PATHS), "ranked": True}
        admin.call("PUT", "/leaderboards/soak", {"title": "Soak", "operator": "increment"})
        admin.call("PUT", "/challenges/soak", hunt)
        clients: list[Client] = [
            *(Visitor(f"visitor-{n}", run, accepted, stopping, seed) for n in range(VISITORS)),
            *(Pair(f"pair-{n}", run, accepted, stopping, seed) for n in range(PAIRS)),
        ]
        for client in clients:
            client.start()
        end = time.monotonic() + 60 * minutes
        for number in range(10**9):
            time.sleep(min(rng.expovariate(1 / every), 2 * every))
            if number and time.monotonic() > end:
                break
            kind = list(KILLS)[number % len(KILLS)]
            grown.append(memory(run))
            click.echo(
                f"{number + 1}: {kind}; {accepted.numbers['requests']:,} requests, {grown[-1]} MB", err=True
            )
            if kind == DISK:
                fill(data)
            else:
                kill(run, kind, rng)
            accepted.numbers[f"faults: {kind}"] += 1
        stopping.set()
        for client in clients:
            client.join(PATIENCE + 10)
            if client.is_alive():
                accepted.wrong.append(f"{client.name} did not end")
        deadline = time.monotonic() + COUNTED
        while (found := list(differences(admin, accepted))) and time.monotonic() < deadline:
            time.sleep(0.5)
        audit = [sys.executable, "-m", "ops", "audit", "--settle", "2", "--data", str(data)]
        audited = subprocess.run(audit, cwd=ROOT, env=ENVIRONMENT, capture_output=True, text=True)
        accepted.wrong += found + [audited.stdout + audited.stderr] * bool(audited.returncode)
        accepted.wrong += ["the last SIGINT failed"] * bool(run.interrupt())
        if max(grown) > GROWTH * grown[0]:
            accepted.wrong.append(f"the processes had {grown[0]} MB, and later {max(grown)}")
    return accepted


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--minutes", type=click.FloatRange(0), default=10, show_default=True)
@click.option(
    "--every", type=click.FloatRange(0.1), default=20, show_default=True, help="Seconds between kills."
)
@click.option("--seed", type=int, help="Of the random choices; printed when it is not given.")
def main(minutes: float, every: float, seed: int | None) -> None:
    """Run the product under load, kill it at random, and look for everything that it acknowledged.

    Exits with 1 when something is lost, counted twice or wrong.
    """
    seed = secrets.randbelow(10**6) if seed is None else seed
    click.echo(f"{minutes:g} minutes, then a comparison; --seed {seed}", err=True)
    try:
        with tempfile.TemporaryDirectory() as folder, small_disk(Path(folder) / "data", MEGABYTES):
            accepted = soak(Path(folder) / "data", minutes, every, seed)
    except pytest.skip.Exception as reason:
        raise click.ClickException(str(reason)) from None
    for name, number in sorted(accepted.numbers.items()):
        click.echo(f"{name}: {number:,}")
    for line in accepted.wrong[:20]:
        click.echo(f"wrong: {line}")
    click.echo(f"{len(accepted.wrong)} wrong")
    sys.exit(bool(accepted.wrong))


if __name__ == "__main__":
    main()
