"""Addresses of web pages in their canonical form, so that each page has one address.

>>> canonical("HTTP://Example.ORG:80/a/../b/%7euser#top")
'http://example.org/b/~user'
>>> host(canonical("https://bücher.example:8443/ü"))
'xn--bcher-kva.example'
>>> canonical("myblog.com/article1")
'https://myblog.com/article1'
>>> canonical("localhost:8000/x")
'https://localhost:8000/x'
"""

import re
from functools import lru_cache
from urllib.parse import quote, urlsplit

from url_normalize import url_normalize

HOST = re.compile(r"[a-z0-9_-]{1,63}(\.[a-z0-9_-]{1,63})*|[0-9a-f:.]*:[0-9a-f:.]*")
ESCAPE = re.compile("%([0-9a-fA-F]{2})?")
UNRESERVED = re.compile("[A-Za-z0-9._~-]")
SCHEME = re.compile("([a-zA-Z][a-zA-Z0-9+.-]*):")
START = re.compile("https?://([^/]+)", re.IGNORECASE)
PORT = re.compile(r":[0-9]{1,5}(?=[/?#]|$)")
# Schemes that digits may follow, as in tel:5551234, so they are not the host of an address with a port.
SCHEMES = frozenset(
    """
    about blob callto cid data fax file ftp ftps geo http https im irc javascript magnet mailto market mid
    modem news nntp pop sip sips skype sms smsto ssh tel telnet urn view-source ws wss xmpp
    """.split()  # noqa: SIM905 (a list of 40 is no easier to read)
)
SAFE = "%/?:@!$&'()*+,;=-._~"  # the characters of a query that a browser does not escape
MAX_LENGTH = 1500  # bytes: with `URL#`, and in a cursor, it is well below the 2,048 of a partition key
MAX_HOST = 253  # octets of a DNS name, RFC 1035; each character of a host takes at least one octet


@lru_cache(maxsize=1024)  # most of the views at any time are of a few pages
def canonical(url: str) -> str:
    """Return an http(s) address in the normal form of RFC 3986, without its fragment.

    Case of scheme and host, punycode, default port, dot segments, double slashes, percent-encoding and an
    empty query are normalized. Scheme, query and trailing slash distinguish pages. The default scheme is
    https.

    Cost: 0.1 ms of CPU time for an ordinary address, and at most 4 ms (a host of 127 labels that are not
    ASCII), because lengths are checked before anything is normalized.
    Raises: ValueError for a text that is not the address of a web page, and for an address with a user name
    or password, which must not be stored.
    """
    if len(url) > MAX_LENGTH or len(url.encode()) > MAX_LENGTH:
        raise ValueError(f"must be at most {MAX_LENGTH:,} bytes")
    if not url.isprintable() or url.strip() != url:
        raise ValueError("must not have white space or unprintable characters")
    place, _, query = _with_scheme(url).partition("#")[0].partition("?")
    start = START.match(place)
    if not start:
        raise ValueError("must start with http:// or https:// and a host")
    if len(start[1].rpartition("@")[2]) > MAX_HOST + len(":65535"):
        raise ValueError(f"must have a host of at most {MAX_HOST} characters")
    normal = str(url_normalize(place, default_scheme=""))
    if str(url_normalize(normal, default_scheme="")) != normal:
        raise ValueError("must have a valid host name")
    parts = urlsplit(normal)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("must start with http:// or https:// and a host")
    if parts.username is not None or parts.password is not None:
        raise ValueError("must not have a user name or password")
    _ = parts.port  # raises ValueError past 65535
    if not HOST.fullmatch(parts.hostname) or len(parts.hostname) > MAX_HOST:
        raise ValueError("must have a valid host name")
    if query:  # the library would rebuild it from its parameters: a=b=c would become a=b%3Dc
        normal += "?" + quote(ESCAPE.sub(_escaped, query), safe=SAFE)
    if len(normal.encode()) > MAX_LENGTH:
        raise ValueError(f"must be at most {MAX_LENGTH:,} bytes")
    return normal


def host(url: str) -> str:
    """Return the host of a canonical address, without its port."""
    return urlsplit(url).hostname or ""


def page(url: str) -> str:
    """Return the path and the query of a canonical address."""
    return "/" + url.split("/", 3)[3]


def _with_scheme(url: str) -> str:
    """Return an address with a scheme; the default is https.

    `example.org:8080/a` is a host with a port, and `mailto:a@example.org` has another scheme. A host
    without a scheme has a dot, a port or brackets, or is localhost, so "undefined" and "/a" are not hosts.

    Raises: ValueError for a text that is not an address.
    """
    if url.startswith("//"):
        return f"https:{url}"
    authority = re.split("[/?#]", url, maxsplit=1)[0]
    if scheme := SCHEME.match(authority):
        if scheme[1].lower() in SCHEMES or not PORT.match(url, scheme.end(1)):
            return url
        return f"https://{url}"
    named = authority.lower() == "localhost" or "." in authority or ":" in authority
    if not named:
        raise ValueError("must be the address of a page, such as https://www.example.org/a")
    return f"https://{url}"


def _escaped(match: re.Match[str]) -> str:
    """Return one percent-escape in its normal form; a lone % is escaped itself."""
    letter = chr(int(match[1], 16)) if match[1] else ""
    return letter if UNRESERVED.fullmatch(letter) else f"%{match[1].upper()}" if match[1] else "%25"
