"""Every operation of views in each of its cases, and what it costs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from chalicelib.views import events as views_of
from chalicelib.views.events import View
from tests.support.deployed import Deployed, Invocation
from tests.support.operations import PAGE, VIEWS, make_events, recent_hour

COSTS = {
    ("POST /views", "one"): (202, 4, 0.5),
    ("POST /views", "the same again"): (202, 4, 0),
    ("POST /views", "25"): (202, 76, 0),
    ("stream", "26 views of a new page"): (0, 19, 7),
    ("POST /views", "25 more"): (202, 76, 0),
    ("stream", "25 views, visitors known"): (0, 9, 0),
    ("stream", "… the same batch again"): (0, 3, 3),
    ("queue", "25 views"): (0, 75, 0),
    ("POST /views", "without a client, first of the day"): (202, 5, 1.5),
    ("POST /views", "without a client"): (202, 4, 0),
    ("POST /views", "with a wrong clock"): (202, 5, 2),
    ("POST /views", "with the counts of the page"): (200, 4, 3),
    ("queue", "a view with a wrong clock"): (0, 4, 1),
    ("stream", "an expired view"): (0, 0, 0),
    ("stream", "a malformed item"): (0, 4, 1),
    ("GET /views", ""): (200, 0, 0.5),
    ("GET /views/badge.svg", ""): (200, 0, 0.5),
    ("GET /views/series", "by hour"): (200, 0, 0.5),
    ("GET /views/top", ""): (200, 0, 1),
    ("GET /views/events", "75 events"): (200, 0, 1.5),
    ("POST /views", "one with sources"): (202, 4, 0.5),
    ("POST /views", "25 with sources"): (202, 76, 0),
    ("stream", "26 views of another site"): (0, 23, 7),
    ("POST /views", "another with sources"): (202, 4, 0),
    ("stream", "a view with sources, visitor known"): (0, 5, 0),
    ("POST /views", "of a browser, direct"): (202, 4, 0),
    ("stream", "a view with every trait, visitor known"): (0, 3, 0),
    ("POST /views", "of a browser, from a host of a source"): (202, 4, 0),
    ("stream", "a view with a new source and its host, visitor known"): (0, 7, 0),
    ("GET /views/site", "by hour"): (200, 0, 0.5),
    ("GET /views/top", "of a day"): (200, 0, 1),
    ("GET /views/referrers", "of a day"): (200, 0, 2),
    ("GET /views/referrers", "the hosts of a source"): (200, 0, 1),
    ("GET /views/visitors", "by country"): (200, 0, 0.5),
    ("GET /views/campaigns", "of 30 days"): (200, 0, 1.5),
    ("POST /views", "a goal"): (202, 3, 0),
    ("stream", "a goal of a known site"): (0, 3, 0),
    ("GET /views/goals", "of a day"): (200, 0, 1.5),
    ("GET /views/pixel.gif", ""): (200, 4, 0),
    ("PUT /sites/{site}", "new"): (201, 2, 1.5),
    ("GET /sites/{site}", ""): (200, 0, 1),
    ("POST /sites/{site}/links", ""): (201, 0, 1),
    ("DELETE /sites/{site}", ""): (204, 2, 1),
    ("GET /sites", ""): (200, 0, 3.5),
}
"""The status, WCU and RCU of each case; a handler without an answer has status 0."""


def story(site: Deployed) -> Iterator[Invocation]:
    """Post, queue, count and read views, first of a page and then with sources."""
    hour = recent_hour(0)
    events = partial(make_events, PAGE, hour, {})
    page = {"url": PAGE}
    yield site.rest("POST /views", "one", body=events(0, 1)[0])
    yield site.rest("POST /views", "the same again", body=events(0, 1)[0])
    yield site.rest("POST /views", f"{VIEWS}", body={"events": events(1, VIEWS)})
    yield site.delivery(f"{1 + VIEWS} views of a new page")
    site.drain()
    yield site.rest("POST /views", f"{VIEWS} more", body={"events": events(100, VIEWS)})
    again = site.delivery(f"{VIEWS} views, visitors known")
    yield again
    yield again._replace(name="… the same batch again")
    message = {"messageId": "m", "body": json.dumps({"taken": True, "events": events(200, VIEWS)})}
    yield Invocation("queue", f"{VIEWS} views", site.app.write_views, {"Records": [message]})
    yield from _views_of_browsers(site)
    site.drain()
    first = views_of.event_key(View(PAGE, hour, "visitor-000"))
    site.table.delete(first)
    expired = site.delivery("an expired view")
    for record in expired.event["Records"]:
        record["userIdentity"] = {"type": "Service", "principalId": "dynamodb.amazonaws.com"}
    yield expired
    site.table.put(first._asdict() | {"sk": "T#nonsense"})
    yield site.delivery("a malformed item")
    yield site.rest("GET /views", "", query=page)
    yield site.rest("GET /views/badge.svg", "", query=page)
    yield site.rest("GET /views/series", "by hour", query=page | {"interval": "hour"})
    yield site.rest("GET /views/top", "", query={"site": "www.example.org"})
    yield site.rest("GET /views/events", "75 events", query=page, sub="admin")
    yield from _views_with_sources(site)


def _views_of_browsers(site: Deployed) -> Iterator[Invocation]:
    """Post views as the beacon does: without a client's id, by any clock."""
    now = datetime.now(UTC)
    view = {"url": "https://blog.example.org/", "time": now.isoformat(), "sent": now.isoformat()}
    wrong = dict.fromkeys(("time", "sent"), (now - timedelta(days=99)).isoformat())
    yield site.rest("POST /views", "without a client, first of the day", body=view)
    yield site.rest("POST /views", "without a client", body=view)
    yield site.rest("POST /views", "with a wrong clock", body=view | wrong)
    counts = site.rest("POST /views", "with the counts of the page", body=view)
    counts.event["headers"]["prefer"] = "return=representation"
    yield counts
    body = json.dumps(view | wrong | {"clientId": "c"})
    message = {"messageId": "m", "body": body}
    yield Invocation("queue", "a view with a wrong clock", site.app.write_views, {"Records": [message]})


def _views_with_traits(site: Deployed, event: dict[str, Any], hour: datetime) -> Iterator[Invocation]:
    """Post and count views of a browser with every trait, by a visitor who is known."""
    browser = {
        "user-agent": "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0",
        "accept-language": "de",
        "cloudfront-viewer-country": "DE",
    }
    del event["campaign"]
    for number, (referrer, name, counted) in enumerate(
        (
            ("", "direct", "every trait"),
            ("https://www.google.de/", "from a host of a source", "a new source and its host"),
        )
    ):
        body = event | {"referrer": referrer, "time": (hour + timedelta(seconds=number)).isoformat()}
        post = site.rest("POST /views", f"of a browser, {name}", body=body)
        post.event["headers"] |= browser
        yield post
        yield site.delivery(f"a view with {counted}, visitor known")
        site.drain()


def _views_with_sources(site: Deployed) -> Iterator[Invocation]:
    """Post and count views with a referrer and a campaign, and read the sums of their site."""
    hour, host = recent_hour(1), "shop.example.org"
    source = {"referrer": "https://news.example.com/", "campaign": "spring-sale"}
    events = partial(make_events, f"https://{host}/lamp", hour, source)
    yield site.rest("POST /views", "one with sources", body=events(0, 1)[0])
    yield site.rest("POST /views", f"{VIEWS} with sources", body={"events": events(1, VIEWS)})
    yield site.delivery(f"{1 + VIEWS} views of another site")
    site.drain()
    yield site.rest("POST /views", "another with sources", body=events(100, 1)[0])
    yield site.delivery("a view with sources, visitor known")
    site.drain()
    yield from _views_with_traits(site, events(100, 1)[0], hour)
    day = hour.date().isoformat()
    period = {"site": host, "from": day, "to": day}
    yield site.rest("GET /views/site", "by hour", query=period | {"interval": "hour"})
    yield site.rest("GET /views/top", "of a day", query=period)
    yield site.rest("GET /views/referrers", "of a day", query=period)
    hosts = period | {"source": "news.example.com"}
    yield site.rest("GET /views/referrers", "the hosts of a source", query=hosts)
    yield site.rest("GET /views/visitors", "by country", query=period | {"by": "country"})
    yield site.rest("GET /views/campaigns", "of 30 days", query={"site": host})
    goal = {"url": f"https://{host}/lamp", "goal": "sign up", "time": hour.isoformat(), "clientId": "c"}
    yield site.rest("POST /views", "a goal", body=goal)
    yield site.delivery("a goal of a known site")
    yield site.rest("GET /views/goals", "of a day", query=period)
    yield site.rest("GET /views/pixel.gif", "", query={"url": f"https://{host}/lamp"})
    defined: dict[str, Any] = {"path": {"site": "new.example.org"}, "sub": "admin"}
    yield site.rest("PUT /sites/{site}", "new", body={"timezone": "Europe/Berlin"}, **defined)
    yield site.rest("GET /sites/{site}", "", **defined)
    expires = {"expires": (datetime.now(UTC) + timedelta(hours=1)).isoformat()}
    yield site.rest("POST /sites/{site}/links", "", body=expires, **defined)
    yield site.rest("DELETE /sites/{site}", "", **defined)
    yield site.rest("GET /sites", "", sub="admin")
