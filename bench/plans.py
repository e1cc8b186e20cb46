"""What people want to do in a history: it follows from the seed, and not from what comes of it.

So the product and the published designs are given the same wishes, in the same order for each person.
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


def plan(seed: int) -> Plan:
    """Make the plan of a history."""
    chance = random.Random(f"plan {seed}")
    people = [
        [_wish(chance, person, number) for number in range(chance.randint(5, 11))] for person in range(PEOPLE)
    ]
    admin = [_task(chance, number) for number in range(chance.randint(2, 6))]
    chatters = [
        [Step("connect", {"interests": chance.choice(("", "", "", "a", "a,b"))}), *_frames(chance)]
        for _ in range(chance.randint(2, CHATTERS))
    ]
    return Plan(people, admin, chatters, chance.random() < 0.5)


def _drawn(chance: random.Random, kinds: dict[str, int]) -> str:
    return chance.choices(list(kinds), list(kinds.values()))[0]


def _wish(chance: random.Random, person: int, number: int) -> Step:
    match kind := _drawn(chance, WISHES):
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


def _task(chance: random.Random, number: int) -> Step:
    kind = _drawn(chance, OF_ADMINS)
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


def _frames(chance: random.Random) -> list[Step]:
    topics = (f"views:{PAGES[0]}", "leaderboard:sum", "challenge:hunt", f"product:{PRODUCTS[0]}")
    return [
        Step(_drawn(chance, FRAMES), {"topic": chance.choice(topics)}) for _ in range(chance.randint(3, 10))
    ]
