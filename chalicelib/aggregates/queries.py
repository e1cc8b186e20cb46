"""Pages of what is in quarantine, newest first, for an admin to look at; `python -m ops redrive` empties it.

The items are those of quarantine.py, spread over its partitions. Each is asked for its newest, all at once.
"""

from chalicelib import times
from chalicelib.aggregates import quarantine
from chalicelib.aggregates.schemas import LONGEST, Quarantine, QuarantinedImage, QuarantineQuery
from chalicelib.api import cursors
from chalicelib.concurrency import map_concurrently
from chalicelib.dynamo.items import Item
from chalicelib.dynamo.table import Page, Table
from chalicelib.settings import Settings


def newest(table: Table, query: QuarantineQuery, settings: Settings) -> Quarantine:
    """Answer a page of quarantined images, newest first.

    Costs 0.5 RCU for each of the 16 partitions, and for more than 4 KB in one of them 0.5 per 4 KB of up to
    `limit` entries there: an entry has its image, mostly under 1 KB, at most 350. Raises BadCursor.
    """

    def read_page(before: str) -> tuple[list[Item], str]:
        last = f"{before[:-1]}{chr(ord(before[-1]) - 1)}~" if before else "~"

        def read(n: int) -> Page:
            return table.query(f"QUARANTINE#{n}", ("0", last), limit=query.limit, newest_first=True)

        pages = map_concurrently(read, range(quarantine.PARTITIONS))
        found = sorted((item for page in pages for item in page.items), key=_sk, reverse=True)
        goes_on = len(found) > query.limit or any(page.next for page in pages)
        shown = found[: query.limit]
        return shown, _sk(shown[-1]) if goes_on else ""

    entries, cursor = cursors.paginate(settings, ("quarantine",), query.cursor, read_page)
    return Quarantine(items=[_image(entry) for entry in entries], cursor=cursor)


def _sk(entry: Item) -> str:
    return str(entry["sk"])


def _image(entry: Item) -> QuarantinedImage:
    """Show an entry, whatever it holds: a person may have mended it."""
    try:
        image = quarantine.image(entry)
    except ValueError:
        image = None
    try:
        time = times.to_iso(times.parse(str(entry.get("quarantined", ""))))
    except ValueError:
        time = None
    return QuarantinedImage(
        time=time,
        change="left" if entry.get("sign") == -1 else "written",
        reason=str(entry.get("reason", "")),
        pk=_text(image, "pk"),
        sk=_text(image, "sk"),
        image=None if image is None else quarantine.written(image)[:LONGEST],
    )


def _text(image: object, name: str) -> str | None:
    """Read a key's text out of DynamoDB's JSON, if it is there."""
    value = image.get(name) if isinstance(image, dict) else None
    text = value.get("S") if isinstance(value, dict) else None
    return text if isinstance(text, str) else None
