"""The clients of a soak: what they send, and which writes were acknowledged."""

from __future__ import annotations

import json
import random
import threading
import time
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

from websockets.exceptions import WebSocketException
from websockets.sync.client import ClientConnection, connect

from local.soak.product import Caller, Product

PAGES = [f"https://www.example.org/{n}" for n in range(5)]
PRODUCTS = [f"lamp-{n}" for n in range(3)]
PATHS = [f"door {n}" for n in range(12)]
LANGUAGES = ("en", "de", "fi")
BOARD, CHALLENGE, STORM = "soak", "soak", "storm"
TALK = 40  # messages of a pair until it connects anew
AT_ONCE = 12  # requests of a storm


@dataclass
class Accepted:
    """The acknowledged writes, each once by its key. Clients share it under its lock."""

    views: dict[str, set[tuple[str, str]]] = field(default_factory=lambda: defaultdict(set))
    scores: dict[str, dict[str, int]] = field(default_factory=lambda: defaultdict(dict))
    paths: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    comments: dict[str, dict[str, str]] = field(default_factory=lambda: defaultdict(dict))
    requests: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    lags: list[tuple[float, float]] = field(default_factory=list)  # when a view was accepted, seconds
    lock: threading.Lock = field(default_factory=threading.Lock)


def define(product: Product) -> None:
    """Define the board and the challenge."""
    caller = Caller(product)
    board = {"title": "Soak", "operator": "increment"}
    hunt = {"title": "Soak", "paths": PATHS, "limit": len(PATHS), "ranked": True}
    boards = [(f"/leaderboards/{name}", board) for name in (BOARD, STORM)]
    for path, body in (*boards, (f"/challenges/{CHALLENGE}", hunt)):
        status, response = caller.call("PUT", path, body, "admin")
        if status not in (200, 201):
            raise RuntimeError(f"PUT {path}: {status} {response}")


class Visitor(threading.Thread):
    """An HTTP client that acts for ten people and notes the acknowledged requests; some it sends twice."""

    def __init__(
        self, product: Product, accepted: Accepted, number: int, rate: float, stop: threading.Event
    ) -> None:
        super().__init__(name=f"visitor-{number}", daemon=True)
        self.caller = Caller(product)
        self._accepted, self._stopping, self._pause = accepted, stop, 1 / rate
        self._rng = random.Random(number)
        self._number, self._sent = number, 0

    def run(self) -> None:
        """Send until told to stop. A started request is sent to its end."""
        kinds = (self._view, self._view, self._score, self._path, self._comment, self._change, self._read)
        while not self._stopping.wait(self._pause * self._rng.uniform(0.5, 1.5)):
            self._sent += 1
            try:
                self._rng.choice(kinds)()
            except Exception as error:
                self._note("failed", f"{type(error).__name__}: {error}")
                return

    def _send(self, kind: str, right: set[int], method: str, path: str, *rest: Any, **more: Any) -> Any:
        """Send a request, one in twenty twice, and note a wrong status."""
        for _ in range(2 if method != "GET" and self._rng.random() < 0.05 else 1):
            status, response = self.caller.call(method, path, *rest, **more)
            self._note(kind, "" if status in right else f"{method} {path}: {status} {response}")
        return response

    def _note(self, kind: str, wrong: str) -> None:
        with self._accepted.lock:
            self._accepted.requests[kind] += 1
            if wrong:
                self._accepted.wrong.append(wrong[:300])

    def _person(self) -> str:
        return f"p{self._number}-{self._rng.randint(0, 9)}"

    def _view(self) -> None:
        page, now = self._rng.choice(PAGES), datetime.now(UTC).isoformat()
        clients = [f"{self._person()}-{self._sent}-{i}" for i in range(self._rng.randint(1, 5))]
        events = [{"url": page, "time": now, "clientId": client} for client in clients]
        self._send("views", {202}, "POST", "/views", {"events": events})
        with self._accepted.lock:
            self._accepted.views[page] |= {(now, client) for client in clients}

    def _score(self) -> None:
        person, id, value = self._person(), f"game-{self._sent}", self._rng.randint(1, 100)
        body = {"id": id, "value": value}
        self._send("scores", {200, 201}, "POST", f"/leaderboards/{BOARD}/scores", body, person)
        with self._accepted.lock:
            self._accepted.scores[person][id] = value

    def _path(self) -> None:
        person, path = self._person(), self._rng.choice(PATHS)
        self._send("paths", {200, 201}, "POST", f"/challenges/{CHALLENGE}/paths", {"path": path}, person)
        with self._accepted.lock:
            self._accepted.paths[person].add(path)

    def _comment(self) -> None:
        product, author = self._rng.choice(PRODUCTS), f"{self._person()}-{self._sent}"
        body: dict[str, Any] = {"rating": self._rng.randint(1, 5), "language": self._rng.choice(LANGUAGES)}
        body["text"] = f"Comment {self._sent}."
        key = {"Idempotency-Key": author}
        route = f"/products/{product}/comments"
        response = self._send("comments", {201}, "POST", route, body, author, headers=key)
        if response and "id" in response:
            with self._accepted.lock:
                self._accepted.comments[product][response["id"]] = author

    def _change(self) -> None:
        """Edit or delete one of this client's own comments."""
        product, prefix = self._rng.choice(PRODUCTS), f"p{self._number}-"
        with self._accepted.lock:
            known = self._accepted.comments[product].items()
            own = [(id, author) for id, author in known if author.startswith(prefix)]
        if not own:
            return
        id, author = self._rng.choice(own)
        path = f"/products/{product}/comments/{id}"
        if self._rng.random() < 0.7:
            self._send("edits", {200}, "PATCH", path, {"rating": self._rng.randint(1, 5)}, author)
            return
        self._send("deletions", {204, 404}, "DELETE", path, None, author)  # 404: the first of two deleted it
        with self._accepted.lock:
            del self._accepted.comments[product][id]

    def _read(self) -> None:
        paths = (
            f"/views?url={quote(PAGES[0], safe='')}",
            f"/leaderboards/{BOARD}/entries",
            f"/products/{PRODUCTS[0]}/comments?limit=5",
            f"/challenges/{CHALLENGE}/statistics",
            "/products/leaders",
        )
        self._send("reads", {200}, "GET", self._rng.choice(paths))
        player, route = self._person(), f"/leaderboards/{BOARD}/entries?limit=20&around="
        found = self._send("reads", {200, 404}, "GET", route + player)  # 404: the player has no score
        players = [one["player"] for one in found.get("items", ())]
        if len(players) != len(set(players)):
            self._note("reads", f"a player is listed twice around {player}: {players}")


class Storm(threading.Thread):
    """Sends equal or opposite requests at once, and notes each wrong response. No kill interrupts a storm."""

    def __init__(
        self, product: Product, accepted: Accepted, killing: threading.Lock, stop: threading.Event
    ) -> None:
        super().__init__(name="storm", daemon=True)
        self._product = product
        self._accepted, self._killing, self._stopping = accepted, killing, stop
        self._number, self._season = 0, 1

    def run(self) -> None:
        """Send one storm after the other until told to stop."""
        while not self._stopping.wait(1):
            self._number += 1
            with self._killing:
                try:
                    (self._hide_and_show, self._end_season, self._define, self._around)[self._number % 4]()
                except Exception as error:
                    self._note("failed", [f"storm: {type(error).__name__}: {error}"])

    def _note(self, kind: str, wrong: list[str]) -> None:
        with self._accepted.lock:
            self._accepted.requests[f"storm: {kind}"] += AT_ONCE
            self._accepted.wrong += [line[:300] for line in wrong]

    def _send(self, kind: str, right: set[int], requests: list[tuple[Any, ...]]) -> list[Any]:
        """Send requests at once, each from a connection of its own; return the bodies of the responses."""
        with ThreadPoolExecutor(AT_ONCE) as pool:
            found = list(pool.map(lambda sent: Caller(self._product).send(*sent), requests))
        wrong = [
            f"{kind}: {sent[:2]}: {status} {body}"
            for sent, (status, body) in zip(requests, found, strict=True)
            if status not in right
        ]
        self._note(kind, wrong)
        return [body for _, body in found]

    def _hide_and_show(self) -> None:
        """Hide and show a comment: it exists, so no response is 404."""
        body = {"rating": 5, "language": "en", "text": f"Comment {self._number}."}
        route, author = f"/products/{STORM}/comments", f"author-{self._number}"
        caller = Caller(self._product)
        status, comment = caller.call("POST", route, body, author, {"Idempotency-Key": author})
        if status != 201:
            return self._note("hide and show", [f"{status} {comment}"])
        path = f"{route}/{comment['id']}"
        self._send(
            *("hide and show", {200}),
            [("PATCH", path, {"hidden": i % 2 == 0}, "admin") for i in range(AT_ONCE)],
        )
        caller.call("PATCH", path, {"hidden": False}, "admin")
        with self._accepted.lock:
            self._accepted.comments[STORM][comment["id"]] = author
        return None

    def _end_season(self) -> None:
        """End a season many times: the first response is 201, the others are 200."""
        end = ("POST", f"/leaderboards/{STORM}/seasons", {"season": self._season}, "admin")
        self._send("season", {200, 201}, [end] * AT_ONCE)
        self._season += 1

    def _define(self) -> None:
        """Define a challenge many times."""
        body = {"title": "Storm", "paths": PATHS, "limit": len(PATHS)}
        self._send(
            "define", {200, 201}, [("PUT", f"/challenges/storm-{self._number}", body, "admin")] * AT_ONCE
        )

    def _around(self) -> None:
        """Move players while lists are read around one of them: no list names a player twice."""
        route = f"/leaderboards/{BOARD}"
        id, players = f"storm-{self._number}", [f"mover-{i}" for i in range(AT_ONCE // 2)]
        values = {player: 50 * (i % 2) + self._number for i, player in enumerate(players)}
        scores = [("POST", f"{route}/scores", {"id": id, "value": n}, who) for who, n in values.items()]
        lists = [("GET", f"{route}/entries?around=mover-0")] * (AT_ONCE - len(scores))
        bodies = self._send("around", {200, 201, 404}, [*scores, *lists])  # 404: mover-0 has no score yet
        with self._accepted.lock:
            for player, value in values.items():
                self._accepted.scores[player][id] = value
        for body in bodies[len(scores) :]:
            listed = [one["player"] for one in body.get("items", ())]
            if len(listed) != len(set(listed)):
                self._note("around", [f"a player is listed twice: {listed}"])


class Probe(threading.Thread):
    """Measures the lag: the time from an accepted view until it is counted."""

    def __init__(self, product: Product, accepted: Accepted, stop: threading.Event) -> None:
        super().__init__(name="probe", daemon=True)
        self.caller, self._accepted, self._stopping = Caller(product), accepted, stop

    def run(self) -> None:
        """Send a view of a page of its own, and poll until it is counted; repeat."""
        number = 0
        while not self._stopping.wait(0.5):
            number += 1
            page, now = f"https://www.example.org/probe/{number}", datetime.now(UTC).isoformat()
            self.caller.call("POST", "/views", {"url": page, "time": now, "clientId": "probe"})
            with self._accepted.lock:
                self._accepted.views[page].add((now, "probe"))
            begun = time.monotonic()
            while self.caller.call("GET", f"/views?url={quote(page, safe='')}")[1]["views"] != 1:
                if self._stopping.wait(0.05):
                    break  # the lag is at least this
            self._accepted.lags.append((begun, time.monotonic() - begun))


class Pair(threading.Thread):
    """Two sockets that chat and subscribe to a page, and reconnect after some messages or a break."""

    def __init__(self, product: Product, number: int, stop: threading.Event) -> None:
        super().__init__(name=f"pair-{number}", daemon=True)
        self.sent = self.received = self.twice = self.early = self.updates = self.breaks = 0
        self._url = f"ws://127.0.0.1:{product.socket_port}/?lobby=soak-{number}"
        self._stopping, self._number = stop, number

    def run(self) -> None:
        """Meet and talk until told to stop."""
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
        is_matched = False
        for _ in range(TALK):
            other.send(json.dumps({"action": "message", "text": f"{self._number}-{self.sent}"}))
            self.sent += 1
            for frame in self._receive(one):
                self.updates += frame["type"] == "update"
                is_matched = is_matched or frame.get("code") == "partner_connected"
                if frame["type"] == "message":
                    self.early += not is_matched
                    self.twice += frame["text"] in seen
                    self.received += 1
                    seen.add(frame["text"])
            self._receive(other)
            if self._stopping.wait(0.3):
                return

    def _receive(self, socket: ClientConnection) -> list[dict[str, Any]]:
        frames = []
        try:
            while True:
                frames.append(json.loads(socket.recv(timeout=0.05)))
        except TimeoutError:
            return frames
