"""Reads of the quarantine, newest image first, for admins.

The items are those of `quarantine.py`, in several partitions. All partitions are queried in parallel.
"""

from chalicelib import times
from chalicelib.aggregates import quarantine
from chalicelib.aggregates.schemas import LONGEST, Quarantine, QuarantinedImage, QuarantineQuery
from chalicelib.api import cursors
from chalicelib.concurrency import map_concurrently
from chalicelib.context import Context
from chalicelib.dynamo.items import Item, Range
from chalicelib.dynamo.table import Page

CURSOR_SCOPE = ("quarantine",)


def list_quarantined(context: Context, query: QuarantineQuery) -> Quarantine:
    """Return a page of quarantined images, newest first.

    Cost: 0.5 RCU for each of the 16 partitions. A partition where the page has more than 4 KB costs 0.5 RCU
    per 4 KB of up to `limit` images. An image is mostly under 1 KB, and at most 350 KB.

    Raises:
        BadCursor: the cursor was changed, or belongs to another query.
    """
    before = cursors.decode(context.settings, CURSOR_SCOPE, query.cursor)
    last = f"{before[:-1]}{chr(ord(before[-1]) - 1)}~" if before else "~"

    def read_newest(n: int) -> Page:
        return context.table.query(
            Range(f"QUARANTINE#{n}", ("0", last)), limit=query.limit, newest_first=True
        )

    pages = map_concurrently(read_newest, range(quarantine.PARTITIONS))
    items = sorted((item for page in pages for item in page.items), key=_sort_key, reverse=True)
    has_more = len(items) > query.limit or any(page.next for page in pages)
    shown = items[: query.limit]
    return Quarantine(
        items=[_to_schema(item) for item in shown],
        cursor=cursors.encode(context.settings, CURSOR_SCOPE, _sort_key(shown[-1]) if has_more else ""),
    )


def _sort_key(item: Item) -> str:
    return str(item["sk"])


def _to_schema(item: Item) -> QuarantinedImage:
    """Return an item as it is shown. An operator may have edited it, so any attribute may be malformed."""
    try:
        image = quarantine.read_image(item)
    except ValueError:
        image = None
    try:
        time = times.to_iso(times.parse(str(item.get("quarantined", ""))))
    except ValueError:
        time = None
    return QuarantinedImage(
        time=time,
        change="left" if item.get("sign") == -1 else "written",
        reason=str(item.get("reason", "")),
        pk=_key_text(image, "pk"),
        sk=_key_text(image, "sk"),
        image=None if image is None else quarantine.serialize(image)[:LONGEST],
    )


def _key_text(image: object, name: str) -> str | None:
    """Return a key attribute of an image in typed JSON; None if it is missing or no string."""
    value = image.get(name) if isinstance(image, dict) else None
    text = value.get("S") if isinstance(value, dict) else None
    return text if isinstance(text, str) else None
