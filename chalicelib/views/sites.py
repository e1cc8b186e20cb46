"""Sums of whole sites: views and visitors over time, and lists of a day's pages, referrers and campaigns.

| item | pk | sk | holds |
|---|---|---|---|
| site's day | `SITE#<host>` | `DAY#<date>` | `views`, `visitors`, and by hour `v00`…, `c00`…; `ttl`, `kept` |
| | | | `direct`, `events` of goals, and the views of each trait, such as `co:DE` (traits.py) |
| | | | `is_newest`, `in_total`: see totals.py |
| site's visitor | `SITE#<host>#CLIENT#<client>` | `VISITOR#<date>` | `hours` of its views; `ttl` |
| referrer's day | `SITE#<host>#REFERRER#<referrer>` | `DAY#<date>` | `views`; gsi1pk, gsi1sk; `ttl`, `kept` |
| referring host's day | `SITE#<host>#HOST#<its host>#<referrer>` | `DAY#<date>` | as a referrer's |
| goal's day | `SITE#<host>#GOAL#<goal>` | `DAY#<date>` | `events`, `visitors`; gsi1; `ttl`, `kept` |
| goal's visitor | `SITE#<host>#GOAL#<goal>#CLIENT#<client>` | `VISITOR#<date>` | `hours`; `ttl` |
| campaign's day | `SITE#<host>#CAMPAIGN#<campaign>` | `DAY#<date>` | `views`; gsi1pk, gsi1sk; `ttl`, `kept` |

A list of a day is a partition of gsi1: `SITE#<host>#PAGES#<date>` has the days of pages (events.py), and
`SITE#<host>#REFERRERS#<date>` and so on have those above. The index key `gsi1sk` is the last step that
`views` has reached (aggregates/toplist.py). The addition that begins the sum writes it, and a second update
moves it later.

An event stores its `referrer`, the `host` of a referrer with another name, whether it is `direct`, its
`campaign` and its `traits`, so its amounts follow from the event alone. A visitor is one client on one day
of the site's zone. The visitor's item is written after the events by a union of sets, as that of a page is.

Cost: 1 WCU for each view's visitor of its site, and for each batch of the stream 1 WCU for each day of a
site, each referrer's day, referring host's day and campaign's day. An entry of a list costs 1 WCU when it is
new and 3 when it moves, which is every fourth view at first, and every hundredth of 800 views. A site's day
has up to 6 KB on a day with views from every country in every language.

Invariant: the views of a site's day are the number of its events that were written since it came into being.
"""

from collections.abc import Mapping
from typing import Any

from chalicelib.aggregates import toplist
from chalicelib.aggregates.sums import Amount, Constant, FirstStep
from chalicelib.api.names import HIDDEN
from chalicelib.dynamo.items import Item, Key
from chalicelib.dynamo.table import Table
from chalicelib.views import totals, traits

# The lists of a site's day.
PAGES, REFERRERS, HOSTS, CAMPAIGNS, GOALS = "PAGES", "REFERRERS", "HOSTS", "CAMPAIGNS", "GOALS"
LISTED = ("REFERRER", "HOST", "CAMPAIGN", "GOAL")
MAX_GOAL = 64  # characters
MAX_CAMPAIGN = 100  # characters


# -- keys ----------------------------------------------------------------------------------------------


def day_key(host: str, day: str) -> Key:
    """Return the key of a site's day. The day is written as 2026-11-21."""
    return Key(f"SITE#{host}", f"DAY#{day}")


def visitor_key(host: str, day: str, client: str) -> Key:
    """Return the key of one client's visits of a site on one day."""
    return Key(f"SITE#{host}#CLIENT#{client}", f"VISITOR#{day}")


def referrer_key(host: str, referrer: str, day: str) -> Key:
    """Return the key of a referrer's day on a site."""
    return Key(f"SITE#{host}#REFERRER#{referrer}", f"DAY#{day}")


def referring_host_key(host: str, referring: str, referrer: str, day: str) -> Key:
    """Return the key of the day of a host of a referrer, on a site."""
    return Key(f"SITE#{host}#HOST#{referring}#{referrer}", f"DAY#{day}")


def campaign_key(host: str, campaign: str, day: str) -> Key:
    """Return the key of a campaign's day on a site."""
    return Key(f"SITE#{host}#CAMPAIGN#{campaign}", f"DAY#{day}")


def goal_key(host: str, goal: str, day: str) -> Key:
    """Return the key of a goal's day on a site."""
    return Key(f"SITE#{host}#GOAL#{escape(goal)}", f"DAY#{day}")


def goal_visitor_key(host: str, goal: str, day: str, client: str) -> Key:
    """Return the key of one client's events of a goal on one day."""
    return Key(f"SITE#{host}#GOAL#{escape(goal)}#CLIENT#{client}", f"VISITOR#{day}")


def escape(goal: str) -> str:
    """Return a goal's name as it is in keys, whose parts `#` separates."""
    return goal.replace("%", "%25").replace("#", "%23")


def unescape(name: str) -> str:
    """Return the goal with this name in keys."""
    return name.replace("%23", "#").replace("%25", "%")


def list_key(host: str, kind: str, day: str) -> str:
    """Return the gsi1 partition key of a list of a site's day: its pages, referrers, campaigns or goals."""
    return f"SITE#{host}#{kind}#{day}"


# -- sources of a view ---------------------------------------------------------------------------------


def read_campaign(value: Any) -> str:
    """Return a campaign's name without surrounding white space; empty if it is missing or malformed.

    A name has at most 100 printable characters.
    """
    name = value.strip() if isinstance(value, str) and len(value) <= 2 * MAX_CAMPAIGN else ""
    return name if len(name) <= MAX_CAMPAIGN and not HIDDEN.search(name) else ""


def read_goal(value: Any) -> str | None:
    """Return a goal's name without surrounding white space, or None if it is malformed."""
    name = value.strip() if isinstance(value, str) else ""
    return name if 0 < len(name) <= MAX_GOAL and not HIDDEN.search(name) else None


# -- contribution --------------------------------------------------------------------------------------


def count_event(host: str, day: str, hour: int, event: Mapping[str, Any]) -> dict[tuple[Key, str], Amount]:
    """Return the amounts that an event adds to the sums of its site, without their lifetimes."""
    of_day = day_key(host, day)
    amounts: dict[tuple[Key, str], Amount] = {(of_day, "views"): 1, (of_day, f"v{hour:02}"): 1}
    if event.get("direct"):
        amounts[of_day, "direct"] = 1
    if text := event.get("traits"):
        found = zip(traits.DIMENSIONS, traits.from_text(text), strict=True)
        amounts |= {(of_day, traits.attribute(dimension, word)): 1 for dimension, word in found if word}
    if "host" in event:
        of_host = referring_host_key(host, event["host"], event["referrer"], day)
        amounts |= {
            (of_host, "views"): 1,
            **listed(of_host, list_key(host, f"{HOSTS}#{event['referrer']}", day)),
        }
    for name, kind, build_key in (
        ("referrer", REFERRERS, referrer_key),
        ("campaign", CAMPAIGNS, campaign_key),
    ):
        if source := event.get(name):
            key = build_key(host, source, day)
            amounts |= {(key, "views"): 1, **listed(key, list_key(host, kind, day))}
    return amounts


def count_goal(host: str, day: str, goal: str) -> dict[tuple[Key, str], Amount]:
    """Return the amounts that an event of a goal adds to the sums of its site, without their lifetimes."""
    of_goal = goal_key(host, goal, day)
    listed_goal = listed(of_goal, list_key(host, GOALS, day), "events")
    return {(of_goal, "events"): 1, **listed_goal, (day_key(host, day), "events"): 1}


def contribution(item: Item) -> dict[tuple[Key, str], Amount]:
    """Return the amounts that the visitor of a site, or of a goal, adds to the day."""
    pk, sk = item["pk"], item["sk"]
    if not pk.startswith("SITE#") or not sk.startswith("VISITOR#") or not item.get("hours"):
        return {}
    day = day_key(pk.removeprefix("SITE#").partition("#CLIENT#")[0], sk.removeprefix("VISITOR#"))
    amounts: dict[tuple[Key, str], Amount] = {(day, "visitors"): 1}
    return amounts | {(day, f"c{hour:02}"): 1 for hour in item["hours"]}


# -- lists ---------------------------------------------------------------------------------------------


def listed(key: Key, partition: str, attribute: str = "views") -> dict[tuple[Key, str], Amount]:
    """Return the amounts that put an aggregate into a list by a sum."""
    return {(key, "gsi1pk"): Constant(partition), (key, "gsi1sk"): FirstStep(attribute)}


def listed_by(key: Key) -> str:
    """Return the sum that the index key of an aggregate follows; empty for an aggregate of no list."""
    if key.pk.startswith("URL#"):
        return "views" if key.sk == "STATISTICS" or key.sk.startswith("DAY#") else ""
    kind = key.pk.split("#")[2:3] if key.pk.startswith("SITE#") and key.sk.startswith("DAY#") else []
    return {"GOAL": "events"}.get(kind[0], "views") if kind and kind[0] in LISTED else ""


def derive(table: Table, key: Key, item: Item) -> None:
    """Move an aggregate in its list, or add a site's day to the total of the site, if that is necessary."""
    if update := derive_listing(key, item):
        table.update(key, **update, idempotent=True)
    if key.pk.startswith("SITE#") and key.pk.count("#") == 1 and key.sk.startswith("DAY#"):
        totals.add_day(table, key, item)


def derive_listing(key: Key, item: Item) -> dict[str, Any] | None:
    """Return the update that moves an aggregate in its list, or None if it is on the right step."""
    attribute = listed_by(key)
    return toplist.derive_step(item, attribute) if attribute and "gsi1pk" in item else None
