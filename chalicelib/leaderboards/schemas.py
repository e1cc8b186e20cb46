"""Request and response schemas of leaderboards."""

from decimal import Decimal
from typing import Annotated, Any, ClassVar, Literal

from msgspec import UNSET, Meta, UnsetType, field

from chalicelib.api.names import Name
from chalicelib.api.schemas import INVISIBLE, Cursor, Identifier, Instant, Next, Schema, Zone, described
from chalicelib.ranking.tree import MOST

MAX_METADATA = 500  # bytes as JSON
MAX_STANDINGS = 100  # players of one request
PLAYERS_PATTERN = rf"^[^#{INVISIBLE}]+$(?!\n)"
NUMBER_PATTERN = r"^-?[0-9]{1,16}(\.[0-9]{1,9})?$"

BoardName = Annotated[Identifier, Meta(description="The leaderboard's name")]
PlayerName = Annotated[Identifier, Meta(description="The player's name")]
PlayerCount = Annotated[int, Meta(description="The number of ranked players", ge=0, examples=[1539])]
SeasonNumber = Annotated[int, Meta(description="The number of the season, from 1", ge=1, le=MOST)]
RequestedSeason = Annotated[
    int,
    Meta(description="The number of the season, from 1. The default 0 is the current season", ge=0, le=MOST),
]
Score = Annotated[Decimal, Meta(description="The exact score", examples=[15.39])]
Rank = Annotated[
    int,
    Meta(
        description="1 plus the number of better players. Equal scores share a rank, or the earlier is ahead",
        ge=1,
    ),
]
Percentile = Annotated[
    float, Meta(description="The share of players that are not better, in percent", ge=0, le=100)
]
ToNext = (
    Annotated[Decimal, Meta(description="The distance to the next better score. Null for the best")] | None
)
Order = Annotated[
    Literal["desc", "asc"],
    Meta(description="The best score is the greatest (`desc`) or the least (`asc`)"),
]
Operator = Annotated[
    Literal["increment", "best", "set"],
    Meta(
        description="How a submitted value changes the score. `increment` adds the value. "
        "`best` keeps the better of the two. `set` keeps the value with the latest time"
    ),
]
Ties = Annotated[
    Literal["shared", "first"],
    Meta(
        description="`shared`: equal scores share a rank. `first`: of equal scores the earlier is ahead, so "
        "ranks are 1, 2, 3, 4. Its time is that of the best value with `best`, else that of the latest value"
    ),
]
Submit = Annotated[
    Literal["player", "server"],
    Meta(
        description="`player`: each player submits. `server`: only an admin submits, or a server whose token "
        "has the scope `scores`, for any player"
    ),
]
Guests = Annotated[bool, Meta(description="Whether guests may submit")]
TakesMetadata = Annotated[bool, Meta(description="Whether submissions may have `metadata`, which is public")]
Metadata = (
    Annotated[
        dict[str, Any],
        Meta(
            description=f"An object of at most {MAX_METADATA} bytes, such as a replay. A player has that of "
            "the best value with `best`, else that of the latest submission",
            examples=[{"level": 3}],
        ),
    ]
    | None
)
ShownMetadata = Metadata | UnsetType  # a board without metadata does not show it


class Recurrence(Schema):
    """Seasons that begin at midnight of a zone. Also a season without a submission has a number."""

    every: Annotated[
        Literal["day", "week", "month"],
        Meta(description="How long a season is. Weeks begin on Monday, months on their first day"),
    ]
    timezone: Annotated[
        Zone, Meta(description="The zone, by its name in the IANA database", examples=["Europe/Berlin"])
    ] = "UTC"


Resets = (
    Annotated[
        str,
        Meta(
            description="When the next season begins automatically",
            examples=["2027-01-01T00:00:00Z"],
            extra_json_schema={"format": "date-time"},
        ),
    ]
    | Recurrence
    | None  # only an admin ends the season
)


# -- boards --------------------------------------------------------------------------------------------


class BoardPath(Schema):
    """Path parameters of a leaderboard."""

    board: BoardName


class PlayerPath(Schema):
    """Path parameters of a player on a leaderboard."""

    board: BoardName
    player: PlayerName


class BoardBody(Schema):
    """The definition of a leaderboard.

    `decimals`, `min`, `max`, `order`, `operator`, `ties` and `shards` cannot be changed later.
    """

    EXAMPLES: ClassVar[dict[str, Any]] = {
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
        "a week's best, the earlier first": {
            "title": "This week",
            "operator": "best",
            "ties": "first",
            "resets": {"every": "week", "timezone": "Europe/Berlin"},
        },
    }

    title: Annotated[str, Meta(description="The title to display", min_length=1, max_length=200)]
    unit: Annotated[str, Meta(description="The unit of the scores", max_length=40)] = ""
    decimals: Annotated[int, Meta(description="The most decimals that a value may have", ge=0, le=9)] = 0
    min: Annotated[Decimal, Meta(description="The least accepted value")] = Decimal(0)
    max: Annotated[Decimal, Meta(description="The greatest accepted value")] = Decimal(1_000_000)
    order: Order = "desc"
    operator: Operator = "increment"
    ties: Ties = "shared"
    resets: Resets = None
    submit: Submit = "player"
    guests: Guests = True
    metadata: TakesMetadata = False
    shards: Annotated[
        int,
        Meta(
            description="The number of index partitions: one for each 200 changed scores per second",
            ge=1,
            le=32,
        ),
    ] = 1


class BoardQuery(Schema):
    """Query parameters that select a season of a leaderboard."""

    season: RequestedSeason = 0


class BoardDetails(BoardBody, kw_only=True):
    """A leaderboard in one of its seasons, with the number of ranked players."""

    EXAMPLES: ClassVar = {
        "points": {
            "title": "Points",
            "unit": "points",
            "decimals": 0,
            "min": 0,
            "max": 1000000,
            "order": "desc",
            "operator": "increment",
            "ties": "shared",
            "resets": None,
            "submit": "player",
            "guests": True,
            "metadata": False,
            "shards": 1,
            "board": "points",
            "season": 2,
            "started": "2026-11-21T10:00:00Z",
            "ends": None,
            "ended": None,
            "players": 1539,
        }
    }
    MORE: ClassVar = {
        "required": [
            *("board", "title", "unit", "decimals", "min", "max", "order", "operator", "shards", "resets"),
            *("ties", "submit", "guests", "metadata", "season", "started", "ends", "ended"),
            "players",
        ]
    }

    board: BoardName
    season: SeasonNumber
    started: Annotated[Instant, Meta(description="When the season began")]
    ends: Annotated[Instant, Meta(description="When the next season begins automatically")] | None
    ended: Annotated[Instant, Meta(description="When the season ended. Null: it is the current one")] | None
    players: PlayerCount


class SeasonBody(Schema):
    """The season to end. The same request again ends no further season."""

    EXAMPLES: ClassVar = {"end the first": {"season": 1}}

    season: SeasonNumber


# -- scores --------------------------------------------------------------------------------------------


class ScoreBody(Schema):
    """A value for a player. Each id of a player counts once, in all seasons together."""

    EXAMPLES: ClassVar = {
        "ten points": {"id": "game-1", "value": 10},
        "a finish": {"id": "finish", "value": 125.87, "time": "2026-11-21T10:00:00Z"},
    }

    id: Annotated[Identifier, Meta(description="The client's id of this submission", examples=["game-1"])]
    value: Annotated[Decimal, Meta(description="The value to add or to set", examples=[10])]
    time: (
        Annotated[Instant, Meta(description="When the player reached the value. The default is now")] | None
    ) = None
    metadata: Metadata = None
    player: (
        Annotated[
            Identifier,
            Meta(
                description="The player. The default is the caller. Only an admin may name another player, "
                "and on a board with `submit` `server` a token with the scope `scores`"
            ),
        ]
        | None
    ) = None


class ScoreQuery(Schema):
    """Query parameters of a submission."""

    standing: Annotated[
        bool, Meta(description="Also return the player's rank with this submission, as a read of it would")
    ] = False


class ScoreResult(Schema):
    """A player's score after a submission, with `standing=true` also its rank.

    A player who has been removed from the leaderboard since has a score of null and no rank.
    """

    EXAMPLES: ClassVar = {
        "a score": {"player": "player-1", "score": 420},
        "with standing=true": {
            "player": "player-1",
            "score": 420,
            "name": "Ann",
            "rank": 211,
            "of": 1539,
            "percentile": 86.35,
            "toNext": 3,
        },
    }

    player: PlayerName
    score: Score | None
    name: Name | UnsetType = UNSET
    rank: Rank | UnsetType = UNSET
    of: PlayerCount | UnsetType = UNSET
    percentile: Percentile | UnsetType = UNSET
    to_next: ToNext | UnsetType = UNSET
    metadata: ShownMetadata = UNSET


class ActivitiesQuery(Schema):
    """Query parameters of a page of a player's submissions."""

    limit: Annotated[int, Meta(description="The most submissions on a page", ge=1, le=1000)] = 100
    cursor: Cursor = None


class Activity(Schema):
    """One submission of a player."""

    id: Annotated[Identifier, Meta(description="The submission's id")]
    value: Annotated[Decimal, Meta(description="The submitted value")]
    time: Annotated[Instant, Meta(description="When the player reached the value")]
    season: SeasonNumber


class Activities(Schema):
    """A page of a player's submissions on a leaderboard, ordered by id."""

    EXAMPLES: ClassVar = {
        "one": {
            "items": [{"id": "game-1", "value": 10, "time": "2026-11-21T10:00:00Z", "season": 1}],
            "cursor": None,
        }
    }

    items: list[Activity]
    cursor: Next


# -- ranks ---------------------------------------------------------------------------------------------


class ListedBoard(Schema):
    """A leaderboard in the list of all leaderboards."""

    board: Annotated[Identifier, Meta(description="The leaderboard's name", examples=["points"])]
    title: Annotated[str, Meta(description="The title", examples=["Points"])]
    season: Annotated[int, Meta(description="The stored season", ge=1, examples=[1])]
    created: Annotated[Instant, Meta(description="The time of its creation, to the second")]


class Boards(Schema):
    """A page of the leaderboards, newest first."""

    EXAMPLES: ClassVar = {
        "one": {
            "items": [{"board": "points", "title": "Points", "season": 1, "created": "2026-11-21T10:00:00Z"}],
            "cursor": None,
        }
    }

    items: list[ListedBoard]
    cursor: Next


class StandingQuery(Schema):
    """Query parameters of a player's rank."""

    season: RequestedSeason = 0
    consistent: Annotated[
        bool, Meta(description="Read the score and the counters strongly consistent, at twice their cost")
    ] = False


class Standing(Schema):
    """A player's score and rank, for example "211th of 1539"."""

    EXAMPLES: ClassVar = {
        "211th of 1539": {
            "player": "player-1",
            "name": "Ann",
            "score": 420,
            "rank": 211,
            "of": 1539,
            "percentile": 86.35,
            "toNext": 3,
        }
    }

    player: PlayerName
    name: Name
    score: Score
    rank: Rank
    of: PlayerCount
    percentile: Percentile
    to_next: ToNext
    metadata: ShownMetadata = UNSET


class RankQuery(Schema):
    """Query parameters of the rank of a score."""

    score: Annotated[
        str,
        Meta(
            description="The score, which nobody needs to have",
            pattern=described(NUMBER_PATTERN, "must be a number, such as 15.39"),
            examples=["420"],
        ),
    ]
    season: RequestedSeason = 0


class ScoreRank(Schema):
    """The rank that a score has or would have.

    With `ties` `first` it is that of a player who reached the score now, behind all who have it.
    """

    EXAMPLES: ClassVar = {"three have it": {"score": 420, "rank": 211, "players": 3, "of": 1539}}

    score: Score
    rank: Rank
    players: Annotated[int, Meta(description="The number of players with exactly this score", ge=0)]
    of: PlayerCount


class PercentileQuery(Schema):
    """Query parameters of the score at a percentile."""

    percentile: Annotated[
        float,
        Meta(description="The share of players that are not better, in percent", ge=0, le=100, examples=[95]),
    ]
    season: RequestedSeason = 0


class PercentileScore(Schema):
    """The worst score that reaches a percentile. Null: nobody is ranked."""

    EXAMPLES: ClassVar = {"the best 5 percent": {"percentile": 95, "score": 420, "of": 1539}}

    percentile: Annotated[float, Meta(description="The requested percentile", ge=0, le=100)]
    score: Score | None
    of: PlayerCount


class StandingsQuery(Schema):
    """Query parameters of the ranks of some players."""

    players: Annotated[
        str,
        Meta(
            description=f"Up to {MAX_STANDINGS} players, separated by commas",
            pattern=described(PLAYERS_PATTERN, "must be names of players, separated by commas"),
            examples=["player-1,player-2"],
        ),
    ]
    season: RequestedSeason = 0


class SharedStanding(Schema):
    """A player's rank on a leaderboard, and among some players."""

    player: PlayerName
    name: Name
    score: Score
    rank: Rank
    among: Annotated[int, Meta(description="The rank among the given players", ge=1)]
    metadata: ShownMetadata = UNSET


class Standings(Schema):
    """The ranks of some players, best first. Those without a score are left out."""

    EXAMPLES: ClassVar = {
        "two friends": {
            "items": [
                {"player": "player-1", "name": "Ann", "score": 420, "rank": 211, "among": 1},
                {"player": "player-2", "name": None, "score": 390, "rank": 305, "among": 2},
            ],
            "of": 1539,
        }
    }

    items: list[SharedStanding]
    of: PlayerCount


class EntriesQuery(Schema):
    """Query parameters of a part of a leaderboard: its top, a cursor, a place, or around a player."""

    limit: Annotated[int, Meta(description="The most entries on a page", ge=1, le=100)] = 10
    cursor: Cursor = None
    place: Annotated[
        int, Meta(description="The place of the first entry, from 1. The default 0 is the top", ge=0, le=MOST)
    ] = 0
    around: Annotated[Identifier, Meta(description="The player in the middle. Overrides `place`")] | None = (
        None
    )
    season: RequestedSeason = 0


class BoardEntry(Schema):
    """A player on a leaderboard."""

    rank: Rank
    player: PlayerName
    name: Name
    score: Score
    metadata: ShownMetadata = UNSET


class Entries(Schema):
    """A page of a leaderboard, best score first."""

    EXAMPLES: ClassVar = {
        "the first two": {
            "items": [
                {"rank": 1, "player": "player-1", "name": "Ann", "score": 420},
                {"rank": 1, "player": "player-2", "name": None, "score": 420},
            ],
            "cursor": None,
            "previous": None,
        }
    }

    items: list[BoardEntry]
    cursor: Next
    previous: Annotated[str, Meta(description="The cursor of the page before, or null at the top")] | None = (
        None
    )


class ScoreBucket(Schema):
    """A range of scores that includes both of its ends."""

    from_: Annotated[Decimal, Meta(description="The least score of the range")] = field(name="from")
    to: Annotated[Decimal, Meta(description="The greatest score of the range")]
    players: PlayerCount


class Distribution(Schema):
    """The number of players in each range of scores. Ranges have one width, no gaps, and ascend."""

    EXAMPLES: ClassVar = {"two ranges": {"items": [{"from": 0, "to": 99, "players": 1328}]}}

    items: list[ScoreBucket]


class TopEntries(Schema):
    """The ten best players of a leaderboard, as they are pushed to subscribers."""

    board: Identifier
    season: SeasonNumber
    players: PlayerCount
    items: list[BoardEntry]
