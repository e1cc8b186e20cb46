"""Request and response schemas of challenges.

A *path* is a text that players guess. The schemas of URL parameters therefore end in `Params`, not in `Path`.
"""

from typing import Annotated, Any, ClassVar, Literal

from msgspec import Meta

from chalicelib.api.names import Name
from chalicelib.api.schemas import DOT_SEGMENT, Cursor, Identifier, Instant, Next, Schema, described
from chalicelib.ranking.tree import MOST as MAX_PLACE

MAX_FOUND = 100  # paths per player
MAX_ANSWERS = 1000  # valid paths per challenge: their digests fit into one item of 13 KB

# The characters that `str.split` treats as blanks. `\s` means another set in each regular expression dialect.
BLANKS = r"\u0009-\u000d\u001c-\u0020\u0085\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
PATH_PATTERN = described(
    rf"^(?!{DOT_SEGMENT}$)[{BLANKS}]*[^{BLANKS}]",
    "must contain a character that is not blank, and must not be `.` or `..`",
)

PathText = Annotated[
    str,
    Meta(
        description="A path of 1 to 200 characters, at least one of them not blank. Not `.` or `..`",
        examples=["oak/bridge/mill"],
        pattern=PATH_PATTERN,
        min_length=1,
        max_length=200,
    ),
]
Title = Annotated[
    str, Meta(description="The title to display", examples=["Treasure hunt"], min_length=1, max_length=200)
]
Limit = Annotated[
    int, Meta(description="The most paths that a player may find", ge=1, le=MAX_FOUND, examples=[12])
]
Opens = (
    Annotated[Instant, Meta(description="When the challenge opens. Null: it is open from the start")] | None
)
Closes = Annotated[Instant, Meta(description="When the challenge closes. Null: it stays open")] | None
Ranked = Annotated[
    bool,
    Meta(description="Whether players are ranked. A change applies to each player from the next path found"),
]
Guests = Annotated[bool, Meta(description="Whether guests may submit paths")]
Count = Annotated[int, Meta(ge=0)]
CountsByFound = dict[str, Count]


class Normalization(Schema):
    """The rules by which two notations of a path are equal. They are fixed when the challenge is created."""

    case: Annotated[
        Literal["fold", "keep"], Meta(description="`fold` ignores case. `keep` distinguishes it")
    ] = "fold"
    spaces: Annotated[
        Literal["collapse", "remove", "keep"],
        Meta(
            description="`collapse` replaces consecutive blanks by one and removes blanks at both ends. "
            "`remove` removes all blanks. `keep` keeps them"
        ),
    ] = "collapse"
    unicode: Annotated[
        Literal["NFC", "NFKC"],
        Meta(description="The Unicode normalization form. `NFKC` also replaces wide letters and ligatures"),
    ] = "NFKC"


class ChallengeParams(Schema):
    """Path parameters of a challenge."""

    challenge: Annotated[Identifier, Meta(description="The challenge's name", examples=["hunt"])]


class PlayerParams(ChallengeParams):
    """Path parameters of a player of a challenge."""

    player: Annotated[Identifier, Meta(description="The player's name, which is the `sub` of a token")]


class FoundPathParams(PlayerParams):
    """Path parameters of a path that a player has found, in any notation."""

    path: PathText


class ChallengeBody(Schema):
    """The definition of a challenge. The valid paths can never be read back."""

    EXAMPLES: ClassVar = {
        "a hunt": {
            "title": "Treasure hunt",
            "paths": ["oak/bridge/mill", "oak/well"],
            "limit": 12,
            "ranked": True,
        },
        "for a weekend, letter by letter": {
            "title": "Weekend hunt",
            "paths": ["Oak"],
            "limit": 1,
            "opens": "2026-11-21T00:00:00Z",
            "closes": "2026-11-23T00:00:00Z",
            "normalization": {"case": "keep", "spaces": "keep", "unicode": "NFC"},
        },
    }

    title: Title
    paths: Annotated[
        list[PathText],
        Meta(
            description="The valid paths. Equal notations of a path count once",
            min_length=1,
            max_length=MAX_ANSWERS,
        ),
    ]
    limit: Limit = 12
    opens: Opens = None
    closes: Closes = None
    ranked: Ranked = False
    guests: Guests = True
    normalization: (
        Annotated[
            Normalization,
            Meta(description="Null keeps the stored rules. The default is `fold`, `collapse`, `NFKC`"),
        ]
        | None
    ) = None


class Challenge(Schema):
    """A challenge without its valid paths."""

    EXAMPLES: ClassVar = {
        "a hunt": {
            "challenge": "hunt",
            "title": "Treasure hunt",
            "limit": 12,
            "opens": None,
            "closes": None,
            "ranked": True,
            "guests": True,
            "normalization": {"case": "fold", "spaces": "collapse", "unicode": "NFKC"},
        }
    }

    challenge: Identifier
    title: Title
    limit: Limit
    opens: Opens
    closes: Closes
    ranked: Ranked
    guests: Guests
    normalization: Normalization


class ListedChallenge(Schema):
    """A challenge in the list of all challenges."""

    challenge: Identifier
    title: Title
    created: Instant


class Challenges(Schema):
    """A page of the challenges, newest first."""

    EXAMPLES: ClassVar = {
        "one": {
            "items": [{"challenge": "hunt", "title": "Treasure hunt", "created": "2026-11-21T10:00:00Z"}],
            "cursor": None,
        }
    }

    items: list[ListedChallenge]
    cursor: Next


class PathBody(Schema):
    """A submitted path."""

    EXAMPLES: ClassVar = {"a path": {"path": "oak/bridge/mill"}}

    path: PathText


class SubmissionResult(Schema):
    """A path that the player has found, the number of paths found so far, and the limit."""

    EXAMPLES: ClassVar = {"the third": {"path": "oak/bridge/mill", "found": 3, "limit": 12}}

    path: PathText
    found: Annotated[int, Meta(description="The number of paths that the player has found", ge=0)]
    limit: Limit


class FoundPath(Schema):
    """A path that a player has found, and how many players have found it."""

    path: str
    time: Annotated[Instant, Meta(description="When the player found it, to the second")]
    players: Annotated[int, Meta(description="The number of players that have found it", ge=1)]
    first: Annotated[bool, Meta(description="Whether the player was the first to find it")]


class Progress(Schema):
    """The paths that a player has found, as submitted, oldest first."""

    EXAMPLES: ClassVar = {
        "two paths": {
            "found": 2,
            "paths": ["oak/well", "oak/bridge/mill"],
            "items": [
                {"path": "oak/well", "time": "2026-11-21T10:00:00Z", "players": 211, "first": False},
                {"path": "oak/bridge/mill", "time": "2026-11-21T10:07:00Z", "players": 1, "first": True},
            ],
        },
        "none yet": {"found": 0, "paths": [], "items": []},
    }

    found: Annotated[int, Meta(description="The number of paths found", ge=0)]
    paths: list[str]
    items: Annotated[list[FoundPath], Meta(description="The same paths, with their finders")]


class FoundRow(Schema):
    """A line of a challenge's statistics as CSV."""

    found: int
    reached: int
    exactly: int


class ChallengeStatistics(Schema):
    """The number of players, of found paths, and of players by the number of paths that they found."""

    EXAMPLES: ClassVar[dict[str, Any]] = {
        "a hunt of up to 3": {
            "players": 7,
            "paths": 12,
            "reached": {"1": 7, "2": 4, "3": 1},
            "exactly": {"1": 3, "2": 3, "3": 1},
        }
    }

    players: Annotated[int, Meta(description="The number of players with at least one path", ge=0)]
    paths: Annotated[int, Meta(description="The number of paths that all players found together", ge=0)]
    reached: Annotated[
        CountsByFound, Meta(description="By n from 1 to the limit: players with at least n paths")
    ]
    exactly: Annotated[
        CountsByFound, Meta(description="By n from 1 to the limit: players with exactly n paths")
    ]

    def rows(self) -> list[FoundRow]:
        """Return the lines of the statistics as CSV."""
        return [
            FoundRow(found=int(found), reached=self.reached[found], exactly=self.exactly[found])
            for found in sorted(self.reached, key=int)
        ]


class ChallengeLeadersQuery(Schema):
    """Query parameters of a part of the ranked players: the top, a cursor, a place, or around a player."""

    limit: Annotated[int, Meta(description="The most players on a page", ge=1, le=100)] = 10
    cursor: Cursor = None
    place: Annotated[
        int,
        Meta(
            description="The place of the first player, from 1. The default 0 is the top", ge=0, le=MAX_PLACE
        ),
    ] = 0
    around: Annotated[Identifier, Meta(description="The player in the middle. Overrides `place`")] | None = (
        None
    )


class ChallengeLeader(Schema):
    """A ranked player of a challenge."""

    rank: Annotated[
        int,
        Meta(description="1 plus the number of strictly better players. Equal players share a rank", ge=1),
    ]
    player: Annotated[Identifier, Meta(description="The player's identifier")]
    name: Name
    found: Annotated[int, Meta(description="The number of paths found", ge=1)]
    time: Annotated[Instant, Meta(description="When the player found the last of them, to the second")]


class ChallengeLeaders(Schema):
    """A page of a challenge's ranked players, most paths first, then earliest."""

    EXAMPLES: ClassVar = {
        "one": {
            "items": [
                {"rank": 1, "player": "player-1", "name": "Ann", "found": 3, "time": "2026-11-21T10:00:00Z"}
            ],
            "cursor": None,
        }
    }

    items: list[ChallengeLeader]
    cursor: Next
