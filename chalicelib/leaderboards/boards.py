"""Define leaderboards, and end their seasons.

| item | pk | sk | holds |
|---|---|---|---|
| board | `BOARD#<board>` | `DEFINITION` | the fields of `BoardBody`; `season`, `started`, `has_names`; |
| | | | `anchor`: an instant of the season, from which later ones are numbered |
| | | | gsi1 = `BOARDS`, sorted by the second of its creation |
| past season | `BOARD#<board>` | `SEASON#<n>` | `started`, `ended`; `resets`, `anchor` if seasons recurred |

Invariant: each season has a ranking of its own, so a past season never changes. No scheduled job ends a
season. It follows from the definition and the instant (`recurrence.py`), so all processes agree on it. The
first submission of a season stores it. A season without submissions has a number, and no item.
"""

import itertools
from collections.abc import Callable, Iterable
from datetime import datetime
from decimal import Decimal
from functools import cache
from typing import Any, NamedTuple

import msgspec

from chalicelib import times
from chalicelib.api import listing
from chalicelib.api.schemas import parse_instant
from chalicelib.context import Context
from chalicelib.dynamo.items import Images, Item, Key, Range
from chalicelib.dynamo.table import Table
from chalicelib.errors import BadRequest, Busy, Conflict, NotFound, Unprocessable
from chalicelib.feature import Notice
from chalicelib.leaderboards import schemas
from chalicelib.leaderboards.recurrence import Recurrence
from chalicelib.leaderboards.schemas import BoardBody, BoardDetails, Boards, ListedBoard, SeasonBody
from chalicelib.ranking.ranking import Ranking, count_players
from chalicelib.ranking.tree import MOST, Scale

MUTABLE_FIELDS = ("title", "unit", "resets", "submit", "guests", "metadata")
# Every score depends on the following fields.
IMMUTABLE_FIELDS = ("decimals", "min", "max", "order", "operator", "ties", "shards")
LIST = "BOARDS"
SEASON_DIGITS = 9  # so that keys order as seasons do
CACHE_SIZE = 1_000  # boards per process
MAX_ATTEMPTS = 20  # of one change, while other changes of the same board succeed


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
    resets: str | dict[str, str] | None
    submit: str = "player"
    guests: bool = True
    metadata: bool = False
    ties: str = "shared"
    created: int = 0  # the second of its creation, by which boards are listed
    has_names: bool = False  # some players have display names, which lists then read
    anchor: str = ""
    is_stored: bool = True  # the definition has this season

    @property
    def value_scale(self) -> Scale:
        """Return the scale of the values that may be submitted."""
        return _build_scale(self.decimals, self.min, self.max, self.order)

    @property
    def scale(self) -> Scale:
        """Return the scale of the scores. On an `increment` board it covers sums of values."""
        if self.operator != "increment":
            return self.value_scale
        least = -MOST if self.min < 0 else 0
        return self.value_scale._replace(least=least, most=MOST if self.max > 0 else 0)

    @property
    def ranking(self) -> Ranking:
        """Return the ranking of this season."""
        name = f"BOARD#{self.name}#{self.season}"
        return Ranking(name, self.scale, self.shards, self.ties == "shared")


# -- keys ----------------------------------------------------------------------------------------------


def definition_key(board: str) -> Key:
    """Return the key of a board's definition."""
    return Key(f"BOARD#{board}", "DEFINITION")


def season_key(board: str, season: int) -> Key:
    """Return the key of a past season."""
    return Key(f"BOARD#{board}", f"SEASON#{season:0{SEASON_DIGITS}}")


# -- write ---------------------------------------------------------------------------------------------


def define(context: Context, name: str, body: BoardBody) -> tuple[BoardDetails, bool]:
    """Create a board, or change its title, unit, reset date or who may submit. Return whether it is new.

    A request that equals the stored definition writes nothing.

    Cost: 1 RCU and 2 WCU for a new board. 1.5 RCU and 2 WCU for a change, or 4 WCU if a season has ended.
    Raises: BadRequest, Conflict if a field that scores depend on differs, Unprocessable for an empty range or
    one with too many decimals, Busy after repeated concurrent changes.
    """
    wanted = _parse_definition(name, body, context.now)
    for attempt in range(MAX_ATTEMPTS):
        item = context.table.get(definition_key(name), consistent=True)
        if item is None:
            if context.table.put(_to_item(wanted), condition="attribute_not_exists(pk)"):
                return _to_details(wanted, 0), True
            continue
        stored = parse(item)
        current = board = _as_of(stored, context.now)
        changed = [field for field in IMMUTABLE_FIELDS if getattr(board, field) != getattr(wanted, field)]
        if changed:
            raise Conflict(
                f"`{changed[0]}` cannot be changed, because the scores of {name[:40]} depend on it. "
                "Create another leaderboard."
            )
        board = board._replace(**{field: getattr(wanted, field) for field in MUTABLE_FIELDS})
        if board.resets != current.resets:  # the season goes on until the first border that follows
            board = board._replace(anchor=wanted.anchor)
        if board == stored or _replace_definition(context.table, stored, board):
            return _to_details(board, count_players(context.table, board.ranking)), False
        context.table.back_off(attempt)
    raise _too_many_changes(name)


def list_boards(context: Context, query: listing.ListQuery) -> Boards:
    """Return a page of the leaderboards, newest first.

    Cost: 0.5 RCU per 4 KB of index, and 0.5 RCU for each board.
    Raises: BadCursor.
    """
    page = listing.read_entries(context, LIST, query)
    items = context.table.get_many(Key(entry["pk"], entry["sk"]) for entry in page.items)
    found = [(entry, items.get(Key(entry["pk"], entry["sk"]))) for entry in page.items]
    return Boards(
        items=[
            ListedBoard(
                board=entry["pk"].removeprefix("BOARD#"),
                title=item["title"],
                season=item["season"],
                created=times.to_iso(times.from_epoch(entry["gsi1sk"])),
            )
            for entry, item in found
            if item
        ],
        cursor=page.cursor,
    )


def end_season(context: Context, name: str, body: SeasonBody) -> tuple[BoardDetails, bool]:
    """End a season and begin the next one without players, unless the season has ended before.

    Return the board, and whether this call has ended the season.

    Cost: 1 RCU and 4 WCU.
    Raises: NotFound, Conflict for a future season, Busy after repeated concurrent changes.
    """
    for attempt in range(MAX_ATTEMPTS):
        item = context.table.get(definition_key(name), consistent=True)
        if item is None:
            raise _not_found(name)
        stored = parse(item)
        board = _as_of(stored, context.now)
        if body.season > board.season:
            raise Conflict(f"The current season of {name[:40]} is {board.season}.")
        if body.season < board.season:
            return _to_details(board, count_players(context.table, board.ranking)), False
        resets, now = board.resets if isinstance(board.resets, dict) else None, times.to_iso(context.now)
        following = board._replace(season=board.season + 1, started=now, anchor=now, resets=resets)
        if _replace_definition(context.table, stored, board, following):
            return _to_details(following, 0), True
        context.table.back_off(attempt)
    raise _too_many_changes(name)


def begin_season(context: Context, board: Board) -> None:
    """Store the season that has begun, before its first submission is stored, and the one that was stored.

    Cost: 1 RCU and 4 WCU, once a season.
    Raises: Busy after repeated concurrent changes.
    """
    for attempt in range(MAX_ATTEMPTS):
        item = context.table.get(definition_key(board.name), consistent=True)
        if item is None:
            return
        stored = parse(item)
        current = _as_of(stored, context.now)
        if board.season < stored.season:  # another process is in the next season already
            past = _to_past_item(*_find_past(context.table, stored, board.season))
            context.table.put(past, condition="attribute_not_exists(pk)")
        if current.season <= stored.season or _replace_definition(context.table, stored, current):
            return
        context.table.back_off(attempt)
    raise _too_many_changes(board.name)


def note_names(table: Table, board: Board) -> None:
    """Note that players of a board have display names, before the first name is stored.

    Cost: 1 WCU.
    """
    values, condition = {":yes": True}, "attribute_exists(pk)"
    key = definition_key(board.name)
    table.update(key, "SET has_names = :yes", condition=condition, values=values, idempotent=True)


def _replace_definition(table: Table, stored: Board, *later: Board) -> bool:
    """Write the last of several successive definitions, and an item for each season that they end.

    Returns False if the stored definition has changed since it was read.
    """
    read = ("season", "started", "anchor", "has_names", *MUTABLE_FIELDS)
    condition = " AND ".join(f"#{name} = :{name}" for name in read)
    values = {f":{name}": getattr(stored, name) for name in read}
    definition = {"Item": _to_item(later[-1]), "ConditionExpression": condition}
    definition["ExpressionAttributeNames"] = {f"#{name}": name for name in read}
    actions = [{"Put": definition | {"ExpressionAttributeValues": values}}]
    for before, after in itertools.pairwise((stored, *later)):
        if after.season > before.season:
            ends = _find_end(before) or after.started
            ended = min(ends, after.started, key=times.parse)  # an empty season may have ended between them
            actions.append({"Put": {"Item": _to_past_item(before, ended)}})
    return not table.transact(actions)


def find_notice(change: Images, now: datetime) -> Notice | None:
    """Return the notice of a season that has ended, or None for any other change."""
    key, old, new = change
    if old or not (key.pk.startswith("BOARD#") and key.sk.startswith("SEASON#")):
        return None
    board, season = key.pk.removeprefix("BOARD#"), str(int(key.sk.removeprefix("SEASON#")))
    return Notice(
        kind="season",
        source=f"{key.pk}\n{key.sk}",
        subject=f"Season {season} of {board} has ended",
        text=f"Season {season} of the leaderboard {board} lasted from {new['started']} to {new['ended']}.",
        data={"board": board, "season": season, "started": new["started"], "ended": new["ended"]},
    )


# -- read ----------------------------------------------------------------------------------------------


def find(context: Context, name: str, season: int = 0, *, consistent: bool = False) -> Board:
    """Return a board in a season. Season 0 is the current one.

    Cost: 0.5 RCU, or 1 if consistent.
    Raises: NotFound.
    """
    return _in_season(
        name, context.table.get(definition_key(name), consistent=consistent), context.now, season
    )


def find_with_items(
    context: Context,
    name: str,
    season: int,
    keys: Callable[[Board], Iterable[Key]],
    *,
    consistent: bool = False,
) -> tuple[Board, dict[Key, Item]]:
    """Return a board, and items whose keys depend on it, in one round trip if the cached board is current.

    The process caches the boards that it has read, to guess the keys. The definition is read in any case.
    If the guess was wrong, a second round trip reads the missing items.

    Cost: 0.5 RCU for the definition and for each key, or 1 if consistent.
    Raises: NotFound.
    """
    cached = _cached_boards().get(name)
    guessed_keys = list(keys(cached._replace(season=season or cached.season))) if cached else []
    items = context.table.get_many([definition_key(name), *guessed_keys], consistent=consistent)
    board = _in_season(name, items.get(definition_key(name)), context.now, season)
    if missing := [key for key in keys(board) if key not in guessed_keys]:
        items |= context.table.get_many(missing, consistent=consistent)
    if not season or not cached:  # a past season says nothing about the current one
        if len(_cached_boards()) >= CACHE_SIZE:
            _cached_boards().clear()
        _cached_boards()[name] = board
    return board, items


def describe(context: Context, name: str, season: int = 0) -> BoardDetails:
    """Return a board, and the number of players that it ranks.

    Cost: 1 RCU, or 1.5 with a past season.
    Raises: NotFound.
    """
    item = context.table.get(definition_key(name))
    board, ended = _in_season(name, item, context.now, season), None
    if item and _in_season(name, item, context.now).season != board.season:
        board, ended = _find_past(context.table, parse(item), season)
        board = board._replace(resets=None)
    return _to_details(board, count_players(context.table, board.ranking), ended)


@cache
def _cached_boards() -> dict[str, Board]:
    """Return the boards that this process has read, by name."""
    return {}


def _in_season(name: str, item: Item | None, now: datetime, season: int = 0) -> Board:
    """Parse a definition and select a season. Raises NotFound for a missing item and for a future season."""
    if item is None:
        raise _not_found(name)
    board = _as_of(parse(item), now)
    if season > board.season:
        raise NotFound(f"The current season of {name[:40]} is {board.season}.")
    return board._replace(season=season or board.season)


def _as_of(board: Board, now: datetime) -> Board:
    """Return a board as it is at an instant, in the season of that instant."""
    if isinstance(board.resets, dict):
        recurrence = Recurrence(**board.resets)
        passed = recurrence.period(now) - recurrence.period(times.parse(board.anchor))
        return _advance(board, passed) if passed and board.season + passed > 0 else board
    if not board.resets or times.parse(board.resets) > now:
        return board
    began = board.resets
    return board._replace(season=board.season + 1, started=began, anchor=began, resets=None, is_stored=False)


def _advance(board: Board, passed: int) -> Board:
    """Return a board whose seasons recur, in the season after a number of others."""
    if not passed or not isinstance(board.resets, dict):
        return board
    recurrence = Recurrence(**board.resets)
    began = times.to_iso(recurrence.begin(recurrence.period(times.parse(board.anchor)) + passed))
    return board._replace(season=board.season + passed, started=began, anchor=began, is_stored=False)


def _find_end(board: Board) -> str | None:
    """Return when the season of a board ends automatically."""
    if not isinstance(board.resets, dict):
        return board.resets
    recurrence = Recurrence(**board.resets)
    return times.to_iso(recurrence.begin(recurrence.period(times.parse(board.anchor)) + 1))


def _find_past(table: Table, stored: Board, season: int) -> tuple[Board, str | None]:
    """Return a board in a past season, and when that ended. One without an item follows from the one before.

    Cost: 0.5 RCU if the season is before the stored one.
    Raises: NotFound.
    """
    if season < stored.season:
        first, last = season_key(stored.name, 1), season_key(stored.name, season)
        items = table.query(Range(first.pk, (first.sk, last.sk)), limit=1, newest_first=True).items
        if not items:
            raise NotFound(f"There is no season {season} of {stored.name[:40]}.")
        item = items[0]
        fields: dict[str, Any] = {name: item.get(name) for name in ("started", "resets", "anchor")}
        stored = stored._replace(season=int(item["sk"].removeprefix("SEASON#")), **fields)
        if stored.season == season:
            return stored, item["ended"]
    board = _advance(stored, season - stored.season)
    return board, _find_end(board)


def _to_past_item(board: Board, ended: str | None) -> Item:
    item = season_key(board.name, board.season)._asdict() | {"started": board.started, "ended": ended}
    return item | ({"resets": board.resets, "anchor": board.anchor} if isinstance(board.resets, dict) else {})


def _parse_definition(name: str, body: BoardBody, now: datetime) -> Board:
    """Return the requested board in its first season. Raises BadRequest, Unprocessable."""
    fields = {field: getattr(body, field) for field in (*MUTABLE_FIELDS, *IMMUTABLE_FIELDS)}
    started, created = times.to_iso(now), times.epoch(now)
    fields |= {"season": 1, "started": started, "anchor": started, "created": created}
    if isinstance(body.resets, str):
        resets = parse_instant("resets", body.resets)
        fields["resets"] = times.to_iso(resets)
        if resets <= now:
            raise Unprocessable("`resets` must be in the future")
    elif body.resets:
        fields["resets"] = msgspec.structs.asdict(body.resets)
        if not times.is_zone(body.resets.timezone):
            raise BadRequest("`resets.timezone` must be the name of a zone, such as Europe/Berlin")
    board = Board(name=name, **fields)
    for field in ("min", "max"):
        try:
            Scale(-MOST, MOST, board.decimals, descending=True).units(getattr(board, field))
        except ValueError as error:
            raise Unprocessable(f"`{field}` {error}") from None
    if board.min > board.max:
        raise Unprocessable("`min` must be at most `max`")
    return board


def _build_scale(decimals: int, least: Decimal, most: Decimal, order: str) -> Scale:
    widest = Scale(-MOST, MOST, decimals, order == "desc")
    return widest._replace(least=widest.units(least), most=widest.units(most))


def _to_item(board: Board) -> Item:
    fields = board._asdict()
    listed = {"gsi1pk": LIST, "gsi1sk": fields.pop("created")}
    del fields["is_stored"]
    return definition_key(fields.pop("name"))._asdict() | fields | listed


def parse(item: Item) -> Board:
    """Return the board of a definition, in the season that is stored."""
    fields = {field: item[field] for field in Board._fields if field not in ("name", "created", "is_stored")}
    return Board(name=item["pk"].removeprefix("BOARD#"), created=item["gsi1sk"], **fields)


def _to_details(board: Board, count: int, ended: str | None = None) -> BoardDetails:
    fields: dict[str, Any] = board._asdict()
    for name in ("has_names", "created", "anchor", "is_stored"):
        del fields[name]
    if isinstance(board.resets, dict):
        fields["resets"] = msgspec.convert(board.resets, schemas.Recurrence)
    ends = None if ended else _find_end(board)
    return BoardDetails(board=fields.pop("name"), players=count, ends=ends, ended=ended, **fields)


def _not_found(name: str) -> NotFound:
    return NotFound(f"There is no leaderboard {name[:40]}.")


def _too_many_changes(name: str) -> Busy:
    return Busy(f"Other requests are changing the leaderboard {name[:40]}. Please retry.")


def no_score(player: str, name: str) -> NotFound:
    """Return the error for a player without a score on a board."""
    return NotFound(f"{player[:40]} has no score on {name[:40]}.")
