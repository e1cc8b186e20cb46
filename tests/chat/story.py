"""Every operation of the chat in each of its cases, and what it costs."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from chalicelib.dynamo.items import Range
from local.filters import filtered
from tests.support.deployed import Deployed, Invocation
from tests.support.operations import PAGE, SCHEDULED, recent_hour

COSTS = {
    ("socket $connect", "nobody waits"): (200, 5, 1.5),
    ("socket status", "while waiting"): (200, 1, 3),
    ("socket $connect", "a match"): (200, 15, 2.5),
    ("socket status", "with a notice"): (200, 3, 2),
    ("socket message", "the first of a pair"): (200, 2, 1),
    ("socket message", ""): (200, 1, 0),
    ("socket received", ""): (200, 1, 0),
    ("socket check", ""): (200, 1, 1),
    ("socket typing", ""): (200, 1, 0),
    ("socket ping", ""): (200, 1, 0),
    ("socket resume", ""): (200, 2, 0),
    ("socket subscribe", ""): (200, 7, 1),
    ("push", "a changed page, one subscriber"): (0, 1, 3),
    ("socket unsubscribe", ""): (200, 4, 0),
    ("socket find", "of a pair"): (200, 1, 0),
    ("socket next", "nobody else waits"): (200, 13, 5),
    ("socket $connect", "a match, one waits on"): (200, 15, 2.5),
    ("socket report", ""): (200, 30, 8),
    ("socket leave", "of a pair, one waits beside"): (200, 23, 6),
    ("sweep", "three connections"): (0, 0, 2.5),
    ("socket report", "of the last partner"): (200, 8, 2),
    ("socket $disconnect", "a"): (200, 9, 3),
    ("socket $disconnect", "b"): (200, 3, 1),
    ("socket $disconnect", "c"): (200, 3, 1),
    ("GET /leaderboards", ""): (200, 0, 1),
    ("GET /chat/reports", ""): (200, 0, 0.5),
    ("POST /chat/reports/{id}", "ban"): (204, 3, 1.5),
}
"""The status, WCU and RCU of each case; a handler without an answer has status 0."""


def story(site: Deployed) -> Iterator[Invocation]:
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
    later = recent_hour(1)  # another hour of the day on which the visitor came first
    view = {"url": PAGE, "time": later.isoformat(), "clientId": "visitor-000"}
    site.rest("POST /views", "", body=view).run()
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
    yield site.rest("GET /leaderboards", "", sub="admin")
    yield site.rest("GET /chat/reports", "", sub="admin")
    report, *_ = site.table.query(Range("REPORTS")).items
    path = {"id": report["sk"].replace("#", "~")}
    yield site.rest("POST /chat/reports/{id}", "ban", path=path, body={"action": "ban"}, sub="admin")
