"""Comments compared with a list in memory: random operations, every filter, and races."""

from __future__ import annotations

import os
import random
import threading
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from functools import partial
from itertools import combinations, count
from typing import Any, NamedTuple, get_args, get_type_hints
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from chalicelib import ulids
from chalicelib.api.auth import Caller
from chalicelib.comments import comments, counters, definitions, pages, replies, votes
from chalicelib.comments import statistics as ratings
from chalicelib.comments.schemas import (
    Comment,
    CommentBody,
    CommentPatch,
    CommentsQuery,
    LeadersQuery,
    ProductBody,
    ReplyBody,
    ReplyPatch,
    ReplyPath,
    StatisticsQuery,
)
from chalicelib.dynamo.table import Table
from chalicelib.errors import Conflict, NotFound, PreconditionFailed
from chalicelib.settings import Settings
from tests.conftest import EngineTable
from tests.support.contexts import new_context
from tests.support.live import FEATURES, Live
from tests.support.records import drift, scan

STAGE = Settings(secret="0123456789abcdef0123456789abcdef")
ADMIN = Caller("admin", admin=True)
COMBINATIONS = [ratings for n in range(1, 6) for ratings in combinations(range(1, 6), n)]
LANGUAGES = ("en", "de", "pt-BR")


@pytest.fixture
def live(engine_table: EngineTable) -> Live:
    return Live(engine_table)


class Filter(NamedTuple):
    """A filter of comments. Empty ratings and an empty language match all."""

    ratings: tuple[int, ...] = ()
    language: str = ""

    def takes(self, comment: Comment) -> bool:
        right = not self.ratings or comment.rating in self.ratings
        return not comment.hidden and right and self.language in ("", comment.language)


FILTERS = [
    Filter(ratings, language) for ratings in ((), *COMBINATIONS) for language in ("", *LANGUAGES, "fr")
]


ORDERS: tuple[str, ...] = get_args(get_type_hints(CommentsQuery)["order"])


def sort_key(order: str, comment: Comment) -> tuple[Any, ...]:
    """Return the place of a comment in an order, ascending."""
    newest = -ulids.to_number(comment.id)
    rating = comment.rating or 0
    return {
        "newest": (newest,),
        "oldest": (-newest,),
        "helpful": (-comment.votes, newest),
        "highest": (-rating, newest),
        "lowest": (rating or 6, newest),
    }[order]


class Twin:
    """The reference implementation: a list in memory."""

    def __init__(self) -> None:
        self.comments: list[Comment] = []
        self.votes: set[tuple[str, str, str]] = set()

    def find(self, author: str) -> Comment | None:
        return next((comment for comment in self.comments if comment.author == author), None)

    def put(self, new: Comment) -> None:
        self.comments = [comment for comment in self.comments if comment.id != new.id] + [new]

    def listed(self, chosen: Filter, order: str = "newest") -> list[Comment]:
        return sorted(filter(chosen.takes, self.comments), key=lambda comment: sort_key(order, comment))


def walk(table: Table, product: str, chosen: Filter, limit: int, order: str = "newest") -> list[Comment]:
    """Read all pages, and check that none has more than `limit` comments."""
    found: list[Comment] = []
    cursor: str | None = None
    pages_read = 0
    while True:
        page = page_of(table, product, chosen, limit, cursor, order)
        found += page.items
        assert len(page.items) <= limit
        pages_read += 1
        assert pages_read < 100
        if page.cursor is None:
            return found
        cursor = page.cursor


def page_of(
    table: Table, product: str, chosen: Filter, limit: int, cursor: str | None, order: Any = "newest"
) -> Any:
    query = CommentsQuery(
        order=order,
        rating=",".join(map(str, chosen.ratings)) or None,
        language=chosen.language or None,
        limit=limit,
        cursor=cursor,
    )
    return pages.list_comments(new_context(table, settings=STAGE), product, query, Caller())


def agree(table: Table, product: str, twin: Twin, filters: Iterable[Filter], limits: tuple[int, ...]) -> None:
    """Compare lists and statistics with the twin."""
    for chosen in filters:
        for limit in limits:
            for order in ORDERS if limit < 100 else ("newest",):
                assert walk(table, product, chosen, limit, order) == twin.listed(chosen, order), order
    for language in ("", *LANGUAGES, "fr"):
        votes = Counter(comment.rating for comment in twin.listed(Filter((), language)))
        found = ratings.get_statistics(table, product, StatisticsQuery(language=language or None))
        counts = found.ratings
        assert [counts.one, counts.two, counts.three, counts.four, counts.five] == [
            votes[r] for r in range(1, 6)
        ], language
        assert found.total == sum(votes.values())
        leaders = ratings.list_leaders(
            new_context(table), LeadersQuery(limit=100, language=language or None)
        ).items
        fives = {leader.product: leader.five_star for leader in leaders}
        assert fives.get(product, 0) == votes[5]


OPERATIONS = st.lists(
    st.tuples(
        st.sampled_from([*["post", "edit", "vote"] * 2, "post", "delete", "hide", "apply", "list", "turn"]),
        st.integers(0, 9),  # the author
        st.sampled_from([None, 1, 2, 3, 4, 5, 5]),
        st.sampled_from(LANGUAGES),
        st.sampled_from(FILTERS),
        st.integers(1, 5),  # the limit of a page
        st.sampled_from(ORDERS),
    ),
    min_size=5,
    max_size=40,
)


Operation = tuple[str, int, int | None, str, Filter, int, str]


@pytest.mark.parametrize("times", [1, pytest.param(20, marks=pytest.mark.long)], ids=["quick", "long"])
def test_random_operations_agree_with_a_list_in_memory(live: Live, times: int) -> None:
    chosen_seed = int(os.environ.get("HUBBUB_FUZZ_SEED") or random.randrange(2**32))
    numbers = count()

    def agrees(operations: list[Operation]) -> None:
        run(live, f"p-{next(numbers)}-{uuid4().hex[:6]}", operations)

    config = settings(
        max_examples=8 * times,
        derandomize=times == 1,
        database=None,
        deadline=None,
        print_blob=True,
        suppress_health_check=list(HealthCheck),
    )
    property = config(given(OPERATIONS)(agrees))
    if times > 1:
        print(f"HUBBUB_FUZZ_SEED={chosen_seed}")
        property = seed(chosen_seed)(property)
    property()
    assert drift(live.table, FEATURES) == {}


def run(live: Live, product: str, operations: list[Operation]) -> None:
    """Run operations on the table and on the twin, and compare. A listing goes on page by page meanwhile."""
    table, twin = live.table, Twin()
    definitions.define(new_context(table), product, ProductBody(ratings="optional"))
    walking, cursor, walking_order = operations[0][4], None, operations[0][6]
    walked: list[str] = []
    always: dict[str, Any] = {}

    def places() -> dict[str, Any]:
        return {
            comment.id: sort_key(walking_order, comment) for comment in twin.listed(walking, walking_order)
        }

    for kind, whose, rating, language, chosen, limit, order in operations:
        author, now = Caller(f"author-{whose}"), datetime.now(UTC)
        mine = twin.find(author.sub)
        if kind == "post":
            body = CommentBody(rating=rating, language=language, text=f"by {whose}")
            if mine is None:
                twin.put(comments.post(new_context(table, now), product, body, author, None).comment)
            else:
                with pytest.raises(Conflict):
                    comments.post(new_context(table, now), product, body, author, None)
        elif kind in ("edit", "hide"):
            patch = (
                CommentPatch(rating=rating, language=language)
                if kind == "edit"
                else CommentPatch(hidden=(rating or 0) > 2)
            )
            if mine:
                who = author if kind == "edit" else ADMIN
                twin.put(comments.patch(new_context(table, now), product, mine.id, patch, who, None).comment)
        elif kind == "vote" and mine and not mine.hidden:
            reader, vote = Caller(f"reader-{limit}"), (product, mine.id, f"reader-{limit}")
            if rating == 4:
                replies.post(new_context(table, now), product, mine.id, ReplyBody(text="."), reader, None)
                twin.put(replace(mine, replies=mine.replies + 1))
            elif vote in twin.votes:
                votes.withdraw(table, product, mine.id, reader)
                twin.votes.remove(vote)
                twin.put(replace(mine, votes=mine.votes - 1))
            else:
                assert (
                    votes.cast(new_context(table, datetime.now(UTC)), product, mine.id, reader)[0].votes
                    == mine.votes + 1
                )
                twin.votes.add(vote)
                twin.put(replace(mine, votes=mine.votes + 1))
        elif kind == "delete" and mine:
            comments.delete(table, product, mine.id, ADMIN)
            twin.comments.remove(mine)
        elif kind == "apply":
            live.drain()
        elif kind == "list":
            live.drain()
            assert walk(table, product, chosen, limit, order) == twin.listed(chosen, order)
        elif kind == "turn":
            live.drain()
            if cursor is None:
                walked, always = [], places()
            page = page_of(table, product, walking, limit, cursor, walking_order)
            walked += [item.id for item in page.items]
            if walking_order in ("newest", "oldest"):
                assert sorted(set(walked), reverse=walking_order == "newest") == walked
            steady = [id for id in walked if id in always]
            assert sorted(set(steady), key=lambda id: always[id]) == steady  # no repeats, in order
            cursor = page.cursor
            if cursor is None:
                assert set(always) <= set(walked)  # no gaps
        now_at = places()
        always = {id: place for id, place in always.items() if now_at.get(id) == place}
    live.drain()
    agree(table, product, twin, random.Random(len(operations)).sample(FILTERS, 12), (100, 3))


# -- races ---------------------------------------------------------------------------------------------


def at_once(*calls: Any) -> list[Any]:
    """Run calls at the same moment. Return the result or the error of each."""
    ready = threading.Barrier(len(calls))

    def call(action: Any) -> Any:
        ready.wait()
        try:
            return action()
        except (Conflict, NotFound, PreconditionFailed) as error:
            return error

    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(call, calls))


def test_one_of_an_authors_simultaneous_posts_is_written(live: Live) -> None:
    me, now = Caller("me"), datetime.now(UTC)
    bodies = [CommentBody(rating=i % 5 + 1, language="en", text=str(i)) for i in range(8)]
    answers = at_once(
        *(
            lambda body=body: comments.post(new_context(live.table, now), "p", body, me, None).comment
            for body in bodies
        )
    )
    [comment] = [answer for answer in answers if isinstance(answer, Comment)]
    assert all(comment.id in str(answer) for answer in answers if answer is not comment)
    assert walk(live.table, "p", Filter(), 100) == [comment]
    again = at_once(
        *(
            lambda body=body: comments.post(new_context(live.table, now), "q", body, me, "key").comment
            for body in bodies
        )
    )
    assert len({answer.id for answer in again}) == 1
    live.drain()
    assert drift(live.table, FEATURES) == {}


def test_every_simultaneous_edit_is_applied_and_of_one_revision_only_one(live: Live) -> None:
    me, now = Caller("me"), datetime.now(UTC)
    made = comments.post(
        new_context(live.table, now), "p", CommentBody(rating=1, language="en", text=""), me, None
    ).comment
    parts = [CommentPatch(rating=5), CommentPatch(language="de"), CommentPatch(text="new")]

    def edit(part: CommentPatch, revisions: set[int] | None) -> Any:
        return lambda: comments.patch(new_context(live.table, now), "p", made.id, part, me, revisions)

    answers = at_once(*(edit(part, None) for part in parts))
    assert not [answer for answer in answers if isinstance(answer, Exception)]
    [comment] = walk(live.table, "p", Filter(), 100)
    assert (comment.rating, comment.language, comment.text) == (5, "de", "new")
    read = comments.find(live.table, "p", made.id, me)
    answers = at_once(*(edit(CommentPatch(text=str(i)), {read.revision}) for i in range(6)))
    lost = [answer for answer in answers if isinstance(answer, PreconditionFailed)]
    assert len(lost) == 5
    live.drain()
    assert drift(live.table, FEATURES) == {}
    assert walk(live.table, "p", Filter((5,), "de"), 100) == walk(live.table, "p", Filter(), 100)


@pytest.mark.parametrize("rounds", [12, pytest.param(1_000, marks=pytest.mark.long)])
def test_nothing_survives_that_races_with_the_deletion_of_its_comment(live: Live, rounds: int) -> None:
    table, me, reader = live.table, Caller("me"), Caller("reader")
    text, now = ReplyBody(text="."), datetime.now(UTC)

    def calls(product: str, id: str, path: ReplyPath) -> list[Any]:
        return [
            lambda: votes.cast(new_context(table, now), product, id, reader),
            lambda: replies.post(new_context(table, now), product, id, text, reader, None),
            lambda: replies.patch(new_context(table, now), path, ReplyPatch(text="b"), me),
            lambda: replies.patch(new_context(table, now), path, ReplyPatch(hidden=True), ADMIN),
        ]

    with live.applied():
        for number in range(rounds):
            product, body = f"p-{number}", CommentBody(rating=5, language="en", text="")
            id = comments.post(new_context(table, now), product, body, me, None).comment.id
            first = replies.post(new_context(table, now), product, id, text, me, None).id
            racing = calls(product, id, ReplyPath(product, id, first))
            at_once(lambda product=product, id=id: comments.delete(table, product, id, ADMIN), *racing)
            assert all(isinstance(at_once(late)[0], NotFound) for late in racing)
    assert {item["sk"].partition("#")[0] for item in scan(table) if item["pk"].startswith("PRODUCT#")} == {
        "LISTED",
        "S",
    }
    assert drift(table, FEATURES) == {}


@pytest.mark.security
def test_a_reply_to_a_comment_that_is_deleted_after_it_was_read_is_not_written(
    live: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, me = live.table, Caller("me")
    body = CommentBody(rating=5, language="en", text="")
    id = comments.post(new_context(table), "p", body, me, None).comment.id
    write = Table.transact

    def delete_first(table: Table, actions: Any) -> Any:
        monkeypatch.undo()
        comments.delete(table, "p", id, ADMIN)
        return write(table, actions)

    monkeypatch.setattr(Table, "transact", delete_first)
    with pytest.raises(NotFound):
        replies.post(new_context(table), "p", id, ReplyBody(text="."), me, None)
    assert table.get(counters.counters_key("p", id), consistent=True) is None
    assert [item["sk"] for item in scan(table) if "REPLY" in item["sk"]] == []


@pytest.mark.parametrize("rounds", [6, pytest.param(300, marks=pytest.mark.long)])
def test_first_votes_and_replies_at_the_same_moment_all_count(live: Live, rounds: int) -> None:
    table, me, text = live.table, Caller("me"), ReplyBody(text=".")
    body = CommentBody(rating=5, language="en", text="")
    for number in range(rounds):
        product, context = f"p-{number}", new_context(table)
        id = comments.post(context, product, body, me, None).comment.id
        at_once(
            *(partial(votes.cast, context, product, id, Caller(f"reader-{n}")) for n in range(4)),
            partial(replies.post, context, product, id, text, me, None),
        )
        found = comments.find(table, product, id, me).comment
        assert (found.votes, found.replies) == (4, 1)
    live.drain()
    assert drift(table, FEATURES) == {}


@pytest.mark.parametrize("rounds", [8, pytest.param(300, marks=pytest.mark.long)])
def test_counters_are_hidden_as_their_comment_is_whatever_comes_first(live: Live, rounds: int) -> None:
    table, me, hide = live.table, Caller("me"), CommentPatch(hidden=True)
    body = CommentBody(rating=5, language="en", text="")
    for number in range(rounds):
        product, context = f"p-{number}", new_context(table)
        id = comments.post(context, product, body, me, None).comment.id
        at_once(
            partial(votes.cast, context, product, id, Caller("reader")),
            partial(comments.patch, context, product, id, hide, ADMIN, None),
        )
        counted = table.get(counters.counters_key(product, id), consistent=True)
        assert counted is None or counted["hidden"]
        [late] = at_once(partial(votes.cast, context, product, id, Caller("late")))
        assert isinstance(late, NotFound)
    live.drain()
    assert drift(table, FEATURES) == {}
