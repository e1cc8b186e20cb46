"""Submitting paths: found once, never past the limit, and guessed slowly.

The items are those of challenges.py. A path is found in one transaction, on condition that

- its item is not there: it was not found before;
- the player's guesses leave room: who has run out of wrong guesses learns nothing from right ones either;
- the player's progress is below the limit.

Wrong guesses fill a leaky bucket: ten at once, and one more for each six seconds that pass. Its level is
the one number `drained`, the instant at which it will be empty (the "virtual scheduling" form of the Generic
Cell Rate Algorithm, ITU-T I.371).
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from chalicelib import times
from chalicelib.api.router import Response
from chalicelib.challenges import definitions
from chalicelib.challenges.progress import mend
from chalicelib.challenges.rules import Definition
from chalicelib.challenges.schemas import Found
from chalicelib.dynamo.items import Item, Key
from chalicelib.dynamo.table import Table
from chalicelib.errors import Busy, InvalidPath, LimitReached, SlowDown
from chalicelib.telemetry import logs

GUESSES = 10  # wrong ones at once
INTERVAL = 6_000  # milliseconds that one more takes
MARGIN = timedelta(hours=1)  # that an item is kept longer than it says anything; no clock is so far ahead
PATH, ROOM, LIMIT = range(3)  # the places of a finding's conditions


def submit(table: Table, challenge: str, player: str, path: str, now: datetime) -> Response[Found]:
    """Find a path for a player: 201, or 200 when the player had found it before.

    The definition is read strongly consistent: a submission that begins after an admin's change was answered
    is judged by it, one that began before may be judged as before it.

    Costs 4 RCU (more for a challenge of more than 300 answers) and 6 WCU; found before, 4 RCU; wrong, 3 RCU
    and 1 or 2 WCU; without guesses left, 3 RCU. Raises NotFound, NotOpen, SlowDown, InvalidPath, and
    LimitReached.
    """
    definition = definitions.definition(table, challenge)
    definition.check_open(now)
    text = definition.normalized(path)
    place = definitions.path_key(challenge, player, text)
    guesses = definitions.guesses_key(challenge, player)
    there = table.get_many([place, guesses], consistent=True)
    if place in there:  # found before, also when it is no answer any more
        return _found(table, definition, player, path, 200)
    bucket = _bucket(table, guesses, there.get(guesses), now)
    wait = _wait(bucket, now)
    if wait > 0:
        raise _slow_down(wait)
    if not definition.accepts(text):
        _guess(table, guesses, bucket, now)
        raise InvalidPath("path: it is none of the challenge's paths")
    refused = _find(table, definition, player, place, path, now)
    if PATH in refused:
        return _found(table, definition, player, path, 200)
    if ROOM in refused:
        raise _slow_down(INTERVAL)
    if LIMIT in refused:
        raise LimitReached(f"path: {player} has found {definition.limit} paths, which is the limit")
    return _found(table, definition, player, path, 201)


def _find(
    table: Table, definition: Definition, player: str, place: Key, path: str, now: datetime
) -> Sequence[int]:
    """Write a found path; answer the places of the conditions that are false.

    Where the progress is damaged, it is mended from the paths first: an operator's slip, or a version of
    long ago, is no reason to lock a player out.
    """
    time = times.milliseconds(now)
    progress = definitions.progress_key(definition.challenge, player)
    values = {":time": time, ":one": 1, ":none": 0, ":room": definition.limit - 1}
    values[":ranked"] = definition.ranked
    actions: list[dict[str, Any]] = [
        {
            "Put": {
                "Item": {**place._asdict(), "path": path, "time": time},
                "ConditionExpression": "attribute_not_exists(pk)",
            }
        },
        {
            "ConditionCheck": {
                "Key": definitions.guesses_key(definition.challenge, player)._asdict(),
                "ConditionExpression": "NOT drained > :room",
                "ExpressionAttributeValues": {":room": time + (GUESSES - 1) * INTERVAL},
            }
        },
        {
            "Update": {
                "Key": progress._asdict(),
                "UpdateExpression": "SET latest = :time, ranked = :ranked ADD #found :one",
                "ConditionExpression": "attribute_not_exists(pk) OR #found BETWEEN :none AND :room",
                "ExpressionAttributeNames": {"#found": "found"},
                "ExpressionAttributeValues": values,
            }
        },
    ]
    refused = table.transact(actions)
    if refused != (LIMIT,) or _number(table, progress) is not None:
        return refused
    logs.logger().warning("a player's progress is damaged, and counted again from the paths")
    mend(table, definition.challenge, player)
    refused = table.transact(actions)
    if refused == (LIMIT,) and _number(table, progress) is None:
        raise Busy(f"{player}'s progress is damaged: try again in a moment.")
    return refused


def _number(table: Table, key: Key) -> int | None:
    """Read how many paths a progress says; None for one that is damaged. Costs 1 RCU."""
    item = table.get(key, consistent=True)
    found = 0 if item is None else item.get("found")
    return found if definitions.is_count(found) else None


def _found(table: Table, definition: Definition, player: str, path: str, status: int) -> Response[Found]:
    """Answer how many paths a player has found by now. Costs 1 RCU.

    A damaged progress is mended here too: no condition tells half a path from a whole one.
    """
    progress = definitions.progress_key(definition.challenge, player)
    found = _number(table, progress)
    if found is None:
        mend(table, definition.challenge, player)
        found = _number(table, progress)
    return Response(Found(path=path, found=found or 0, limit=definition.limit), status=status)


# -- guesses -------------------------------------------------------------------------------------------


def _bucket(table: Table, key: Key, seen: Item | None, now: datetime) -> Item | None:
    """Answer what wrong guesses weigh; what none can weigh is taken away: it would lock a player out."""
    drained = (seen or {}).get("drained")
    if not isinstance(drained, int | Decimal) or drained <= times.milliseconds(now + MARGIN):
        return seen
    table.delete(key, condition="drained = :drained", values={":drained": drained})
    return None


def _wait(seen: Item | None, now: datetime) -> int:
    """Compute the milliseconds until a wrong guess has room; 0 or less: it has."""
    drained = (seen or {}).get("drained")
    return drained - times.milliseconds(now) - (GUESSES - 1) * INTERVAL if isinstance(drained, int) else 0


def _guess(table: Table, key: Key, seen: Item | None, now: datetime) -> None:
    """Count a wrong guess, by one conditional update. Raises SlowDown when there is no room left for it.

    `NOT drained > …` also holds where there is no item, or one without a number in it. The bucket is filled
    anew or filled further, as what was read suggests; what came between the two costs a second update.
    """
    time = times.milliseconds(now)
    full = time + (GUESSES - 1) * INTERVAL
    anew = "SET drained = :anew, #ttl = :ttl", "NOT drained > :now", {":anew": time + INTERVAL}
    more = "SET drained = drained + :more, #ttl = :ttl", "drained BETWEEN :now AND :full"
    further = (*more, {":more": INTERVAL, ":full": full})
    ttl = times.epoch(now + timedelta(milliseconds=GUESSES * INTERVAL) + MARGIN)
    drained = (seen or {}).get("drained")
    order = (further, anew) if isinstance(drained, int) and drained > time else (anew, further)
    for expression, condition, values in order:
        values = {**values, ":now": time, ":ttl": ttl}
        changed = table.update(key, expression, condition=condition, names={"#ttl": "ttl"}, values=values)
        if changed is not None:
            return
    raise _slow_down(INTERVAL)


def _slow_down(wait: int) -> SlowDown:
    return SlowDown("path: too many wrong guesses; wait as long as Retry-After says", wait / 1000)
