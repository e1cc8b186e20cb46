"""The races of the ranks, over HTTP of the running product: `python -m tests.races.ranks --rounds 1000`.

Each race is a function that plays one round on a board of its own and yields the faults it has seen. A round
knows the submissions that were acknowledged. While some of them are pending an answer must be possible, and
once all are counted it must be exact. `--load` runs two busy processes for each core.
"""

from __future__ import annotations

import os
import random
import sys
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from threading import Lock
from typing import Any

from chalicelib.api import auth
from chalicelib.dynamo.table import Table
from chalicelib.leaderboards.scores import Submission
from chalicelib.settings import Settings
from local.engines.engine import start
from ops.imports import scores as import_scores
from tests.races import Result, main, product
from tests.support.running import ENVIRONMENT, Run

ADMIN = auth.mint(Settings(secret=ENVIRONMENT["HUBBUB_SECRET"]), "admin", scope="admin")
PATIENCE = 20.0  # seconds until a rank that is still wrong is a fault
IMPORTED = 130  # players of one bucket: it is marked before they are written
STEPS = 24  # of an import, at one of which it pauses


class Board:
    """A board of the running product, and the scores that it has acknowledged."""

    def __init__(self, run: Run, name: str, rng: random.Random, **body: Any) -> None:
        self.run, self.name, self.rng = run, name, rng
        self.sign = 1 if body.get("order") == "asc" else -1
        self.scores: dict[str, int] = {}
        self._ids: Counter[str] = Counter()
        self.call("PUT", "", {"title": "Race"} | body)

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """Send a request, which must succeed."""
        status, answer = self.run.call(method, f"/leaderboards/{self.name}{path}", body, ADMIN)
        if status >= 300:
            raise Wrong(f"{method} {path.split('/')[1:2]} is {status}")
        return answer

    def submit(self, player: str, value: int, score: int) -> None:
        """Submit a value, after which the player has a score."""
        self._ids[player] += 1
        time = f"2026-01-01T10:{self._ids[player]:02}:00Z"
        body = {"player": player, "id": f"{self._ids[player]}", "value": value, "time": time}
        self.call("POST", "/scores", body)
        self.scores[player] = score

    def standing(self, player: str, *, is_exact: bool = False) -> None:
        """Check a standing. While changes are pending only what no answer may be is a fault."""
        found = self.call("GET", f"/players/{player}{self.rng.choice(('', '?consistent=true'))}")
        rank, count, percentile = found["rank"], found["of"], found["percentile"]
        if not 1 <= rank <= count or not 0 < percentile <= 100 or (found["toNext"] or 1) <= 0:
            raise Wrong("a standing is impossible")
        if is_exact and (rank, count) != (self.rank(player), len(self.scores)):
            raise Wrong("a standing is wrong")

    def list(self, query: str, *, is_exact: bool = False) -> None:
        """Check a part of the list."""
        found = self.call("GET", f"/entries{query}")["items"]
        ranks = [entry["rank"] for entry in found]
        if ranks != sorted(max(1, rank) for rank in ranks):
            raise Wrong("a list is impossible")
        if is_exact and any(entry["rank"] != self.rank(entry["player"]) for entry in found):
            raise Wrong("a list is wrong")

    def rank(self, player: str) -> int:
        """Return the rank of a player in the sorted scores."""
        ordered = sorted(self.sign * score for score in self.scores.values())
        return 1 + bisect_left(ordered, self.sign * self.scores[player])

    def wait_until_counted(self) -> None:
        """Wait until the stream counts all players, and has followed those before the last one."""
        deadline = time.monotonic() + PATIENCE
        while self.call("GET", "")["players"] < len(self.scores):
            if time.monotonic() > deadline:
                raise Wrong("a player is not counted")
            time.sleep(0.01)

    def wait_until_exact(self, *players: str) -> None:
        """Wait until the ranks of players, and the places around them, are exact."""
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                for player in players:
                    self.standing(player, is_exact=True)
                    self.list(f"?around={player}&limit=5", is_exact=True)
                    self.list(f"?place={self.rank(player)}&limit=5", is_exact=True)
                return
            except Wrong as fault:
                if time.monotonic() > deadline:
                    raise Wrong(f"{fault} for good") from None
                time.sleep(0.05)


class Wrong(Exception):
    """A fault of the product."""


# -- the races -------------------------------------------------------------------------------------------


def loss(run: Run, name: str, rng: random.Random) -> None:
    """A player loses before the first score is counted, among none to three others."""
    operator, order = rng.choice(("set", "increment")), rng.choice(("asc", "desc"))
    board = Board(run, name, rng, operator=operator, order=order, min=-10_000)
    better, worse = rng.choice(((100, 50), (9_000, 3), (205, 201)))
    first, second = (worse, better) if order == "asc" else (better, worse)
    others = [f"p{number}" for number in range(rng.randrange(4))]
    for player in others:
        score = rng.choice((better, worse, 1, 75, 10_000))
        board.submit(player, score, score)
    board.submit("ann", first, first)
    board.submit("ann", second if operator == "set" else second - first, second)
    for _ in range(3):
        board.standing("ann")
        board.list("?around=ann&limit=3")
        board.list("?place=2")
    board.wait_until_exact("ann", *others)


def mixed(run: Run, name: str, rng: random.Random) -> None:
    """Four players gain and lose at once, and read after each change."""
    operator, order = rng.choice(("set", "increment")), rng.choice(("asc", "desc"))
    board = Board(run, name, rng, operator=operator, order=order, min=-10_000)

    def submit(player: str) -> None:
        for _ in range(8):
            score, before = rng.choice((1, 50, 100, 205, 9_000)), board.scores.get(player, 0)
            board.submit(player, score if operator == "set" else score - before, score)
            board.standing(player)
            board.list(f"?around={player}&limit=3")

    players = [f"p{number}" for number in range(4)]
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(submit, players))
    board.wait_until_exact(*players)


def imported(run: Run, name: str, rng: random.Random) -> None:
    """An import pauses before each mark and at one other step, while others submit and are counted."""
    board = Board(run, name, rng, operator="set")
    rows = {f"i{number}": rng.randrange(1_000, 1_100) for number in range(IMPORTED)}
    engine = start(f"http://127.0.0.1:{run.engine_port}", None)
    table = Table("hubbub-local", engine.client("dynamodb"))
    late, lock, calls, pause_at = list[str](), Lock(), list[int](), rng.randrange(STEPS)

    def pause(params: Any, **rest: Any) -> None:
        calls.append(1)
        is_mark = b'"full"' in params["body"]
        if (is_mark or len(calls) == pause_at) and lock.acquire(blocking=False):
            try:
                for _ in range(rng.randint(2, 4)):
                    late.append(f"late{len(late)}")
                    score = rng.randrange(1_000, 1_100)
                    board.submit(late[-1], score, score)
                    board.wait_until_counted()
            finally:
                lock.release()

    table.client.meta.events.register("before-call.dynamodb", pause)
    given = [
        Submission(player, "1", Decimal(score), "2026-11-20T10:00:00.000000Z")
        for player, score in rows.items()
    ]
    import_scores.write(table, name, given)
    board.scores |= rows
    board.wait_until_exact(*late, *rng.sample(sorted(rows), 5))


# -- run -------------------------------------------------------------------------------------------------

Race = Callable[[Run, str, random.Random], None]
RACES: dict[str, Race] = {"loss": loss, "mixed": mixed, "imported": imported}


def play(run: Run, name: str, rounds: int, at_a_time: int = 4) -> Result:
    """Play rounds of a race, some of them at a time."""
    seed = os.urandom(3).hex()

    def play(number: int) -> str:
        try:
            RACES[name](run, f"{name}-{seed}-{number}", random.Random(f"{seed} {number}"))
        except Wrong as fault:
            return str(fault)
        return ""

    with ThreadPoolExecutor(at_a_time) as threads:
        return Result(Counter(fault for fault in threads.map(play, range(rounds)) if fault))


if __name__ == "__main__":
    sys.exit(main(RACES, product, play))
