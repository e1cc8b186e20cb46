"""Requests and responses of the comments API."""

from typing import Annotated, ClassVar, Literal

from msgspec import UNSET, Meta, UnsetType, field

from chalicelib import ulids
from chalicelib.api.names import Name
from chalicelib.api.schemas import Cursor, Identifier, Instant, Next, Schema, described
from chalicelib.comments import languages

LONGEST = 5_000  # characters of a text
RATINGS_PATTERN = "^[1-5](,[1-5]){0,4}$(?!\\n)"

Product = Annotated[Identifier, Meta(description="The product", examples=["garment-767"])]
Author = Annotated[Identifier, Meta(description="The author: the `sub` of a token", examples=["me"])]
CommentId = Annotated[
    str,
    Meta(
        description="The comment's id, a ULID: ids sort by time",
        pattern=described(ulids.PATTERN, "must be a comment's id, or a reply's: a ULID of 26 characters"),
        examples=["01KAJQF8G0Z9M4T3V7C2X5N8QR"],
    ),
]
Rating = Annotated[int, Meta(description="1 to 5", ge=1, le=5, examples=[5])]
Language = Annotated[
    str,
    Meta(
        description="A BCP 47 tag, in upper or lower case. Responses have the recommended case, and for an "
        "irregular tag such as i-klingon its replacement. Tags are compared whole: en does not include en-GB",
        min_length=2,
        max_length=languages.LONGEST,
        extra_json_schema={"pattern": languages.PATTERN},  # checked by `parse_language`
        examples=["en"],
    ),
]
Text = Annotated[
    str,
    Meta(
        description="Up to 5,000 characters; none only beside a rating. Line ends and tabs are the only "
        "control characters. It is stored in NFC, with line feeds as line ends, and trimmed",
        max_length=LONGEST,
        pattern=described(
            r"^[^\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\ud800-\udfff]*$(?!\n)",
            "must be text without control characters other than line ends and tabs",
        ),
        examples=["Fits well."],
    ),
]
Ratings = Annotated[
    Literal["required", "optional", "off"],
    Meta(description="Whether a comment must have, may have or must not have a rating"),
]
PerAuthor = Annotated[
    Literal["one", "many"], Meta(description="Whether an author may write one comment or any number")
]
Approve = Annotated[
    bool, Meta(description="Whether an admin must approve the first comment of an author", examples=[False])
]
State = Annotated[
    Literal["approved", "pending", "hidden"],
    Meta(description="Only its author and admins see a text that is pending or hidden"),
]
Count = Annotated[int, Meta(description="The number of comments", ge=0, examples=[17])]
ReplyId = Annotated[
    str,
    Meta(
        description="The reply's id, a ULID: ids sort by time",
        pattern=ulids.PATTERN,  # with the rule of a comment's id
        examples=["01KAJQXK3MZ4T6V8C0B2D5F7HJ"],
    ),
]
VoteCount = Annotated[
    int, Meta(description="The number of readers who find the comment helpful", ge=0, examples=[3])
]

ONE = {
    "id": "01KAJQF8G0Z9M4T3V7C2X5N8QR",
    "author": "me",
    "name": "Ann",
    "rating": 5,
    "language": "en",
    "text": "Fits well.",
    "created": "2026-11-21T10:00:00Z",
    "edited": None,
    "hidden": False,
    "state": "approved",
    "votes": 3,
    "replies": 1,
    "verified": True,
}
ONE_REPLY = {
    "id": "01KAJQXK3MZ4T6V8C0B2D5F7HJ",
    "author": "shop",
    "name": "The shop",
    "language": "en",
    "text": "Thank you!",
    "created": "2026-11-21T10:10:00Z",
    "edited": None,
    "hidden": False,
    "state": "approved",
}


class ProductPath(Schema):
    """A product."""

    product: Product


class CommentPath(Schema):
    """A comment on a product."""

    product: Product
    id: CommentId


class ProductBody(Schema):
    """The definition of a product. What it leaves out is as the stage defines it (HUBBUB_COMMENTS_MODE)."""

    EXAMPLES: ClassVar = {"a discussion": {"ratings": "off", "perAuthor": "many"}}

    ratings: Ratings | UnsetType = UNSET
    per_author: PerAuthor | UnsetType = UNSET
    approve: Approve | UnsetType = UNSET


class ProductDefinition(Schema):
    """How a product takes comments, by its definition or by the stage's."""

    EXAMPLES: ClassVar = {
        "a discussion": {"product": "post-7", "ratings": "off", "perAuthor": "many", "approve": False}
    }

    product: Product
    ratings: Ratings
    per_author: PerAuthor
    approve: Approve


class CommentBody(Schema):
    """An author's comment on a product: a text, with a rating where the product has ratings."""

    EXAMPLES: ClassVar = {"a comment": {"rating": 5, "language": "en", "text": "Fits well."}}

    language: Language
    text: Text
    rating: Annotated[
        Rating | None, Meta(description="Required, optional or refused, by the product's definition")
    ] = None


class CommentEdit(Schema):
    """A change by the author: one or more of these fields."""

    MORE: ClassVar = {"anyOf": [{"required": [name]} for name in ("rating", "language", "text")]}

    rating: Rating | UnsetType | None = UNSET
    language: Language | UnsetType = UNSET
    text: Text | UnsetType = UNSET


class Approval(Schema):
    """A change by an admin: the approval of a pending text. To refuse it, delete the text."""

    state: Annotated[Literal["approved"], Meta(description="Publishes a pending or hidden text")]


class CommentVisibility(Schema):
    """A change by an admin. Only its author and admins see a hidden comment, and no statistics include it."""

    hidden: Annotated[bool, Meta(description="True hides the comment, false shows it again")]


class CommentPatch(CommentEdit):
    """A change: rating, language and text by the author, or `hidden` or `state` by an admin."""

    ONE_OF: ClassVar = {
        CommentEdit: ["rating", "language", "text"],
        CommentVisibility: ["hidden"],
        Approval: ["state"],
    }
    MORE: ClassVar = {}
    EXAMPLES: ClassVar = {
        "another rating": {"rating": 4},
        "hide (admin)": {"hidden": True},
        "approve (admin)": {"state": "approved"},
    }

    hidden: bool | UnsetType = UNSET
    state: Literal["approved"] | UnsetType = UNSET


class Comment(Schema):
    """A comment on a product."""

    EXAMPLES: ClassVar = {"a comment": ONE}

    id: CommentId
    author: Author
    name: Name
    rating: Annotated[Rating | None, Meta(description="The rating from 1 to 5, or null without one")]
    language: Language
    text: Text
    created: Instant
    edited: Annotated[Instant | None, Meta(description="The time of the last edit, or null")]
    hidden: Annotated[bool, Meta(description="Whether an admin has hidden it", examples=[False])]
    state: State
    votes: VoteCount
    replies: Annotated[
        int, Meta(description="The number of its replies, without hidden ones", ge=0, examples=[1])
    ]
    verified: Annotated[
        bool, Meta(description="Whether its author's token had the claim `verified`", examples=[True])
    ]


class ProductComment(Comment):
    """A comment with its product."""

    product: Product


class AllComments(Schema):
    """A page of the comments on all products, newest first."""

    EXAMPLES: ClassVar = {"the last page": {"items": [ONE | {"product": "garment-767"}], "cursor": None}}

    items: list[ProductComment]
    cursor: Next


class ListedProduct(Schema):
    """A product that has had a comment."""

    product: Product
    created: Annotated[Instant, Meta(description="The time of its first comment, to the second")]


class Products(Schema):
    """A page of the products, newest first."""

    EXAMPLES: ClassVar = {
        "one": {"items": [{"product": "garment-767", "created": "2026-11-21T10:00:00Z"}], "cursor": None}
    }

    items: list[ListedProduct]
    cursor: Next


class CommentsQuery(Schema):
    """Filters of a list of comments. Without any, the list has all comments."""

    rating: (
        Annotated[
            str,
            Meta(
                description="Ratings, separated by commas. The default is all ratings",
                pattern=described(RATINGS_PATTERN, "must be ratings from 1 to 5, separated by commas"),
                examples=["4,5"],
            ),
        ]
        | None
    ) = None
    language: Language | None = None
    order: Annotated[
        Literal["newest", "oldest", "helpful", "highest", "lowest"],
        Meta(
            description="By time, by votes (helpful) or by rating. Ties are newest first, and comments "
            "without a rating come last"
        ),
    ] = "newest"
    limit: Annotated[int, Meta(description="The maximum number of comments", ge=1, le=100)] = 20
    cursor: Cursor = None
    explain: Annotated[bool, Meta(description="Include the plan and its cost. Only for admins")] = False


class ModerationQuery(Schema):
    """A page of a list for moderation: all texts but the pending ones, or the pending ones alone."""

    limit: Annotated[int, Meta(description="The maximum number of items", ge=1, le=100)] = 20
    cursor: Cursor = None
    state: Annotated[
        Literal["pending"] | None, Meta(description="pending: the texts that wait for approval")
    ] = None


class BanBody(Schema):
    """The length of a ban."""

    EXAMPLES: ClassVar = {"a day": {"hours": 24}}

    hours: Annotated[int, Meta(description="The length of the ban", ge=1, le=87_600)] = 24


class AuthorPath(Schema):
    """An author."""

    author: Author


class Ban(Schema):
    """An author that may not write comments, replies, votes or reports until a time."""

    EXAMPLES: ClassVar = {"a ban": {"author": "me", "until": "2026-11-22T10:00:00Z"}}

    author: Author
    until: Instant


class Bans(Schema):
    """A page of the bans that have not ended, the last one to end first."""

    EXAMPLES: ClassVar = {
        "one": {"items": [{"author": "me", "until": "2026-11-22T10:00:00Z"}], "cursor": None}
    }

    items: list[Ban]
    cursor: Next


class ReportBody(Schema):
    """A reader's report of a comment, or of a reply to it."""

    EXAMPLES: ClassVar = {"a report": {"reason": "An insult."}}

    reason: Annotated[str, Meta(description="The reason, for admins", min_length=1, max_length=500)]
    reply: Annotated[ReplyId | None, Meta(description="The reported reply. Without it, the comment")] = None


class Receipt(Schema):
    """The receipt of a report."""

    reported: bool


class DismissQuery(Schema):
    """The reported text: the comment, or a reply to it."""

    reply: ReplyId | None = None


class ReportedText(Schema):
    """A comment or a reply that readers have reported."""

    product: Product
    comment: CommentId
    reply: Annotated[ReplyId | None, Meta(description="The reported reply; null for the comment")]
    author: Author
    name: Name
    language: Language
    text: Text
    created: Instant
    state: State
    reports: Annotated[
        int, Meta(description="The number of reports since an admin's last decision", ge=0, examples=[2])
    ]
    reasons: Annotated[list[str], Meta(description="Up to ten reasons", max_length=10)]
    reported: Annotated[Instant, Meta(description="The time of the first report, to the second")]


class ReportedTexts(Schema):
    """A page of the reported texts, the last one to be reported first."""

    EXAMPLES: ClassVar = {
        "a reported comment": {
            "items": [
                {
                    "product": "garment-767",
                    "comment": "01KAJQF8G0Z9M4T3V7C2X5N8QR",
                    "reply": None,
                    "author": "me",
                    "name": "Ann",
                    "language": "en",
                    "text": "Fits well.",
                    "created": "2026-11-21T10:00:00Z",
                    "state": "approved",
                    "reports": 2,
                    "reasons": ["An insult."],
                    "reported": "2026-11-21T11:00:00Z",
                }
            ],
            "cursor": None,
        }
    }

    items: list[ReportedText]
    cursor: Next


class HiddenQuery(Schema):
    """A page of the comments that an admin has hidden or that are pending, newest first."""

    limit: Annotated[int, Meta(description="The maximum number of comments", ge=1, le=100)] = 20
    cursor: Cursor = None


class Plan(Schema):
    """The plan that found a page of comments, and its cost."""

    way: Annotated[
        Literal["all", "filter", "merge", "votes", "none"],
        Meta(
            description="all: all comments of the product; filter: the same without those that do not match; "
            "merge: one sub-query for each rating and language, in parallel; votes: the comments with votes; "
            "none: no comment matches"
        ),
    ]
    sub_queries: Annotated[
        int, Meta(description="The number of cells (rating and language) with comments", ge=0)
    ]
    skipped: Annotated[
        int, Meta(description="The number of cells (rating and language) without comments", ge=0)
    ]
    expected: Annotated[dict[str, float], Meta(description="The RRU that each plan was expected to cost")]
    queries: Annotated[int, Meta(description="The number of queries, with that of the statistics", ge=0)]
    rru: Annotated[float, Meta(description="The read request units that DynamoDB counted", ge=0)]


class Comments(Schema):
    """A page of comments. It may have fewer than `limit` comments and still a next page."""

    EXAMPLES: ClassVar = {"the last page": {"items": [ONE], "cursor": None}}

    items: list[Comment]
    cursor: Next
    plan: Plan | UnsetType = UNSET


class StatisticsQuery(Schema):
    """Statistics in one language, or in all."""

    language: Language | None = None


class RatingCounts(Schema):
    """The number of comments with each rating."""

    one: Count = field(name="1")
    two: Count = field(name="2")
    three: Count = field(name="3")
    four: Count = field(name="4")
    five: Count = field(name="5")


class RatingRow(Schema):
    """A line of a product's statistics as CSV."""

    rating: int
    comments: int


class RatingStatistics(Schema):
    """A product's ratings: counts and averages. The total has comments without a rating too."""

    EXAMPLES: ClassVar = {
        "a product": {
            "ratings": {"1": 1, "2": 0, "3": 2, "4": 4, "5": 10},
            "total": 19,
            "average": 4.2941,
            "bayesianAverage": 4,
        },
    }

    ratings: RatingCounts
    total: Count
    average: Annotated[
        float | None, Meta(description="The mean rating to four decimals, or null without a rating")
    ]
    bayesian_average: Annotated[
        float, Meta(description="The mean with one more vote for each rating: 3 without a rating")
    ]

    def rows(self) -> list[RatingRow]:
        """Return the lines of the statistics as CSV."""
        counts = [getattr(self.ratings, name) for name in ("one", "two", "three", "four", "five")]
        return [RatingRow(rating=rating, comments=count) for rating, count in enumerate(counts, 1)]


class LeadersQuery(Schema):
    """A list of leading products, in one language or in all."""

    limit: Annotated[int, Meta(description="The maximum number of products", ge=1, le=100)] = 10
    language: Language | None = None


class Leader(Schema):
    """A product and the number of its comments with the rating 5."""

    product: Product
    five_star: Annotated[int, Meta(description="The number of its ratings of 5", ge=1, examples=[10])]


class Leaders(Schema):
    """Products by their number of comments with the rating 5, highest first, then by name."""

    EXAMPLES: ClassVar = {"one product": {"items": [{"product": "garment-767", "fiveStar": 10}]}}

    items: list[Leader]
    complete: Annotated[
        bool | UnsetType,
        Meta(description="false if a product that is not listed may have as many; otherwise absent"),
    ] = UNSET


# -- votes and replies ---------------------------------------------------------------------------------


class Votes(Schema):
    """The votes of a comment."""

    EXAMPLES: ClassVar = {"with the caller's vote": {"votes": 4}}

    votes: Annotated[
        int,
        Meta(
            description="The number of votes with the caller's. Votes of the same moment may be missing",
            ge=0,
            examples=[4],
        ),
    ]


class ReplyPath(Schema):
    """A reply to a comment."""

    product: Product
    id: CommentId
    reply: ReplyId


class ReplyBody(Schema):
    """A reply to a comment: a text, and its language unless it is that of the comment."""

    EXAMPLES: ClassVar = {"a reply": {"text": "Thank you!"}}

    text: Text
    language: Language | UnsetType = UNSET


class ReplyEdit(Schema):
    """A change by the author: one or both of these fields."""

    MORE: ClassVar = {"anyOf": [{"required": [name]} for name in ("language", "text")]}

    language: Language | UnsetType = UNSET
    text: Text | UnsetType = UNSET


class ReplyVisibility(Schema):
    """A change by an admin. Only its author and admins see a hidden reply, and no number includes it."""

    hidden: Annotated[bool, Meta(description="True hides the reply, false shows it again")]


class ReplyPatch(ReplyEdit):
    """A change of a reply: language and text by the author, or `hidden` or `state` by an admin."""

    ONE_OF: ClassVar = {ReplyEdit: ["language", "text"], ReplyVisibility: ["hidden"], Approval: ["state"]}
    MORE: ClassVar = {}
    EXAMPLES: ClassVar = {
        "another text": {"text": "Thanks!"},
        "hide (admin)": {"hidden": True},
        "approve (admin)": {"state": "approved"},
    }

    hidden: bool | UnsetType = UNSET
    state: Literal["approved"] | UnsetType = UNSET


class Reply(Schema):
    """A reply to a comment."""

    EXAMPLES: ClassVar = {"a reply": ONE_REPLY}

    id: ReplyId
    author: Author
    name: Name
    language: Language
    text: Text
    created: Instant
    edited: Annotated[Instant | None, Meta(description="The time of the last edit, or null")]
    hidden: Annotated[bool, Meta(description="Whether an admin has hidden it", examples=[False])]
    state: State


class RepliesQuery(Schema):
    """A page of the replies to a comment, oldest first."""

    limit: Annotated[int, Meta(description="The maximum number of replies", ge=1, le=100)] = 20
    cursor: Cursor = None


class Replies(Schema):
    """A page of the replies to a comment, oldest first.

    It may have fewer than `limit` replies and still a next page.
    """

    EXAMPLES: ClassVar = {"the last page": {"items": [ONE_REPLY], "cursor": None}}

    items: list[Reply]
    cursor: Next


class ProductReply(Reply):
    """A reply with its product and comment."""

    product: Product
    comment: CommentId


class AllReplies(Schema):
    """A page of the replies on all products, newest first."""

    EXAMPLES: ClassVar = {
        "the last page": {
            "items": [ONE_REPLY | {"product": "garment-767", "comment": "01KAJQF8G0Z9M4T3V7C2X5N8QR"}],
            "cursor": None,
        }
    }

    items: list[ProductReply]
    cursor: Next
