"""Brings the scores of a leaderboard in from a file: one submission for each row of a CSV file with a header.

A row is what `POST /leaderboards/{board}/scores` takes: the same player and id count once for ever, here and
there. So a file can be imported again after whatever ended the import before: what is there is found, and
nothing is added twice.

Up to 49 rows of different players are one transaction, which holds each of them to what holds for it alone.
When it is refused nothing of it is written: the rows that are to blame then go one by one, the others
together again. A player's rows are written in the order of the file, so that of two with the same time
the later one is the one that is `set`.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from functools import partial

from chalicelib.api.auth import Caller
from chalicelib.dynamo.items import Key, chunks
from chalicelib.dynamo.table import Table
from chalicelib.errors import Busy, Unprocessable
from chalicelib.leaderboards import boards
from chalicelib.leaderboards import scores as leaderboards
from chalicelib.leaderboards.boards import Board
from chalicelib.leaderboards.score_schemas import ScoreBody
from chalicelib.leaderboards.scores import Submission
from chalicelib.ranking import ranking
from ops.imports.score_rows import Skip
from ops.waiting import PATIENCE, until_counted

GROUP = 49  # rows: their scores, their submissions and the board are read by one batch of 100
THREADS = 4
IMPORTER = Caller(sub="import-scores", admin=True, problem="")


class Became(StrEnum):
    """What a row became."""

    NEW = "new"
    KNOWN = "known"  # it was there: the same player and id


# -- write ---------------------------------------------------------------------------------------------


@dataclass
class Summary:
    """What became of a file's rows, and the players that they are about, in the order of the file."""

    became: Counter[Became | Skip] = field(default_factory=Counter)
    players: dict[str, None] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        """Count all rows."""
        return self.became.total()


def write(table: Table, board: str, found: Iterable[Submission | Skip]) -> Summary:
    """Write the submissions among what was found, in groups, several at a time; count everything.

    Costs 4 WCU a row, and 2 RCU; a row that is known costs 2 RCU. Raises NotFound, and Busy when the table
    is busy for a minute; then as after any end, the file can be imported again.
    """
    summary = Summary()
    with ThreadPoolExecutor(THREADS, thread_name_prefix="import") as pool:
        for wave in _waves(found, summary):
            for became in pool.map(partial(_patiently, table, board), chunks(wave, GROUP)):
                summary.became += became
            summary.players |= dict.fromkeys(one.player for one in wave)
    return summary


def _waves(found: Iterable[Submission | Skip], summary: Summary) -> Iterator[list[Submission]]:
    """Part submissions, in order, into as many as are written at a time: each of another player."""
    wave: dict[str, Submission] = {}
    for one in found:
        if isinstance(one, Skip):
            summary.became[one] += 1
            continue
        if one.player in wave or len(wave) == THREADS * GROUP:
            yield list(wave.values())
            wave = {}
        wave[one.player] = one
    if wave:
        yield list(wave.values())


def _patiently(table: Table, board: str, group: list[Submission]) -> Counter[Became | Skip]:
    """Write a group; as a whole again while the table is busy, for what was written is found."""
    last = time.monotonic()
    while True:
        try:
            return write_group(table, board, group)
        except Busy:
            if time.monotonic() - last > PATIENCE:
                raise


def write_group(table: Table, name: str, group: list[Submission]) -> Counter[Became | Skip]:
    """Write up to 49 submissions of different players; answer how many became what.

    Costs 4 WCU and 2 RCU each and 1 RCU, in two round trips; a refused row once more, and what `submit` does.
    """
    now = datetime.now(UTC)

    def keys(board: Board) -> list[Key]:
        scores = [leaderboards.score_key(name, board.season, one.player) for one in group]
        return scores + [leaderboards.activity_key(name, one.player, one.id) for one in group]

    board, items = boards.find_with(table, name, now, 0, keys, consistent=True)
    scores = {one.player: items.get(key) for one, key in zip(group, keys(board), strict=False)}
    rest = [one for one in group if leaderboards.activity_key(name, one.player, one.id) not in items]
    became: Counter[Became | Skip] = Counter({Became.KNOWN: len(group) - len(rest)})
    while rest:
        each = [leaderboards.actions(board, one, scores[one.player], now) for one in rest]
        refused = table.transact([action for actions in each for action in actions])
        alone = {place // len(each[0]) for place in refused}
        if not alone:
            became[Became.NEW] += len(rest)
            break
        for place in alone:
            became[_submit(table, name, rest[place], now)] += 1
        rest = [one for place, one in enumerate(rest) if place not in alone]
    return became


def _submit(table: Table, name: str, one: Submission, now: datetime) -> Became | Skip:
    """Write one submission by itself: others of the player came in between, or the sum leaves the range."""
    body = ScoreBody(id=one.id, value=one.value, time=one.time, player=one.player)
    try:
        answer = leaderboards.submit(table, name, body, IMPORTER, now)
    except Unprocessable:
        return Skip.OFF_RANGE
    return Became.NEW if answer.status == 201 else Became.KNOWN


# -- wait ----------------------------------------------------------------------------------------------


def wait(table: Table, board: Board, players: Sequence[str], tick: Callable[[int], None]) -> bool:
    """Wait until these players' scores are in the ranking, group by group, a tick each.

    False after 60 s in which no further group was: give them in the order in which they were written.
    """
    parts = chunks(players, GROUP)
    return until_counted(parts, partial(is_counted, table, board), lambda part: tick(len(part)), PATIENCE)


def is_counted(table: Table, board: Board, players: Iterable[str]) -> bool:
    """Tell whether the ranking has the scores of these players as they are; one without a score is left out.

    The tree has what the entry has, for the stream writes both in one transaction. Costs 2 RCU a player.
    """
    keys = {
        player: (
            leaderboards.score_key(board.name, board.season, player),
            ranking.entry_key(board.ranking.name, player),
        )
        for player in players
    }
    items = table.get_many((key for pair in keys.values() for key in pair), consistent=True)
    return all(
        items.get(entry, {}).get("gsi1sk")
        == board.ranking.entry(board.scale.merit(items[score]["score"]), player)
        for player, (score, entry) in keys.items()
        if score in items
    )
