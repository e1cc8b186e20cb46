"""Refusal of requests to a server on this machine that a page of another site may have sent.

A browser reaches every port of its machine on behalf of any page that its user visits. The engine, REST and
the sockets of a local run therefore ask `refusal` first. It reads headers that no page can change.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from urllib.parse import urlsplit

LOOPBACK = re.compile(r"(127\.0\.0\.1|localhost|\[::1\])(:\d{1,5})?")
LOCAL_ORIGIN = re.compile(rf"https?://{LOOPBACK.pattern}")


def refusal(headers: Iterable[tuple[str, str]], origins: Collection[str] | None = None) -> str:
    """Return why a request with these headers is refused, or "".

    Without `origins` only pages of the server itself may use it. With `origins` so may these, and pages of
    any port of this machine.

    | header | rule |
    |---|---|
    | `Host` | names this machine. Otherwise a foreign host name points here (DNS rebinding) |
    | `Origin` | must be allowed. Browsers send it if a request can change data or a page reads the response |
    | `Sec-Fetch-Site` | without `Origin`, as of an image or a script, must not name another site |
    | `Referer` | with `origins`, may allow what `Sec-Fetch-Site` does not: a local page on another port |

    A link on a foreign page may open a page of a server with `origins`, which the foreign page cannot read.
    `Origin: null` is refused, because every site can send it from a sandboxed frame.
    """
    found: dict[str, list[str]] = {}
    for name, value in headers:
        found.setdefault(name.lower(), []).append(value.strip().lower())
    hosts, sent = found.get("host", []), found.get("origin", [])
    if len(hosts) != 1 or not LOOPBACK.fullmatch(hosts[0]):
        return "`Host` must be 127.0.0.1 or localhost"

    def is_allowed(origin: str) -> bool:
        if origin == f"http://{hosts[0]}":
            return True
        return origins is not None and (origin in origins or bool(LOCAL_ORIGIN.fullmatch(origin)))

    if not all(map(is_allowed, sent)):
        listed = "" if origins is None else " unless it is on this machine or in HUBBUB_ORIGINS"
        return f"`Origin` is foreign: a page of another origin may not use this server{listed}"
    if sent or all(site in ("same-origin", "none") for site in found.get("sec-fetch-site", [])):
        return ""
    if origins is not None:
        is_link = (found.get("sec-fetch-mode"), found.get("sec-fetch-dest")) == (["navigate"], ["document"])
        if is_link or any(map(is_allowed, map(_read_origin, found.get("referer", [])))):
            return ""
    return "`Sec-Fetch-Site` is foreign: a page of another site may not use this server"


def _read_origin(url: str) -> str:
    try:
        parts = urlsplit(url)
    except ValueError:
        return ""
    return f"{parts.scheme}://{parts.netloc}"
