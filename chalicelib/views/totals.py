"""The views of a site of all time, which follow from its days.

| item | pk | sk | holds |
|---|---|---|---|
| site | `SITE#<host>` | `TOTAL` | gsi1 = `SITES`, gsi1sk: views without the day `newest`; `ttl`, `kept` |

The newest day of a site (sites.py) has `is_newest`. A reader adds the views of that day, so a view costs no
write of the total. When a newer day begins, the views of the day before are added to the total. `in_total` is
the number of its views that the total includes. A late view of an older day is added immediately.

Invariant: the total is the sum of `in_total` of all days that the site has had. One transaction changes both,
on condition that the day is as it was read. After a crash before it, the redelivery of the batch that changed
the day completes the total.
"""

from typing import Any

from chalicelib.aggregates.sums import FOREVER, KEPT
from chalicelib.dynamo.items import Item, Key
from chalicelib.dynamo.table import Table
from chalicelib.errors import Busy

SITES = "SITES"  # the list of all sites
EXTRA_LIFETIME = 30 * 86_400  # seconds that a total outlives a day, which late views extend for three weeks
TRIES = 12  # of a change that conflicts with other workers


def total_key(host: str) -> Key:
    """Return the key of a site's total."""
    return Key(f"SITE#{host}", "TOTAL")


def count_views(total: Item, newest: Item) -> int:
    """Return the views of a site, given its total and its newest day, which may have become an older one."""
    return int(total["gsi1sk"]) + int(newest.get("views", 0))


def newest_key(total: Item) -> Key:
    """Return the key of the newest day of a site."""
    return Key(total["pk"], total["newest"])


def add_day(table: Table, key: Key, day: Item) -> None:
    """Add the views of a site's day to the total, unless it is the newest day. Idempotent.

    Cost: nothing for the newest day. 8 WCU and 2 RCU for a new day, 6 WCU and 1 RCU for another one.
    Raises: Busy.
    """
    for attempt in range(TRIES):
        if "is_newest" in day or not _missing(day):
            return
        total = table.get(Key(key.pk, "TOTAL"), consistent=True) or {}
        newest = total.get("newest", "")
        if key.sk == newest:
            return
        if key.sk > newest:  # the day before, if it has not expired, is an older one from now on
            older = (table.get(Key(key.pk, newest), consistent=True) or {}) if newest else {}
            changes = [_mark_newest(key), *([_include(Key(key.pk, newest), older)] if older else [])]
        else:
            older, changes = day, [_include(key, day)]
        change = _add(Key(key.pk, "TOTAL"), newest, max(newest, key.sk), _missing(older), day)
        if not table.transact([*changes, change]):
            return
        table.back_off(attempt)
        day = table.get(key, consistent=True) or {}
    raise Busy("Several workers change one site. Please retry.")


def _missing(day: Item) -> int:
    """Return the views of a day that the total does not include."""
    return int(day.get("views", 0)) - int(day.get("in_total", 0))


def _mark_newest(key: Key) -> dict[str, Any]:
    return {
        "Update": {
            "Key": key._asdict(),
            "UpdateExpression": "SET is_newest = :yes REMOVE in_total",
            "ConditionExpression": "attribute_not_exists(is_newest)",
            "ExpressionAttributeValues": {":yes": True},
        }
    }


def _include(key: Key, day: Item) -> dict[str, Any]:
    """Build the update that includes all views of a day, on condition that it is as it was read."""
    condition, values = "#views = :views", {":views": day.get("views", 0)}
    if "in_total" in day:
        condition, values = f"{condition} AND in_total = :before", values | {":before": day["in_total"]}
    else:
        condition += " AND attribute_not_exists(in_total)"
    return {
        "Update": {
            "Key": key._asdict(),
            "UpdateExpression": "SET in_total = :views REMOVE is_newest",
            "ConditionExpression": condition,
            "ExpressionAttributeNames": {"#views": "views"},
            "ExpressionAttributeValues": values,
        }
    }


def _add(key: Key, before: str, newest: str, views: int, day: Item) -> dict[str, Any]:
    """Build the update that adds views to a total, which lives longer than the day that changes it."""
    lifetime = f"#ttl = if_not_exists({KEPT}, :ttl)"
    values: dict[str, Any] = {":sites": SITES, ":newest": newest, ":views": views}
    values[":ttl"] = min(int(day.get("ttl", FOREVER.value)) + EXTRA_LIFETIME, FOREVER.value)
    if KEPT in day:
        lifetime, values[":ttl"] = f"#ttl = :ttl, {KEPT} = :ttl", FOREVER.value
    return {
        "Update": {
            "Key": key._asdict(),
            "UpdateExpression": f"ADD gsi1sk :views SET gsi1pk = :sites, newest = :newest, {lifetime}",
            "ConditionExpression": "newest = :before" if before else "attribute_not_exists(newest)",
            "ExpressionAttributeNames": {"#ttl": "ttl"},
            "ExpressionAttributeValues": values | ({":before": before} if before else {}),
        }
    }
