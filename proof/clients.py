"""The clients of a history: visitors and an admin over REST, chatters over sockets, and what they know.

A REST client has one request at a time. When its handler died, the table was busy or the response was lost,
it sends the same request again with the same id. Now and then it gives up: the outcome stays unknown.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from decimal import Decimal
from typing import Any, NamedTuple

import app
from chalicelib import times
from chalicelib.api.auth import Caller
from chalicelib.challenges import schemas as challenge_schemas
from chalicelib.comments import comments as comments_of
from chalicelib.comments import schemas as comment_schemas
from chalicelib.dynamo.items import Item, Key
from chalicelib.dynamo.table import Table
from chalicelib.errors import Busy, Conflict, Forbidden, HubbubError, InvalidPath, LimitReached, SlowDown
from chalicelib.leaderboards import schemas as board_schemas
from chalicelib.views import schemas as view_schemas
from local.engines.gateway import context
from proof.event_sources import Queue, check_error
from proof.network import FaultyGateway
from proof.scenario import PAGES, PATHS, Action
from proof.world import BEGIN, World

PATIENCE = 0.9  # the probability of a retry
CONCURRENT = {"views", "score", "path", "edit", "vote"}  # requests that may be sent twice at the same time
PLANTED = "planted"  # an attribute of malformed items, which the product ignores
ODD = "odd"  # the product that malformed comments are on
GOOD = {"rating": 3, "language": "en", "text": "mended", "author": "somebody", "revision": 1}


@dataclass
class Known:
    """The requests that the clients have sent, and the outcomes that they know."""

    views_sent: set[tuple[str, str, str]] = field(default_factory=set)  # url, instant, client
    views_accepted: set[tuple[str, str, str]] = field(default_factory=set)
    scores_sent: dict[tuple[str, str, str], Decimal] = field(default_factory=dict)  # board, player, id
    scores_accepted: set[tuple[str, str, str]] = field(default_factory=set)
    scores_refused: set[tuple[str, str, str]] = field(default_factory=set)
    paths_accepted: set[tuple[str, str]] = field(default_factory=set)  # player, path
    paths_refused: set[tuple[str, str]] = field(default_factory=set)  # past the limit
    moderated_players: set[str] = field(default_factory=set)  # whom the admin has removed or withdrawn
    comments: dict[tuple[str, str], Any] = field(default_factory=dict)  # {}: none, None: unknown
    comment_ids: dict[tuple[str, str], str] = field(default_factory=dict)
    moderated_comments: set[tuple[str, str]] = field(default_factory=set)  # which the admin has touched
    votes: dict[tuple[str, str], bool | None] = field(default_factory=dict)  # comment, reader; None: unknown
    replies: dict[tuple[str, str, str], bool | None] = field(default_factory=dict)  # product, comment, reply
    texts_with_key: set[str] = field(default_factory=set)  # of replies with an idempotency key
    errors: list[str] = field(default_factory=list)


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
            check_error(self.world, kind, error)
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

    # -- the actions of a visitor ------------------------------------------------------------------

    def _views(self, events: list[dict[str, Any]]) -> Request:
        sent = [
            {
                "url": PAGES[one["page"]],
                "time": times.to_iso(BEGIN + timedelta(seconds=one["seconds"])),
                "clientId": f"client-{one['client']}",
                "referrer": f"https://{self.name}.example/",  # the same view may come with another one
                "campaign": "spring" if one["client"] else "",
            }
            for one in events
        ]
        keys = [(one["url"], times.to_sort_key(times.parse(one["time"])), one["clientId"]) for one in sent]
        self.known.views_sent |= set(keys)

        def done(response: Any) -> None:
            rejected = {one.index for one in response.rejected}
            self.known.views_accepted |= {key for i, key in enumerate(keys) if i not in rejected}

        body = view_schemas.ViewsBody(events=list(sent))
        return Request(lambda: app.post_views(body, {"user-agent": "a browser"}, Caller()), done)

    def _score(self, board: str, id: int, value: int, seconds: int, player: int | None) -> Request:
        owner = self.name if player is None else f"person-{player}"
        key = (board, owner, f"{self.name}-{id}")
        amount = self.known.scores_sent.setdefault(key, Decimal(value))
        time = times.to_iso(BEGIN + timedelta(seconds=seconds))
        body = board_schemas.ScoreBody(id=key[2], value=amount, time=time, player=owner)
        caller = Caller(self.name, admin=owner != self.name)
        path = board_schemas.BoardPath(board=board)

        def done(_: Any) -> None:
            self.known.scores_accepted.add(key)
            self.known.scores_refused.discard(key)

        def refused(_: HubbubError) -> None:
            if not self.was_concurrent and key not in self.known.scores_accepted:
                self.known.scores_refused.add(key)

        return Request(lambda: app.post_score(path, body, caller), done, refused)

    def _path(self, path: str) -> Request:
        key = (self.name, path)
        where = challenge_schemas.ChallengeParams(challenge="hunt")
        body = challenge_schemas.PathBody(path=path)

        def done(_: Any) -> None:
            self.known.paths_accepted.add(key)
            self.known.paths_refused.discard(key)

        def refused(error: HubbubError) -> None:
            if isinstance(error, LimitReached):
                if not self.was_concurrent and key not in self.known.paths_accepted:
                    self.known.paths_refused.add(key)
            elif not isinstance(error, SlowDown) and isinstance(error, InvalidPath) != (path not in PATHS):
                self.known.errors.append(f"responses: {path} is refused: {error}")

        return Request(lambda: app.post_challenge_path(where, body, self.caller), done, refused)

    def _comment(self, product: str, rating: int, language: str, has_key: bool) -> Request:
        key = (product, self.name)
        before = self.known.comments.get(key, {})
        body = comment_schemas.CommentBody(rating=rating, language=language, text=f"so {self._number}")
        token = f"{self.name}-{self._number}" if has_key else None
        where = comment_schemas.ProductPath(product=product)

        def done(response: Any) -> None:
            if before or response.text != body.text:
                self.known.errors.append(f"responses: {self.name} has two comments on {product}")
            self.known.comments[key] = {"rating": rating, "language": language, "text": body.text}
            self.known.comment_ids[key] = response.id

        def unknown() -> None:
            if not before:
                self.known.comments[key] = None

        def refused(error: HubbubError) -> None:
            if not isinstance(error, Conflict) or (before == {} and (token or self.tries == 1)):
                self.known.errors.append(f"responses: the first comment of {self.name} is refused: {error}")
            unknown()

        return Request(lambda: app.post_comment(where, body, self.caller, token), done, refused, unknown)

    def _edit(self, product: str, rating: int, language: str, matches: bool) -> Request | None:
        key = (product, self.name)
        known = self.known.comments.get(key)
        if not known:
            return None
        where = comment_schemas.CommentPath(product=product, id=self.known.comment_ids[key])
        body = comment_schemas.CommentPatch(rating=rating, language=language)
        after = known | {"rating": rating, "language": language}

        def done(_: Any) -> None:
            # Of two concurrent edits the second may be applied after the next request.
            self.known.comments[key] = None if self.was_concurrent else after

        def unknown(error: HubbubError | None = None) -> None:
            self.known.comments[key] = None

        etag = "*" if matches else None
        return Request(lambda: app.patch_comment(where, body, self.caller, etag), done, unknown, unknown)

    def _uncomment(self, product: str) -> Request | None:
        key = (product, self.name)
        if not self.known.comments.get(key):
            return None
        where = comment_schemas.CommentPath(product=product, id=self.known.comment_ids[key])

        def deleted(_: Any = None) -> None:
            # An author who deletes a comment that the admin has hidden may not comment again.
            self.known.comments[key] = None if key in self.known.moderated_comments else {}

        def refused(error: HubbubError) -> None:
            if self.tries > 1:  # the first try has deleted it
                deleted()
            else:
                self.known.errors.append(
                    f"responses: the comment of {self.name} on {product} is not there: {error}"
                )

        def unknown() -> None:
            self.known.comments[key] = None

        return Request(lambda: app.delete_comment(where, self.caller), deleted, refused, unknown)

    def _find_comment(self, product: str, author: int) -> comment_schemas.CommentPath | None:
        """Return the last known comment of a visitor on a product."""
        id = self.known.comment_ids.get((product, f"person-{author}"))
        return comment_schemas.CommentPath(product=product, id=id) if id else None

    def _vote(self, product: str, author: int) -> Request | None:
        if (path := self._find_comment(product, author)) is None:
            return None
        key = (path.id, self.name)

        def done(_: Any) -> None:
            # Of two concurrent votes the second may be cast after the next request.
            self.known.votes[key] = None if self.was_concurrent else True

        def unknown() -> None:
            self.known.votes[key] = None

        def refused(error: HubbubError) -> None:
            if isinstance(error, Forbidden) and self.name != f"person-{author}":
                self.known.errors.append(f"responses: the vote of {self.name} is refused: {error}")
            unknown()

        return Request(lambda: app.put_vote(path, self.caller), done, refused, unknown)

    def _unvote(self, product: str, author: int) -> Request | None:
        if (path := self._find_comment(product, author)) is None:
            return None
        key = (path.id, self.name)

        def done(_: Any) -> None:
            self.known.votes[key] = None if self.known.votes.get(key, False) is None else False

        def unknown(error: HubbubError | None = None) -> None:
            self.known.votes[key] = None

        return Request(lambda: app.delete_vote(path, self.caller), done, unknown, unknown)

    def _reply(self, product: str, author: int, has_key: bool) -> Request | None:
        if (path := self._find_comment(product, author)) is None:
            return None
        text = f"{self.name} replies {self._number}"
        body = comment_schemas.ReplyBody(text=text)
        token = f"{self.name}-{self._number}" if has_key else None
        self.known.texts_with_key |= {text} if has_key else set()

        def done(response: Any) -> None:
            self.known.replies[product, path.id, response.id] = True

        return Request(lambda: app.post_reply(path, body, self.caller, token), done)

    def _unreply(self, product: str, author: int) -> Request | None:
        """Delete any reply to a comment on a product. An admin deletes those of others."""
        known = [key for key, is_there in self.known.replies.items() if key[0] == product and is_there]
        if not known:
            return None
        key = known[author % len(known)]
        path = comment_schemas.ReplyPath(product=product, id=key[1], reply=key[2])
        self.known.replies[key] = None

        def done(_: Any) -> None:
            self.known.replies[key] = False

        def refused(error: HubbubError) -> None:
            self.known.replies[key] = None if not isinstance(error, Forbidden) else True

        return Request(lambda: app.delete_reply(path, self.caller), done, refused)

    def _read(self, board: str) -> Request:
        path = board_schemas.BoardPath(board=board)
        return Request(lambda: app.get_entries(path, board_schemas.EntriesQuery()))


class Admin(Visitor):
    """The admin: hides, withdraws, removes and resets, and plants items that cannot be computed."""

    def __init__(self, world: World, known: Known, actions: list[Action], table: Table, queue: Queue) -> None:
        super().__init__(world, known, "admin", actions)
        self.caller = Caller("admin", admin=True)
        self.planted: dict[tuple[str, str], str] = {}
        self.messages: list[str] = []  # malformed queue messages
        self._table, self._queue = table, queue

    def _hide(self, *, hidden: bool = True, **task: Any) -> Request | None:
        key = (task["product"], f"person-{task['visitor']}")
        if key not in self.known.comment_ids:
            return None
        self.known.moderated_comments.add(key)
        path = comment_schemas.CommentPath(product=key[0], id=self.known.comment_ids[key])
        body = comment_schemas.CommentPatch(hidden=hidden)
        return Request(lambda: app.patch_comment(path, body, self.caller, None))

    def _show(self, **task: Any) -> Request | None:
        return self._hide(hidden=False, **task)

    def _mute(self, *, hidden: bool = True, **task: Any) -> Request | None:
        known = [key for key, is_there in self.known.replies.items() if is_there]
        if not known:
            return None
        product, id, reply = known[task["number"] % len(known)]
        path = comment_schemas.ReplyPath(product=product, id=id, reply=reply)
        return Request(lambda: app.patch_reply(path, comment_schemas.ReplyPatch(hidden=hidden), self.caller))

    def _unmute(self, **task: Any) -> Request | None:
        return self._mute(hidden=False, **task)

    def _withdraw(self, **task: Any) -> Request:
        player = f"person-{task['visitor']}"
        self.known.moderated_players.add(player)
        if task["number"] % 3 == 2:
            all_paths = challenge_schemas.PlayerParams(challenge="hunt", player=player)
            return Request(lambda: app.delete_challenge_player(all_paths))
        path = challenge_schemas.FoundPathParams(challenge="hunt", player=player, path=task["path"])
        return Request(lambda: app.delete_challenge_path(path))

    def _remove(self, **task: Any) -> Request:
        player = f"person-{task['visitor']}"
        self.known.moderated_players.add(player)
        path = board_schemas.PlayerPath(board=task["board"], player=player)
        return Request(lambda: app.delete_player(path, self.caller))

    def _season(self, **task: Any) -> Request:
        path = board_schemas.BoardPath(board=task["board"])
        return Request(lambda: app.post_season(path, board_schemas.SeasonBody(season=1)))

    def _poison(self, **task: Any) -> None:
        """Put a malformed item or message, bypassing the product."""
        number = task["number"]
        self.world.fault("poison planted")
        if task["item"] == "message":
            self.messages.append(f'{{"url": "nowhere", "clientId": "{number}"}}')
            self._queue.put(self.messages[-1])
            return
        bad: Item
        match task["item"]:
            case "comment":
                key = comments_of.comment_key(ODD, f"0{number:025}")._asdict()
                bad = key | GOOD | {"counted": comments_of.COUNTED, "rating": 9}
            case "progress":
                bad = {"pk": f"CHALLENGE#hunt#PLAYER#odd-{number}", "sk": "PROGRESS", "found": "many"}
            case "event":
                bad = {"pk": "URL#https://example.org/odd", "sk": f"T#never#CID#{number}", "series": True}
            case _:
                bad = {"pk": f"PLAYER#odd-{number}", "sk": "BOARD#sum#1", "scale": [0], "score": "much"}
        self._table.put(bad | {PLANTED: True})
        self.planted[bad["pk"], bad["sk"]] = task["item"]

    def _mend(self, **_: Any) -> None:
        """Correct a malformed comment, or delete another malformed item."""
        if not self.planted:
            return
        # A comment first: when a good image replaces a bad one, each half of the change has its own fate.
        place = max(self.planted, key=lambda key: self.planted[key] == "comment")
        kind, (pk, sk) = self.planted.pop(place), place
        if kind == "comment":
            self._table.put({"pk": pk, "sk": sk} | GOOD | comments_of.counted_attributes(ODD, "en", 3))
        else:
            self._table.delete(Key(pk, sk))
        self.world.fault("poison mended or taken away")


class Chatter:
    """A socket client that connects, talks, leaves and vanishes, over several connections in sequence.

    It sends no frame again. `asks_status` makes it send `status` once it is connected.
    """

    def __init__(
        self, world: World, gateway: FaultyGateway, name: str, actions: list[Action], *, asks_status: bool
    ) -> None:
        self.world, self.gateway, self.name = world, gateway, name
        self.left = list(actions)
        self.id = ""
        self.interests = ""
        self.asks_status = asks_status
        self.running = 0  # frames whose handlers are running
        self._connections = self._frames = 0
        self._token = ""

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
        if not self.id or self.id not in self.gateway.open:  # it was disconnected, or refused
            self.connect()
        elif action.kind in ("disconnect", "die", "again"):
            self.disconnect(action.kind)
        elif action.kind != "connect":
            self.send(action.kind, action.arguments.get("topic", ""))

    def connect(self) -> None:
        """Open another connection, with the resume token of the one before if there is one."""
        self._connections += 1
        self.id = id = f"{self.name}-{self._connections}"
        query = {"interests": self.interests} | ({"resume": self._token} if self._token else {})
        self._token = ""
        event = {"requestContext": context(id), "queryStringParameters": query}

        def done(response: Any) -> None:
            if response["statusCode"] == 200:
                self.gateway.open.add(id)
                if self.asks_status:
                    self.send("status", id=id)

        self._start("$connect", app.socket_connect, event, done)

    def send(self, action: str, topic: str = "", id: str = "") -> None:
        """Send a frame over the open connection, or over the connection `id`."""
        self._frames += 1
        id = id or self.id
        if action == "message" and self.running:
            return  # concurrent messages have no order to check
        named = {"topic": topic}
        more = {"message": {"text": f"{id} {self._frames}"}, "report": {"reason": "why"}}
        more |= {"subscribe": named, "unsubscribe": named}
        fields = {"action": action} | more.get(action, {})
        if action == "resume":
            tokens = [one["token"] for one in self.gateway.frames[self.id] if one["type"] == "resume"]
            self._token = tokens[-1] if tokens else ""
        event = {"requestContext": context(id), "body": json.dumps(fields)}
        self._start(action, app.socket_message, event)

    def disconnect(self, kind: str) -> None:
        """Close the connection. API Gateway sends no `$disconnect`, or one, or two."""
        id, self.id = self.id, ""
        self.gateway.open.discard(id)
        code = 1000 if self.world.rng.random() < 0.3 else 1006
        event = {"requestContext": context(id, disconnectStatusCode=code)}
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
            check_error(self.world, name, error)

        self.world.start(name, lambda: handler(event, None), ended, failed)
