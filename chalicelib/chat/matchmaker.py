"""The lobby: after any change, who is concerned is told, who waits is matched, who lost a dead one is freed.

Everything here may be run again at any time, by any number of processes: what is to be done follows from the
items alone. So it heals what a crash has left, at the next frame of either, or in the sweep.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta

from chalicelib import times
from chalicelib.chat import connections, matching, outbox, subscriptions, waiting_pool
from chalicelib.chat.gateway import Posts
from chalicelib.concurrency import map_concurrently
from chalicelib.dynamo.items import Item
from chalicelib.dynamo.table import Table
from chalicelib.errors import Busy
from chalicelib.settings import Settings
from chalicelib.telemetry import logs, metrics

ROUNDS = 60  # of telling and matching in a row, should one dead connection be met after the other
SILENT = timedelta(seconds=60)  # after which the sweep asks whether a connection is open
STEP = 5.0  # seconds between two looks of the sweep at those who may soon take anyone

Turns = tuple[str, ...]
"""The ids of connections that are to be told, or matched, next."""


def lose(table: Table, id: str, now: datetime, settings: Settings, *, may_return: bool = True) -> Turns:
    """Write down that a connection is gone; answer its partner, who has lost it.

    What happens late, or again, finds it gone and does nothing. Costs 1 RCU and 4 WCU (2 of them
    for the index), 2 more for a place in the pool, with a partner 4 more. Raises Busy.
    """
    for _ in range(matching.TRIES):
        item = table.get(connections.key(id), consistent=True)
        if item is None or item["state"] == "gone":
            return ()
        returns = may_return and item["state"] == "matched" and item.get("resumable")
        keep = times.epoch(now + settings.chat_resume) if returns else 0
        if moved := matching.move(table, item, "gone", now, keep=keep, was="" if may_return else "left"):
            subscriptions.forget(table, item)
            return (moved.lost,) if moved.lost else ()
    raise Busy("A connection changes faster than it can be read.")


def settle(table: Table, posts: Posts, todo: Iterable[str], now: datetime, settings: Settings) -> None:
    """Tell connections what they have not been told, match those that wait, free those whose partner is dead.

    Goes on until nothing is left of it. Several are served at once, so that none waits for a dead one. Costs
    1 RCU for each, and what `notes.tell` and `pairs.seek` cost. Raises Busy.
    """
    begun = time.monotonic()

    def settled(id: str) -> Turns:
        """Settle one as of now: in a crowd this may be long after the beginning, and a claim has an end."""
        later = now + timedelta(seconds=time.monotonic() - begun)
        return _settle(table, posts, id, later, settings)

    for _ in range(ROUNDS):
        if not (ids := list(dict.fromkeys(todo))):
            return
        concerned = map_concurrently(settled, ids)
        todo = [id for some in concerned for id in some]


def _settle(table: Table, posts: Posts, id: str, now: datetime, settings: Settings) -> Turns:
    me = connections.find(table, id)
    if me is None:
        return ()
    if me.get("untold") and outbox.tell(table, posts, id, now) == "gone":
        return lose(table, id, now, settings)
    if "kept" in me and me["kept"]["until"] < times.epoch(now):
        moved = matching.move(table, me, "waiting", now)
        me = moved.me if moved else me
    if me["state"] != "waiting" or "kept" in me:
        return ()
    matched = matching.seek(table, me, now, settings)
    return (matched["partner"]["id"], id) if matched else ()


def sweep(
    table: Table,
    posts: Posts,
    settings: Settings,
    clock: Callable[[], datetime],
    *,
    seconds: float = 50,
    pause: Callable[[float], None] = time.sleep,
) -> None:
    """Look at every connection: free whoever's partner died in silence, tell and match whom a crash forgot.

    A connection is dead when it is too old to be open, or was silent for a minute and API Gateway says that
    it is gone. While one that came or was freed just now will soon take whom it does not take yet, it stays
    for `seconds` and looks again. Costs 0.5 RCU a connection, and for about 30 of them 0.5 more; 1 RCU and
    more for each that waits; to look again, 0.5 RCU for about 25 in the pool of each lobby.
    """
    begun = now = clock()
    everybody = list(connections.every(table))
    quiet = [one for one in everybody if _is_silent(one, now)]
    dead = [
        one
        for one, is_open in zip(
            quiet, map_concurrently(lambda one: _is_open(posts, one, now), quiet), strict=True
        )
        if not is_open
    ]
    metrics.count(DeadPeers=len(dead))
    lost: list[str] = []
    for one in dead:
        with _alone():
            lost += lose(table, connections.id_of(one), now, settings)
    waiting = [one for one in everybody if one["state"] == "waiting"]
    untold = [connections.id_of(one) for one in everybody if one.get("untold")]
    todo = [*lost, *untold, *map(connections.id_of, waiting)]
    lobbies = {one["lobby"] for one in (*dead, *waiting)}
    soon = max(settings.chat_widen, settings.chat_again) + timedelta(seconds=2 * STEP)
    while todo:
        for id in dict.fromkeys(todo):
            with _alone():
                settle(table, posts, [id], clock(), settings)
        now = clock()
        if (now - begun).total_seconds() + STEP > seconds:
            return
        if todo := [id for lobby in lobbies for id in waiting_pool.newcomers(table, lobby, now, soon)]:
            pause(STEP)


@contextmanager
def _alone() -> Iterator[None]:
    """Serve one of many: that the table is busy with it is no other's loss."""
    try:
        yield
    except Busy:
        logs.logger().warning("the sweep could not serve a connection now: the table is busy")


def _is_silent(one: Item, now: datetime) -> bool:
    heard = one["t01"] / 1000 if "t01" in one else one["gsi1sk"]
    return now.timestamp() - int(heard) > SILENT.total_seconds()


def _is_open(posts: Posts, one: Item, now: datetime) -> bool:
    if times.epoch(now) > connections.end(one["gsi1sk"]):
        return False
    return posts.is_open(one["at"], connections.id_of(one))
