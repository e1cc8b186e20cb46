"""Whether a table's aggregates are the sums over its items."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from chalicelib import sums
from chalicelib.items import Item, Key, unpack
from chalicelib.sums import Constant, Contribution

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

AGGREGATE = re.compile("STATISTICS|DAY#.*|VISITOR#.*|NODE|RANKED#.*|S|S#.*")
CONSTANTS = {"gsi1pk", "ttl", "series"}  # these stay when the sums beside them have come to zero


def scan(client: DynamoDBClient, table_name: str) -> list[Item]:
    """Read every item. Costs 1 RCU per 4 KB (strongly consistent)."""
    pages = client.get_paginator("scan").paginate(TableName=table_name, ConsistentRead=True)
    return [unpack(item) for page in pages for item in page["Items"]]


def drift(contributions: Sequence[Contribution], items: Sequence[Item]) -> dict[tuple[Key, str], Any]:
    """Answer what is not as it should be: (is, should be) of each attribute of an aggregate; empty is right.

    An aggregate is an item that a contribution names, or that has the key of one; it holds nothing but what
    contributions add. What came to zero is as good as what never was.
    """
    right = sums.recount(contributions, items)
    named = {key for key, _ in right}
    stored = {
        (key, name): value
        for item in items
        if (key := Key(item["pk"], item["sk"])) in named or AGGREGATE.fullmatch(key.sk)
        for name, value in item.items()
        if name not in ("pk", "sk") and ((key, name) in right or name not in CONSTANTS)
    }
    wanted = {at: amount.value if isinstance(amount, Constant) else amount for at, amount in right.items()}
    return {
        at: (stored.get(at), wanted.get(at))
        for at in stored.keys() | wanted.keys()
        if (stored.get(at) or 0) != (wanted.get(at) or 0)
    }
