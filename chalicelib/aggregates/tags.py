"""Tags: what an item remembers of the facts that it has counted, so that each of them counts once.

A fact is a stream record for a sum (engine.py), and a submission for a score (leaderboards/scores.py). Its
*tag* is its creation second (4 bytes) and a hash of its id (8 bytes).

| item | pk | sk | holds |
|---|---|---|---|
| counting item | its owner's | its owner's | `applied`: tags; `spilled`: the newest second that has moved |
| guard page | `GUARD#<digest of a key>` | `TAGS#<period>#<second>` | `ids`: tags without the period; `ttl` |

The write that counts a fact also adds its tag to `applied`. When `applied` is full, tags older than the
stream's retention are dropped. If that is not enough, tags move to guard pages in one transaction with the
item.

Invariant: the tag of a counted fact is in `applied`, or its second is at most `spilled` and it is on a page.
Both change only together with the item, so a condition on the item alone decides. The item is read before its
pages. A tag that moves between the two reads is found then, and would be missed in the other order.
"""

import hashlib
from collections.abc import Iterable
from typing import Any, NamedTuple

from chalicelib.dynamo.items import Item, Key
from chalicelib.dynamo.table import Table

RETENTION = 26 * 3600  # seconds: a stream keeps a record for 24 hours, and a handler runs for minutes
PAGE_LIFETIME = 48 * 3600  # seconds that a guard page is kept
PAGE_TAGS = 400  # on one page, about 4 KB: the longest period that keeps a page below that is chosen
PERIODS = {"D": 86_400, "H": 3600, "M": 60, "S": 1}  # the creation times that one page covers, in seconds
OFFSET_BYTES = {"D": 3, "H": 2, "M": 1, "S": 0}  # of a creation time within such a period


class Kept(NamedTuple):
    """The tags that an item keeps when it has counted more facts, and the writes of the pages of the others.

    `spilled` is the newest second of a tag that moves, or has moved before.
    """

    applied: set[bytes]
    spilled: int
    pages: list[dict[str, Any]]


def make_tag(id: str, second: int) -> bytes:
    """Return the tag of a fact with an id and a creation second.

    Two facts of one second share a tag with a probability of 5 in 10²⁰. Only tags of one item are compared
    with each other.
    """
    digest = hashlib.blake2b(id.encode(errors="surrogatepass"), digest_size=8).digest()
    return second.to_bytes(4) + digest


def second_of(tag: bytes) -> int:
    """Return the creation second in a tag."""
    return int.from_bytes(tag[:4])


def find_counted(table: Table, key: Key, item: Item, tags: Iterable[bytes]) -> set[bytes]:
    """Return those tags that an item, as it was read before, or its guard pages have.

    Cost: that of `find_moved` for the tags that are not in `applied` and not newer than `spilled`.
    """
    wanted, spilled = set(tags), item.get("spilled", -1)
    counted = wanted.intersection(item.get("applied", ()))
    return counted | find_moved(table, key, {tag for tag in wanted - counted if second_of(tag) <= spilled})


def keep(key: Key, item: Item, tags: set[bytes], now: int, room: int) -> Kept:
    """Return what an item remembers when it has counted facts with these tags, at most `room` tags.

    Many tags fill pages of their own.
    """
    held, spilled = set(item.get("applied", ())), item.get("spilled", 0)
    young = {tag for tag in held if not 0 < second_of(tag) < now - RETENTION}
    if len(young) + len(tags) <= room:
        return Kept(young | tags, spilled, [])
    kept = young if len(tags) > room // 2 else set()
    moved = (young | tags) - kept
    pages = [_page_update(page, short, now) for page, short in _divide(key, moved).items()]
    return Kept(kept, max(spilled, *map(second_of, moved)), pages)


# -- guard pages ---------------------------------------------------------------------------------------


def page_key(key: Key, period: str, second: int) -> Key:
    """Return the key of an item's guard page for the period that a second lies in."""
    digest = hashlib.blake2b(f"{key.pk}\n{key.sk}".encode(), digest_size=16).hexdigest()
    return Key(f"GUARD#{digest}", f"TAGS#{period}#{second - second % PERIODS[period]}")


def find_moved(table: Table, key: Key, tags: Iterable[bytes]) -> set[bytes]:
    """Return those of an item's tags that are on its guard pages.

    Cost: 1 RCU per 4 KB of each page, with at most four pages for each second.
    """
    places = {(tag, period): page_key(key, period, second_of(tag)) for tag in tags for period in PERIODS}
    pages = table.get_many(set(places.values()), consistent=True) if places else {}
    return {
        tag
        for (tag, period), page in places.items()
        if _shorten(tag, period) in pages.get(page, {}).get("ids", ())
    }


def _shorten(tag: bytes, period: str) -> bytes:
    """Return a tag as its guard page has it: with the creation time within the period of the page."""
    return (second_of(tag) % PERIODS[period]).to_bytes(OFFSET_BYTES[period]) + tag[4:]


def _divide(key: Key, tags: set[bytes]) -> dict[Key, set[bytes]]:
    """Divide tags into guard pages of the longest period that keeps a page small."""
    seconds = sorted(map(second_of, tags))
    span = max(1, seconds[-1] - seconds[0])
    fitting = [name for name, length in PERIODS.items() if len(tags) * length <= PAGE_TAGS * span] or ["S"]
    pages: dict[Key, set[bytes]] = {}
    for tag in tags:
        page = pages.setdefault(page_key(key, fitting[0], second_of(tag)), set())
        page.add(_shorten(tag, fitting[0]))
    return pages


def _page_update(page: Key, tags: set[bytes], now: int) -> dict[str, Any]:
    return {
        "Update": {
            "Key": page._asdict(),
            "UpdateExpression": "ADD ids :ids SET #ttl = :ttl",
            "ExpressionAttributeNames": {"#ttl": "ttl"},
            "ExpressionAttributeValues": {":ids": tags, ":ttl": now + PAGE_LIFETIME},
        }
    }
