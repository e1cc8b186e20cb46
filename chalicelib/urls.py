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

import ipaddress
import re
from collections.abc import Callable
from functools import lru_cache
from urllib.parse import parse_qsl, urlsplit

from url_normalize.normalize_host import normalize_host
from url_normalize.normalize_path import normalize_path
from url_normalize.tools import normalize_component

HOST = re.compile(r"[a-z0-9_-]{1,63}(\.[a-z0-9_-]{1,63})*")
DOTS = re.compile("[.\u3002\uff0e\uff61]")  # a browser takes each of them for a dot
NUMBER = re.compile(r"([0-9]+|0x[0-9a-f]*)")  # as the last label: an IPv4 address in any notation
SCHEME = re.compile("([a-zA-Z][a-zA-Z0-9+.-]*):")
START = re.compile("(https?)://([^/]+)", re.IGNORECASE)
AUTHORITY = re.compile(r"(\[.*\]|[^:\[\]]*)(?::([0-9]{0,6}))?")
PORT = re.compile(r":[0-9]{1,5}(?=[/?#]|$)")
BLANK = re.compile(r"[\s\x00-\x1f\x7f-\x9f\ud800-\udfff]")
# Schemes that digits may follow, as in tel:5551234, so they are not the host of an address with a port.
SCHEMES = frozenset(
    """
    about blob callto cid data fax file ftp ftps geo http https im irc javascript magnet mailto market mid
    modem news nntp pop sip sips skype sms smsto ssh tel telnet urn view-source ws wss xmpp
    """.split()  # noqa: SIM905 (a list of 40 is no easier to read)
)
DEFAULT_PORTS = {"http": 80, "https": 443}
DELIMITERS = "/?:@!$&'()*+,;="  # the characters of a query that differ from their percent-encoding
MAX_LENGTH = 1500  # bytes: with `URL#`, and in a cursor, it is well below the 2,048 of a partition key
MAX_HOST = 253  # octets of a DNS name, RFC 1035; each character of a host takes at least one octet


@lru_cache(maxsize=1024)  # most of the views at any time are of a few pages
def canonical(url: str) -> str:
    """Return an http(s) address in the normal form of RFC 3986, without its fragment.

    Case of scheme and host, punycode, default port, dot segments, double slashes, percent-encoding, composed
    and decomposed letters (NFC), notations of an IPv6 address and an empty query are normalized. Scheme,
    query and trailing slash distinguish pages. The default scheme is https.

    Cost: 0.1 ms of CPU time for an ordinary address, and at most 4 ms (a host of 127 labels that are not
    ASCII), because lengths are checked before anything is normalized.
    Raises: ValueError for a text that is not the address of a web page, and for an address with a user name
    or password, which must not be stored.
    """
    if len(url) > MAX_LENGTH or len(url.encode(errors="replace")) > MAX_LENGTH:
        raise ValueError(f"must be at most {MAX_LENGTH:,} bytes")
    if BLANK.search(url):
        raise ValueError("must not have white space or control characters")
    place, _, query = _with_scheme(url).partition("#")[0].partition("?")
    start = START.match(place)
    if not start:
        raise ValueError("must start with http:// or https:// and a host")
    scheme, (user, _, authority) = start[1].lower(), start[2].rpartition("@")
    if user.strip(":"):
        raise ValueError("must not have a user name or password")
    parts = AUTHORITY.fullmatch(authority)
    if not parts or int(parts[2] or 0) > 65_535:
        raise ValueError("must have a valid host and port")
    port = int(parts[2] or DEFAULT_PORTS[scheme])
    name = canonical_host(parts[1])
    normal = f"{scheme}://[{name}]" if ":" in name else f"{scheme}://{name}"
    normal += "" if port == DEFAULT_PORTS[scheme] else f":{port}"
    normal += normalize_path(place[start.end() :], scheme)
    if query:
        normal += "?" + normalize_component(query, f"{DELIMITERS}~", DELIMITERS)
    if len(normal) > MAX_LENGTH:
        raise ValueError(f"must be at most {MAX_LENGTH:,} bytes")
    return normal


def canonical_host(text: str) -> str:
    """Return a host in lower case, in punycode (IDNA 2008) and without a final dot.

    An IPv6 address may be in brackets, and is returned in its shortest notation without them. This is what
    `host` returns of an address with this host.

    Raises: ValueError for any other text.
    """
    if len(text) > MAX_HOST:
        raise ValueError(f"must have a host of at most {MAX_HOST} characters")
    try:
        if ":" in text:
            is_bracketed = text.startswith("[") and text.endswith("]")
            address = ipaddress.IPv6Address(text[1:-1] if is_bracketed else text)
            if address.scope_id is None and address.ipv4_mapped is None:  # Python writes these in two ways
                return address.compressed
        elif all(DOTS.split(text)[:-1]) and HOST.fullmatch(normal := normalize_host(text)):
            if NUMBER.fullmatch(normal.rpartition(".")[2]):
                return str(ipaddress.IPv4Address(normal))
            if len(normal) <= MAX_HOST and normalize_host(normal) == normal:
                return normal
    except ValueError:  # of a library, whose message is not for clients
        pass
    raise ValueError("must have a valid host name")


def host(url: str) -> str:
    """Return the host of a canonical address, without its port."""
    return urlsplit(url).hostname or ""


def page(url: str) -> str:
    """Return the path and the query of a canonical address."""
    return "/" + url.split("/", 3)[3]


def filter_query(query: str, is_kept: Callable[[str], bool]) -> str:
    """Return a query with those parameters whose decoded names are kept, as they are written.

    >>> filter_query("a=1&utm_source=x&b", lambda name: not name.startswith("utm_"))
    'a=1&b'
    """
    return "&".join(part for part in query.split("&") if is_kept(_parameter_name(part)))


def _parameter_name(part: str) -> str:
    return next((name for name, _ in parse_qsl(part, keep_blank_values=True)), "")


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
