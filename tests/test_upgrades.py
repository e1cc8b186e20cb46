"""This version reads, counts and changes the items that earlier versions have written."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from chalice.test import Client

import app
from bench.deployed import OpenGateway
from chalicelib.api.auth import Caller
from chalicelib.challenges import submissions
from chalicelib.chat import matchmaker
from chalicelib.chat.gateway import ConnectionGateway
from chalicelib.comments import comments, pages
from chalicelib.comments.schemas import CommentPatch, CommentsQuery
from chalicelib.dynamo.items import Item
from chalicelib.errors import Busy
from chalicelib.leaderboards import boards, scores
from chalicelib.leaderboards import queries as board_queries
from chalicelib.leaderboards.schemas import ScoreBody, SeasonBody, StandingQuery
from chalicelib.settings import Settings
from chalicelib.views import events
from chalicelib.views.events import View
from local.engines.engine import Engine
from local.event_sources import StreamPump
from ops.maintenance import features, scan
from tests.conftest import EngineTable
from tests.ops.test_data import items
from tests.ops.test_erase import PAGE
from tests.support.live import Live
from tests.support.records import drift
from tests.support.shapes import ask
from tests.support.tables import table_on

ROOT = Path(__file__).parents[1]
SHAPES = sorted((ROOT / "tests" / "data").glob("shapes-*.jsonl"))
NOW = datetime.now(UTC)


class Older(Live):
    """A table of an earlier version. The stream no longer holds the changes that are in its sums."""

    def __init__(self, engine_table: EngineTable, shapes: Path) -> None:
        super().__init__(engine_table, app.CONTRIBUTIONS)
        self.answers = json.loads(shapes.with_suffix(".json").read_text())
        self._is_new = False
        engine, _, stream_arn = engine_table
        self._pump = StreamPump(engine.client("dynamodbstreams"), stream_arn, self._take, 100)
        self.table.batch_put(stored(shapes))
        self.drain()
        self._is_new = True

    def drain(self, *_: float) -> None:
        while self._pump.step():
            pass

    def _take(self, event: Any, _: object) -> None:
        if self._is_new:
            self.apply(event)


@pytest.fixture(params=SHAPES, ids=lambda path: path.stem)
def older(request: pytest.FixtureRequest, engine_table: EngineTable) -> Older:
    return Older(engine_table, request.param)


def stored(path: Path) -> list[Item]:
    return items(path.read_text())


def test_there_are_shapes_of_each_release() -> None:
    assert {"shapes-0.1.0", f"shapes-{app.VERSION}"} <= {path.stem for path in SHAPES}


@pytest.mark.parametrize("path", SHAPES, ids=lambda path: path.stem)
def test_shapes_have_every_kind_of_item(path: Path) -> None:
    rows = (ROOT / "docs" / "table.md").read_text().partition("## Items")[2].partition("## Access")[0]
    keys = re.findall(r"^\| ([^|]+) \| [^|`]*`([^`]+)`(?:, `[^`]+`)? \| `([^`]+)`", rows, re.MULTILINE)
    assert len(keys) > 20
    there = {(item["pk"], item["sk"]) for item in stored(path)}

    def pattern(key: str) -> str:
        return re.sub(r"<[^>]*>", ".+", re.escape(key).replace(r"\#", "#"))

    newer = path.with_suffix(".lacks")  # kinds that came after this version: pk and sk, a line each
    since = newer.read_text().splitlines() if newer.exists() else []
    for kind, pk, sk in keys:
        pk = pk.replace("RANK#<ranking>#<digits>", "RANK#<ranking>#")
        found = [one for one in there if re.match(pattern(pk), one[0]) and re.match(pattern(sk), one[1])]
        assert found or f"{pk} {sk}" in since, f"{path.name} has no {kind}: docs/upgrading.md"


def test_sums_and_responses_of_an_earlier_version_are_unchanged(
    older: Older, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert drift(older.table, app.CONTRIBUTIONS) == {}
    monkeypatch.setattr(app, "connect", lambda: older.table)
    with Client(app.app) as client:
        for question, answer in older.answers.items():
            assert without_new_fields(ask(client.http, question), answer) == answer, question


def without_new_fields(found: Any, earlier: Any) -> Any:
    """Return a response without the fields that an earlier version had not."""
    if isinstance(found, dict) and isinstance(earlier, dict):
        return {
            name: without_new_fields(value, earlier[name]) for name, value in found.items() if name in earlier
        }
    if isinstance(found, list) and isinstance(earlier, list) and len(found) == len(earlier):
        return [without_new_fields(*pair) for pair in zip(found, earlier, strict=True)]
    return found


def test_items_of_an_earlier_version_are_changed_and_the_sums_follow(older: Older) -> None:
    table, me = older.table, Caller("ben")
    scores.submit(table, "kart", ScoreBody(id="2", value=Decimal(90)), me, NOW)
    again = scores.submit(table, "kart", ScoreBody(id="1", value=Decimal(90)), me, NOW)
    assert (again.status, again.body.score) == (200, Decimal(97))  # the id counted in that version
    submissions.submit(table, "quiz", "ben", "c", NOW)
    assert submissions.submit(table, "hunt", "ben", "c", NOW).status == 200
    page = pages.list_comments(table, "shoe-1", CommentsQuery(), Settings(secret="x" * 32), me)
    for comment in page.items:
        patch = CommentPatch(rating=1)
        comments.patch(table, "shoe-1", comment.id, patch, Caller(comment.author), None, NOW)
    events.write(table, [View(PAGE, NOW, "somebody")], Settings(), NOW)
    boards.end_season(table, "kart", SeasonBody(season=1), NOW + timedelta(seconds=1))
    matchmaker.sweep(
        table,
        ConnectionGateway(lambda: OpenGateway()),
        Settings(),
        lambda: NOW + timedelta(hours=9),
        seconds=0,
    )
    older.drain()
    assert drift(table, app.CONTRIBUTIONS) == {}
    standing = board_queries.get_standing(table, "kart", "ben", StandingQuery(season=1), NOW)
    assert (standing.score, standing.rank) == (Decimal(97), 3)


def test_every_shape_is_of_a_feature_that_an_export_knows() -> None:
    for path in SHAPES:
        assert all(features.feature_of(item) for item in stored(path))
        assert scan.segment_key("BACKFILL#comments", 0).sk in path.read_text()


def test_a_table_without_a_newer_index_gives_503_only_where_it_is_needed(
    engine: Engine,
) -> None:
    with table_on(engine) as made:
        live = Live((engine, made.name, made.stream_arn), app.CONTRIBUTIONS)
        live.table.batch_put(stored(SHAPES[0]))
        drop: Any = [{"Delete": {"IndexName": "gsi2"}}]
        engine.client("dynamodb").update_table(TableName=made.name, GlobalSecondaryIndexUpdates=drop)
        someone, stage = Caller(), Settings(secret="x" * 32)
        page = pages.list_comments(live.table, "shoe-1", CommentsQuery(), stage, someone)
        assert len(page.items) == 2
        with pytest.raises(Busy, match="index"):
            live.table.query("PRODUCT#shoe-1#en#5", index="gsi2")
