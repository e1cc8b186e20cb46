"""Submit scores, remove players, and contribute scores to rankings.

| item | pk | sk | holds |
|---|---|---|---|
| score | `PLAYER#<player>` | `BOARD#<board>#<season>` | `score`, `scale`, `shards`, `time`, `changed` |
| activity | `PLAYER#<player>` | `ACTIVITY#<board>#<id>` | one submission: `value`, `time`, `season` |

Invariant: a score and its activities change in one transaction. The key of an activity contains no season, so
each id of a player counts once and in one season. A score contributes to the ranking of its season
(`chalicelib/ranking/ranking.py`), and to nothing else.
"""

from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, NamedTuple

from chalicelib import times
from chalicelib.aggregates.sums import Amount
from chalicelib.api.auth import Caller
from chalicelib.api.router import Response
from chalicelib.dynamo.items import Item, Key
from chalicelib.dynamo.table import Table
from chalicelib.errors import BadRequest, Busy, Forbidden, Unprocessable
from chalicelib.leaderboards import boards
from chalicelib.leaderboards.boards import Board
from chalicelib.leaderboards.schemas import ScoreBody, ScoreResult
from chalicelib.ranking import ranking
from chalicelib.ranking.ranking import Ranking
from chalicelib.ranking.tree import Scale

MAX_CLOCK_SKEW = timedelta(minutes=5)  # of a client's clock ahead of ours
MAX_SEASONS = 10_000  # of a board: more than 800 years of monthly seasons
MAX_ATTEMPTS = 8  # of one submission, while other submissions of the same player succeed


class Submission(NamedTuple):
    """A valid value for a player. `time` is in the format of `times.to_sort_key`."""

    player: str
    id: str
    value: Decimal
    time: str


# -- keys ----------------------------------------------------------------------------------------------


def score_key(board: str, season: int, player: str) -> Key:
    """Return the key of a player's score in a season of a board."""
    return Key(f"PLAYER#{player}", f"BOARD#{board}#{season}")


def activity_key(board: str, player: str, id: str) -> Key:
    """Return the key of a submission. It does not depend on the season."""
    return Key(f"PLAYER#{player}", f"ACTIVITY#{board}#{id}")


# -- write ---------------------------------------------------------------------------------------------


def submit(table: Table, name: str, body: ScoreBody, caller: Caller, now: datetime) -> Response[ScoreResult]:
    """Apply a submission to a player's score (201). A known id changes nothing (200).

    `increment` adds the value, `best` keeps the better value, and `set` keeps the value with the latest time.
    A value that does not change the score is stored as an activity all the same.

    Cost: 3 RCU and 4 WCU, in one transaction. The same again for each concurrent submission of the player.
    Raises: NotFound, Forbidden for another player's score, BadRequest, Unprocessable for a value out of
    range, Busy after repeated concurrent submissions.
    """
    player = resolve_player(body.player, caller)
    time = parse_time(body.time, now)

    def keys(board: Board) -> list[Key]:
        return [score_key(name, board.season, player)]

    board, items = boards.find_with_items(table, name, now, 0, keys, consistent=True)
    [key] = keys(board)
    score = items.get(key)
    submission = Submission(player, body.id, validate_value(board, body.value), time)
    for _ in range(MAX_ATTEMPTS):
        refused = table.transact(build_actions(board, submission, score, now))
        score = table.get(key, consistent=True)
        if refused != (0,):  # the transaction was applied, or the activity exists
            result = ScoreResult(player=player, score=score["score"] if score else None)
            return Response(result, status=200 if refused else 201)
        if board.operator == "increment":
            raise Unprocessable(f"value: the score would leave the range of {name[:40]}")
    raise Busy("Other submissions of this player are being written. Please retry.")


def build_actions(
    board: Board, submission: Submission, score: Item | None, now: datetime
) -> list[dict[str, Any]]:
    """Build the transaction of a submission: the change of the score as it was read, and the activity."""
    key = score_key(board.name, board.season, submission.player)
    if changes_score(board, score, submission):
        return [_build_score_update(board, key, submission, now), _build_activity_put(board, submission)]
    check = {"Key": key._asdict(), "ConditionExpression": "attribute_exists(score)"}
    return [{"ConditionCheck": check}, _build_activity_put(board, submission)]


def changes_score(board: Board, score: Item | None, submission: Submission) -> bool:
    """Return whether a submission changes a score. The condition of the transaction enforces the result."""
    if score is None or board.operator == "increment":
        return True
    if board.operator == "set":
        return bool(score["time"] <= submission.time)
    if board.order == "desc":
        return bool(submission.value > score["score"])
    return bool(submission.value < score["score"])


def remove_player(table: Table, name: str, player: str, caller: Caller, now: datetime) -> None:
    """Delete a player's scores in all seasons of a board. A player without a score changes nothing.

    The activities stay, so that a repeated submission does not count again.

    Cost: 0.5 RCU, 1 RCU per 4 KB of scores, and 1 WCU per season.
    Raises: NotFound for the board, Forbidden.
    """
    boards.find(table, name, now)
    resolve_player(player, caller)
    first = score_key(name, 0, player)
    prefix = first.sk.removesuffix("0")
    for item in table.query(first.pk, (prefix, f"{prefix}~"), limit=MAX_SEASONS, consistent=True).items:
        table.delete(Key(item["pk"], item["sk"]))


def _build_score_update(board: Board, key: Key, submission: Submission, now: datetime) -> dict[str, Any]:
    """Build the update of a score, with the condition that it changes the score."""
    scale = board.scale
    values = {
        ":value": submission.value,
        ":time": submission.time,
        ":scale": list(scale),
        ":n": board.shards,
        ":at": times.epoch(now),
    }
    if board.operator == "increment":
        expression, condition = "ADD score :value SET", "score BETWEEN :low AND :high"
        low, high = (scale.write(end) - submission.value for end in (scale.least, scale.most))
        values |= {":low": low, ":high": high}
    else:
        worse = "score < :value" if board.order == "desc" else "score > :value"
        expression, condition = "SET score = :value,", "#time <= :time" if board.operator == "set" else worse
    return {
        "Update": {
            "Key": key._asdict(),
            "UpdateExpression": f"{expression} #scale = :scale, shards = :n, #time = :time, changed = :at",
            "ConditionExpression": f"attribute_not_exists(score) OR {condition}",
            "ExpressionAttributeNames": {"#time": "time", "#scale": "scale"},
            "ExpressionAttributeValues": values,
        }
    }


def _build_activity_put(board: Board, submission: Submission) -> dict[str, Any]:
    """Build the write of an activity, with the condition that its id is new."""
    key = activity_key(board.name, submission.player, submission.id)._asdict()
    item = key | {"value": submission.value, "time": submission.time, "season": board.season}
    return {"Put": {"Item": item, "ConditionExpression": "attribute_not_exists(pk)"}}


# -- validation ----------------------------------------------------------------------------------------


def resolve_player(player: str | None, caller: Caller) -> str:
    """Return the player that a call is about. The default is the caller.

    Raises: Forbidden if a caller without admin scope names another player.
    """
    if player is None or player == caller.sub or caller.admin:
        return player or caller.sub
    raise Forbidden("player: only an admin may act for another player")


def parse_time(text: str | None, now: datetime) -> str:
    """Return an instant in the format of `times.to_sort_key`. The default is now.

    Raises: BadRequest for a malformed instant, Unprocessable for one in the future.
    """
    if text is None:
        return times.to_sort_key(now)
    try:
        time = times.parse(text)
    except ValueError as error:
        raise BadRequest(f"time: {error}") from None
    if time > now + MAX_CLOCK_SKEW:
        raise Unprocessable("time: must not be in the future")
    return times.to_sort_key(time)


def validate_value(board: Board, value: Decimal) -> Decimal:
    """Return a value in its canonical form. Raises Unprocessable if the board does not accept it."""
    try:
        return board.value_scale.write(board.value_scale.units(value))
    except ValueError as error:
        raise Unprocessable(f"value: {error}") from None


# -- contribution --------------------------------------------------------------------------------------


def contribution(item: Item) -> dict[tuple[Key, str], Amount]:
    """Return the amounts that a score adds to the ranking of its season."""
    if not (item["pk"].startswith("PLAYER#") and item["sk"].startswith("BOARD#")):
        return {}
    season_ranking = Ranking(item["sk"], Scale(*item["scale"]), item["shards"])
    return ranking.contribution(season_ranking, item["pk"].removeprefix("PLAYER#"), item["score"])
