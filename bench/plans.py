"""What people want to do in a history: it follows from the seed, and not from what comes of it.

So the product and the published designs are given the same wishes, in the same order for each person.

Some histories have a bit of everything. The others have a theme, and all of one thing meets in one place:
one board and player, one player's paths, one product, one lobby. What a few races alone can break is
broken there. (Groce et al., "Swarm Testing", ISSTA 2012: tests that leave features out find more.) In a part
of these nothing fails: there more can be asked of what comes of it.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any, NamedTuple

from chalicelib.board_schemas import Operator

PEOPLE, CHATTERS = 4, 4
PAGES = ("https://example.org/a", "https://example.org/b")
BOARDS: dict[str, Operator] = {"sum": "increment", "best": "best", "latest": "set"}
PATHS = ("oak", "mill", "well", "bridge", "tower")
LIMIT = 3  # of paths that a player may find
PRODUCTS = ("garment", "lamp")
LANGUAGES = ("en", "de")
WISHES = {"views": 7, "score": 7, "path": 6, "comment": 5, "edit": 3, "uncomment": 2, "read": 1}
OF_ADMINS = {"hide": 3, "show": 3, "withdraw": 2, "remove": 1, "season": 1, "poison": 4, "mend": 3}
FRAMES = {
    **{"message": 8, "next": 4, "status": 2, "leave": 2, "find": 3, "report": 1, "ping": 1, "typing": 1},
    **{"disconnect": 3, "die": 2, "again": 1, "subscribe": 2, "resume": 2},
}

THEMED = 0.6  # of the histories have a theme
CROWD = 14  # of tasks and steps at most, in a theme


class Theme(NamedTuple):
    """What a history is about: the wishes, tasks and frames that are drawn, and where they meet."""

    name: str
    wishes: dict[str, int]
    of_admins: dict[str, int]
    frames: dict[str, int]
    is_one_player: bool = False  # all people are one, with several devices
    is_rush: bool = False  # chatters come all at once, and say nothing
    calm: float = 0.3  # the share of its histories in which nothing fails


EVERYTHING = Theme("everything", WISHES, OF_ADMINS, FRAMES)
THEMES = (
    Theme("scores", {"score": 9, "read": 1}, {"remove": 1, "season": 1}, {}),
    Theme("paths", {"path": 1}, {"withdraw": 1}, {}, is_one_player=True),
    Theme("comments", {"comment": 2, "edit": 6, "uncomment": 1}, {"hide": 1, "show": 1}, {}),
    Theme("arrivals", {}, {}, {}, is_rush=True, calm=0.8),
    Theme("talks", {}, {}, FRAMES),
)


class Step(NamedTuple):
    """One wish, and what it takes."""

    kind: str
    what: Mapping[str, Any]


class Plan(NamedTuple):
    """What each person wants, what the admin does, and what each chatter does, in order."""

    people: list[list[Step]]
    admin: list[Step]
    chatters: list[list[Step]]
    has_queue: bool
    theme: Theme = EVERYTHING
    is_calm: bool = False  # nothing fails: all that goes wrong comes of races


def plan(seed: int) -> Plan:
    """Make the plan of a history."""
    chance = random.Random(f"plan {seed}")
    if chance.random() < THEMED:
        return _themed(chance, chance.choice(THEMES))
    people = [
        [_wish(chance, WISHES, person, number) for number in range(chance.randint(5, 11))]
        for person in range(PEOPLE)
    ]
    admin = [_task(chance, OF_ADMINS, number) for number in range(chance.randint(2, 6))]
    chatters = [
        [Step("connect", {"interests": chance.choice(("", "", "", "a", "a,b"))}), *_frames(chance, FRAMES)]
        for _ in range(chance.randint(2, CHATTERS))
    ]
    return Plan(people, admin, chatters, chance.random() < 0.5)


def _themed(chance: random.Random, theme: Theme) -> Plan:
    """Make the plan of a history in which all meet in one place."""
    board = chance.choice(list(BOARDS))
    people: list[list[Step]] = []
    admin: list[Step] = []
    chatters: list[list[Step]] = []
    if theme.wishes:
        for person in range(PEOPLE):
            steps = [_wish(chance, theme.wishes, person, n) for n in range(chance.randint(5, CROWD))]
            people.append([_met(chance, step, board, n) for n, step in enumerate(steps)])
        tasks = [_task(chance, theme.of_admins, number) for number in range(chance.randint(3, CROWD))]
        admin = [_met(chance, task, board) for task in tasks]
    if theme.frames or theme.is_rush:
        for _ in range(chance.randint(3, 9)):
            frames = _frames(chance, theme.frames) if theme.frames else []
            chatters.append([Step("connect", {"interests": ""}), *frames])
    return Plan(people, admin, chatters, False, theme, chance.random() < theme.calm)


def _met(chance: random.Random, step: Step, board: str, number: int = 0) -> Step:
    """Answer a step at the place where all meet; each score is later and better than most before it."""
    place = {"board": board, "product": PRODUCTS[0], "player": 0, "person": 0}
    if step.kind == "path":
        place["path"] = chance.choice(PATHS)
    if step.kind == "score":
        sign = -1 if board == "best" else 1
        place |= {
            "value": sign * (6 * number + chance.randrange(12)),
            "seconds": 10 * number + chance.randrange(20) - 300,
        }
    return step._replace(what={**step.what, **{name: place[name] for name in place if name in step.what}})


def _drawn(chance: random.Random, kinds: dict[str, int]) -> str:
    return chance.choices(list(kinds), list(kinds.values()))[0]


def _wish(chance: random.Random, wishes: dict[str, int], person: int, number: int) -> Step:
    match kind := _drawn(chance, wishes):
        case "views":
            events = [
                {
                    "page": chance.randrange(len(PAGES)),
                    "client": chance.randrange(3),
                    # Few instants, so that some views are the same; a client's clock may be far off.
                    "seconds": chance.choice((0, 0, -1, -3600, -3700, -90_000, 200, 5_000, -700_000)),
                }
                for _ in range(chance.randint(1, 3))
            ]
            return Step(kind, {"events": events})
        case "score":
            again = number and chance.random() < 0.15
            return Step(
                kind,
                {
                    "board": chance.choice(list(BOARDS)),
                    "id": chance.randrange(number) if again else number,
                    "value": chance.choice((-7, 1, 3, 5, 5, 20, 99)),
                    "seconds": -1000 * person - number * 7 % 11,
                    # A game server submits for the first of them, beside what that one does itself.
                    "player": chance.choice((None, 0)),
                },
            )
        case "path":
            return Step(kind, {"path": chance.choice((*PATHS, "a wrong one"))})
        case "comment":
            what = {"rating": chance.randint(1, 5), "language": chance.choice(LANGUAGES)}
            return Step(kind, what | {"product": chance.choice(PRODUCTS), "has_key": chance.random() < 0.7})
        case "edit":
            what = {"rating": chance.randint(1, 5), "language": chance.choice(LANGUAGES)}
            return Step(kind, what | {"product": chance.choice(PRODUCTS), "matches": chance.random() < 0.3})
        case "uncomment":
            return Step(kind, {"product": chance.choice(PRODUCTS)})
    return Step(kind, {"board": chance.choice(list(BOARDS))})


def _task(chance: random.Random, of_admins: dict[str, int], number: int) -> Step:
    kind = _drawn(chance, of_admins)
    return Step(
        kind,
        {
            "number": number,
            "person": chance.randrange(PEOPLE),
            "product": chance.choice(PRODUCTS),
            "path": chance.choice(PATHS),
            "board": chance.choice(list(BOARDS)),
            "what": chance.choice(("comment", "comment", "comment", "progress", "event", "score", "message")),
        },
    )


def _frames(chance: random.Random, frames: dict[str, int]) -> list[Step]:
    topics = (f"views:{PAGES[0]}", "leaderboard:sum", "challenge:hunt", f"product:{PRODUCTS[0]}")
    return [
        Step(_drawn(chance, frames), {"topic": chance.choice(topics)}) for _ in range(chance.randint(3, 10))
    ]
