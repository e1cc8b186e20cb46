"""Quarantine: item images whose contribution failed, kept with their sign for a redrive.

| item | pk | sk | holds |
|---|---|---|---|
| image | `QUARANTINE#<n>` | `<second>#<record>#<side>` | `image` (packed), `sign`, `reason`, `aggregate` |
| guard | `GUARD#quarantine` | `<n>` | `applied`, `spilled`, `spills`: the tags of quarantined records |

Invariant: an image in quarantine counts for nothing, and no follower gets it. So a change from a malformed
image to a valid one adds the valid one in full, and a repaired item contributes from its repair on.

Only the contribution of a feature decides whether an image is malformed. Its other functions rely on items.

An image that one aggregate alone refused names it in `aggregate`. The other aggregates have counted it.

`python -m ops redrive` empties the quarantine. An item's contribution is the sum of its changes, so an image
that was written (sign 1) and later replaced (sign -1) is in quarantine twice. The two add up to nothing.
ops/maintenance/redrive.py describes how to repair items and images.
"""

import json
import zlib
from datetime import UTC, datetime
from typing import Any, NamedTuple

from chalicelib.dynamo.items import Item, Key

PARTITIONS = 16  # so that many images at once are not throttled on a single partition
REASON = 500  # characters of a reason that are kept
IMAGE = 350_000  # bytes of an image that are kept, of the 400 KB that an item may have


class Poison(NamedTuple):
    """An image that could not be added (sign 1) or subtracted (-1), by default to or from any aggregate.

    An image that one aggregate alone refused names that aggregate.
    """

    image: Any
    sign: int
    reason: str
    aggregate: Key | None = None


def guard_key(record: bytes) -> Key:
    """Return the key of the item that remembers which records of a partition are quarantined."""
    return Key("GUARD#quarantine", str(record[-1] % PARTITIONS))


def item_key(record: bytes, second: int, sign: int) -> Key:
    """Return the key of one image of a record. A record that is delivered again has the same key."""
    side = "new" if sign > 0 else "old"
    return Key(f"QUARANTINE#{record[-1] % PARTITIONS}", f"{second}#{record.hex()}#{side}")


def build_item(record: bytes, second: int, poison: Poison, now: int) -> Item:
    """Build the item that keeps an image. An image that is too large when compressed leaves its length."""
    image = zlib.compress(serialize(poison.image).encode())
    return {
        **item_key(record, second, poison.sign)._asdict(),
        "sign": poison.sign,
        "reason": poison.reason[:REASON],
        "quarantined": datetime.fromtimestamp(now, UTC).isoformat(),
        **({"aggregate": list(poison.aggregate)} if poison.aggregate else {}),
        **({"image": image} if len(image) <= IMAGE else {"image_bytes": len(image)}),
    }


def read_image(item: Item) -> Any:
    """Return the image that an item keeps, in DynamoDB's typed JSON.

    The image is compressed, or plain text if an operator has written it.

    Raises:
        ValueError: the image was too large to keep, or is damaged.
    """
    kept = item.get("image")
    try:
        if isinstance(kept, bytes):
            kept = zlib.decompress(kept).decode()
        if isinstance(kept, str):
            return json.loads(kept)
    except (zlib.error, RecursionError) as error:
        raise ValueError(f"`image` is damaged: {error}") from None
    if kept is None:
        raise ValueError("`image` is missing, because it was too large to keep")
    raise ValueError("`image` must be compressed or plain JSON text")


def serialize(value: Any) -> str:
    """Return any value as text, independent of the order of keys. Never raise.

    A value that JSON cannot hold is replaced by the name of its type. Examples are a thousand nested lists,
    and a number of thousands of digits.
    """
    try:
        return json.dumps(value, sort_keys=True, default=str)
    except (RecursionError, TypeError, ValueError):
        return f"a {type(value).__name__} that cannot be written"
