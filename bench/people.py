"""People who do what they have in mind, and do it again when nobody answers; and what they know by that.

A person does one thing at a time, as a client that waits for its answer. Where the handler died, the table
was busy or the answer was lost, the same request goes out again, with the same id; now and then the person
gives up, and does not know what has come of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from decimal import Decimal
from typing import Any, NamedTuple

import app
from bench.deliveries import surprised
from bench.plans import PAGES, PATHS, Step
from bench.simulation import BEGIN, World
from chalicelib import board_schemas, challenge_schemas, comment_schemas, score_schemas, times, view_schemas
from chalicelib.auth import Caller
from chalicelib.errors import Busy, Conflict, HubbubError, InvalidPath, LimitReached, SlowDown

PATIENT = 0.9  # the share of those who try again
REPEATABLE = {"views", "score", "path", "edit"}  # what may be asked for while the same is still at work

Known = dict[str, Any]


@dataclass
class Facts:
    """What people know for certain, and what they have asked for."""

    viewed: set[tuple[str, str, str]] = field(default_factory=set)  # sent: url, instant, client
    counted: set[tuple[str, str, str]] = field(default_factory=set)  # and accepted
    sent: dict[tuple[str, str, str], Decimal] = field(default_factory=dict)  # board, player, id
    scored: set[tuple[str, str, str]] = field(default_factory=set)
    off_range: set[tuple[str, str, str]] = field(default_factory=set)
    found: set[tuple[str, str]] = field(default_factory=set)  # player, path
    past_limit: set[tuple[str, str]] = field(default_factory=set)
    removed: set[str] = field(default_factory=set)  # players whom an admin has touched
    comments: dict[tuple[str, str], Known | None] = field(default_factory=dict)  # {}: none; None: who knows
    ids: dict[tuple[str, str], str] = field(default_factory=dict)
    hidden: set[tuple[str, str]] = field(default_factory=set)  # comments that an admin has touched
    wrong: list[str] = field(default_factory=list)


class Request(NamedTuple):
    """What is asked for, and what is made of each answer."""

    call: Callable[[], Any]
    done: Callable[[Any], None] = lambda answer: None
    refused: Callable[[HubbubError], None] = lambda error: None
    unknown: Callable[[], None] = lambda: None


class Person:
    """One who wants this and that, in order."""

    def __init__(self, world: World, facts: Facts, name: str, steps: list[Step]) -> None:
        self.world, self.facts, self.name = world, facts, name
        self.caller = Caller(name)
        self.left = list(steps)
        self.waits = False
        self.tries = 0
        self.beside = False  # the same request was at work twice
        self._number = 0

    @property
    def is_done(self) -> bool:
        """Tell whether nothing is left to do."""
        return not self.left and not self.waits

    def act(self) -> None:
        """Ask for the next thing, unless an answer is waited for."""
        if self.waits or not self.left:
            return
        step = self.left.pop(0)
        self._number += 1
        self.tries, self.beside = 0, False
        if request := self.request(step):
            self._ask(step.kind, request)

    def _ask(self, kind: str, request: Request) -> None:
        self.waits = True
        self.tries += 1
        heard: list[bool] = []  # of several that are at work the first that ends is heard

        def done(answer: Any) -> None:
            if not heard:
                heard.append(True)
                self.waits = False
                request.done(getattr(answer, "body", answer))

        def failed(error: BaseException) -> None:
            if heard:
                return
            heard.append(True)
            self.waits = False
            if isinstance(error, HubbubError) and not isinstance(error, Busy):
                request.refused(error)
                return
            surprised(self.world, kind, error)
            if self.tries < 6 and self.world.chance.random() < PATIENT:
                self.world.fault("a request sent again")
                self._ask(kind, request)
            else:
                request.unknown()

        self.world.start(kind, request.call, done, failed)
        if kind in REPEATABLE and self.world.strikes(0.05):
            self.world.fault("a request sent while the same is at work")
            self.beside = True
            self.world.start(kind, request.call, done, failed)

    def request(self, step: Step) -> Request | None:
        """Write down what a wish asks for."""
        makes: Any = getattr(self, f"_{step.kind}")
        made: Request | None = makes(**step.what)
        return made

    # -- wishes ------------------------------------------------------------------------------------

    def _views(self, events: list[dict[str, Any]]) -> Request:
        # Instants of the history's beginning, so that several people send the same views.
        sent = [
            {
                "url": PAGES[one["page"]],
                "time": times.answer(BEGIN + timedelta(seconds=one["seconds"])),
                "clientId": f"client-{one['client']}",
            }
            for one in events
        ]
        keys = [(one["url"], times.key(times.instant(one["time"])), one["clientId"]) for one in sent]
        self.facts.viewed |= set(keys)

        def done(answer: Any) -> None:
            rejected = {one.index for one in answer.rejected}
            self.facts.counted |= {key for i, key in enumerate(keys) if i not in rejected}

        body = view_schemas.ViewsBody(events=list(sent))
        return Request(lambda: app.post_views(body, {"user-agent": "a browser"}, Caller()), done)

    def _score(self, board: str, id: int, value: int, seconds: int, player: int | None) -> Request:
        whose = self.name if player is None else f"person-{player}"
        key = (board, whose, f"{self.name}-{id}")
        amount = self.facts.sent.setdefault(key, Decimal(value))
        time = times.answer(BEGIN + timedelta(seconds=seconds))
        body = score_schemas.ScoreBody(id=key[2], value=amount, time=time, player=whose)
        caller = Caller(self.name, admin=whose != self.name)

        def refused(error: HubbubError) -> None:
            if not self.beside and key not in self.facts.scored:
                self.facts.off_range.add(key)

        path = board_schemas.BoardPath(board=board)
        return Request(lambda: app.post_score(path, body, caller), lambda answer: self._scored(key), refused)

    def _scored(self, key: tuple[str, str, str]) -> None:
        self.facts.scored.add(key)
        self.facts.off_range.discard(key)

    def _path(self, path: str) -> Request:
        key = (self.name, path)
        where = challenge_schemas.ChallengePath(challenge="hunt")
        body = challenge_schemas.PathBody(path=path)

        def done(answer: Any) -> None:
            self.facts.found.add(key)
            self.facts.past_limit.discard(key)

        def refused(error: HubbubError) -> None:
            if isinstance(error, LimitReached):
                if not self.beside and key not in self.facts.found:
                    self.facts.past_limit.add(key)
            elif not isinstance(error, SlowDown) and isinstance(error, InvalidPath) != (path not in PATHS):
                self.facts.wrong.append(f"answers: {path} is refused: {error}")

        return Request(lambda: app.post_challenge_path(where, body, self.caller), done, refused)

    def _comment(self, product: str, rating: int, language: str, has_key: bool) -> Request:
        key = (product, self.name)
        before = self.facts.comments.get(key, {})
        body = comment_schemas.CommentBody(rating=rating, language=language, text=f"so {self._number}")
        token = f"{self.name}-{self._number}" if has_key else None
        where = comment_schemas.ProductPath(product=product)

        def done(answer: Any) -> None:
            if before or answer.text != body.text:
                self.facts.wrong.append(f"answers: {self.name} has two comments on {product}")
            self.facts.comments[key] = {"rating": rating, "language": language, "text": body.text}
            self.facts.ids[key] = answer.id

        def refused(error: HubbubError) -> None:
            if not isinstance(error, Conflict) or (before == {} and (token or self.tries == 1)):
                self.facts.wrong.append(f"answers: {self.name}'s own comment is refused: {error}")
            if not before:
                self.facts.comments[key] = None

        def unknown() -> None:
            if not before:
                self.facts.comments[key] = None

        return Request(lambda: app.post_comment(where, body, self.caller, token), done, refused, unknown)

    def _edit(self, product: str, rating: int, language: str, matches: bool) -> Request | None:
        key = (product, self.name)
        known = self.facts.comments.get(key)
        if not known:
            return None
        where = comment_schemas.CommentPath(product=product, id=self.facts.ids[key])
        body = comment_schemas.CommentPatch(rating=rating, language=language)
        after = known | {"rating": rating, "language": language}

        def done(answer: Any) -> None:
            self.facts.comments[key] = None if self.beside else after  # the other may come after the next

        def unknown(error: HubbubError | None = None) -> None:
            self.facts.comments[key] = None

        etag = "*" if matches else None
        return Request(lambda: app.patch_comment(where, body, self.caller, etag), done, unknown, unknown)

    def _uncomment(self, product: str) -> Request | None:
        key = (product, self.name)
        if not self.facts.comments.get(key):
            return None
        where = comment_schemas.CommentPath(product=product, id=self.facts.ids[key])

        def gone(answer: Any = None) -> None:
            # Who deletes what an admin has hidden may not comment again.
            self.facts.comments[key] = None if key in self.facts.hidden else {}

        def refused(error: HubbubError) -> None:
            if self.tries > 1:  # to be told that there is none is an answer to who asks again
                gone()
            else:
                self.facts.wrong.append(f"answers: {self.name}'s comment on {product} is not there: {error}")

        def unknown() -> None:
            self.facts.comments[key] = None

        return Request(lambda: app.delete_comment(where, self.caller), gone, refused, unknown)

    def _read(self, board: str) -> Request:
        path = board_schemas.BoardPath(board=board)
        return Request(lambda: app.get_entries(path, score_schemas.EntriesQuery()))
