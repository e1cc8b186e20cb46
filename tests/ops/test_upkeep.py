"""Audit and repair are exact under concurrent writes, edits and deletes."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from click.testing import CliRunner

import app
from chalicelib import ulids
from chalicelib.api.auth import Caller
from chalicelib.comments import comments, counters, votes
from chalicelib.comments.schemas import CommentBody
from chalicelib.dynamo.items import Item, Key
from chalicelib.leaderboards import boards, scores, standings
from chalicelib.leaderboards.schemas import BoardBody, ScoreBody, StandingQuery
from chalicelib.ranking import tree
from chalicelib.ranking.ranking import collect_nodes, node_key
from chalicelib.views import events as views
from chalicelib.views.events import View
from ops.cli.main import main
from ops.maintenance import audit as audits
from ops.maintenance import streams
from tests.conftest import EngineTable
from tests.histories.world import Killed
from tests.support.contexts import new_context
from tests.support.faults import instead
from tests.support.live import FEATURES, Live
from tests.support.records import Reader, drift, scan

PRODUCTS = ("a", "b", "c")
START = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def live(engine_table: EngineTable) -> Live:
    return Live(engine_table)


def comment(number: int) -> Item:
    """Return a comment as it is stored."""
    body = CommentBody(rating=number % 5 + 1, language=("en", "de")[number % 2], text=f"no. {number}")
    id = ulids.new(START + timedelta(seconds=number))
    return comments.build_item(PRODUCTS[number % 3], id, f"author-{number}", body)


# -- audit ---------------------------------------------------------------------------------------------


def looked_at(
    live: Live, *, mend: bool = False, pause: Callable[[float], None] | None = None
) -> audits.AuditResult:
    found = audits.audit(live.table, FEATURES, live.follow(), 1, lambda _: None, pause or live.drain)
    if mend:
        audits.repair(live.table, found, app.DERIVATIONS)
    return found


def plant(live: Live) -> dict[tuple[Key, str], tuple[Any, Any]]:
    """Count some comments and views, then put some sums wrong; answer which."""
    live.table.batch_put(comment(i) for i in range(30))
    seen = [
        View("https://example.org/a", datetime.now(UTC) - timedelta(minutes=i), f"c{i % 3}")
        for i in range(10)
    ]
    views.write(new_context(live.table), seen)
    live.drain()
    assert drift(live.table, FEATURES) == {}
    total, page = comments.statistics_key("a"), views.page_key("https://example.org/a")
    gone, left = comments.statistics_key("b", "en"), comments.statistics_key("nobody", "fr")
    live.table.update(total, "ADD count_5 :n, gsi1sk :n", values={":n": 3})
    live.table.update(total, "ADD count_total :n", values={":n": -1})
    live.table.update(left, "ADD count_1 :n", values={":n": 2})
    live.table.update(page, "ADD #views :n", names={"#views": "views"}, values={":n": -1})
    counts = [name for name in live.table.get(gone) or {} if name.startswith(("count", "gsi1"))]
    live.table.update(gone, f"REMOVE {', '.join(counts)}")  # not the tags: the stream delivers again
    wrong: dict[tuple[Key, str], tuple[Any, Any]] = dict(drift(live.table, FEATURES))
    assert {at[0] for at in wrong} == {total, gone, left, page}
    return wrong


def test_an_audit_without_drift_makes_one_pass(live: Live) -> None:
    live.table.batch_put(comment(i) for i in range(5))
    live.drain()
    pauses: list[float] = []
    found = looked_at(live, pause=pauses.append)
    assert (found.drifted, found.unsettled, found.items, pauses) == ({}, {}, len(scan(live.table)), [])


def test_an_audit_finds_drift_of_every_kind_and_a_repair_corrects_it(live: Live) -> None:
    wrong = plant(live)
    found = looked_at(live)
    assert (found.drifted, found.unsettled) == (wrong, {})
    assert drift(live.table, FEATURES) == wrong  # nothing is mended unasked
    found = looked_at(live, mend=True)
    assert (found.corrected, found.drifted, found.unsettled) == (len(wrong), {}, {})
    live.drain()
    assert drift(live.table, FEATURES) == {}
    assert looked_at(live, mend=True).corrected == 0


def test_what_is_left_of_a_deleted_comment_is_drift_until_a_repair_removes_it(live: Live) -> None:
    body, now = CommentBody(rating=5, language="en", text=""), datetime.now(UTC)
    id = comments.post(new_context(live.table, now), "a", body, Caller("me"), None).comment.id
    votes.cast(new_context(live.table, now), "a", id, Caller("reader"))
    live.drain()
    comments.delete(live.table, "a", id, Caller("me"))
    at = (counters.counters_key("a", id), audits.LEFT)
    assert at in drift(live.table, FEATURES)
    assert looked_at(live).drifted == {}  # the stream removes it meanwhile
    live.table.put(votes.vote_key("a", id, "reader")._asdict())  # as if the stream had lost it
    assert looked_at(live, pause=lambda _: None).drifted == {at: (1, 0)}
    found = looked_at(live, mend=True, pause=lambda _: None)
    assert (found.corrected, found.drifted, found.unsettled) == (1, {}, {})
    assert drift(live.table, FEATURES) == {}


def test_changes_that_the_stream_has_not_applied_are_not_drift(live: Live) -> None:
    plant(live)
    looked_at(live, mend=True)
    body = CommentBody(rating=5, language="en", text="new")
    comments.post(new_context(live.table), "a", body, Caller("late"), None)
    found = looked_at(live, mend=True)  # the second look comes when the stream has added it
    assert (found.drifted, found.unsettled, found.corrected) == ({}, {}, 0)
    assert drift(live.table, FEATURES) == {}


def test_equal_differences_of_other_items_are_no_drift(live: Live) -> None:
    """At each look one comment is not counted yet: each time another one."""
    seen: list[str] = []

    def post(_: float = 0) -> None:
        if seen:
            comments.delete(live.table, "a", seen[-1], Caller("me"))
        body = CommentBody(rating=5, language="en", text="")
        made = comments.post(new_context(live.table), "a", body, Caller("me"), None).comment
        seen.append(made.id)

    post()
    found = looked_at(live, pause=post)
    assert len(seen) == 1 + audits.MAX_PASSES
    assert found.drifted == {}
    assert (comments.statistics_key("a"), "count_5") in found.unsettled


def test_equal_differences_from_items_that_no_pass_sees_are_not_drift(live: Live) -> None:
    """Before each look a comment is counted and deleted: what it leaves behind is always the same."""
    body, me = CommentBody(rating=5, language="en", text=""), Caller("me")

    def post(_: float = 0) -> None:
        live.drain()
        made = comments.post(new_context(live.table), "a", body, me, None).comment
        live.drain()
        comments.delete(live.table, "a", made.id, me)

    post()
    found = looked_at(live, mend=True, pause=post)
    assert (found.drifted, found.corrected) == ({}, 0)
    assert (comments.statistics_key("a"), "count_5") in found.unsettled
    live.drain()
    assert drift(live.table, FEATURES) == {}


def test_a_difference_that_was_another_one_before_is_no_drift(live: Live) -> None:
    """Should the stream say nothing at all, a sum that moves between two looks is still left alone."""
    plant(live)
    total = comments.statistics_key("a")

    class Silent:
        def poll(self) -> list[Any]:
            return []

        records = poll

    def add(_: float) -> None:
        live.table.update(total, "ADD count_total :n", values={":n": 5})

    silent: Any = Silent()
    found = audits.audit(live.table, FEATURES, silent, 1, lambda _: None, add)
    assert (total, "count_total") in found.unsettled
    assert (comments.statistics_key("b", "en"), "count_total") in found.drifted


def test_a_sum_that_changes_before_its_correction_is_left_alone(live: Live) -> None:
    wrong = plant(live)
    found = looked_at(live)
    live.table.update(comments.statistics_key("a"), "ADD count_total :n", values={":n": 1})
    audits.repair(live.table, found)
    assert {at[0] for at in found.unsettled} == {comments.statistics_key("a")}
    assert found.corrected == sum(at[0] != comments.statistics_key("a") for at in wrong)


def test_an_interrupted_repair_that_is_run_again_corrects_once(live: Live) -> None:
    plant(live)
    found = looked_at(live)
    with instead(live.table, "TransactWriteItems", None, None, Killed()), pytest.raises(Killed):
        audits.repair(live.table, found, app.DERIVATIONS)
    audits.repair(live.table, looked_at(live), app.DERIVATIONS)
    assert drift(live.table, FEATURES) == {}


def test_views_that_expired_are_no_drift_and_views_that_were_lost_are(live: Live) -> None:
    plant(live)
    looked_at(live, mend=True)
    events = [item for item in scan(live.table) if item["sk"].startswith("T#")]
    live.drain()
    for item in events[:4]:
        live.table.delete(Key(item["pk"], item["sk"]))  # as TTL does: the stream's removals are not applied
    assert drift(live.table, FEATURES) != {}
    assert looked_at(live, pause=lambda _: None).drifted == {}
    page, names = views.page_key("https://example.org/a"), {"#views": "views"}
    live.table.update(page, "SET #views = :n", names=names, values={":n": 3})
    wrong = {(page, "views"): (3, 6), (page, "gsi1sk"): (9, 1)}
    assert looked_at(live, pause=lambda _: None).drifted == wrong


def test_the_command_fails_until_drift_is_corrected(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HUBBUB_ENDPOINT", live.engine.endpoint)
    monkeypatch.setenv("HUBBUB_TABLE", live.table.name)
    monkeypatch.setattr(streams, "EMPTY_SECONDS", 0.1)
    wrong = plant(live)
    live.table.put(comment(99) | {"rating": 7})  # malformed

    def run(*command: str) -> tuple[int, Any]:
        done = CliRunner().invoke(main, [*command, "--settle", "0", "--json"])
        return done.exit_code, json.loads(done.stdout)

    code, found = run("audit")
    assert (code, len(found["drift"]), found["mended"], found["malformed"]) == (1, len(wrong), 0, 1)
    assert {"pk": "PRODUCT#nobody", "sk": "S#fr", "attribute": "count_1", "is": 2, "should": None} in found[
        "drift"
    ]
    code, found = run("repair")
    assert (code, len(found["drift"]), found["mended"]) == (0, len(wrong), len(wrong))
    assert run("audit")[0] == 0
    said = CliRunner().invoke(main, ["audit", "--settle", "0"])
    assert "0 sums drifted" in said.stdout


# -- ranks ---------------------------------------------------------------------------------------------


class RankedBoard(Live):
    """A board whose stream is delivered once, as far as the test says."""

    def __init__(self, engine_table: EngineTable) -> None:
        super().__init__(engine_table, (scores.contribution,))
        self.reader = Reader(self.engine.client("dynamodbstreams"), engine_table[2])
        boards.define(new_context(self.table, START), "b", BoardBody(title="b", operator="set"))
        self.ranking = boards.find(new_context(self.table, START), "b").ranking

    def submit(self, *values: int) -> None:
        """Submit a value for a player each, and deliver the stream."""
        for value in values:
            body = ScoreBody(id=f"{value}", value=Decimal(value), player=f"p{value % 100}")
            scores.submit(new_context(self.table), "b", body, Caller("admin", admin=True))
        self.drain()

    def drain(self, *_: float) -> None:
        while records := self.reader.read():
            self.apply({"Records": records})

    def ranks(self) -> dict[int, int]:
        """Return the rank of each score, as its player's standing has it."""
        players = [item["pk"].removeprefix("PLAYER#") for item in scan(self.table) if "score" in item]
        query, now = StandingQuery(), datetime.now(UTC)
        found = [standings.get(new_context(self.table, now), "b", player, query) for player in players]
        return {int(row.score): row.rank for row in found}

    def audit(self) -> audits.AuditResult:
        return audits.audit(self.table, self.features, self.follow(), 1, lambda _: None, self.drain)


@pytest.fixture
def board(engine_table: EngineTable, monkeypatch: pytest.MonkeyPatch) -> RankedBoard:
    """A board whose buckets have at most four players."""
    monkeypatch.setattr(tree, "LIMIT", 4)
    return RankedBoard(engine_table)


def test_a_repair_re_stamps_the_players_that_a_full_node_lacks(board: RankedBoard) -> None:
    """The mark came without its condition, as it may after a batch that was lost."""
    board.submit(10, 30, 50)
    root, names, marks = node_key(board.ranking, ""), {"#full": "full"}, {":digits": {"51"}}
    board.table.update(root, "ADD #full :digits", names=names, values=marks)
    board.submit(1, 20, 40, 60, 80, 90, 99)
    ordered = [99, 90, 80, 60, 50, 40, 30, 20, 10, 1]
    right = {value: place for place, value in enumerate(ordered, 1)}
    assert board.ranks() != right
    found = board.audit()
    assert found.drifted == {(root, "full 51"): ("with shallow players", "without")}
    audits.repair(board.table, found)
    board.drain()
    assert board.ranks() == right
    tree.check(collect_nodes(board.ranking, scan(board.table)))
    assert board.audit().drifted == {}


def test_a_repair_drops_an_earlier_position_that_the_stream_has_passed(board: RankedBoard) -> None:
    """The record that would have told it was lost."""
    board.submit(60, 150, 250, 50, 299)
    key = scores.score_key("b", 1, "p50")
    position = [[board.ranking.number(251, "p50"), 1]]
    board.table.update(key, "SET #before = :was", names={"#before": "before"}, values={":was": position})
    board.reader.read()
    found = board.audit()
    assert found.drifted == {(key, "before"): (position, None)}
    audits.repair(board.table, found)
    assert board.ranks() == {299: 1, 60: 2, 50: 3}
