"""Remove a page from a table: its events, visitors, days, total and rank among the top pages.

| item | pk | sk | holds |
|---|---|---|---|
| marker | `URL#<url>` | `SENT` | `token` of a round of this command, `ttl` |
| echo | `URL#<url>` | `COUNTED` | `seen`: the tokens that the stream has delivered, `ttl` |

Invariant: the result is exact, because of the order of the steps.

1. Events and visitors are deleted. The stream subtracts each deletion once, however often it is delivered.
2. A marker is written to the same partition, and the command waits until the stream has copied its token to
   the echo. DynamoDB keeps the changes of a partition key in order, so the sums then include every change
   before the marker, whatever the lag.
3. The sums now count only events that had expired. They are removed on condition that they have not changed.
   The emptied items remain, because an engine version may store in them which records it has counted. TTL
   deletes them after three days, longer than a stream keeps its records.

The sums of the page's site lose the views whose events are deleted. Expired views stay counted there, and
so do the visitors, because they may have viewed other pages.

The command ends with a round that finds nothing. It can be interrupted and run again, and two concurrent runs
are safe. A view that arrives meanwhile is removed too. A view after the last round creates the page again.
"""

from __future__ import annotations

import re
import secrets
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import NamedTuple

from chalicelib import times
from chalicelib.concurrency import map_concurrently
from chalicelib.dynamo.items import Item, Key, Range
from chalicelib.dynamo.table import Table
from chalicelib.views import events
from ops.maintenance.pace import RateLimiter

MAX_ROUNDS = 6  # three or four are enough without new views
PAUSE = 0.2  # seconds between two reads of the echo
EMPTY_ITEM_TTL = 3 * 86_400  # seconds
FACTS = {"views", "visitors", "clocks", "goals"}  # the kinds of items that are not sums
SUM = re.compile("gsi1pk|gsi1sk|views|visitors|kept|[vc][0-9]{2}")


class Clock(NamedTuple):
    """The time, and a pause until later."""

    now: Callable[[], datetime]
    pause: Callable[[float], None]


CLOCK = Clock(lambda: datetime.now(UTC), time.sleep)


@dataclass
class Forgotten:
    """Removed items by kind, items found by the last round, and whether the stream was late."""

    removed: Counter[str] = field(default_factory=Counter)
    left: Counter[str] = field(default_factory=Counter)
    is_late: bool = False


def classify(item: Item) -> str:
    """Return the kind of a page's item; empty for an item without data."""
    sk = item["sk"]
    if sk.startswith("T#"):
        return "views"
    if sk.startswith("VISITOR#"):
        return "visitors"
    if sk.startswith("CLOCK#"):
        return "clocks"
    if sk.startswith("GOAL#"):
        return "goals"
    if not any(SUM.fullmatch(name) for name in item):
        return ""
    return "days" if sk.startswith("DAY#") else "total" if sk == "STATISTICS" else ""


def count_items(table: Table, url: str) -> Counter[str]:
    """Count a page's items by kind, without changes.

    Cost: 1 RCU per 4 KB of the page.
    """
    return Counter(kind for item in _items(table, url) if (kind := classify(item)))


def forget(
    table: Table,
    url: str,
    *,
    rate: float | None,
    patience: float,
    report: Callable[[Counter[str]], None],
    clock: Clock = CLOCK,
) -> Forgotten:
    """Remove a page by its canonical URL.

    `rate` limits the deletions per second. `report` gets the counts of removed items. The command stops and
    sets `is_late` when the stream takes longer than `patience` seconds to deliver a marker.

    Cost: 1 RCU per 4 KB of the page and round, 1 WCU per event and visitor plus the stream's work for each
    deletion, 1 WCU per day, 3 for the total, and 1 per marker.
    """
    done, limiter = Forgotten(), RateLimiter(rate)
    for _ in range(MAX_ROUNDS):
        facts = _delete_facts(table, url, limiter, report)
        done.removed += facts
        if not _is_counted(table, url, patience, clock):
            done.left, done.is_late = count_items(table, url), True
            return done
        rest = list(_items(table, url))
        done.left = Counter(kind for item in rest if (kind := classify(item)))
        if not done.left:
            break
        if not facts and not FACTS & set(done.left):
            emptied = Counter(
                classify(item) for item in rest if classify(item) and _remove_sums(table, item, clock.now())
            )
            done.removed += emptied
            report(emptied)
    if not done.left:
        for key in (events.marker_key(url), events.applied_marker_key(url)):
            table.delete(key)
    return done


def _items(table: Table, url: str) -> Iterator[Item]:
    """Yield all items of a page's partition, strongly consistent."""
    for page in table.query_pages(Range(events.page_key(url).pk), limit=500, consistent=True):
        yield from page.items


def _delete_facts(
    table: Table, url: str, limiter: RateLimiter, report: Callable[[Counter[str]], None]
) -> Counter[str]:
    """Delete the events and visitors of a page, and return their counts."""
    found: Counter[str] = Counter()
    group: list[Key] = []

    def delete() -> None:
        limiter.wait(len(group))
        map_concurrently(table.delete, group)
        group.clear()

    for item in _items(table, url):
        if (kind := classify(item)) in FACTS:
            found[kind] += 1
            group.append(Key(item["pk"], item["sk"]))
            report(Counter([kind]))
        if len(group) == 100:
            delete()
    delete()
    return found


def _is_counted(table: Table, url: str, patience: float, clock: Clock) -> bool:
    """Write a marker and wait until the stream has delivered it; False on timeout."""
    token = secrets.token_hex(8)
    ttl = times.epoch(clock.now()) + events.MARKER_LIFETIME
    table.put({**events.marker_key(url)._asdict(), "token": token, "ttl": ttl})
    deadline = time.monotonic() + patience
    while token not in (table.get(events.applied_marker_key(url), consistent=True) or {}).get("seen", ()):
        if time.monotonic() > deadline:
            return False
        clock.pause(PAUSE)
    return True


def _remove_sums(table: Table, item: Item, now: datetime) -> bool:
    """Remove the sums of a day or a total, on condition that they have not changed."""
    names = {f"#{i}": name for i, name in enumerate(name for name in item if SUM.fullmatch(name))}
    values = {f":{place[1:]}": item[name] for place, name in names.items()}
    updated = table.update(
        Key(item["pk"], item["sk"]),
        f"REMOVE {', '.join(names)} SET #ttl = :ttl",
        condition=" AND ".join(f"{place} = :{place[1:]}" for place in names),
        names={**names, "#ttl": "ttl"},
        values={**values, ":ttl": times.epoch(now) + EMPTY_ITEM_TTL},
    )
    return updated is not None
