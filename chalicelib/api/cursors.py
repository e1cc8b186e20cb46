"""Pagination cursors: opaque to clients, signed, and valid only for the query that they continue.

A cursor is a JWT with a key of its own. Its claims:

| claim | holds |
|---|---|
| `v` | the version of this format |
| `q` | a digest of the cursor's scope: the name of the list and all its filters |
| `k` | the position where the page begins |

A cursor holds nothing that its page did not show.
"""

import hashlib
import json

from chalicelib.api.auth import decode as decode_token
from chalicelib.api.auth import derive_key, derive_keys
from chalicelib.errors import BadCursor
from chalicelib.settings import Settings

VERSION = 1


def encode(settings: Settings, cursor_scope: tuple[str, ...], position: str) -> str | None:
    """Sign the position where the next page of a query begins. Return None for an empty position."""
    if not position:
        return None
    import jwt

    claims = {"v": VERSION, "q": _digest(cursor_scope), "k": position}
    return jwt.encode(claims, derive_key(settings, "cursor"), algorithm="HS256")


def decode(settings: Settings, cursor_scope: tuple[str, ...], cursor: str | None) -> str:
    """Return the position that a cursor holds. Without a cursor the position is empty.

    Raises: BadCursor for a text that is not a cursor of this stage and this scope.
    """
    if not cursor:
        return ""
    keys = derive_keys(settings, "cursor")
    try:
        claims = decode_token(cursor, keys, algorithms=["HS256"])
    except Exception:  # a malicious text can raise anything in the parser, such as RecursionError
        raise BadCursor("`cursor` must come from the page before; begin again without a cursor") from None
    position = claims.get("k")
    is_ours = claims.get("v") == VERSION and claims.get("q") == _digest(cursor_scope)
    if not is_ours or not isinstance(position, str):
        raise BadCursor("`cursor` must be of the same query; begin again without a cursor")
    return position


def _digest(cursor_scope: tuple[str, ...]) -> str:
    return hashlib.blake2b(json.dumps(cursor_scope).encode(), digest_size=9).hexdigest()
