"""The published random chat, for comparison: a pool, two items a chat, an index on the connection.

Written from the published description, faults included; Hubbub's own chat does not work like this.

| pk | sk | holds |
|---|---|---|
| `UNMATCHED` | `<time>#<connection>` | a waiting connection |
| `CHAT#<a>` | `<b>` | a talks with b; there is one item for each direction |

Every item is found again by its connection through an index, eventually consistent: here `gsi1`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

POOL = "UNMATCHED"


class PublishedChat:
    """The published design on a table. Times are given by the caller, as text in order."""

    def __init__(self, client: DynamoDBClient, table_name: str) -> None:
        self._client = client
        self._table = table_name

    def connect(self, id: str, time: str) -> str | None:
        """Join the pool, or be matched with the newest waiting connection; return the partner.

        Of two who come at once both may find the pool empty, and wait for ever. A transaction that is
        cancelled leaves the newcomer nowhere, and is raised.
        """
        reply = self._client.query(
            TableName=self._table,
            KeyConditionExpression="pk = :pool",
            ExpressionAttributeValues={":pool": {"S": POOL}},
            ScanIndexForward=False,
            Limit=1,
        )
        if not reply["Items"]:
            self._client.put_item(TableName=self._table, Item=self._item(POOL, f"{time}#{id}", id))
            return None
        waiting = reply["Items"][0]
        other = waiting["sk"]["S"].partition("#")[2]
        place: Any = {"pk": waiting["pk"], "sk": waiting["sk"]}
        delete: Any = {"TableName": self._table, "Key": place, "ConditionExpression": "attribute_exists(pk)"}
        items = (self._item(f"CHAT#{id}", other, id), self._item(f"CHAT#{other}", id, other))
        puts: Any = [{"Put": {"TableName": self._table, "Item": item}} for item in items]
        self._client.transact_write_items(TransactItems=[{"Delete": delete}, *puts])
        return other

    def partner(self, id: str) -> str | None:
        """Find the partner, as a message does: one query."""
        reply = self._client.query(
            TableName=self._table,
            KeyConditionExpression="pk = :chat",
            ExpressionAttributeValues={":chat": {"S": f"CHAT#{id}"}},
        )
        return reply["Items"][0]["sk"]["S"] if reply["Items"] else None

    def disconnect(self, id: str) -> str | None:
        """Delete what there is of a connection; return the partner, which does not wait again."""
        found = self._client.query(
            TableName=self._table,
            IndexName="gsi1",
            KeyConditionExpression="gsi1pk = :id",
            ExpressionAttributeValues={":id": {"S": f"CONN#{id}"}},
        )["Items"]
        if not found:
            return None
        key: Any = {"pk": found[0]["pk"], "sk": found[0]["sk"]}
        if key["pk"]["S"] == POOL:
            self._client.delete_item(TableName=self._table, Key=key)
            return None
        other: str = key["sk"]["S"]
        mirror: Any = {"pk": {"S": f"CHAT#{other}"}, "sk": {"S": id}}
        self._client.transact_write_items(
            TransactItems=[{"Delete": {"TableName": self._table, "Key": one}} for one in (key, mirror)]
        )
        return other

    def _item(self, pk: str, sk: str, id: str) -> Any:
        index = {"gsi1pk": {"S": f"CONN#{id}"}, "gsi1sk": {"N": "0"}}
        return {"pk": {"S": pk}, "sk": {"S": sk}, **index}
