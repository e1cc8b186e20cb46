"""Import scores into a leaderboard from a CSV file with a header, one submission per row.

Invariant: a player and id count once, as with `POST /leaderboards/{board}/scores`. An interrupted import can
be run again, because existing submissions are found and not added twice.

Up to 49 rows of different players form one transaction with the conditions of each row. When a transaction is
refused, nothing of it is written. The rows whose conditions failed are then written one at a time, and the
others together again. A player's rows are written in the order of the file, so of two rows with the same time
the operator `set` keeps the later one.
"""

from __future__ import annotations

import csv
import hashlib
import re
import time
from codecs import BOM_UTF8
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from enum import StrEnum
from functools import partial
from typing import NamedTuple

import click

from chalicelib.api import codec
from chalicelib.api.auth import Caller
from chalicelib.api.schemas import IDENTIFIER
from chalicelib.dynamo.items import Key, chunks
from chalicelib.dynamo.table import Table
from chalicelib.errors import Busy, HubbubError, Unprocessable
from chalicelib.leaderboards import boards
from chalicelib.leaderboards import scores as leaderboards
from chalicelib.leaderboards.boards import Board
from chalicelib.leaderboards.schemas import ScoreBody
from chalicelib.leaderboards.scores import Submission
from chalicelib.ranking import ranking
from ops.waiting import TIMEOUT, wait_until_counted

GROUP = 49  # rows per transaction: their scores, submissions and the board are one batch read of 100 items
THREADS = 4
IMPORTER = Caller(sub="import-scores", admin=True, problem="")
VALUE = re.compile(r"[+-]?\d{1,20}(\.\d{1,18})?", re.ASCII)


class Columns(NamedTuple):
    """The columns of player, value, id (default: the player) and time (default: now)."""

    player: str
    value: str
    id: str | None = None
    time: str | None = None


class Skip(StrEnum):
    """Why a row is not a submission. A row counts under the first reason that applies."""

    MALFORMED = "malformed"  # the number of fields differs from the header
    BAD_PLAYER = "bad_player"
    BAD_ID = "bad_id"
    BAD_VALUE = "bad_value"  # not a decimal number
    BAD_TIME = "bad_time"  # not an ISO 8601 time with an offset, or in the future
    OFF_RANGE = "off_range"  # outside the board's range, or too many decimals; or the player's sum would be
    REPEATED = "repeated"  # an earlier row has the same player and id


class Outcome(StrEnum):
    """The outcome of a valid row."""

    NEW = "new"
    KNOWN = "known"  # a submission with this player and id exists


# -- read -----------------------------------------------------------------------------------------------


def read(
    lines: Iterable[bytes], columns: Columns, board: Board, now: datetime
) -> Iterator[Submission | Skip]:
    """Yield a submission or a skip reason for each row of a file. Empty lines are ignored.

    Memory: 16 bytes per row, about 100 MB with overhead for a million.

    Raises: ClickException for a header without these columns.
    """
    rows = _rows(csv.reader(line.removeprefix(BOM_UTF8).decode("utf-8", "surrogateescape") for line in lines))
    first = next(rows, Skip.MALFORMED)
    header = [] if isinstance(first, Skip) else [name.strip() for name in first]
    for column in filter(None, columns):
        if header.count(column) != 1:
            columns_found = ", ".join(header)[:200]
            raise click.ClickException(f"the header needs one column {column!r}; it has: {columns_found}")
    return _found(rows, header, columns, board, now)


def _found(
    rows: Iterable[list[str] | Skip], header: list[str], columns: Columns, board: Board, now: datetime
) -> Iterator[Submission | Skip]:
    seen: set[bytes] = set()
    for row in rows:
        if isinstance(row, Skip) or len(row) != len(header):
            yield Skip.MALFORMED
            continue
        found = parse(dict(zip(header, row, strict=True)), columns, board, now)
        if isinstance(found, Submission):
            digest = hashlib.blake2b(f"{found.player}\n{found.id}".encode(), digest_size=16).digest()
            if digest in seen:
                yield Skip.REPEATED
                continue
            seen.add(digest)
        yield found


def _rows(rows: Iterator[list[str]]) -> Iterator[list[str] | Skip]:
    """Yield the rows, and a skip reason for a malformed one. The reader continues with the next line."""
    while True:
        try:
            row = next(rows)
        except StopIteration:
            return
        except csv.Error:  # a field longer than 131,072 characters: a quote without its end
            yield Skip.MALFORMED
        else:
            if row:
                yield row


def parse(row: dict[str, str], columns: Columns, board: Board, now: datetime) -> Submission | Skip:
    """Parse a row into a submission that the board accepts, or a skip reason."""
    player = _identifier(row[columns.player])
    if player is None:
        return Skip.BAD_PLAYER
    id = _identifier(row[columns.id]) if columns.id else player
    if id is None:
        return Skip.BAD_ID
    value = row[columns.value].strip()
    if not VALUE.fullmatch(value):
        return Skip.BAD_VALUE
    try:
        moment = leaderboards.parse_time(row[columns.time].strip() if columns.time else None, now)
    except HubbubError:
        return Skip.BAD_TIME
    try:
        return Submission(player, id, leaderboards.validate_value(board, Decimal(value)), moment)
    except Unprocessable:
        return Skip.OFF_RANGE


def _identifier(text: str) -> str | None:
    """Normalize an identifier as the API does; None for an invalid one."""
    try:
        name = codec.normalize(text.strip(), "name")
    except ValueError:
        return None
    return name if IDENTIFIER.match(name) else None


# -- write ---------------------------------------------------------------------------------------------


@dataclass
class Summary:
    """Counts of a file's rows, and the players in the order of the file."""

    outcomes: Counter[Outcome | Skip] = field(default_factory=Counter)
    players: dict[str, None] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        """Count all rows."""
        return self.outcomes.total()


def write(table: Table, board: str, found: Iterable[Submission | Skip]) -> Summary:
    """Write the submissions in parallel groups, and return the counts.

    Cost: 4 WCU and 2 RCU per new row, 2 RCU per known row.

    Raises: NotFound, and Busy when the table is throttled for a minute. The import can be run again.
    """
    summary = Summary()
    with ThreadPoolExecutor(THREADS, thread_name_prefix="import") as pool:
        for batch in _batches(found, summary):
            for outcomes in pool.map(partial(_write_group_retrying, table, board), chunks(batch, GROUP)):
                summary.outcomes += outcomes
            summary.players |= dict.fromkeys(one.player for one in batch)
    return summary


def _batches(found: Iterable[Submission | Skip], summary: Summary) -> Iterator[list[Submission]]:
    """Split submissions, in order, into batches that are written in parallel, with one row per player."""
    batch: dict[str, Submission] = {}
    for one in found:
        if isinstance(one, Skip):
            summary.outcomes[one] += 1
            continue
        if one.player in batch or len(batch) == THREADS * GROUP:
            yield list(batch.values())
            batch = {}
        batch[one.player] = one
    if batch:
        yield list(batch.values())


def _write_group_retrying(table: Table, board: str, group: list[Submission]) -> Counter[Outcome | Skip]:
    """Write a group, and retry the whole group while the table is throttled. Existing rows are found."""
    last = time.monotonic()
    while True:
        try:
            return write_group(table, board, group)
        except Busy:
            if time.monotonic() - last > TIMEOUT:
                raise


def write_group(table: Table, name: str, group: list[Submission]) -> Counter[Outcome | Skip]:
    """Write up to 49 submissions of different players, and return the number of each outcome.

    Cost: 4 WCU and 2 RCU per row and 1 RCU, in two round trips. A refused row costs this twice, and `submit`.
    """
    now = datetime.now(UTC)

    def keys(board: Board) -> list[Key]:
        scores = [leaderboards.score_key(name, board.season, one.player) for one in group]
        return scores + [leaderboards.activity_key(name, one.player, one.id) for one in group]

    board, items = boards.find_with_items(table, name, now, 0, keys, consistent=True)
    scores = {one.player: items.get(key) for one, key in zip(group, keys(board), strict=False)}
    rest = [one for one in group if leaderboards.activity_key(name, one.player, one.id) not in items]
    outcomes: Counter[Outcome | Skip] = Counter({Outcome.KNOWN: len(group) - len(rest)})
    while rest:
        each = [leaderboards.build_actions(board, one, scores[one.player], now) for one in rest]
        refused = table.transact([action for actions in each for action in actions])
        failed = {place // len(each[0]) for place in refused}
        if not failed:
            outcomes[Outcome.NEW] += len(rest)
            break
        for place in failed:
            outcomes[_write_alone(table, name, rest[place], now)] += 1
        rest = [one for place, one in enumerate(rest) if place not in failed]
    return outcomes


def _write_alone(table: Table, name: str, one: Submission, now: datetime) -> Outcome | Skip:
    """Write one submission whose condition failed: the score changed, or the sum leaves the range."""
    body = ScoreBody(id=one.id, value=one.value, time=one.time, player=one.player)
    try:
        result = leaderboards.submit(table, name, body, IMPORTER, now)
    except Unprocessable:
        return Skip.OFF_RANGE
    return Outcome.NEW if result.status == 201 else Outcome.KNOWN


# -- wait ----------------------------------------------------------------------------------------------


def wait(table: Table, board: Board, players: Sequence[str], report: Callable[[int], None]) -> bool:
    """Wait until these players' scores are in the ranking, and report each group.

    Pass the players in the order in which they were written. Return False after 60 s without progress.
    """
    parts = chunks(players, GROUP)
    return wait_until_counted(
        parts, partial(is_counted, table, board), lambda part: report(len(part)), TIMEOUT
    )


def is_counted(table: Table, board: Board, players: Iterable[str]) -> bool:
    """Return whether the ranking has the current scores of these players.

    Players without a score are ignored.

    The tree always agrees with the entries, because the stream writes both in one transaction.

    Cost: 2 RCU per player.
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
        == board.ranking.entry_number(board.scale.merit(items[score]["score"]), player)
        for player, (score, entry) in keys.items()
        if score in items
    )
