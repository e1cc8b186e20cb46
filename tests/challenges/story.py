"""Every operation of challenges in each of its cases, and what it costs."""

from __future__ import annotations

from collections.abc import Iterator

from tests.support.deployed import Deployed, Invocation
from tests.support.operations import PATHS, SUBMIT

COSTS = {
    ("PUT /challenges/{challenge}", "a new one"): (201, 2, 1),
    ("PUT /challenges/{challenge}", "the same again"): (200, 0, 1),
    ("PUT /challenges/{challenge}", "replaced"): (200, 1, 1),
    ("GET /challenges/{challenge}", ""): (200, 0, 0.5),
    ("POST /challenges/{challenge}/paths", "a player's first"): (201, 5, 4),
    ("POST /challenges/{challenge}/paths", "another"): (201, 5, 4),
    ("POST /challenges/{challenge}/paths", "found before"): (200, 1, 4),
    ("POST /challenges/{challenge}/paths", "wrong"): (422, 2, 3),
    ("stream", "two paths that nobody has found before"): (0, 3, 0.5),
    ("stream", "a path that another player has found"): (0, 1, 0.5),
    ("GET /challenges/{challenge}/players/{player}", ""): (200, 0, 2),
    ("GET /challenges/{challenge}/statistics", ""): (200, 0, 1),
    ("GET /challenges/{challenge}/leaders", "not ranked"): (200, 0, 0.5),
    ("stream", "a path of a ranked challenge"): (0, 4, 3.5),
    ("GET /challenges/{challenge}/leaders", ""): (200, 0, 1.5),
    ("GET /challenges", "two"): (200, 0, 1.5),
    ("DELETE /challenges/{challenge}/players/{player}/paths/{path}", ""): (204, 4, 3),
    ("DELETE /challenges/{challenge}/players/{player}", "with one path"): (204, 4, 2),
    ("stream", "withdrawn paths"): (0, 4, 1),
}
"""The status, WCU and RCU of each case; a handler without an answer has status 0."""


def story(site: Deployed) -> Iterator[Invocation]:
    """Play a challenge, and withdraw a player."""
    hunt = {"challenge": "hunt"}
    body = {"title": "Hunt", "paths": [f"door {i}" for i in range(PATHS)], "limit": PATHS}

    def submit(path: str, name: str) -> Invocation:
        return site.rest(f"POST {SUBMIT}", name, path=hunt, body={"path": path}, sub="ann")

    put = site.rest("PUT /challenges/{challenge}", "a new one", path=hunt, body=body, sub="admin")
    yield put
    yield put._replace(name="the same again")
    other = body | {"title": "Great hunt"}
    yield site.rest("PUT /challenges/{challenge}", "replaced", path=hunt, body=other, sub="admin")
    yield site.rest("GET /challenges/{challenge}", "", path=hunt)
    yield submit("door 0", "a player's first")
    yield submit("door 1", "another")
    yield submit("door 1", "found before")
    yield submit("window", "wrong")
    yield site.delivery("two paths that nobody has found before")
    site.rest(f"POST {SUBMIT}", path=hunt, body={"path": "door 0"}, sub="bob").run()
    yield site.delivery("a path that another player has found")
    ann = hunt | {"player": "ann"}
    route = "/challenges/{challenge}/players/{player}"
    yield site.rest(f"GET {route}", "", path=ann, sub="ann")
    yield site.rest("GET /challenges/{challenge}/statistics", "", path=hunt)
    yield site.rest("GET /challenges/{challenge}/leaders", "not ranked", path=hunt)
    ranked = {"challenge": "ranked"}
    ranked_body = body | {"ranked": True}
    site.rest("PUT /challenges/{challenge}", "", path=ranked, body=ranked_body, sub="admin").run()
    site.rest(f"POST {SUBMIT}", path=ranked, body={"path": "door 0"}, sub="ann").run()
    yield site.delivery("a path of a ranked challenge")
    yield site.rest("GET /challenges/{challenge}/leaders", "", path=ranked)
    yield site.rest("GET /challenges", "two", sub="admin")
    found_path = "/challenges/{challenge}/players/{player}/paths/{path}"
    yield site.rest(f"DELETE {found_path}", "", path=ann | {"path": "door 1"}, sub="admin")
    yield site.rest(f"DELETE {route}", "with one path", path=ann, sub="admin")
    yield site.delivery("withdrawn paths")
