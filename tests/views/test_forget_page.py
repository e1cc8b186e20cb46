"""`ops forget-page` removes a page exactly, with duplicates and delays in the stream and after crashes."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import boto3
import pytest
from click.testing import CliRunner

import app
from chalicelib import times
from chalicelib.aggregates import engine as aggregates
from chalicelib.api.auth import Caller
from chalicelib.dynamo.items import Item, Key, Range
from chalicelib.dynamo.table import Table
from chalicelib.settings import Settings
from chalicelib.views import events, site_queries
from chalicelib.views import queries as view_queries
from chalicelib.views.events import View
from chalicelib.views.schemas import PageQuery, SeriesQuery, TopQuery
from local.engines.engine import Engine
from ops.aws import template
from ops.cli.main import main
from ops.maintenance import forget
from ops.maintenance.audit import NO_SUMS
from ops.maintenance.forget import Forgotten
from tests.histories.world import Killed
from tests.support.contexts import new_context
from tests.support.faults import instead
from tests.support.live import Live
from tests.support.records import Reader, drift, record, scan
from tests.support.tables import table_on

pytestmark = pytest.mark.long


SPAM, GOOD = "https://example.org/spam", "https://example.org/good"
NOW = datetime.now(UTC)
STAGE = Settings()


class Stream:
    """A table and its stream, which is applied when a test asks for it, with duplicates."""

    def __init__(self, table: Table, reader: Reader) -> None:
        self.table, self.new = table, reader.read
        self.delivered: list[Any] = []

    def apply(self, *_: float) -> None:
        """Apply the new records, together with the last few before them."""
        while records := self.new():
            aggregates.apply(
                self.table, app.CONTRIBUTIONS, self.delivered[-5:] + records, derivations=app.DERIVATIONS
            )
            self.delivered += records

    def redeliver(self) -> None:
        """Deliver all records once more."""
        self.apply()
        aggregates.apply(self.table, app.CONTRIBUTIONS, self.delivered, derivations=app.DERIVATIONS)
        self.apply()

    def view(self, url: str, count: int, *, first: int = 0, days: int = 0) -> None:
        seen = [
            View(url, NOW - timedelta(days=days, seconds=i), f"c{i % 3}") for i in range(first, first + count)
        ]
        events.write(new_context(self.table, NOW, STAGE), seen)

    def forget(self, url: str = SPAM, pause: Callable[[float], None] | None = None, **more: Any) -> Forgotten:
        options: dict[str, Any] = {"rate": None, "patience": 60, "report": lambda _: None} | more
        clock = forget.CLOCK._replace(pause=pause or self.apply)
        return forget.forget(self.table, url, clock=clock, **options)

    def count(self, url: str) -> tuple[int, int]:
        found = view_queries.count_views(self.table, PageQuery(url=url))
        return found.views, found.visitors


@pytest.fixture
def stream(dev_table: template.Table) -> Stream:
    table = Table(dev_table.name, boto3.client("dynamodb"))
    made = Stream(table, Reader(boto3.client("dynamodbstreams"), dev_table.stream_arn))
    made.view(SPAM, 3)
    made.view(SPAM, 2, days=2)
    made.view(GOOD, 2)
    made.apply()
    return made


def expire(stream: Stream, url: str, count: int) -> None:
    """Remove some events of a page as TTL does: they stay in its sums."""
    gone = [item for item in scan(stream.table) if item["pk"] == f"URL#{url}" and item["sk"].startswith("T#")]
    for item in gone[:count]:
        stream.table.delete(Key(item["pk"], item["sk"]))
    stream.new()  # the records of these deletions have no userIdentity
    service = {"type": "Service", "principalId": "dynamodb.amazonaws.com"}
    expired = [record(item, None, userIdentity=service) for item in gone[:count]]
    assert aggregates.apply(stream.table, app.CONTRIBUTIONS, expired).ignored == len(expired)


def find_drift(table: Table) -> dict[Any, Any]:
    """Return the sums that differ from a recount. A site's sums still count its expired views."""
    found = drift(table, app.CONTRIBUTIONS)
    return {
        at: (is_, should)
        for at, (is_, should) in found.items()
        if not (at[0].pk.startswith("SITE#") and is_ > (should or 0))
    }


def page_items(stream: Stream) -> list[Item]:
    return [item for item in scan(stream.table) if item["pk"] == f"URL#{SPAM}"]


def is_forgotten(stream: Stream) -> bool:
    """Return whether the page is invisible, and only empty items are left, which expire."""
    top = site_queries.list_top_pages(
        new_context(stream.table, NOW), TopQuery(site="example.org"), Caller()
    ).items
    series = view_queries.read_series(new_context(stream.table, NOW), SeriesQuery(url=SPAM)).items
    assert stream.count(SPAM) == (0, 0)
    assert [page.url for page in top] == [GOOD]
    assert not any(point.views or point.visitors for point in series)
    # A marker that is delivered again writes its echo again: the union of tokens in `seen` has no tag.
    return all(set(item) - NO_SUMS - {"seen"} == {"ttl"} for item in page_items(stream))


@pytest.mark.parametrize("expired", [2, *(pytest.param(n, marks=pytest.mark.long) for n in (0, 5))])
def test_a_page_is_removed_with_all_its_sums_and_other_pages_keep_theirs(
    stream: Stream, expired: int
) -> None:
    expire(stream, SPAM, expired)
    before = stream.count(GOOD)
    found = forget.count_items(stream.table, SPAM)
    assert found == Counter(views=5 - expired, visitors=5, days=2, total=1) - Counter(views=0)
    done = stream.forget()
    assert (done.removed, done.left, done.is_late) == (found, Counter(), False)
    assert is_forgotten(stream)
    assert {item["sk"].split("#")[0] for item in page_items(stream)} == {"STATISTICS", "DAY"}
    assert all(item["ttl"] < (NOW + timedelta(days=4)).timestamp() for item in page_items(stream))
    assert stream.count(GOOD) == before == (2, 2)
    stream.redeliver()
    assert is_forgotten(stream)
    assert find_drift(stream.table) == {}


def test_a_second_run_finds_nothing_and_a_new_view_begins_a_new_page(stream: Stream) -> None:
    stream.forget()
    again = stream.forget()
    assert (again.removed, again.left) == (Counter(), Counter())
    stream.view(SPAM, 2, first=100)
    stream.apply()
    assert stream.count(SPAM) == (2, 2)
    page = stream.table.get(events.page_key(SPAM)) or {}
    assert page["ttl"] > (NOW + timedelta(days=400)).timestamp()  # it does not expire with the emptied item
    assert find_drift(stream.table) == {}


def test_sums_are_emptied_only_after_the_stream_has_caught_up(stream: Stream) -> None:
    """For a while the stream applies neither the last views of the page nor their deletions."""
    expire(stream, SPAM, 2)
    stream.view(SPAM, 4, first=50)
    pauses = 0

    def late(_: float) -> None:
        nonlocal pauses
        pauses += 1
        assert stream.count(SPAM)[0] == 5 or pauses > 40
        if pauses > 40:
            stream.apply()

    done = stream.forget(pause=late)
    assert (done.left, done.removed["views"]) == (Counter(), 7)
    stream.apply()
    assert is_forgotten(stream)


def test_sums_are_left_alone_when_the_stream_does_not_catch_up_in_time(stream: Stream) -> None:
    done = stream.forget(patience=0.01, pause=lambda _: None)
    assert (done.is_late, done.removed) == (True, Counter(views=5, visitors=5))
    assert done.left == Counter(days=2, total=1)
    assert stream.count(SPAM) == (5, 5)
    done = stream.forget()
    assert (done.is_late, done.left) == (False, Counter())
    assert is_forgotten(stream)


@pytest.mark.parametrize(
    ("operation", "calls"),
    [
        *(("DeleteItem", 5), ("UpdateItem", 1), ("PutItem", 2)),
        *(pytest.param("DeleteItem", calls, marks=pytest.mark.long) for calls in (0, 8, 9)),
        *(pytest.param("UpdateItem", calls, marks=pytest.mark.long) for calls in (0, 2)),
        *(pytest.param("PutItem", calls, marks=pytest.mark.long) for calls in (0, 1, 3)),
    ],
)
def test_a_run_that_is_killed_at_any_call_can_be_repeated(stream: Stream, operation: str, calls: int) -> None:
    expire(stream, SPAM, 2)
    through: list[Any] = [None] * calls
    try:
        with instead(stream.table, operation, *through, Killed()):
            stream.forget()
    except Killed:
        pass
    done = stream.forget()
    assert (done.left, done.is_late) == (Counter(), False)
    stream.redeliver()
    assert is_forgotten(stream)
    assert stream.count(GOOD) == (2, 2)


def test_a_view_during_the_removal_is_removed_or_counted_but_never_in_part(stream: Stream) -> None:
    expire(stream, SPAM, 2)
    sent = 0

    def meanwhile(_: float) -> None:
        nonlocal sent
        if sent < 2:
            stream.view(SPAM, 1, first=200 + sent)
            sent += 1
        stream.apply()

    done = stream.forget(pause=meanwhile)
    stream.apply()
    facts = [item for item in page_items(stream) if item["sk"].startswith("T#")]
    assert sent == 2
    assert (bool(done.left), len(facts)) == (False, 0)
    assert is_forgotten(stream)


def test_an_imported_history_is_removed_too(stream: Stream) -> None:
    old = View(SPAM, NOW - timedelta(days=900), "old")
    events.write(
        new_context(stream.table, NOW, STAGE), [old], expiry=lambda _: times.epoch(NOW + timedelta(days=30))
    )
    stream.apply()
    assert stream.forget().left == Counter()
    assert is_forgotten(stream)


@contextmanager
def command(engine: Engine, patch: pytest.MonkeyPatch) -> Iterator[Live]:
    with table_on(engine) as made:
        live = Live((engine, made.name, made.stream_arn), app.CONTRIBUTIONS)
        patch.setenv("HUBBUB_ENDPOINT", engine.endpoint)
        patch.setenv("HUBBUB_TABLE", made.name)
        events.write(new_context(live.table, NOW, STAGE), [View(SPAM, NOW, f"c{i}") for i in range(150)])
        live.drain()
        yield live


def test_the_command_asks_for_confirmation_and_accepts_any_notation_of_an_address(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    with command(engine, monkeypatch) as live:

        def run(*options: str, answer: str = "") -> Any:
            return CliRunner().invoke(main, ["forget-page", "Example.org/x/../spam", *options], input=answer)

        dry = run("--dry-run", "--json")
        counts = {"views": 150, "visitors": 150, "days": 1, "total": 1}
        assert (dry.exit_code, json.loads(dry.stdout)["found"]) == (0, counts)
        refused = run(answer="n\n")
        assert refused.exit_code == 1
        assert f"Remove the page {SPAM} from local? This cannot be undone." in refused.output
        late = run("--yes", "--patience", "1", "--json")
        assert (late.exit_code, json.loads(late.stdout)["late"]) == (3, True)
        with live.applied():
            done = run("--yes", "--json")
        assert (done.exit_code, json.loads(done.stdout)["left"]) == (0, {})
        assert {item["sk"].split("#")[0] for item in scan(live.table) if item["pk"] == f"URL#{SPAM}"} == {
            "STATISTICS",
            "DAY",
        }
        assert live.table.query(Range(events.site_key("example.org"), index_name="gsi1")).items == []
    assert CliRunner().invoke(main, ["forget-page", "nowhere"]).exit_code == 2
