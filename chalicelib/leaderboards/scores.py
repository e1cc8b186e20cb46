"""Scores: every submission counts once, and every score is in its season's ranking.

| item | pk | sk | holds |
|---|---|---|---|
| score | `PLAYER#<player>` | `BOARD#<board>#<season>` | `score`, `scale`, `shards`, `time`, `changed` |
| activity | `PLAYER#<player>` | `ACTIVITY#<board>#<id>` | one submission: `value`, `time`, `season` |

An activity's key is what makes it count once, for ever and in one season. What a score adds to its ranking
(`ranking.py`) is all that this file contributes; `standings.py` reads it.
"""

from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, NamedTuple

from chalicelib import times
from chalicelib.aggregates.sums import Amount
from chalicelib.api import cursors
from chalicelib.api.auth import Caller
from chalicelib.api.router import Response
from chalicelib.dynamo.items import Item, Key
from chalicelib.dynamo.table import Table
from chalicelib.errors import BadRequest, Busy, Forbidden, Unprocessable
from chalicelib.leaderboards import boards
from chalicelib.leaderboards.boards import Board
from chalicelib.leaderboards.score_schemas import (
    Activities,
    ActivitiesQuery,
    Activity,
    ScoreAnswer,
    ScoreBody,
)
from chalicelib.ranking import ranking
from chalicelib.ranking.ranking import Ranking
from chalicelib.ranking.tree import Scale
from chalicelib.settings import Settings

AHEAD = timedelta(minutes=5)  # that a client's clock may be
SEASONS = 10_000  # of a board: more than a thousand years of months
TRIES = 8  # of a submission that others of the same player overtake


class Submission(NamedTuple):
    """A value for a player that a board accepts; its time as it is kept."""

    player: str
    id: str
    value: Decimal
    time: str


# -- keys ----------------------------------------------------------------------------------------------


def score_key(board: str, season: int, player: str) -> Key:
    """Key a player's score in a season of a board."""
    return Key(f"PLAYER#{player}", f"BOARD#{board}#{season}")


def activity_key(board: str, player: str, id: str) -> Key:
    """Key one submission: the same player, board and id is the same item, in whichever season."""
    return Key(f"PLAYER#{player}", f"ACTIVITY#{board}#{id}")


# -- write ---------------------------------------------------------------------------------------------


def submit(table: Table, name: str, body: ScoreBody, caller: Caller, now: datetime) -> Response[ScoreAnswer]:
    """Take a value for a player; answer the score with it in, or 200 and the score as it is for a known id.

    `increment` adds; `best` keeps the better value, `set` the one of the latest time, so a value that comes
    late is kept as an activity and changes nothing. Raises NotFound, Forbidden for somebody else's score,
    Unprocessable for a value off the board's range. One transaction; costs 3 RCU and 4 WCU, once more for
    each submission of the same player that overtakes it.
    """
    player = whose(body.player, caller)
    time = moment(body.time, now)

    def keys(board: Board) -> list[Key]:
        return [score_key(name, board.season, player)]

    board, items = boards.find_with(table, name, now, 0, keys, consistent=True)
    [key] = keys(board)
    score = items.get(key)
    one = Submission(player, body.id, accepted(board, body.value), time)
    for _ in range(TRIES):
        refused = table.transact(actions(board, one, score, now))
        score = table.get(key, consistent=True)
        if refused != (0,):  # all is written, or the id was there
            answer = ScoreAnswer(player=player, score=score["score"] if score else None)
            return Response(answer, status=200 if refused else 201)
        if board.operator == "increment":
            raise Unprocessable(f"value: with it the score would leave the range of {name[:40]}")
    raise Busy("Other submissions of this player come in between: try again in a moment.")


def actions(board: Board, one: Submission, score: Item | None, now: datetime) -> list[dict[str, Any]]:
    """Write down a submission's transaction: what it does to a score that was read, and that it is new."""
    key = score_key(board.name, board.season, one.player)
    effect = _change(board, key, one, now) if counts(board, score, one) else _stays(key)
    return [effect, _activity(board, one)]


def counts(board: Board, score: Item | None, one: Submission) -> bool:
    """Tell whether a submission changes a score; the transaction holds it to that."""
    if score is None or board.operator == "increment":
        return True
    if board.operator == "set":
        return bool(score["time"] <= one.time)
    return bool(one.value > score["score"] if board.order == "desc" else one.value < score["score"])


def remove(table: Table, name: str, player: str, caller: Caller, now: datetime) -> None:
    """Take a player off a board, all its seasons; nothing happens to one who is not on it.

    The ids of submissions are kept, so that none counts again. Raises NotFound for the board, Forbidden.
    Costs 0.5 RCU, and 1 for 4 KB of seasons; 1 WCU a season.
    """
    boards.find(table, name, now)
    whose(player, caller)
    first = score_key(name, 0, player)
    prefix = first.sk.removesuffix("0")
    for item in table.query(first.pk, (prefix, f"{prefix}~"), limit=SEASONS, consistent=True).items:
        table.delete(Key(item["pk"], item["sk"]))


def _change(board: Board, key: Key, one: Submission, now: datetime) -> dict[str, Any]:
    """Write down the update of a score."""
    scale = board.scale
    values = {":value": one.value, ":time": one.time, ":scale": list(scale), ":n": board.shards}
    if board.operator == "increment":
        expression, condition = "ADD score :value SET", "score BETWEEN :low AND :high"
        values[":low"], values[":high"] = (scale.write(end) - one.value for end in (scale.least, scale.most))
    else:
        worse = "score < :value" if board.order == "desc" else "score > :value"
        expression, condition = "SET score = :value,", "#time <= :time" if board.operator == "set" else worse
    return {
        "Update": {
            "Key": key._asdict(),
            "UpdateExpression": f"{expression} #scale = :scale, shards = :n, #time = :time, changed = :at",
            "ConditionExpression": f"attribute_not_exists(score) OR {condition}",
            "ExpressionAttributeNames": {"#time": "time", "#scale": "scale"},
            "ExpressionAttributeValues": values | {":at": times.epoch(now)},
        }
    }


def _stays(key: Key) -> dict[str, Any]:
    """Write down that a score is there: a submission that does not count is kept beside it."""
    return {"ConditionCheck": {"Key": key._asdict(), "ConditionExpression": "attribute_exists(score)"}}


def _activity(board: Board, one: Submission) -> dict[str, Any]:
    """Write down a submission that must be new."""
    key = activity_key(board.name, one.player, one.id)._asdict()
    item = key | {"value": one.value, "time": one.time, "season": board.season}
    return {"Put": {"Item": item, "ConditionExpression": "attribute_not_exists(pk)"}}


def whose(player: str | None, caller: Caller) -> str:
    """Answer whom a call is about: its caller, or whom an admin names. Raises Forbidden."""
    if player is None or player == caller.sub or caller.admin:
        return player or caller.sub
    raise Forbidden("player: only an admin may act for somebody else")


def moment(text: str | None, now: datetime) -> str:
    """Read when a value was reached. Raises BadRequest, Unprocessable for the future."""
    if text is None:
        return times.to_sort_key(now)
    try:
        time = times.parse(text)
    except ValueError as error:
        raise BadRequest(f"time: {error}") from None
    if time > now + AHEAD:
        raise Unprocessable("time: it is in the future")
    return times.to_sort_key(time)


def accepted(board: Board, value: Decimal) -> Decimal:
    """Answer a value as it is kept. Raises Unprocessable for one that the board does not take."""
    try:
        return board.values.write(board.values.units(value))
    except ValueError as error:
        raise Unprocessable(f"value: {error}") from None


# -- contribution --------------------------------------------------------------------------------------


def contribution(item: Item) -> dict[tuple[Key, str], Amount]:
    """Say what a score adds to the ranking of its season."""
    if not (item["pk"].startswith("PLAYER#") and item["sk"].startswith("BOARD#")):
        return {}
    held = Ranking(item["sk"], Scale(*item["scale"]), item["shards"])
    return ranking.amounts(held, item["pk"].removeprefix("PLAYER#"), item["score"])


# -- read ----------------------------------------------------------------------------------------------


def activities(
    table: Table,
    name: str,
    player: str,
    query: ActivitiesQuery,
    caller: Caller,
    settings: Settings,
    now: datetime,
) -> Activities:
    """Answer a page of a player's submissions, by id. Raises NotFound, Forbidden, BadCursor.

    Costs 0.5 RCU, and as much for 4 KB (about 30 submissions).
    """
    boards.find(table, name, now)
    whose(player, caller)
    first = activity_key(name, player, "")

    def read_page(after: str) -> tuple[list[Item], str]:
        page = table.query(
            first.pk,
            (first.sk, first.sk[:-1] + "$"),  # the sign after #
            limit=query.limit,
            start={"pk": first.pk, "sk": after} if after else None,
        )
        return page.items, page.next["sk"] if page.next else ""

    submissions, cursor = cursors.paginate(settings, ("activities", name, player), query.cursor, read_page)
    items = [
        Activity(
            id=item["sk"].removeprefix(first.sk),
            value=item["value"],
            time=times.to_iso(times.parse(item["time"])),
            season=item["season"],
        )
        for item in submissions
    ]
    return Activities(items=items, cursor=cursor)
