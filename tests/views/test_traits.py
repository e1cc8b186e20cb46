"""The views of a site by its readers' traits, by source, and by the hosts of a source."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

import app
from chalicelib.settings import Settings
from chalicelib.views import events, queue, sources, traits
from chalicelib.views.schemas import QueuedViews
from chalicelib.views.traits import Traits
from tests.support.contexts import new_context
from tests.support.site import Site

FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"
IPHONE = (
    "Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) "
    "Version/18.0 Mobile/15E148 Safari/604.1"
)
CHROME = "AppleWebKit/537.36 (KHTML, like Gecko) Chrome/121.0.0.0"
PAGE = "https://example.org/a"
ORDER = ("country", "language", "device", "browser", "os")


@pytest.mark.parametrize(
    ("user_agent", "device", "browser", "system"),
    [
        (FIREFOX, "desktop", "Firefox", "Linux"),
        (IPHONE, "mobile", "Safari", "iOS"),
        (f"Mozilla/5.0 (Linux; Android 14; K) {CHROME} Mobile Safari/537.36", "mobile", "Chrome", "Android"),
        (f"Mozilla/5.0 (Linux; Android 14; SM-X200) {CHROME} Safari/537.36", "tablet", "Chrome", "Android"),
        (f"Mozilla/5.0 (Windows NT 10.0; Win64) {CHROME} Safari/1 Edg/121.0", "desktop", "Edge", "Windows"),
        (f"Mozilla/5.0 (X11; CrOS x86_64) {CHROME} Safari/1", "desktop", "Chrome", "ChromeOS"),
        (f"Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15) {CHROME} OPR/1", "desktop", "Opera", "macOS"),
        ("Mozilla/5.0 (PlayStation 5)", "other", "other", "other"),
        ("python-requests/2.32", "", "", ""),
        ("", "", "", ""),
    ],
)
def test_a_user_agent_has_a_device_a_browser_and_a_system(
    user_agent: str, device: str, browser: str, system: str
) -> None:
    assert traits.read_user_agent(user_agent) == Traits("", device, browser, system)


@pytest.mark.parametrize(
    ("zone", "country"),
    [
        ("Europe/Berlin", "DE"),
        ("Asia/Calcutta", "IN"),
        ("Asia/Kolkata", "IN"),
        ("Europe/Kiev", "UA"),
        ("UTC", ""),
        ("Etc/GMT+5", ""),
        ("nowhere", ""),
        (7, ""),
        ({}, ""),
        (None, ""),
    ],
)
def test_a_time_zone_has_a_country(zone: Any, country: str) -> None:
    assert traits.read_zone(zone) == country


def test_a_word_is_one_of_a_bounded_vocabulary() -> None:
    headers = {"user-agent": FIREFOX, "accept-language": "xx-YY", "cloudfront-viewer-country": "ZZ"}
    assert traits.read(headers) == Traits("", "desktop", "Firefox", "Linux", "other")
    assert traits.read(headers | {"accept-language": "*"}).language == ""
    assert traits.read(headers | {"user-agent": "curl/8"}) == traits.NONE


def test_views_are_counted_by_each_trait_and_add_up(site: Site) -> None:
    right = {name: Counter[str]() for name in traits.DIMENSIONS}
    readers = [
        (
            {"User_Agent": FIREFOX, "Accept_Language": "de-AT,de;q=0.9"},
            "Europe/Vienna",
            "AT de desktop Firefox Linux",
        ),
        (
            {"User_Agent": IPHONE, "Accept_Language": "en", "CloudFront_Viewer_Country": "FR"},
            "Europe/Vienna",
            "FR en mobile Safari iOS",
        ),
        ({"User_Agent": IPHONE}, "Asia/Tokyo", "JP unknown mobile Safari iOS"),
        ({"User_Agent": "curl/8"}, "", "unknown unknown unknown unknown unknown"),
    ]
    for number, (headers, zone, words) in enumerate(readers):
        for _ in range(number + 1):
            body = {"url": PAGE} | ({"timezone": zone} if zone else {})
            assert site.post(body, **headers)[0] == 202
            for name, word in zip(ORDER, words.split(), strict=True):
                right[name][word] += 1
    site.settle()
    for name, counts in right.items():
        shown = site.get(f"/views/visitors?site=example.org&by={name}")
        assert shown["timezone"] == "UTC"
        assert {item["name"]: item["views"] for item in shown["items"]} == counts
        assert sum(item["views"] for item in shown["items"]) == 10


def test_twenty_values_are_listed_and_the_rest_is_other(site: Site) -> None:
    zones = [line.split()[1] for line in sources.read_list("countries.txt")[:30]]
    for count, zone in enumerate(zones, 1):
        events = [{"url": f"{PAGE}{number}", "timezone": zone} for number in range(count)]
        for first in range(0, count, 25):  # the limit of a request without a token
            site.post({"events": events[first : first + 25]}, User_Agent=FIREFOX)
    site.settle()
    items = site.get("/views/visitors?site=example.org&by=country")["items"]
    assert [item["views"] for item in items] == [*range(30, 10, -1), sum(range(11))]
    assert items[-1]["name"] == "other"
    assert items[0]["name"] == traits.read_zone(zones[-1])


@pytest.mark.parametrize("query", ["by=age", "", "by=country&from=2020-01-01&to=2026-01-01", "by=os&limit=7"])
def test_a_malformed_trait_or_period_is_400(site: Site, query: str) -> None:
    assert site.call("GET", f"/views/visitors?site=example.org&{query}")[0] == 400


# -- sources -------------------------------------------------------------------------------------------


def listed(site: Site, more: str = "") -> dict[str, int]:
    found = site.get(f"/views/referrers?site=example.org&limit=100{more}")
    assert "complete" not in found
    return {item["referrer"]: item["views"] for item in found["items"]}


LED = {
    "https://www.google.de/": "google",
    "https://google.co.uk/": "google",
    "android-app://com.google.android.gm": "gmail",
    "https://mail.google.com/": "gmail",
    "https://l.facebook.com/": "facebook.com",
    "https://m.facebook.com/": "facebook.com",
    "https://facebook.com/": "facebook.com",
    "https://www.news.example/": "news.example",
    "https://m.news.example/": "news.example",
    "https://t.co/x": "x.com",
    "https://gemini.google.com/": "gemini.google.com",
    "https://chatgpt.com/": "chatgpt.com",
    "https://search.brave.com/": "brave",
    "https://news.ycombinator.com/": "news.ycombinator.com",
    "https://mastodon.social/": "mastodon",
}


@pytest.mark.parametrize("queued", [False, True])
def test_each_source_opens_to_its_hosts(site: Site, monkeypatch: pytest.MonkeyPatch, queued: bool) -> None:
    messages: list[Any] = []
    monkeypatch.setattr(queue, "send", lambda _, found: messages.extend(found))
    if queued:
        monkeypatch.setattr(app, "stage", app.stage._replace(queue_url="https://queue.example/"))
    for referrer in LED:
        site.post({"url": PAGE, "referrer": referrer, "timezone": "Asia/Tokyo"}, User_Agent=FIREFOX)
    for more in ({}, {"referrer": ""}, {"referrer": "x y"}, {"referrer": "https://example.org/b"}):
        site.post({"url": PAGE, **more}, User_Agent=FIREFOX)
    site.post({"url": f"{PAGE}?utm_source=google"}, User_Agent=FIREFOX)
    site.post({"url": f"{PAGE}?utm_source=direct"}, User_Agent=FIREFOX)
    if queued:
        events.write_queued(new_context(site.table), QueuedViews(events=messages, taken=True))
    site.settle()
    right = Counter(LED.values()) + Counter({"direct": 4, "google": 1})
    assert listed(site) == right
    assert listed(site, "&source=google") == {"www.google.de": 1, "google.co.uk": 1, "google": 1}
    assert listed(site, "&source=gmail") == {"android-app://com.google.android.gm": 1, "mail.google.com": 1}
    facebook = {"l.facebook.com": 1, "m.facebook.com": 1, "facebook.com": 1}
    assert listed(site, "&source=facebook.com") == facebook
    assert listed(site, "&source=news.example") == {"news.example": 1, "m.news.example": 1}
    assert listed(site, "&source=nobody") == {}
    devices = site.get("/views/visitors?site=example.org&by=device")["items"]
    assert devices == [{"name": "desktop", "views": 21}]
    countries = site.get("/views/visitors?site=example.org&by=country")["items"]
    assert countries == [{"name": "JP", "views": 15}, {"name": "unknown", "views": 6}]


@pytest.mark.parametrize(
    "host",
    [
        "semalt.com",
        "www.semalt.com",
        "a.b.semalt.com",
        "xn-------53dbcapga5atlplfdm6ag1ab1bvehl0b7toa0k.xn--p1ai",
    ],
)
def test_a_view_that_known_spam_led_to_is_none(site: Site, host: str) -> None:
    for more in ({"referrer": f"https://{host}/x"}, {"source": host}):
        status, reply = site.post({"url": PAGE, **more}, User_Agent=FIREFOX)
        assert (status, reply["code"]) == (422, "bot")
        rejected = [{"index": 0, "reason": "bot"}]
        assert site.post({"events": [{"url": PAGE, **more}]})[1] == {"accepted": 0, "rejected": rejected}
    message = QueuedViews(events=[{"url": PAGE, "clientId": "c", "referrer": f"https://{host}/"}])
    events.write_queued(new_context(site.table), message)
    site.settle()
    assert site.get(f"/views?url={PAGE}")["views"] == 0


@pytest.mark.parametrize(
    "name", ["utm_source", "FBCLID", "mc_eid", "_kx", "trk_contact", "matomo_campaign", "li_fat_id"]
)
def test_a_tracking_parameter_is_removed_in_every_way_in(site: Site, name: str) -> None:
    url = f"{PAGE}?{name}=x&id=4"
    site.post({"url": url, "clientId": "a"})
    site.post({"events": [{"url": url, "clientId": "b"}]})
    site.call("GET", f"/views/pixel.gif?url={PAGE}?id=4%26{name}=x")
    message = QueuedViews(events=[{"url": url, "clientId": "c"}])
    events.write_queued(new_context(site.table, settings=Settings(stage="local")), message)
    site.settle()
    for shown in (f"{PAGE}?id=4", url):
        assert site.get(f"/views?url={shown.replace('&', '%26')}")["views"] == 4


def test_names_of_pages_are_no_tracking_parameters() -> None:
    names = ("id", "q", "page", "ref", "source", "si", "customid", "p", "s", "lang", "v", "t")
    assert not [name for name in names if sources.is_tracking(name)]
