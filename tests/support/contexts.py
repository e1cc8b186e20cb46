"""The contexts of calls that a test makes itself."""

from __future__ import annotations

from datetime import UTC, datetime

from chalicelib.chat.gateway import ConnectionGateway
from chalicelib.context import Context
from chalicelib.dynamo.table import Table
from chalicelib.settings import Settings

SETTINGS = Settings(secret="0123456789abcdef0123456789abcdef")


class NoSockets:
    """A factory of clients for a test without sockets."""

    def client(self, *_: object, **__: object) -> object:
        raise AssertionError("a frame was posted")


def new_context(
    table: Table,
    now: datetime | None = None,
    settings: Settings = SETTINGS,
    gateway: ConnectionGateway | None = None,
) -> Context:
    """Build the context of a call, which is made now and posts nothing to sockets by default."""
    return Context(table, gateway or ConnectionGateway(NoSockets), settings, now or datetime.now(UTC))
