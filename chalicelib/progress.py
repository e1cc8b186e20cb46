"""A player's progress in a challenge: shown, taken back by an admin, counted again where it is damaged.

The items are those of challenges.py. All of a player's paths and their number are read in one query; what
changes both is one transaction, on condition that the number is still what was read.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from chalicelib import challenges
from chalicelib.auth import Caller
from chalicelib.challenge_schemas import MOST, FoundPath, PlayerPath, Progress
from chalicelib.errors import Busy, Forbidden, NotFound
from chalicelib.items import Item, Key
from chalicelib.table import TRANSACTION, Table

ROUNDS = 20  # each that fails has met another change of the same player
HELD = 1000  # items that are read of a player; the limit allows 101


class Held(NamedTuple):
    """What the table has of a player: the number of paths, if there is one, and the paths."""

    progress: Item | None
    paths: list[Item]


def show(table: Table, path: PlayerPath, caller: Caller) -> Progress:
    """Answer a player's paths, to the player and to admins; none for one who has not found any.

    Costs 1 RCU per 4 KB (about 30 paths), and 0.5 more for a player without any. Raises Forbidden, NotFound.
    """
    if caller.sub != path.player and not caller.admin:
        raise Forbidden("player: a player's progress is for the player and for admins.")
    found = sorted(held(table, path.challenge, path.player).paths, key=lambda item: (_time(item), item["sk"]))
    if not found:
        challenges.find(table, path.challenge)
    # The paths say how many they are: a query may see a transaction's items one after the other.
    return Progress(found=len(found), paths=[_text(item) for item in found])


def held(table: Table, challenge: str, player: str) -> Held:
    """Read what the table has of a player in one query. Costs 1 RCU per 4 KB."""
    pk = challenges.progress_key(challenge, player).pk
    items = table.query(pk, ("PATH#", "PROGRESS"), limit=HELD, consistent=True).items
    paths = [item for item in items if item["sk"].startswith("PATH#")]
    return Held(next((item for item in items if item["sk"] == "PROGRESS"), None), paths)


def withdraw_path(table: Table, path: FoundPath) -> None:
    """Take back one of a player's paths, in any notation. Raises NotFound.

    Costs 1 RCU per 4 KB of the definition, 2 per 4 KB of the player's paths, which are read again, and 4 WCU.
    The player may find the path again if it is still an answer.
    """
    found = challenges.definition(table, path.challenge).normalized(path.path)
    key = challenges.path_key(path.challenge, path.player, found)
    if not _settle(table, path.challenge, path.player, lambda item: item["sk"] == key.sk):
        raise NotFound(f"path: {path.player} has not found it")


def withdraw_player(table: Table, path: PlayerPath) -> None:
    """Take back all that a player has found, 99 paths at a time. Raises NotFound.

    Costs 2 RCU per 4 KB of the player's paths, which are read again, and 2 WCU for each path and 2 or 4 for
    the progress. It may be repeated when it fails half-way: at any moment the progress is the paths' number.
    """
    if not _settle(table, path.challenge, path.player, lambda _: True):
        raise NotFound(f"player: {path.player} has found nothing in {path.challenge}")


def mend(table: Table, challenge: str, player: str) -> None:
    """Count a player's paths again, where the progress is not a number that can be theirs.

    The stream takes the mended progress in full, for the damaged one counted for nothing.
    """
    _settle(table, challenge, player, lambda _: False)


def _settle(table: Table, challenge: str, player: str, goes: Callable[[Item], bool]) -> bool:
    """Delete the paths that go, and write how many are left; False when there was nothing to take back."""
    changed = False
    key = challenges.progress_key(challenge, player)
    for _ in range(ROUNDS):
        seen = held(table, challenge, player)
        going = [item for item in seen.paths if goes(item)][: TRANSACTION - 1]
        kept = [item for item in seen.paths if item not in going]
        if not going and _is_right(seen.progress, len(kept)):
            return changed
        refused = table.transact([*map(_deletion, going), _counted(key, seen.progress, kept)])
        changed = changed or (not refused and (bool(going) or not kept))
    raise Busy(f"{player} is finding paths: try again in a moment.")


def _is_right(progress: Item | None, paths: int) -> bool:
    """Tell whether a progress is the number of the paths; of none, there is no progress."""
    if progress is None or not paths:
        return progress is None and not paths
    return challenges.is_count(progress.get("found")) and progress["found"] == min(paths, MOST)


def _deletion(item: Item) -> dict[str, Any]:
    key = {"pk": item["pk"], "sk": item["sk"]}
    return {"Delete": {"Key": key, "ConditionExpression": "attribute_exists(pk)"}}


def _counted(key: Key, seen: Item | None, kept: list[Item]) -> dict[str, Any]:
    """Write down how many paths are left, on condition that it still says what was read; none: no item."""
    names = {"#found": "found", "#latest": "latest"}
    values = {f":was_{name}": seen[name] for name in names.values() if seen and name in seen}
    condition = " AND ".join(
        f"#{name} = :was_{name}" if f":was_{name}" in values else f"attribute_not_exists(#{name})"
        for name in names.values()
    )
    action: dict[str, Any] = {
        "Key": key._asdict(),
        "ConditionExpression": condition,
        "ExpressionAttributeNames": names,
    }
    if kept:
        latest = max(map(_time, kept))
        action["UpdateExpression"] = "SET #found = :found, #latest = :latest"
        action["ExpressionAttributeValues"] = values | {
            ":found": min(len(kept), MOST),  # a version without a limit may have left more
            ":latest": latest,
        }
        return {"Update": action}
    if values:
        action["ExpressionAttributeValues"] = values
    return {"Delete": action}


def _time(item: Item) -> int:
    """Read when a path was found; one whose item does not say it was the first."""
    time = item.get("time")
    return time if isinstance(time, int) and 0 <= time < 10**14 else 0


def _text(item: Item) -> str:
    """Read a path as it was submitted, or else as it is keyed."""
    text = item.get("path")
    return text if isinstance(text, str) else str(item["sk"]).removeprefix("PATH#")
