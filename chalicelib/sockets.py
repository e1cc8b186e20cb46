"""The socket's door: reads frames, JSON objects with an `action`, and answers those that it does not take.

No feature talks over the socket yet, so every action is unknown.
"""

import os
from typing import Any

import msgspec

from chalicelib import wire

FRAME = 8_192  # bytes; a longer frame is too long before it is anything else


class Session:
    """What Chalice makes its client of the connections with: boto3, imported when the first frame is sent."""

    @property
    def region_name(self) -> str:
        """Answer the region that Lambda runs in."""
        return os.environ.get("AWS_REGION", "us-east-1")

    def client(self, name: str, **options: Any) -> Any:
        """Make a client; it waits for nobody longer than a frame is worth."""
        import boto3
        from botocore.config import Config

        config = Config(connect_timeout=1, read_timeout=2, retries={"total_max_attempts": 2})
        return boto3.session.Session().client(name, config=config, **options)  # type: ignore[call-overload]


class Frame(msgspec.Struct):
    """What every frame has."""

    action: str


def read(body: str) -> Frame | str:
    """Read a frame, or say what is wrong with it: `too_long` or `bad_request`. Never raises."""
    raw = body.encode(errors="surrogatepass")
    if len(raw) > FRAME:
        return "too_long"
    try:
        frame: Frame = wire.decode(raw, Frame)
    except ValueError:
        return "bad_request"
    return frame


def error(code: str) -> str:
    """Write the frame that tells a client what was wrong with its own."""
    return wire.encode({"type": "error", "code": code})


def answer(body: str) -> str:
    """Answer a frame: with an error, for no action is known yet."""
    frame = read(body)
    return error(frame if isinstance(frame, str) else "bad_request")
