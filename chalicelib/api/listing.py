"""Lists of boards, comments and other items, newest first, from entries of gsi1 that are written at creation.

An item is in a list if it has the list's `gsi1pk`, and a number in `gsi1sk` that grows with its creation. The
entry costs 1 WCU when the item is created, and nothing when the item changes.

A page of texts has at most PAGE bytes, whatever its limit. Texts are read CHUNK at a time. So a page of the
longest comments, of 20 KB each, reads at most 270 KB (34 RCU).
"""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from itertools import accumulate, islice
from typing import Annotated, Any, NamedTuple, TypeVar

import msgspec
from msgspec import Meta

from chalicelib import times
from chalicelib.api import cursors
from chalicelib.api.schemas import Cursor, Schema
from chalicelib.context import Context
from chalicelib.dynamo.items import Item, Range
from chalicelib.dynamo.table import Page
from chalicelib.errors import BadCursor

T = TypeVar("T", bound=msgspec.Struct)
P = TypeVar("P")

PAGE = 64 * 1024 - 1024  # bytes of the items of a page of texts, which leaves room for its cursor
CHUNK = 10  # texts that are read at a time


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


def read_entries(context: Context, name: str, query: ListQuery) -> Entries:
    """Return a page of the entries of a list, newest first.

    Cost: 0.5 RCU per 4 KB of index (about 40 entries).
    Raises: BadCursor.
    """
    scope = ("list", name)
    position = cursors.decode(context.settings, scope, query.cursor)
    page = context.table.query(
        Range(name, index_name="gsi1"), limit=query.limit, start=_parse(name, position), newest_first=True
    )
    last = page.next
    following = json.dumps([last["pk"], last["sk"], int(last["gsi1sk"])]) if last else ""
    return Entries(page.items, cursors.encode(context.settings, scope, following))


def _parse(name: str, position: str) -> dict[str, Any] | None:
    """Return the key of the last entry of the page before. Raises BadCursor."""
    if not position:
        return None
    try:
        pk, sk, number = json.loads(position)
    except ValueError:
        raise BadCursor("`cursor` must be of the same query; begin again without a cursor") from None
    return {"pk": pk, "sk": sk, "gsi1pk": name, "gsi1sk": number}


def size_of(item: msgspec.Struct) -> int:
    """Return the bytes that an item takes in a response."""
    return len(msgspec.json.encode(item)) + 1


def fit(items: Sequence[T]) -> list[T]:
    """Return the first items of a list that has no cursor, with at most PAGE bytes."""
    ends = accumulate(map(size_of, items))
    return [item for item, end in zip(items, ends, strict=True) if end <= PAGE]


def read_texts(
    read: Callable[[int, Item | None], Page], limit: int, start: Item | None
) -> Iterator[tuple[Item, Item | None]]:
    """Yield items with the position after each. The last one has none. `read` takes a number and a position.

    Cost: that of `read` for each CHUNK of items.
    """
    while True:
        page = read(min(CHUNK, limit), start)
        for item in page.items:
            is_last = page.next is None and item is page.items[-1]
            yield item, None if is_last else {"pk": item["pk"], "sk": item["sk"]}
        if (start := page.next) is None:
            return


def fill_page(
    texts: Iterable[tuple[Item, P | None]], limit: int, convert: Callable[[Item], T | None]
) -> tuple[list[T], P | None]:
    """Return the converted items of a page, and the position of the next page.

    The page ends after `limit` items, or before it has more than PAGE bytes. An item that converts to None is
    left out.
    """
    found: list[T] = []
    size, position = 0, None
    for item, following in islice(texts, limit):
        if (converted := convert(item)) is not None:
            size += size_of(converted)
            if size > PAGE and found:
                break
            found.append(converted)
        position = following
    return found, position
