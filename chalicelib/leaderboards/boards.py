"""Leaderboards as they are defined: their scale and rules, and their seasons.

| item | pk | sk | holds |
|---|---|---|---|
| board | `BOARD#<board>` | `DEFINITION` | what PUT says of it; `season`, `started` |
| past season | `BOARD#<board>` | `SEASON#<n>` | `started`, `ended` |

Each season is a ranking of its own, so a past one stays as it was. A date on which the board resets needs
nobody to act: from then on the definition is read as that of the next season.
"""

import itertools
from collections.abc import Callable, Iterable
from datetime import datetime
from decimal import Decimal
from functools import cache
from typing import Any, NamedTuple

from chalicelib import times
from chalicelib.api.router import Response
from chalicelib.dynamo.items import Item, Key
from chalicelib.dynamo.table import Table
from chalicelib.errors import BadRequest, Busy, Conflict, NotFound, Unprocessable
from chalicelib.leaderboards.schemas import BoardAnswer, BoardBody, SeasonBody
from chalicelib.ranking.ranking import Ranking, players
from chalicelib.ranking.tree import MOST, Scale

LASTING = ("decimals", "min", "max", "order", "operator", "shards")  # what every score depends on
REMEMBERED = 1_000  # boards
TRIES = 20  # of an admin who changes a board that others change at the same moment
UNKNOWN = "board: there is no leaderboard {}"


class Board(NamedTuple):
    """A leaderboard in one of its seasons."""

    name: str
    title: str
    unit: str
    decimals: int
    min: Decimal
    max: Decimal
    order: str
    operator: str
    shards: int
    season: int
    started: str
    resets: str | None

    @property
    def values(self) -> Scale:
        """Answer the scale of the values that may be submitted."""
        return _scale(self.decimals, self.min, self.max, self.order)

    @property
    def scale(self) -> Scale:
        """Answer the scale of scores: what sums of values may come to, too."""
        if self.operator != "increment":
            return self.values
        return self.values._replace(least=-MOST if self.min < 0 else 0, most=MOST if self.max > 0 else 0)

    @property
    def ranking(self) -> Ranking:
        """Answer the ranking of this season."""
        return Ranking(f"BOARD#{self.name}#{self.season}", self.scale, self.shards)

    @property
    def falls(self) -> bool:
        """Tell whether a score can get worse."""
        if self.operator == "increment":
            return self.min < 0 if self.order == "desc" else self.max > 0
        return self.operator == "set"


# -- keys ----------------------------------------------------------------------------------------------


def definition_key(board: str) -> Key:
    """Key what a board is, and the season that is on."""
    return Key(f"BOARD#{board}", "DEFINITION")


def season_key(board: str, season: int) -> Key:
    """Key a season that is over."""
    return Key(f"BOARD#{board}", f"SEASON#{season}")


# -- write ---------------------------------------------------------------------------------------------


def define(table: Table, name: str, body: BoardBody, now: datetime) -> Response[BoardAnswer]:
    """Make a board, or give one another title, unit or date to reset on.

    Whoever sends what is there already is answered, and nothing is written. Raises Conflict when it is there
    with another scale, operator or number of shards, Unprocessable for a range that is empty or too fine,
    Busy when others change it again and again. Costs 1 RCU and 1 WCU; a change 1.5 RCU and 2 WCU, after a
    season 4.
    """
    wanted = _wanted(name, body, now)
    for number in range(TRIES):
        found = table.get(definition_key(name), consistent=True)
        if found is None:
            if table.put(_item(wanted), condition="attribute_not_exists(pk)"):
                return Response(_described(wanted, 0), status=201)
            continue
        stored = _read(found)
        board = _current(stored, now)
        changed = [field for field in LASTING if getattr(board, field) != getattr(wanted, field)]
        if changed:
            raise Conflict(f"{changed[0]}: the scores of {name[:40]} depend on it; make another board")
        board = board._replace(title=wanted.title, unit=wanted.unit, resets=wanted.resets)
        if board == stored or _write(table, stored, board):
            return Response(_described(board, players(table, board.ranking)), status=200)
        table.back_off(number)
    raise Busy(f"{name[:40]} is being changed by others: try again in a moment.")


def reset(table: Table, name: str, body: SeasonBody, now: datetime) -> Response[BoardAnswer]:
    """End a season, unless it is over: the next one begins without players.

    When others change the board meanwhile, it is read again. Raises NotFound, Conflict for a season that is
    yet to come, and Busy when others change it again and again. Costs 1 RCU and 4 WCU.
    """
    for number in range(TRIES):
        found = table.get(definition_key(name), consistent=True)
        if found is None:
            raise NotFound(UNKNOWN.format(name[:40]))
        stored = _read(found)
        board = _current(stored, now)
        if body.season > board.season:
            raise Conflict(f"season: {name[:40]} is in season {board.season}")
        if body.season < board.season:
            return Response(_described(board, players(table, board.ranking)), status=200)
        following = board._replace(season=board.season + 1, started=times.to_iso(now), resets=None)
        if _write(table, stored, board, following):
            return Response(_described(following, 0), status=201)
        table.back_off(number)
    raise Busy(f"{name[:40]} is being changed by others: try again in a moment.")


def _write(table: Table, stored: Board, *later: Board) -> bool:
    """Write the last of some definitions over the stored one, and the seasons left behind.

    Return False when the stored definition is no longer what was read.
    """
    condition = "season = :season AND started = :started AND title = :title AND #unit = :unit"
    condition += " AND resets = :resets"
    values = {f":{name}": getattr(stored, name) for name in ("season", "started", "title", "unit", "resets")}
    definition = {"Item": _item(later[-1]), "ConditionExpression": condition}
    definition["ExpressionAttributeNames"] = {"#unit": "unit"}
    actions = [{"Put": definition | {"ExpressionAttributeValues": values}}]
    for before, after in itertools.pairwise((stored, *later)):
        if after.season > before.season:
            past = season_key(before.name, before.season)._asdict()
            actions.append({"Put": {"Item": past | {"started": before.started, "ended": after.started}}})
    return not table.transact(actions)


# -- read ----------------------------------------------------------------------------------------------


def find(table: Table, name: str, now: datetime, season: int = 0, *, consistent: bool = False) -> Board:
    """Answer a board in a season (0: the one that is on). Raises NotFound. Costs 0.5 RCU, consistent 1."""
    return _chosen(name, table.get(definition_key(name), consistent=consistent), now, season)


def find_with(
    table: Table,
    name: str,
    now: datetime,
    season: int,
    keys: Callable[[Board], Iterable[Key]],
    *,
    consistent: bool = False,
) -> tuple[Board, dict[Key, Item]]:
    """Answer a board, and items whose keys depend on it, in one round trip if the board is as it last was.

    What this process last met is a guess, never trusted. Costs 0.5 RCU a key and as much for the definition,
    consistent 1 each. Raises NotFound.
    """
    guess = _met().get(name)
    guessed = list(keys(guess._replace(season=season or guess.season))) if guess else []
    items = table.get_many([definition_key(name), *guessed], consistent=consistent)
    board = _chosen(name, items.get(definition_key(name)), now, season)
    if missing := [key for key in keys(board) if key not in guessed]:
        items |= table.get_many(missing, consistent=consistent)
    if not season or not guess:  # a past season is no guess for the one that is on
        if len(_met()) >= REMEMBERED:
            _met().clear()
        _met()[name] = board
    return board, items


def describe(table: Table, name: str, now: datetime, season: int = 0) -> BoardAnswer:
    """Answer a board, and how many players it ranks. Raises NotFound. Costs 1 RCU, with a season 1.5."""
    board = find(table, name, now, season)
    ended = None if _current(board, now) == board else board.resets  # nobody may have written it down yet
    if past := table.get(season_key(name, season)) if season else None:
        board, ended = board._replace(started=past["started"]), past["ended"]
    board = board._replace(resets=None) if ended else board
    return _described(board, players(table, board.ranking), ended)


@cache
def _met() -> dict[str, Board]:
    """Answer the boards that this process has met."""
    return {}


def _chosen(name: str, item: Item | None, now: datetime, season: int) -> Board:
    if item is None:
        raise NotFound(UNKNOWN.format(name[:40]))
    stored = _read(item)
    board = _current(stored, now)
    if season > board.season:
        raise NotFound(f"season: {name[:40]} is in season {board.season}")
    return stored if season == stored.season else board._replace(season=season or board.season)


def _current(board: Board, now: datetime) -> Board:
    """Answer a board as it is now: past its date, in its next season."""
    if not board.resets or times.parse(board.resets) > now:
        return board
    return board._replace(season=board.season + 1, started=board.resets, resets=None)


def _wanted(name: str, body: BoardBody, now: datetime) -> Board:
    """Check what a board is to be, as one in its first season."""
    fields = {field: getattr(body, field) for field in ("title", "unit", *LASTING)}
    try:
        resets = None if body.resets is None else times.to_iso(times.parse(body.resets))
    except ValueError as error:
        raise BadRequest(f"resets: {error}") from None
    board = Board(name=name, season=1, started=times.to_iso(now), resets=resets, **fields)
    if resets and times.parse(resets) <= now:
        raise Unprocessable("resets: it must be in the future")
    for field in ("min", "max"):
        try:
            Scale(-MOST, MOST, board.decimals, descending=True).units(getattr(board, field))
        except ValueError as error:
            raise Unprocessable(f"{field}: {error}") from None
    if board.min > board.max:
        raise Unprocessable("min: it must not be above max")
    return board


def _scale(decimals: int, least: Decimal, most: Decimal, order: str) -> Scale:
    units = Scale(-MOST, MOST, decimals, order == "desc")
    return units._replace(least=units.units(least), most=units.units(most))


def _item(board: Board) -> Item:
    fields = board._asdict()
    return definition_key(fields.pop("name"))._asdict() | fields


def _read(item: Item) -> Board:
    fields = {field: item[field] for field in Board._fields if field != "name"}
    return Board(name=item["pk"].removeprefix("BOARD#"), **fields)


def _described(board: Board, count: int, ended: str | None = None) -> BoardAnswer:
    fields: dict[str, Any] = board._asdict()
    return BoardAnswer(board=fields.pop("name"), players=count, ended=ended, **fields)
