"""Every operation of leaderboards in each of its cases, and what it costs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime, timedelta
from unittest import mock

import app
from tests.support.deployed import Deployed, Invocation
from tests.support.operations import ENTRIES, submit_score

COSTS = {
    ("PUT /leaderboards/{board}", "a new one"): (201, 2, 1),
    ("PUT /leaderboards/{board}", "the same again"): (200, 0, 1.5),
    ("PUT /leaderboards/{board}", "another title"): (200, 2, 1.5),
    ("POST /leaderboards/{board}/scores", "a player's first"): (201, 4, 3.5),
    ("POST /leaderboards/{board}/scores", "the same again"): (200, 2, 3),
    ("stream", "a new player"): (0, 1, 1.5),
    ("POST /leaderboards/{board}/scores", "a gain"): (201, 5, 2),
    ("stream", "a small gain"): (0, 0, 0.5),
    ("POST /leaderboards/{board}/scores", "another player"): (201, 4, 3.5),
    ("POST /leaderboards/{board}/scores", "a first with its standing"): (201, 4, 4.5),
    ("POST /leaderboards/{board}/scores", "a gain with its standing"): (201, 5, 3.5),
    ("POST /leaderboards/{board}/scores", "the same again with its standing"): (200, 2, 6),
    ("GET /leaderboards/{board}", ""): (200, 0, 1),
    ("GET /leaderboards/{board}/players/{player}", "changed recently"): (200, 0, 2.5),
    ("GET /leaderboards/{board}/players/{player}", "consistent"): (200, 0, 4),
    ("GET /leaderboards/{board}/players/{player}/card.svg", ""): (200, 0, 2.5),
    ("GET /leaderboards/{board}/rank", ""): (200, 0, 3),
    ("GET /leaderboards/{board}/score", ""): (200, 0, 1.5),
    ("GET /leaderboards/{board}/standings", ""): (200, 0, 3),
    ("GET /leaderboards/{board}/players/{player}/activities", ""): (200, 0, 1),
    ("GET /leaderboards/{board}/entries", "the top"): (200, 0, 1),
    ("GET /leaderboards/{board}/entries", "the next page"): (200, 0, 2),
    ("GET /leaderboards/{board}/entries", "from a place"): (200, 0, 1.5),
    ("GET /leaderboards/{board}/entries", "around a player"): (200, 0, 3),
    ("GET /leaderboards/{board}/distribution", ""): (200, 0, 2.5),
    ("POST /leaderboards/{board}/scores", "with 500 bytes of metadata"): (201, 5, 2),
    ("GET /leaderboards/{board}/entries", "of three with metadata"): (200, 0, 2.5),
    ("POST /leaderboards/{board}/seasons", ""): (201, 4, 1),
    ("DELETE /leaderboards/{board}/players/{player}", "of two seasons"): (204, 3, 1.5),
    ("stream", "a removed player"): (0, 2, 1),
}
"""The status, WCU and RCU of each case; a handler without an answer has status 0."""


def story(site: Deployed) -> Iterator[Invocation]:
    """Rank two players on a board of sums, and end its season."""
    board, ann = {"board": "points"}, {"board": "points", "player": "ann"}

    def score(sub: str, id: str, value: int, name: str, **query: str) -> Invocation:
        return submit_score(site, "points", sub, id, value, name, **query)

    definition = {"title": "Points", "operator": "increment"}
    put = site.rest("PUT /leaderboards/{board}", "a new one", path=board, body=definition, sub="admin")
    yield put
    yield put._replace(name="the same again")
    changed = definition | {"title": "All points"}
    yield site.rest("PUT /leaderboards/{board}", "another title", path=board, body=changed, sub="admin")
    yield score("ann", "1", 500, "a player's first")
    yield score("ann", "1", 500, "the same again")
    yield site.delivery("a new player")
    yield score("ann", "2", 10, "a gain")
    yield site.delivery("a small gain")
    yield score("bob", "1", 700, "another player")
    site.drain()
    yield score("eve", "1", 600, "a first with its standing", standing="true")
    site.drain()
    yield score("eve", "2", 10, "a gain with its standing", standing="true")
    with mock.patch.object(app, "datetime") as clock:  # in the same second, the reads are not repeated
        clock.now.side_effect = lambda zone: datetime.now(zone) + timedelta(seconds=2)
        yield score("eve", "2", 10, "the same again with its standing", standing="true")
    site.drain()
    yield site.rest("GET /leaderboards/{board}", "", path=board)
    route = "/leaderboards/{board}/players/{player}"
    yield site.rest(f"GET {route}", "changed recently", path=ann)
    yield site.rest(f"GET {route}", "consistent", path=ann, query={"consistent": "true"})
    yield site.rest(f"GET {route}/card.svg", "", path=ann)
    yield site.rest("GET /leaderboards/{board}/rank", "", path=board, query={"score": "600"})
    yield site.rest("GET /leaderboards/{board}/score", "", path=board, query={"percentile": "50"})
    yield site.rest("GET /leaderboards/{board}/standings", "", path=board, query={"players": "ann,bob"})
    yield site.rest("GET /leaderboards/{board}/players/{player}/activities", "", path=ann, sub="ann")
    yield site.rest(f"GET {ENTRIES}", "the top", path=board)
    first = site.rest(f"GET {ENTRIES}", "the top, one a page", path=board, query={"limit": "1"})
    cursor = json.loads(first.run()["body"])["cursor"]
    yield site.rest(f"GET {ENTRIES}", "the next page", path=board, query={"limit": "1", "cursor": cursor})
    yield site.rest(f"GET {ENTRIES}", "from a place", path=board, query={"place": "2"})
    yield site.rest(f"GET {ENTRIES}", "around a player", path=board, query={"around": "ann"})
    yield site.rest("GET /leaderboards/{board}/distribution", "", path=board)
    takes = {**changed, "metadata": True}
    site.rest("PUT /leaderboards/{board}", "metadata", path=board, body=takes, sub="admin").run()
    body = {"id": "3", "value": 5, "metadata": {"replay": "x" * 487}}
    scores, case = "POST /leaderboards/{board}/scores", "with 500 bytes of metadata"
    yield site.rest(scores, case, path=board, body=body, sub="ann")
    site.drain()
    yield site.rest(f"GET {ENTRIES}", "of three with metadata", path=board)
    end = {"season": 1}
    yield site.rest("POST /leaderboards/{board}/seasons", "", path=board, body=end, sub="admin")
    yield site.rest(f"DELETE {route}", "of two seasons", path=ann, sub="ann")
    yield site.delivery("a removed player")
