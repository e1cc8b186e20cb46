"""The clients of a soak: what they send, and what they were told has been taken."""

from __future__ import annotations

import json
import random
import threading
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

from websockets.exceptions import WebSocketException
from websockets.sync.client import ClientConnection, connect

from bench.product import Caller, Product

PAGES = [f"https://www.example.org/{n}" for n in range(5)]
PRODUCTS = [f"lamp-{n}" for n in range(3)]
ANSWERS = [f"door {n}" for n in range(12)]
LANGUAGES = ("en", "de", "fi")
BOARD, CHALLENGE = "soak", "soak"


@dataclass
class Taken:
    """What was acknowledged: each write once, by what makes it unique; clients share it, under its lock."""

    views: dict[str, set[tuple[str, str]]] = field(default_factory=lambda: defaultdict(set))
    scores: dict[str, dict[str, int]] = field(default_factory=lambda: defaultdict(dict))
    paths: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    comments: dict[str, dict[str, str]] = field(default_factory=lambda: defaultdict(dict))
    requests: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    lags: list[float] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)


def prepare(product: Product) -> None:
    """Make the board and the challenge that the clients play."""
    caller = Caller(product)
    board = {"title": "Soak", "operator": "increment"}
    hunt = {"title": "Soak", "paths": ANSWERS, "limit": len(ANSWERS), "ranked": True}
    for path, body in ((f"/leaderboards/{BOARD}", board), (f"/challenges/{CHALLENGE}", hunt)):
        status, answer = caller.call("PUT", path, body, "admin")
        if status not in (200, 201):
            raise RuntimeError(f"PUT {path}: {status} {answer}")


class Visitor(threading.Thread):
    """One client over HTTP, who is several people: sends, now and then twice, and notes what was taken."""

    def __init__(
        self, product: Product, taken: Taken, number: int, rate: float, stop: threading.Event
    ) -> None:
        super().__init__(name=f"visitor-{number}", daemon=True)
        self.caller = Caller(product)
        self._taken, self._stopping, self._pause = taken, stop, 1 / rate
        self._chance = random.Random(number)
        self._number, self._sent = number, 0

    def run(self) -> None:
        """Send until told to stop; a request under way is sent to its end."""
        kinds = (self._view, self._view, self._score, self._path, self._comment, self._change, self._read)
        while not self._stopping.wait(self._pause * self._chance.uniform(0.5, 1.5)):
            self._sent += 1
            try:
                self._chance.choice(kinds)()
            except Exception as error:
                self._note("failed", f"{type(error).__name__}: {error}")
                return

    def _send(self, kind: str, right: set[int], method: str, path: str, *rest: Any, **more: Any) -> Any:
        """Send a request, one in twenty twice; note an answer that is not right."""
        for _ in range(2 if method != "GET" and self._chance.random() < 0.05 else 1):
            status, answer = self.caller.call(method, path, *rest, **more)
            self._note(kind, "" if status in right else f"{method} {path}: {status} {answer}")
        return answer

    def _note(self, kind: str, wrong: str) -> None:
        with self._taken.lock:
            self._taken.requests[kind] += 1
            if wrong:
                self._taken.wrong.append(wrong[:300])

    def _somebody(self) -> str:
        return f"p{self._number}-{self._chance.randint(0, 9)}"

    def _view(self) -> None:
        page = self._chance.choice(PAGES)
        events = [
            {
                "url": page,
                "time": datetime.now(UTC).isoformat(),
                "clientId": f"{self._somebody()}-{self._sent}-{i}",
            }
            for i in range(self._chance.randint(1, 5))
        ]
        self._send("views", {202}, "POST", "/views", {"events": events})
        with self._taken.lock:
            self._taken.views[page] |= {(one["time"], one["clientId"]) for one in events}

    def _score(self) -> None:
        who, id, value = self._somebody(), f"game-{self._sent}", self._chance.randint(1, 100)
        self._send(
            "scores", {200, 201}, "POST", f"/leaderboards/{BOARD}/scores", {"id": id, "value": value}, who
        )
        with self._taken.lock:
            self._taken.scores[who][id] = value

    def _path(self) -> None:
        who, path = self._somebody(), self._chance.choice(ANSWERS)
        self._send("paths", {200, 201}, "POST", f"/challenges/{CHALLENGE}/paths", {"path": path}, who)
        with self._taken.lock:
            self._taken.paths[who].add(path)

    def _comment(self) -> None:
        product, who = self._chance.choice(PRODUCTS), f"{self._somebody()}-{self._sent}"
        body = {
            "rating": self._chance.randint(1, 5),
            "language": self._chance.choice(LANGUAGES),
            "text": f"Comment {self._sent}.",
        }
        once = {"Idempotency-Key": who}
        route = f"/products/{product}/comments"
        answer = self._send("comments", {201}, "POST", route, body, who, headers=once)
        if answer and "id" in answer:
            with self._taken.lock:
                self._taken.comments[product][answer["id"]] = who

    def _change(self) -> None:
        """Edit one of one's own comments, or delete it."""
        product = self._chance.choice(PRODUCTS)
        with self._taken.lock:
            mine = [
                (id, who)
                for id, who in self._taken.comments[product].items()
                if who.startswith(f"p{self._number}-")
            ]
        if not mine:
            return
        id, who = self._chance.choice(mine)
        path = f"/products/{product}/comments/{id}"
        if self._chance.random() < 0.7:
            self._send("edits", {200}, "PATCH", path, {"rating": self._chance.randint(1, 5)}, who)
            return
        self._send(
            "deletions", {204, 404}, "DELETE", path, None, who
        )  # 404: it was deleted by the first of two
        with self._taken.lock:
            del self._taken.comments[product][id]

    def _read(self) -> None:
        paths = (
            f"/views?url={quote(PAGES[0], safe='')}",
            f"/leaderboards/{BOARD}/entries",
            f"/products/{PRODUCTS[0]}/comments?limit=5",
            f"/challenges/{CHALLENGE}/statistics",
            "/products/leaders",
        )
        self._send("reads", {200}, "GET", self._chance.choice(paths))


class Probe(threading.Thread):
    """Measures the lag: how long a view that was taken is not yet counted."""

    def __init__(self, product: Product, taken: Taken, stop: threading.Event) -> None:
        super().__init__(name="probe", daemon=True)
        self._caller, self._taken, self._stopping = Caller(product), taken, stop

    def run(self) -> None:
        """Send a view of a page of its own, and look until it is counted; again and again."""
        number = 0
        while not self._stopping.wait(0.5):
            number += 1
            page = f"https://www.example.org/probe/{number}"
            event = {"url": page, "time": datetime.now(UTC).isoformat(), "clientId": "probe"}
            self._caller.call("POST", "/views", event)
            with self._taken.lock:
                self._taken.views[page].add((event["time"], "probe"))
            begun = time.monotonic()
            while self._caller.call("GET", f"/views?url={quote(page, safe='')}")[1]["views"] != 1:
                if self._stopping.wait(0.05):
                    break  # so long at least
            self._taken.lags.append(time.monotonic() - begun)


class Pair(threading.Thread):
    """Two who chat and listen to a page, and come again whenever their connection breaks."""

    def __init__(self, product: Product, number: int, stop: threading.Event) -> None:
        super().__init__(name=f"pair-{number}", daemon=True)
        self.sent = self.received = self.twice = self.updates = self.breaks = 0
        self._url = f"ws://127.0.0.1:{product.socket_port}/?lobby=soak-{number}"
        self._stopping = stop
        self._number = number

    def run(self) -> None:
        """Meet, talk and listen until told to stop."""
        while not self._stopping.is_set():
            try:
                with connect(self._url, open_timeout=10) as one, connect(self._url, open_timeout=10) as other:
                    self._talk(one, other)
            except (OSError, TimeoutError, WebSocketException, ValueError):
                self.breaks += 1
                self._stopping.wait(0.2)

    def _talk(self, one: ClientConnection, other: ClientConnection) -> None:
        for socket in (one, other):
            socket.send(json.dumps({"action": "status"}))
        one.send(json.dumps({"action": "subscribe", "topic": f"views:{PAGES[0]}"}))
        seen: set[str] = set()
        while not self._stopping.wait(0.3):
            text = f"{self._number}-{self.sent}"
            other.send(json.dumps({"action": "message", "text": text}))
            self.sent += 1
            for frame in self._heard(one):
                self.updates += frame["type"] == "update"
                if frame["type"] == "message":
                    self.twice += frame["text"] in seen
                    self.received += 1
                    seen.add(frame["text"])
            self._heard(other)

    def _heard(self, socket: ClientConnection) -> list[dict[str, Any]]:
        frames = []
        try:
            while True:
                frames.append(json.loads(socket.recv(timeout=0.05)))
        except TimeoutError:
            return frames
