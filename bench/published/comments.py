"""The published comment statistics, for comparison: a stream handler that adds to the items it touches.

Written from the published description, faults included; Hubbub's own statistics do not work like this. It
says nothing of edits; here one takes the old rating away and adds the new one, which is the least it must
do.

| pk | sk | holds |
|---|---|---|
| `PRODUCT#<product>` | `COMMENT#<id>` | a comment: `rating`, `language` |
| `PRODUCT#<product>` | `S`, `S#<language>` | `count_1` … `count_5`, `count_total` |
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient


def put(client: DynamoDBClient, table_name: str, product: str, id: str, rating: int, language: str) -> None:
    """Store a comment, or change it. Costs 1 WCU."""
    item: Any = {**_key(product, f"COMMENT#{id}"), "rating": {"N": str(rating)}, "language": {"S": language}}
    client.put_item(TableName=table_name, Item=item)


def delete(client: DynamoDBClient, table_name: str, product: str, id: str) -> None:
    """Delete a comment. Costs 1 WCU."""
    client.delete_item(TableName=table_name, Key=_key(product, f"COMMENT#{id}"))


def handle(client: DynamoDBClient, table_name: str, records: Sequence[Any]) -> None:
    """Add a batch of changed comments to the statistics, one update for each item that is touched.

    A record that comes twice counts twice: that is the design's fault. Costs 1 WCU an update, and index.
    """
    for record in records:
        body = record["dynamodb"]
        if not body["Keys"]["sk"]["S"].startswith("COMMENT#"):
            continue
        product = body["Keys"]["pk"]["S"].removeprefix("PRODUCT#")
        for image, sign in ((body.get("OldImage"), "-1"), (body.get("NewImage"), "1")):
            for sk in ("S", f"S#{image['language']['S']}") if image else ():
                client.update_item(
                    TableName=table_name,
                    Key=_key(product, sk),
                    UpdateExpression="ADD #rating :one, count_total :one",
                    ExpressionAttributeNames={"#rating": f"count_{image['rating']['N']}"},
                    ExpressionAttributeValues={":one": {"N": sign}},
                )


def _key(product: str, sk: str) -> Any:
    return {"pk": {"S": f"PRODUCT#{product}"}, "sk": {"S": sk}}
