"""The stream filters drop exactly the records that no function needs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from typing import Any
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import app
from chalicelib.chat import subscriptions
from chalicelib.dynamo.items import Item, unpack
from chalicelib.dynamo.table import Table
from chalicelib.notices import notices
from chalicelib.ranking import tree
from local.engines.engine import Engine
from local.filters import filtered, matches, passes, patterns
from ops import table as documents
from tests.support import operations
from tests.support.deployed import Deployed, Invocation
from tests.support.records import Reader, follow, record
from tests.support.tables import record_calls, store_on

Images = tuple[Item | None, Item | None]
MISSED: Item = {"pk": "TOPIC#ab12", "sk": "HEAD", "topic": "views:a", "missed": "a"}
PENDING: Item = {"pk": "NOTICE#ab12", "sk": "NOTICE", "pending": "comment"}
FUNCTIONS = ("apply", "push")
WRITES = re.compile("Put|Update|Delete|Write|Execute")


def documented_kinds() -> list[tuple[str, str]]:
    """Return the keys of every kind of item, from the tables in the modules' docstrings."""
    rows = re.findall(r"^\| \w[^|]* \|[^|`]*`([^|`]+)` \| ([^|]+) \|", documents.text(), re.MULTILINE)
    return [(pk, sk) for pk, cell in rows for sk in re.findall("`(.+?)`", cell)]


def _is_of(kind: str, key: str) -> bool:
    return re.fullmatch(".+".join(map(re.escape, re.split("<.+?>", kind))), key, re.DOTALL) is not None


@pytest.fixture(scope="module")
def images(engine: Engine) -> list[Images]:
    """The images of every change that the calls, frames and batches make, and an item of each other kind."""
    found: list[Images] = [(None, MISSED), (None, PENDING)]
    streams: list[Reader] = []

    def run(site: Deployed, invocation: Invocation) -> None:
        if not streams:
            streams.append(follow(engine, site.table))
        invocation.run()
        for body in (change["dynamodb"] for change in streams[0].read_all()):
            old, new = (unpack(body[name]) if name in body else None for name in ("OldImage", "NewImage"))
            found.append((old, new))

    with mock.patch.object(tree, "LIMIT", 1):  # so that a few players are crowded
        operations.play(engine, run)
    keys = {(item["pk"], item["sk"]) for pair in found for item in pair if item}
    for kind in documented_kinds():
        if not any(all(map(_is_of, kind, key)) for key in keys):
            pk, sk = (re.sub("<.+?>", "a", name) for name in kind)
            found.append((None, {"pk": pk, "sk": sk}))
    return found


class Consumer:
    """The functions that consume the stream, on tables with nothing, with all but scores, and with all.

    A table is made when a record is the first to reach it: most act on the one with nothing.
    """

    def __init__(self, make: Iterator[Table], patch: pytest.MonkeyPatch) -> None:
        self._make, self._patch = make, patch
        self._made: list[tuple[Table, list[str]]] = []

    def _tables(self) -> Iterator[tuple[Table, list[str]]]:
        yield from self._made
        for table in self._make:
            self._made.append((table, record_calls(table.client)))
            yield self._made[-1]

    def acts(self, change: Any, function: str) -> bool:
        """Return whether a function would write or push anything because of a record."""
        if function == "push":
            new, pending = notices.find(app.FEATURES, [change], datetime.now(UTC))
            return bool(new or pending or subscriptions.changed_topics(app.TOPICS, [change]))
        for table, calls in self._tables():
            calls.clear()
            self._patch.setattr(app, "connect", lambda table=table: table)
            app.apply_records([change])
            if any(map(WRITES.search, calls)):
                return True
        return False


@pytest.fixture
def consumer(engine: Engine, images: list[Images], monkeypatch: pytest.MonkeyPatch) -> Iterator[Consumer]:
    items = {(new["pk"], new["sk"]): new for _, new in images if new}.values()
    others = [item for item in items if not item["sk"].startswith("BOARD#")]
    with ExitStack() as stack:

        def make() -> Iterator[Table]:
            for stored in ([], others, items):
                table, _ = stack.enter_context(store_on(engine))
                table.batch_put(stored)
                yield table

        yield Consumer(make(), monkeypatch)


CHANGES = st.sampled_from(["as it was", "created", "deleted", "an attribute less", "a number more"])


def changed(pair: Images, change: str, data: st.DataObject) -> Images:
    """Return another change of the same item."""
    item = pair[1] or pair[0] or {}
    names = sorted(item.keys() - {"pk", "sk"})
    numbers = [name for name in names if type(item[name]) is int]
    if change == "an attribute less" and names:
        less = data.draw(st.sampled_from(names))
        return item, {name: value for name, value in item.items() if name != less}
    if change == "a number more" and numbers:
        name = data.draw(st.sampled_from(numbers))
        return item, item | {name: item[name] + data.draw(st.integers(1, 9))}
    return {"created": (None, item), "deleted": (item, None)}.get(change, pair)


@pytest.mark.security
def test_no_record_that_a_filter_drops_would_make_its_function_act(
    consumer: Consumer, images: list[Images]
) -> None:
    """Neither a contribution, nor a follower, nor a derivation, nor a topic needs such a record."""

    def holds(pair: Images) -> None:
        made = record(*pair)
        for function in FUNCTIONS:
            assert passes(made, function) or not consumer.acts(made, function), (function, made)

    @settings(max_examples=150, derandomize=True, database=None, deadline=None)
    @given(st.sampled_from(images), CHANGES, st.data())
    def holds_for_others_like_it(pair: Images, change: str, data: st.DataObject) -> None:
        holds(changed(pair, change, data))

    for pair in images:
        holds(pair)
    holds_for_others_like_it()


def alternatives() -> list[tuple[str, Any]]:
    """Return each alternative for a sort key in the filters, with its function."""
    found = [
        (name, pattern["dynamodb"]["Keys"]["sk"]["S"]) for name in FUNCTIONS for pattern in patterns(name)
    ]
    return [(name, pattern) for name, several in found for pattern in several]


@pytest.mark.parametrize(("function", "alternative"), alternatives(), ids=str)
def test_every_alternative_of_a_filter_is_needed_and_is_among_the_records(
    consumer: Consumer, images: list[Images], function: str, alternative: Any
) -> None:
    records = [record(*pair) for pair in images]
    named = [record for record in records if matches(record["dynamodb"]["Keys"]["sk"]["S"], [alternative])]
    assert any(consumer.acts(record, function) for record in named)


def test_a_batch_without_a_matching_record_does_not_call_the_handler() -> None:
    batches: list[Any] = []
    handle = filtered(lambda event, _: batches.append(event["Records"]), "apply")
    own, read = (record(None, {"pk": "URL#a", "sk": sk}) for sk in ("DAY#2026-11-21", "T#2026-11-21"))
    handle({"Records": [own, own]}, None)
    handle({"Records": [own, read, own]}, None)
    assert batches == [[read]]


def test_an_unknown_operator_is_an_error() -> None:
    with pytest.raises(ValueError, match="anything-but"):
        matches({"a": "b"}, {"a": [{"anything-but": ["c"]}]})
    assert not matches({}, {"a": ["b"]})
    assert not matches({"a": 1}, {"a": [{"prefix": "1"}]})
    assert [matches(item, {"a": [{"exists": True}]}) for item in ({"a": 0}, {"b": 1}, {})] == [
        True,
        False,
        False,
    ]
