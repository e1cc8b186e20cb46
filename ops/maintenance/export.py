"""Export a table's items, or some of them, as JSON lines.

A line is `{"Item": {...}}` in DynamoDB's typed JSON, the format of DynamoDB's own export and of its import
from S3. The format is lossless. An export is not a snapshot: each item has the value of the moment when its
page was read, strongly consistent. Point-in-time recovery provides snapshots.
"""

from __future__ import annotations

import base64
import json
from collections import Counter
from collections.abc import Callable
from threading import Lock
from typing import IO, Any

from chalicelib.dynamo.items import Item, pack
from chalicelib.dynamo.table import Table
from ops.maintenance import scan
from ops.maintenance.pace import Pace


def export_items(
    table: Table,
    is_wanted: Callable[[Item], bool],
    file: IO[str],
    pace: Pace,
    report: Callable[[Counter[str]], None],
) -> Counter[str]:
    """Write every item that is wanted. Return the numbers `read` and `written`.

    An interrupted export starts from the beginning.

    Cost: 1 RCU per 4 KB of the whole table, whatever is wanted.
    """
    writing = Lock()

    def write(item: Item) -> str:
        if not is_wanted(item):
            return ""
        text = format_line(item)
        with writing:
            file.write(text)
        return "written"

    return scan.process_table(table, "", pace, write, report)


def format_line(item: Item) -> str:
    """Return an item as a line."""
    return json.dumps({"Item": pack(item)}, default=_binary, ensure_ascii=False) + "\n"


def _binary(value: Any) -> str:
    return base64.b64encode(bytes(value)).decode()
