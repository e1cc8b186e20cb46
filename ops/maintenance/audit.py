"""Compare every aggregate with a recount of the items, and correct drift, while the stage serves traffic.

A scan is not a snapshot, and aggregates lag behind their items. A difference counts as drift only when it is
the same in two consecutive passes, and when the stream shows no change to the aggregate or to its items
meanwhile. The audit follows the stream from before the first pass (`streams.StreamFollower` defines when a
shard has been read). A difference that fails one of these conditions is reported as unsettled and is not
corrected.

A repair adds the difference, on condition that the aggregate still has the value that was read. Changes that
the stream applies meanwhile are added on top, because additions commute. So a repair is exact if the stream
lags less than the time between two passes. The metric `Lag` shows the lag.

The votes and replies of a comment are counted by the transaction that writes each of them
(chalicelib/comments). They are recounted too. Remaining replies and votes of a deleted comment are reported
as drift, and a repair removes them.

Ranks also rely on two facts that no sum contains. Both are checked. A bucket that is marked `full` has no
shallow player (chalicelib/ranking/deepening.py). A repair puts a deepening of the bucket, and the stream then
raises the depth of its players. A score has no earlier positions once the stream has passed its last change.

Views expire, and their sums keep counting them. So a sum of a page or a site has drifted only if it is less
than the recount. Sums that expire follow the same rule, because their events have expired before. An imported
history never expires, so a sum of it without `kept` has drifted.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from chalicelib.aggregates import sums, toplist
from chalicelib.aggregates.engine import compute, derive_all
from chalicelib.aggregates.sums import (
    FOREVER,
    KEPT,
    Amount,
    Constant,
    Contribution,
    Derivation,
    FirstStep,
    Lifetime,
)
from chalicelib.comments import cleanup, counters, replies, reports, votes
from chalicelib.dynamo.items import Item, Key, unpack
from chalicelib.dynamo.table import Table
from chalicelib.feature import is_sum
from chalicelib.ranking import deepening, tree
from chalicelib.ranking.ranking import Ranking
from chalicelib.views import sites
from ops.maintenance.streams import StreamFollower
from ops.stage import new_context

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

MAX_PASSES = 4  # a table without drift needs one
EXPIRING = ("URL#", "SITE#")  # aggregates of items that TTL deletes
CONSTANTS = {"gsi1pk", "ttl", KEPT}  # these stay when the sums of their item become zero
LEFT = "items left of a deleted comment"
MARK = "full "  # the attribute of a difference: a bucket is marked, and has shallow players
NO_SUMS = {"pk", "sk", "applied", "spilled", "spills", "is_newest", "in_total"}  # of an aggregate

Drift = dict[tuple[Key, str], tuple[Any, Any]]


# -- recount --------------------------------------------------------------------------------------------


def read_items(client: DynamoDBClient, table_name: str) -> Iterator[Item]:
    """Yield every item of a table, strongly consistent, one page at a time.

    Cost: 1 RCU per 4 KB.
    """
    pages = client.get_paginator("scan").paginate(TableName=table_name, ConsistentRead=True)
    return (unpack(item) for page in pages for item in page["Items"])


def read_sums(item: Item) -> dict[str, Any]:
    """Return the sums of an aggregate by attribute. An index key that moves in steps follows from a sum."""
    values = {name: value for name, value in item.items() if name not in NO_SUMS}
    if _listed_sum(Key(item["pk"], item["sk"])):
        values.pop("gsi1sk", None)
    return values


def _listed_sum(key: Key) -> str:
    """Return the sum that the index key of an aggregate follows from, or an empty text."""
    if key.pk.startswith("PRODUCT#") and (key.sk == "S" or key.sk.startswith("S#")):
        return "count_5"
    return sites.listed_by(key)


def find_drift(contributions: Sequence[Contribution], items: Iterable[Item]) -> Drift:
    """Return the (actual, expected) values of every aggregate attribute that differs from a recount.

    An item is an aggregate if its key is one of an aggregate. A value of zero equals a missing value. A set
    may hold more than its recount, because nothing is ever removed from a set. An index key that moves in
    steps has drifted when it is not on a step of its sum, and a mark of a bucket when the bucket has shallow
    players by the recount. The items that are left of a deleted comment are counted as LEFT of its counters.
    Only aggregates are kept in memory.
    """
    import app

    recounted: sums.Sums = {}
    stored: dict[tuple[Key, str], Any] = {}
    misplaced: Drift = {}
    reactions: Counter[tuple[Key, str]] = Counter()
    left: Counter[Key] = Counter()
    existing: set[Key] = set()  # the counters of comments
    for item in items:
        sums.merge(recounted, sums.sum_contributions(contributions, item))
        reactions.update(votes.count(item) | replies.count(item) | reports.count(item))
        if parent := cleanup.find_parent(item):
            left[parent] += 1
        key = Key(item["pk"], item["sk"])
        if counters.is_key(key):
            existing.add(key)
            stored |= {(key, name): item[name] for name in (*counters.COUNTS, "gsi1sk") if name in item}
        if is_sum(app.FEATURES, key):
            stored |= {(key, name): value for name, value in read_sums(item).items()}
            misplaced |= _find_misplaced(key, item)
        if item["sk"].startswith("BOARD#") and "before" in item:
            misplaced[key, "before"] = (item["before"], None)
    wanted = {
        at: amount.value if isinstance(amount, Constant) else amount
        for at, amount in recounted.items()
        if not isinstance(amount, Lifetime | FirstStep)
    }
    misplaced |= {(key, LEFT): (number, 0) for key, number in left.items() if key not in existing}
    wanted |= {at: number for at, number in reactions.items() if at[0] in existing}
    wanted |= {
        (key, "gsi1sk"): counters.position(key.sk.removeprefix(counters.COUNTERS), reactions[key, "votes"])
        for key in existing
    }
    misplaced |= _find_unready(stored, wanted)
    return misplaced | {
        at: (stored.get(at), wanted.get(at))
        for at in stored.keys() | wanted.keys()
        if not _agree(stored.get(at), wanted.get(at)) and (at in wanted or _is_sum(at))
    }


def _is_sum(at: tuple[Key, str]) -> bool:
    """Return whether an attribute that no item contributes to must be zero."""
    return at[1] not in CONSTANTS


def _agree(is_: Any, should: Any) -> bool:
    if isinstance(should, frozenset) or isinstance(is_, set | frozenset):
        return frozenset(should or ()) <= frozenset(is_ or ())
    return bool((is_ or 0) == (should or 0))


def _find_misplaced(key: Key, item: Item) -> Drift:
    """Return the index key that is above the sum it follows from, or a step below it."""
    total, place = max(0, item.get(_listed_sum(key), 0)), item.get("gsi1sk", 0)
    if not _listed_sum(key) or place <= total < toplist.next_step(place):
        return {}
    return {(key, "gsi1sk"): (item.get("gsi1sk"), toplist.step_of(total) or None)}


def _find_unready(stored: Mapping[tuple[Key, str], Any], wanted: Mapping[tuple[Key, str], Any]) -> Drift:
    """Return the buckets that are marked `full` and have shallow players."""
    marks = ((key, value) for (key, name), value in stored.items() if name == "full" and key.sk == "NODE")
    return {
        (key, f"{MARK}{digits}"): ("with shallow players", "without")
        for key, full in marks
        for digits in full
        if tree.divide(wanted.get((key, digits), 0))[0]
    }


# -- audit ----------------------------------------------------------------------------------------------


@dataclass
class AuditResult:
    """The result of an audit: drift, differences that could not be checked, and counts."""

    items: int = 0
    malformed: int = 0
    drifted: Drift = field(default_factory=dict)
    unsettled: Drift = field(default_factory=dict)
    corrected: int = 0
    rankings: dict[str, Ranking] = field(default_factory=dict)


def audit(
    table: Table,
    contributions: Sequence[Contribution],
    follower: StreamFollower,
    settle: float,
    report: Callable[[int], None],
    pause: Callable[[float], None] = time.sleep,
) -> AuditResult:
    """Recount the table until every difference is confirmed or dismissed, in at most four passes.

    `follower` follows the table's stream since before this call. `report` gets the number of items read in a
    pass. Two passes are `settle` seconds apart.

    Cost: 1 RCU per 4 KB of the table and pass, and reads of the stream.
    """
    found = AuditResult()
    now: set[Key] = set()
    differs: Drift = {}
    for number in range(MAX_PASSES):
        polled: set[Key] = set()

        def on_progress(items: int, polled: set[Key] = polled) -> None:
            report(items)
            polled |= _touched_keys(contributions, follower.poll())

        earlier, differs = differs, _recount(table, contributions, found, on_progress)
        found.drifted, found.unsettled = {}, differs
        if not differs:
            break
        pause(settle)
        before, now = now, polled | _touched_keys(contributions, follower.records())
        if number:  # the stream may not have applied changes from before the first pass
            moved = before | now  # from the pause before this pass to the pause after it
            # A deepening without need is harmless, and the counters of a busy board move all the time.
            certain = {
                at: pair
                for at, pair in differs.items()
                if (at[0] not in moved or at[1].startswith(MARK)) and earlier.get(at) == pair
            }
            found.drifted = certain
            found.unsettled = {at: pair for at, pair in differs.items() if at not in certain}
            if not found.unsettled:
                break
    return found


def repair(table: Table, found: AuditResult, derivations: Sequence[Derivation] = ()) -> None:
    """Correct drift. An aggregate that changed since the last pass becomes unsettled instead.

    Idempotent: safe to interrupt and run again.

    Cost: 2 RCU, and 2 WCU per KB of aggregate and index. For a deleted comment that of `cleanup.finish`, and
    for a marked bucket that of its deepening.
    """
    by_key: dict[Key, dict[str, tuple[Any, Any]]] = {}
    for (key, name), pair in found.drifted.items():
        if name.startswith(MARK):
            ranking, _, prefix = key.pk.removeprefix("TREE#").rpartition("#")
            bucket = prefix + name.removeprefix(MARK)
            deepening.begin(new_context(table, datetime.now(UTC)), found.rankings[ranking], bucket)
            found.corrected += 1
            continue
        by_key.setdefault(key, {})[name] = pair
    for key, pairs in by_key.items():
        if LEFT in pairs and cleanup.finish(table, key):
            found.corrected += 1
            continue
        item = table.get(key, consistent=True) or key._asdict()
        values = read_sums(item)
        sums_alone = {n: pair for n, pair in pairs.items() if not (n == "gsi1sk" and _listed_sum(key))}
        is_same = all(values.get(name) == pair[0] for name, pair in sums_alone.items())
        is_absent = counters.is_key(key) and "author" not in item
        if is_absent or not is_same or (sums_alone and table.transact([_correction(key, sums_alone, item)])):
            found.unsettled |= {(key, name): pair for name, pair in pairs.items()}
        else:
            found.corrected += len(pairs)
        derive_all(table, derivations, [key])
    found.drifted = {}


def _recount(
    table: Table, contributions: Sequence[Contribution], found: AuditResult, report: Callable[[int], None]
) -> Drift:
    """Recount once. An item whose contribution fails is in quarantine and is not counted."""
    import app

    found.items = found.malformed = 0

    def tolerant(item: Item) -> Mapping[tuple[Key, str], Amount]:
        amounts: dict[tuple[Key, str], Amount] = {}
        try:
            for contribution in contributions:
                amounts |= contribution(item)
            for ranked in filter(None, (rank(item) for rank in app.RANKS)):
                found.rankings[ranked.ranking.name] = ranked.ranking
        except Exception:  # a contribution may raise anything, as in aggregates.engine.compute
            found.malformed += 1
            return {}
        return amounts

    def counted() -> Any:
        for item in read_items(table.client, table.name):
            found.items += 1
            if not found.items % 1000:
                report(found.items)
            yield item

    differs = find_drift([tolerant], counted())
    return {at: pair for at, pair in differs.items() if not _may_be_expiry(*at, *pair)}


def _touched_keys(contributions: Sequence[Contribution], records: Iterable[Any]) -> set[Key]:
    """Return the keys of the changed items and of all aggregates that these changes affect."""
    moved: set[Key] = set()
    for record in records:
        keys = unpack(record["dynamodb"]["Keys"])
        moved |= {Key(keys["pk"], keys["sk"])} | {key for key, _ in compute(contributions, record).sums}
        moved |= {parent} if (parent := cleanup.find_parent(keys)) else set()
    return moved


def _may_be_expiry(key: Key, name: str, is_: Any, should: Any) -> bool:
    """Return whether a difference may come from items that have expired."""
    if not key.pk.startswith(EXPIRING) or name == "gsi1sk":
        return False
    if name in ("ttl", KEPT):  # only "for ever" can be checked
        return bool(should != FOREVER.value)
    if should is None or not is_:
        return should is None
    if isinstance(should, frozenset):
        return should <= frozenset(is_)
    return not isinstance(should, str) and is_ >= should


def _correction(key: Key, pairs: Mapping[str, tuple[Any, Any]], item: Item) -> dict[str, Any]:
    """Build the update from the actual to the expected values, if the item is still as it was read."""
    parts: dict[str, list[str]] = {"ADD": [], "SET": [], "REMOVE": []}
    values: dict[str, Any] = {}
    conditions = []
    names = {f"#{i}": name for i, name in enumerate(pairs)} | {"#listed": "gsi1sk"}
    for place, name in names.items():
        if name in item:
            conditions.append(f"{place} = :is_{place[1:]}")
            values[f":is_{place[1:]}"] = item[name]
        else:
            conditions.append(f"attribute_not_exists({place})")
    for i, (is_, should) in enumerate(pairs.values()):
        if _is_number(is_) and _is_number(should):
            verb, values[f":{i}"] = "ADD", (should or 0) - (is_ or 0)
        elif isinstance(should, frozenset) and isinstance(is_, set | None):  # sets only grow
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
            "UpdateExpression": " ".join(f"{verb} {', '.join(part)}" for verb, part in parts.items() if part),
            "ConditionExpression": " AND ".join(conditions),
            "ExpressionAttributeNames": names,
            "ExpressionAttributeValues": values,
        }
    }


def _is_number(value: Any) -> bool:
    """Return whether a value is a number or missing."""
    return isinstance(value, int | Decimal | None) and not isinstance(value, bool)
