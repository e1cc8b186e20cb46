"""A player's progress in a challenge: read it, and delete found paths.

| item | pk | sk | holds |
|---|---|---|---|
| progress | `CHALLENGE#<c…>#PLAYER#<p…>` | `PROGRESS` | `found`, `latest`, `ranked`, `name`; `drained` |
| found path | `CHALLENGE#<c…>#PLAYER#<p…>` | `PATH#<normalized>` | `path` as submitted, `answer`, `time` |
| statistics | `CHALLENGE#<challenge>` | `STATISTICS` | `players`, `paths`; `n1`…`n100`: players by `found`; |
| | | | what `finders.py` counts |

`ranked` is whether the challenge was ranked when the last path was found. The stream then puts the index key
and `depth` into the progress (`follow`), and the number in the index key ranks the player.

`time` is when the path was found, and `latest` is the time of the last one, in milliseconds since 1970. The
bucket of wrong guesses is `drained` (submissions.py), which is lost when all paths are withdrawn. A progress
with wrong guesses alone has `ttl`.

Invariant: `found` is the number of the player's found paths. Both change in one transaction, here and in
`submissions.py`. A deletion reads the progress before it queries the paths, and its transaction requires that
the progress is unchanged. This order matters, because a query may see a concurrent transaction in part. The
numbers of players are sums over progress alone, and those of finders over paths alone, so none depends on how
a batch of the stream groups the items.
"""

from collections.abc import Callable, Iterable
from typing import Any

from chalicelib import times
from chalicelib.aggregates.sums import Amount
from chalicelib.api.auth import Caller
from chalicelib.challenges import definitions, finders
from chalicelib.challenges import ranking as challenge_ranking
from chalicelib.challenges.schemas import MAX_FOUND, FoundPath, FoundPathParams, PlayerParams, Progress
from chalicelib.context import Context
from chalicelib.dynamo.items import Images, Item, Key, Range
from chalicelib.dynamo.table import TRANSACTION, Table
from chalicelib.errors import Busy, Forbidden, NotFound
from chalicelib.ranking.ranking import Ranked, Ranking, choose_depth, count_player, index_key

MAX_ATTEMPTS = 20  # of one change, while other changes of the same player succeed
MAX_PATHS_READ = 1000  # per player. The limit of a challenge allows 100.


# -- keys ----------------------------------------------------------------------------------------------


def progress_key(challenge: str, player: str) -> Key:
    """Return the key of a player's progress. Neither name contains a `#`."""
    return Key(f"CHALLENGE#{challenge}#PLAYER#{player}", "PROGRESS")


def path_key(challenge: str, player: str, path: str) -> Key:
    """Return the key of a normalized path that a player has found."""
    return Key(progress_key(challenge, player).pk, f"PATH#{path}")


# -- write ---------------------------------------------------------------------------------------------


def withdraw_path(table: Table, params: FoundPathParams) -> None:
    """Delete one of a player's paths, given in any notation. The player may find the path again.

    Cost: 1 RCU per 4 KB of the definition, 1 for the progress, 1 per 4 KB of the player's paths, and 4 WCU.
    Raises: NotFound, Busy after repeated concurrent changes.
    """
    normalized = definitions.load(table, params.challenge).normalize(params.path)
    key = path_key(params.challenge, params.player, normalized)
    if not _delete_paths(table, params.challenge, params.player, lambda item: item["sk"] == key.sk):
        raise NotFound(f"{params.player} has not found this path.")


def withdraw_player(table: Table, params: PlayerParams) -> None:
    """Delete all paths of a player, 99 per transaction.

    The call may be repeated if it fails after some of the transactions. The progress is right at any moment.

    Cost: 1 RCU for the progress, 1 per 4 KB of the player's paths, 2 WCU per path, and 2 for the progress.
    Raises: NotFound, Busy after repeated concurrent changes.
    """
    if not _delete_paths(table, params.challenge, params.player, lambda _: True):
        raise NotFound(f"{params.player} has found no path in {params.challenge}.")


def _delete_paths(table: Table, challenge: str, player: str, is_deleted: Callable[[Item], bool]) -> bool:
    """Delete the selected paths, and write the number of the others. Return whether anything was deleted."""
    is_changed = False
    key = progress_key(challenge, player)
    for _ in range(MAX_ATTEMPTS):
        progress = table.get(key, consistent=True)  # before the paths, so that the condition covers them
        paths = read_paths(table, challenge, player)
        to_delete = [item for item in paths if is_deleted(item)]
        batch = to_delete[: TRANSACTION - 1]
        remaining = [item for item in paths if item not in batch]
        if not to_delete and _is_consistent(progress, len(remaining)):
            return is_changed
        deletions = [_build_deletion(item) for item in batch]
        if not table.transact([*deletions, _build_progress_change(key, progress, remaining)]):
            is_changed = is_changed or bool(to_delete) or not remaining
            if batch == to_delete:
                return is_changed
    raise Busy(f"Other requests are changing the progress of {player}. Please retry.")


def _is_consistent(progress: Item | None, paths: int) -> bool:
    """Return whether a progress equals a number of paths. No progress equals none."""
    if progress is None:
        return not paths
    return bool(progress["found"] == paths)


def _build_deletion(item: Item) -> dict[str, Any]:
    key = {"pk": item["pk"], "sk": item["sk"]}
    return {"Delete": {"Key": key, "ConditionExpression": "attribute_exists(pk)"}}


def _as_it_was(item: Item, *attributes: str) -> tuple[str, dict[str, str], dict[str, Any]]:
    """Build the condition that attributes are as they were read, with its names and its values."""
    names = {f"#{name}": name for name in attributes}
    values = {f":was_{name}": item[name] for name in attributes if name in item}
    condition = " AND ".join(
        f"#{name} = :was_{name}" if name in item else f"attribute_not_exists(#{name})" for name in attributes
    )
    return condition, names, values


def _build_progress_change(key: Key, progress: Item | None, remaining: list[Item]) -> dict[str, Any]:
    """Build the action that writes the number of remaining paths, or deletes the progress if there are none.

    Its condition is that the progress is as it was read.
    """
    condition, names, values = _as_it_was(progress or {}, "found", "latest")
    action: dict[str, Any] = {
        "Key": key._asdict(),
        "ConditionExpression": condition,
        "ExpressionAttributeNames": names,
    }
    if remaining:
        action["UpdateExpression"] = "SET #found = :found, #latest = :latest REMOVE #ttl"
        action["ExpressionAttributeNames"] = names | {"#ttl": "ttl"}
        action["ExpressionAttributeValues"] = values | {
            ":found": len(remaining),
            ":latest": max(item["time"] for item in remaining),
        }
        return {"Update": action}
    if values:
        action["ExpressionAttributeValues"] = values
    return {"Delete": action}


# -- contribution --------------------------------------------------------------------------------------


def contribution(item: Item) -> dict[tuple[Key, str], Amount]:
    """Return the amounts that a player's progress adds to the statistics, and to the ranking if it is ranked.

    A player whose paths have all been withdrawn adds nothing. A found path adds to its finders.

    Raises: ValueError for a damaged item.
    """
    pk, sk = item["pk"], item["sk"]
    if finders.is_path(pk, sk):
        return finders.contribution(item)
    if sk != "PROGRESS" or not pk.startswith("CHALLENGE#"):
        return {}
    challenge, separator, _ = pk.removeprefix("CHALLENGE#").partition("#PLAYER#")
    found, latest = item.get("found"), item.get("latest", 0)
    if not separator or not is_count(found):
        raise ValueError(f"`found` must be a whole number from 0 to {MAX_FOUND}, and is {found!r}")
    if not isinstance(latest, int):
        raise ValueError(f"`latest` must be a whole number, and is {latest!r}")
    if not found:
        return {}
    key = finders.statistics_key(challenge)
    amounts: dict[tuple[Key, str], Amount] = {
        (key, "players"): 1,
        (key, "paths"): found,
        (key, f"n{found}"): 1,
    }
    ranked = rank(item)
    return amounts | count_player(ranked) if ranked else amounts


def rank(item: Item) -> Ranked | None:
    """Return the player that a progress ranks."""
    challenge, separator, player = item["pk"].removeprefix("CHALLENGE#").partition("#PLAYER#")
    if item["sk"] != "PROGRESS" or not separator or not item.get("found") or "depth" not in item:
        return None
    return Ranked(challenge_ranking.build_ranking(challenge), player, item["gsi1sk"], item["depth"])


def _number(ranking: Ranking, player: str, item: Item) -> int:
    return ranking.number(
        ranking.scale.merit(challenge_ranking.encode_score(item["found"], item["latest"])), player
    )


def follow(context: Context, changes: Iterable[Images]) -> None:
    """Put the index key into the progress of a batch's ranked players, and remove it from the others.

    Note the first finders of paths, too. Idempotent. An image that is no longer current changes nothing: its
    bucket may be deeper now, and the record of the later change follows.

    Cost: 1 WCU and 1 or 2 for the index, and what `choose_depth` reads. For finders what `note_first` does.
    """
    changes = list(changes)
    finders.note_first(context.table, changes)
    images = {key: new for key, _, new in changes if key.sk == "PROGRESS" and new}
    for key, item in images.items():
        challenge, _, player = key.pk.removeprefix("CHALLENGE#").partition("#PLAYER#")
        ranking = challenge_ranking.build_ranking(challenge)
        is_ranked = bool(item.get("ranked")) and item["found"] > 0
        number = _number(ranking, player, item) if is_ranked else None
        if number == item.get("gsi1sk") and is_ranked == ("depth" in item):
            continue
        condition, names, values = _as_it_was(item, "found", "latest", "gsi1sk", "depth")
        expression = "REMOVE gsi1pk, #gsi1sk, #depth"
        if number is not None:
            entry = index_key(ranking, player, number)
            values |= {f":{name}": value for name, value in entry.items()}
            values[":depth"] = choose_depth(context.table, ranking, number, item)
            expression = "SET gsi1pk = :gsi1pk, #gsi1sk = :gsi1sk, #depth = :depth"
        context.table.update(
            key,
            expression,
            condition=condition,
            names=names,
            values=values,
            idempotent=True,
        )


def is_count(found: Any) -> bool:
    """Return whether a value is a valid number of found paths."""
    return isinstance(found, int) and not isinstance(found, bool) and 0 <= found <= MAX_FOUND


# -- read ----------------------------------------------------------------------------------------------


def get_progress(table: Table, params: PlayerParams, caller: Caller) -> Progress:
    """Return the paths that a player has found, oldest first, to the player and to admins.

    Each path has the number of players that have found it. Nothing is told of other paths.

    Cost: 1 RCU per 4 KB (about 30 paths), and 0.5 more for a player without a path. What `finders.read` does.
    Raises: Forbidden, NotFound for the challenge.
    """
    if caller.sub != params.player and not caller.admin:
        raise Forbidden("Only the player and admins may read this progress.")
    paths = read_paths(table, params.challenge, params.player)
    if not paths:
        definitions.describe(table, params.challenge)
    paths.sort(key=lambda item: (item["time"], item["sk"]))
    # `found` counts the paths, because the query may see a concurrent transaction in part.
    found = finders.read(table, params.challenge, params.player, [item["answer"] for item in paths])
    items = [
        FoundPath(
            path=item["path"],
            time=times.to_iso(times.from_epoch(item["time"] // 1000)),
            players=found[item["answer"]].players,
            first=found[item["answer"]].is_first,
        )
        for item in paths
    ]
    return Progress(found=len(paths), paths=[item["path"] for item in paths], items=items)


def read_paths(table: Table, challenge: str, player: str) -> list[Item]:
    """Return the items of a player's found paths.

    Cost: 1 RCU per 4 KB, in one query.
    """
    pk = progress_key(challenge, player).pk
    return table.query(Range(pk, ("PATH#", "PATH$")), limit=MAX_PATHS_READ, consistent=True).items
