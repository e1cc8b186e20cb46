"""Every operation of the app: a story that calls each of them in each of its cases, and repeatable units.

Each feature's test file has its part of the story and the costs. The units serve `ops/units.json` and so
`ops cost`.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from importlib import import_module
from typing import Any, NamedTuple

import app
from chalicelib import settings
from chalicelib.api import auth
from local.engines.engine import Engine
from tests.support.deployed import Deployed, Invocation, deployed

PAGE = "https://www.example.org/articles/0001"
VIEWS = 25  # in one request: the size of one BatchWriteItem
PATHS = 12  # of the challenge
SCORES, ENTRIES = "/leaderboards/{board}/scores", "/leaderboards/{board}/entries"
SUBMIT, COMMENTS = "/challenges/{challenge}/paths", "/products/{product}/comments"
SCHEDULED = dict.fromkeys(("id", "source", "account", "time", "region"), "") | {
    **{"version": "0", "detail-type": "Scheduled Event", "resources": [], "detail": {}}
}


def recent_hour(hour: int) -> datetime:
    """Return one of three recent hours of one day, whose views count without a token."""
    first = (datetime.now(UTC) - timedelta(hours=12)).replace(minute=0, second=0, microsecond=0)
    return first + timedelta(hours=hour - max(0, first.hour - 21))


def make_events(
    url: str, begin: datetime, more: dict[str, str], first: int, count: int
) -> list[dict[str, str]]:
    """Return view events of one page by different visitors, a microsecond apart."""
    times = [(begin + timedelta(microseconds=first + i)).isoformat() for i in range(count)]
    return [{"url": url, "time": at, "clientId": f"visitor-{i:03}"} | more for i, at in enumerate(times)]


TABLELESS = {
    ("authorizer", ""): (0, 0, 0),
    ("GET /health", ""): (200, 0, 0),
    ("GET /openapi.json", ""): (200, 0, 0),
    ("GET /docs", ""): (200, 0, 0),
    ("GET /docs/{file}", ""): (200, 0, 0),
    ("GET /", ""): (200, 0, 0),
    ("GET /web/config.json", ""): (200, 0, 0),
    ("GET /web/{name}", ""): (200, 0, 0),
    ("GET /web/{name}/{file}", ""): (200, 0, 0),
}


def tableless(site: Deployed) -> Iterator[Invocation]:
    """Call the operations that do not use the table."""
    token = f"Bearer {auth.mint(settings.current(), 'ann')}"
    event = {"type": "TOKEN", "methodArn": "arn:aws:execute-api:a:b:c/d/GET/e", "authorizationToken": token}
    yield Invocation("authorizer", "", site.app.identify, event)
    for route in ("/health", "/openapi.json", "/docs"):
        yield site.rest(f"GET {route}", "")
    yield site.rest("GET /docs/{file}", "", path={"file": "reference.css"})
    for route in ("/", "/web/config.json"):
        yield site.rest(f"GET {route}", "")
    yield site.rest("GET /web/{name}", "", path={"name": "page.css"})
    yield site.rest("GET /web/{name}/{file}", "", path={"name": "vendor", "file": "lit.js"})


def features() -> list[Any]:
    """Return the test file of each feature, which has its `story` and its `COSTS`."""
    return [import_module(f"tests.{feature.name}.test_{feature.name}") for feature in app.FEATURES]


def costs() -> dict[tuple[str, str], tuple[int, float, float]]:
    """Return the status, WCU and RCU of each case of each operation."""
    found = {case: cost for module in features() for case, cost in module.COSTS.items()}
    return found | TABLELESS


def play(engine: Engine, run: Callable[[Deployed, Invocation], None]) -> None:
    """Play the story on a fresh table. `run` is called with each invocation, and runs it."""
    with deployed(engine) as site:
        for module in features():
            for invocation in module.story(site):
                run(site, invocation)
            site.drain()
        for invocation in tableless(site):
            run(site, invocation)


# -- units: what a client does again and again, each time with another number ---------------------------


class Unit(NamedTuple):
    """A repeatable operation. `repeat` takes the number of the repetition; `prepare` runs once, before it."""

    repeat: Callable[[Deployed, int], Iterator[Invocation]]
    prepare: Callable[[Deployed], Iterator[Invocation]] = lambda site: iter(())


KNOWN_VIEWS, PLAYERS = 100, 20  # on the table before


def submit_score(
    site: Deployed, board: str, player: str, id: str, value: int, name: str = "", **query: str
) -> Invocation:
    body = {"id": id, "value": value}
    return site.rest(f"POST {SCORES}", name, path={"board": board}, query=query, body=body, sub=player)


def _view(site: Deployed, number: int, minute: int = 30, visitor: str = "visitor") -> Iterator[Invocation]:
    """View one of ten pages."""
    time = recent_hour(2) + timedelta(minutes=minute, milliseconds=number)
    page = f"https://www.example.org/articles/{number % 10:04}"
    event = {"url": page, "time": time.isoformat(), "clientId": f"{visitor}-{number:06}"}
    yield site.rest("POST /views", body=event)


def _viewed(site: Deployed, visitor: str = "visitor") -> Iterator[Invocation]:
    """View each page earlier in the same hour."""
    for number in range(KNOWN_VIEWS):
        yield from _view(site, number, 20, visitor)


def _count(site: Deployed, number: int, route: str = "/views") -> Iterator[Invocation]:
    yield site.rest(f"GET {route}", query={"url": f"https://www.example.org/articles/{number % 10:04}"})


def _board(site: Deployed) -> Iterator[Invocation]:
    body = {"title": "Kart", "min": 0, "max": 1_000_000}
    yield site.rest("PUT /leaderboards/{board}", path={"board": "kart"}, body=body, sub="admin")
    rng = random.Random(7)
    for number in range(PLAYERS):
        yield submit_score(site, "kart", f"player-{number:05}", f"first-{number}", rng.randint(1, 1_000_000))


def _gain(site: Deployed, number: int, **query: str) -> Iterator[Invocation]:
    value, player = random.Random(number).randint(1, 1_000), f"player-{number % PLAYERS:05}"
    yield submit_score(site, "kart", player, f"second-{number}", value, **query)


def _rank(site: Deployed, number: int) -> Iterator[Invocation]:
    path = {"board": "kart", "player": f"player-{number:05}"}
    yield site.rest("GET /leaderboards/{board}/players/{player}", path=path)


def _challenge(site: Deployed) -> Iterator[Invocation]:
    body = {"title": "Hunt", "paths": [f"path {i:02}" for i in range(PATHS)], "limit": PATHS}
    yield site.rest("PUT /challenges/{challenge}", path={"challenge": "hunt"}, body=body, sub="admin")


def _path(site: Deployed, number: int, path: str) -> Iterator[Invocation]:
    """Submit a path for a player that has no other."""
    player, body = f"player-{number:05}", {"path": path}
    yield site.rest(f"POST {SUBMIT}", path={"challenge": "hunt"}, body=body, sub=player)


def _comment(site: Deployed, number: int) -> Iterator[Invocation]:
    """Comment on one of ten products."""
    body = {"rating": 5, "language": "en", "text": "a" * 300}
    path = {"product": f"shoe-{number % 10}"}
    yield site.rest(f"POST {COMMENTS}", path=path, body=body, sub=f"author-{number:05}")


def _commented(site: Deployed) -> Iterator[Invocation]:
    for number in range(PLAYERS):
        yield from _comment(site, number)


def _product(site: Deployed, number: int, route: str) -> Iterator[Invocation]:
    yield site.rest(f"GET {route}", path={"product": f"shoe-{number % 10}"})


def _meet(site: Deployed, number: int) -> Iterator[Invocation]:
    for id in (f"a{number}", f"b{number}"):
        yield site.socket("connect", id)
        yield site.frame(id, "", "status")


def _meet_and_part(site: Deployed, number: int) -> Iterator[Invocation]:
    yield from _meet(site, number)
    for id in (f"a{number}", f"b{number}"):
        yield site.socket("disconnect", id)


def _message(site: Deployed, number: int) -> Iterator[Invocation]:
    """Send a message in one of ten pairs."""
    yield site.frame(f"a{number % 10}", "", "message", text="hello")


def _met(site: Deployed) -> Iterator[Invocation]:
    """Match ten pairs and send a message in each. A pair's first message also checks for pending notices."""
    for number in range(10):
        yield from _meet(site, number)
        yield from _message(site, number)


def _get(route: str, **path: str) -> Callable[[Deployed, int], Iterator[Invocation]]:
    return lambda site, number: iter([site.rest(f"GET {route}", path=path)])


UNITS = {
    "view, new visitor": Unit(_view, partial(_viewed, visitor="somebody-else")),
    "view, returning visitor": Unit(_view, _viewed),
    "count of a page": Unit(_count, _viewed),
    "series of a page": Unit(partial(_count, route="/views/series"), _viewed),
    "score": Unit(_gain, _board),
    "score with its rank": Unit(partial(_gain, standing="true"), _board),
    "rank": Unit(_rank, _board),
    "top ten": Unit(_get(ENTRIES, board="kart"), _board),
    "path": Unit(partial(_path, path="path 00"), _challenge),
    "wrong guess": Unit(partial(_path, path="wrong"), _challenge),
    "statistics of a challenge": Unit(
        _get("/challenges/{challenge}/statistics", challenge="hunt"), _challenge
    ),
    "comment": Unit(_comment),
    "page of comments": Unit(partial(_product, route=COMMENTS), _commented),
    "statistics of a product": Unit(partial(_product, route="/products/{product}/statistics"), _commented),
    "two meet and part": Unit(_meet_and_part),
    "message": Unit(_message, _met),
}
