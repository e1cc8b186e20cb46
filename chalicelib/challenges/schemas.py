"""What enters and what leaves: challenges."""

from typing import Annotated, Any, ClassVar, Literal

from msgspec import Meta

from chalicelib.api.schemas import Cursor, Identifier, Instant, Next, Schema, StoredIdentifier, described
from chalicelib.ranking.tree import MOST as PLACES

MOST = 100  # paths that one player may find
ANSWERS = 1000  # of a challenge: their digests fit into one item of 13 KB

# What `str.split` takes for blanks. `\s` is another set in each language that reads the description.
BLANKS = r"\u0009-\u000d\u001c-\u0020\u0085\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"

Text = Annotated[
    str,
    Meta(
        description="A path, of up to 200 characters, not all of them blank",
        examples=["oak/bridge/mill"],
        pattern=described(rf"[^{BLANKS}]", "must contain a character that is not white space"),
        min_length=1,
        max_length=200,
    ),
]
Title = Annotated[
    str, Meta(description="What it is called", examples=["Treasure hunt"], min_length=1, max_length=200)
]
Limit = Annotated[int, Meta(description="How many paths a player may find", ge=1, le=MOST, examples=[12])]
Opens = Annotated[Instant, Meta(description="When it begins to take paths; null: it has begun")] | None
Closes = Annotated[Instant, Meta(description="When it stops taking paths; null: never")] | None
Ranked = Annotated[
    bool, Meta(description="Whether players are ranked, from the next path that each of them finds")
]
Count = Annotated[int, Meta(ge=0)]
ByPaths = dict[str, Count]


class Normalization(Schema):
    """What makes two notations of a path the same; it is fixed when the challenge is made."""

    case: Annotated[
        Literal["fold", "keep"], Meta(description="`fold`: upper and lower case are the same")
    ] = "fold"
    spaces: Annotated[
        Literal["collapse", "remove", "keep"],
        Meta(description="`collapse`: of blanks in a row one counts, of those at the ends none"),
    ] = "collapse"
    unicode: Annotated[
        Literal["NFC", "NFKC"],
        Meta(description="Unicode's normal form; `NFKC` also makes wide letters and ligatures plain ones"),
    ] = "NFKC"


class NewChallengePath(Schema):
    """A challenge, which may be a new one."""

    challenge: Annotated[Identifier, Meta(description="The challenge's name", examples=["hunt"])]


class ChallengePath(Schema):
    """A challenge."""

    challenge: Annotated[StoredIdentifier, Meta(description="The challenge's name", examples=["hunt"])]


class PlayerPath(ChallengePath):
    """A player of a challenge."""

    player: Annotated[StoredIdentifier, Meta(description="The player: the `sub` of a token")]


class FoundPath(PlayerPath):
    """A path that a player has found, in any notation."""

    path: Text


class ChallengeBody(Schema):
    """A challenge: its valid paths, which nobody can read back, and how many of them a player may find."""

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
        list[Text],
        Meta(description="The valid paths; two notations of one are one", min_length=1, max_length=ANSWERS),
    ]
    limit: Limit = 12
    opens: Opens = None
    closes: Closes = None
    ranked: Ranked = False
    normalization: (
        Annotated[
            Normalization,
            Meta(description="Null: as it is; a new challenge folds, collapses, and is in NFKC"),
        ]
        | None
    ) = None


class Challenge(Schema):
    """A challenge as everybody may see it: without its valid paths."""

    EXAMPLES: ClassVar = {
        "a hunt": {
            "challenge": "hunt",
            "title": "Treasure hunt",
            "limit": 12,
            "opens": None,
            "closes": None,
            "ranked": True,
            "normalization": {"case": "fold", "spaces": "collapse", "unicode": "NFKC"},
        }
    }

    challenge: StoredIdentifier
    title: Title
    limit: Limit
    opens: Opens
    closes: Closes
    ranked: Ranked
    normalization: Normalization


class PathBody(Schema):
    """A path that a player believes to be valid."""

    EXAMPLES: ClassVar = {"a path": {"path": "oak/bridge/mill"}}

    path: Text


class Found(Schema):
    """A path that the player has found, how many that makes, and how many it may be."""

    EXAMPLES: ClassVar = {"the third": {"path": "oak/bridge/mill", "found": 3, "limit": 12}}

    path: Text
    found: Annotated[int, Meta(description="How many paths the player has found by now", ge=0)]
    limit: Limit


class Progress(Schema):
    """The paths that a player has found, the first one first, as they were submitted."""

    EXAMPLES: ClassVar = {
        "two paths": {"found": 2, "paths": ["oak/well", "oak/bridge/mill"]},
        "none yet": {"found": 0, "paths": []},
    }

    found: Annotated[int, Meta(description="How many", ge=0)]
    paths: list[str]


class ChallengeStatistics(Schema):
    """How many play, how many paths they found in all, and how many of them found how many."""

    EXAMPLES: ClassVar[dict[str, Any]] = {
        "a hunt of up to 3": {
            "players": 7,
            "paths": 12,
            "reached": {"1": 7, "2": 4, "3": 1},
            "exactly": {"1": 3, "2": 3, "3": 1},
        }
    }

    players: Annotated[int, Meta(description="Players who found at least one path", ge=0)]
    paths: Annotated[int, Meta(description="Paths that all of them found", ge=0)]
    reached: Annotated[ByPaths, Meta(description="Players who found at least so many, from 1 to the limit")]
    exactly: Annotated[ByPaths, Meta(description="Players who found exactly so many")]


class FindersQuery(Schema):
    """Which part of a challenge's players: from the top, after a cursor, from a place, or around a player."""

    limit: Annotated[int, Meta(description="At most so many players", ge=1, le=100)] = 10
    cursor: Cursor = None
    place: Annotated[int, Meta(description="Begin at this place, from 1; 0: not so", ge=0, le=PLACES)] = 0
    around: (
        Annotated[StoredIdentifier, Meta(description="Centre on this player, whatever the place")] | None
    ) = None


class Finder(Schema):
    """A player, by paths found."""

    rank: Annotated[int, Meta(description="One and the players who are before; equal ones share it", ge=1)]
    player: Annotated[StoredIdentifier, Meta(description="The player")]
    found: Annotated[int, Meta(description="How many paths", ge=1)]
    time: Annotated[Instant, Meta(description="The second in which the last of them was found")]


class Finders(Schema):
    """A page of a challenge's players, most paths first, then earliest."""

    EXAMPLES: ClassVar = {
        "one": {
            "items": [{"rank": 1, "player": "player-1", "found": 3, "time": "2026-11-21T10:00:00Z"}],
            "cursor": None,
        }
    }

    items: list[Finder]
    cursor: Next
