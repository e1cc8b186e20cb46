"""What enters and what leaves: views."""

from typing import Annotated, Any, ClassVar, Literal

from msgspec import UNSET, Meta, UnsetType, field

from chalicelib.api.schemas import Cursor, Instant, Next, Schema, described

Url = Annotated[
    str,
    Meta(
        description="The http(s) address of a page, in its normal form, up to 1,500 bytes",
        examples=["https://example.org/a"],
        extra_json_schema={"format": "uri"},
    ),
]
Address = Annotated[
    str,
    Meta(
        description="The http(s) address of a page, up to 1,500 bytes, its host up to 253 characters, "
        "without a user name or password. A missing scheme is read as https. Case of scheme and host, "
        "punycode, a default port, dot segments, percent-encoding, a fragment and an empty query (`/a?`) "
        "make no other page; http or https, any other query and a trailing slash do",
        examples=["https://example.org/a", "myblog.com/article1"],
        extra_json_schema={"format": "address"},  # of our own: a `uri` has a scheme
    ),
]
BOUNDS: list[dict[str, Any]] = [{"format": "date"}, {"format": "date-time"}, {"maxLength": 0}]
Bound = (
    Annotated[
        str,
        Meta(
            description="An ISO 8601 instant with an offset, or a date, which stands for its whole UTC day; "
            "empty, it is as if it were not there",
            examples=["2026-11-21", "2026-11-21T10:00:00Z"],
            extra_json_schema={"anyOf": [{"type": "string", **rule} for rule in BOUNDS]},
        ),
    ]
    | None
)
Client = Annotated[
    str,
    Meta(
        description="1 to 128 printable ASCII characters without a blank",
        examples=["c-1"],
        pattern=described(
            "^[!-~]{1,128}$(?!\\n)", "must be 1 to 128 printable ASCII characters without a space"
        ),
    ),
]
Views = Annotated[int, Meta(description="How many views", ge=0, examples=[1539])]
Uniques = Annotated[int, Meta(description="By how many clients, each once a UTC day", ge=0, examples=[211])]

EVENT = {"url": "https://example.org/a", "time": "2026-11-21T10:00:00Z", "clientId": "c-1"}


class ViewEvent(Schema):
    """One view: a page, an instant, a client. Answers have it in the notation that is kept."""

    url: Address
    time: Instant
    client_id: Client


class ViewBatch(Schema):
    """Up to 25 view events, with a token up to 500. An event of it that is not counted has its reason."""

    events: Annotated[
        list[ViewEvent],
        Meta(description="At most 25, with a valid token of a user or an admin 500", max_length=500),
    ]


class ViewsBody(Schema):
    """One view event, or a list of them. The same url, instant and client count once, however often sent."""

    ONE_OF: ClassVar = {ViewEvent: ["url", "time", "clientId"], ViewBatch: ["events"]}
    EXAMPLES: ClassVar = {
        "one view": EVENT,
        "without a scheme": EVENT | {"url": "myblog.com/article1"},
        "several": {"events": [EVENT, EVENT | {"time": "2026-11-21T11:00:30+01:00", "clientId": "c-2"}]},
    }

    # Of any type here: what is wrong with an event is an answer (a reason), and no error of the door's.
    url: Any = UNSET
    time: Any = UNSET
    client_id: Any = UNSET
    events: list[Any] | UnsetType = UNSET


class QueuedViews(ViewsBody):
    """A message of the views queue; `taken` at the door, its events count however long they waited."""

    taken: bool = False


Reason = Literal["bad_url", "site_not_allowed", "too_old", "in_the_future", "bad_time", "bad_client", "bot"]


class Rejection(Schema):
    """An event that does not count, by its place in the batch, and why."""

    index: Annotated[int, Meta(description="Its place in `events`, from 0", ge=0)]
    reason: Reason


class Accepted(Schema):
    """How many events were taken."""

    EXAMPLES: ClassVar = {
        "all taken": {"accepted": 1, "rejected": []},
        "one refused": {"accepted": 1, "rejected": [{"index": 1, "reason": "too_old"}]},
    }

    accepted: Annotated[int, Meta(description="How many were taken", ge=0)]
    rejected: Annotated[list[Rejection], Meta(description="Those that were not")]


class PageQuery(Schema):
    """A page."""

    url: Address


class PageViews(Schema):
    """How often a page was viewed, and by how many clients a day, summed over the days."""

    EXAMPLES: ClassVar = {"a page": {"url": "https://example.org/a", "views": 1539, "uniques": 211}}

    url: Url
    views: Views
    uniques: Uniques


class SeriesQuery(Schema):
    """A page's series: `from` 24 hours or 30 days ago up to now, unless it is said."""

    url: Address
    interval: Annotated[
        Literal["hour", "day"],
        Meta(description="What to count by: at most 31 days of hours, or 366 days"),
    ] = "day"
    from_: Bound = field(default=None, name="from")
    to: Bound = None


class Bucket(Schema):
    """One hour or day, by its beginning."""

    time: Instant
    views: Views
    uniques: Uniques


class Series(Schema):
    """A page's hours or days, gaps filled with 0."""

    EXAMPLES: ClassVar = {
        "two days": {
            "items": [
                {"time": "2026-11-20T00:00:00Z", "views": 0, "uniques": 0},
                {"time": "2026-11-21T00:00:00Z", "views": 1539, "uniques": 211},
            ]
        }
    }

    items: list[Bucket]


class EventsQuery(Schema):
    """A page's view events in a time frame: `from` its beginning up to before `to`."""

    url: Address
    from_: Bound = field(default=None, name="from")
    to: Bound = None
    limit: Annotated[int, Meta(description="At most so many events", ge=1, le=1000)] = 100
    cursor: Cursor = None


class ViewEvents(Schema):
    """A page of view events, oldest first."""

    EXAMPLES: ClassVar = {"the last page": {"items": [EVENT], "cursor": None}}

    items: list[ViewEvent]
    cursor: Next


class TopQuery(Schema):
    """A site, by its host."""

    site: Annotated[
        str,
        Meta(
            description="A host alone, without a scheme, port or path",
            examples=["www.example.org"],
            min_length=1,
            extra_json_schema={"format": "host"},  # of our own: `hostname` knows no ü and no _
        ),
    ]
    limit: Annotated[int, Meta(description="At most so many pages", ge=1, le=100)] = 10


class TopPage(Schema):
    """One of a site's most viewed pages."""

    url: Url
    views: Views


class TopPages(Schema):
    """A site's pages, most viewed first."""

    EXAMPLES: ClassVar = {"one page": {"items": [{"url": "https://example.org/a", "views": 1539}]}}

    items: list[TopPage]
