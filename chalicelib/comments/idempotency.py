"""The keys of requests that may be repeated: each writes one comment or one reply within a day.

| item | pk | sk | holds |
|---|---|---|---|
| idempotency key | `PRODUCT#<product>` | `KEY#<comment>#<digest>` | `id` of the reply it has written; `ttl` |
| | | `KEY##<digest>` | `id` of the comment it has written; `ttl` |

Where an author has one comment, the author's item has the key (comments.py).
"""

import hashlib
from datetime import datetime, timedelta
from typing import Any

from chalicelib import times
from chalicelib.dynamo.items import Key

LIFETIME = timedelta(days=1)


def build_key(product: str, author: str, idempotency_key: str, comment: str = "") -> Key:
    """Build the key of the item for an author's comment, or for a reply to a comment."""
    digest = hashlib.blake2b(f"{author}\n{idempotency_key}".encode(), digest_size=16).hexdigest()
    return Key(f"PRODUCT#{product}", f"KEY#{comment}#{digest}")


def put(key: Key, id: str, now: datetime) -> dict[str, Any]:
    """Build the put of an idempotency key, on condition that it is new or has expired.

    Cost: 2 WCU.
    """
    return {
        "Put": {
            "Item": key._asdict() | {"id": id, "ttl": times.epoch(now + LIFETIME)},
            "ConditionExpression": "attribute_not_exists(pk) OR #ttl < :now",
            "ExpressionAttributeNames": {"#ttl": "ttl"},
            "ExpressionAttributeValues": {":now": times.epoch(now)},
        }
    }
