"""Demo data for a local run: a site, a leaderboard, a challenge and a product, filled through the public API.

After filling, views continue for two minutes, so that the counters change visibly. Filling twice is safe:
players and authors have fixed names and count once, and only views are added.
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

LOGGER = logging.getLogger("hubbub.local")
SITE = "https://demo.example.org"
PAGES = {"/": 30, "/pricing": 18, "/docs/start": 14, "/blog/hello": 9, "/about": 5, "/contact": 2}
# Where views come from, with the share of each. Most name neither.
REFERRERS = {
    "": 60,
    "https://www.google.com/": 14,
    "https://news.ycombinator.com/": 8,
    "https://github.com/": 6,
    "https://www.reddit.com/": 4,
    "https://duckduckgo.com/": 3,
}
ZONES = {"Europe/Berlin": 5, "Europe/Vienna": 2, "America/New_York": 3, "Asia/Kolkata": 1}
BROWSER = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"
CAMPAIGNS = {"": 9, "spring-newsletter": 2, "launch": 1}
NAME = "demo"  # of the leaderboard, the challenge and the product
VIEWS, DAYS = 600, 5
VISITORS = 160
THREADS = 4
PLAYERS, CHALLENGERS = 110, 40
BATCH = 100  # views per call
CONTINUES = 120.0  # seconds for which views continue

Call = Callable[[], None]

# -- names, answers and comments -----------------------------------------------------------------------

ADJECTIVES = (
    "amber",
    "brave",
    "calm",
    "dusty",
    "eager",
    "fuzzy",
    "gentle",
    "hasty",
    "jolly",
    "keen",
    "lucky",
)
ANIMALS = ("badger", "crane", "finch", "gecko", "heron", "ibex", "koala", "lynx", "newt", "otter", "raven")

ANSWERS = [
    *("Baghdad", "Baku", "Bamako", "Bandar Seri Begawan", "Bangkok", "Bangui", "Banjul", "Basseterre"),
    *("Beijing", "Beirut", "Belgrade", "Belmopan", "Berlin", "Bern", "Bishkek", "Bissau", "Bogotá"),
    *("Brasília", "Bratislava", "Brazzaville", "Bridgetown", "Brussels", "Bucharest", "Budapest"),
    "Buenos Aires",
]

_COMMENT_TEXTS = {
    "en": [
        (5, "Does one thing, and does it well. I have stopped counting by hand."),
        (5, "Set up before my tea was cold."),
        (4, "Good numbers, good manners. A few more plots would be nice."),
        (4, "Was sceptical of yet another counter. This one I kept."),
        (3, "Fine, though I had to read the manual twice."),
        (2, "Too plain for my taste."),
        (5, "The leaderboard made our office unbearable. Five stars."),
        (1, "Arrived as software. I had expected a parcel."),
    ],
    "de": [
        (5, "Läuft seit Wochen, ohne dass ich daran denken muss."),
        (4, "Schlicht und schnell. Genau richtig."),
        (3, "Ordentlich, aber die Farben sind Geschmackssache."),
        (5, "Endlich Zahlen, denen ich glaube."),
        (2, "Mir fehlt der Export."),
    ],
    "fr": [
        (5, "Simple, rapide, et ça marche."),
        (4, "Très bien, il ne manque que le café."),
        (1, "Je n’ai rien compris au classement."),
        (5, "Mes élèves adorent le défi des capitales."),
    ],
    "es": [
        (4, "Muy práctico para una web pequeña."),
        (5, "Lo instalé una tarde y sigue ahí."),
        (3, "Correcto, sin más."),
    ],
}
COMMENTS = [
    {"rating": rating, "language": language, "text": text}
    for language, texts in _COMMENT_TEXTS.items()
    for rating, text in texts * 3
]

# -- filling -------------------------------------------------------------------------------------------


class Demo:
    """Fills the demo data of one run. `mint` signs a token for a sub and a scope."""

    def __init__(self, url: str, mint: Callable[[str, str], str]) -> None:
        self._address, self._prefix = urlsplit(url).netloc, urlsplit(url).path
        self._mint = mint
        self._busy = threading.Lock()
        self._stopping = threading.Event()

    def start(self) -> bool:
        """Start filling in a thread. Return False if that is already running."""
        if not self._busy.acquire(blocking=False):
            return False
        threading.Thread(target=self._run, name="demo", daemon=True).start()
        return True

    def stop(self) -> None:
        """Stop sending."""
        self._stopping.set()

    def fill(self, seed: int = 1) -> None:
        """Send all demo data. Raises OSError when the app refuses a call."""
        self._define()
        with ThreadPoolExecutor(THREADS) as pool:
            # The features are interleaved, so that every panel of the page soon has data.
            list(pool.map(lambda call: call(), _interleave(*self._calls(seed))))

    def _run(self) -> None:
        try:
            self.fill()
            rng = random.Random()  # noqa: S311
            for _ in range(int(CONTINUES * 2)):
                if self._stopping.wait(0.5):
                    return
                self._send_views([_view(rng, datetime.now(UTC))])
        except OSError as error:
            LOGGER.warning("filling the demo failed: %s", error)
        finally:
            self._busy.release()

    def _define(self) -> None:
        admin = self._mint("demo", "admin")
        board = {"title": "Points this season", "unit": "points", "max": 10_000, "operator": "best"}
        challenge = {"title": "Capitals that begin with B", "paths": ANSWERS, "limit": 12, "ranked": True}
        self._send("PUT", f"/leaderboards/{NAME}", board, admin)
        self._send("PUT", f"/challenges/{NAME}", challenge, admin)

    def _calls(self, seed: int) -> Iterator[list[Call]]:
        """Yield the calls of each feature. Only the times of the views depend on the time of day."""
        admin = self._mint("demo", "admin")
        now = datetime.now(UTC)
        rng, ages = random.Random(seed), random.Random(seed)  # noqa: S311 (not secrets)
        views = [_view(rng, now - timedelta(seconds=_age(ages, now))) for _ in range(VIEWS)]
        yield [partial(self._send_views, views[i : i + BATCH]) for i in range(0, VIEWS, BATCH)]
        names = [f"{adjective}-{animal}" for adjective in ADJECTIVES for animal in ANIMALS]
        rng.shuffle(names)
        scores = f"/leaderboards/{NAME}/scores"
        yield [
            partial(self._send, "POST", scores, {"id": name, "value": _score(rng), "player": name}, admin)
            for name in names[:PLAYERS]
        ]
        yield [
            partial(self._send, "POST", f"/challenges/{NAME}/paths", {"path": path}, self._mint(name, ""))
            for name in names[:CHALLENGERS]
            for path in rng.sample(ANSWERS, min(12, 1 + int(rng.expovariate(0.3))))
        ]
        comments = rng.sample(COMMENTS, len(COMMENTS))
        yield [
            partial(self._send, "POST", f"/products/{NAME}/comments", comment, self._mint(name, ""))
            for name, comment in zip(names, comments, strict=False)
        ]

    def _send_views(self, events: list[dict[str, str]]) -> None:
        self._send("POST", "/views", {"events": events}, self._mint("demo", ""))

    def _send(self, method: str, path: str, body: Any, token: str = "") -> None:
        """Call the API. 409 means that the data already exists. Raises OSError."""
        if self._stopping.is_set():
            return
        headers = {"Content-Type": "application/json", "User-Agent": BROWSER}
        headers |= {"Authorization": f"Bearer {token}"} if token else {}
        connection = http.client.HTTPConnection(self._address, timeout=30)
        try:
            connection.request(method, self._prefix + path, json.dumps(body), headers)
            response = connection.getresponse()
            content = response.read()
        finally:
            connection.close()
        if response.status >= 400 and response.status != 409:
            raise OSError(f"{method} {path}: {response.status} {content[:200]!r}")


def _view(rng: random.Random, time: datetime) -> dict[str, str]:
    path, referrer, campaign = (_draw(rng, weights) for weights in (PAGES, REFERRERS, CAMPAIGNS))
    client = f"visitor-{rng.randrange(VISITORS)}"
    found = {"url": SITE + path, "time": time.isoformat(), "clientId": client}
    return found | {"referrer": referrer, "campaign": campaign, "timezone": _draw(rng, ZONES)}


def _draw(rng: random.Random, weights: dict[str, int]) -> str:
    return rng.choices(list(weights), list(weights.values()))[0]


def _score(rng: random.Random) -> int:
    return round(rng.betavariate(2.2, 3) * 2_000)


def _age(rng: random.Random, now: datetime) -> float:
    """Draw the age of a view in seconds. Fewer views happen at night."""
    while True:
        age: float = DAYS * 86_400 * rng.random()
        hour = (now - timedelta(seconds=age)).hour
        if rng.random() < 0.55 - 0.45 * math.cos(2 * math.pi * (hour - 3) / 24):
            return age


def _interleave(*lists: list[Call]) -> list[Call]:
    """Merge lists so that each progresses evenly to its end."""
    positions = [
        (i / len(calls), which, call) for which, calls in enumerate(lists) for i, call in enumerate(calls)
    ]
    return [call for _, _, call in sorted(positions, key=lambda entry: entry[:2])]
