"""The actions that the clients of a history take: they follow from the seed, not from the responses.

So the product and the published designs get the same actions, in the same order for each client.

Some histories mix everything. The others have a theme, and all actions of one kind meet in one place: one
board and player, one player's paths, one product, one lobby. That finds errors which only a few races can
cause. (Groce et al., "Swarm Testing", ISSTA 2012: tests that leave features out find more.) In a part of
these nothing fails, so that stricter invariants can be checked.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any, NamedTuple

from chalicelib.leaderboards.schemas import Operator

VISITORS, CHATTERS = 4, 4
ZONED = "zoned.example"  # a site with a zone and a further host
ZONE = "Pacific/Kiritimati"  # where it is midnight when a history begins
PAGES = ("https://example.org/a", "https://example.org/b", f"https://{ZONED}/c")
CLIENTS = 3  # with an id; the next one has none
GOAL = "sign up #1"
BOARDS: dict[str, Operator] = {"sum": "increment", "best": "best", "latest": "set", "first": "best"}
SERVER = "latest"  # the board for which a token needs the scope `scores`
PATHS = ("oak", "mill", "well", "bridge", "tower")
LIMIT = 3  # paths that a player may find
PRODUCTS = ("garment", "lamp")
LANGUAGES = ("en", "de")
TALK = "talk"  # a product without ratings, where an author may write many comments
BLOCKED = "blocked"  # the word that makes a text pending
# Few instants, so that some views are the same; a client's clock may be far off.
VIEW_SECONDS = (0, 0, -1, -3600, -3700, -90_000, 200, 5_000, -700_000)
POISONED = ("comment", "comment", "comment", "progress", "event", "score", "message")
REQUESTS = {"views": 7, "score": 7, "path": 6, "comment": 5, "edit": 3, "uncomment": 2, "read": 1}
ADMIN_TASKS = {
    "hide": 3,
    "show": 3,
    "approve": 3,
    "withdraw": 2,
    "remove": 1,
    "season": 1,
    "poison": 4,
    "mend": 3,
    "ban": 1,
}
FRAMES = {
    **{"message": 8, "next": 4, "status": 2, "leave": 2, "find": 3, "report": 1, "ping": 1, "typing": 1},
    **{"disconnect": 3, "die": 2, "again": 1, "freeze": 1, "check": 1, "subscribe": 2, "resume": 2},
}

THEMED = 0.6  # the share of histories that have a theme
CROWD = 14  # the most tasks and actions of a client in a theme


class Theme(NamedTuple):
    """The weights of the actions of a history."""

    name: str
    requests: dict[str, int]
    admin_tasks: dict[str, int]
    frames: dict[str, int]
    is_one_player: bool = False  # all visitors are one player with several devices
    is_rush: bool = False  # chatters connect at the same time and send nothing
    calm: float = 0.3  # the share of its histories in which nothing fails


EVERYTHING = Theme("everything", REQUESTS, ADMIN_TASKS, FRAMES)
THEMES = (
    Theme("scores", {"score": 9, "read": 1}, {"remove": 1, "season": 1}, {}),
    Theme("paths", {"path": 1}, {"withdraw": 1}, {}, is_one_player=True),
    Theme("comments", {"comment": 2, "edit": 6, "uncomment": 1}, {"hide": 1, "show": 1, "approve": 2}, {}),
    Theme("arrivals", {}, {}, {}, is_rush=True, calm=0.8),
    Theme("talks", {}, {}, FRAMES),
    Theme("bans", {}, {"ban": 1}, {"report": 3, "disconnect": 5, "find": 2, "message": 1, "resume": 1}),
    Theme(
        "reactions",
        {"comment": 3, "say": 2, "edit": 2, "uncomment": 1, "vote": 6, "unvote": 2, "reply": 3, "unreply": 2},
        {"hide": 1, "show": 1, "approve": 1, "mute": 2, "unmute": 1, "admit": 2},
        {},
    ),
)


class Action(NamedTuple):
    """One action of a client, and its arguments."""

    kind: str
    arguments: Mapping[str, Any]


class Scenario(NamedTuple):
    """The actions of each visitor, of the admin and of each chatter, in order."""

    visitors: list[list[Action]]
    admin: list[Action]
    chatters: list[list[Action]]
    has_queue: bool
    theme: Theme = EVERYTHING
    is_calm: bool = False  # no faults are injected; only races can cause errors


def scenario(seed: int) -> Scenario:
    """Return the scenario of a history. In half of those with scores the admin imports others beside them."""
    plan, rng = _plan(seed), random.Random(f"import {seed}")
    boards = [
        action.arguments["board"] for actions in plan.visitors for action in actions if action.kind == "score"
    ]
    if not boards or rng.random() < 0.5:
        return plan
    values = [rng.choice((1, 3, 5, 20, 99)) for _ in range(rng.randint(2, 5))]
    task = Action("import", {"board": rng.choice(boards), "values": values})
    place = rng.randint(0, 2)
    return plan._replace(admin=[*plan.admin[:place], task, *plan.admin[place:]])


def _plan(seed: int) -> Scenario:
    rng = random.Random(f"plan {seed}")
    if rng.random() < THEMED:
        return _themed(rng, rng.choice(THEMES))
    visitors = [
        [_request(rng, REQUESTS, visitor, number) for number in range(rng.randint(5, 11))]
        for visitor in range(VISITORS)
    ]
    admin = [_admin_task(rng, ADMIN_TASKS, number) for number in range(rng.randint(2, 6))]
    interests = ("", "", "", "a", "a,b")
    chatters = [_socket(rng, FRAMES, rng.choice(interests)) for _ in range(rng.randint(2, CHATTERS))]
    return Scenario(visitors, admin, chatters, rng.random() < 0.5)


def _themed(rng: random.Random, theme: Theme) -> Scenario:
    """Return the scenario of a history in which all actions meet in one place."""
    board = rng.choice(list(BOARDS))
    visitors: list[list[Action]] = []
    admin: list[Action] = []
    chatters: list[list[Action]] = []
    if theme.requests:
        for visitor in range(VISITORS):
            actions = [_request(rng, theme.requests, visitor, n) for n in range(rng.randint(5, CROWD))]
            visitors.append([_in_one_place(rng, action, board, n) for n, action in enumerate(actions)])
    if theme.admin_tasks:
        tasks = [_admin_task(rng, theme.admin_tasks, number) for number in range(rng.randint(3, CROWD))]
        admin = [_in_one_place(rng, task, board) for task in tasks]
    if theme.frames or theme.is_rush:
        chatters = [_socket(rng, theme.frames) for _ in range(rng.randint(3, 9))]
    return Scenario(visitors, admin, chatters, False, theme, rng.random() < theme.calm)


def _in_one_place(rng: random.Random, action: Action, board: str, number: int = 0) -> Action:
    """Move an action to the place where all meet. Each score is later and better than most before it."""
    place = {"board": board, "product": PRODUCTS[0], "player": 0, "visitor": 0}
    if action.kind == "path":
        place["path"] = rng.choice(PATHS)
    if action.kind == "score":
        sign = -1 if board == "best" else 1
        value = sign * (6 * number + rng.randrange(12))
        value -= value % 24 if board == "first" else 0  # some are equal
        place |= {"value": value, "seconds": 10 * number + rng.randrange(20) - 300}
    moved = {name: place[name] for name in place if name in action.arguments}
    return action._replace(arguments={**action.arguments, **moved})


def _draw(rng: random.Random, weights: dict[str, int]) -> str:
    return rng.choices(list(weights), list(weights.values()))[0]


def _request(rng: random.Random, weights: dict[str, int], visitor: int, number: int) -> Action:
    match kind := _draw(rng, weights):
        case "views":
            drawn = [
                (
                    rng.randrange(len(PAGES)),
                    rng.randrange(CLIENTS + 1),
                    rng.choice(VIEW_SECONDS),
                    rng.random() < 0.2,
                )
                for _ in range(rng.randint(1, 3))
            ]
            names = ("page", "client", "seconds", "is_goal")
            return Action(kind, {"events": [dict(zip(names, view, strict=True)) for view in drawn]})
        case "score":
            is_repeat = number and rng.random() < 0.15
            score = {
                "board": rng.choice(list(BOARDS)),
                "id": rng.randrange(number) if is_repeat else number,
                "value": rng.choice((-7, 1, 3, 5, 5, 20, 99)),
                "seconds": -1000 * visitor - number * 7 % 11,
                # A game server submits for the first visitor, beside that visitor's own submissions.
                "player": rng.choice((None, 0)),
            }
            return Action(kind, score)
        case "path":
            return Action(kind, {"path": rng.choice((*PATHS, "a wrong one"))})
        case "comment" | "edit":
            body = {"rating": rng.randint(1, 5), "language": rng.choice(LANGUAGES)}
            body["product"] = rng.choice(PRODUCTS)
            option = ("has_key", 0.7) if kind == "comment" else ("matches", 0.3)
            return Action(kind, body | {option[0]: rng.random() < option[1]})
        case "say":
            return Action(kind, {"has_key": rng.random() < 0.7})
        case "uncomment":
            return Action(kind, {"product": rng.choice(PRODUCTS)})
        case "vote" | "unvote" | "reply" | "unreply":
            place = {"product": rng.choice(PRODUCTS), "author": rng.randrange(2)}
            return Action(kind, place | ({"has_key": rng.random() < 0.7} if kind == "reply" else {}))
    return Action(kind, {"board": rng.choice(list(BOARDS))})


def _admin_task(rng: random.Random, weights: dict[str, int], number: int) -> Action:
    kind = _draw(rng, weights)
    task = {
        "number": number,
        "visitor": rng.randrange(VISITORS),
        "product": rng.choice(PRODUCTS),
        "path": rng.choice(PATHS),
        "board": rng.choice(list(BOARDS)),
        "item": rng.choice(POISONED),
    }
    return Action(kind, task)


def _socket(rng: random.Random, weights: dict[str, int], interests: str = "") -> list[Action]:
    """Return the actions of a chatter: a connection, then frames.

    Half of those with frames are guests, and half of these are the guest that another one is.
    """
    topics = (f"views:{PAGES[0]}", "leaderboard:sum", "challenge:hunt", f"product:{PRODUCTS[0]}")
    kinds = [_draw(rng, weights) for _ in range(rng.randint(3, 10))] if weights else []
    guest = [Action("guest", {"is_shared": rng.random() < 0.5})] * (rng.randrange(2) if weights else 0)
    frames = [Action(kind, {"topic": rng.choice(topics)}) for kind in kinds]
    return [*guest, Action("connect", {"interests": interests}), *frames]
