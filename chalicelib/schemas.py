"""What enters and what leaves, as typed structs; on the wire their names are camelCase."""

import re
from typing import Annotated, Any, ClassVar, Literal

from msgspec import UNSET, Meta, Struct, UnsetType, field

# What names a player, a board, a product: 1 to 128 characters, letters of any script, signs and emoji, but no
# blank, no control or direction mark, and no `#`, which parts the keys of the table. NFC is applied first.
IDENTIFIER_PATTERN = (
    r"^[^#\u0000-\u0020\u007f-\u00a0\u200b\u200c\u200e\u200f\u2028-\u202f\u2060-\u206f"
    r"\u3000\ud800-\udfff\ufeff]{1,128}$(?!\n)"
)
IDENTIFIER = re.compile(IDENTIFIER_PATTERN)
Identifier = Annotated[str, Meta(pattern=IDENTIFIER_PATTERN, examples=["player-1"])]
Url = Annotated[
    str,
    Meta(
        description="The http(s) address of a page, up to 1,500 bytes",
        examples=["https://example.org/a"],
        extra_json_schema={"format": "uri"},
    ),
]
Instant = Annotated[
    str,
    Meta(
        description="An ISO 8601 instant with an offset; answers are in UTC",
        examples=["2026-11-21T10:00:00Z"],
        extra_json_schema={"format": "date-time"},
    ),
]
Bound = Annotated[
    str | None,
    Meta(
        description="An ISO 8601 instant with an offset, or a date, which stands for its whole UTC day",
        examples=["2026-11-21", "2026-11-21T10:00:00Z"],
    ),
]
Cursor = Annotated[str | None, Meta(description="The cursor of the page before")]


class Schema(Struct, rename="camel", kw_only=True):
    """Stand above every struct of the interface."""


TEXT = {"type": "string"}
CLIENT = "^[!-~]{1,128}$(?!\\n)"

# -- views ---------------------------------------------------------------------------------------------


class ViewsBody(Schema):
    """One view event (`url`, `time`, `clientId`), or up to 500 of them (`events`), each judged by itself."""

    MORE: ClassVar = {"oneOf": [{"required": ["url", "time", "clientId"]}, {"required": ["events"]}]}

    url: Annotated[Any, Meta(description="The page", extra_json_schema=TEXT | {"format": "uri"})] = UNSET
    time: Annotated[Any, Meta(description="When", extra_json_schema=TEXT | {"format": "date-time"})] = UNSET
    client_id: Annotated[
        Any,
        Meta(description="1 to 128 printable ASCII characters", extra_json_schema=TEXT | {"pattern": CLIENT}),
    ] = UNSET
    events: Annotated[
        list[Any] | UnsetType,
        Meta(
            description="View events; one that does not count is answered with its reason",
            extra_json_schema={"maxItems": 500},
        ),
    ] = UNSET


Reason = Literal["bad_url", "site_not_allowed", "too_old", "in_the_future", "bad_time", "bad_client", "bot"]


class Rejection(Schema):
    """An event that does not count, by its place in the batch, and why."""

    index: int
    reason: Reason


class Accepted(Schema):
    """How many events were taken."""

    accepted: int
    rejected: list[Rejection]


class PageQuery(Schema):
    """A page."""

    url: Url


class PageViews(Schema):
    """How often a page was viewed, and by how many clients a day, summed over the days."""

    url: Url
    views: int
    uniques: int


class SeriesQuery(Schema):
    """A page's series: `from` 24 hours or 30 days ago up to now, unless it is said."""

    url: Url
    interval: Literal["hour", "day"] = "day"
    from_: Bound = field(default=None, name="from")
    to: Bound = None


class Bucket(Schema):
    """One hour or day, by its beginning."""

    time: Instant
    views: int
    uniques: int


class Series(Schema):
    """A page's hours or days, gaps filled with 0."""

    items: list[Bucket]


class EventsQuery(Schema):
    """A page's view events in a time frame: `from` its beginning up to before `to`."""

    url: Url
    from_: Bound = field(default=None, name="from")
    to: Bound = None
    limit: Annotated[int, Meta(ge=1, le=1000)] = 100
    cursor: Cursor = None


class ViewEvent(Schema):
    """One view, in the notation that is kept."""

    url: Url
    time: Instant
    client_id: str


class ViewEvents(Schema):
    """A page of view events, oldest first."""

    items: list[ViewEvent]
    cursor: str | None


class TopQuery(Schema):
    """A site, by its host."""

    site: str
    limit: Annotated[int, Meta(ge=1, le=100)] = 10


class TopPage(Schema):
    """One of a site's most viewed pages."""

    url: Url
    views: int


class TopPages(Schema):
    """A site's pages, most viewed first."""

    items: list[TopPage]


# -- service -------------------------------------------------------------------------------------------


class Health(Schema):
    """That the app answers, and which stage it is."""

    stage: str
    status: Literal["ok"] = "ok"


class FilePath(Schema):
    """One of a page's files."""

    file: Annotated[str, Meta(pattern="^[a-z.-]{1,40}$(?!\\n)")]
