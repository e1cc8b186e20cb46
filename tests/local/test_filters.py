"""The stream filters drop exactly the records that no contribution and no topic needs."""

from __future__ import annotations

import doctest
from typing import Any

import pytest

import app
from chalicelib.aggregates import engine
from chalicelib.chat import subscriptions
from chalicelib.dynamo.items import Item
from local import filters
from local.filters import filtered, matches, passes
from tests.support.records import record

PAGE = "URL#https://example.org/a"
OWN: list[Item] = [  # what the app writes for itself: nobody reads its changes
    {"pk": "GUARD#1700000000#0", "sk": "APPLIED", "ids": {b"a"}, "ttl": 1},
    {"pk": "RANK#BOARD#race#1#", "sk": "NODE", "05": 1},
    {"pk": PAGE, "sk": "DAY#2026-11-21", "views": 1},
    {"pk": "CONN#a", "sk": "STATE", "state": "idle"},
    {"pk": "WAITING#main", "sk": "1#a#2", "who": "a"},
    {"pk": "TOPIC#views:a", "sk": "CONN#a", "at": "b"},
    {"pk": "QUARANTINE#3", "sk": "1700000000#a#new", "reason": "b"},
    {"pk": "BACKFILL#comments", "sk": "SEGMENT#1", "of": 4},
    {"pk": "TREE#CHALLENGE#hunt#", "sk": "NODE", "05": 1},
    {"pk": "PLAYER#a", "sk": "APPLIED#race#1#00000000", "tags": {b"a"}},
    {"pk": "PLAYER#a", "sk": "RANKED#CHALLENGE#hunt", "gsi1sk": 5},
    {"pk": "PRODUCT#a", "sk": "S#en", "count_1": 1},
    {"pk": "PRODUCT#a", "sk": "AUTHOR#b", "id": "c"},
    {"pk": "TOPIC#ab12", "sk": "HEAD", "topic": "views:a", "joined": "a"},
]
SHOWN: list[Item] = [  # what a live topic shows
    {"pk": PAGE, "sk": "STATISTICS", "gsi1sk": 1},
    {"pk": "CHALLENGE#hunt", "sk": "STATISTICS", "players": 1},
    {"pk": "PRODUCT#a", "sk": "S", "count_1": 1},
    {"pk": "TREE#BOARD#race#1#", "sk": "NODE", "53": 5},
]
SCORE: Item = {"pk": "PLAYER#a", "sk": "BOARD#race#1", "score": 1}  # counted, and shown by a live topic
FOLLOWED: list[Item] = [  # what the stream completes
    {"pk": "PLAYER#a", "sk": "ACTIVITY#race#1", "value": 5},
    {"pk": "TREE#BOARD#race#1#53", "sk": "DEEPEN", "prefix": "53"},
]
MISSED: Item = {"pk": "TOPIC#ab12", "sk": "HEAD", "topic": "views:a", "missed": "a"}
READ: list[Item] = [  # what is counted
    {"pk": PAGE, "sk": "T#2026-11-21T10:00:00.000000Z#CID#a"},
    {"pk": PAGE, "sk": "VISITOR#2026-11-21#a", "hours": {1}},
    {"pk": "CHALLENGE#hunt#PLAYER#a", "sk": "PROGRESS", "found": 1},
    {"pk": "PRODUCT#a", "sk": "COMMENT#01", "rating": 5, "counted": 1},
]


def is_used(change: Any, function: str) -> bool:
    if function == "push":
        return bool(subscriptions.changed_topics(app.TOPICS, [change]))
    difference = engine.compute(app.CONTRIBUTIONS, change)
    return bool(difference.sums or difference.poison)


def key(item: Item) -> str:
    return f"{item['pk']} {item['sk']}"


@pytest.mark.parametrize("function", ["apply", "push"])
@pytest.mark.parametrize("item", OWN, ids=key)
def test_items_that_only_the_app_reads_cause_no_invocation(item: Item, function: str) -> None:
    change = record(None, item)
    assert not passes(change, function)
    assert not is_used(change, function)


@pytest.mark.parametrize("item", READ, ids=key)
def test_items_with_a_contribution_are_delivered_only_to_apply(
    item: Item,
) -> None:
    for change in (record(None, item), record(item, None), record(item, {**item, "more": 1})):
        assert passes(change, "apply")
        assert not passes(change, "push")
    assert is_used(record(None, item), "apply")
    assert not is_used(record(None, item), "push")


@pytest.mark.parametrize("item", FOLLOWED, ids=key)
def test_items_that_the_stream_completes_are_delivered_only_to_apply(item: Item) -> None:
    assert passes(record(None, item), "apply")
    assert not passes(record(None, item), "push")
    assert not is_used(record(None, item), "push")


def test_a_score_is_delivered_to_both() -> None:
    item = SCORE | {"scale": [0, 9, 0, True], "shards": 1, "depth": 1}
    assert passes(record(None, item), "apply")
    assert passes(record(None, item), "push")
    assert is_used(record(None, item), "apply")
    assert is_used(record(None, item), "push")


@pytest.mark.parametrize("item", [*SHOWN, MISSED], ids=key)
def test_items_of_topics_are_delivered_only_to_push(item: Item) -> None:
    for change in (record(None, item), record(item, {**item, "more": 1})):
        assert passes(change, "push")
        assert is_used(change, "push")
        assert not passes(change, "apply")
        assert not is_used(change, "apply")


def test_a_deleted_or_pushed_head_causes_no_invocation() -> None:
    made = {name: value for name, value in MISSED.items() if name != "missed"} | {"pushed": 1}
    for change in (record(MISSED, None), record(MISSED, made)):
        assert not passes(change, "push")
        assert not is_used(change, "push")


def test_a_batch_without_a_matching_record_does_not_call_the_handler() -> None:
    batches: list[Any] = []
    handle = filtered(lambda event, _: batches.append(event["Records"]), "apply")
    own, read = record(None, OWN[0]), record(None, READ[0])
    handle({"Records": [own, own]}, None)
    handle({"Records": [own, read, own]}, None)
    assert batches == [[read]]


def test_an_unknown_operator_is_an_error() -> None:
    with pytest.raises(ValueError, match="anything-but"):
        matches({"a": "b"}, {"a": [{"anything-but": ["c"]}]})
    assert not matches({}, {"a": ["b"]})
    assert not matches({"a": 1}, {"a": [{"prefix": "1"}]})
    assert [matches(one, {"a": [{"exists": True}]}) for one in ({"a": 0}, {"b": 1}, {})] == [
        True,
        False,
        False,
    ]


def test_the_examples_in_the_docstrings_hold() -> None:
    assert doctest.testmod(filters).failed == 0
