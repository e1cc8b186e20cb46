"""The handshake of a socket: its parameters, and the origin of the page that opens it."""

import re
from collections.abc import Mapping
from typing import Any

from chalicelib.api import codec
from chalicelib.api.names import HIDDEN
from chalicelib.api.schemas import DOT_SEGMENT, INVISIBLE
from chalicelib.chat.connections import Handshake
from chalicelib.chat.gateway import endpoint_of
from chalicelib.settings import Settings

LOBBY = "main"  # the default lobby
NAME = re.compile(rf"(?!{DOT_SEGMENT}$)[^#{INVISIBLE}]{{1,64}}")
INTERESTS = 10  # of one connection, at most
INTEREST_BYTES = 320  # of all of them: each frame writes those of both partners


def parse(event: Mapping[str, Any]) -> Handshake:
    """Parse the event of `$connect`.

    `interests` are separated by commas. Case, order and duplicates do not matter. With `listen=1` the
    connection is for live topics only. With `receipts=1` the client confirms messages. `token` is a bearer
    token, which a browser cannot send as a header.

    Raises: ValueError, which names the parameter.
    """
    query = event.get("queryStringParameters") or {}
    lobby = codec.normalize(query.get("lobby", LOBBY), "lobby")
    named = [
        codec.normalize(name, "interests").strip().casefold()
        for name in (query.get("interests") or "").split(",")
    ]
    interests = tuple(dict.fromkeys(name for name in named if name))
    if not NAME.fullmatch(lobby):
        raise ValueError(
            "`lobby` must be 1 to 64 characters without white space, `#` or invisible characters, "
            "and not `.` or `..`"
        )
    if (
        len(interests) > INTERESTS
        or len("".join(interests).encode()) > INTEREST_BYTES
        or not all(len(name) <= 32 and not HIDDEN.search(name) for name in interests)
    ):
        raise ValueError(
            f"`interests` must be at most {INTERESTS}, of 1 to 32 printable characters each, "
            f"and have at most {INTEREST_BYTES} bytes together"
        )
    for switch in ("listen", "receipts"):
        if query.get(switch, "1") != "1":
            raise ValueError(f"`{switch}` must be 1")
    request = event["requestContext"]
    return Handshake(
        request["connectionId"],
        endpoint_of(request),
        lobby,
        interests,
        resume_token=query.get("resume") or "",
        listens="listen" in query,
        receipts="receipts" in query,
        token=query.get("token") or "",
    )


def is_foreign_origin(event: Mapping[str, Any], settings: Settings) -> bool:
    """Return whether a handshake comes from a page of an origin that the stage does not allow.

    A browser always sends the origin of the page (RFC 6455, 4.1), and no script can change it. A handshake
    without an origin comes from another program, which could send any origin, so it is not refused.
    """
    headers = {name.lower(): value for name, value in (event.get("headers") or {}).items()}
    origin = headers.get("origin")
    return origin is not None and "*" not in settings.origins and origin not in settings.origins
