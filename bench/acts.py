"""What clients do, each once more with another number: what is measured in units.py."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, NamedTuple

from bench.chat import OurChat
from chalicelib import (
    boards,
    challenges,
    comment_pages,
    comments,
    leaderboards,
    ratings,
    standings,
    submissions,
    traffic,
    views,
)
from chalicelib.auth import Caller
from chalicelib.board_schemas import BoardBody
from chalicelib.challenge_schemas import ChallengeBody
from chalicelib.comment_schemas import CommentBody, CommentsQuery, StatisticsQuery
from chalicelib.errors import InvalidPath
from chalicelib.events import View
from chalicelib.score_schemas import EntriesQuery, ScoreBody, StandingQuery
from chalicelib.settings import Settings
from chalicelib.table import Table
from chalicelib.view_schemas import PageQuery, SeriesQuery

VISITORS = 100  # of pages, that are there before
PLAYERS = 20  # and comments, that are there before
NOON = datetime(2100, 1, 1, 12, 30, tzinfo=UTC)  # of every view: one day, and no TTL has passed
SETTINGS = Settings(secret="bench" * 8)
BODY = CommentBody(rating=5, language="en", text="a" * 300)

Act = Callable[[Table, int], Any]


def now() -> datetime:
    """Say what time it is."""
    return datetime.now(UTC)


class Operation(NamedTuple):
    """What a client does, after what has been done before; `ready` is done once, before it."""

    act: Act
    ready: Callable[[Table], Any] = lambda _: None


def page(number: int) -> str:
    """Name one of ten pages."""
    return f"https://www.example.org/articles/{number % 10:04}"


def sight(number: int, minute: int = 0, who: str = "visitor") -> View:
    """Make one view of one of ten pages."""
    time = NOON + timedelta(minutes=minute, milliseconds=number)
    return View(page(number), time, f"{who}-{number:06}")


def see(table: Table, number: int) -> None:
    """Write one view."""
    views.write(table, [sight(number)], SETTINGS, now())


def seen(table: Table, who: str = "visitor") -> None:
    """Let somebody have been on each page in the same hour."""
    sights = [sight(number, minute=-10, who=who) for number in range(VISITORS)]
    views.write(table, sights, SETTINGS, now())


def board(table: Table) -> None:
    """Make a board with players."""
    body = BoardBody(title="kart", min=Decimal(0), max=Decimal(1_000_000))
    boards.define(table, "kart", body, now())
    chance = random.Random(7)
    for number in range(PLAYERS):
        submit(table, number, f"first-{number}", chance.randint(1, 1_000_000))


def submit(table: Table, number: int, id: str, value: int) -> None:
    """Submit a value for a player."""
    body, caller = ScoreBody(id=id, value=Decimal(value)), Caller(f"player-{number:05}")
    leaderboards.submit(table, "kart", body, caller, now())


def gain(table: Table, number: int) -> None:
    """Let a player gain up to a thousand points."""
    submit(table, number % PLAYERS, f"second-{number}", random.Random(number).randint(1, 1_000))


def challenge(table: Table) -> None:
    """Make a challenge with twelve answers."""
    body = ChallengeBody(title="hunt", paths=[f"path {i:02}" for i in range(12)], limit=12)
    challenges.define(table, "hunt", body)


def guess(table: Table, number: int, path: str) -> None:
    """Submit a path of a player's own."""
    try:
        submissions.submit(table, "hunt", f"player-{number:05}", path, now())
    except InvalidPath:
        return


def comment(table: Table, number: int) -> None:
    """Comment on one of ten products."""
    caller = Caller(f"author-{number:05}")
    comments.post(table, f"shoe-{number % 10}", BODY, caller, None, now())


def commented(table: Table) -> None:
    """Let ten products have ten comments each."""
    for number in range(PLAYERS):
        comment(table, number)


def meet(table: Table, number: int) -> OurChat:
    """Let two come, be matched, and ask for their status."""
    us = OurChat(table)
    for id in (f"a{number}", f"b{number}"):
        us.connect(id)
        us.say(id, '{"action": "status"}')
    return us


def say(table: Table, number: int) -> None:
    """Say something in one of ten pairs."""
    OurChat(table).say(f"a{number % 10}", '{"action": "message", "text": "hello"}')


def talked(table: Table) -> None:
    """Let ten pairs have met, and said something: the first message of a pair looks whether it is told."""
    for number in range(10):
        meet(table, number)
        say(table, number)


def part(table: Table, number: int) -> None:
    """Let two come, and leave one after the other."""
    us = meet(table, number)
    for id in (f"a{number}", f"b{number}"):
        us.disconnect(id)


OPERATIONS = {
    "view, new visitor": Operation(see, lambda t: seen(t, "somebody-else")),
    "view, returning visitor": Operation(see, seen),
    "count of a page": Operation(lambda t, n: views.count(t, PageQuery(url=page(n))), seen),
    "series of a page": Operation(lambda t, n: traffic.series(t, SeriesQuery(url=page(n)), now()), seen),
    "score": Operation(gain, board),
    "rank": Operation(
        lambda t, n: standings.standing(t, "kart", f"player-{n:05}", StandingQuery(), now()), board
    ),
    "top ten": Operation(lambda t, _: standings.entries(t, "kart", EntriesQuery(), SETTINGS, now()), board),
    "path": Operation(lambda t, n: guess(t, n, "path 00"), challenge),
    "wrong guess": Operation(lambda t, n: guess(t, n, "wrong"), challenge),
    "statistics of a challenge": Operation(lambda t, _: challenges.statistics(t, "hunt"), challenge),
    "comment": Operation(comment),
    "page of comments": Operation(
        lambda t, n: comment_pages.newest(t, f"shoe-{n % 10}", CommentsQuery(), SETTINGS, Caller()), commented
    ),
    "statistics of a product": Operation(
        lambda t, n: ratings.statistics(t, f"shoe-{n % 10}", StatisticsQuery()), commented
    ),
    "two meet and part": Operation(part),
    "message": Operation(say, talked),
}
