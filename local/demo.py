"""Something to look at on one machine: a site, a board, a challenge, a product, filled through the interface.

Nothing here knows the table. Views go on for two minutes, so that numbers grow while one looks. To fill it
twice is no harm: players and authors have fixed names, and count once; views come on top.
"""

from __future__ import annotations

import http.client
import json
import logging
import math
import random
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from local.demo_words import ADJECTIVES, ANIMALS, ANSWERS, COMMENTS

LOGGER = logging.getLogger("hubbub.local")
SITE = "https://demo.example.org"
PAGES = {"/": 30, "/pricing": 18, "/docs/start": 14, "/blog/hello": 9, "/about": 5, "/contact": 2}
NAME = "demo"  # of the board, the challenge and the product
VIEWS, DAYS = 1_500, 5
VISITORS = 400
AT_ONCE = 4
PLAYERS, HUNTERS = 110, 40
BATCH = 100  # views in one call
GOES_ON = 120.0  # seconds that views keep coming

Work = Callable[[], None]


class Demo:
    """Fills the demo of one run, once at a time; `mint` signs tokens by their sub and scope."""

    def __init__(self, url: str, mint: Callable[[str, str], str]) -> None:
        self._address, self._prefix = urlsplit(url).netloc, urlsplit(url).path
        self._mint = mint
        self._busy = threading.Lock()
        self._stopping = threading.Event()

    def start(self) -> bool:
        """Fill it in a thread; False when that is under way."""
        if not self._busy.acquire(blocking=False):
            return False
        threading.Thread(target=self._run, name="demo", daemon=True).start()
        return True

    def stop(self) -> None:
        """Send nothing more."""
        self._stopping.set()

    def fill(self, seed: int = 1) -> None:
        """Make all of it. Raises OSError when the app refuses something."""
        chance = random.Random(seed)  # noqa: S311 (nobody's secret)
        self._define()
        with ThreadPoolExecutor(AT_ONCE) as pool:
            # Many are submitted in turn, so that every panel of the page has something soon.
            list(pool.map(lambda work: work(), _in_turn(*self._work(chance))))

    def _run(self) -> None:
        try:
            self.fill()
            chance = random.Random()  # noqa: S311
            for _ in range(int(GOES_ON * 2)):
                if self._stopping.wait(0.5):
                    return
                self._views([_view(chance, datetime.now(UTC))])
        except OSError as error:
            LOGGER.warning("the demo was not filled: %s", error)
        finally:
            self._busy.release()

    def _define(self) -> None:
        admin = self._mint("demo", "admin")
        board = {"title": "Points this season", "unit": "points", "max": 10_000, "operator": "best"}
        hunt = {"title": "Capitals that begin with B", "paths": ANSWERS, "limit": 12, "ranked": True}
        self._send("PUT", f"/leaderboards/{NAME}", board, admin)
        self._send("PUT", f"/challenges/{NAME}", hunt, admin)

    def _work(self, chance: random.Random) -> Iterator[list[Work]]:
        """Name all calls, by feature."""
        admin = self._mint("demo", "admin")
        now = datetime.now(UTC)
        views = [_view(chance, now - timedelta(seconds=_age(chance, now))) for _ in range(VIEWS)]
        yield [partial(self._views, views[i : i + BATCH]) for i in range(0, VIEWS, BATCH)]
        names = [f"{adjective}-{animal}" for adjective in ADJECTIVES for animal in ANIMALS]
        chance.shuffle(names)
        scores = f"/leaderboards/{NAME}/scores"
        yield [
            partial(self._send, "POST", scores, {"id": name, "value": _score(chance), "player": name}, admin)
            for name in names[:PLAYERS]
        ]
        yield [
            partial(self._send, "POST", f"/challenges/{NAME}/paths", {"path": path}, self._mint(name, ""))
            for name in names[:HUNTERS]
            for path in chance.sample(ANSWERS, min(12, 1 + int(chance.expovariate(0.3))))
        ]
        said = chance.sample(COMMENTS, len(COMMENTS))
        yield [
            partial(self._send, "POST", f"/products/{NAME}/comments", comment, self._mint(name, ""))
            for name, comment in zip(names, said, strict=False)
        ]

    def _views(self, events: list[dict[str, str]]) -> None:
        self._send("POST", "/views", {"events": events}, self._mint("demo", ""))

    def _send(self, method: str, path: str, body: Any, token: str = "") -> None:
        """Call the interface. What is there already is as good as done: 409. Raises OSError."""
        if self._stopping.is_set():
            return
        headers = {"Content-Type": "application/json", "User-Agent": "Mozilla/5.0 (demo)"}
        headers |= {"Authorization": f"Bearer {token}"} if token else {}
        connection = http.client.HTTPConnection(self._address, timeout=30)
        try:
            connection.request(method, self._prefix + path, json.dumps(body), headers)
            answer = connection.getresponse()
            said = answer.read()
        finally:
            connection.close()
        if answer.status >= 400 and answer.status != 409:
            raise OSError(f"{method} {path}: {answer.status} {said[:200]!r}")


def _view(chance: random.Random, time: datetime) -> dict[str, str]:
    [path] = chance.choices(list(PAGES), list(PAGES.values()))
    client = f"visitor-{chance.randrange(VISITORS)}"
    return {"url": SITE + path, "time": time.isoformat(), "clientId": client}


def _score(chance: random.Random) -> int:
    return round(chance.betavariate(2.2, 3) * 2_000)


def _age(chance: random.Random, now: datetime) -> float:
    """Draw how many seconds ago a view was: few at night."""
    while True:
        age: float = DAYS * 86_400 * chance.random()
        hour = (now - timedelta(seconds=age)).hour
        if chance.random() < 0.55 - 0.45 * math.cos(2 * math.pi * (hour - 3) / 24):
            return age


def _in_turn(*lists: list[Work]) -> list[Work]:
    """Mix lists so that all of them come to their ends together."""
    placed = [(i / len(one), which, work) for which, one in enumerate(lists) for i, work in enumerate(one)]
    return [work for _, _, work in sorted(placed, key=lambda entry: entry[:2])]
