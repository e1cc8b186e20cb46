"""Chat for tests: connections that a test opens, closes and reads, in place of API Gateway."""

from __future__ import annotations

import itertools
import json
from datetime import datetime, timedelta
from typing import Any

from chalicelib import times
from chalicelib.chat import connections, handlers, matchmaker, reports, subscriptions
from chalicelib.chat.gateway import ConnectionGateway
from chalicelib.chat.schemas import ReportAction
from chalicelib.context import Context
from chalicelib.dynamo.items import Item, Range
from chalicelib.dynamo.table import Table
from chalicelib.settings import Settings
from tests.histories.world import BEGIN
from tests.support.contexts import SETTINGS
from tests.support.gateway import Gateway, request

CONNECTED = {"type": "system", "code": "partner_connected"}
DISCONNECTED = {"type": "system", "code": "partner_disconnected"}
NOT_MATCHED = {"type": "error", "code": "not_matched"}


class Chat:
    """The chat on a table. The test advances its clock, and sends events as API Gateway does."""

    def __init__(
        self, table: Table, settings: Settings = SETTINGS, sources: subscriptions.Sources | None = None
    ):
        self.table, self.settings, self.sources = table, settings, sources or {}
        self.wire = Gateway()
        self.gateway = ConnectionGateway(lambda: self.wire, pause=lambda seconds: None)
        self.refusals = connections.RefusalCache()
        self.now = BEGIN
        self._ticks = itertools.count(1)

    def tick(self) -> datetime:
        """Return the time, a millisecond after the last event."""
        return self.now + timedelta(milliseconds=next(self._ticks))

    def context(self) -> Context:
        """Return the context of an event, a millisecond after the last one."""
        return Context(self.table, self.gateway, self.settings, self.tick())

    def connect(
        self,
        id: str,
        opens: bool = True,
        query: dict[str, str] | None = None,
        headers: dict[str, str] | None = None,
        address: str = "",
    ) -> int:
        """Run `$connect`, and return the status of the handshake. The connection opens after that."""
        identity = {"identity": {"sourceIp": address}} if address else {}
        event = {
            "requestContext": request(id, **identity),
            "queryStringParameters": query,
            "headers": headers or {},
        }
        response = handlers.connect(self.context(), event)
        status = response["statusCode"]
        if status == 200 and opens:
            self.wire.open.add(id)
        return status

    def send(self, id: str, action: str, **fields: Any) -> list[Any]:
        """Send a frame. Return the frames that its sender has received since the last read."""
        self.send_raw(id, json.dumps({"action": action, **fields}))
        return self.wire.read(id)

    def send_only(self, id: str, action: str, **fields: Any) -> None:
        """Send a frame, and leave the received frames for a later read."""
        self.send_raw(id, json.dumps({"action": action, **fields}))

    def send_raw(self, id: str, body: str, **more: Any) -> None:
        """Send a frame with any body."""
        event = {"requestContext": request(id, **more), "body": body}
        handlers.receive_frame(
            self.context(),
            self.sources,
            event,
            self.refusals,
        )

    def enter(self, id: str, **query: str) -> list[Any]:
        """Connect and ask for the status, as a client does. Return the received frames."""
        assert self.connect(id, query=query) == 200
        return self.send(id, "status")

    def disconnect(self, id: str, code: int = 1006) -> None:
        """Close a connection and run `$disconnect`."""
        self.wire.open.discard(id)
        event = {"requestContext": request(id, disconnectStatusCode=code)}
        handlers.disconnect(self.context(), event)

    def die(self, id: str) -> None:
        """Close a connection without `$disconnect`."""
        self.wire.open.discard(id)

    def sweep(self, seconds: float = 0) -> None:
        def pause(length: float) -> None:
            self.now += timedelta(seconds=length)

        matchmaker.sweep(self.context(), self.tick, seconds=seconds, pause=pause)

    def ban(self, report: str) -> None:
        """Ban the visitor of a report for a day, as an admin's request does."""
        made = self.context()
        matchmaker.expel(made, reports.act(made, report, ReportAction(action="ban")))

    def wait(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)

    def state(self, id: str) -> str:
        return str(self.item(id).get("state"))

    def partner(self, id: str) -> str | None:
        partner = self.item(id).get("partner")
        return str(partner["id"]) if partner else None

    def item(self, id: str) -> Item:
        return self.table.get(connections.key(id), consistent=True) or {}

    def pool(self, lobby: str = "main") -> list[str]:
        entries = self.table.query(Range(f"WAITING#{lobby}"), consistent=True, limit=1000).items
        return [entry["sk"].split("#")[1] for entry in entries]


def is_subscribed(frames: list[Any]) -> bool:
    """Return whether the frames are the reply to an accepted subscription."""
    return [frame["type"] for frame in frames] == ["subscribed"]


def text(content: str) -> dict[str, str]:
    """Build the frame of a message, without its time."""
    return {"type": "message", "text": content}


def without_time(frames: list[Any]) -> list[Any]:
    """Return frames without the times of messages, which must be instants."""
    for frame in frames:
        if "time" in frame:
            times.parse(frame["time"])
    return [{name: value for name, value in frame.items() if name != "time"} for frame in frames]
