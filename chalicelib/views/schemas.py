"""Request and response schemas of views."""

from typing import Annotated, Any, ClassVar, Literal

from msgspec import UNSET, Meta, UnsetType, field

from chalicelib.api.schemas import INVISIBLE, Cursor, Instant, Next, Schema, Zone, described

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
        description="The http(s) address of a page, up to 1,500 bytes, with a host of up to 253 characters, "
        "without a user name or password. A missing scheme is read as https. Addresses that differ only in "
        "case of scheme and host, punycode, a default port, dot segments, percent-encoding, a fragment or an "
        "empty query (`/a?`) are the same page. Addresses that differ in http or https, any other query or a "
        "trailing slash are different pages",
        examples=["https://example.org/a", "myblog.com/article1"],
        extra_json_schema={"format": "address", "minLength": 1},  # our own format: a `uri` must have a scheme
    ),
]
BOUNDS: list[dict[str, Any]] = [{"format": "date"}, {"format": "date-time"}, {"maxLength": 0}]
Bound = (
    Annotated[
        str,
        Meta(
            description="An ISO 8601 instant with an offset, or a date, which stands for its whole day in "
            "the site's zone. An empty value is ignored",
            examples=["2026-11-21", "2026-11-21T10:00:00Z"],
            extra_json_schema={"anyOf": [{"type": "string", **rule} for rule in BOUNDS]},
        ),
    ]
    | None
)
Client = Annotated[
    str,
    Meta(
        description="1 to 128 printable ASCII characters without a space",
        examples=["c-1"],
        pattern=described(
            "^[!-~]{1,128}$(?!\\n)", "must be 1 to 128 printable ASCII characters without a space"
        ),
    ),
]
Views = Annotated[int, Meta(description="Number of views", ge=0, examples=[1539])]
Visitors = Annotated[
    int, Meta(description="Number of clients, each counted once per day of the site", ge=0, examples=[211])
]
Referrer = Annotated[
    str,
    Meta(
        description="The address of the page or app that led here. It is counted under the name of the "
        "source, such as `google` for the hosts of all countries. The site's own hosts and private addresses "
        "are no source. With known spam the event is no view. A malformed referrer is ignored. In a response "
        "it is the name",
        examples=["https://news.example.com/"],
    ),
]
Sent = Annotated[
    str,
    Meta(
        description="The page's clock when the event is sent. If it differs from the server's by more than "
        "five minutes, the view counts at the server's time, once however often it is sent",
        examples=["2026-11-21T10:00:03Z"],
        extra_json_schema={"format": "date-time"},
    ),
]
Source = Annotated[
    str,
    Meta(
        description="The name of the source that led here (`utm_source`, `ref`, `source` or `utm_medium`). "
        "It counts where there is no referrer. A malformed one is ignored",
        examples=["newsletter"],
    ),
]
Campaign = Annotated[
    str,
    Meta(
        description="The name of the campaign that led here, of 1 to 100 printable characters. "
        "Any other is ignored. Without it, `utm_campaign` of the address counts",
        examples=["spring-sale"],
    ),
]
BrowserZone = Annotated[
    str,
    Meta(
        description="The time zone of the browser. Its country counts where the request has none. "
        "Any other text is ignored",
        examples=["Europe/Berlin"],
    ),
]
Automated = Annotated[
    bool,
    Meta(
        description="Whether a program controls the browser (`navigator.webdriver`): no view. "
        "Anything but true is ignored",
        examples=[False],
    ),
]
GOAL_PATTERN = rf"^[^{INVISIBLE}](?: |[^{INVISIBLE}]){{0,63}}$(?!\n)"
Goal = Annotated[
    str,
    Meta(
        description="The name of a goal that was reached, of 1 to 64 visible characters. Such an event is no "
        "view",
        pattern=described(GOAL_PATTERN, "must be 1 to 64 visible characters"),
        examples=["signup"],
    ),
]
Timezone = Annotated[
    str, Meta(description="The zone of the site, whose days and hours these are", examples=["Europe/Berlin"])
]
Site = Annotated[
    str,
    Meta(
        description="A host without a scheme, port or path",
        examples=["www.example.org"],
        min_length=1,
        extra_json_schema={"format": "host"},  # our own format: `hostname` allows neither ü nor _
    ),
]

EVENT = {"url": "https://example.org/a", "time": "2026-11-21T10:00:00Z", "clientId": "c-1"}


class ViewEvent(Schema):
    """One view: a page, an instant, a client.

    Without a time it is the server's. Without a client it is a digest of the site, the address and the
    User-Agent, which is another one on each day. In a response, url and time are in normal form.
    """

    url: Address
    time: Instant | UnsetType = UNSET
    client_id: Client | UnsetType = UNSET
    referrer: Referrer | UnsetType = UNSET
    campaign: Campaign | UnsetType = UNSET
    source: Source | UnsetType = UNSET
    sent: Sent | UnsetType = UNSET
    automated: Automated | UnsetType = UNSET
    timezone: BrowserZone | UnsetType = UNSET
    goal: Goal | UnsetType = UNSET


class ViewBatch(Schema):
    """Up to 25 view events, or 500 with a token. Each event that does not count is returned with a reason."""

    events: Annotated[
        list[ViewEvent],
        Meta(
            description="At most 25 events, or 500 with a valid token of a user or an admin", max_length=500
        ),
    ]


class ViewsBody(Schema):
    """One view event, or a list of them. The same url, instant and client count once, however often sent."""

    ONE_OF: ClassVar = {ViewEvent: ["url"], ViewBatch: ["events"]}
    EXAMPLES: ClassVar = {
        "one view": EVENT,
        "without a scheme": EVENT | {"url": "myblog.com/article1"},
        "with its source": EVENT | {"referrer": "https://news.example.com/", "campaign": "spring-sale"},
        "of a page": {"url": EVENT["url"], "time": EVENT["time"], "sent": "2026-11-21T10:00:03Z"},
        "a goal": {"url": EVENT["url"], "goal": "signup"},
        "several": {"events": [EVENT, EVENT | {"time": "2026-11-21T11:00:30+01:00", "clientId": "c-2"}]},
    }

    TAKES_ANY_NUMBER: ClassVar = True

    # Any type is accepted here: a malformed event has a reason of its own and must not fail the whole list.
    url: Any = UNSET
    time: Any = UNSET
    client_id: Any = UNSET
    referrer: Any = UNSET
    campaign: Any = UNSET
    source: Any = UNSET
    sent: Any = UNSET
    automated: Any = UNSET
    timezone: Any = UNSET
    goal: Any = UNSET
    events: list[Any] | UnsetType = UNSET


class QueuedViews(ViewsBody):
    """A message of the views queue. With `taken`, its events count however long they waited."""

    taken: bool = False


Reason = Literal[
    "bad_url", "site_not_allowed", "too_old", "in_the_future", "bad_time", "bad_client", "bad_goal", "bot"
]


class Rejection(Schema):
    """An event that does not count, with its index and the reason."""

    index: Annotated[int, Meta(description="Its index in `events`, from 0", ge=0)]
    reason: Reason


class Accepted(Schema):
    """The number of accepted events, and the rejected ones."""

    EXAMPLES: ClassVar = {
        "all accepted": {"accepted": 1, "rejected": []},
        "one rejected": {"accepted": 1, "rejected": [{"index": 1, "reason": "too_old"}]},
    }

    accepted: Annotated[int, Meta(description="Number of accepted events", ge=0)]
    rejected: Annotated[list[Rejection], Meta(description="Events that do not count")]


class Counted(Schema):
    """With `Prefer: return=representation`, the views and visitors of the page of an accepted event."""

    EXAMPLES: ClassVar = {
        "one view": {"accepted": 1, "url": "https://example.org/a", "views": 1539, "visitors": 211}
    }

    url: Url
    views: Views
    visitors: Visitors
    accepted: Annotated[int, Meta(description="Number of accepted events", ge=1, le=1)] = 1


class PageQuery(Schema):
    """A page by its address."""

    url: Address


class PageViews(Schema):
    """A page's views, and its visitors: its clients of each day, summed over all days."""

    EXAMPLES: ClassVar = {"a page": {"url": "https://example.org/a", "views": 1539, "visitors": 211}}

    url: Url
    views: Views
    visitors: Visitors


Interval = Annotated[
    Literal["hour", "day", "week", "month"],
    Meta(
        description="Length of an interval in the site's zone. At most 31 days by hour, 366 days by day, "
        "three years by week, or ten years by month. A week begins on Monday"
    ),
]


class SeriesQuery(Schema):
    """A page's series. By default it covers the last 24 hours, or the last 30 days."""

    url: Address
    interval: Interval = "day"
    from_: Bound = field(default=None, name="from")
    to: Bound = None


class Bucket(Schema):
    """One interval of a series. `time` is its beginning."""

    time: Instant
    views: Views
    visitors: Visitors


class Series(Schema):
    """A page's intervals, with 0 for gaps."""

    EXAMPLES: ClassVar = {
        "two days": {
            "timezone": "UTC",
            "items": [
                {"time": "2026-11-20T00:00:00Z", "views": 0, "visitors": 0},
                {"time": "2026-11-21T00:00:00Z", "views": 1539, "visitors": 211},
            ],
        }
    }

    timezone: Timezone
    items: list[Bucket]


class EventsQuery(Schema):
    """A page's view events in a time range: `from` is included, `to` is not."""

    url: Address
    from_: Bound = field(default=None, name="from")
    to: Bound = None
    limit: Annotated[int, Meta(description="Maximum number of events", ge=1, le=1000)] = 100
    cursor: Cursor = None


class ViewEvents(Schema):
    """A page of view events, oldest first."""

    EXAMPLES: ClassVar = {"the last page": {"items": [EVENT], "cursor": None}}

    items: list[ViewEvent]
    cursor: Next


Complete = Annotated[
    bool | UnsetType,
    Meta(description="false if an item that is not listed may have as many views; otherwise absent"),
]


class TopQuery(Schema):
    """A site by its host, and a period of its days. Without `from` and `to` it is all time."""

    site: Site
    from_: Bound = field(default=None, name="from")
    to: Bound = None
    limit: Annotated[int, Meta(description="Maximum number of pages", ge=1, le=100)] = 10


class TopPage(Schema):
    """One of a site's most viewed pages."""

    url: Url
    views: Views


class TopPages(Schema):
    """A site's pages, most viewed first."""

    EXAMPLES: ClassVar = {
        "one page": {"timezone": "UTC", "items": [{"url": "https://example.org/a", "views": 1539}]}
    }

    timezone: Timezone
    items: list[TopPage]
    complete: Complete = UNSET


class SiteSeriesQuery(Schema):
    """A site's series. By default it covers the last 24 hours, or the last 30 days."""

    site: Site
    interval: Interval = "day"
    from_: Bound = field(default=None, name="from")
    to: Bound = None


class SiteSeries(Schema):
    """A site's intervals, with 0 for gaps, and their views. `visitors` are those of whole days."""

    EXAMPLES: ClassVar = {
        "two days": {
            "timezone": "UTC",
            "views": 1539,
            "visitors": 211,
            "items": [
                {"time": "2026-11-20T00:00:00Z", "views": 0, "visitors": 0},
                {"time": "2026-11-21T00:00:00Z", "views": 1539, "visitors": 211},
            ],
        }
    }

    timezone: Timezone
    views: Views
    visitors: Visitors
    items: list[Bucket]


class SourcesQuery(Schema):
    """A site by its host, and a period of its whole days, by default the last 30 days."""

    site: Site
    from_: Bound = field(default=None, name="from")
    to: Bound = None
    limit: Annotated[int, Meta(description="Maximum number of items", ge=1, le=100)] = 10


class ReferrersQuery(SourcesQuery):
    """A site by its host, and a period of its whole days, by default the last 30 days."""

    source: (
        Annotated[str, Meta(description="List the hosts of this source", max_length=300, examples=["google"])]
        | None
    ) = None


class ReferrerViews(Schema):
    """A source that led to a site, or a host of a source, and the views that came from it."""

    referrer: Annotated[
        str, Meta(description="The name of a source, `direct`, or a host", examples=["news.example.com"])
    ]
    views: Views


class Referrers(Schema):
    """A site's sources in a period, most views first.

    `direct` are the views without a source that no page of the site led to. The hosts of a source have the
    name of the source for the views without a host, or of the host with this name.
    """

    EXAMPLES: ClassVar = {
        "one": {"timezone": "UTC", "items": [{"referrer": "news.example.com", "views": 1539}]}
    }

    timezone: Timezone
    items: list[ReferrerViews]
    complete: Complete = UNSET


class TraitsQuery(Schema):
    """A site by its host, a trait, and a period of the site's whole days, by default the last 30 days."""

    site: Site
    by: Annotated[
        Literal["country", "device", "browser", "os", "language"], Meta(description="The trait to count by")
    ]
    from_: Bound = field(default=None, name="from")
    to: Bound = None


class TraitViews(Schema):
    """The views with one value of a trait."""

    name: Annotated[
        str,
        Meta(
            description="A country by its ISO 3166 code, a language by its ISO 639 code, or a name. `other` "
            "are all that are not listed, and `unknown` those without a value",
            examples=["DE"],
        ),
    ]
    views: Views


class TraitViewsList(Schema):
    """The twenty values of a trait with the most views, `other` and `unknown`: together all views."""

    EXAMPLES: ClassVar = {"one": {"timezone": "UTC", "items": [{"name": "DE", "views": 1539}]}}

    timezone: Timezone
    items: list[TraitViews]


class CampaignViews(Schema):
    """A campaign, and the views that came from it."""

    campaign: Annotated[str, Meta(description="The name of a campaign", examples=["spring-sale"])]
    views: Views


class Campaigns(Schema):
    """A site's campaigns in a period, most views first."""

    EXAMPLES: ClassVar = {"one": {"timezone": "UTC", "items": [{"campaign": "spring-sale", "views": 1539}]}}

    timezone: Timezone
    items: list[CampaignViews]
    complete: Complete = UNSET


class GoalEvents(Schema):
    """A goal of a site, its events and its visitors."""

    goal: Goal
    events: Annotated[int, Meta(description="How often the goal was reached", ge=0)]
    visitors: Visitors


class Goals(Schema):
    """A site's goals in a period, most events first."""

    EXAMPLES: ClassVar = {
        "one": {"timezone": "UTC", "items": [{"goal": "signup", "events": 15, "visitors": 12}]}
    }

    timezone: Timezone
    items: list[GoalEvents]
    complete: Complete = UNSET


# Our own formats: a path with an optional * at its end, an address or a network.
Pattern = Annotated[str, Meta(min_length=1, max_length=200, extra_json_schema={"format": "path"})]
Network = Annotated[str, Meta(min_length=1, max_length=200, extra_json_schema={"format": "network"})]
Host = Annotated[str, Meta(min_length=1, max_length=200, extra_json_schema={"format": "host"})]
Names = Annotated[list[Annotated[str, Meta(min_length=1, max_length=200)]], Meta(max_length=50)]


class SiteBody(Schema):
    """How a site is counted. Every field is optional."""

    EXAMPLES: ClassVar = {"a zone": {"timezone": "Europe/Berlin"}}

    timezone: Annotated[Zone, Meta(description="The zone of its days and hours")] = "UTC"
    statistics: Annotated[Literal["public", "private"], Meta(description="Who reads the site's numbers")] = (
        "public"
    )
    paths: Annotated[
        list[Pattern], Meta(description="The paths that count, with * at an end; all if empty", max_length=50)
    ] = field(default_factory=list)
    query: (
        Annotated[Names, Meta(description="The parameters that distinguish pages; null for all")] | None
    ) = None
    slash: Annotated[
        Literal["keep", "strip"], Meta(description="What becomes of a slash at the end of a path")
    ] = "keep"
    hash: Annotated[bool, Meta(description="Whether `#/` routes are pages")] = False
    ignore: Annotated[
        list[Network], Meta(description="Addresses and networks that are not counted", max_length=50)
    ] = field(default_factory=list)
    hosts: Annotated[list[Host], Meta(description="Other hosts that are the same site", max_length=50)] = (
        field(default_factory=list)
    )


class SiteDefinition(SiteBody, kw_only=True):
    """A site as it is defined."""

    EXAMPLES: ClassVar[dict[str, Any]] = {
        "a zone": {
            "site": "www.example.org",
            "timezone": "Europe/Berlin",
            "since": None,
            "statistics": "public",
            "paths": [],
            "query": None,
            "slash": "keep",
            "hash": False,
            "ignore": [],
            "hosts": [],
        }
    }

    site: Site
    since: (
        Annotated[str, Meta(description="The later day with which the zone begins; the days before it stay")]
        | None
    ) = None


class SitePath(Schema):
    """A site by its host."""

    site: Site


class LinkBody(Schema):
    """When a link to a site's dashboard ends."""

    EXAMPLES: ClassVar = {"a day": {"expires": "2026-11-22T10:00:00Z"}}

    expires: Instant


class Link(Schema):
    """A link to the dashboard that reads the numbers of one site."""

    EXAMPLES: ClassVar = {
        "a link": {"url": "https://example.org/web/dashboard.html?site=www.example.org#token=…"}
    }

    url: str


class ListedSite(Schema):
    """A site and its views."""

    site: Site
    views: Views


class Sites(Schema):
    """A page of the sites that have views, largest first by their views before their newest day."""

    EXAMPLES: ClassVar = {"one": {"items": [{"site": "www.example.org", "views": 1539}], "cursor": None}}

    items: list[ListedSite]
    cursor: Next
