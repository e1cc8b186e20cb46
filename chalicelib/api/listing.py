"""Lists of what exists, newest first, over entries of gsi1 that are written once, at the creation.

An item is in a list if it has the list's `gsi1pk`, and a number in `gsi1sk` that grows with its creation. The
entry costs 1 WCU when the item is created, and nothing when the item changes.
"""

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any, NamedTuple

from msgspec import Meta

from chalicelib import times
from chalicelib.api import cursors
from chalicelib.api.schemas import Cursor, Schema
from chalicelib.dynamo.items import Item
from chalicelib.dynamo.table import Table
from chalicelib.errors import BadCursor
from chalicelib.settings import Settings


class ListQuery(Schema):
    """A page of a list for admins."""

    limit: Annotated[int, Meta(description="The maximum number of items", ge=1, le=100)] = 20
    cursor: Cursor = None


class Entries(NamedTuple):
    """A page of entries (keys and `gsi1sk`), and the cursor of the next page."""

    items: Sequence[Item]
    cursor: str | None


def entry(name: str, now: datetime) -> Item:
    """Return the attributes that put a new item into a list."""
    return {"gsi1pk": name, "gsi1sk": times.epoch(now)}


def read_entries(table: Table, name: str, query: ListQuery, settings: Settings) -> Entries:
    """Return a page of the entries of a list, newest first.

    Cost: 0.5 RCU per 4 KB of index (about 40 entries).
    Raises: BadCursor.
    """
    scope = ("list", name)
    position = cursors.decode(settings, scope, query.cursor)
    page = table.query(name, index="gsi1", limit=query.limit, start=_parse(name, position), newest_first=True)
    last = page.next
    following = json.dumps([last["pk"], last["sk"], int(last["gsi1sk"])]) if last else ""
    return Entries(page.items, cursors.encode(settings, scope, following))


def _parse(name: str, position: str) -> dict[str, Any] | None:
    """Return the key of the last entry of the page before. Raises BadCursor."""
    if not position:
        return None
    try:
        pk, sk, number = json.loads(position)
    except ValueError:
        raise BadCursor("cursor: must be of the same query; begin again without a cursor") from None
    return {"pk": pk, "sk": sk, "gsi1pk": name, "gsi1sk": number}
