"""Submit scores, remove players, and rank scores.

| item | pk | sk | holds |
|---|---|---|---|
| score | `PLAYER#<player>` | `BOARD#<board>#<season>` | `score`, `time`, `scale`, `name`, `metadata`; |
| | | | `version`, `depth`, gsi1 |
| activity | `PLAYER#<player>` | `ACTIVITY#<board>#<id>` | its `value`, `time`, `name`, `metadata`; |
| | | | `season`, `version` |

A submission is two writes. The activity is put first. Its key contains no season, so each id of a player
counts once and in one season. Then `apply_activity` changes the score. The submission, its retry and the
stream call that function for any activity that the score may lack.

Invariant: an activity changes its score once. `version` of a score is a millisecond, which each write makes
greater, on condition that it is as read. The operators `best` and `set` compare values and times, so a second
change has no effect. A score of `increment` remembers its activities by their tags (aggregates/tags.py). The
`version` of the score protects `applied` and `spilled`. A removed player's item keeps `since`. Activities
until then are void. The item expires when the stream can no longer deliver one.

`before` has earlier and better positions, until the stream has passed the change (`standings.py`).
"""

import contextlib
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from functools import partial
from typing import Any, NamedTuple

from msgspec import UNSET, UnsetType

from chalicelib import times
from chalicelib.aggregates.sums import Amount
from chalicelib.aggregates.tags import find_counted, keep, make_tag
from chalicelib.api import codec
from chalicelib.api.auth import Caller
from chalicelib.api.schemas import parse_instant
from chalicelib.concurrency import map_concurrently
from chalicelib.context import Context
from chalicelib.dynamo.items import Images, Item, Key, Range
from chalicelib.dynamo.table import Table
from chalicelib.errors import Busy, Forbidden, NotFound, Unprocessable
from chalicelib.leaderboards import boards
from chalicelib.leaderboards.boards import Board
from chalicelib.leaderboards.schemas import MAX_METADATA, ScoreBody, ScoreResult
from chalicelib.ranking.ranking import Ranked, Ranking, choose_depth, count_player, index_key, read_paths
from chalicelib.ranking.tree import TIE, Nodes, Scale, is_counted_better

MAX_CLOCK_SKEW = timedelta(minutes=5)  # of a client's clock ahead of ours
MAX_SEASONS = 10_000  # of a board: 27 years of daily seasons
MAX_ATTEMPTS = 20  # of one change, while other submissions of the same player succeed
TAGS = 30  # of a score, whose item has more attributes beside them than a sum and stays under 1 KB
MAX_BEFORE = 4  # earlier positions that a score keeps until the stream has passed them
DELIVERY = timedelta(hours=25)  # after which no activity is applied: a tag is kept an hour longer
DAY = 24 * 3600  # seconds
FOLLOWED: dict[str, dict[str, Any]] = {  # the attributes that `follow` reads, by the kind of the item
    "ACTIVITY": {"value": int | Decimal, "time": str, "season": int, "version": int},
    "BOARD": {"version": int},
}


class Submission(NamedTuple):
    """A valid value for a player. `time` is in the format of `times.to_sort_key`."""

    player: str
    id: str
    value: Decimal
    time: str
    name: str | None = None
    metadata: dict[str, Any] | None = None


# -- keys ----------------------------------------------------------------------------------------------


def score_key(board: str, season: int, player: str) -> Key:
    """Return the key of a player's score in a season of a board."""
    return Key(f"PLAYER#{player}", f"BOARD#{board}#{season}")


def activity_key(board: str, player: str, id: str) -> Key:
    """Return the key of a submission. It does not depend on the season."""
    return Key(f"PLAYER#{player}", f"ACTIVITY#{board}#{id}")


# -- submit --------------------------------------------------------------------------------------------


def submit(context: Context, name: str, body: ScoreBody, caller: Caller) -> tuple[ScoreResult, bool]:
    """Apply a submission to a player's score. Return whether its id is new. A known id changes nothing.

    `increment` adds the value, `best` keeps the better value, and `set` keeps the value with the latest time.
    A value that does not change the score is stored as an activity all the same.

    Cost: 2 RCU and 4 WCU, 3 WCU for a new player, and 1 WCU for a value that changes nothing. A new player,
    and a move to another bucket, also read what `choose_depth` does. 1 more RCU for a known id. 1 more WCU
    for the first display name on a board. 1 more RCU and 4 WCU for the first of a season that recurs.
    Raises: as `prepare` and `write` do.
    """
    board, submission, score = prepare(context, name, body, caller)
    is_new, after = write(context, board, submission, score)
    return ScoreResult(player=submission.player, score=after.get("score") if after else None), is_new


def prepare(
    context: Context, name: str, body: ScoreBody, caller: Caller
) -> tuple[Board, Submission, Item | None]:
    """Validate a submission. Return the board, the submission, and the player's score as it is now.

    Cost: 2 RCU.
    Raises: NotFound, Forbidden for another player's score and where the board does not let the caller
    submit, BadRequest, Unprocessable for a value out of range and for metadata that the board does not take.
    """
    player = body.player or caller.sub
    time = parse_time(body.time, context.now)

    def keys(board: Board) -> list[Key]:
        return [score_key(name, board.season, player)]

    board, items = boards.find_with_items(context, name, 0, keys, consistent=True)
    check_submitter(board, player, caller)
    name_of_player = caller.name if player == caller.sub else None
    value, metadata = validate_value(board, body.value), validate_metadata(board, body.metadata)
    submission = Submission(player, body.id, value, time, name_of_player, metadata)
    return board, submission, items.get(keys(board)[0])


def predict(context: Context, board: Board, submission: Submission, score: Item | None) -> int:
    """Return the number that orders the player after a submission whose id is new.

    Raises: Unprocessable for a sum out of range.
    """
    activity = _build_activity(board, submission, score, context.now)
    if score and not is_pending(board, score, activity):
        return int(score["gsi1sk"])
    value, time = _add_up(board, activity, score), _reached(board, activity, score)
    return number(board, submission.player, value, time)


def write(
    context: Context, board: Board, submission: Submission, score: Item | None, nodes: Nodes | None = None
) -> tuple[bool, Item | None]:
    """Put a submission's activity and apply it to the score, which was read before.

    Return whether the id is new, and the score in the board's season. `nodes` are those on the path of the
    number that `predict` returns, if they were read.

    Cost: as for `submit`, without the first read.
    Raises: Unprocessable for a sum out of range, Busy after repeated concurrent submissions.
    """
    if board.operator == "increment":
        _add(board, score, submission.value)
    if not board.is_stored:
        boards.begin_season(context, board)
    if submission.name and not board.has_names:
        boards.note_names(context.table, board)
    activity = _build_activity(board, submission, score, context.now)
    if context.table.put(activity, condition="attribute_not_exists(pk)"):
        return True, apply_activity(context.table, board, activity, score, nodes)
    stored = context.table.get(activity_key(board.name, submission.player, submission.id), consistent=True)
    if stored and stored["season"] != board.season:
        if may_be_pending(stored, context.now):
            earlier = board._replace(season=stored["season"])
            apply_activity(
                context.table, earlier, stored, _read_score(context.table, earlier, submission.player)
            )
    elif stored and may_be_pending(stored, context.now):
        return False, apply_activity(context.table, board, stored, score)
    return False, _read_score(context.table, board, submission.player)


def write_first(context: Context, board: Board, submissions: Sequence[Submission]) -> list[bool]:
    """Write the first submissions of different players, without names. Return for each whether it is new.

    The activities are put, 25 in a request, and then the scores of those that were new. A submission that is
    not new is left as it is: `write` completes it.

    Cost: 3 WCU for each. 0.5 RCU for each node of their paths.
    Raises: Busy.
    """
    if not board.is_stored:
        boards.begin_season(context, board)
    activities = [_build_activity(board, submission, None, context.now) for submission in submissions]
    are_new = context.table.put_new(activities)
    new = [activity for activity, is_new in zip(activities, are_new, strict=True) if is_new]
    numbers = (
        number(board, submission.player, submission.value, submission.time) for submission in submissions
    )
    nodes = read_paths(context.table, board.ranking, numbers)
    scores = [_change(context.table, board, activity, None, nodes) for activity in new]
    for activity, score in zip(new, scores, strict=True):
        _add_activity(board, activity, None, score)
    for activity, is_written in zip(new, context.table.put_new(scores), strict=True):
        if not is_written:
            apply_activity(context.table, board, activity, None)
    return are_new


def _build_activity(board: Board, submission: Submission, score: Item | None, now: datetime) -> Item:
    fields = {"value": submission.value, "time": submission.time, "season": board.season}
    fields["version"] = max(times.milliseconds(now), int((score or {}).get("version", 0)) + 1)
    fields |= {"name": submission.name} if submission.name else {}
    fields |= {"metadata": submission.metadata} if submission.metadata is not None else {}
    return activity_key(board.name, submission.player, submission.id)._asdict() | fields


def may_be_pending(activity: Item, now: datetime) -> bool:
    """Return whether a stored activity may not be in its score."""
    return bool(activity["version"] > times.milliseconds(now - DELIVERY))


def is_pending(board: Board, score: Item | None, activity: Item) -> bool:
    """Return whether the score's item shows that an activity is not applied yet."""
    if score is None:
        return True
    if activity["version"] <= score.get("since", 0):
        return False
    if "score" not in score:  # removed before
        return True
    value = Decimal(activity["value"])
    if board.operator == "increment":
        return tag(activity) not in score.get("applied", ())
    if board.operator == "set":
        order = (activity["time"], activity["version"], value)
        return order > (score["time"], score["version"], Decimal(score["score"]))
    best = Decimal(score["score"])
    if value == best:  # where it decides, the time does not depend on the order of arrival
        return (board.ties == "first" or board.metadata) and activity["time"] < score["time"]
    return value > best if board.order == "desc" else value < best


def apply_activity(
    table: Table, board: Board, activity: Item, score: Item | None, nodes: Nodes | None = None
) -> Item | None:
    """Apply an activity to its score, as it was read, unless that has been done. Return the score.

    Idempotent. The board is in the activity's season. `nodes` are those on the path of the new number.

    Cost: 1 WCU and 2 for the index, or 1 for a new player. Nothing if it is done. At most 4 RCU for guard
    pages if the activity is not newer than `spilled`. Each 30th increment of a player costs about 4 WCU more.
    Raises: Unprocessable for a sum out of range, whose activity is deleted. Busy.
    """
    key = score_key(board.name, board.season, activity["pk"].removeprefix("PLAYER#"))
    for attempt in range(MAX_ATTEMPTS):
        if not is_pending(board, score, activity) or _has_counted(table, key, score, activity):
            return score
        refusal = None
        try:
            after = _change(table, board, activity, score, None if attempt else nodes)
        except Unprocessable as error:
            refusal, after = error, dict(score or {})  # the tag alone, so that nobody applies the activity
        pages = _add_activity(board, activity, score, after)
        if _replace(table, key, score, after, pages):
            if refusal is None:
                return after
            values = {":version": activity["version"]}
            table.delete(Key(activity["pk"], activity["sk"]), condition="version = :version", values=values)
            raise refusal
        score = table.get(key, consistent=True)
        table.back_off(attempt)
    raise Busy("Other submissions of this player are being written. Please retry.")


def _add_activity(board: Board, activity: Item, score: Item | None, after: Item) -> list[dict[str, Any]]:
    """Add the version and the tag of the activity to a changed score. Return the updates of guard pages."""
    before = score or {}
    after["version"] = max(activity["version"], before.get("version", 0) + 1)
    if board.operator != "increment":
        return []
    key = score_key(board.name, board.season, activity["pk"].removeprefix("PLAYER#"))
    kept = keep(key, before, {tag(activity)}, after["version"] // 1000, TAGS)
    after.pop("applied", None)
    after |= {"applied": kept.applied} if kept.applied else {}
    after |= {"spilled": kept.spilled} if kept.spilled else {}
    return kept.pages


def _read_score(table: Table, board: Board, player: str) -> Item | None:
    return table.get(score_key(board.name, board.season, player), consistent=True)


def tag(activity: Item) -> bytes:
    """Return the tag of an activity: the second of its `version`, and a hash of its id."""
    return make_tag(activity["sk"].split("#", 2)[2], activity["version"] // 1000)


def _has_counted(table: Table, key: Key, score: Item | None, activity: Item) -> bool:
    """Return whether a score, which was read before, or its guard pages have the tag of an activity."""
    return bool(score and find_counted(table, key, score, [tag(activity)]))


def _change(
    table: Table, board: Board, activity: Item, score: Item | None, nodes: Nodes | None = None
) -> Item:
    """Return the score after an activity. Raises Unprocessable for a sum out of range."""
    before, player = score or {}, activity["pk"].removeprefix("PLAYER#")
    value, time, ranking = _add_up(board, activity, score), _reached(board, activity, score), board.ranking
    entry = index_key(ranking, player, number(board, player, value, time))
    depth = choose_depth(table, ranking, entry["gsi1sk"], before, nodes)
    changed = {"score": value, "scale": list(board.scale), "shards": board.shards, "time": time}
    kept: Item = {name: before[name] for name in ("applied", "spilled", "since", "name") if name in before}
    kept |= {"name": activity["name"]} if "name" in activity else {}
    latest = activity if time == activity["time"] else before
    kept |= {"metadata": latest["metadata"]} if "metadata" in latest else {}
    after = score_key(board.name, board.season, player)._asdict() | changed | kept | entry | {"depth": depth}
    path = ranking.scale.path(entry["gsi1sk"])
    better = [
        [n, d]
        for n, d in list_positions(before)
        if is_counted_better(ranking.scale.path(int(n)), int(d), path, depth)
    ]
    after |= {"before": better[:MAX_BEFORE]} if better else {}
    return after


def list_positions(score: Item) -> list[list[int]]:
    """Return the positions at which the tree may count a player, the best first: numbers and depths."""
    current = [[score["gsi1sk"], score["depth"]]] if "depth" in score else []
    return sorted([*score.get("before", ()), *current], reverse=True)


def _add_up(board: Board, activity: Item, score: Item | None) -> Decimal:
    """Return the score after an activity that is pending. Raises Unprocessable for a sum out of range."""
    value = Decimal(activity["value"])
    return _add(board, score, value) if board.operator == "increment" else value


def _reached(board: Board, activity: Item, score: Item | None) -> str:
    """Return when the player has reached the score that an activity which is pending leads to."""
    time = str(activity["time"])
    return max(time, (score or {}).get("time", "")) if board.operator == "increment" else time


def number(board: Board, player: str, score: Decimal, time: str) -> int:
    """Return the number that orders a player with a score, reached at a time in the form of a sort key.

    Raises: ValueError for a score off the scale.
    """
    reached = times.milliseconds(times.from_sort_key(time))
    return board.ranking.number(board.scale.merit(score), player, reached)


def _add(board: Board, score: Item | None, value: Decimal) -> Decimal:
    """Return a score and a value. Raises Unprocessable for a sum that leaves the range of the ranking."""
    total = Decimal((score or {}).get("score", 0)) + value
    try:
        return board.scale.write(board.scale.units(total))
    except ValueError:
        raise Unprocessable(f"`value` must keep the score within the range of {board.name[:40]}") from None


def _replace(
    table: Table, key: Key, score: Item | None, after: Item, pages: Sequence[dict[str, Any]] = ()
) -> bool:
    """Write a score in place of the one that was read. Return False if it has changed since.

    The updates of guard pages are in the same transaction.
    """
    condition = "attribute_not_exists(pk)"
    values: dict[str, Any] = {}
    if score:
        condition, values = "version = :was", {":was": score["version"]}
        if depth := score.get("depth"):  # the stream deepens a player without another version
            condition, values = f"{condition} AND #depth = :depth", values | {":depth": depth}
    names = {"#depth": "depth"} if ":depth" in values else {}
    if not pages:
        return table.put(after, condition=condition, values=values, names=names)
    put: dict[str, Any] = {"Item": after, "ConditionExpression": condition}
    put |= {"ExpressionAttributeNames": names} if names else {}
    put |= {"ExpressionAttributeValues": values} if values else {}
    return not table.transact([{"Put": put}, *pages])


# -- remove --------------------------------------------------------------------------------------------


def remove_player(context: Context, name: str, player: str, caller: Caller) -> None:
    """Remove a player's scores in all seasons of a board. A player without a score changes nothing.

    The activities stay, so that a repeated submission does not count again. Nothing shows their metadata,
    which `ops erase` removes. The score's item is kept for two days without the score, so that no earlier
    submission brings the player back.

    Cost: 0.5 RCU, 1 RCU per 4 KB of scores, and 2 WCU per season.
    Raises: NotFound for the board, Forbidden, Busy.
    """
    boards.find(context, name)
    check_player(player, caller)
    first = score_key(name, 0, player)
    prefix = first.sk.removesuffix("0")
    scores = context.table.query(Range(first.pk, (prefix, f"{prefix}~")), limit=MAX_SEASONS, consistent=True)
    map_concurrently(partial(_remove, context), scores.items, "remove")


def _remove(context: Context, item: Item) -> None:
    score: Item | None = item
    for attempt in range(MAX_ATTEMPTS):
        if not score or "score" not in score:
            return
        key, version = (
            Key(score["pk"], score["sk"]),
            max(times.milliseconds(context.now), score["version"] + 1),
        )
        after = key._asdict() | {"version": version, "since": version, "ttl": version // 1000 + 2 * DAY}
        after |= {"before": list_positions(score)[:MAX_BEFORE]} if "depth" in score else {}
        if _replace(context.table, key, score, after):
            return
        score = context.table.get(key, consistent=True)
        context.table.back_off(attempt)
    raise Busy("Submissions of this player are being written. Please retry.")


# -- validation ----------------------------------------------------------------------------------------


def check_player(player: str, caller: Caller) -> None:
    """Raise Forbidden if a caller who is no admin acts for another player."""
    if player != caller.sub and not caller.admin:
        raise Forbidden("Only an admin may act for another player.")


def check_submitter(board: Board, player: str, caller: Caller) -> None:
    """Raise Forbidden if a board does not let a caller submit a player's score."""
    if board.submit == "server" and not (caller.admin or caller.scores):
        raise Forbidden("Scores of this board come from its server: a token with the scope `scores`.")
    if caller.guest and not board.guests:
        raise Forbidden("Guests may not submit to this board. Sign in with an account.")
    if board.submit == "player":
        check_player(player, caller)


def parse_time(text: str | None, now: datetime) -> str:
    """Return an instant in the format of `times.to_sort_key`. The default is now.

    Raises: BadRequest for a malformed instant, Unprocessable for one in the future.
    """
    if text is None:
        return times.to_sort_key(now)
    time = parse_instant("time", text)
    if time > now + MAX_CLOCK_SKEW:
        raise Unprocessable("`time` must not be in the future")
    return times.to_sort_key(time)


def validate_value(board: Board, value: Decimal) -> Decimal:
    """Return a value in its canonical form. Raises Unprocessable if the board does not accept it."""
    try:
        return board.value_scale.write(board.value_scale.units(value))
    except ValueError as error:
        raise Unprocessable(f"`value` {error}") from None


def validate_metadata(board: Board, metadata: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return the metadata of a submission. Raises Unprocessable if the board does not accept it."""
    if metadata is not None and not board.metadata:
        raise Unprocessable("`metadata` needs a leaderboard that is defined with `metadata`")
    if len(codec.encode(metadata).encode()) > MAX_METADATA:
        raise Unprocessable(f"`metadata` must be at most {MAX_METADATA} bytes")
    return metadata


def show_metadata(board: Board, score: Item) -> dict[str, Any] | UnsetType | None:
    """Return the metadata of a score as responses have it."""
    return score.get("metadata") if board.metadata else UNSET


# -- the stream ----------------------------------------------------------------------------------------


def rank(item: Item) -> Ranked | None:
    """Return the player that a score ranks. The item of a removed player ranks nobody."""
    is_score = item["pk"].startswith("PLAYER#") and item["sk"].startswith("BOARD#")
    if not is_score or ("since" in item and "score" not in item):
        return None
    season, player = Ranking(item["sk"], Scale(*item["scale"]), item["shards"]), item["pk"][len("PLAYER#") :]
    number = season.scale.merit(item["score"]) * TIE + item["gsi1sk"] % TIE
    return Ranked(season, player, number, item["depth"], item.get("before", ()))


def contribution(item: Item) -> dict[tuple[Key, str], Amount]:
    """Return the amounts that a score adds to the ranking of its season.

    Raises: ValueError for a score or an activity that `follow` could not handle.
    """
    if item["pk"].startswith("PLAYER#"):
        kind, _, rest = item["sk"].partition("#")
        for name, types in FOLLOWED.get(kind, {}).items():
            if "#" not in rest or not isinstance(item.get(name), types):
                raise ValueError(f"{item['sk']}: `{name}` is {item.get(name)!r}")
    ranked = rank(item)
    return count_player(ranked) if ranked else {}


def follow(context: Context, changes: Iterable[Images]) -> None:
    """Apply the activities of a batch of the stream to scores that lack them, and clear `before`.

    Idempotent. An activity whose score is in the same batch costs nothing but the board's definition.

    Cost: 0.5 RCU for each board, 1 RCU for each score that is not in the batch.
    """
    activities: list[Item] = []
    images: dict[Key, Item] = {}
    for key, _, new in changes:
        if key.pk.startswith("PLAYER#") and key.sk.startswith("BOARD#") and new:
            latest = images.get(key, new)  # whatever the order: only the record of the last change clears
            images[key] = max(latest, new, key=lambda item: item.get("version", 0))
        elif key.pk.startswith("PLAYER#") and key.sk.startswith("ACTIVITY#") and new:
            activities.append(new)
    for key, image in images.items():
        _clear_before(context.table, key, image)
    names = {activity["sk"].split("#", 2)[1] for activity in activities}
    found = {name: _find_or_none(context, name) for name in names}
    pending: list[tuple[Board, Item, Key]] = []
    for activity in activities:
        if current := found[activity["sk"].split("#", 2)[1]]:
            board = current._replace(season=activity["season"])
            key = score_key(board.name, board.season, activity["pk"].removeprefix("PLAYER#"))
            is_applied = key in images and not is_pending(board, images[key], activity)
            if not is_applied and may_be_pending(activity, context.now):
                pending.append((board, activity, key))
    _complete_activities(context.table, pending)


def _clear_before(table: Table, key: Key, score: Item) -> None:
    """Clear `before`, which the stream has passed."""
    if "before" in score:
        names, values = {"#before": "before"}, {":version": score["version"]}
        table.update(
            key, "REMOVE #before", condition="version = :version", names=names, values=values, idempotent=True
        )


def _complete_activities(table: Table, pending: Sequence[tuple[Board, Item, Key]]) -> None:
    """Apply activities to their scores unless the item has them, or the activity was erased."""
    scores = table.get_many((key for _, _, key in pending), consistent=True)
    for board, activity, key in pending:
        if key in scores or table.get(Key(activity["pk"], activity["sk"]), consistent=True):
            with contextlib.suppress(Unprocessable):
                if after := apply_activity(table, board, activity, scores.get(key)):
                    scores[key] = after


def _find_or_none(context: Context, name: str) -> Board | None:
    with contextlib.suppress(NotFound):
        return boards.find(context, name)
    return None
