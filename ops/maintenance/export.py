"""Writes a table's items as JSON lines, all of them or one feature's.

A line is `{"Item": {...}}` in DynamoDB's typed JSON: what its own export writes, and its import from S3
reads. Nothing is lost on the way. An export is no picture of one moment: an item that changes meanwhile is
written as it was when its page was read, each page strongly consistent. Point-in-time recovery has a picture.
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
from ops.maintenance import scan as parts
from ops.maintenance.features import feature


def run(
    table: Table,
    wanted: str,
    file: IO[str],
    segments: int,
    rate: float | None,
    tick: Callable[[Counter[str]], None],
) -> Counter[str]:
    """Write every item of a feature (empty: of all); answer how many were `read` and `written`.

    It keeps no notes: killed, it is begun anew. At most `rate` items are read a second. Costs 1 RCU per 4 KB
    of the table, also for one feature.
    """
    writing = Lock()

    def write(item: Item) -> str:
        if wanted and feature(item) != wanted:
            return ""
        text = line(item)
        with writing:
            file.write(text)
        return "written"

    return parts.run(table, "", segments, write, tick, parts.Pace(rate))


def line(item: Item) -> str:
    """Write one item as a line."""
    return json.dumps({"Item": pack(item)}, default=_binary, ensure_ascii=False) + "\n"


def _binary(value: Any) -> str:
    return base64.b64encode(bytes(value)).decode()
