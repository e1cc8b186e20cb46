"""Where the next page begins: opaque to a client, signed, and bound to its query.

A cursor is a JWT under a key of its own: `v` its version, `q` a digest of the query that it continues, `k`
the place. It holds nothing that the page before it did not show.
"""

import hashlib
import json

from chalicelib.api.auth import derived
from chalicelib.errors import BadCursor
from chalicelib.settings import Settings

VERSION = 1


def write(settings: Settings, query: tuple[str, ...], place: str) -> str | None:
    """Sign the place where the next page of a query begins; None when there is none."""
    if not place:
        return None
    import jwt

    claims = {"v": VERSION, "q": _digest(query), "k": place}
    return jwt.encode(claims, derived(settings, "cursor"), algorithm="HS256")


def read(settings: Settings, query: tuple[str, ...], cursor: str | None) -> str:
    """Read a cursor back; the empty place without one. Raises BadCursor for one that is not this query's."""
    if not cursor:
        return ""
    import jwt

    key = derived(settings, "cursor")
    try:
        claims = jwt.decode(cursor, key, algorithms=["HS256"])
    except Exception:  # whatever a text does to its parser (a deep nest: RecursionError)
        raise BadCursor("cursor: it was not made here; begin again without one") from None
    place = claims.get("k")
    if claims.get("v") != VERSION or claims.get("q") != _digest(query) or not isinstance(place, str):
        raise BadCursor("cursor: it belongs to another query; begin again without one")
    return place


def _digest(query: tuple[str, ...]) -> str:
    return hashlib.blake2b(json.dumps(query).encode(), digest_size=9).hexdigest()
