"""Every operation of the app: a story that calls each of them in each of its cases, and repeatable units.

The story serves `tests/test_costs.py` and the profile. The units serve `ops/units.json` and so `ops cost`.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import NamedTuple
from unittest import mock

from chalicelib import settings
from chalicelib.api import auth
from chalicelib.comments.comments import author_key
from chalicelib.views import events as views_of
from chalicelib.views.events import View
from local.engines.engine import Engine
from local.filters import filtered
from tests.support.deployed import Deployed, Invocation, deployed

PAGE = "https://www.example.org/articles/0001"
VIEWS = 25  # in one request: the size of one BatchWriteItem
PATHS = 12  # of the challenge
SCORES, ENTRIES = "/leaderboards/{board}/scores", "/leaderboards/{board}/entries"
SUBMIT, COMMENTS = "/challenges/{challenge}/paths", "/products/{product}/comments"
SCHEDULED = dict.fromkeys(("id", "source", "account", "time", "region"), "") | {
    **{"version": "0", "detail-type": "Scheduled Event", "resources": [], "detail": {}}
}


def _recent(hour: int) -> datetime:
    """Return one of three recent hours of one day, whose views count without a token."""
    first = (datetime.now(UTC) - timedelta(hours=12)).replace(minute=0, second=0, microsecond=0)
    return first + timedelta(hours=hour - max(0, first.hour - 21))


def _events(url: str, begin: datetime, more: dict[str, str], first: int, count: int) -> list[dict[str, str]]:
    """Return view events of one page by different visitors, a microsecond apart."""
    times = [(begin + timedelta(microseconds=first + i)).isoformat() for i in range(count)]
    return [{"url": url, "time": at, "clientId": f"visitor-{i:03}"} | more for i, at in enumerate(times)]


def views(site: Deployed) -> Iterator[Invocation]:
    """Post, queue, count and read views, on a stage that keeps no sums of sites."""
    with mock.patch.object(site.app, "stage", site.app.stage._replace(views_sites=False)):
        yield from _views_of_pages(site)


def _views_of_pages(site: Deployed) -> Iterator[Invocation]:
    hour = _recent(0)
    events = partial(_events, PAGE, hour, {})
    page = {"url": PAGE}
    yield site.rest("POST", "/views", "one", body=events(0, 1)[0])
    yield site.rest("POST", "/views", "the same again", body=events(0, 1)[0])
    yield site.rest("POST", "/views", f"{VIEWS}", body={"events": events(1, VIEWS)})
    yield site.delivery(f"{1 + VIEWS} views of a new page")
    site.drain()
    yield site.rest("POST", "/views", f"{VIEWS} more", body={"events": events(100, VIEWS)})
    again = site.delivery(f"{VIEWS} views, visitors known")
    yield again
    yield again._replace(name="… the same batch again")
    message = {"messageId": "m", "body": json.dumps({"taken": True, "events": events(200, VIEWS)})}
    yield Invocation("queue", f"{VIEWS} views", site.app.write_views, {"Records": [message]})
    site.drain()
    first = views_of.event_key(View(PAGE, hour, "visitor-000"))
    site.table.delete(first)
    expired = site.delivery("an expired view")
    for record in expired.event["Records"]:
        record["userIdentity"] = {"type": "Service", "principalId": "dynamodb.amazonaws.com"}
    yield expired
    site.table.put(first._asdict() | {"sk": "T#nonsense"})
    yield site.delivery("a malformed item")
    yield site.rest("GET", "/views", "", query=page)
    yield site.rest("GET", "/views/badge.svg", "", query=page)
    yield site.rest("GET", "/views/series", "by hour", query=page | {"interval": "hour"})
    yield site.rest("GET", "/views/top", "", query={"site": "www.example.org"})
    yield site.rest("GET", "/views/events", "75 events", query=page, sub="admin")


def sites(site: Deployed) -> Iterator[Invocation]:
    """Post and count views for the sums of a site, and read them."""
    hour, host = _recent(1), "shop.example.org"
    source = {"referrer": "https://news.example.com/", "campaign": "spring-sale"}
    events = partial(_events, f"https://{host}/lamp", hour, source)
    yield site.rest("POST", "/views", "one, of a site", body=events(0, 1)[0])
    yield site.rest("POST", "/views", f"{VIEWS}, of a site", body={"events": events(1, VIEWS)})
    yield site.delivery(f"{1 + VIEWS} views of a new site")
    site.drain()
    yield site.rest("POST", "/views", "another, of a site", body=events(100, 1)[0])
    yield site.delivery("a view of a site, visitor known")
    day = hour.date().isoformat()
    period = {"site": host, "from": day, "to": day}
    yield site.rest("GET", "/views/site", "by hour", query=period | {"interval": "hour"})
    yield site.rest("GET", "/views/top", "of a day", query=period)
    yield site.rest("GET", "/views/referrers", "of a day", query=period)
    yield site.rest("GET", "/views/campaigns", "of 30 days", query={"site": host})
    yield site.rest("GET", "/sites", "", sub="admin")


def leaderboards(site: Deployed) -> Iterator[Invocation]:
    """Rank two players on a board of sums, and end its season."""
    board, ann = {"board": "points"}, {"board": "points", "player": "ann"}

    def score(sub: str, id: str, value: int, name: str) -> Invocation:
        return _score(site, "points", sub, id, value, name)

    definition = {"title": "Points", "operator": "increment"}
    put = site.rest("PUT", "/leaderboards/{board}", "a new one", path=board, body=definition, sub="admin")
    yield put
    yield put._replace(name="the same again")
    changed = definition | {"title": "All points"}
    yield site.rest("PUT", "/leaderboards/{board}", "another title", path=board, body=changed, sub="admin")
    yield score("ann", "1", 500, "a player's first")
    yield score("ann", "1", 500, "the same again")
    yield site.delivery("a new player")
    yield score("ann", "2", 10, "a gain")
    yield site.delivery("a small gain")
    yield score("bob", "1", 700, "another player")
    site.drain()
    yield site.rest("GET", "/leaderboards/{board}", "", path=board)
    route = "/leaderboards/{board}/players/{player}"
    yield site.rest("GET", route, "changed recently", path=ann)
    yield site.rest("GET", route, "consistent", path=ann, query={"consistent": "true"})
    yield site.rest("GET", "/leaderboards/{board}/players/{player}/activities", "", path=ann, sub="ann")
    yield site.rest("GET", ENTRIES, "the top", path=board)
    first = site.rest("GET", ENTRIES, "the top, one a page", path=board, query={"limit": "1"})
    cursor = json.loads(first.run()["body"])["cursor"]
    yield site.rest("GET", ENTRIES, "the next page", path=board, query={"limit": "1", "cursor": cursor})
    yield site.rest("GET", ENTRIES, "from a place", path=board, query={"place": "2"})
    yield site.rest("GET", ENTRIES, "around a player", path=board, query={"around": "ann"})
    yield site.rest("GET", "/leaderboards/{board}/distribution", "", path=board)
    end = {"season": 1}
    yield site.rest("POST", "/leaderboards/{board}/seasons", "", path=board, body=end, sub="admin")
    yield site.rest("DELETE", route, "of two seasons", path=ann, sub="ann")
    yield site.delivery("a removed player")


def challenges(site: Deployed) -> Iterator[Invocation]:
    """Play a challenge, and withdraw a player."""
    hunt = {"challenge": "hunt"}
    body = {"title": "Hunt", "paths": [f"door {i}" for i in range(PATHS)], "limit": PATHS}

    def submit(path: str, name: str) -> Invocation:
        return site.rest("POST", SUBMIT, name, path=hunt, body={"path": path}, sub="ann")

    put = site.rest("PUT", "/challenges/{challenge}", "a new one", path=hunt, body=body, sub="admin")
    yield put
    yield put._replace(name="the same again")
    other = body | {"title": "Great hunt"}
    yield site.rest("PUT", "/challenges/{challenge}", "replaced", path=hunt, body=other, sub="admin")
    yield site.rest("GET", "/challenges/{challenge}", "", path=hunt)
    yield submit("door 0", "a player's first")
    yield submit("door 1", "another")
    yield submit("door 1", "found before")
    yield submit("window", "wrong")
    yield site.delivery("two paths of a player")
    ann = hunt | {"player": "ann"}
    route = "/challenges/{challenge}/players/{player}"
    yield site.rest("GET", route, "", path=ann, sub="ann")
    yield site.rest("GET", "/challenges/{challenge}/statistics", "", path=hunt)
    yield site.rest("GET", "/challenges/{challenge}/leaders", "not ranked", path=hunt)
    ranked = {"challenge": "ranked"}
    ranked_body = body | {"ranked": True}
    site.rest("PUT", "/challenges/{challenge}", "", path=ranked, body=ranked_body, sub="admin").run()
    site.rest("POST", SUBMIT, path=ranked, body={"path": "door 0"}, sub="ann").run()
    yield site.delivery("a path of a ranked challenge")
    yield site.rest("GET", "/challenges/{challenge}/leaders", "", path=ranked)
    yield site.rest("GET", "/challenges", "two", sub="admin")
    one = "/challenges/{challenge}/players/{player}/paths/{path}"
    yield site.rest("DELETE", one, "", path=ann | {"path": "door 1"}, sub="admin")
    yield site.rest("DELETE", route, "with one path", path=ann, sub="admin")
    yield site.delivery("withdrawn paths")


def _find_comment(site: Deployed, product: str, author: str) -> str:
    """Return the id of the comment of an author on a product."""
    found = site.table.get(author_key(product, author))
    return found["id"] if found else ""


def comments(site: Deployed) -> Iterator[Invocation]:
    """Comment on a product, list its comments, and edit, hide, show and delete one."""
    product = {"product": "lamp"}
    route, one = COMMENTS, "/products/{product}/comments/{id}"
    body = {"rating": 5, "language": "en", "text": "It shines."}

    def post(sub: str, name: str) -> Invocation:
        return site.rest("POST", route, name, path=product, body=body, sub=sub)

    yield post("ann", "")
    yield post("ann", "a second by the author")
    yield site.delivery("a comment")
    for i in range(20):
        post(f"reader-{i:02}", "").run()
    yield site.delivery("20 comments of a product")
    yield site.rest("GET", route, "20, all", path=product)
    yield site.rest("GET", route, "20, in a language", path=product, query={"language": "en"})
    yield site.rest("GET", route, "none, of a rating", path=product, query={"rating": "1"})
    comment = product | {"id": _find_comment(site, "lamp", "ann")}
    yield site.rest("GET", one, "", path=comment)
    yield site.rest("PATCH", one, "another text", path=comment, body={"text": "It shone."}, sub="ann")
    yield site.rest("PATCH", one, "another rating", path=comment, body={"rating": 3}, sub="ann")
    yield site.delivery("another rating")
    yield site.rest("PATCH", one, "nothing new", path=comment, body={"rating": 3}, sub="ann")
    for name, is_hidden in (("hide it", True), ("show it", False)):
        yield site.rest("PATCH", one, name, path=comment, body={"hidden": is_hidden}, sub="admin")
    yield site.rest("DELETE", one, "", path=comment, sub="ann")
    site.drain()
    yield from _reactions(site, product)
    yield site.rest("GET", "/products/{product}/hidden", "", path=product, sub="admin")
    yield site.rest("GET", "/products/{product}/statistics", "", path=product)
    yield site.rest("GET", "/products/leaders", "")
    yield site.rest("GET", "/products", "", sub="admin")
    yield site.rest("GET", "/comments", "20 of all", sub="admin")


def _reactions(site: Deployed, product: dict[str, str]) -> Iterator[Invocation]:
    """Vote for a comment and reply to it, list, edit, hide and delete replies, and delete the comment."""
    one, vote = "/products/{product}/comments/{id}", "/products/{product}/comments/{id}/vote"
    several, single = f"{one}/replies", f"{one}/replies/{{reply}}"
    body = {"rating": 4, "language": "en", "text": "It is bright."}
    site.rest("POST", COMMENTS, "", path=product, body=body, sub="bob").run()
    comment = product | {"id": _find_comment(site, "lamp", "bob")}
    site.drain()
    yield site.rest("PUT", vote, "", path=comment, sub="ann")
    yield site.rest("PUT", vote, "again", path=comment, sub="ann")
    yield site.delivery("a vote")
    yield site.rest("DELETE", vote, "", path=comment, sub="ann")
    yield site.rest("DELETE", vote, "again", path=comment, sub="ann")
    yield site.rest("GET", several, "none", path=comment)
    yield site.rest("POST", several, "", path=comment, body={"text": "It is."}, sub="ann")
    site.drain()
    site.rest("POST", several, "", path=comment, body={"text": "Yes."}, sub="ann").run()
    yield site.delivery("a reply")
    yield site.rest("GET", several, "two", path=comment)
    ids = [
        item["sk"].rpartition("#")[2]
        for item in site.table.query(f"PRODUCT#{product['product']}").items
        if item["sk"].startswith("REPLY#")
    ]
    path = comment | {"reply": ids[0]}
    yield site.rest("PATCH", single, "another text", path=path, body={"text": "It was."}, sub="ann")
    yield site.rest("PATCH", single, "hide it", path=path, body={"hidden": True}, sub="admin")
    yield site.rest("GET", "/replies", "two", sub="admin")
    yield site.rest("DELETE", single, "", path=comment | {"reply": ids[1]}, sub="ann")
    site.drain()
    yield site.rest("DELETE", one, "with a reply", path=comment, sub="bob")
    yield site.delivery("a deleted comment with a reply")
    yield site.delivery("its cleanup is done")


def chat(site: Deployed) -> Iterator[Invocation]:
    """Match two connections, let them talk and subscribe, and part them."""

    connect = partial(site.socket, "connect")
    yield connect("a", "nobody waits")
    yield site.frame("a", "while waiting", "status")
    yield connect("b", "a match")
    yield site.frame("b", "with a notice", "status")
    yield site.frame("a", "the first of a pair", "message", text="Hello.")
    yield site.frame("a", "", "message", text="Hello.")
    yield site.frame("b", "", "received", ids=["no message"])
    yield site.frame("a", "", "check")
    yield site.frame("a", "", "typing")
    yield site.frame("a", "", "ping")
    yield site.frame("a", "", "resume")
    topic = f"views:{PAGE}"
    site.drain()
    yield site.frame("a", "", "subscribe", topic=topic)
    later = _recent(1)  # another hour of the day on which the visitor came first
    view = {"url": PAGE, "time": later.isoformat(), "clientId": "visitor-000"}
    site.rest("POST", "/views", "", body=view).run()
    site.delivery().run()
    changed = site.delivery()
    changed.run()
    yield Invocation("push", "a changed page, one subscriber", filtered(site.app.push, "push"), changed.event)
    yield site.frame("a", "", "unsubscribe", topic=topic)
    yield site.frame("a", "of a pair", "find")
    yield site.frame("a", "nobody else waits", "next")
    yield connect("c", "a match, one waits on")
    yield site.frame("c", "", "report", reason="spam")
    yield site.frame("c", "of a pair, one waits beside", "leave")
    yield Invocation("sweep", "three connections", site.app.sweep, SCHEDULED)
    yield site.frame("c", "of the last partner", "report", reason="spam")
    for id in ("a", "b", "c"):
        yield site.socket("disconnect", id, id)
    yield site.rest("GET", "/leaderboards", "", sub="admin")
    yield site.rest("GET", "/chat/reports", "", sub="admin")
    report, *_ = site.table.query("REPORTS").items
    one = {"id": report["sk"].replace("#", "~")}
    yield site.rest("POST", "/chat/reports/{id}", "ban", path=one, body={"action": "ban"}, sub="admin")


def stream(site: Deployed) -> Iterator[Invocation]:
    """Look at the stream as an admin."""
    yield site.rest("GET", "/quarantine", "one entry", sub="admin")
    site.drain()
    yield site.rest("GET", "/lag", "nothing pending", sub="admin")
    yield site.delivery("the lag probe")


def guests(site: Deployed) -> Iterator[Invocation]:
    """Sign in as guests from one address."""
    yield site.rest("POST", "/guests", "the first of an address", body={"name": "Ann"})
    yield site.rest("POST", "/guests", "another", body={})


def tableless(site: Deployed) -> Iterator[Invocation]:
    """Call the operations that do not use the table."""
    token = f"Bearer {auth.mint(settings.current(), 'ann')}"
    event = {"type": "TOKEN", "methodArn": "arn:aws:execute-api:a:b:c/d/GET/e", "authorizationToken": token}
    yield Invocation("authorizer", "", site.app.identify, event)
    for route in ("/health", "/openapi.json", "/docs"):
        yield site.rest("GET", route, "")
    yield site.rest("GET", "/docs/{file}", "", path={"file": "swagger-ui.css"})
    for route in ("/", "/web/config.json"):
        yield site.rest("GET", route, "")
    yield site.rest("GET", "/web/{name}", "", path={"name": "page.css"})
    yield site.rest("GET", "/web/{name}/{file}", "", path={"name": "vendor", "file": "lit.js"})


CHAPTERS = (views, sites, leaderboards, challenges, comments, chat, stream, guests, tableless)


def play(engine: Engine, run: Callable[[Deployed, Invocation], None]) -> None:
    """Play the story on a fresh table. `run` is called with each invocation, and runs it."""
    with deployed(engine) as site:
        for chapter in CHAPTERS:
            for invocation in chapter(site):
                run(site, invocation)


# -- units: what a client does again and again, each time with another number ---------------------------


class Unit(NamedTuple):
    """A repeatable operation. `repeat` takes the number of the repetition; `prepare` runs once, before it."""

    repeat: Callable[[Deployed, int], Iterator[Invocation]]
    prepare: Callable[[Deployed], Iterator[Invocation]] = lambda site: iter(())


KNOWN_VIEWS, PLAYERS = 100, 20  # on the table before


def _score(site: Deployed, board: str, player: str, id: str, value: int, name: str = "") -> Invocation:
    body = {"id": id, "value": value}
    return site.rest("POST", SCORES, name, path={"board": board}, body=body, sub=player)


def _view(site: Deployed, number: int, minute: int = 30, visitor: str = "visitor") -> Iterator[Invocation]:
    """View one of ten pages."""
    time = _recent(2) + timedelta(minutes=minute, milliseconds=number)
    page = f"https://www.example.org/articles/{number % 10:04}"
    event = {"url": page, "time": time.isoformat(), "clientId": f"{visitor}-{number:06}"}
    yield site.rest("POST", "/views", body=event)


def _viewed(site: Deployed, visitor: str = "visitor") -> Iterator[Invocation]:
    """View each page earlier in the same hour."""
    for number in range(KNOWN_VIEWS):
        yield from _view(site, number, 20, visitor)


def _count(site: Deployed, number: int, route: str = "/views") -> Iterator[Invocation]:
    yield site.rest("GET", route, query={"url": f"https://www.example.org/articles/{number % 10:04}"})


def _board(site: Deployed) -> Iterator[Invocation]:
    body = {"title": "Kart", "min": 0, "max": 1_000_000}
    yield site.rest("PUT", "/leaderboards/{board}", path={"board": "kart"}, body=body, sub="admin")
    rng = random.Random(7)
    for number in range(PLAYERS):
        yield _score(site, "kart", f"player-{number:05}", f"first-{number}", rng.randint(1, 1_000_000))


def _gain(site: Deployed, number: int) -> Iterator[Invocation]:
    value = random.Random(number).randint(1, 1_000)
    yield _score(site, "kart", f"player-{number % PLAYERS:05}", f"second-{number}", value)


def _rank(site: Deployed, number: int) -> Iterator[Invocation]:
    path = {"board": "kart", "player": f"player-{number:05}"}
    yield site.rest("GET", "/leaderboards/{board}/players/{player}", path=path)


def _challenge(site: Deployed) -> Iterator[Invocation]:
    body = {"title": "Hunt", "paths": [f"path {i:02}" for i in range(PATHS)], "limit": PATHS}
    yield site.rest("PUT", "/challenges/{challenge}", path={"challenge": "hunt"}, body=body, sub="admin")


def _path(site: Deployed, number: int, path: str) -> Iterator[Invocation]:
    """Submit a path for a player that has no other."""
    player, body = f"player-{number:05}", {"path": path}
    yield site.rest("POST", SUBMIT, path={"challenge": "hunt"}, body=body, sub=player)


def _comment(site: Deployed, number: int) -> Iterator[Invocation]:
    """Comment on one of ten products."""
    body = {"rating": 5, "language": "en", "text": "a" * 300}
    path = {"product": f"shoe-{number % 10}"}
    yield site.rest("POST", COMMENTS, path=path, body=body, sub=f"author-{number:05}")


def _commented(site: Deployed) -> Iterator[Invocation]:
    for number in range(PLAYERS):
        yield from _comment(site, number)


def _product(site: Deployed, number: int, route: str) -> Iterator[Invocation]:
    yield site.rest("GET", route, path={"product": f"shoe-{number % 10}"})


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
    return lambda site, number: iter([site.rest("GET", route, path=path)])


UNITS = {
    "view, new visitor": Unit(_view, partial(_viewed, visitor="somebody-else")),
    "view, returning visitor": Unit(_view, _viewed),
    "count of a page": Unit(_count, _viewed),
    "series of a page": Unit(partial(_count, route="/views/series"), _viewed),
    "score": Unit(_gain, _board),
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
