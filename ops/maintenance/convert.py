"""Convert the rankings of version 0.1.0 to the tree of today, while the stage serves traffic.

1. *stamp* writes `depth`, the index key and the mark `older` into each score and progress. The item then
   counts in both trees. Reads use the older one.
2. *switch* writes `is_converted` into a definition, once both roots count the same players. Reads then use
   the new tree.
3. *clear* removes the mark, so that the stream subtracts the item from the older tree.
4. *expire* writes a `ttl` into the items of the older tree.

Submissions write the mark until the definition is converted. Each step is idempotent, and begins when the one
before it is complete, so an interrupted run can be repeated.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from functools import cache

from chalicelib.challenges import definitions, progress
from chalicelib.challenges import ranking as challenge_ranking
from chalicelib.dynamo.items import Item, Key
from chalicelib.dynamo.table import Table
from chalicelib.leaderboards import boards, scores
from chalicelib.ranking.ranking import Ranked, Ranking, choose_depth, count_players, index_key
from chalicelib.ranking.tree import TIE
from ops.maintenance import scan
from ops.maintenance.scan import RateLimiter
from ops.waiting import TIMEOUT, wait_until

LIFETIME = 3 * 86_400  # seconds until the items of the older tree expire: the stream may still add to them
MAX_PASSES = 20  # until the stream has subtracted all items from the older tree
NAMES = {"#depth": "depth"}

Report = Callable[[Counter[str]], None]


def convert(
    table: Table,
    segments: int,
    rate: float | None,
    report: Report,
    now: Callable[[], float] = time.time,
    pause: Callable[[float], None] = time.sleep,
) -> Counter[str]:
    """Convert all rankings, and return the counts: stamped, switched, cleared, expired and left.

    Cost: 1 RCU per 4 KB of the table and step. For each score 1 WCU and 1 for the index, 1 to clear it, and
    what the stream adds to and subtracts from the trees. 1 WCU for each item of the older tree.
    Raises: ClickException when the stream does not follow for a minute.
    """
    limiter = RateLimiter(rate)
    done: Counter[str] = Counter()

    def run(name: str, work: Callable[[Item], str]) -> Counter[str]:
        counts = scan.process_table(table, f"CONVERT#{name}", segments, work, report, limiter)
        done.update({word: count for word, count in counts.items() if word != "read"})
        return counts

    run("stamp", lambda item: _stamp(table, item))
    run("switch", lambda item: _switch(table, item))
    is_converted = cache(lambda key: bool((table.get(key, consistent=True) or {}).get("is_converted")))
    run("clear", lambda item: _clear(table, item, is_converted))
    for number in range(MAX_PASSES):
        pause(min(number, 5))
        del done["left"]
        if not run("expire", lambda item: _expire(table, item, int(now()) + LIFETIME))["left"]:
            break
    return done


def _ranked(item: Item) -> Ranked | None:
    return scores.rank(item) or progress.rank(item)


def _stamp(table: Table, item: Item) -> str:
    """Add an item that only the older tree counts to the new one too."""
    try:
        ranked = _ranked(item)
    except Exception:  # malformed, and in quarantine
        return "malformed"
    if not ranked or ranked.depth:
        return ""
    values = {
        f":{name}": value
        for name, value in index_key(ranked.ranking, ranked.player, ranked.number // TIE).items()
    }
    values |= {":depth": choose_depth(table, ranked.ranking, ranked.number), ":older": True}
    seen = ("score",) if "score" in item else ("found", "latest")
    conditions = [f"#{name} = :{name}" for name in seen]
    stamped = table.update(
        Key(item["pk"], item["sk"]),
        "SET gsi1pk = :gsi1pk, gsi1sk = :gsi1sk, #depth = :depth, older = :older",
        condition=" AND ".join(["attribute_not_exists(#depth)", *conditions]),
        names=NAMES | {f"#{name}": name for name in seen},
        values=values | {f":{name}": item[name] for name in seen},
        idempotent=True,
    )
    return "stamped" if stamped is not None else ""


def _switch(table: Table, item: Item) -> str:
    """Switch reads to the new tree, once it counts as many players as the older one."""
    feature, _, name = item["pk"].partition("#")
    if item["sk"] != "DEFINITION" or feature not in ("BOARD", "CHALLENGE") or item.get("is_converted"):
        return ""
    for ranking in _rankings(item):
        older = ranking.as_older()
        wait_until(
            lambda ranking=ranking, older=older: count_players(table, ranking) == count_players(table, older),  # type: ignore[misc]
            f"both trees of {name} count the same players",
            TIMEOUT,
        )
    values = {":yes": True}
    condition = "attribute_exists(pk)"
    table.update(
        Key(item["pk"], item["sk"]),
        "SET is_converted = :yes",
        condition=condition,
        values=values,
        idempotent=True,
    )
    return "switched"


def _rankings(definition: Item) -> list[Ranking]:
    """Return the rankings of a definition: those of a board's seasons, or the one of a challenge."""
    if definition["pk"].startswith("CHALLENGE#"):
        return [challenge_ranking.build_ranking(definition["pk"].removeprefix("CHALLENGE#"))]
    board = boards.parse(definition)
    return [board._replace(season=season).ranking for season in range(1, board.season + 1)]


def _clear(table: Table, item: Item, is_converted: Callable[[Key], bool]) -> str:
    """Remove the mark of an item whose definition is converted."""
    if "older" not in item:
        return ""
    is_score = item["sk"].startswith("BOARD#")
    name = item["sk"].split("#")[1] if is_score else item["pk"].removeprefix("CHALLENGE#").partition("#")[0]
    if not is_converted(boards.definition_key(name) if is_score else definitions.definition_key(name)):
        return "left"
    condition = "attribute_exists(pk)"
    table.update(Key(item["pk"], item["sk"]), "REMOVE older", condition=condition, idempotent=True)
    return "cleared"


def _expire(table: Table, item: Item, ttl: int) -> str:
    """Set a TTL on an item of the older tree. One that still counts players is left to a later pass."""
    is_entry, is_node = item["sk"].startswith("RANKED#"), item["pk"].startswith("RANK#")
    if not (is_entry or is_node) or "ttl" in item:
        return ""
    if any(count for name, count in item.items() if name == "gsi1sk" or (is_node and name.isdigit())):
        return "left"
    key, names = Key(item["pk"], item["sk"]), {"#ttl": "ttl"}
    table.update(key, "SET #ttl = :ttl", names=names, values={":ttl": ttl}, idempotent=True)
    return "expired"
