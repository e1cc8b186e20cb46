"""The socket's door: who comes, and what a frame says. Frames are JSON objects with an `action`."""

import os
import re
from collections.abc import Mapping
from typing import Any, TypeVar
from urllib.parse import urlsplit

import msgspec

from chalicelib.api import codec
from chalicelib.chat.connections import Arrival
from chalicelib.chat.gateway import endpoint
from chalicelib.settings import Settings

T = TypeVar("T")

FRAME = 8_192  # bytes; a longer frame is too long before it is anything else
LOBBY = "main"
NAME = re.compile(r"[^#\s\x00-\x1f\x7f]{1,64}")
INTERESTS = 10


class Session:
    """What the clients of connections are made with: boto3, imported when the first frame is sent."""

    @property
    def region_name(self) -> str:
        """Answer the region that Lambda runs in."""
        return os.environ.get("AWS_REGION", "us-east-1")

    def client(self, name: str, **options: Any) -> Any:
        """Make a client; it waits for nobody longer than a frame is worth.

        It tries nothing again: a post whose answer was lost may have arrived (posts.py).
        """
        import boto3
        from botocore.config import Config

        config = Config(
            connect_timeout=1, read_timeout=2, retries={"total_max_attempts": 1}, max_pool_connections=32
        )
        return boto3.session.Session().client(name, config=config, **options)  # type: ignore[call-overload]


def arrival(event: Mapping[str, Any]) -> Arrival:
    """Read who comes from the event of `$connect`. Raises ValueError naming the parameter.

    `interests` are parted by commas; upper and lower case are the same, and so are its order and repetitions.
    """
    query = event.get("queryStringParameters") or {}
    lobby = codec.normalize(query.get("lobby", LOBBY), "lobby")
    named = [
        codec.normalize(one, "interests").strip().casefold()
        for one in (query.get("interests") or "").split(",")
    ]
    interests = tuple(dict.fromkeys(one for one in named if one))
    if not NAME.fullmatch(lobby):
        raise ValueError("lobby: it must be 1 to 64 characters without a blank or a #")
    if len(interests) > INTERESTS or not all(len(one) <= 32 and one.isprintable() for one in interests):
        raise ValueError(f"interests: they must be at most {INTERESTS}, of 1 to 32 characters each")
    context = event["requestContext"]
    return Arrival(context["connectionId"], endpoint(context), lobby, interests, query.get("resume") or "")


def is_foreign(event: Mapping[str, Any], settings: Settings) -> bool:
    """Return whether a handshake comes from a page of an origin that the stage does not allow.

    A browser always sends the origin of the page (RFC 6455, 4.1), and no script can change it. A handshake
    without one comes from another program, which could send any, so it is not refused. In the local stage
    `*` stands for the origins of this machine: no site that a developer visits may use the sockets.
    """
    headers = {name.lower(): value for name, value in (event.get("headers") or {}).items()}
    origin = headers.get("origin")
    if origin is None or origin in settings.origins:
        return False
    if "*" not in settings.origins:
        return True
    return settings.stage == "local" and not _is_of_this_machine(origin)


def _is_of_this_machine(origin: str) -> bool:
    try:
        return urlsplit(origin).hostname in ("127.0.0.1", "localhost", "::1")
    except ValueError:
        return False


def read(body: str) -> dict[str, Any] | str:
    """Read a frame, or say what is wrong with it: `too_long` or `bad_request`. Never raises."""
    raw = body.encode(errors="surrogatepass")
    if len(raw) > FRAME:
        return "too_long"
    try:
        frame: dict[str, Any] = codec.decode(raw, dict[str, Any])
    except ValueError:
        return "bad_request"
    return frame if isinstance(frame.get("action"), str) else "bad_request"


def part(frame: Mapping[str, Any], kind: type[T]) -> T | None:
    """Read what an action takes from its frame; None when it is not there, or of another type."""
    try:
        return msgspec.convert(frame, kind)
    except msgspec.ValidationError:
        return None


def error(code: str) -> str:
    """Write the frame that tells a client what was wrong with its own."""
    return codec.encode({"type": "error", "code": code})
