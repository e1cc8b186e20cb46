"""A player's progress in a challenge: shown, taken back by an admin, counted again where it is damaged.

The items are those of challenges.py. All of a player's paths are read in one query. What changes them and
their number is one transaction, on condition that the number is still what it was before the paths were
read: a query sees what is written meanwhile in part, and its own reading of the number would prove nothing.
"""

from collections.abc import Callable
from typing import Any

from chalicelib.api.auth import Caller
from chalicelib.challenges import definitions
from chalicelib.challenges.schemas import MOST, FoundPath, PlayerPath, Progress
from chalicelib.dynamo.items import Item, Key
from chalicelib.dynamo.table import TRANSACTION, Table
from chalicelib.errors import Busy, Forbidden, NotFound

ROUNDS = 20  # each that fails has met another change of the same player
HELD = 1000  # items that are read of a player; the limit allows 101


def show(table: Table, path: PlayerPath, caller: Caller) -> Progress:
    """Answer a player's paths, to the player and to admins; none for one who has not found any.

    Costs 1 RCU per 4 KB (about 30 paths), and 0.5 more for a player without any. Raises Forbidden, NotFound.
    """
    if caller.sub != path.player and not caller.admin:
        raise Forbidden("player: a player's progress is for the player and for admins.")
    found = sorted(held(table, path.challenge, path.player), key=lambda item: (_time(item), item["sk"]))
    if not found:
        definitions.find(table, path.challenge)
    # The paths say how many they are: a query may see a transaction's items one after the other.
    return Progress(found=len(found), paths=[_text(item) for item in found])


def held(table: Table, challenge: str, player: str) -> list[Item]:
    """Read a player's paths in one query. Costs 1 RCU per 4 KB."""
    pk = definitions.progress_key(challenge, player).pk
    return table.query(pk, ("PATH#", "PATH$"), limit=HELD, consistent=True).items


def withdraw_path(table: Table, path: FoundPath) -> None:
    """Take back one of a player's paths, in any notation. Raises NotFound.

    Costs 1 RCU per 4 KB of the definition, 1 for the progress, 1 per 4 KB of the player's paths, and 4 WCU.
    The player may find the path again if it is still an answer.
    """
    found = definitions.definition(table, path.challenge).normalized(path.path)
    key = definitions.path_key(path.challenge, path.player, found)
    if not _settle(table, path.challenge, path.player, lambda item: item["sk"] == key.sk):
        raise NotFound(f"path: {path.player} has not found it")


def withdraw_player(table: Table, path: PlayerPath) -> None:
    """Take back all that a player has found, 99 paths at a time. Raises NotFound.

    Costs 1 RCU for the progress, 1 per 4 KB of the player's paths, and 2 WCU for each path and 2 for the
    progress. It may be repeated when it fails half-way: at any moment the progress is the paths' number.
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
    key = definitions.progress_key(challenge, player)
    for _ in range(ROUNDS):
        seen = table.get(key, consistent=True)  # before the paths: who finds one meanwhile changes it
        paths = held(table, challenge, player)
        going = [item for item in paths if goes(item)]
        now = going[: TRANSACTION - 1]
        kept = [item for item in paths if item not in now]
        if not going and _is_right(seen, len(kept)):
            return changed
        if not table.transact([*map(_deletion, now), _counted(key, seen, kept)]):
            changed = changed or bool(going) or not kept
            if now == going:
                return changed
    raise Busy(f"{player} is finding paths: try again in a moment.")


def _is_right(progress: Item | None, paths: int) -> bool:
    """Tell whether a progress is the number of the paths; of none, there is no progress."""
    if progress is None or not paths:
        return progress is None and not paths
    return definitions.is_count(progress.get("found")) and progress["found"] == min(paths, MOST)


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
