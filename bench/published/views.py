"""The published accurate view counter, for comparison: each event and the counter in one transaction.

Written from the published description, faults included; Hubbub's own counter does not work like this.

| pk | sk | holds |
|---|---|---|
| `URL#<url>` | `T#<time>#CID#<client>` | one view event, `ttl`; put on condition that it is absent |
| `URL#<url>` | `STATISTICS` | `views` |
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_dynamodb.type_defs import UniversalAttributeValueTypeDef


def event_key(url: str, time: str, client_id: str) -> dict[str, UniversalAttributeValueTypeDef]:
    """Return the key of one view event; equal events have equal keys."""
    return {"pk": {"S": f"URL#{url}"}, "sk": {"S": f"T#{time}#CID#{client_id}"}}


def statistics_key(url: str) -> dict[str, UniversalAttributeValueTypeDef]:
    """Return the key of a page's counter."""
    return {"pk": {"S": f"URL#{url}"}, "sk": {"S": "STATISTICS"}}


def count_view(
    client: DynamoDBClient, table_name: str, url: str, time: str, client_id: str, ttl: int
) -> bool:
    """Count a view and return True; return False for what the design takes to be a duplicate.

    Any cancelled transaction counts as a duplicate. That is the design's fault: a transaction that was
    cancelled by a conflict on the counter, which all views of a page share, loses its view. `ttl` is in
    epoch seconds.

    Costs 4 WCU, a duplicate included: two items under 1 KB, doubled by the transaction.
    """
    event = {**event_key(url, time, client_id), "ttl": {"N": str(ttl)}}
    put: Any = {"TableName": table_name, "Item": event, "ConditionExpression": "attribute_not_exists(pk)"}
    add: Any = {
        "TableName": table_name,
        "Key": statistics_key(url),
        "UpdateExpression": "ADD #views :one",
        "ExpressionAttributeNames": {"#views": "views"},
        "ExpressionAttributeValues": {":one": {"N": "1"}},
    }
    try:
        client.transact_write_items(TransactItems=[{"Put": put}, {"Update": add}])
    except client.exceptions.TransactionCanceledException:
        return False
    return True


def views(client: DynamoDBClient, table_name: str, url: str) -> int:
    """Return a page's views so far, 0 for a page never viewed. Costs 1 RCU (strongly consistent)."""
    reply = client.get_item(TableName=table_name, Key=statistics_key(url), ConsistentRead=True)
    return int(reply.get("Item", {}).get("views", {"N": "0"})["N"])
