"""What enters and what leaves: the scores of a leaderboard."""

from decimal import Decimal
from typing import Annotated, ClassVar

from msgspec import Meta, field

from chalicelib.api.schemas import Cursor, Identifier, Instant, Next, Schema, StoredIdentifier
from chalicelib.leaderboards.schemas import Player, Players, Season, SeasonWanted
from chalicelib.ranking.tree import MOST

Score = Annotated[Decimal, Meta(description="The score, exactly", examples=[15.39])]
Rank = Annotated[
    int, Meta(description="One and the players who are strictly better; equal scores share it", ge=1)
]


class ScoreBody(Schema):
    """A value for a player, under an id that counts once for ever."""

    EXAMPLES: ClassVar = {
        "ten points": {"id": "game-1", "value": 10},
        "a finish": {"id": "finish", "value": 125.87, "time": "2026-11-21T10:00:00Z"},
    }

    id: Annotated[Identifier, Meta(description="Your own name for this submission", examples=["game-1"])]
    value: Annotated[Decimal, Meta(description="What it adds, or sets", examples=[10])]
    time: Annotated[Instant, Meta(description="When it was reached; now, unless it is said")] | None = None
    player: Annotated[Identifier, Meta(description="Whose it is: yours, unless an admin says")] | None = None


class ScoreAnswer(Schema):
    """A player's score with this submission in it; null for one who was taken off the board since."""

    EXAMPLES: ClassVar = {"a score": {"player": "player-1", "score": 1539}}

    player: Player
    score: Score | None


class StandingQuery(Schema):
    """Which season, and how fresh."""

    season: SeasonWanted = 0
    consistent: Annotated[
        bool, Meta(description="Read everything as it was at one moment, at four times the cost")
    ] = False


class Standing(Schema):
    """Where a player stands: "211th of 1539"."""

    EXAMPLES: ClassVar = {
        "211th of 1539": {
            "player": "player-1",
            "score": 420,
            "rank": 211,
            "of": 1539,
            "percentile": 86.35,
            "toNext": 3,
        }
    }

    player: Player
    score: Score
    rank: Rank
    of: Players
    percentile: Annotated[
        float, Meta(description="The share of players who are not better, in percent", ge=0, le=100)
    ]
    to_next: (
        Annotated[Decimal, Meta(description="What is missing to the next better score; null: first")] | None
    )


class EntriesQuery(Schema):
    """Which part of a leaderboard: from the top, after a cursor, from a place, or around a player."""

    limit: Annotated[int, Meta(description="At most so many entries", ge=1, le=100)] = 10
    cursor: Cursor = None
    place: Annotated[int, Meta(description="Begin at this place, from 1; 0: not so", ge=0, le=MOST)] = 0
    around: (
        Annotated[StoredIdentifier, Meta(description="Centre on this player, whatever the place")] | None
    ) = None
    season: SeasonWanted = 0


class BoardEntry(Schema):
    """A player on a leaderboard."""

    rank: Rank
    player: Player
    score: Score


class Entries(Schema):
    """A page of a leaderboard, best first."""

    EXAMPLES: ClassVar = {
        "the first two": {
            "items": [
                {"rank": 1, "player": "player-1", "score": 420},
                {"rank": 1, "player": "player-2", "score": 420},
            ],
            "cursor": None,
        }
    }

    items: list[BoardEntry]
    cursor: Next


class ScoreBucket(Schema):
    """A range of scores, both ends in it."""

    from_: Annotated[Decimal, Meta(description="The least score in it")] = field(name="from")
    to: Annotated[Decimal, Meta(description="The greatest score in it")]
    players: Players


class Distribution(Schema):
    """How many players have which scores: ranges of one width without gaps, from least to greatest."""

    EXAMPLES: ClassVar = {"two ranges": {"items": [{"from": 0, "to": 99, "players": 1328}]}}

    items: list[ScoreBucket]


class ActivitiesQuery(Schema):
    """A page of a player's submissions."""

    limit: Annotated[int, Meta(description="At most so many submissions", ge=1, le=1000)] = 100
    cursor: Cursor = None


class Activity(Schema):
    """A submission."""

    id: Annotated[StoredIdentifier, Meta(description="Its name")]
    value: Annotated[Decimal, Meta(description="Its value")]
    time: Annotated[Instant, Meta(description="When it was reached")]
    season: Season


class Activities(Schema):
    """A page of a player's submissions on a leaderboard, by id."""

    EXAMPLES: ClassVar = {
        "one": {
            "items": [{"id": "game-1", "value": 10, "time": "2026-11-21T10:00:00Z", "season": 1}],
            "cursor": None,
        }
    }

    items: list[Activity]
    cursor: Next


class Live(Schema):
    """A leaderboard's first ten, as they are pushed to who listens."""

    board: StoredIdentifier
    season: Season
    players: Players
    items: list[BoardEntry]
