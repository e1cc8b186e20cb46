"""Items of every kind as this version writes them, and its responses to read requests.

`python -m tests.support.shapes tests/data/shapes-0.1.0` writes them to files, once for each released version.
The files never change, because later versions must be able to read them (docs/upgrading.md).
"""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from unittest import mock

# isort: off
import tests.conftest  # noqa: F401 (first: an environment in which nothing reaches AWS)
import app

# isort: on
from bench.chat import OurChat
from chalicelib import settings
from chalicelib.aggregates import lag, legacy, quarantine
from chalicelib.api import auth, rates
from chalicelib.api.auth import Caller
from chalicelib.challenges import submissions
from chalicelib.chat import bans, handlers, reports
from chalicelib.comments import comments, replies, votes
from chalicelib.comments.schemas import CommentPatch, ReplyBody
from chalicelib.dynamo.items import Item, Key
from chalicelib.guests import guests
from chalicelib.guests.schemas import GuestBody
from chalicelib.leaderboards import boards, scores
from chalicelib.leaderboards.schemas import ScoreBody, SeasonBody
from chalicelib.ranking import deepening, tree
from chalicelib.views import events
from chalicelib.views.events import View
from local.engines.engine import start
from ops.imports import access_log
from ops.maintenance import export
from ops.maintenance import scan as segments
from tests.ops.test_erase import PAGE, plant
from tests.support.live import Live
from tests.support.records import scan
from tests.support.tables import table_on

FOREVER = 4_102_444_800  # so that no reader takes an item for one that has expired
ADMIN = Caller("admin", admin=True)


def make(live: Live) -> None:
    """Write items of every kind."""
    now, table = datetime.now(UTC), live.table
    legacy.start_tags(table)
    plant(table)
    for number, value in enumerate((90, 250, 999)):
        body = ScoreBody(id="1", value=Decimal(value))
        scores.submit(table, "kart", body, Caller(f"driver-{number}"), now)
    boards.end_season(table, "golf", SeasonBody(season=1), now + timedelta(seconds=1))
    submissions.submit(table, "hunt", "ben", "c", now)
    [shoe] = [item for item in scan(table) if item["pk"] == "PRODUCT#shoe-1" and item.get("author") == "ben"]
    patch = CommentPatch(rating=2, language="pt-BR", text="edited")
    comments.patch(table, "shoe-1", shoe["sk"].split("#")[1], patch, Caller("ben"), None, now)
    us = OurChat(table)
    for id in ("a", "b", "c", "d", "e"):
        us.connect(id)
        us.say(id, '{"action": "status"}')
    us.say("a", '{"action": "message", "text": "hello"}')
    topic = json.dumps({"action": "subscribe", "topic": f"views:{PAGE}"})
    handlers.receive_frame(table, us.posts, app.TOPICS, _frame("b", topic), now, settings.current())
    us.say("c", '{"action": "report", "reason": "spam", "messages": [{"mine": true, "text": "no"}]}')
    table.put(quarantine.build_item(b"x" * 12, 1, quarantine.Poison({"pk": {"S": "PLAYER#x"}}, 1, "no"), 1))
    table.put(segments.Segment(0, 2, {"pk": "a", "sk": "b"}).item("BACKFILL#comments"))
    lag.measure_lag(table, lambda: now, pause=lambda seconds: None)
    make_newer(live, shoe, now)
    live.drain()


def make_newer(live: Live, shoe: Item, now: datetime) -> None:
    """Write items of the kinds that came after 0.1.0. `shoe` is a comment."""
    table, stage, address = live.table, settings.current(), "203.0.113.7"
    guests.sign_in(table, GuestBody(name="Cleo"), address, stage, now)
    rates.take(table, reports.bucket_key(stage, address), reports.LIMIT, now)
    bans.ban(table, ["digest"], 1, now)
    viewers = [View(PAGE, now, f"client-{n}", "search.example", "spring") for n in range(60)]
    events.write(table, viewers, stage, now)  # more than a sum has tags, so some move to a guard page
    access_log.write(table, [View(PAGE, now - timedelta(days=1), "imported")], stage, now, b"key")
    live.drain()
    for round in range(scores.MAX_TAGS + 1):
        scores.submit(table, "kart", ScoreBody(id=f"{round}", value=Decimal(1)), Caller("cleo"), now)
    product, id = shoe["pk"].removeprefix("PRODUCT#"), shoe["sk"].split("#")[1]
    votes.cast(table, product, id, Caller("cleo"))
    reply = ReplyBody(text="So do I.", language="en")
    replies.post(table, product, id, reply, Caller("cleo"), "key-1", now)
    score = table.get(scores.score_key("kart", 1, "ben"), consistent=True) or {}
    with mock.patch.object(tree, "LIMIT", 1):
        deepening.follow(table, [scores.rank], [(Key(score["pk"], score["sk"]), {}, score)], now)


def _frame(id: str, body: str) -> dict[str, Any]:
    return {"requestContext": {"connectionId": id, "apiId": "local", "stage": "local"}, "body": body}


def items(live: Live) -> list[Item]:
    """Return every item in the order of the keys. A TTL is far in the future, except in pages and sites."""
    lasting = {"ttl": FOREVER}
    found = [
        item | (lasting if "ttl" in item and not item["pk"].startswith(("URL#", "SITE#")) else {})
        for item in scan(live.table)
    ]
    return sorted(found, key=lambda item: Key(item["pk"], item["sk"]))


def questions() -> list[str]:
    """Return every kind of read request whose response does not depend on the clock."""
    today = datetime.now(UTC).date()
    frame = f"from={today}&to={today + timedelta(days=1)}"
    return [
        f"/views?url={PAGE}",
        f"/views/series?url={PAGE}&interval=day&{frame}",
        f"/views/events?url={PAGE}",
        "/views/top?site=example.org",
        f"/views/site?site=example.org&interval=day&{frame}",
        f"/views/referrers?site=example.org&{frame}",
        f"/views/campaigns?site=example.org&{frame}",
        "/sites",
        "/leaderboards/kart",
        "/leaderboards/kart/players/ben",
        "/leaderboards/kart/entries",
        "/leaderboards/kart/entries?around=anna",
        "/leaderboards/kart/distribution",
        "/leaderboards/kart/players/ben/activities",
        "/leaderboards/golf",
        "/leaderboards/golf?season=1",
        "/leaderboards/golf/entries?season=1",
        "/challenges/hunt",
        "/challenges/hunt/statistics",
        "/challenges/hunt/players/ben",
        "/challenges/hunt/leaders",
        "/challenges/quiz/statistics",
        "/products/shoe-1/comments",
        "/products/shoe-1/comments?rating=2,5&language=pt-BR",
        "/products/shoe-1/statistics",
        "/products/leaders",
        "/products",
        "/comments",
        "/replies",
        "/chat/reports",
    ]


def ask(http: Any, question: str) -> Any:
    """Send a read request as an admin."""
    token = auth.mint(settings.current(), "admin-1", scope="admin")
    answer = http.request("GET", question, headers={"Authorization": f"Bearer {token}"}, body=b"")
    return {"status": answer.status_code, "answer": json.loads(answer.body)}


def main(place: Path) -> None:
    """Write the items and the responses of this version to files."""
    from chalice.test import Client

    if Path(f"{place}.jsonl").exists():
        raise SystemExit(f"{place}.jsonl exists and must not change")
    with start("ministack", data=None) as engine, table_on(engine) as made:
        live = Live((engine, made.name, made.stream_arn), app.CONTRIBUTIONS)
        make(live)
        with mock.patch.object(app, "connect", return_value=live.table), Client(app.app) as client:
            answers = {question: ask(client.http, question) for question in questions()}
        lines = "".join(map(export.format_line, items(live)))
    Path(f"{place}.jsonl").write_text(lines, encoding="utf-8")
    Path(f"{place}.json").write_text(
        json.dumps(answers, indent=1, ensure_ascii=False) + "\n", encoding="utf-8"
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
