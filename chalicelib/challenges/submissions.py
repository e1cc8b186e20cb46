"""Submit paths: each counts once, never past the limit, and wrong guesses are limited.

Invariant: a path is written in one transaction with the player's progress, with the conditions that

- the path's item does not exist: the player has not found it before;
- the bucket of wrong guesses is not full: a player without guesses learns nothing from a right one either;
- the player's progress is below the limit.

Wrong guesses fill a leaky bucket. It holds ten guesses, and one drains every six seconds. Its level is one
number in the progress: `drained` is the millisecond since 1970 at which the bucket will be empty. This is the
"virtual scheduling" form of the Generic Cell Rate Algorithm (ITU-T I.371).
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from chalicelib import times
from chalicelib.api.router import Response
from chalicelib.challenges import definitions, progress
from chalicelib.challenges.definitions import Definition
from chalicelib.challenges.schemas import SubmissionResult
from chalicelib.dynamo.items import Key
from chalicelib.dynamo.table import Table
from chalicelib.errors import Busy, InvalidPath, LimitReached, SlowDown
from chalicelib.telemetry import logs

MAX_GUESSES = 10  # wrong ones that fill the bucket
GUESS_INTERVAL = 6_000  # milliseconds in which one wrong guess drains
TTL_MARGIN = timedelta(hours=1)  # after the bucket is empty. No clock is further ahead than this.
PATH_EXISTS, PROGRESS_REFUSED = range(2)  # the positions of refused actions


# -- paths ---------------------------------------------------------------------------------------------


def submit(
    table: Table, challenge: str, player: str, path: str, now: datetime, name: str | None = None
) -> Response[SubmissionResult]:
    """Write a path that a player has found: 201, or 200 if the player had found it before.

    `name` is the player's display name. Without it, the name of an earlier submission is kept.

    The definition is read strongly consistent. A submission that begins after an admin's change has returned
    follows the new definition.

    Cost: 4 RCU and 4 WCU for a new path, with 1 more RCU per 4 KB of a definition above 300 answers. 4 RCU
    for a known path. 3 RCU and 1 or 2 WCU for a wrong path. 3 RCU without guesses left.
    5 RCU and 4 WCU past the limit.
    Raises: NotFound, NotOpen, SlowDown, InvalidPath, LimitReached.
    """
    definition = definitions.load(table, challenge)
    definition.check_open(now)
    normalized = definition.normalize(path)
    path_key = progress.path_key(challenge, player, normalized)
    progress_key = progress.progress_key(challenge, player)
    items = table.get_many([path_key, progress_key], consistent=True)
    if path_key in items:  # it stays found after it is removed from the definition
        return _build_result(table, definition, player, path, 200)
    drained = _discard_invalid(table, progress_key, items.get(progress_key, {}).get("drained"), now)
    wait = _compute_wait(drained, now)
    if wait > 0:
        raise _too_many_guesses(wait)
    if not definition.accepts(normalized):
        _count_wrong_guess(table, progress_key, drained, now)
        raise InvalidPath("path: not a valid path of this challenge")
    refused = _write_path(table, definition, player, path_key, path, now, name)
    if PATH_EXISTS in refused:
        return _build_result(table, definition, player, path, 200)
    if PROGRESS_REFUSED in refused:
        item = table.get(progress_key, consistent=True) or {}
        if item.get("found", 0) >= definition.limit:
            raise LimitReached(f"path: {player} has reached the limit of {definition.limit} paths")
        raise _too_many_guesses(GUESS_INTERVAL)
    return _build_result(table, definition, player, path, 201)


def _write_path(
    table: Table,
    definition: Definition,
    player: str,
    path_key: Key,
    path: str,
    now: datetime,
    name: str | None,
) -> Sequence[int]:
    """Write a found path and the progress. Return the positions of the refused actions.

    A damaged progress is recounted first, so that it does not lock the player out.

    Raises: Busy if the progress is still damaged.
    """
    time = times.milliseconds(now)
    progress_key = progress.progress_key(definition.challenge, player)
    actions: list[dict[str, Any]] = [
        {
            "Put": {
                "Item": {**path_key._asdict(), "path": path, "time": time},
                "ConditionExpression": "attribute_not_exists(pk)",
            }
        },
        {
            "Update": {
                "Key": progress_key._asdict(),
                "UpdateExpression": "SET latest = :time, ranked = :ranked"
                + (", #name = :name" if name else "")
                + " ADD #found :one REMOVE #ttl",
                "ConditionExpression": (
                    "attribute_not_exists(pk) OR (#found BETWEEN :none AND :room AND NOT drained > :full)"
                ),
                "ExpressionAttributeNames": {"#found": "found", "#ttl": "ttl"}
                | ({"#name": "name"} if name else {}),
                "ExpressionAttributeValues": {
                    **({":name": name} if name else {}),
                    ":time": time,
                    ":ranked": definition.ranked,
                    ":one": 1,
                    ":none": 0,
                    ":room": definition.limit - 1,
                    ":full": time + (MAX_GUESSES - 1) * GUESS_INTERVAL,
                },
            }
        },
    ]
    refused = table.transact(actions)
    if refused != (PROGRESS_REFUSED,) or _read_found(table, progress_key) is not None:
        return refused
    logs.logger().warning("the progress of a player is damaged and is recounted from the paths")
    progress.recount(table, definition.challenge, player)
    refused = table.transact(actions)
    if refused == (PROGRESS_REFUSED,) and _read_found(table, progress_key) is None:
        raise Busy(f"The progress of {player} is damaged. Please retry.")
    return refused


def _read_found(table: Table, progress_key: Key) -> int | None:
    """Return the number of paths in a progress, or None for a damaged one.

    Cost: 1 RCU.
    """
    item = table.get(progress_key, consistent=True)
    found = 0 if item is None else item.get("found")
    return found if progress.is_count(found) else None


def _build_result(
    table: Table, definition: Definition, player: str, path: str, status: int
) -> Response[SubmissionResult]:
    """Read the number of paths that a player has found, and build the response.

    A damaged progress is recounted here too, because the update adds to any number, also to a fraction.

    Cost: 1 RCU.
    """
    progress_key = progress.progress_key(definition.challenge, player)
    found = _read_found(table, progress_key)
    if found is None:
        progress.recount(table, definition.challenge, player)
        found = _read_found(table, progress_key)
    return Response(SubmissionResult(path=path, found=found or 0, limit=definition.limit), status=status)


# -- guesses -------------------------------------------------------------------------------------------


def _discard_invalid(table: Table, key: Key, drained: Any, now: datetime) -> int | None:
    """Return the level of a bucket. An impossible level would lock the player out, so it is removed."""
    if not isinstance(drained, int | Decimal) or drained <= times.milliseconds(now + TTL_MARGIN):
        return drained if isinstance(drained, int) else None
    table.update(key, "REMOVE drained", condition="drained = :drained", values={":drained": drained})
    return None


def _compute_wait(drained: int | None, now: datetime) -> int:
    """Return the milliseconds until the next guess is allowed. 0 and less mean that it is allowed now."""
    return (drained or 0) - times.milliseconds(now) - (MAX_GUESSES - 1) * GUESS_INTERVAL


def _count_wrong_guess(table: Table, key: Key, drained: int | None, now: datetime) -> None:
    """Add a wrong guess to the bucket by a conditional update. Raises SlowDown if the bucket is full.

    There are two updates: one starts an empty bucket, the other fills one that has not drained. The bucket as
    it was read decides which of them comes first. The second update follows only if a concurrent change made
    the first one fail. `NOT drained > …` also holds without an item, and for an item without that number.

    A progress without paths expires. One with paths does not: its TTL is `latest`, whose number of
    milliseconds is, in seconds, tens of thousands of years away.
    """
    time = times.milliseconds(now)
    full = time + (MAX_GUESSES - 1) * GUESS_INTERVAL
    start = ("SET drained = :new", "NOT drained > :now", {":new": time + GUESS_INTERVAL})
    fill = (
        "SET drained = drained + :more",
        "drained BETWEEN :now AND :full",
        {":more": GUESS_INTERVAL, ":full": full},
    )
    ttl = times.epoch(now + timedelta(milliseconds=MAX_GUESSES * GUESS_INTERVAL) + TTL_MARGIN)
    updates = (fill, start) if drained is not None and drained > time else (start, fill)
    for expression, condition, values in updates:
        changed = table.update(
            key,
            f"{expression}, #found = if_not_exists(#found, :none), #ttl = if_not_exists(latest, :ttl)",
            condition=condition,
            names={"#ttl": "ttl", "#found": "found"},
            values={**values, ":now": time, ":ttl": ttl, ":none": 0},
        )
        if changed is not None:
            return
    raise _too_many_guesses(GUESS_INTERVAL)


def _too_many_guesses(wait: int) -> SlowDown:
    return SlowDown("path: too many wrong guesses. Retry after the time in Retry-After.", wait / 1000)
