"""The clients of a history: visitors and an admin over REST, chatters over sockets, and what they know.

A REST client has one request at a time. When its handler died, the table was busy or the response was lost,
it sends the same request again with the same id. Now and then it gives up: the outcome stays unknown.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from functools import partial
from itertools import count
from typing import Any, NamedTuple, get_type_hints

import app
from chalicelib import times
from chalicelib.api.auth import Caller
from chalicelib.chat import bans, reports
from chalicelib.comments import comments as comments_of
from chalicelib.dynamo.items import Item, Key
from chalicelib.dynamo.table import Table
from chalicelib.errors import Busy, Conflict, Forbidden, HubbubError, InvalidPath, LimitReached, SlowDown
from chalicelib.leaderboards import boards, scores
from chalicelib.ranking import deepening
from tests.histories.event_sources import Queue
from tests.histories.network import FaultyGateway
from tests.histories.scenario import BLOCKED, CLIENTS, GOAL, PAGES, PATHS, SERVER, TALK, ZONED, Action
from tests.histories.world import BEGIN, World
from tests.support.contexts import new_context
from tests.support.gateway import request

PATIENCE = 0.9  # the probability of a retry
CONCURRENT = {"views", "score", "path", "edit", "vote"}  # requests that may be sent twice at the same time
SENDER = "sender-"  # before the name of the sender of an event without a client's id, as its campaign
PLANTED = "planted"  # an attribute of malformed items, which the product ignores
HIDE = {"hidden": True}
ODD = "odd"  # the product that malformed comments are on
HUNT = {"challenge": "hunt"}
GOOD: Item = {"rating": 3, "language": "en", "text": "mended", "author": "somebody", "revision": 1}


def call(operation: str, **given: Any) -> Callable[[], Any]:
    """Return a call of an operation of app.py, whose `path`, `query` and `body` are given as dicts.

    A query that is not given has its defaults.
    """
    function: Any = getattr(app, operation)
    types = get_type_hints(function)
    given |= {"query": given.get("query", {})} if "query" in types else {}
    structs = {part: types[part](**given[part]) for part in ("path", "query", "body") if part in given}
    reader = {"caller": Caller("reader")} if "caller" in types else {}  # its answers are not cached
    return partial(function, **reader | given | structs)


@dataclass
class Known:
    """The requests that the clients have sent, and the outcomes that they know."""

    views_sent: set[tuple[str, ...]] = field(default_factory=set)  # url, instant, client or sender, goal
    views_accepted: set[tuple[str, ...]] = field(default_factory=set)
    scores_sent: dict[tuple[str, str, str], Decimal] = field(default_factory=dict)  # board, player, id
    scores_accepted: set[tuple[str, str, str]] = field(default_factory=set)
    scores_refused: set[tuple[str, str, str]] = field(default_factory=set)  # at least once
    paths_accepted: set[tuple[str, str]] = field(default_factory=set)  # player, path
    paths_refused: set[tuple[str, str]] = field(default_factory=set)  # past the limit, at least once
    moderated_players: set[str] = field(default_factory=set)  # whom the admin has removed or withdrawn
    comments: dict[tuple[str, str], Any] = field(default_factory=dict)  # {}: none, None: unknown
    comment_ids: dict[tuple[str, str], str] = field(default_factory=dict)
    moderated_comments: set[tuple[str, str]] = field(default_factory=set)  # which the admin has touched
    approved_texts: set[str] = field(default_factory=set)  # ids that the admin may have approved or shown
    votes: dict[tuple[str, str], bool | None] = field(default_factory=dict)  # comment, reader; None: unknown
    replies: dict[tuple[str, str, str], bool | None] = field(default_factory=dict)  # product, comment, reply
    texts_with_key: set[str] = field(default_factory=set)  # of replies with an idempotency key
    said: dict[str, bool] = field(default_factory=dict)  # texts of the discussion; whether it is acknowledged
    said_with_key: set[str] = field(default_factory=set)
    guest: str = ""  # the token that some chatters share
    frames: dict[str, list[Sent]] = field(default_factory=lambda: defaultdict(list))  # by connection
    refs: Iterator[int] = field(default_factory=partial(count, 1))  # of frames, each used once
    bans_sent: dict[str, datetime] = field(default_factory=dict)  # digest of an address or a subject
    bans_done: dict[str, datetime] = field(default_factory=dict)
    openings: list[tuple[datetime, tuple[str, ...], datetime, int]] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)


@dataclass
class Sent:
    """A frame that a chatter has sent. `is_alone` tells that no other frame was handled at the same time."""

    action: str
    ref: str
    pair: str
    is_alone: bool
    text: str = ""


class Request(NamedTuple):
    """A request, and how each outcome changes what the client knows."""

    call: Callable[[], Any]
    done: Callable[[Any], None] = lambda response: None
    refused: Callable[[HubbubError], None] = lambda error: None
    unknown: Callable[[], None] = lambda: None


class Visitor:
    """A REST client that takes its actions in order."""

    def __init__(self, world: World, known: Known, name: str, actions: list[Action]) -> None:
        self.world, self.known, self.name = world, known, name
        self.caller = Caller(name)
        self.left = list(actions)
        self.waits = False
        self.tries = 0
        self.was_concurrent = False  # the request was sent twice at the same time
        self._number = 0

    @property
    def is_done(self) -> bool:
        """Return whether no action is left."""
        return not self.left and not self.waits

    def act(self) -> None:
        """Run the next action, unless a response is awaited."""
        if self.waits or not self.left:
            return
        action = self.left.pop(0)
        self._number += 1
        self.tries, self.was_concurrent = 0, False
        build: Any = getattr(self, f"_{action.kind}")
        request: Request | None = build(**action.arguments)
        if request:
            self._send(action.kind, request)

    def _send(self, kind: str, request: Request) -> None:
        self.waits = True
        self.tries += 1
        ended: list[bool] = []  # of two concurrent requests the first to end counts

        def done(response: Any) -> None:
            if not ended:
                ended.append(True)
                self.waits = False
                request.done(getattr(response, "body", response))

        def failed(error: BaseException) -> None:
            if ended:
                return
            ended.append(True)
            self.waits = False
            if isinstance(error, HubbubError) and not isinstance(error, Busy):
                request.refused(error)
                return
            self.world.check_error(kind, error)
            if self.tries < 6 and self.world.rng.random() < PATIENCE:
                self.world.fault("a request sent again")
                self._send(kind, request)
            else:
                request.unknown()

        self.world.start(kind, request.call, done, failed)
        if kind in CONCURRENT and self.world.occurs(0.05):
            self.world.fault("a request sent while the same is at work")
            self.was_concurrent = True
            self.world.start(kind, request.call, done, failed)

    def _changing(self, known: dict[Any, Any], key: Any, after: Any, call: Callable[[], Any]) -> Request:
        """Return a request after which the client knows this value, and nothing when it has failed."""

        def done(_: Any) -> None:
            # Of two concurrent requests the second may be applied after the next request.
            known[key] = None if self.was_concurrent else after

        def unknown(error: HubbubError | None = None) -> None:
            known[key] = None

        return Request(call, done, unknown, unknown)

    def _report(self, text: str) -> None:
        self.known.errors.append(f"responses: {text}")

    # -- the actions of a visitor ------------------------------------------------------------------

    def _views(self, events: list[dict[str, Any]]) -> Request:
        sent = [self._event(**event) for event in events]
        keys = [
            (
                PAGES[event["page"]],
                times.to_sort_key(times.parse(made["time"])),
                made.get("clientId", made["campaign"]),
                made.get("goal", ""),
            )
            for event, made in zip(events, sent, strict=True)
        ]
        self.known.views_sent |= set(keys)

        def done(response: Any) -> None:
            rejected = {rejection.index for rejection in response.rejected}
            self.known.views_accepted |= {key for i, key in enumerate(keys) if i not in rejected}

        headers = {"user-agent": f"Mozilla/5.0 (X11; Linux) Firefox/1 {self.name}", "accept-language": "de"}
        return Request(call("post_views", body={"events": sent}, headers=headers, caller=Caller()), done)

    def _event(self, page: int, client: int, seconds: int, is_goal: bool) -> dict[str, str]:
        """Return an event. One without a client's id has the sender's name as its campaign."""
        # The same view may come with another referrer, with another host of one, and with none.
        referrer = f"https://{'m.' * (client % 2)}{self.name}.example/" if page else ""
        event = {
            "url": PAGES[page].replace(ZONED, "www." * (client % 2) + ZONED),
            "time": times.to_iso(BEGIN + timedelta(seconds=seconds)),
            "referrer": referrer,
            "campaign": "spring" if client else "",
        }
        event |= {"clientId": f"client-{client}"} if client < CLIENTS else {"campaign": SENDER + self.name}
        return event | ({"goal": GOAL} if is_goal else {})

    def _score(self, board: str, id: int, value: int, seconds: int, player: int | None) -> Request:
        owner = self.name if player is None else f"person-{player}"
        key = (board, owner, f"{self.name}-{id}")
        amount = self.known.scores_sent.setdefault(key, Decimal(value))
        time = times.to_iso(BEGIN + timedelta(seconds=seconds))
        body: dict[str, Any] = {"id": key[2], "value": amount, "time": time, "player": owner}
        body |= {"metadata": {"id": key[2]}} if board == "first" else {}

        def refused(_: HubbubError) -> None:
            self.known.scores_refused |= set() if self.was_concurrent else {key}

        caller = Caller(self.name, admin=owner != self.name, scores=board == SERVER)
        submit = call("post_score", path={"board": board}, body=body, caller=caller)
        return Request(submit, lambda _: self.known.scores_accepted.add(key), refused)

    def _path(self, path: str) -> Request:
        key = (self.name, path)

        def refused(error: HubbubError) -> None:
            if isinstance(error, LimitReached):
                self.known.paths_refused |= set() if self.was_concurrent else {key}
            elif not isinstance(error, SlowDown) and isinstance(error, InvalidPath) != (path not in PATHS):
                self._report(f"{path} is refused: {error}")

        submit = call("post_challenge_path", path=HUNT, body={"path": path}, caller=self.caller)
        return Request(submit, lambda _: self.known.paths_accepted.add(key), refused)

    def _comment(self, product: str, rating: int, language: str, has_key: bool) -> Request:
        key = (product, self.name)
        before = self.known.comments.get(key, {})
        body = {"rating": rating, "language": language, "text": self._text("so")}
        token = self._token(has_key)

        def done(response: Any) -> None:
            if before or response.text != body["text"]:
                self._report(f"{self.name} has two comments on {product}")
            self.known.comments[key] = body
            self.known.comment_ids[key] = response.id

        def unknown() -> None:
            if not before:
                self.known.comments[key] = None

        def refused(error: HubbubError) -> None:
            if not isinstance(error, Conflict) or (before == {} and (token or self.tries == 1)):
                self._report(f"the first comment of {self.name} is refused: {error}")
            unknown()

        given = {"path": {"product": product}, "body": body, "caller": self.caller}
        return Request(call("post_comment", **given, idempotency_key=token), done, refused, unknown)

    def _say(self, has_key: bool) -> Request:
        """Write one more comment of the discussion."""
        text = self._text(f"{self.name} says")
        self.known.said[text] = False
        self.known.said_with_key |= {text} if has_key else set()

        def done(_: Any) -> None:
            self.known.said[text] = True

        body = {"language": "en", "text": text}
        given = {"path": {"product": TALK}, "body": body, "caller": self.caller}
        return Request(call("post_comment", **given, idempotency_key=self._token(has_key)), done)

    def _edit(self, product: str, rating: int, language: str, matches: bool) -> Request | None:
        key = (product, self.name)
        if not (known := self.known.comments.get(key)):
            return None
        body, etag = {"rating": rating, "language": language}, "*" if matches else None
        body |= {"text": self._text("now")} if self._number % 2 else {}
        given = {"path": self._find_comment(*key), "body": body, "caller": self.caller}
        edit = call("patch_comment", **given, if_match=etag)
        return self._changing(self.known.comments, key, known | body, edit)

    def _uncomment(self, product: str) -> Request | None:
        key = (product, self.name)
        if not self.known.comments.get(key):
            return None

        def deleted(_: Any) -> None:
            # An author who deletes a comment that the admin has hidden may not comment again.
            self.known.comments[key] = None if key in self.known.moderated_comments else {}

        def refused(error: HubbubError) -> None:
            if self.tries == 1:  # else the first try has deleted it
                self._report(f"the comment of {self.name} on {product} is not there: {error}")
            else:
                deleted(None)

        delete = call("delete_comment", path=self._find_comment(*key), caller=self.caller)
        return self._changing(self.known.comments, key, {}, delete)._replace(done=deleted, refused=refused)

    def _vote(self, product: str, author: int) -> Request | None:
        if (path := self._find_comment(product, f"person-{author}")) is None:
            return None
        key = (path["id"], self.name)

        def refused(error: HubbubError) -> None:
            if isinstance(error, Forbidden) and self.name != f"person-{author}":
                self._report(f"the vote of {self.name} is refused: {error}")
            self.known.votes[key] = None

        vote = call("put_vote", path=path, caller=self.caller)
        return self._changing(self.known.votes, key, True, vote)._replace(refused=refused)

    def _unvote(self, product: str, author: int) -> Request | None:
        if (path := self._find_comment(product, f"person-{author}")) is None:
            return None
        key = (path["id"], self.name)
        after = None if self.known.votes.get(key, False) is None else False
        unvote = call("delete_vote", path=path, caller=self.caller)
        return self._changing(self.known.votes, key, after, unvote)

    def _reply(self, product: str, author: int, has_key: bool) -> Request | None:
        if (path := self._find_comment(product, f"person-{author}")) is None:
            return None
        text = self._text(f"{self.name} replies")
        self.known.texts_with_key |= {text} if has_key else set()

        def done(response: Any) -> None:
            self.known.replies[product, path["id"], response.id] = True

        given = {"path": path, "body": {"text": text}, "caller": self.caller}
        return Request(call("post_reply", **given, idempotency_key=self._token(has_key)), done)

    def _unreply(self, product: str, author: int) -> Request | None:
        """Delete any reply to a comment on a product. An admin deletes those of others."""
        if (key := self._find_reply(author, product)) is None:
            return None
        self.known.replies[key] = None

        def refused(error: HubbubError) -> None:
            self.known.replies[key] = True if isinstance(error, Forbidden) else None

        delete = call("delete_reply", path=_reply_path(key), caller=self.caller)
        return self._changing(self.known.replies, key, False, delete)._replace(refused=refused)

    def _read(self, board: str) -> Request:
        return Request(call("get_entries", path={"board": board}, query={}))

    # -- what the actions refer to -----------------------------------------------------------------

    def _text(self, beginning: str) -> str:
        """Return a text, which is pending in one of three cases."""
        return f"{beginning} {self._number}{f' {BLOCKED}' * (self._number % 3 == 0)}"

    def _token(self, has_key: bool) -> str | None:
        return f"{self.name}-{self._number}" if has_key else None

    def _find_comment(self, product: str, author: str) -> dict[str, str] | None:
        """Return the path of the last known comment of an author on a product."""
        id = self.known.comment_ids.get((product, author))
        return {"product": product, "id": id} if id else None

    def _find_reply(self, number: int, product: str = "") -> tuple[str, str, str] | None:
        """Return one of the replies that are known to be there, on a product or on any."""
        all_of_them = self.known.replies.items()
        known = [key for key, is_there in all_of_them if is_there and key[0].startswith(product)]
        return known[number % len(known)] if known else None


def _reply_path(key: tuple[str, str, str]) -> dict[str, str]:
    return dict(zip(("product", "id", "reply"), key, strict=True))


class Admin(Visitor):
    """The admin: hides, withdraws, removes and resets, and plants items that cannot be computed."""

    def __init__(self, world: World, known: Known, actions: list[Action], table: Table, queue: Queue) -> None:
        super().__init__(world, known, "admin", actions)
        self.caller = Caller("admin", admin=True)
        self.planted: dict[Key, str] = {}
        self.messages: list[str] = []  # malformed queue messages
        self._table, self._queue = table, queue

    def _hide(self, product: str, visitor: int, body: Any = HIDE, **_: Any) -> Request | None:
        key = (product, f"person-{visitor}")
        if (path := self._find_comment(*key)) is None:
            return None
        self.known.moderated_comments.add(key)
        self.known.approved_texts |= set() if body == HIDE else {path["id"]}
        given = {"path": path, "body": body, "caller": self.caller}
        return Request(call("patch_comment", **given, if_match=None))

    def _show(self, **task: Any) -> Request | None:
        return self._hide(**task, body={"hidden": False})

    def _approve(self, **task: Any) -> Request | None:
        return self._hide(**task, body={"state": "approved"})

    def _mute(self, number: int, body: Any = HIDE, **_: Any) -> Request | None:
        if (key := self._find_reply(number)) is None:
            return None
        self.known.approved_texts |= set() if body == HIDE else {key[2]}
        given = {"path": _reply_path(key), "body": body, "caller": self.caller}
        return Request(call("patch_reply", **given))

    def _unmute(self, **task: Any) -> Request | None:
        return self._mute(**task, body={"hidden": False})

    def _admit(self, **task: Any) -> Request | None:
        return self._mute(**task, body={"state": "approved"})

    def _withdraw(self, visitor: int, number: int, path: str, **_: Any) -> Request:
        player = HUNT | {"player": f"person-{visitor}"}
        self.known.moderated_players.add(player["player"])
        if number % 3 == 2:
            return Request(call("delete_challenge_player", path=player))
        return Request(call("delete_challenge_path", path=player | {"path": path}))

    def _remove(self, visitor: int, board: str, **_: Any) -> Request:
        player = f"person-{visitor}"
        self.known.moderated_players.add(player)
        return Request(call("delete_player", path={"board": board, "player": player}, caller=self.caller))

    def _import(self, board: str, values: list[int]) -> Request:
        """Prepare the ranking for scores of new players, as `ops import-scores` does, and submit them."""
        keys = [(board, f"imported-{number}", "1") for number in range(len(values))]
        self.known.scores_sent |= dict(zip(keys, map(Decimal, values), strict=True))

        def submit() -> None:
            now = self.world.clock()
            found = boards.find(new_context(self._table, now), board)
            numbers = [
                scores.number(found, player, Decimal(value), times.to_sort_key(now))
                for value, (_, player, _) in zip(values, keys, strict=True)
            ]
            deepening.prepare(self._table, found.ranking, numbers)
            for value, (_, player, id) in zip(values, keys, strict=True):
                body = {"id": id, "value": Decimal(value), "player": player}
                call("post_score", path={"board": board}, body=body, caller=self.caller)()

        return Request(submit, lambda _: self.known.scores_accepted.update(keys))

    def _season(self, board: str, **_: Any) -> Request:
        return Request(call("post_season", path={"board": board}, body={"season": 1}))

    def _ban(self, number: int, **_: Any) -> Request:
        def ban() -> list[str]:
            listed = call("get_chat_reports", query={})().items
            for id in [listed[number % len(listed)].id] if listed else []:
                item = self._table.get(Key(reports.PARTITION, id.replace(reports.ID_SEPARATOR, "#"))) or {}
                digests = [item[name] for name in bans.DIGESTS if name in item]
                self.known.bans_sent = dict.fromkeys(digests, self.world.now) | self.known.bans_sent
                call("post_chat_report", path={"id": id}, body={"action": "ban"})()
                return digests
            return []

        return Request(ban, lambda all: self.known.bans_done.update(dict.fromkeys(all, self.world.now)))

    def _poison(self, number: int, item: str, **_: Any) -> None:
        """Put a malformed item or message, bypassing the product."""
        self.world.fault("poison planted")
        if item == "message":
            self.messages.append(f'{{"url": "nowhere", "clientId": "{number}"}}')
            self._queue.put(self.messages[-1])
            return
        bad_comment = GOOD | {"rating": 9}
        malformed: dict[str, tuple[Key, Item]] = {
            "comment": (comments_of.comment_key(ODD, f"0{number:025}"), bad_comment),
            "progress": (Key(f"CHALLENGE#hunt#PLAYER#odd-{number}", "PROGRESS"), {"found": "many"}),
            "event": (Key("URL#https://example.org/odd", f"T#never#CID#{number}"), {"days": "many"}),
            "score": (Key(f"PLAYER#odd-{number}", "BOARD#sum#1"), {"scale": [0], "score": "much"}),
        }
        key, attributes = malformed[item]
        self._table.put({**key._asdict(), **attributes, PLANTED: True})
        self.planted[key] = item

    def _mend(self, **_: Any) -> None:
        """Correct a malformed comment, or delete another malformed item."""
        if not self.planted:
            return
        # A comment first: when a good image replaces a bad one, each half of the change has its own fate.
        key = max(self.planted, key=lambda key: self.planted[key] == "comment")
        if self.planted.pop(key) == "comment":
            self._table.put(key._asdict() | GOOD)
        else:
            self._table.delete(key)
        self.world.fault("poison mended or taken away")


class Chatter:
    """A socket client that connects, talks, leaves and vanishes, over several connections in sequence.

    It sends no frame again. If it does more than connect, it asks for its status once it is connected. Half
    of the chatters confirm messages, and name the pair that a frame is meant for.
    """

    def __init__(
        self, world: World, gateway: FaultyGateway, known: Known, number: int, actions: list[Action]
    ) -> None:
        self.world, self.gateway, self.known = world, gateway, known
        self.left = list(actions)
        self.id = self.interests = ""
        self.running = 0  # frames whose handlers are running
        self._name, self._number = f"chatter-{number}", number
        self._confirms = number % 2 == 1
        self._confirmed = 0  # frames of the open connection, whose messages are confirmed
        self._asks_status = len(actions) > 1
        self._connections = 0
        self._resume = self._guest = ""  # tokens

    @property
    def is_done(self) -> bool:
        """Return whether no action is left."""
        return not self.left and not self.running

    def act(self) -> None:
        """Run the next action. A frame may be sent while the one before it is still being handled."""
        if not self.left or (self.running and not self.world.occurs(0.1)):
            return
        action = self.left.pop(0)
        if action.kind == "connect":
            self.interests = action.arguments["interests"]
        if action.kind == "guest":
            self._sign_in(action.arguments["is_shared"])
        elif not self.id or self.id not in self.gateway.open:  # it was disconnected, or refused
            self.connect()
        elif action.kind in ("disconnect", "die", "again", "freeze"):
            self.disconnect(action.kind)
        elif action.kind != "connect":
            self._confirm()
            self.send(action.kind, action.arguments.get("topic", ""))

    def _sign_in(self, is_shared: bool) -> None:
        if is_shared and self.known.guest:
            self._guest = self.known.guest
            return

        def done(response: Any) -> None:
            self._guest = self.known.guest = response.token

        sign_in = call("post_guest", body={}, caller=Caller(address=f"10.0.0.{self._number}"))
        self._start("guest", lambda event, context: sign_in(), None, done)

    def connect(self) -> None:
        """Open another connection, with the resume token of the one before if there is one."""
        self._connections += 1
        self.id = id = f"{self._name}-{self._connections}"
        tokens = {"resume": self._resume, "token": self._guest}
        query = {"interests": self.interests} | {name: token for name, token in tokens.items() if token}
        query |= {"receipts": "1"} if self._confirms else {}
        self._resume, self._confirmed = "", 0
        address = f"10.0.{self._connections if self._guest else 0}.{self._number}"  # a guest has several
        opened, sent = request(id, identity={"sourceIp": address}), self.world.now
        digests = bans.find_network(app.stage, opened), bans.find_subject(app.stage, self._guest)

        def done(response: Any) -> None:
            self.known.openings.append((sent, digests, self.world.now, response["statusCode"]))
            if response["statusCode"] == 200:
                self.gateway.open.add(id)
                if self._asks_status:
                    self.send("status", id=id)

        event = {"requestContext": opened, "queryStringParameters": query}
        self._start("$connect", app.socket_connect, event, done)

    def send(self, action: str, topic: str = "", id: str = "") -> None:
        """Send a frame over the open connection, or over the connection `id`."""
        id = id or self.id
        if action == "message" and self.running:
            return  # concurrent messages have no order to check
        if action == "resume":
            tokens = [frame["token"] for frame in self.gateway.frames[self.id] if frame["type"] == "resume"]
            self._resume = tokens[-1] if tokens else ""
        pair, ref = self._pair(id), str(next(self.known.refs))
        text = f"{id} {ref} {pair or '-'}"
        more = {"message": {"text": text}, "report": {"reason": text}, "subscribe": {"topic": topic}}
        fields = {"action": action, "ref": ref} | ({"pair": pair} if pair else {}) | more.get(action, {})
        self._record(id, Sent(action, ref, pair, not self.running, text))
        self._start(action, app.socket_message, {"requestContext": request(id), "body": json.dumps(fields)})

    def _record(self, id: str, sent: Sent) -> None:
        if not sent.is_alone:  # nor were the others
            for recent in self.known.frames[id][-3:]:
                recent.is_alone = False
        self.known.frames[id].append(sent)

    def _pair(self, id: str) -> str:
        """Return the pair that was announced last, or an empty text without one."""
        told = [frame for frame in self.gateway.frames[id] if frame["type"] in ("status", "system")]
        return str(told[-1].get("pair", "")) if told else ""

    def _confirm(self) -> None:
        """Confirm new messages, if this client does."""
        frames = self.gateway.frames[self.id]
        ids = [frame["id"] for frame in frames[self._confirmed :] if "id" in frame]
        self._confirmed = len(frames)
        if ids and not self.running:
            body = json.dumps({"action": "received", "ids": ids})
            self._start("received", app.socket_message, {"requestContext": request(self.id), "body": body})

    def disconnect(self, kind: str) -> None:
        """Close the connection. API Gateway sends no `$disconnect`, or one, or two, or does not know yet."""
        id, self.id = self.id, ""
        if kind == "freeze":
            self.world.fault("a client out of reach")
            self.gateway.frozen.add(id)
            return
        self.gateway.open.discard(id)
        code = 1000 if self.world.rng.random() < 0.3 else 1006
        event = {"requestContext": request(id, disconnectStatusCode=code)}
        for _ in range({"disconnect": 1, "again": 2, "die": 0}[kind]):
            self._start("$disconnect", app.socket_disconnect, event)
        if kind != "disconnect":
            self.world.fault("$disconnect twice" if kind == "again" else "$disconnect never comes")

    def _start(self, name: str, handler: Any, event: Any, done: Any = lambda response: None) -> None:
        self.running += 1

        def ended(response: Any) -> None:
            self.running -= 1
            done(response)

        def failed(error: BaseException) -> None:
            self.running -= 1
            self.world.check_error(name, error)

        self.world.start(name, lambda: handler(event, None), ended, failed)
