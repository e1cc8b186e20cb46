"""Compares what a soak's clients were told with what the table has, and the sums with a recount."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from bench.soak_clients import BOARD, CHALLENGE, Taken
from chalicelib import challenges, comments, leaderboards, times, urls, views
from chalicelib.events import View
from chalicelib.items import Key
from chalicelib.table import Table
from ops import audit
from ops.recount import scan
from ops.streams import follow

if TYPE_CHECKING:
    from mypy_boto3_dynamodbstreams import DynamoDBStreamsClient

SETTLED = (
    300.0  # seconds that counting may take: what a killed pump had received comes again in three minutes
)
SETTLE = 3.0  # seconds between two looks


def settled(
    table: Table, streams: DynamoDBStreamsClient, queued: Callable[[], int], tell: Callable[[str], None]
) -> tuple[float, audit.Audit]:
    """Wait until the queue is empty and every sum is right; answer how long, and the last audit."""
    from app import CONTRIBUTIONS

    begun = time.monotonic()
    while True:
        waiting = queued()
        found = audit.audit(table, CONTRIBUTIONS, follow(table, streams), SETTLE, lambda _: None)
        seconds = time.monotonic() - begun
        if not (waiting or found.drifted or found.unsettled) or seconds > SETTLED:
            return seconds, found
        tell(f"counting: {waiting} messages wait, {len(found.drifted) + len(found.unsettled)} sums differ")


def compared(table: Table, taken: Taken) -> tuple[set[Key], set[Key]]:
    """Answer the items that were acknowledged and are not there, and those that were not and are."""
    wanted = {
        views.event_key(View(urls.canonical(url), times.instant(time), client))
        for url, events in taken.views.items()
        for time, client in events
    }
    wanted |= {
        leaderboards.activity_key(BOARD, player, id) for player, ids in taken.scores.items() for id in ids
    }
    wanted |= {
        challenges.path_key(CHALLENGE, player, path)
        for player, paths in taken.paths.items()
        for path in paths
    }
    wanted |= {comments.comment_key(product, id) for product, ids in taken.comments.items() for id in ids}
    facts = ("T#", "ACTIVITY#", "PATH#", "COMMENT#")
    items = {Key(item["pk"], item["sk"]): item for item in scan(table.client, table.name)}
    there = {key for key in items if key.sk.startswith(facts)}
    wrong_scores = {
        key
        for player, ids in taken.scores.items()
        if items.get(key := leaderboards.score_key(BOARD, 1, player), {}).get("score") != sum(ids.values())
    }
    return (wanted - there) | wrong_scores, there - wanted
