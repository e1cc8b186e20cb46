"""The context of an operation: the table, the sockets, the settings and the time.

app.py builds one for each request, frame and batch. Pure functions take the values that they need instead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from datetime import datetime

    from chalicelib.chat.gateway import ConnectionGateway
    from chalicelib.dynamo.table import Table
    from chalicelib.settings import Settings


class Context(NamedTuple):
    """The table, the gateway to open sockets, the settings of the stage, and the time of the call."""

    table: Table
    gateway: ConnectionGateway
    settings: Settings
    now: datetime
