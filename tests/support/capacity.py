"""Capacity units, computed from item sizes by the rules AWS publishes.

dynoxide reports these units, but not those of a write whose condition is false, and tables in memory report
none. So `meter` counts by these rules. tests/dynamo/test_consumed.py and the bench compare it with dynoxide's
reports, to the unit.
Units are DynamoDB's: a write unit (WCU) covers 1 KB, a read unit (RCU) covers 4 KB; 1 KB is 1,024 bytes.
Items are in DynamoDB's typed JSON (``{"views": {"N": "7"}}``).

Sources, all in the Amazon DynamoDB Developer Guide: "DynamoDB item sizes and formats", "DynamoDB read and
write operations", "Using global secondary indexes" (write capacity units) and "Managing complex workflows
with DynamoDB transactions" (capacity management).
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Item = Mapping[str, Mapping[str, Any]]

WRITE_BLOCK = 1024
READ_BLOCK = 4096

# Read units for each 4 KB, by consistency; an eventually consistent read is the default.
EVENTUAL, STRONG, TRANSACTIONAL = 0.5, 1.0, 2.0

# A transaction makes two underlying writes of each item, one to prepare and one to commit. Its index writes
# are not doubled: measured on AWS by the project dynamodb-conformance.
TRANSACTION_FACTOR = 2


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


@dataclass(frozen=True)
class Index:
    """A global secondary index: its keys, and the attributes it projects (none: KEYS_ONLY; None: ALL)."""

    partition: str
    sort: str
    projected: tuple[str, ...] | None = ()


@dataclass(frozen=True)
class TableDefinition:
    """A table's keys and its indexes by name; the defaults are Hubbub's."""

    key: tuple[str, ...] = ("pk", "sk")
    indexes: Mapping[str, Index] = field(
        default_factory=lambda: {"gsi1": Index("gsi1pk", "gsi1sk"), "gsi2": Index("gsi2pk", "sk", None)}
    )

    def entry(self, index: Index, item: Item) -> Item:
        """Return the item's entry in the index; empty when the item lacks a key of the index."""
        if index.partition not in item or index.sort not in item:
            return {}
        if index.projected is None:
            return item
        names = {*self.key, index.partition, index.sort, *index.projected}
        return {name: value for name, value in item.items() if name in names}


HUBBUB = TableDefinition()


def table_units(*images: Item) -> float:
    """Return the WCU of one write on the table itself: the largest image, by the KB, at least 1.

    The images are the item before and after, empty where it is absent. A write whose condition fails is
    billed too: on the larger of the item that is there and the item that was to be put.
    """
    return max(1, *(_blocks(item_size(image), WRITE_BLOCK) for image in images))


def index_units(before: Item, after: Item, definition: TableDefinition = HUBBUB) -> float:
    """Return the WCU one write causes in the table's indexes.

    An entry put, removed or changed in place costs 1 for each KB; a changed index key removes one entry and
    puts another, so 2; an entry that stays as it is costs nothing.
    """
    units = 0
    for index in definition.indexes.values():
        old, new = definition.entry(index, before), definition.entry(index, after)
        removed, put = (_blocks(item_size(entry), WRITE_BLOCK) for entry in (old, new))
        if old != new:
            moves = any(old.get(name) != new.get(name) for name in (index.partition, index.sort))
            units += removed + put if moves else max(removed, put)
    return units


def write_units(
    before: Item, after: Item, definition: TableDefinition = HUBBUB, *, transactional: bool = False
) -> float:
    """Return the WCU of one write, table and indexes; a transaction doubles the table's alone."""
    factor = TRANSACTION_FACTOR if transactional else 1
    return table_units(before, after) * factor + index_units(before, after, definition)
