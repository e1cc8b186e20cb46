"""What enters and what leaves: comments and ratings."""

from typing import Annotated, ClassVar, Literal

from msgspec import UNSET, Meta, UnsetType, field

from chalicelib import ulids
from chalicelib.api.schemas import Cursor, Identifier, Instant, Next, Schema, StoredIdentifier, described
from chalicelib.comments import languages

LONGEST = 5_000  # characters of a text

Product = Annotated[StoredIdentifier, Meta(description="The product", examples=["garment-767"])]
Author = Annotated[StoredIdentifier, Meta(description="Who wrote it: the `sub` of a token", examples=["me"])]
CommentId = Annotated[
    str,
    Meta(
        description="The comment: a ULID, so that ids have the order of time",
        pattern=described(ulids.PATTERN, "must be a comment's id, a ULID of 26 characters"),
        examples=["01KAJQF8G0Z9M4T3V7C2X5N8QR"],
    ),
]
Rating = Annotated[int, Meta(description="1 to 5", ge=1, le=5, examples=[5])]
Language = Annotated[
    str,
    Meta(
        description="A BCP 47 tag, in any case; answers have the usual one, and for an irregular tag such as "
        "i-klingon the tag that has replaced it. Tags are compared whole: en-GB is not among en",
        min_length=2,
        max_length=languages.LONGEST,
        extra_json_schema={"pattern": languages.PATTERN},  # checked by `comments.tag`, which says it better
        examples=["en"],
    ),
]
Text = Annotated[
    str,
    Meta(
        description="Up to 5,000 characters, maybe none; of control characters only line ends and tabs. It "
        "is kept in NFC, line ends as line feeds, without blanks around it",
        max_length=LONGEST,
        pattern=described(
            r"^[^\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\ud800-\udfff]*$(?!\n)",
            "must be text without control characters other than line ends and tabs",
        ),
        examples=["Fits well."],
    ),
]
Count = Annotated[int, Meta(description="How many comments", ge=0, examples=[17])]

ONE = {
    "id": "01KAJQF8G0Z9M4T3V7C2X5N8QR",
    "author": "me",
    "rating": 5,
    "language": "en",
    "text": "Fits well.",
    "created": "2026-11-21T10:00:00Z",
    "edited": None,
    "hidden": False,
}


class NewProductPath(Schema):
    """A product, which may have no comment yet."""

    product: Annotated[Identifier, Meta(description="The product", examples=["garment-767"])]


class ProductPath(Schema):
    """A product."""

    product: Product


class CommentPath(Schema):
    """A comment on a product."""

    product: Product
    id: CommentId


class CommentBody(Schema):
    """What an author says of a product: a rating, and why."""

    EXAMPLES: ClassVar = {"a comment": {"rating": 5, "language": "en", "text": "Fits well."}}

    rating: Rating
    language: Language
    text: Text


class CommentEdit(Schema):
    """What its author changes of a comment: one of these or more."""

    MORE: ClassVar = {"anyOf": [{"required": [name]} for name in ("rating", "language", "text")]}

    rating: Rating | UnsetType = UNSET
    language: Language | UnsetType = UNSET
    text: Text | UnsetType = UNSET


class CommentVisibility(Schema):
    """Whether an admin hides a comment: then its author and admins alone see it, and it counts nowhere."""

    hidden: Annotated[bool, Meta(description="Out of sight, or back again")]


class CommentPatch(CommentEdit):
    """What is to change: the words and the rating by their author, or whether it is hidden by an admin."""

    ONE_OF: ClassVar = {CommentEdit: ["rating", "language", "text"], CommentVisibility: ["hidden"]}
    MORE: ClassVar = {}
    EXAMPLES: ClassVar = {"another rating": {"rating": 4}, "out of sight (admin)": {"hidden": True}}

    hidden: bool | UnsetType = UNSET


class Comment(Schema):
    """A comment on a product."""

    EXAMPLES: ClassVar = {"a comment": ONE}

    id: CommentId
    author: Author
    rating: Rating
    language: Language
    text: Text
    created: Instant
    edited: Annotated[Instant | None, Meta(description="When it was changed last; null: never")]
    hidden: Annotated[bool, Meta(description="Whether an admin has hidden it", examples=[False])]


class CommentsQuery(Schema):
    """Which comments: of these ratings, and in one language, unless all."""

    rating: (
        Annotated[
            str,
            Meta(
                description="Ratings, parted by commas; without them, all",
                pattern=described(
                    "^[1-5](,[1-5]){0,4}$(?!\\n)", "must be ratings from 1 to 5, separated by commas"
                ),
                examples=["4,5"],
            ),
        ]
        | None
    ) = None
    language: Language | None = None
    limit: Annotated[int, Meta(description="At most so many comments", ge=1, le=100)] = 20
    cursor: Cursor = None
    explain: Annotated[bool, Meta(description="Show how they are found, and what it costs: for admins")] = (
        False
    )


class HiddenQuery(Schema):
    """The comments that an admin has hidden, newest first."""

    limit: Annotated[int, Meta(description="At most so many comments", ge=1, le=100)] = 20
    cursor: Cursor = None


class Plan(Schema):
    """How a page of comments was found, and what that cost."""

    way: Annotated[
        Literal["all", "filter", "merge", "none"],
        Meta(
            description="all: the product's comments as they are; filter: the same, those that do not match "
            "left out; merge: one sub-query for each rating and language, in parallel; none: nothing matches"
        ),
    ]
    sub_queries: Annotated[int, Meta(description="Ratings and languages that have matching comments", ge=0)]
    skipped: Annotated[int, Meta(description="Those whose count is zero: nobody asks for them", ge=0)]
    expected: Annotated[
        dict[str, float], Meta(description="The RRU that each way was expected to cost; the least won")
    ]
    queries: Annotated[int, Meta(description="Queries that were made, that of the statistics too", ge=0)]
    rru: Annotated[float, Meta(description="Read request units that DynamoDB counted for them", ge=0)]


class Comments(Schema):
    """A page of comments, newest first. It may have fewer than `limit`, even none, and yet a next page."""

    EXAMPLES: ClassVar = {"the last page": {"items": [ONE], "cursor": None}}

    items: list[Comment]
    cursor: Next
    plan: Plan | UnsetType = UNSET


class StatisticsQuery(Schema):
    """In one language, or in all."""

    language: Language | None = None


class Ratings(Schema):
    """How many comments have each rating."""

    one: Count = field(name="1")
    two: Count = field(name="2")
    three: Count = field(name="3")
    four: Count = field(name="4")
    five: Count = field(name="5")


class RatingStatistics(Schema):
    """What a product's ratings add up to."""

    EXAMPLES: ClassVar = {
        "a product": {
            "ratings": {"1": 1, "2": 0, "3": 2, "4": 4, "5": 10},
            "total": 17,
            "average": 4.2941,
            "bayesianAverage": 4,
        },
    }

    ratings: Ratings
    total: Count
    average: Annotated[
        float | None, Meta(description="The mean rating, to four decimals; null without a comment")
    ]
    bayesian_average: Annotated[
        float, Meta(description="The mean with one more vote for each rating; 3 without a comment")
    ]


class LeadersQuery(Schema):
    """In one language, or in all."""

    limit: Annotated[int, Meta(description="At most so many products", ge=1, le=100)] = 10
    language: Language | None = None


class Leader(Schema):
    """A product, by its comments with the rating 5."""

    product: Product
    five_star: Annotated[int, Meta(description="How many comments with the rating 5", ge=1, examples=[10])]


class Leaders(Schema):
    """Products, most comments with the rating 5 first; of equals, by their names."""

    EXAMPLES: ClassVar = {"one product": {"items": [{"product": "garment-767", "fiveStar": 10}]}}

    items: list[Leader]
