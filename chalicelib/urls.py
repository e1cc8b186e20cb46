"""Addresses: the same page in another notation is the same page.

>>> canonical("HTTP://Example.ORG:80/a/../b/%7euser#top")
'http://example.org/b/~user'
>>> host(canonical("https://bücher.example:8443/ü"))
'xn--bcher-kva.example'
"""

import re
from urllib.parse import urlsplit

from url_normalize import url_normalize

HOST = re.compile(r"[a-z0-9_-]{1,63}(\.[a-z0-9_-]{1,63})*|[0-9a-f:.]*:[0-9a-f:.]*")
LONGEST = 1500  # bytes: `URL#`, and a cursor that carries it, stay well within a key's 2,048


def canonical(url: str) -> str:
    """Write an http(s) address in RFC 3986's normal form, without its fragment.

    Case of scheme and host, punycode, default port, dot segments and percent-encoding are notation; the
    scheme, the query and a trailing slash are not. Raises ValueError for what is no address of a web page,
    one with a user name or password in it included: such an address must not be kept.
    """
    if not url.isprintable() or url.strip() != url:
        raise ValueError("it has a blank or unprintable character")
    normal = str(url_normalize(url, default_scheme=""))
    parts = urlsplit(normal)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("it must start with http:// or https:// and a host")
    if parts.username is not None or parts.password is not None:
        raise ValueError("it must not hold a user name or password")
    _ = parts.port  # raises ValueError past 65535
    if not HOST.fullmatch(parts.hostname) or len(parts.hostname) > 253:
        raise ValueError("its host is not a host name")
    normal = normal.partition("#")[0]
    if len(normal.encode()) > LONGEST:
        raise ValueError(f"it is longer than {LONGEST} bytes")
    return normal


def host(url: str) -> str:
    """Answer the host of a canonical address, without its port."""
    return urlsplit(url).hostname or ""
