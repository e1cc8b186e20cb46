"""Submit paths: each counts once, never past the limit, and wrong guesses are limited.

Invariant: a path is written in one transaction with the player's progress, with the conditions that

- the path's item does not exist: the player has not found it before;
- the bucket of wrong guesses is not full: a player without guesses learns nothing from a right one either;
- the player's progress is below the limit.

Wrong guesses fill a leaky bucket (api/rates.py). It holds ten guesses, and one drains every six seconds. Its
level is `drained` in the progress, so the transaction checks it at no cost.
"""

from collections.abc import Sequence
from typing import Any

from chalicelib import times
from chalicelib.api import rates
from chalicelib.api.auth import Caller
from chalicelib.challenges import definitions, finders, progress
from chalicelib.challenges.definitions import Definition
from chalicelib.challenges.schemas import SubmissionResult
from chalicelib.context import Context
from chalicelib.dynamo.items import Item, Key
from chalicelib.dynamo.table import Table
from chalicelib.errors import Forbidden, InvalidPath, LimitReached, SlowDown

GUESSES = rates.Limit(at_once=10, interval=6_000)  # wrong ones
PATH_EXISTS, PROGRESS_REFUSED = range(2)  # the positions of refused actions


# -- paths ---------------------------------------------------------------------------------------------


def submit(context: Context, challenge: str, caller: Caller, path: str) -> tuple[SubmissionResult, bool]:
    """Write a path that a player has found. Return whether the player had not found it before.

    Without a display name of the caller, the name of an earlier submission is kept.

    The definition is read strongly consistent. A submission that begins after an admin's change has returned
    follows the new definition.

    Cost: 4 RCU and 4 WCU for a new path, with 1 more RCU per 4 KB of a definition above 300 answers. 4 RCU
    for a known path. 3 RCU and 1 or 2 WCU for a wrong path. 3 RCU without guesses left.
    4 RCU and 4 WCU past the limit.
    Raises: NotFound, NotOpen, Forbidden for a guest where guests may not submit, SlowDown, InvalidPath,
    LimitReached.
    """
    player, definition = caller.sub, definitions.load(context.table, challenge)
    definition.check_open(context.now)
    if caller.guest and not definition.guests:
        raise Forbidden("Guests may not submit to this challenge. Sign in with an account.")
    normalized = definition.normalize(path)
    path_key = progress.path_key(challenge, player, normalized)
    progress_key = progress.progress_key(challenge, player)
    items = context.table.get_many([path_key, progress_key], consistent=True)
    if path_key in items:  # it stays found after it is removed from the definition
        return _build_result(context.table, definition, player, path), False
    level = items.get(progress_key, {}).get("drained", 0)
    if wait := GUESSES.compute_wait(level, context.now):
        raise _too_many_guesses(wait)
    if not (answer := definition.find_answer(normalized)):
        if wait := rates.take(context, _bucket(progress_key, level), GUESSES):
            raise _too_many_guesses(wait)
        raise InvalidPath("This path is not an answer of the challenge.")
    found = finders.identify(answer, len(definition.answers))
    refused = _write_path(context, definition, caller, path_key._asdict() | {"path": path, "answer": found})
    if PATH_EXISTS in refused:
        return _build_result(context.table, definition, player, path), False
    if PROGRESS_REFUSED in refused:
        item = context.table.get(progress_key, consistent=True) or {}
        if item.get("found", 0) >= definition.limit:
            raise LimitReached(
                f"{player} has found as many paths as this challenge counts: {definition.limit}."
            )
        raise _too_many_guesses(GUESSES.interval)
    return _build_result(context.table, definition, player, path), True


def _write_path(context: Context, definition: Definition, caller: Caller, item: Item) -> Sequence[int]:
    """Write a found path and the progress. Return the positions of the refused actions."""
    time, player, name = times.milliseconds(context.now), caller.sub, caller.name
    progress_key = progress.progress_key(definition.challenge, player)
    actions: list[dict[str, Any]] = [
        {
            "Put": {
                "Item": item | {"time": time},
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
                    ":full": GUESSES.full(context.now),
                },
            }
        },
    ]
    return context.table.transact(actions)


def _build_result(table: Table, definition: Definition, player: str, path: str) -> SubmissionResult:
    """Read the number of paths that a player has found, and build the result.

    Cost: 1 RCU.
    """
    item = table.get(progress.progress_key(definition.challenge, player), consistent=True) or {}
    return SubmissionResult(path=path, found=item.get("found", 0), limit=definition.limit)


# -- guesses -------------------------------------------------------------------------------------------


def _bucket(progress_key: Key, level: int) -> rates.Bucket:
    """Return the bucket of a player's wrong guesses, as it was read.

    A progress without paths expires. One with paths does not: its TTL is `latest`, whose number of
    milliseconds is, in seconds, tens of thousands of years away.
    """
    return rates.Bucket(
        progress_key,
        "#found = if_not_exists(#found, :none), #ttl = if_not_exists(latest, :ttl)",
        {"#ttl": "ttl", "#found": "found"},
        {":none": 0},
        level=level,
    )


def _too_many_guesses(wait: int) -> SlowDown:
    return SlowDown("Too many wrong guesses. Retry after the time in Retry-After.", wait / 1000)
