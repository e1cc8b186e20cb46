"""A story that calls every operation of the app, once or in each of its ways, on a table of its own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from bench.invocations import SCHEDULED, Deployed, Invocation
from chalicelib import auth, settings
from chalicelib import views as views_of
from chalicelib.events import View

PAGE = "https://www.example.org/articles/0001"
VIEWS = 25  # in one request, which one BatchWriteItem takes
ANSWERS = 12  # of the challenge


def _yesterday(hour: int) -> datetime:
    """Answer an hour of yesterday: whenever this runs, two of them are of one day."""
    return (datetime.now(UTC) - timedelta(days=1)).replace(hour=hour, minute=0, second=0, microsecond=0)


def views(site: Deployed) -> Iterator[Invocation]:
    """Views are posted, queued, counted and read."""
    hour = _yesterday(10)

    def events(first: int, count: int) -> list[dict[str, str]]:
        return [
            {
                "url": PAGE,
                "time": (hour + timedelta(microseconds=first + i)).isoformat(),
                "clientId": f"visitor-{i:03}",
            }
            for i in range(count)
        ]

    page = {"url": PAGE}
    yield site.rest("POST", "/views", "one", body=events(0, 1)[0])
    yield site.rest("POST", "/views", "the same again", body=events(0, 1)[0])
    yield site.rest("POST", "/views", f"{VIEWS}", body={"events": events(1, VIEWS)})
    yield site.delivery("stream", f"{1 + VIEWS} views of a new page")
    yield site.delivery("stream", f"… its {VIEWS} new visitors, and the day")
    site.settle()
    yield site.rest("POST", "/views", f"{VIEWS} more", body={"events": events(100, VIEWS)})
    again = site.delivery("stream", f"{VIEWS} views, visitors known")
    yield again
    yield again._replace(name="… the same batch again")
    message = {"messageId": "m", "body": json.dumps({"taken": True, "events": events(200, VIEWS)})}
    yield Invocation("queue", f"{VIEWS} views", site.app.write_views, {"Records": [message]})
    site.settle()
    first = views_of.event_key(View(PAGE, hour, "visitor-000"))
    site.table.delete(first)
    expired = site.delivery("stream", "a view that has expired")
    for record in expired.event["Records"]:
        record["userIdentity"] = {"type": "Service", "principalId": "dynamodb.amazonaws.com"}
    yield expired
    site.table.put(first._asdict() | {"sk": "T#nonsense"})
    yield site.delivery("stream", "an item that cannot be computed")
    yield site.rest("GET", "/views", "", query=page)
    yield site.rest("GET", "/views/badge.svg", "", query=page)
    yield site.rest("GET", "/views/series", "by hour", query=page | {"interval": "hour"})
    yield site.rest("GET", "/views/top", "", query={"site": "www.example.org"})
    yield site.rest("GET", "/views/events", "75 of them", query=page, sub="admin")


def leaderboards(site: Deployed) -> Iterator[Invocation]:
    """Two players are ranked on a board of sums; its season ends."""
    board, ann = {"board": "points"}, {"board": "points", "player": "ann"}

    def score(sub: str, id: str, value: int, name: str) -> Invocation:
        body = {"id": id, "value": value}
        return site.rest("POST", "/leaderboards/{board}/scores", name, path=board, body=body, sub=sub)

    definition = {"title": "Points", "operator": "increment"}
    put = site.rest("PUT", "/leaderboards/{board}", "a new one", path=board, body=definition, sub="admin")
    yield put
    yield put._replace(name="the same again")
    changed = definition | {"title": "All points"}
    yield site.rest("PUT", "/leaderboards/{board}", "its title", path=board, body=changed, sub="admin")
    yield score("ann", "1", 500, "a player's first")
    yield score("ann", "1", 500, "the same again")
    yield site.delivery("stream", "a new player")
    yield score("ann", "2", 10, "a gain")
    yield site.delivery("stream", "a small gain")
    yield score("bob", "1", 700, "of another")
    site.settle()
    yield site.rest("GET", "/leaderboards/{board}", "", path=board)
    route = "/leaderboards/{board}/players/{player}"
    yield site.rest("GET", route, "changed a moment ago", path=ann)
    yield site.rest("GET", route, "consistent", path=ann, query={"consistent": "true"})
    yield site.rest("GET", "/leaderboards/{board}/players/{player}/activities", "", path=ann, sub="ann")
    entries = "/leaderboards/{board}/entries"
    yield site.rest("GET", entries, "the top", path=board)
    first = site.rest("GET", entries, "the top, one a page", path=board, query={"limit": "1"})
    cursor = json.loads(first.run()["body"])["cursor"]
    yield site.rest("GET", entries, "the next page", path=board, query={"limit": "1", "cursor": cursor})
    yield site.rest("GET", entries, "from a place", path=board, query={"place": "2"})
    yield site.rest("GET", entries, "around a player", path=board, query={"around": "ann"})
    yield site.rest("GET", "/leaderboards/{board}/distribution", "", path=board)
    end = {"season": 1}
    yield site.rest("POST", "/leaderboards/{board}/seasons", "", path=board, body=end, sub="admin")
    yield site.rest("DELETE", route, "of two seasons", path=ann, sub="ann")
    yield site.delivery("stream", "a player who leaves")


def challenges(site: Deployed) -> Iterator[Invocation]:
    """A challenge is played, and a player taken out of it."""
    hunt = {"challenge": "hunt"}
    body = {"title": "Hunt", "paths": [f"door {i}" for i in range(ANSWERS)], "limit": ANSWERS}

    def submit(path: str, name: str) -> Invocation:
        route = "/challenges/{challenge}/paths"
        return site.rest("POST", route, name, path=hunt, body={"path": path}, sub="ann")

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
    yield site.delivery("stream", "two paths of a player")
    ann = hunt | {"player": "ann"}
    route = "/challenges/{challenge}/players/{player}"
    yield site.rest("GET", route, "", path=ann, sub="ann")
    yield site.rest("GET", "/challenges/{challenge}/statistics", "", path=hunt)
    yield site.rest("GET", "/challenges/{challenge}/leaders", "of one that is not ranked", path=hunt)
    ranked = {"challenge": "ranked"}
    ranked_body = body | {"ranked": True}
    site.rest("PUT", "/challenges/{challenge}", "", path=ranked, body=ranked_body, sub="admin").run()
    found = {"path": "door 0"}
    paths = "/challenges/{challenge}/paths"
    site.rest("POST", paths, "", path=ranked, body=found, sub="ann").run()
    yield site.delivery("stream", "a path of a ranked challenge")
    yield site.rest("GET", "/challenges/{challenge}/leaders", "", path=ranked)
    one = "/challenges/{challenge}/players/{player}/paths/{path}"
    yield site.rest("DELETE", one, "", path=ann | {"path": "door 1"}, sub="admin")
    yield site.rest("DELETE", route, "who has found one", path=ann, sub="admin")
    yield site.delivery("stream", "what is taken back")


def comments(site: Deployed) -> Iterator[Invocation]:
    """A product is commented on, listed and rated; a comment is edited, hidden, shown and deleted."""
    product = {"product": "lamp"}
    route, one = "/products/{product}/comments", "/products/{product}/comments/{id}"
    body = {"rating": 5, "language": "en", "text": "It shines."}

    def post(sub: str, name: str) -> Invocation:
        return site.rest("POST", route, name, path=product, body=body, sub=sub)

    first = post("ann", "")
    made: dict[str, Any] = {}
    handler = first.handler

    def kept(event: Any, context: Any) -> Any:
        answer = handler(event, context)
        made.setdefault("id", json.loads(answer["body"]).get("id"))
        return answer

    yield first._replace(handler=kept)
    yield post("ann", "a second of the author")
    yield site.delivery("stream", "a comment")
    for i in range(20):
        post(f"reader-{i:02}", "").run()
    yield site.delivery("stream", "20 comments of a product")
    yield site.rest("GET", route, "20, all", path=product)
    yield site.rest("GET", route, "20, in a language", path=product, query={"language": "en"})
    yield site.rest("GET", route, "none, of a rating", path=product, query={"rating": "1"})
    comment = product | {"id": made["id"]}
    yield site.rest("GET", one, "", path=comment)
    for name, change in (
        ("its text", {"text": "It shone."}),
        ("its rating", {"rating": 3}),
        ("nothing new", {"rating": 3}),
    ):
        yield site.rest("PATCH", one, name, path=comment, body=change, sub="ann")
        if name == "its rating":
            yield site.delivery("stream", "a comment's other rating")
    for name, is_hidden in (("hide it", True), ("show it", False)):
        yield site.rest("PATCH", one, name, path=comment, body={"hidden": is_hidden}, sub="admin")
    yield site.rest("DELETE", one, "", path=comment, sub="ann")
    site.settle()
    yield site.rest("GET", "/products/{product}/hidden", "", path=product, sub="admin")
    yield site.rest("GET", "/products/{product}/statistics", "", path=product)
    yield site.rest("GET", "/products/leaders", "")


def chat(site: Deployed) -> Iterator[Invocation]:
    """Two are matched, talk, listen and part."""

    def connect(id: str, name: str) -> Invocation:
        return site.socket("socket_connect", "socket $connect", name, id)

    yield connect("a", "who waits")
    yield site.frame("a", "of one who waits", "status")
    yield connect("b", "and a match")
    yield site.frame("b", "and being told", "status")
    yield site.frame("a", "the first of a pair", "message", text="Hello.")
    yield site.frame("a", "", "message", text="Hello.")
    yield site.frame("a", "", "typing")
    yield site.frame("a", "", "ping")
    yield site.frame("a", "", "resume")
    topic = f"views:{PAGE}"
    site.settle()
    yield site.frame("a", "", "subscribe", topic=topic)
    later = _yesterday(11)  # another hour of the day on which the visitor came first
    view = {"url": PAGE, "time": later.isoformat(), "clientId": "visitor-000"}
    site.rest("POST", "/views", "", body=view).run()
    site.delivery("stream", "").run()
    changed = site.delivery("stream", "")
    changed.run()
    yield Invocation("push", "a changed page to one listener", site.app.push, changed.event)
    yield site.frame("a", "", "unsubscribe", topic=topic)
    yield site.frame("a", "of a pair", "find")
    yield site.frame("a", "nobody else waits", "next")
    yield connect("c", "and a match, with two")
    yield site.frame("c", "", "report", reason="spam")
    yield site.frame("c", "of a pair, with one who waits", "leave")
    yield Invocation("sweep", "three connections", site.app.sweep, SCHEDULED)
    for id in ("a", "b", "c"):
        yield site.socket("socket_disconnect", "socket $disconnect", id, id)
    yield site.rest("GET", "/chat/reports", "", sub="admin")


def stream(site: Deployed) -> Iterator[Invocation]:
    """An admin looks how the stream is."""
    yield site.rest("GET", "/quarantine", "one entry", sub="admin")
    site.settle()
    yield site.rest("GET", "/lag", "nothing is on its way", sub="admin")
    yield site.delivery("stream", "a pulse")


def service(site: Deployed) -> Iterator[Invocation]:
    """What touches no table."""
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


CHAPTERS = (views, leaderboards, challenges, comments, chat, stream, service)
