"""Sizes of items and the units that follow from them, by the rules AWS publishes.

`meter` needs them for a write whose condition is false, which dynoxide does not report, and `ops cost` for
what is stored.
Units are DynamoDB's: a write unit (WCU) covers 1 KB, a read unit (RCU) covers 4 KB; 1 KB is 1,024 bytes.
Items are in DynamoDB's typed JSON (``{"views": {"N": "7"}}``).

Sources, in the Amazon DynamoDB Developer Guide: "DynamoDB item sizes and formats" and "DynamoDB read and
write operations".
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

Item = Mapping[str, Mapping[str, Any]]

WRITE_BLOCK = 1024
READ_BLOCK = 4096

# Read units for each 4 KB, by consistency; an eventually consistent read is the default.
EVENTUAL, STRONG, TRANSACTIONAL = 0.5, 1.0, 2.0


def item_size(item: Item) -> int:
    """Return an item's size in bytes: its attribute names in UTF-8 and its values.

    The 100 bytes AWS adds for storage billing are not part of it. Raises ValueError for an unknown type.
    Source: "DynamoDB item sizes and formats".

    >>> item_size({"pk": {"S": "URL#é"}, "views": {"N": "1200"}})
    15
    """
    return sum(len(name.encode()) + _value_size(value) for name, value in item.items())


def _value_size(value: Mapping[str, Any]) -> int:
    [(kind, content)] = value.items()
    match kind:
        case "S":
            return len(content.encode())
        case "N":
            return _number_size(content)
        case "B":
            return _binary_size(content)
        case "BOOL" | "NULL":
            return 1
        case "SS" | "NS" | "BS":
            return sum(_value_size({kind[0]: element}) for element in content)
        case "L":
            return 3 + sum(1 + _value_size(element) for element in content)
        case "M":
            return 3 + sum(1 + len(name.encode()) + _value_size(element) for name, element in content.items())
    raise ValueError(f"{kind!r} is not a DynamoDB type; use S, N, B, BOOL, NULL, SS, NS, BS, L or M")


def _number_size(number: str) -> int:
    """Return a number's bytes: 1, 1 for each two significant digits, 1 for a minus sign; at most 21.

    AWS publishes this as approximate: the stored pairs of digits may cost a byte more.
    """
    mantissa = number.lower().partition("e")[0]
    digits = mantissa.lstrip("+-").replace(".", "").strip("0")
    return min(21, 1 + (len(digits) + 1) // 2 + (mantissa.startswith("-") and bool(digits)))


def _binary_size(content: bytes | str) -> int:
    """Return the raw length of bytes, as boto3 hands them over, or of base64 text, as the wire does."""
    return len(base64.b64decode(content)) if isinstance(content, str) else len(content)


def _blocks(size: int, block: int) -> int:
    return -(-size // block)


def read_units(size: int, rate: float = EVENTUAL) -> float:
    """Return the RCU of reading `size` bytes; reading nothing costs as much as 4 KB.

    GetItem, BatchGetItem and TransactGetItems round each item. Query and Scan round the sum of the items, or
    index entries, that a page read; a filter, a projection or COUNT saves nothing.
    """
    return max(1, _blocks(size, READ_BLOCK)) * rate


def table_units(*images: Item) -> float:
    """Return the WCU of one write on the table itself: the largest image, by the KB, at least 1.

    The images are the item before and after, empty where it is absent. A write whose condition fails is
    billed too: on the larger of the item that is there and the item that was to be put.
    """
    return max(1, *(_blocks(item_size(image), WRITE_BLOCK) for image in images))
