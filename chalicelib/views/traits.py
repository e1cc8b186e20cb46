"""The traits of a view: country, device, browser, operating system and language, in bounded words.

A trait is a word of a fixed vocabulary, `other`, or unknown. So the sums of all words have a bounded size and
live on the site's day (sites.py). The words that are unknown need no sum, because they are the rest of the
day's views.

The country is that of a header of CloudFront, which API Gateway's edge sends too, or of the time zone of the
browser. The other traits are those of a browser's headers. A program that is no browser has none.
"""

import re
from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple

from chalicelib.views.sources import read_list

OTHER, UNKNOWN = "other", "unknown"
COUNTRY_HEADER = "cloudfront-viewer-country"
# The first expression that a User-Agent has names its browser: those that pretend to be Chrome come first.
BROWSERS = {
    "Edge": r"Edg(e|A|iOS)?/",
    "Opera": r"OPR/|Opera|OPT/",
    "Samsung Internet": r"SamsungBrowser/",
    "Yandex Browser": r"YaBrowser/",
    "Vivaldi": r"Vivaldi/",
    "UC Browser": r"UC ?Browser|UBrowser",
    "DuckDuckGo": r"DuckDuckGo/|Ddg/",
    "Huawei Browser": r"HuaweiBrowser/",
    "MIUI Browser": r"MiuiBrowser/",
    "Facebook": r"FBA[NV]/",
    "Instagram": r"Instagram ",
    "Firefox": r"Firefox/|FxiOS/",
    "Chrome": r"Chrome/|CriOS/|Chromium/",
    "Safari": r"Version/[\d.]+ .*Safari/|AppleWebKit/.*Mobile/",
}
SYSTEMS = {
    "iOS": r"iPhone|iPad|iPod",
    "Android": r"Android",
    "Windows": r"Windows",
    "ChromeOS": r"CrOS",
    "macOS": r"Macintosh|Mac OS X",
    "Linux": r"Linux|X11",
}
DEVICES = {
    "tablet": r"iPad|Tablet|Android(?!.*Mobile)|Silk/|Kindle",
    "mobile": r"Mobi|iPhone|iPod|Android",
    "desktop": r"Windows NT|Macintosh|X11|CrOS|Linux",
}
# The two-letter codes of ISO 639-1.
LANGUAGES = frozenset(
    """
    aa ab ae af ak am an ar as av ay az ba be bg bi bm bn bo br bs ca ce ch co cr cs cu cv cy da de dv
    dz ee el en eo es et eu fa ff fi fj fo fr fy ga gd gl gn gu gv ha he hi ho hr ht hu hy hz ia id ie
    ig ii ik io is it iu ja jv ka kg ki kj kk kl km kn ko kr ks ku kv kw ky la lb lg li ln lo lt lu lv
    mg mh mi mk ml mn mr ms mt my na nb nd ne ng nl nn no nr nv ny oc oj om or os pa pi pl ps pt qu rm
    rn ro ru rw sa sc sd se sg si sk sl sm sn so sq sr ss st su sv sw ta te tg th ti tk tl tn to tr ts
    tt tw ty ug uk ur uz ve vi vo wa wo xh yi yo za zh zu
    """.split()  # noqa: SIM905 (a list is no easier to read)
)


class Traits(NamedTuple):
    """The traits of a view. A trait is empty if it is unknown."""

    country: str = ""
    device: str = ""
    browser: str = ""
    os: str = ""
    language: str = ""


NONE = Traits()
DIMENSIONS = Traits._fields


def attribute(dimension: str, name: str = "") -> str:
    """Return the attribute of a day that has the views of a word, or without a word how it begins."""
    return f"{dimension[:2]}:{name}"


def read(headers: Mapping[str, str]) -> Traits:
    """Return the traits of the headers of a request, whose names are in lower case."""
    country = headers.get(COUNTRY_HEADER, "").upper()
    found = read_user_agent(headers.get("user-agent", ""))
    if found == NONE:
        return NONE
    language = re.match("[a-zA-Z]{2,3}", headers.get("accept-language", ""))
    word = language[0].lower() if language else ""
    return found._replace(
        country=country if country in countries() else "",
        language=word if word in LANGUAGES else OTHER if word else "",
    )


def read_user_agent(user_agent: str) -> Traits:
    """Return the device, the browser and the system of a browser, which calls itself Mozilla or Opera."""
    if not user_agent.startswith(("Mozilla/", "Opera/")):
        return NONE
    words = (_find(user_agent[:1000], words) for words in (DEVICES, BROWSERS, SYSTEMS))
    return Traits("", *words)


def read_zone(zone: Any) -> str:
    """Return the country of a time zone; empty if it is none's or malformed."""
    return _zones().get(zone, "") if isinstance(zone, str) else ""


def to_text(traits: Traits) -> str:
    """Return traits as an event stores them."""
    return "|".join(traits).rstrip("|")


def from_text(text: str) -> Traits:
    """Return the traits that an event stores."""
    return Traits(*text.split("|"))


def _find(user_agent: str, words: Mapping[str, str]) -> str:
    found = (word for word, pattern in words.items() if re.search(pattern, user_agent))
    return next(found, OTHER)


@cache
def _zones() -> Mapping[str, str]:
    """Return the countries of time zones."""
    lines = (line.partition(": ") for line in read_list("countries.txt"))
    return {zone: country for country, _, zones in lines for zone in zones.split()}


@cache
def countries() -> frozenset[str]:
    """Return the codes of all countries."""
    return frozenset(_zones().values())
