"""Compares every aggregate with a recount of the items, while traffic goes on, and mends what has drifted.

A scan is no picture of one moment, and sums lag behind their items. So a difference is a drift only where
nothing moved: the audit follows the stream, looks, and looks again some seconds later. What was written
before has been applied by then, and the stream tells of everything that was written since: of the items, so
the recount is exact, and of the sum itself. A sum that either may have changed is named, and left alone. So
is a difference that was not the same at the look before: should the stream have been read too little
(streams.py says when it is taken for read), the sum or its items tell it all the same.

A repair adds the difference, on condition that the sum is still what was seen. What is written meanwhile the
stream adds on top, for additions commute. So a repair is exact as long as the stream lags less than those
seconds (the metric `Lag` says how much it does).

Views expire: their sums count what is no longer there. So of a page's sums only what is less than the
recount is a drift. Sums that expire change nothing about that: their events have expired before them. An
imported history is kept for ever, and so are its sums: one that lacks `kept` is a drift.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from chalicelib.aggregates.engine import compute
from chalicelib.aggregates.sums import FOREVER, KEPT, Amount, Contribution
from chalicelib.dynamo.items import Item, Key, unpack
from chalicelib.dynamo.table import Table
from ops.maintenance.recount import Drift, drift, read
from ops.maintenance.streams import Following

LOOKS = 4  # at most; a table without drift needs one
EXPIRING = "URL#"  # the aggregates of facts that TTL removes


@dataclass
class Audit:
    """What was found: certain drift, what keeps moving, and how much was looked at."""

    items: int = 0
    malformed: int = 0
    drifted: Drift = field(default_factory=dict)
    unsettled: Drift = field(default_factory=dict)
    mended: int = 0


def audit(
    table: Table,
    contributions: Sequence[Contribution],
    following: Following,
    settle: float,
    tick: Callable[[int], None],
    pause: Callable[[float], None] = time.sleep,
) -> Audit:
    """Look at the table until what differs is certain, at most four times, `settle` seconds apart.

    `following` is the table's stream, from before this is called. `tick` hears how many items of a look are
    read. Costs 1 RCU per 4 KB of the table for each look, and reads of the stream.
    """
    found = Audit()
    now: set[Key] = set()
    differs: Drift = {}
    for number in range(LOOKS):
        polled: set[Key] = set()

        def ticked(items: int, polled: set[Key] = polled) -> None:
            tick(items)
            polled |= _moved(contributions, following.poll())

        earlier, differs = differs, _look(table, contributions, found, ticked)
        found.drifted, found.unsettled = {}, differs
        if not differs:
            break
        pause(settle)
        before, now = now, polled | _moved(contributions, following.records())
        if number:  # what was written before the first look may be on its way to the sums
            moved = before | now  # from a pause before this look to a pause after it
            certain = {
                at: pair for at, pair in differs.items() if at[0] not in moved and earlier.get(at) == pair
            }
            found.drifted = certain
            found.unsettled = {at: pair for at, pair in differs.items() if at not in certain}
            if not found.unsettled:
                break
    return found


def repair(table: Table, found: Audit) -> None:
    """Mend what has drifted; what has changed since the looks is unsettled instead.

    May be killed and run again: what is mended is found mended. Costs 2 WCU per KB and aggregate, and index.
    """
    by_key: dict[Key, dict[str, tuple[Any, Any]]] = {}
    for (key, name), pair in found.drifted.items():
        by_key.setdefault(key, {})[name] = pair
    for key, pairs in by_key.items():
        if table.transact([_mended(key, pairs)]):
            found.unsettled |= {(key, name): pair for name, pair in pairs.items()}
        else:
            found.mended += len(pairs)
    found.drifted = {}


def _look(
    table: Table, contributions: Sequence[Contribution], found: Audit, tick: Callable[[int], None]
) -> Drift:
    """Recount once. An item that cannot be computed is in quarantine, and counts for nothing."""
    found.items = found.malformed = 0

    def tolerant(item: Item) -> Mapping[tuple[Key, str], Amount]:
        amounts: dict[tuple[Key, str], Amount] = {}
        try:
            for contribution in contributions:
                amounts |= contribution(item)
        except Exception:  # whatever a feature raises about an item, as in aggregates.compute
            found.malformed += 1
            return {}
        return amounts

    def counted() -> Any:
        for item in read(table.client, table.name):
            found.items += 1
            if not found.items % 1000:
                tick(found.items)
            yield item

    differs = drift([tolerant], counted())
    return {at: pair for at, pair in differs.items() if not _is_expiry(*at, *pair)}


def _moved(contributions: Sequence[Contribution], records: Iterable[Any]) -> set[Key]:
    """Name every aggregate that records change or are about to change, and every item that they are of."""
    moved: set[Key] = set()
    for record in records:
        keys = unpack(record["dynamodb"]["Keys"])
        moved |= {Key(keys["pk"], keys["sk"])} | {key for key, _ in compute(contributions, record).sums}
    return moved


def _is_expiry(key: Key, name: str, is_: Any, should: Any) -> bool:
    """Tell whether a sum may be right because facts that it counts have expired."""
    if not key.pk.startswith(EXPIRING):
        return False
    if name in ("ttl", KEPT):  # of these only "for ever" is certain
        return bool(should != FOREVER.value)
    if should is None or not is_:
        return should is None
    if isinstance(should, frozenset):
        return should <= frozenset(is_)
    return not isinstance(should, str) and is_ >= should


def _mended(key: Key, pairs: Mapping[str, tuple[Any, Any]]) -> dict[str, Any]:
    """Write down the update that turns what is into what should be, if it still is."""
    parts: dict[str, list[str]] = {"ADD": [], "SET": [], "REMOVE": []}
    values: dict[str, Any] = {}
    conditions = []
    for i, (is_, should) in enumerate(pairs.values()):
        if is_ is None:
            conditions.append(f"attribute_not_exists(#{i})")
        else:
            conditions.append(f"#{i} = :is{i}")
            values[f":is{i}"] = is_
        if _is_number(is_) and _is_number(should):
            verb, values[f":{i}"] = "ADD", (should or 0) - (is_ or 0)
        elif isinstance(should, frozenset) and isinstance(is_, set | None):  # a set only ever grows
            verb, values[f":{i}"] = "SET", set(should) | (is_ or set())
        elif should is None:
            verb = "REMOVE"
        else:
            verb, values[f":{i}"] = "SET", should
        sign = {"ADD": f" :{i}", "SET": f" = :{i}"}.get(verb, "")
        parts[verb].append(f"#{i}{sign}")
    return {
        "Update": {
            "Key": key._asdict(),
            "UpdateExpression": " ".join(f"{verb} {', '.join(some)}" for verb, some in parts.items() if some),
            "ConditionExpression": " AND ".join(conditions),
            "ExpressionAttributeNames": {f"#{i}": name for i, name in enumerate(pairs)},
            "ExpressionAttributeValues": values,
        }
    }


def _is_number(value: Any) -> bool:
    """Tell whether a value is one that additions make; nothing is as good as 0."""
    return isinstance(value, int | Decimal | None) and not isinstance(value, bool)
