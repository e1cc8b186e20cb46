"""Sources: the names of the sites and apps that led to a view, and the parameters that only track.

A referrer becomes the name that people know: one for the hosts of a company, one for the countries of a
search engine, one for an app. The site's own hosts, private addresses and known spam are no source.

The lists are short and by hand. `web/beacon.js` has the same tracking parameters (a test compares them).
"""

import ipaddress
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl

from chalicelib import urls
from chalicelib.api.names import HIDDEN

MAX_SOURCE = 100  # characters
# Of campaigns and advertisers.
TRACKING = re.compile(
    r"((utm|mtm|hsa)_.*|pk_(campaign|kwd)|_hsenc|_hsmi|_ga|_gl|[dg]clid|gclsrc|[gw]braid|(fb|tw|tt|y)clid"
    r"|msclkid|igshid|li_fat_id|mc_[ce]id|mkt_tok|srsltid|irclickid|rdt_cid|sccid|epik)",
    re.IGNORECASE,
)
PARAMETERS = ("utm_source", "ref", "source", "utm_medium")  # that name a source, in this order
# Search engines and sites with a host for each country.
COUNTRIES = re.compile(
    r"(?:.*\.)?(google|bing|yandex|baidu|yahoo|ecosia|duckduckgo)\.[a-z]{2,3}(?:\.[a-z]{2})?"
)
SUBDOMAINS = re.compile(r"(?:www|m|mobile|l|lm|amp|old|new|out|touch)\.(?=[^.]+\.)")
KNOWN = {
    "t.co": "x.com",
    "twitter.com": "x.com",
    "fb.com": "facebook.com",
    "fb.me": "facebook.com",
    "lnkd.in": "linkedin.com",
    "youtu.be": "youtube.com",
    "redd.it": "reddit.com",
    "instagr.am": "instagram.com",
    "t.me": "telegram",
    "telegram.org": "telegram",
    "web.telegram.org": "telegram",
    "wa.me": "whatsapp",
    "whatsapp.com": "whatsapp",
    "web.whatsapp.com": "whatsapp",
    "mail.google.com": "gmail",
    "news.google.com": "google news",
    "com.google.android.gm": "gmail",
    "com.google.android.googlequicksearchbox": "google",
    "com.google.android.apps.magazines": "google news",
    "com.facebook.katana": "facebook.com",
    "com.instagram.android": "instagram.com",
    "com.linkedin.android": "linkedin.com",
    "com.twitter.android": "x.com",
    "com.reddit.frontpage": "reddit.com",
    "com.slack": "slack",
    "com.whatsapp": "whatsapp",
    "com.pinterest": "pinterest.com",
    "org.telegram.messenger": "telegram",
    "org.telegram.plus": "telegram",
}
COMPANIES = frozenset(
    """
    facebook.com instagram.com linkedin.com reddit.com youtube.com twitter.com x.com pinterest.com tiktok.com
    wikipedia.org tumblr.com vk.com
    """.split()  # noqa: SIM905 (a list is no easier to read)
)
SPAM = frozenset(
    """
    semalt.com buttons-for-website.com darodar.com best-seo-offer.com best-seo-solution.com ilovevitaly.com
    priceg.com blackhatworth.com hulfingtonpost.com free-share-buttons.com get-free-traffic-now.com
    success-seo.com trafficmonetize.org traffic2cash.xyz event-tracking.com simple-share-buttons.com
    social-buttons.com sharebutton.net o-o-6-o-o.com o-o-8-o-o.com webmonetizer.net 100dollars-seo.com
    """.split()  # noqa: SIM905
)
PRIVATE = re.compile(r"(?:.*\.)?(localhost|local|internal|lan|home|corp|intranet|test|invalid)|[^.:]*")


def strip_tracking(url: str) -> str:
    """Return a canonical address without its tracking parameters."""
    place, _, query = url.partition("?")
    if not query:
        return url
    kept = urls.filter_query(query, lambda name: not TRACKING.fullmatch(name))
    return f"{place}?{kept}" if kept else place


def read_source(fields: Mapping[str, Any], url: str, hosts: frozenset[str] = frozenset()) -> str:
    """Return the source of an event; empty if it has none. `url` is its address with all parameters.

    The parameters of the address count where there is no referrer. `hosts` are further hosts of the site.
    """
    referrer = fields.get("referrer")
    if isinstance(referrer, str) and referrer.strip():
        return name_referrer(referrer.strip(), urls.host(url), hosts)
    given = dict(parse_qsl(url.partition("?")[2])) if "?" in url else {}
    named = fields.get("source") or next((given[name] for name in PARAMETERS if given.get(name)), "")
    return name_source(named)


def name_referrer(referrer: str, own: str, hosts: frozenset[str] = frozenset()) -> str:
    """Return the name of the source with this address; empty if it is none, or malformed."""
    if referrer.startswith("android-app://"):
        app = referrer.removeprefix("android-app://").split("/")[0].lower()
        return KNOWN.get(app, app) if re.fullmatch(r"[a-z0-9_.]{1,100}", app) else ""
    try:
        host = urls.host(urls.canonical(referrer))
    except ValueError:
        return ""
    if host.removeprefix("www.") in {name.removeprefix("www.") for name in (own, *hosts)}:
        return ""
    return name_host(host)


def name_host(host: str) -> str:
    """Return the name of a host; empty for a private address and for known spam."""
    try:
        return host if ipaddress.ip_address(host).is_global else ""
    except ValueError:
        pass
    if PRIVATE.fullmatch(host) or any(host == spam or host.endswith(f".{spam}") for spam in SPAM):
        return ""
    if host in KNOWN:
        return KNOWN[host]
    if found := COUNTRIES.fullmatch(host):
        return found[1]
    host = SUBDOMAINS.sub("", host, count=1)
    company = ".".join(host.split(".")[-2:])
    host = company if company in COMPANIES else host
    return KNOWN.get(host, host)


def name_source(value: Any) -> str:
    """Return the name of a source that a parameter gives, in lower case; empty if it is malformed."""
    name = value.strip().lower() if isinstance(value, str) and len(value) <= 2 * MAX_SOURCE else ""
    if not name or len(name) > MAX_SOURCE or HIDDEN.search(name):
        return ""
    return name_host(name) if re.fullmatch(r"[a-z0-9-]+(\.[a-z0-9-]+)+", name) else name
