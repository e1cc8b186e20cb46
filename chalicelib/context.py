"""The context of an operation: the table, the sockets, the settings and the time.

app.py builds one for each request, frame and batch. Pure functions take the values that they need instead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

if TYPE_CHECKING:
    from datetime import datetime

    from chalicelib.dynamo.table import Table
    from chalicelib.settings import Settings

Outcome = Literal["sent", "gone", "failed"]


class CloseReason(NamedTuple):
    """The server's reason to close a connection, with a code of RFC 6455's private range (4000 to 4999)."""

    code: int
    text: str


class Gateway(Protocol):
    """The connections that are open (chat/gateway.py)."""

    def send(self, endpoint: str, id: str, frame: str, *, tries: int = ...) -> Outcome:
        """Post a frame to a connection."""

    def is_open(self, endpoint: str, id: str) -> bool:
        """Return whether a connection is open."""

    def close(self, endpoint: str, id: str, reason: CloseReason | None = None) -> None:
        """Close a connection."""


class Context(NamedTuple):
    """The table, the gateway to open sockets, the settings of the stage, and the time of the call."""

    table: Table
    gateway: Gateway
    settings: Settings
    now: datetime
