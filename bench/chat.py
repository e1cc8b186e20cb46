"""Chat: the price of each event, beside a pool with two items for each chat."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from bench.report import Answer, Cell
from chalicelib.chat import handlers
from chalicelib.chat.gateway import ConnectionGateway
from chalicelib.context import Context
from chalicelib.dynamo.table import Table
from chalicelib.settings import Settings
from local.engines.engine import Engine
from tests.support.deployed import OpenGateway
from tests.support.meter import Meter
from tests.support.tables import fresh_table

SETTINGS = Settings(secret="0123456789abcdef0123456789abcdef")  # noqa: S106 (no secret)
STATUS, MESSAGE = '{"action": "status"}', '{"action": "message", "text": "hello"}'
POOL = "UNMATCHED"


class PublishedChat:
    """The published design, faults included.

    | pk | sk | holds |
    |---|---|---|
    | `UNMATCHED` | `<time>#<connection>` | a waiting connection |
    | `CHAT#<a>` | `<b>` | a talks with b; one item for each direction |

    Every item is found again by its connection through `gsi1`, eventually consistent. Of two connections that
    come at once both may find the pool empty and wait for ever. A partner that is left does not wait again.
    """

    def __init__(self, table: Table) -> None:
        self._client: Any = table.client
        self._table = table.name
        self._times = itertools.count(1)

    def connect(self, id: str) -> None:
        """Join the pool, or be matched with the newest waiting connection."""
        found = self._query("pk = :value", POOL, ScanIndexForward=False, Limit=1)
        if not found:
            item = self._item(POOL, f"{next(self._times)}#{id}", id)
            self._client.put_item(TableName=self._table, Item=item)
            return
        other = found[0]["sk"]["S"].partition("#")[2]
        place = {"pk": found[0]["pk"], "sk": found[0]["sk"]}
        delete = {"TableName": self._table, "Key": place, "ConditionExpression": "attribute_exists(pk)"}
        items = (self._item(f"CHAT#{id}", other, id), self._item(f"CHAT#{other}", id, other))
        puts = [{"Put": {"TableName": self._table, "Item": item}} for item in items]
        self._client.transact_write_items(TransactItems=[{"Delete": delete}, *puts])

    def say(self, id: str) -> None:
        """Find the partner."""
        self._query("pk = :value", f"CHAT#{id}")

    def disconnect(self, id: str) -> None:
        """Delete the items of a connection and of its partner."""
        for found in self._query("gsi1pk = :value", f"CONN#{id}", IndexName="gsi1")[:1]:
            keys = [{"pk": found["pk"], "sk": found["sk"]}]
            if found["pk"]["S"] != POOL:
                keys.append({"pk": {"S": f"CHAT#{found['sk']['S']}"}, "sk": {"S": id}})
            deletes = [{"Delete": {"TableName": self._table, "Key": key}} for key in keys]
            self._client.transact_write_items(TransactItems=deletes)

    def _query(self, condition: str, value: str, **options: Any) -> list[Any]:
        values = {":value": {"S": value}}
        reply = self._client.query(
            TableName=self._table,
            KeyConditionExpression=condition,
            ExpressionAttributeValues=values,
            **options,
        )
        return list(reply["Items"])

    @staticmethod
    def _item(pk: str, sk: str, id: str) -> Any:
        index = {"gsi1pk": {"S": f"CONN#{id}"}, "gsi1sk": {"N": "0"}}
        return {"pk": {"S": pk}, "sk": {"S": sk}, **index}


def measure(engine: Engine, quick: bool) -> list[Answer]:
    """Measure the write and read units of each event."""
    rows: list[tuple[Cell, ...]] = []
    with fresh_table(engine) as (table, _), fresh_table(engine) as (other, _):
        gateway = OpenGateway()
        posts = ConnectionGateway(lambda: gateway)
        them = PublishedChat(other)

        def call(handle: Callable[..., Any], id: str, *more: Any, body: str = "") -> None:
            request = {"connectionId": id, "apiId": "local", "stage": "local", "identity": {}}
            event = {"requestContext": request, "body": body}
            handle(Context(table, posts, SETTINGS, datetime.now(UTC)), *more, event)

        def connect(id: str) -> Callable[[], None]:
            return lambda: call(handlers.connect, id)

        def frame(id: str, body: str) -> Callable[[], None]:
            return lambda: call(handlers.receive_frame, id, {}, body=body)

        events: list[tuple[str, Callable[[], None], Callable[[], None] | None]] = [
            ("connect, nobody waits", connect("a"), lambda: them.connect("a")),
            ("status, while waiting", frame("a", STATUS), None),
            ("connect, a match", connect("b"), lambda: them.connect("b")),
            ("status, with a notice", frame("b", STATUS), None),
            ("message, the first", frame("a", MESSAGE), lambda: them.say("a")),
            ("message", frame("a", MESSAGE), lambda: them.say("a")),
            ("disconnect, of a pair", lambda: call(handlers.disconnect, "a"), lambda: them.disconnect("a")),
            ("disconnect, while waiting", lambda: call(handlers.disconnect, "b"), None),
        ]
        for name, ours, theirs in events:
            with Meter(table.client) as meter:
                ours()
            with Meter(other.client) as beside:
                (theirs or (lambda: None))()
            published = (beside.write_units, beside.read_units) if theirs else (None, None)
            rows.append((name, meter.write_units, meter.read_units, *published))
    note = (
        "The published design keeps no state for a status, no limit of frames, and no notice after a crash."
    )
    columns = ("event", "WCU", "RCU", "published WCU", "published RCU")
    return [Answer("What does an event of chat cost?", columns, rows, note)]
