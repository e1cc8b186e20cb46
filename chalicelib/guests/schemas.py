"""Schemas of guests."""

from typing import Annotated, ClassVar

from msgspec import Meta

from chalicelib.api.names import MAX_NAME, Name
from chalicelib.api.schemas import Identifier, Instant, Schema


class GuestBody(Schema):
    """A new guest."""

    EXAMPLES: ClassVar = {"with a name": {"name": "Ann"}, "without a name": {}}

    name: (
        Annotated[
            str,
            Meta(
                description="The display name. White space is joined, and invisible characters are removed",
                max_length=MAX_NAME,
            ),
        ]
        | None
    ) = None


class Guest(Schema):
    """A signed-in guest: the token and its claims."""

    EXAMPLES: ClassVar = {
        "a guest": {
            "token": "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiJndWVzdC0…",
            "sub": "guest-4f8a0b6c2d91e7355a1c",
            "name": "Ann",
            "expires": "2026-12-21T10:00:00Z",
        }
    }

    token: Annotated[str, Meta(description="The bearer token of the guest")]
    sub: Annotated[Identifier, Meta(description="The guest's identifier, which is random")]
    name: Name
    expires: Annotated[Instant, Meta(description="The end of the token's life")]
