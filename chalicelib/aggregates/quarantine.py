"""Images that no contribution could be computed of: kept, with their sign, until they can be added.

| item | pk | sk | holds |
|---|---|---|---|
| entry | `QUARANTINE#<n>` | `<second>#<record>#<side>` | `image` (packed), `sign`, `reason`, `quarantined` |

Until then an image counts for nothing. So a change from a malformed image to a good one adds the good one in
full, and an item that was malformed contributes from the moment it is mended.

`python -m ops redrive` empties it. What an item counts is the sum of its changes, so its entries belong
together: an image that was written (sign 1) and left again (sign -1) is two entries, which add up to nothing
whatever it is worth. What that means for mending is in ops/maintenance/redrive.py.
"""

import json
import zlib
from datetime import UTC, datetime
from typing import Any, NamedTuple

from chalicelib.dynamo.items import Item, Key

PARTITIONS = 16  # so that a flood of poison is not throttled on one
REASON = 500  # letters
IMAGE = 350_000  # bytes kept of an image, of the 400 KB that an item may have


class Poison(NamedTuple):
    """An image that no contribution could be computed of: it was to be added (1) or taken away (-1)."""

    image: Any
    sign: int
    reason: str


def entry_key(record: bytes, second: int, sign: int) -> Key:
    """Key one image of one record; the same record again is the same entry."""
    side = "new" if sign > 0 else "old"
    return Key(f"QUARANTINE#{record[0] % PARTITIONS}", f"{second}#{record.hex()}#{side}")


def entry(record: bytes, second: int, poison: Poison, now: int) -> Item:
    """Build the item that keeps an image; of one that is too large even compressed, only its length."""
    image = zlib.compress(written(poison.image).encode())
    return {
        **entry_key(record, second, poison.sign)._asdict(),
        "sign": poison.sign,
        "reason": poison.reason[:REASON],
        "quarantined": datetime.fromtimestamp(now, UTC).isoformat(),
        **({"image": image} if len(image) <= IMAGE else {"image_bytes": len(image)}),
    }


def image(entry: Item) -> Any:
    """Read an entry's image, in DynamoDB's typed JSON: compressed, or as text where a person wrote it.

    Raises ValueError for an image that was too large to keep, or that is damaged.
    """
    kept = entry.get("image")
    try:
        if isinstance(kept, bytes):
            kept = zlib.decompress(kept).decode()
        if isinstance(kept, str):
            return json.loads(kept)
    except (zlib.error, RecursionError) as error:
        raise ValueError(f"the entry's image is damaged: {error}") from None
    raise ValueError("the entry has no image: it was too large to keep" if kept is None else "it is no image")


def written(value: Any) -> str:
    """Write any value as text, the same whatever the order of its dicts; never raises.

    Of what JSON cannot hold (a nest of a thousand levels, a number of thousands of digits), only its type.
    """
    try:
        return json.dumps(value, sort_keys=True, default=str)
    except (RecursionError, TypeError, ValueError):
        return f"a {type(value).__name__} that cannot be written"
