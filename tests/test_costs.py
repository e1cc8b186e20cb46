"""The cost of a view and a comment with all their sums, and of the commands of `python -m ops`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

import app
from chalicelib.aggregates import engine as aggregates
from chalicelib.aggregates.sums import Amount
from chalicelib.api.auth import Caller
from chalicelib.comments import comments, pages, replies, votes
from chalicelib.comments.schemas import CommentBody, CommentsQuery, ReplyBody, ReplyPath
from chalicelib.dynamo.items import Item, Key
from chalicelib.dynamo.table import Table
from chalicelib.leaderboards import boards, scores
from chalicelib.leaderboards.schemas import BoardBody
from chalicelib.leaderboards.scores import Submission
from chalicelib.settings import Settings
from chalicelib.views import events as views
from chalicelib.views.events import View
from local.engines.engine import Engine
from local.event_sources import StreamPump
from ops.imports import access_log
from ops.imports import comments as import_comments
from ops.imports import scores as import_scores
from ops.maintenance import audit, redrive
from ops.maintenance.streams import Stream, follow_stream
from tests.support.contexts import new_context
from tests.support.meter import Meter
from tests.support.tables import drain, fresh_table


@pytest.mark.parametrize(
    ("number", "pages", "is_known", "most"), [(1, 1, True, 6), (1, 1, False, 8), (100, 1, True, 3.7)]
)
def test_a_view_by_a_new_visitor_costs_at_most(
    applied: tuple[Table, Callable[[], None]], number: int, pages: int, is_known: bool, most: float
) -> None:
    """All writes of it, with every sum of its page and its site: WCU a view."""
    table, drain = applied
    url = "https://www.example.org/{}"
    known = [View(url.format("known"), NOW - timedelta(minutes=n), f"known-{n}") for n in range(2)]
    views.write(new_context(table, NOW), known)
    drain()
    page = url.format("known" if is_known else "new")
    seen = [View(page, NOW + timedelta(milliseconds=n), f"new-{n}") for n in range(number)]

    def count() -> None:
        views.write(new_context(table, NOW), seen)
        drain()

    assert units(table, count)[0] <= most * number


NOW = datetime(2100, 1, 1, 12, tzinfo=UTC)
OPERATOR = (views.contribution, scores.contribution, comments.contribution)


@pytest.fixture
def applied(engine: Engine) -> Iterator[tuple[Table, Callable[[], None]]]:
    """A table, and the pump that applies its stream."""
    with fresh_table(engine) as (table, stream_arn):

        def apply(event: dict[str, Any], _: object) -> None:
            aggregates.apply(table, OPERATOR, event["Records"], derivations=app.DERIVATIONS)

        pump = StreamPump(Stream(engine.client("dynamodbstreams"), stream_arn), apply)
        yield table, lambda: drain(pump)


def units(table: Table, work: Callable[[], Any]) -> tuple[float, float]:
    with Meter(table.client) as meter:
        work()
    return meter.write_units, meter.read_units


def view(number: int) -> View:
    return View("https://www.example.org/", NOW.replace(microsecond=number), "somebody")


def test_an_imported_view_costs_one_write_unit_and_its_visitors_and_day_one_each(
    applied: tuple[Table, Callable[[], None]],
) -> None:
    table, _ = applied
    found = [view(number) for number in range(30)]
    assert units(table, lambda: access_log.write(table, found, Settings(), NOW, b"k")) == (33, 0.5)
    assert units(table, lambda: access_log.write(table, found, Settings(), NOW, b"k")) == (33, 1)


def test_an_imported_score_costs_what_a_submitted_one_does(
    applied: tuple[Table, Callable[[], None]],
) -> None:
    table, _ = applied
    boards.define(new_context(table, NOW), "race", BoardBody(title="Race", operator="best", max=Decimal(999)))
    rows = [Submission(f"runner-{n}", "1", Decimal(n), "2100-01-01T00:00:00.000000Z") for n in range(5)]
    ahead = 0.5 + 1  # the board and the root
    nodes = 2 * 0.5  # the root, and that of the magnitude
    assert units(table, lambda: import_scores.write(table, "race", rows)) == (
        5 * 3,
        ahead + 1 + 5 * 2 + nodes,
    )
    known = units(table, lambda: import_scores.write(table, "race", rows))
    assert known == (0, ahead + 1 + 5 * 2)


def test_an_imported_comment_costs_six_write_units(applied: tuple[Table, Callable[[], None]]) -> None:
    table, _ = applied
    body = CommentBody(rating=5, language="en", text="It shines.")
    rows = [import_comments.Row("lamp", f"reader-{n}", body) for n in range(3)]
    writes, reads = units(table, lambda: import_comments.write(table, rows, NOW))
    # Threads may find the product unlisted at the same time. One of them lists it, and the others pay too.
    assert 20 <= writes <= 22
    assert reads <= 3  # each thread may read the definition and the listed product


def test_an_imported_reply_costs_five_write_units(applied: tuple[Table, Callable[[], None]]) -> None:
    table, _ = applied
    body = CommentBody(rating=5, language="en", text="It shines.")
    comment = import_comments.Row("torch", "author", body, created=NOW)
    parent = import_comments.Parent("torch", "author", NOW)
    text = ReplyBody(text="It does.", language="en")
    rows = [import_comments.ReplyRow(parent, f"reader-{n}", text, None, NOW, f"blog {n}") for n in range(3)]
    import_comments.write(table, [comment], NOW)
    made = 2  # the first reply makes the counters, and checks the comment
    assert units(table, lambda: import_comments.write(table, rows, NOW)) == (3 * 5 + made, 3 * 4)
    assert units(table, lambda: import_comments.write(table, rows, NOW)) == (0, 3 * 2)


@pytest.mark.parametrize("rating", range(1, 6))
def test_a_comment_alone_costs_at_most_eight_write_units_and_of_two_less(
    applied: tuple[Table, Callable[[], None]], rating: int
) -> None:
    """All writes of it, with every sum and index entry."""
    table, drain = applied
    body = CommentBody(rating=rating, language="en", text="It shines.")
    for reader in ("ann", "bob"):
        comments.post(new_context(table, NOW), "lamp", body, Caller(reader), None)
        drain()

    def post(*languages: str) -> None:
        for language in languages:
            said = CommentBody(rating=rating, language=language, text="It shines.")
            comments.post(new_context(table, NOW), "lamp", said, Caller(f"{language}-{len(languages)}"), None)
        drain()

    assert units(table, lambda: post("en"))[0] <= 8
    post("de")
    steps = 4 if rating == 5 else 0  # the product moves among the leaders
    assert units(table, lambda: post("en", "de"))[0] <= 2 * 7.5 + steps


def test_a_vote_and_a_reply_cost_the_same_whatever_the_length_of_the_comment(
    applied: tuple[Table, Callable[[], None]],
) -> None:
    table, _ = applied
    body = CommentBody(rating=5, language="en", text="𝕏" * 5_000)  # 20 KB
    id = comments.post(new_context(table, NOW), "lamp", body, Caller("ann"), None).comment.id
    reader, answer = Caller("bob"), ReplyBody(text="It does.", language="en")
    path = ReplyPath("lamp", id, "")

    def post() -> None:
        path.reply = replies.post(new_context(table, NOW), "lamp", id, answer, reader, None).id

    votes.cast(new_context(table, NOW), "lamp", id, Caller("cyd"))  # the first one checks the comment
    assert units(table, lambda: votes.cast(new_context(table, NOW), "lamp", id, reader)) == (6, 3)
    assert units(table, lambda: votes.withdraw(table, "lamp", id, reader)) == (6, 2)
    assert units(table, post) == (5, 7)  # it reads the comment, whose language it has by default
    assert units(table, lambda: replies.delete(table, path, reader)) == (7, 2)
    query, stage = CommentsQuery(), Settings(secret="s" * 32)
    assert units(
        table, lambda: pages.list_comments(new_context(table, settings=stage), "lamp", query, Caller())
    ) == (0, 3)


def test_an_audit_reads_the_table_once_and_a_repair_writes_what_has_drifted(
    engine: Engine,
    applied: tuple[Table, Callable[[], None]],
) -> None:
    table, drain = applied
    following = follow_stream(table, engine.client("dynamodbstreams"))

    def look() -> audit.AuditResult:
        return audit.audit(table, OPERATOR, following, 0, lambda _: None, lambda _: None)

    views.write(new_context(table, NOW), [view(number) for number in range(100)])
    drain()
    assert units(table, look) == (0, 3)  # 102 items of 104 bytes: 3 blocks of 4 KB
    page, names = views.page_key("https://www.example.org/"), {"#views": "views"}
    table.update(page, "ADD #views :one", names=names, values={":one": -1})
    drifted = look()
    mended = units(table, lambda: audit.repair(table, drifted))
    assert mended == (2, 1)  # the page in a transaction, after a read


def poisonous(item: Item) -> dict[tuple[Key, str], Amount]:
    if item["sk"].startswith("T#"):
        raise ValueError("a version that cannot read it")
    return {}


def test_a_redrive_costs_two_write_units_for_each_entry_and_each_sum(
    applied: tuple[Table, Callable[[], None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    table, drain = applied
    views.write(new_context(table, NOW), [view(1)])
    with monkeypatch.context() as broken:
        broken.setattr("tests.test_costs.OPERATOR", (poisonous,))
        drain()
    assert units(table, lambda: redrive.redrive(table, OPERATOR)) == (
        2 + 3 + 3 + 2,
        16,
    )  # two of the sums are in the index
