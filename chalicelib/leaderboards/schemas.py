"""What enters and what leaves: leaderboards."""

from decimal import Decimal
from typing import Annotated, ClassVar, Literal

from msgspec import Meta

from chalicelib.api.schemas import Identifier, Instant, Schema, StoredIdentifier
from chalicelib.ranking.tree import MOST

Board = Annotated[StoredIdentifier, Meta(description="The leaderboard's name")]
Player = Annotated[StoredIdentifier, Meta(description="The player's name")]
Players = Annotated[int, Meta(description="How many players are ranked", ge=0, examples=[1539])]
Season = Annotated[int, Meta(description="A season, from 1", ge=1, le=MOST)]
SeasonWanted = Annotated[
    int, Meta(description="A season, from 1; 0 and without one: the one that is on", ge=0, le=MOST)
]
Order = Annotated[
    Literal["desc", "asc"],
    Meta(description="Which score is best: the greatest (`desc`) or the least (`asc`)"),
]
Operator = Annotated[
    Literal["increment", "best", "set"],
    Meta(description="What a value does to the score: adds to it, replaces a worse one, or replaces it"),
]
Resets = (
    Annotated[
        str,
        Meta(
            description="When the next season begins by itself; null: when an admin says so",
            examples=["2027-01-01T00:00:00Z"],
            extra_json_schema={"format": "date-time"},
        ),
    ]
    | None
)


class NewBoardPath(Schema):
    """A leaderboard, which may be a new one."""

    board: Annotated[Identifier, Meta(description="The leaderboard's name")]


class BoardPath(Schema):
    """A leaderboard."""

    board: Board


class PlayerPath(Schema):
    """A player on a leaderboard."""

    board: Board
    player: Player


class BoardBody(Schema):
    """What a leaderboard is to be. Once made, its decimals, range, order, operator and shards stay."""

    EXAMPLES: ClassVar = {
        "points": {"title": "Points", "unit": "points", "operator": "increment"},
        "a race": {
            "title": "City marathon",
            "unit": "minutes",
            "decimals": 2,
            "min": 60,
            "max": 600,
            "order": "asc",
            "operator": "best",
        },
    }

    title: Annotated[str, Meta(description="For people", min_length=1, max_length=200)]
    unit: Annotated[str, Meta(description="What is counted", max_length=40)] = ""
    decimals: Annotated[int, Meta(description="Decimals that a value may have", ge=0, le=9)] = 0
    min: Annotated[Decimal, Meta(description="The least value that is taken")] = Decimal(0)
    max: Annotated[Decimal, Meta(description="The greatest value that is taken")] = Decimal(1_000_000)
    order: Order = "desc"
    operator: Operator = "increment"
    resets: Resets = None
    shards: Annotated[
        int, Meta(description="Index partitions: one for each 200 changed scores a second", ge=1, le=32)
    ] = 1


class BoardQuery(Schema):
    """A season of a leaderboard."""

    season: SeasonWanted = 0


class BoardAnswer(BoardBody, kw_only=True):
    """A leaderboard in one of its seasons, and how many players that ranks."""

    EXAMPLES: ClassVar = {
        "points": {
            "title": "Points",
            "unit": "points",
            "decimals": 0,
            "min": 0,
            "max": 1000000,
            "order": "desc",
            "operator": "increment",
            "resets": None,
            "shards": 1,
            "board": "points",
            "season": 2,
            "started": "2026-11-21T10:00:00Z",
            "ended": None,
            "players": 1539,
        }
    }
    MORE: ClassVar = {
        "required": [
            *("board", "title", "unit", "decimals", "min", "max", "order", "operator", "shards", "resets"),
            *("season", "started", "ended", "players"),
        ]
    }

    board: Board
    season: Season
    started: Annotated[Instant, Meta(description="When the season began")]
    ended: Annotated[Instant, Meta(description="When it ended; null: it is on")] | None
    players: Players


class SeasonBody(Schema):
    """The season that is to end: the same request again ends nothing more."""

    EXAMPLES: ClassVar = {"end the first": {"season": 1}}

    season: Season
