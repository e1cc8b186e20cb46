"""Every interleaving of submissions of one player, their retries, the stream and a removal.

Each worker may die at every point. The stream delivers what was stored when it comes, as often as it likes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from chalicelib import times
from chalicelib.aggregates import tags
from chalicelib.dynamo.items import Images, Item, Key
from chalicelib.leaderboards import boards, scores
from chalicelib.leaderboards.boards import Board
from tests.support.contexts import new_context
from tests.support.interleavings import Memory, explore

NOW = datetime(2026, 11, 21, 10, tzinfo=UTC)
BOARD = Board(
    name="points",
    title="Points",
    unit="",
    decimals=0,
    min=Decimal(0),
    max=Decimal(1_000_000),
    order="desc",
    operator="increment",
    shards=1,
    season=1,
    started=times.to_iso(NOW),
    resets=None,
)
SCORE = scores.score_key("points", 1, "ann")
AMOUNTS: dict[str, int] = {
    name: 10**i for i, name in enumerate("abcd")
}  # one decimal digit counts each submission


def submit(table: Any, id: str) -> None:
    """Do what a request does after it has read the score."""
    submission = scores.Submission("ann", id, Decimal(AMOUNTS[id]), times.to_sort_key(NOW))
    scores.write(new_context(table, NOW), BOARD, submission, table.get(SCORE, consistent=True))


def follow(table: Any, id: str) -> bool:
    """Deliver the record of an activity, with the score that is stored. Return whether there is one."""

    def images() -> list[Images]:
        keys = (scores.activity_key("points", "ann", id), SCORE)
        return [(key, {}, dict(table.items[key])) for key in keys if key in table.items]

    changes = table.request(images)
    if not any(key.sk.startswith("ACTIVITY") for key, *_ in changes):
        return False
    scores.follow(new_context(table, NOW), changes)
    return True


def remove(table: Any) -> None:
    """Remove the player's score of the season."""
    if item := table.get(SCORE, consistent=True):
        scores._remove(new_context(table, NOW), item)


class Steps:
    """A worker that takes steps, such as "+a" (submit), "~a" (the stream) and "-" (remove)."""

    def __init__(self, text: str) -> None:
        self.steps = text.split()
        self.counted: dict[Memory, set[str]] = {}

    def work(self, table: Any) -> None:
        for verb, id in ((step[0], step[1:]) for step in self.steps):
            if verb == "+":
                submit(table, id)
            elif verb == "~" and not follow(table, id):
                continue
            elif verb == "-":
                remove(table)
                self.counted[table] = set()
                continue
            self.counted.setdefault(table, set()).add(id)


def digit(table: Memory, id: str) -> int:
    """Return how often a submission is counted."""
    score = int(table.items.get(SCORE, {}).get("score", 0))
    return score // AMOUNTS[id] % 10


def explore_steps(texts: Sequence[str]) -> int:
    """Check in every state that each submission counts once at most, and at least when a worker knows it."""
    workers = [Steps(text) for text in texts]
    removes = [worker for worker in workers if "-" in worker.steps]

    def check(table: Memory, has_ended: Sequence[bool], schedule: object) -> None:
        assert all(digit(table, id) <= 1 for id in AMOUNTS), schedule
        for worker, ended in zip(workers, has_ended, strict=True):
            if ended and not removes:
                assert all(digit(table, id) == 1 for id in worker.counted.pop(table, ())), schedule
            elif ended and worker in removes:  # what it submitted before the removal stays out
                before = worker.steps[: worker.steps.index("-")]
                assert not any(digit(table, step[1:]) for step in before), schedule

    return explore([worker.work for worker in workers], check)


SCENARIOS = [  # the smaller first, in which most faults are found
    ["+a", "+a"],
    ["+a", "+a", "~a"],
    ["+a", "+b", "~a"],
    ["+a +b", "~a ~b"],
    ["+a -", "+a ~a"],
    ["+a - +b", "~a +a"],
    ["+a +b +c", "+b ~a"],  # tags have moved to a page
]
LONG = ["+a +b +c ~a", "~a +d"]


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Scores that hold two tags, a board that is not read, and a tree of one level."""
    monkeypatch.setattr(scores, "TAGS", 2)
    monkeypatch.setattr(scores, "choose_depth", lambda *_: 1)
    monkeypatch.setattr(boards, "find", lambda *_: BOARD)


@pytest.mark.parametrize("texts", [*SCENARIOS, pytest.param(LONG, marks=pytest.mark.long)], ids=" | ".join)
def test_every_interleaving_counts_each_submission_once(texts: list[str]) -> None:
    assert explore_steps(texts) > 5


# -- the faults that the search must find ------------------------------------------------------------------


def _without(name: str) -> Callable[..., bool]:
    """Write a score without an attribute."""

    def replace(table: Any, key: Key, score: Item | None, after: Item, pages: Any = ()) -> bool:
        after.pop(name, None)
        return REPLACE(table, key, score, after, pages)

    return replace


def _unconditional(kind: str) -> Callable[..., bool]:
    """Put an item of a kind whatever is stored."""

    def put(table: Memory, item: Item, **given: Any) -> bool:
        return PUT(table, item, **({} if item["sk"].startswith(kind) else given))

    return put


REPLACE, PUT = scores._replace, Memory.put
FAULTS: dict[str, tuple[Any, str, Any]] = {
    "a score has no tags": (scores, "_replace", _without("applied")),
    "a score is written whatever it has become": (Memory, "put", _unconditional("BOARD")),
    "an id counts again": (Memory, "put", _unconditional("ACTIVITY")),
    "the pages are not read": (tags, "find_moved", lambda *_: set()),
    "`spilled` is not raised": (scores, "_replace", _without("spilled")),
    "a known id is taken for counted": (scores, "may_be_pending", lambda *_: False),
    "the stream completes nothing": (scores, "follow", lambda *_: None),
    "a removal does not void what came before": (scores, "_replace", _without("since")),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_of_the_protocol_is_found(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(*FAULTS[fault])
    with pytest.raises(AssertionError):
        [explore_steps(texts) for texts in SCENARIOS]
