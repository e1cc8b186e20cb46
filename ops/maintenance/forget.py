"""Removes a page from a table: its events, visitors, days, total and place among the top pages.

| item | pk | sk | holds |
|---|---|---|---|
| marker | `URL#<url>` | `SENT` | `token` of one round of this command, `ttl` |
| echo | `URL#<url>` | `COUNTED` | `seen`: the tokens that the stream has handed over, `ttl` |

The order of the steps makes the result exact. Events and visitors are deleted first, each by an ordinary
deletion, which the stream subtracts once, however often it is delivered. Then a marker is written beside
them, and the command waits until the stream has brought it to its echo: DynamoDB keeps the changes of a
partition key in order, so every change before the marker is in the sums by then, whatever the lag. Only now
the sums are emptied: what is left in them is of events that expired before. They are emptied on condition
that they are what was read. The emptied items are not deleted, for a version of the engine may keep in them
which records it has counted; TTL removes them after three days, longer than a stream keeps its records.

A round that finds nothing ends the command. So it may be killed and run again, and two runs do no harm. A
view that comes meanwhile is removed with the rest, or, after the last round, is the first view of a new page.
"""

from __future__ import annotations

import re
import secrets
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime

from chalicelib import times
from chalicelib.concurrency import map_concurrently
from chalicelib.dynamo.items import Item, Key
from chalicelib.dynamo.table import Table
from chalicelib.views import events
from ops.maintenance.scan import Pace

ROUNDS = 6  # at most; three or four are enough where nobody views the page
PAUSE = 0.2  # seconds between two looks at the echo
SHELL = 3 * 86_400  # seconds that an emptied item stays
SUM = re.compile("gsi1pk|gsi1sk|views|uniques|kept|[vu][0-9]{2}")


@dataclass
class Forgotten:
    """What was removed, by kind; what the last round still found; whether the stream was too late."""

    removed: Counter[str] = field(default_factory=Counter)
    left: Counter[str] = field(default_factory=Counter)
    is_late: bool = False


def kind(item: Item) -> str:
    """Name what an item of a page is; empty for one that holds nothing of it any more."""
    sk = item["sk"]
    if sk.startswith("T#"):
        return "views"
    if sk.startswith("VISITOR#"):
        return "visitors"
    if not any(SUM.fullmatch(name) for name in item):
        return ""
    return "days" if sk.startswith("DAY#") else "total" if sk == "STATISTICS" else ""


def find(table: Table, url: str) -> Counter[str]:
    """Count what there is of a page, by kind, and write nothing. Cost: 1 RCU per 4 KB of the page."""
    return Counter(what for item in _items(table, url) if (what := kind(item)))


def forget(
    table: Table,
    url: str,
    *,
    rate: float | None,
    patience: float,
    tick: Callable[[Counter[str]], None],
    pause: Callable[[float], None] = time.sleep,
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> Forgotten:
    """Remove a page; `url` is in its normal form. At most `rate` items are deleted a second.

    `tick` hears what is removed. Stops, with `is_late`, when the stream takes longer than `patience` seconds
    to bring a marker. Cost: 1 RCU per 4 KB of the page and round, 1 WCU for each event and visitor and what
    their deletions cost in the stream, 1 WCU for each day and 3 for the total, 1 WCU a marker.
    """
    done, pace = Forgotten(), Pace(rate)
    for _ in range(ROUNDS):
        facts = _delete_facts(table, url, pace, tick)
        done.removed += facts
        if not _is_counted(table, url, patience, pause, now()):
            done.left, done.is_late = find(table, url), True
            return done
        rest = list(_items(table, url))
        done.left = Counter(what for item in rest if (what := kind(item)))
        if not done.left:
            break
        if not facts and not {"views", "visitors"} & set(done.left):
            emptied = Counter(kind(item) for item in rest if kind(item) and _empty(table, item, now()))
            done.removed += emptied
            tick(emptied)
    if not done.left:
        for key in (events.marker_key(url), events.echo_key(url)):
            table.delete(key)
    return done


def _items(table: Table, url: str) -> Iterator[Item]:
    """Read everything that has a page's partition key, strongly consistent."""
    for page in table.query_pages(events.page_key(url).pk, limit=500, consistent=True):
        yield from page.items


def _delete_facts(table: Table, url: str, pace: Pace, tick: Callable[[Counter[str]], None]) -> Counter[str]:
    """Delete the events and visitors of a page; return how many there were."""
    found: Counter[str] = Counter()
    group: list[Key] = []

    def delete() -> None:
        pace.wait(len(group))
        map_concurrently(table.delete, group)
        group.clear()

    for item in _items(table, url):
        if (what := kind(item)) in ("views", "visitors"):
            found[what] += 1
            group.append(Key(item["pk"], item["sk"]))
            tick(Counter([what]))
        if len(group) == 100:
            delete()
    delete()
    return found


def _is_counted(
    table: Table, url: str, patience: float, pause: Callable[[float], None], now: datetime
) -> bool:
    """Write a marker, and wait until the stream has brought it; False when that takes too long."""
    token = secrets.token_hex(8)
    table.put(
        {**events.marker_key(url)._asdict(), "token": token, "ttl": times.epoch(now) + events.MARKER_LIFE}
    )
    deadline = time.monotonic() + patience
    while token not in (table.get(events.echo_key(url), consistent=True) or {}).get("seen", ()):
        if time.monotonic() > deadline:
            return False
        pause(PAUSE)
    return True


def _empty(table: Table, item: Item, now: datetime) -> bool:
    """Take the sums out of a day or a total, if they are still what was read."""
    names = {f"#{i}": name for i, name in enumerate(name for name in item if SUM.fullmatch(name))}
    values = {f":{place[1:]}": item[name] for place, name in names.items()}
    updated = table.update(
        Key(item["pk"], item["sk"]),
        f"REMOVE {', '.join(names)} SET #ttl = :ttl",
        condition=" AND ".join(f"{place} = :{place[1:]}" for place in names),
        names={**names, "#ttl": "ttl"},
        values={**values, ":ttl": times.epoch(now) + SHELL},
    )
    return updated is not None
