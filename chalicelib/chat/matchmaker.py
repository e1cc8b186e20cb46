"""The matchmaker: delivers notices, matches waiting connections, and frees the partners of dead ones.

It owns no items. Every event of chat ends in `reconcile`, and `sweep` runs once a minute.

Invariant: every function is idempotent and may run in many processes, because the pending work follows from
the items alone. So the next frame or the sweep completes interrupted work.
"""

import time
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from functools import partial

from chalicelib import times
from chalicelib.chat import bans, connections, matching, outbox, subscriptions, waiting_pool
from chalicelib.chat.gateway import BANNED
from chalicelib.concurrency import map_concurrently
from chalicelib.context import Context
from chalicelib.dynamo.items import Item
from chalicelib.errors import Busy
from chalicelib.telemetry import logs, metrics

ROUNDS = 60  # rounds of one call of `reconcile`, at most: each dead partner needs another one
SILENT = timedelta(seconds=60)  # without a frame, until the sweep asks whether a connection is open
STEP = 5.0  # seconds between two passes of the sweep over new entries of the pool

ConnectionIds = tuple[str, ...]
"""The ids of connections that may have pending notices or may be matched."""


def mark_gone(context: Context, id: str, *, may_return: bool = True) -> ConnectionIds:
    """Mark a connection as gone, and return its partner, which waits again. A second call does nothing.

    Cost: 1 RCU and 3 WCU (1 of them for the index); 2 WCU more for a pool entry; with a partner 1 RCU and
    6 WCU more.
    Raises: Busy.
    """

    def decide(item: Item) -> matching.Change:
        is_kept = may_return and item["state"] == "matched" and item.get("resumable")
        keep_until = times.epoch(context.now + connections.RESUMABLE) if is_kept else 0
        return matching.Change("gone", keep_until, last_state="" if may_return else "left")

    item = connections.find(context.table, id)
    if item is None:
        return ()
    changed = matching.settle(context, item, decide)
    if changed.was_changed:
        subscriptions.unsubscribe_all(context.table, changed.item)
    return (changed.lost,) if changed.lost else ()


def reconcile(context: Context, ids: Iterable[str]) -> None:
    """Deliver pending notices, match waiting connections, and free the partners of dead ones.

    Continue with the connections that this concerns, until none is left. Connections are processed in
    parallel, so none waits for a dead one.

    Cost: 1 RCU for each connection, and the cost of `outbox.deliver_pending` and `matching.find_partner`.
    Raises: Busy.
    """
    begun = time.monotonic()

    def reconcile_now(id: str) -> ConnectionIds:
        """Reconcile a connection at the current time, because in a crowd claims may expire meanwhile."""
        later = context.now + timedelta(seconds=time.monotonic() - begun)
        return _reconcile_one(context._replace(now=later), id)

    for _ in range(ROUNDS):
        if not (unique := list(dict.fromkeys(ids))):
            return
        ids = [id for concerned in map_concurrently(reconcile_now, unique) for id in concerned]


def _reconcile_one(context: Context, id: str) -> ConnectionIds:
    item = connections.find(context.table, id)
    if item is None:
        return ()
    if item.get("notices") and outbox.deliver_pending(context, id) == "gone":
        return mark_gone(context, id)
    if "kept" in item and item["kept"]["until"] < times.epoch(context.now):
        changed = matching.change_state(context, item, matching.Change("waiting"))
        item = changed.item if changed else item
    if not matching.is_in_pool(item):
        return ()
    matched = matching.find_partner(context, item)
    return (matched["partner"]["id"], id) if matched else ()


def expel(context: Context, banned: Collection[str]) -> None:
    """Close all open connections of banned addresses and subjects.

    Cost: that of reading all connections as `sweep` does, and that of `mark_gone` for each that is closed.
    Raises: Busy. The sweep completes what was interrupted.
    """
    items = connections.list_all(context.table) if banned else ()
    lost = close_banned(context, items, banned)
    reconcile(context, lost)


def close_banned(
    context: Context,
    items: Iterable[Item],
    banned: Collection[str],
) -> ConnectionIds:
    """Close the given connections that have a banned address or subject. Return their lost partners.

    Cost: that of `mark_gone` for each.
    """
    lost: ConnectionIds = ()
    for item in items:
        if not {item.get(name) for name in bans.DIGESTS}.isdisjoint(banned):
            # First, so that its $disconnect does not keep the partner for it.
            lost += mark_gone(context, connections.id_of(item), may_return=False)
            context.gateway.close(item["endpoint"], connections.id_of(item), BANNED)
    return lost


def sweep(
    context: Context,
    clock: Callable[[], datetime],
    *,
    seconds: float = 50,
    pause: Callable[[float], None] = time.sleep,
) -> None:
    """Free the partners of dead connections, close banned ones, and complete what a crash has interrupted.

    A connection is dead when it is too old to be open, or when it was silent for a minute and API Gateway
    returns 410 for it. The sweep runs for up to `seconds` while new entries of a pool may soon accept more
    partners.

    Cost: 0.5 RCU for each connection, for about 30 of them and for about 40 bans; 1 RCU or more for each
    waiting one.
    Each further pass costs 0.5 RCU for about 25 entries of each lobby's pool.
    """
    settings, begun = context.settings, context.now
    items = list(connections.list_all(context.table))
    silent = [item for item in items if _is_silent(item, begun)]
    are_open = map_concurrently(partial(_is_open, context), silent)
    dead = [item for item, is_open in zip(silent, are_open, strict=True) if not is_open]
    metrics.count(DeadPeers=len(dead))
    lost: list[str] = []
    for item in dead:
        with _log_busy():
            lost += mark_gone(context, connections.id_of(item))
    banned = bans.list_banned(context)
    for item in items:
        with _log_busy():
            lost += close_banned(context, [item], banned)
    waiting = [item for item in items if item["state"] == "waiting"]
    with_notices = [connections.id_of(item) for item in items if item.get("notices")]
    ids = [*lost, *with_notices, *map(connections.id_of, waiting)]
    lobbies = {item["lobby"] for item in (*dead, *waiting)}
    soon = max(settings.chat_widen, settings.chat_again) + timedelta(seconds=2 * STEP)
    while ids:
        for id in dict.fromkeys(ids):
            with _log_busy():
                reconcile(context._replace(now=clock()), [id])
        later = context._replace(now=clock())
        if (later.now - begun).total_seconds() + STEP > seconds:
            return
        if ids := [id for lobby in lobbies for id in waiting_pool.list_newcomers(later, lobby, soon)]:
            pause(STEP)


@contextmanager
def _log_busy() -> Iterator[None]:
    """Log Busy for one connection, so that the sweep goes on with the others."""
    try:
        yield
    except Busy:
        logs.logger().warning("the sweep has left out a connection: the table is busy")


def _is_silent(item: Item, now: datetime) -> bool:
    heard = item["last_frame"] / 1000 if "last_frame" in item else item["gsi1sk"]
    return now.timestamp() - int(heard) > SILENT.total_seconds()


def _is_open(context: Context, item: Item) -> bool:
    if times.epoch(context.now) > connections.latest_end(item["gsi1sk"]):
        return False
    return context.gateway.is_open(item["endpoint"], connections.id_of(item))
