"""View events as they enter: which count as a view, and why the others do not."""

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple

from msgspec import UNSET

from chalicelib import times, urls
from chalicelib.errors import BadRequest, Bot, HubbubError, InTheFuture, SiteNotAllowed, TooLarge, TooOld
from chalicelib.settings import Settings
from chalicelib.views.schemas import Reason, ViewsBody

EVENTS = 500  # in one request with a token, or one message of the queue
ANONYMOUS = 25  # in one request without: docs/decisions.md has what the dearest of them costs
CLIENT = re.compile("[!-~]{1,128}")  # printable ASCII without a blank; it ends its keys, so # does no harm
MALFORMED: dict[Reason, str] = {
    "bad_url": f"url: it must be the http(s) address of a page, of up to {urls.MAX_LENGTH} bytes",
    "bad_time": "time: it must be an ISO 8601 instant with an offset, such as 2026-11-21T10:00:00Z",
    "bad_client": "clientId: it must be 1 to 128 printable ASCII characters without a blank",
}
NOT_COUNTED: dict[Reason, tuple[type[HubbubError], str]] = {
    "too_old": (TooOld, "time: it is longer ago than this stage counts views"),
    "in_the_future": (InTheFuture, "time: it lies in the future; is the client's clock right?"),
    "site_not_allowed": (SiteNotAllowed, "url: this stage does not count views of this page"),
    "bot": (Bot, "User-Agent: it is a crawler's, and views of crawlers are not counted"),
}


class View(NamedTuple):
    """One view, in the notation that is kept."""

    url: str
    time: datetime
    client: str


def checked(body: ViewsBody, settings: Settings, now: datetime, *, most: int = EVENTS) -> list[View | Reason]:
    """Check each event of a body. Raises BadRequest for a single malformed one, TooLarge past `most`."""
    if body.events is UNSET:
        seen = check({"url": body.url, "time": body.time, "clientId": body.client_id}, settings, now)
        if isinstance(seen, str) and seen in MALFORMED:
            raise BadRequest(MALFORMED[seen])
        return [seen]
    if not (body.url is UNSET and body.time is UNSET and body.client_id is UNSET):
        raise BadRequest("events: send either one event or a list of events, not both")
    if len(body.events) > most:
        more = "" if most == EVENTS else f"; with a user's or an admin's token it may have {EVENTS}"
        raise TooLarge(f"events: there are {len(body.events)}, and a request may have {most}{more}")
    return [check(event, settings, now) for event in body.events]


def check(event: Any, settings: Settings, now: datetime) -> View | Reason:
    """Answer the view that an event stands for, or the reason why it does not count."""
    fields = event if isinstance(event, Mapping) else {}
    try:
        url = urls.canonical(_text(fields.get("url")))
    except ValueError:
        return "bad_url"
    try:
        time = times.parse(_text(fields.get("time")))
    except ValueError:
        return "bad_time"
    client = fields.get("clientId")
    if not isinstance(client, str) or not CLIENT.fullmatch(client):
        return "bad_client"
    if not settings.allows(urls.host(url), urls.page(url)):
        return "site_not_allowed"
    if time < now - settings.views_window:
        return "too_old"
    return "in_the_future" if time > now + settings.views_ahead else View(url, time, client)


def _text(value: Any) -> str:
    if not isinstance(value, str) or len(value) > urls.MAX_LENGTH:
        raise ValueError("it must be text, and not longer than an address")
    return value
