"""Addresses: the same page in another notation is the same page.

>>> canonical("HTTP://Example.ORG:80/a/../b/%7euser#top")
'http://example.org/b/~user'
>>> host(canonical("https://bücher.example:8443/ü"))
'xn--bcher-kva.example'
"""

import re
from functools import lru_cache
from urllib.parse import quote, urlsplit

from url_normalize import url_normalize

HOST = re.compile(r"[a-z0-9_-]{1,63}(\.[a-z0-9_-]{1,63})*|[0-9a-f:.]*:[0-9a-f:.]*")
ESCAPE = re.compile("%([0-9a-fA-F]{2})?")
UNRESERVED = re.compile("[A-Za-z0-9._~-]")
KEPT = "%/?:@!$&'()*+,;=-._~"  # what a query may hold as it is; a browser sends the rest escaped
LONGEST = 1500  # bytes: `URL#`, and a cursor that carries it, stay well within a key's 2,048


@lru_cache(maxsize=1024)  # most views of a moment are of a few pages
def canonical(url: str) -> str:
    """Write an http(s) address in RFC 3986's normal form, without its fragment.

    Case of scheme and host, punycode, default port, dot segments, doubled slashes and percent-encoding are
    notation; the scheme, the query and a trailing slash are not. Raises ValueError for what is no address of
    a web page, one with a user name or password in it included: such an address must not be kept.
    """
    if len(url) > LONGEST:
        raise ValueError(f"it is longer than {LONGEST} bytes")
    if not url.isprintable() or url.strip() != url:
        raise ValueError("it has a blank or unprintable character")
    place, _, query = url.partition("#")[0].partition("?")
    normal = str(url_normalize(place, default_scheme=""))
    if str(url_normalize(normal, default_scheme="")) != normal:
        raise ValueError("its host is not a host name")
    parts = urlsplit(normal)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("it must start with http:// or https:// and a host")
    if parts.username is not None or parts.password is not None:
        raise ValueError("it must not hold a user name or password")
    _ = parts.port  # raises ValueError past 65535
    if not HOST.fullmatch(parts.hostname) or len(parts.hostname) > 253:
        raise ValueError("its host is not a host name")
    if query:  # the library would part it at & and =, and write it anew: a=b=c would become a=b%3Dc
        normal += "?" + quote(ESCAPE.sub(_escaped, query), safe=KEPT)
    if len(normal.encode()) > LONGEST:
        raise ValueError(f"it is longer than {LONGEST} bytes")
    return normal


def host(url: str) -> str:
    """Answer the host of a canonical address, without its port."""
    return urlsplit(url).hostname or ""


def _escaped(match: re.Match[str]) -> str:
    """Write one percent-escape in its normal form; a % that begins none is escaped itself."""
    letter = chr(int(match[1], 16)) if match[1] else ""
    return letter if UNRESERVED.fullmatch(letter) else f"%{match[1].upper()}" if match[1] else "%25"
