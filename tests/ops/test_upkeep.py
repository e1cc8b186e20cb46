"""Backfill and audit are exact under concurrent writes, edits and deletes, on both engines."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from click.testing import CliRunner

import app
from chalicelib import ulids
from chalicelib.api.auth import Caller
from chalicelib.comments import comments
from chalicelib.comments import pages as comment_pages
from chalicelib.comments.schemas import CommentBody, CommentPatch, CommentsQuery
from chalicelib.dynamo.items import Item, Key
from chalicelib.dynamo.table import Table
from chalicelib.errors import Conflict, NotFound
from chalicelib.settings import Settings
from chalicelib.views import events as views
from chalicelib.views.events import View
from local.engines.engine import ROOT
from ops.cli.main import main
from ops.maintenance import audit as audits
from ops.maintenance import backfill, streams
from ops.maintenance import scan as segments
from proof.world import Killed
from tests.conftest import EngineTable
from tests.support.faults import instead
from tests.support.live import FEATURES, Live, following
from tests.support.records import drift, scan
from tests.support.running import ENVIRONMENT, until

PRODUCTS = ("a", "b", "c")
START = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def live(engine_table: EngineTable) -> Live:
    return Live(engine_table)


def older(number: int, **fields: Any) -> Item:
    """A comment as it was before there were sums: without a stamp, a place in gsi2, an author's item."""
    body = CommentBody(rating=number % 5 + 1, language=("en", "de")[number % 2], text=f"no. {number}")
    id = ulids.new(START + timedelta(seconds=number))
    item = comments.build_item(PRODUCTS[number % 3], id, f"older-{number}", body)
    return {
        name: value for name, value in item.items() if name not in ("counted", "gsi2pk", "revision")
    } | fields


class Traffic:
    """Somebody who posts, edits, hides, shows and deletes comments, also older ones, until told to stop."""

    def __init__(self, table: Table, older: list[Item], number: int, product: str = "") -> None:
        self._table, self._chance, self._product = table, random.Random(number), product
        self._known = [(comments.product_of(item), comments.id_of(item), item["author"]) for item in older]
        self._number = number
        self.done = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.failed: list[BaseException] = []

    def __enter__(self) -> Traffic:
        self._thread.start()
        until(lambda: self.done > 1 or self.failed, "traffic")
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        assert not self.failed, self.failed

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                self._act()
                self.done += 1
        except BaseException as error:
            self.failed.append(error)

    def _act(self) -> None:
        chance, now = self._chance, datetime.now(UTC)
        product, id, author = chance.choice(self._known) if self._known else ("", "", "")
        what = chance.choice(["post", "edit", "edit", "delete", "hide"]) if self._known else "post"
        edit = CommentPatch(rating=chance.randint(1, 5), language=chance.choice(["en", "de", "fr"]))
        try:
            if what == "post":
                author = f"writer-{self._number}-{self.done}"
                body = CommentBody(rating=chance.randint(1, 5), language="en", text="new")
                product = self._product or chance.choice(PRODUCTS)
                made = comments.post(self._table, product, body, Caller(author), None, now).body
                self._known.append((product, made.id, author))
            elif what == "edit":
                comments.patch(self._table, product, id, edit, Caller(author), None, now)
            elif what == "delete":
                comments.delete(self._table, product, id, Caller(author))
                self._known.remove((product, id, author))
            else:
                for hidden in (True, False):
                    body_ = CommentPatch(hidden=hidden)
                    comments.patch(self._table, product, id, body_, Caller("a", admin=True), None, now)
        except (NotFound, Conflict):
            pass


# -- backfill ------------------------------------------------------------------------------------------


def test_a_backfill_under_live_traffic_counts_each_comment_once(live: Live) -> None:
    past = [older(i) for i in range(150)]
    live.table.batch_put(past)
    with live.applied():
        with Traffic(live.table, past, 1) as one, Traffic(live.table, past[::-1], 2) as two:
            before = one.done + two.done
            done = backfill.backfill(live.table, 3, 60, lambda _: None)
            assert one.done + two.done > before + 5
        assert (done.read > 150, 0 < done.touched <= 150, done.malformed) == (True, True, 0)
    found = live.comments()
    assert all("counted" in item and "gsi2pk" in item for item in found)
    assert drift(live.table, FEATURES) == {}
    assert sum(live.counted(product) for product in PRODUCTS) == len(found)
    assert backfill.backfill(live.table, 3, None, lambda _: None).touched == 0
    assert not live.table.query(backfill.PROGRESS_PK).items


@pytest.mark.parametrize("touches", [0, 7, 29])
def test_a_backfill_that_is_killed_goes_on_and_touches_nothing_twice(live: Live, touches: int) -> None:
    live.table.batch_put(older(i) for i in range(30))
    ready: list[Any] = [None] * touches
    with instead(live.table, "TransactWriteItems", *ready, Killed()), pytest.raises(Killed):
        backfill.backfill(live.table, 1, None, lambda _: None)
    stamped = {item["sk"] for item in live.comments() if "counted" in item}
    assert len(stamped) == touches
    live.drain()
    done = backfill.backfill(live.table, 4, None, lambda _: None)  # in one segment, as it began
    assert done.touched == 30 - touches
    live.drain()
    assert drift(live.table, FEATURES) == {}
    assert sum(live.counted(product) for product in PRODUCTS) == 30


def test_a_backfill_goes_on_after_the_pages_that_it_has_noted(
    live: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segments, "PAGE", 10)
    live.table.batch_put(older(i) for i in range(40))
    ready: list[Any] = [None] * 25
    with instead(live.table, "TransactWriteItems", *ready, Killed()), pytest.raises(Killed):
        backfill.backfill(live.table, 1, None, lambda _: None)
    [noted] = live.table.query(backfill.PROGRESS_PK, consistent=True).items
    assert (noted["read"], noted["over"]) == (20, False)
    assert noted["touched"] in (18, 19, 20)  # its own note may be among the items
    done = backfill.backfill(live.table, 1, None, lambda _: None)
    assert done.touched == noted["touched"] + 15  # 5 and more were touched, and not noted
    assert done.read < 20 + 40
    live.drain()
    assert sum(live.counted(product) for product in PRODUCTS) == 40


def test_a_backfill_respects_its_rate(live: Live) -> None:
    live.table.batch_put(older(i) for i in range(25))
    begin = time.monotonic()
    backfill.backfill(live.table, 5, 50, lambda _: None)
    assert time.monotonic() - begin >= 24 / 50


def test_a_malformed_comment_is_reported_and_an_unusual_one_is_corrected(live: Live) -> None:
    odd = [
        older(0, rating=9),
        older(1, language="no tag"),
        older(2, text=None),
        older(3) | {"sk": "COMMENT#x"},
        older(4, author="a#b"),
    ]
    other = older(5, language="EN-gb")
    twice = [older(6, author="older-6"), older(9, author="older-6")]
    live.table.batch_put([*odd, other, *twice])
    done = backfill.backfill(live.table, 2, None, lambda _: None)
    assert (done.touched, done.malformed) == (3, 5)
    live.drain()
    assert drift(live.table, FEATURES) == {}
    page = comment_pages.list_comments(live.table, "a", CommentsQuery(), Settings(), Caller())
    assert len(page.items) == 3  # one with a bad rating, and two good ones: what has no time is left out
    mended = live.table.get(Key(other["pk"], other["sk"]), consistent=True) or {}
    assert (mended["language"], mended["counted"]) == ("en-GB", 1)
    assert live.counted("a") == 2
    for item in twice:  # both are its author's, and one author's item stands for either
        comments.delete(live.table, "a", comments.id_of(item), Caller("older-6"))
    live.drain()
    assert live.counted("a") == 0
    assert live.table.get(comments.author_key("a", "older-6"), consistent=True) is None


def test_an_older_comment_that_is_edited_enters_the_sums_and_takes_its_authors_place(live: Live) -> None:
    item, me = older(3), Caller("older-3")
    live.table.batch_put([item])
    now, part = datetime.now(UTC), CommentPatch(rating=1)
    comments.patch(live.table, "a", comments.id_of(item), part, me, None, now)
    with pytest.raises(Conflict):
        comments.post(live.table, "a", CommentBody(rating=5, language="en", text=""), me, None, now)
    assert backfill.backfill(live.table, 1, None, lambda _: None).touched == 0
    live.drain()
    assert live.counted("a") == 1
    assert drift(live.table, FEATURES) == {}


def test_the_command_may_be_killed_and_run_again(live: Live) -> None:
    live.table.batch_put(older(i) for i in range(120))
    environment = ENVIRONMENT | {"HUBBUB_ENDPOINT": live.engine.endpoint, "HUBBUB_TABLE": live.table.name}
    command = [sys.executable, "-m", "ops", "backfill", "comments", "--json"]
    with subprocess.Popen([*command, "--rate", "40"], cwd=ROOT, env=environment) as process:
        until(lambda: sum("counted" in item for item in live.comments()) > 10, "some are touched")
        process.kill()
    assert 10 < sum("counted" in item for item in live.comments()) < 120
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["malformed"] == 0
    live.drain()
    assert sum(live.counted(product) for product in PRODUCTS) == 120
    assert drift(live.table, FEATURES) == {}


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
    with_stamp = [
        older(i, **comments.counted_attributes(PRODUCTS[i % 3], ("en", "de")[i % 2], i % 5 + 1))
        for i in range(30)
    ]
    live.table.batch_put(with_stamp)
    seen = [
        View("https://example.org/a", datetime.now(UTC) - timedelta(minutes=i), f"c{i % 3}") for i in range(9)
    ]
    views.write(live.table, seen, Settings(), datetime.now(UTC))
    live.drain()
    assert drift(live.table, FEATURES) == {}
    total, page = comments.statistics_key("a"), views.page_key("https://example.org/a")
    gone, left = comments.statistics_key("b", "en"), comments.statistics_key("nobody", "fr")
    live.table.update(total, "ADD count_5 :n, gsi1sk :n", values={":n": 3})
    live.table.update(total, "ADD count_total :n", values={":n": -1})
    live.table.update(left, "ADD count_1 :n", values={":n": 2})
    live.table.update(page, "ADD gsi1sk :n", values={":n": -2})
    counts = [name for name in live.table.get(gone) or {} if name.startswith(("count", "gsi1"))]
    live.table.update(gone, f"REMOVE {', '.join(counts)}")  # not the tags: the stream delivers again
    wrong: dict[tuple[Key, str], tuple[Any, Any]] = dict(drift(live.table, FEATURES))
    assert {at[0] for at in wrong} == {total, gone, left, page}
    return wrong


def test_an_audit_without_drift_makes_one_pass(live: Live) -> None:
    live.table.batch_put(older(i) for i in range(5))
    pauses: list[float] = []
    found = looked_at(live, pause=pauses.append)
    assert (found.drifted, found.unsettled, found.items, pauses) == ({}, {}, 5, [])


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


def test_changes_that_the_stream_has_not_applied_are_not_drift(live: Live) -> None:
    plant(live)
    looked_at(live, mend=True)
    body = CommentBody(rating=5, language="en", text="new")
    comments.post(live.table, "a", body, Caller("late"), None, datetime.now(UTC))
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
        made = comments.post(live.table, "a", body, Caller("me"), None, datetime.now(UTC)).body
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
        made = comments.post(live.table, "a", body, me, None, datetime.now(UTC)).body
        live.drain()
        comments.delete(live.table, "a", made.id, me)

    post()
    found = looked_at(live, mend=True, pause=post)
    assert (found.drifted, found.corrected) == ({}, 0)
    assert (comments.statistics_key("a"), "count_5") in found.unsettled
    live.drain()
    assert drift(live.table, FEATURES) == {}


class Empties:
    """A client of a stream that answers some empty pages before each page with records, as AWS may."""

    def __init__(self, streams: Any, pages: int) -> None:
        self._streams, self._pages = streams, pages
        self._held: dict[str, tuple[int, Any]] = {}  # by iterator: empty pages to come, and what follows
        self.inserted = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._streams, name)

    def get_records(self, ShardIterator: str, **asked: Any) -> Any:  # noqa: N803
        left, answer = self._held.get(ShardIterator, (self._pages, None))
        if answer is None:
            answer = self._streams.get_records(ShardIterator=ShardIterator, **asked)
            if not answer["Records"]:
                return answer
        if left:
            self.inserted += 1
            self._held[ShardIterator] = left - 1, answer
            return answer | {"Records": [], "NextShardIterator": ShardIterator}
        return answer


def test_empty_pages_hide_nothing_from_an_audit_and_a_repair_writes_no_wrong_difference(live: Live) -> None:
    """Before each look a comment is counted and deleted; the stream tells of it behind empty pages."""
    body, me = CommentBody(rating=5, language="en", text=""), Caller("me")
    hiding = Empties(live.engine.client("dynamodbstreams"), 3)

    def post(_: float = 0) -> None:
        live.drain()
        made = comments.post(live.table, "a", body, me, None, datetime.now(UTC)).body
        live.drain()
        comments.delete(live.table, "a", made.id, me)

    post()
    follow = following(hiding, live.follow()._arn)
    found = audits.audit(live.table, FEATURES, follow, 1, lambda _: None, post)
    audits.repair(live.table, found)
    assert hiding.inserted > 3
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


def test_a_sum_that_is_still_being_made_is_no_drift(live: Live) -> None:
    """The stream lags for longer than the audit waits; what it adds meanwhile tells."""
    live.table.batch_put(
        older(i, **comments.counted_attributes(PRODUCTS[0], ("en", "de")[i % 2], i % 5 + 1)) for i in range(4)
    )
    total = comments.statistics_key("a")

    def add(_: float) -> None:
        live.table.update(total, "ADD count_total :n", values={":n": 1})

    found = looked_at(live, pause=add)
    assert (total, "count_total") in found.unsettled


@pytest.mark.long
def test_a_repair_under_live_traffic_corrects_only_unchanged_aggregates(live: Live) -> None:
    wrong = plant(live)
    busy = {at for at in wrong if at[0].pk == "PRODUCT#a"}
    with live.applied(), Traffic(live.table, [], 1, "a") as one:

        def pause(_: float) -> None:
            """Send traffic until the stream has added everything that was written before it began."""
            done, who = one.done, Caller(f"late-{one.done}")
            until(lambda: one.done > done + 3, "more traffic")
            body = CommentBody(rating=1, language="en", text="")
            last = comments.post(live.table, "c", body, who, None, START).body
            until(lambda: live.counted("c") == 11, "the post is counted")
            comments.delete(live.table, "c", last.id, who)
            until(lambda: live.counted("c") == 10, "the delete is counted")

        found = looked_at(live, mend=True, pause=pause)
    still = drift(live.table, FEATURES)
    assert still.keys() <= busy
    assert found.corrected >= len(wrong) - len(busy)
    assert {at: (is_ or 0) - (should or 0) for at, (is_, should) in still.items()} == {
        at: (wrong[at][0] or 0) - (wrong[at][1] or 0) for at in still
    }
    looked_at(live, mend=True)
    assert drift(live.table, FEATURES) == {}


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
    live.table.update(
        views.page_key("https://example.org/a"), "SET gsi1sk = :n REMOVE above", values={":n": 3}
    )
    assert looked_at(live, pause=lambda _: None).drifted == {
        (views.page_key("https://example.org/a"), "above"): (3, 5)
    }


def test_the_command_fails_until_drift_is_corrected(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HUBBUB_ENDPOINT", live.engine.endpoint)
    monkeypatch.setenv("HUBBUB_TABLE", live.table.name)
    monkeypatch.setattr(streams, "EMPTY_SECONDS", 0.1)
    wrong = plant(live)
    live.table.put(older(99, counted=7))  # malformed: no such version

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
    live.table.update(comments.statistics_key("a"), "ADD count_1 :n", values={":n": 1})
    code, found = run("audit", "--repair")
    assert (code, len(found["drift"]), found["mended"]) == (0, 1, 1)
    said = CliRunner().invoke(main, ["audit", "--settle", "0"])
    assert "0 sums drifted" in said.stdout
    assert CliRunner().invoke(main, ["backfill", "views"]).exit_code == 2
    assert CliRunner().invoke(main, ["backfill", "comments", "--segments", "0"]).exit_code == 2
