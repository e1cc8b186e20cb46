"""What enters and what leaves, as typed structs; on the wire their names are camelCase."""

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType, field


class Schema(Struct, rename="camel", kw_only=True):
    """Stand above every struct of the interface."""


# -- views ---------------------------------------------------------------------------------------------


class ViewsBody(Schema):
    """One view event, or up to 500 of them. What an event holds is judged one by one."""

    url: Any = UNSET
    time: Any = UNSET
    client_id: Any = UNSET
    events: list[Any] | UnsetType = UNSET


class Rejection(Schema):
    """An event that does not count, by its place in the batch, and why."""

    index: int
    reason: str


class Accepted(Schema):
    """How many events were taken."""

    accepted: int
    rejected: list[Rejection]


class PageQuery(Schema):
    """A page."""

    url: str


class PageViews(Schema):
    """How often a page was viewed, and by how many clients a day, summed over the days."""

    url: str
    views: int
    uniques: int


class SeriesQuery(Schema):
    """A page's series: `from` 24 hours or 30 days ago up to now, unless it is said."""

    url: str
    interval: Literal["hour", "day"] = "day"
    from_: str | None = field(default=None, name="from")
    to: str | None = None


class Bucket(Schema):
    """One hour or day, by its beginning."""

    time: str
    views: int
    uniques: int


class Series(Schema):
    """A page's hours or days, gaps filled with 0."""

    items: list[Bucket]


class EventsQuery(Schema):
    """A page's view events in a time frame: `from` its beginning up to before `to`."""

    url: str
    from_: str | None = field(default=None, name="from")
    to: str | None = None
    limit: Annotated[int, Meta(ge=1, le=1000)] = 100
    cursor: str | None = None


class ViewEvent(Schema):
    """One view, in the notation that is kept."""

    url: str
    time: str
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

    url: str
    views: int


class TopPages(Schema):
    """A site's pages, most viewed first."""

    items: list[TopPage]


# -- service -------------------------------------------------------------------------------------------


class Health(Schema):
    """That the app answers, and which stage it is."""

    stage: str
    status: Literal["ok"] = "ok"
