"""Whether a table's aggregates are the sums over its items."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from chalicelib.aggregates import sums
from chalicelib.aggregates.sums import KEPT, Constant, Contribution, Lifetime
from chalicelib.dynamo.items import Item, Key, unpack

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

AGGREGATE = re.compile("STATISTICS|DAY#.*|VISITOR#.*|NODE|RANKED#.*|S|S#.*|COUNTED")
CONSTANTS = {"gsi1pk", "ttl", "series", KEPT}  # these stay when the sums beside them have come to zero

Drift = dict[tuple[Key, str], tuple[Any, Any]]


def read(client: DynamoDBClient, table_name: str) -> Iterator[Item]:
    """Read every item, a page at a time. Costs 1 RCU per 4 KB (strongly consistent)."""
    pages = client.get_paginator("scan").paginate(TableName=table_name, ConsistentRead=True)
    return (unpack(item) for page in pages for item in page["Items"])


def scan(client: DynamoDBClient, table_name: str) -> list[Item]:
    """Read every item. Costs 1 RCU per 4 KB (strongly consistent)."""
    return list(read(client, table_name))


def drift(contributions: Sequence[Contribution], items: Iterable[Item]) -> Drift:
    """Answer what is not as it should be: (is, should be) of each attribute of an aggregate; empty is right.

    An aggregate is an item that has the key of one; it holds nothing but what contributions add. What came
    to zero is as good as what never was. Keeps the aggregates in memory, and not the other items.
    """
    right: sums.Sums = {}
    stored: dict[tuple[Key, str], Any] = {}
    for item in items:
        sums.merge(right, sums.sum_contributions(contributions, item))
        if AGGREGATE.fullmatch(item["sk"]):
            key = Key(item["pk"], item["sk"])
            stored |= {(key, name): value for name, value in item.items() if name not in ("pk", "sk")}
    wanted = {
        at: amount.value if isinstance(amount, Constant) else amount
        for at, amount in right.items()
        if not isinstance(amount, Lifetime)
    }
    return {
        at: (stored.get(at), wanted.get(at))
        for at in stored.keys() | wanted.keys()
        if (stored.get(at) or 0) != (wanted.get(at) or 0) and (at in wanted or at[1] not in CONSTANTS)
    }
