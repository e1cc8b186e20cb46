"""Sources: the names of the sites and apps that led to a view, and the parameters that only track.

A referrer becomes the name that people know: one for the hosts of a company, one for the countries of a
search engine, one for an app. The site's own hosts and private addresses are no source. A view that known
spam led to is none.

The lists of names, spam and parameters are those of the folder `lists`, which `make lists` renews. They are
loaded with the first referrer or query. KNOWN and TRACKING have what the lists lack. `web/beacon.js` removes
the parameters of TRACKING too (a test compares them).
"""

import ipaddress
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple
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
DIRECT = ("direct", "(direct)", "none", "(none)")  # values of parameters that name none
# Search engines and sites with a host for each country.
COUNTRIES = re.compile(
    r"(?:.*\.)?(google|bing|yandex|baidu|yahoo|ecosia|duckduckgo)\.[a-z]{2,3}(?:\.[a-z]{2})?"
)
COUNTRY = re.compile(r"\.[a-z]{2,3}(?:\.[a-z]{2})?$")
SUBDOMAINS = re.compile(r"(?:www|m|mobile|l|lm|amp|old|new|out|touch)\.(?=[^.]+\.)")
KNOWN = {
    "fb.com": "facebook.com",
    "redd.it": "reddit.com",
    "instagr.am": "instagram.com",
    "wikipedia.org": "wikipedia.org",
    "t.me": "telegram",
    "telegram.org": "telegram",
    "wa.me": "whatsapp",
    "whatsapp.com": "whatsapp",
    "web.whatsapp.com": "whatsapp",
    "mail.google.com": "gmail",
    "news.google.com": "google news",
    "com.google.android.gm": "gmail",
    "com.google.android.googlequicksearchbox": "google",
    "com.google.android.apps.magazines": "google news",
    "com.facebook.katana": "facebook.com",
    "com.facebook.lite": "facebook.com",
    "com.instagram.android": "instagram.com",
    "com.linkedin.android": "linkedin.com",
    "com.twitter.android": "x.com",
    "com.slack": "slack",
    "com.whatsapp": "whatsapp",
    "com.pinterest": "pinterest.com",
    "org.telegram.plus": "telegram",
}
PRIVATE = re.compile(r"(?:.*\.)?(localhost|local|internal|lan|home|corp|intranet|test|invalid)|[^.:]*")
APP = "android-app://"


class Source(NamedTuple):
    """The source of a view. `host` is the host or the app that has another name than its source.

    A view without a referrer and a named source is direct. One that a page of the site led to has no name and
    is not direct.
    """

    name: str = ""
    host: str = ""
    is_direct: bool = False


UNKNOWN = Source()
DIRECT_SOURCE = Source(is_direct=True)


# -- lists ---------------------------------------------------------------------------------------------


def read_list(name: str) -> list[str]:
    """Return the lines of a list, without the first one, which names its origin."""
    return (Path(__file__).parent / "lists" / name).read_text().splitlines()[1:]


@cache
def _known() -> Mapping[str, str]:
    """Return the names of sources by their hosts, of which `*` stands for a country."""
    lines = (line.partition(": ") for line in read_list("sources.txt"))
    return {host: name for name, _, hosts in lines for host in hosts.split()} | KNOWN


@cache
def _spam() -> frozenset[str]:
    return frozenset(read_list("spam.txt"))


@cache
def _tracking() -> frozenset[str]:
    return frozenset(read_list("tracking.txt"))


def is_spam(host: str) -> bool:
    """Return whether a host is known spam, or below a host that is."""
    labels = host.split(".")
    return any(".".join(labels[i:]) in _spam() for i in range(len(labels) - 1))


# -- addresses -----------------------------------------------------------------------------------------


def strip_tracking(url: str) -> str:
    """Return a canonical address without its tracking parameters."""
    place, _, query = url.partition("?")
    if not query:
        return url
    kept = urls.filter_query(query, lambda name: not is_tracking(name))
    return f"{place}?{kept}" if kept else place


def is_tracking(name: str) -> bool:
    """Return whether a parameter only tracks."""
    return TRACKING.fullmatch(name) is not None or name.lower() in _tracking()


# -- names ---------------------------------------------------------------------------------------------


def read_source(fields: Mapping[str, Any], url: str, hosts: frozenset[str] = frozenset()) -> Source | None:
    """Return the source of an event; None if it is known spam. `url` is its address with all parameters.

    The parameters of the address count where there is no referrer. `hosts` are further hosts of the site. A
    malformed referrer is none.
    """
    referrer = fields.get("referrer")
    if isinstance(referrer, str) and referrer.strip():
        return name_referrer(referrer.strip(), urls.host(url), hosts)
    return name_source(fields.get("source") or find_parameter(url, *PARAMETERS))


def find_parameter(url: str, *names: str) -> str:
    """Return the value of the first of these parameters that an address has; empty if it has none."""
    given = dict(parse_qsl(url.partition("?")[2])) if "?" in url else {}
    return next((given[name] for name in names if given.get(name)), "")


def name_referrer(referrer: str, own: str, hosts: frozenset[str] = frozenset()) -> Source | None:
    """Return the source with this address; None if it is known spam."""
    if referrer.startswith(APP):
        app = referrer.removeprefix(APP).split("/")[0].lower()
        if not re.fullmatch(r"[a-z0-9_.]{1,100}", app):
            return DIRECT_SOURCE
        name = _known().get(app, app)
        return Source(name, "" if name == app else f"{APP}{app}")
    try:
        host = urls.host(urls.canonical(referrer))
    except ValueError:
        return DIRECT_SOURCE
    if host.removeprefix("www.") in {name.removeprefix("www.") for name in (own, *hosts)}:
        return UNKNOWN
    return name_host(host)


def name_host(host: str) -> Source | None:
    """Return the source of a host, which is unknown for a private address; None for known spam."""
    try:
        return Source(host) if ipaddress.ip_address(host).is_global else UNKNOWN
    except ValueError:
        pass
    if PRIVATE.fullmatch(host):
        return UNKNOWN
    if is_spam(host):
        return None
    name = _find_name(host)
    return Source(name, "" if host.removeprefix("www.") == name else host)


def _find_name(host: str) -> str:
    """Return the name of a host: by a list, by its search engine, by its company, otherwise its own."""
    known, plain = _known(), SUBDOMAINS.sub("", host, count=1)
    forms = (host, plain, COUNTRY.sub(".*", host), COUNTRY.sub(".*", plain), f"*.{host.partition('.')[2]}")
    if name := next((known[form] for form in forms if form in known), ""):
        return name
    if found := COUNTRIES.fullmatch(host):
        return found[1]
    company = ".".join(host.split(".")[-2:])
    return company if known.get(company) == company else plain


def name_source(value: Any) -> Source | None:
    """Return the source that a parameter names; direct if it is malformed, None if it is known spam."""
    name = value.strip().lower() if isinstance(value, str) and len(value) <= 2 * MAX_SOURCE else ""
    if not name or len(name) > MAX_SOURCE or HIDDEN.search(name) or name in DIRECT:
        return DIRECT_SOURCE
    return name_host(name) if re.fullmatch(r"[a-z0-9-]+(\.[a-z0-9-]+)+", name) else Source(name)
