"""Import scores into a leaderboard from a CSV file with a header, one submission per row.

Invariant: a player and id count once, as with `POST /leaderboards/{board}/scores`. An interrupted import can
be run again, because existing submissions are found and not added twice.

Scores and submissions of up to 49 rows of different players are read in one batch. The first scores of
players are then written 25 in a request, and other new rows as submissions are, several at a time. The rows
of a player are written in the order of the file, so of two with the same time the operator `set` keeps the
later one.

The ranking is prepared for 25,000 rows at a time, so that their players begin at the right depth.
"""

from __future__ import annotations

import contextlib
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

import click

from chalicelib.api import codec
from chalicelib.api.schemas import IDENTIFIER
from chalicelib.concurrency import map_concurrently
from chalicelib.dynamo.items import Item, Key, chunks
from chalicelib.dynamo.table import Table
from chalicelib.errors import Busy, HubbubError, Unprocessable
from chalicelib.leaderboards import boards
from chalicelib.leaderboards import scores as leaderboards
from chalicelib.leaderboards.boards import Board
from chalicelib.leaderboards.scores import Submission
from chalicelib.ranking import deepening, tree
from chalicelib.ranking.entries import start_listing_below
from chalicelib.ranking.positions import ALL
from chalicelib.ranking.ranking import read_nodes
from ops.imports.formats import Columns
from ops.stage import new_context
from ops.waiting import TIMEOUT, wait_until_counted

CHECKED = 1_000  # players whose ranks are checked together, so that each bucket is read once for them
GROUP = 49  # rows: their scores, submissions and the board are one batch read of 100 items
THREADS = 4
BLOCK = 25_000  # rows that are held in memory; the ranking is prepared for them
VALUE = re.compile(r"[+-]?\d{1,20}(\.\d{1,18})?", re.ASCII)


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
            columns_found = ", ".join(header)[:200] or "none"
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
        found = parse(dict(zip(header, map(codec.unguard_cell, row), strict=True)), columns, board, now)
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

    Cost: 3 or 4 WCU and some RCU per new row, 2 RCU per known row.

    Raises: NotFound, and Busy when the table is throttled for a minute. The import can be run again.
    """
    summary = Summary()
    with ThreadPoolExecutor(THREADS, thread_name_prefix="import") as pool:
        for block in chunks(found, BLOCK):
            _prepare(table, board, block)
            for batch in _batches(block, summary):
                for outcomes in pool.map(partial(_write_group_retrying, table, board), chunks(batch, GROUP)):
                    summary.outcomes += outcomes
                summary.players |= dict.fromkeys(submission.player for submission in batch)
    return summary


def _prepare(table: Table, name: str, block: Iterable[Submission | Skip]) -> None:
    """Prepare the ranking for the players of a block whose scores follow from the rows."""
    board = boards.find(new_context(table, datetime.now(UTC)), name)
    scores: dict[str, tuple[Decimal, str]] = {}  # and the times
    for submission in block:
        if isinstance(submission, Submission):
            sums = submission.player in scores and board.operator == "increment"
            earlier = scores[submission.player][0] if sums else 0
            scores[submission.player] = submission.value + earlier, submission.time
    numbers = []
    for player, reached in scores.items():
        with contextlib.suppress(ValueError):  # a sum that is off the scale
            numbers.append(leaderboards.number(board, player, *reached))
    deepening.prepare(table, board.ranking, numbers)


def _batches(found: Iterable[Submission | Skip], summary: Summary) -> Iterator[list[Submission]]:
    """Split submissions, in order, into batches that are written in parallel, with one row per player."""
    batch: dict[str, Submission] = {}
    for submission in found:
        if isinstance(submission, Skip):
            summary.outcomes[submission] += 1
            continue
        if submission.player in batch or len(batch) == THREADS * GROUP:
            yield list(batch.values())
            batch = {}
        batch[submission.player] = submission
    if batch:
        yield list(batch.values())


def _write_group_retrying(table: Table, board: str, group: list[Submission]) -> Counter[Outcome | Skip]:
    """Write a group, and retry the whole group while the table is throttled.

    A retry finds the rows that the attempt before it has written, and counts them as known.
    """
    last = time.monotonic()
    while True:
        try:
            return write_group(table, board, group)
        except Busy:
            if time.monotonic() - last > TIMEOUT:
                raise


def write_group(table: Table, name: str, group: list[Submission]) -> Counter[Outcome | Skip]:
    """Write up to 49 submissions of different players, and return the number of each outcome.

    Cost: 2 RCU per row and 1 RCU, and for a new row what `scores.write` costs.
    """
    now = datetime.now(UTC)

    def keys(board: Board) -> list[Key]:
        scores = [leaderboards.score_key(name, board.season, submission.player) for submission in group]
        return scores + [
            leaderboards.activity_key(name, submission.player, submission.id) for submission in group
        ]

    board, items = boards.find_with_items(new_context(table, now), name, 0, keys, consistent=True)

    def read_one(submission: Submission) -> tuple[Item | None, Item | None]:
        """Return the player's score and the submission's activity."""
        score = items.get(leaderboards.score_key(name, board.season, submission.player))
        return score, items.get(leaderboards.activity_key(name, submission.player, submission.id))

    def write_one(submission: Submission) -> Outcome | Skip:
        score, activity = read_one(submission)
        is_same_season = activity and activity["season"] == board.season
        if activity and (
            not leaderboards.may_be_pending(activity, now)
            or (is_same_season and not leaderboards.is_pending(board, score, activity))
        ):
            return Outcome.KNOWN
        try:
            is_new, _ = leaderboards.write(new_context(table, now), board, submission, score)
        except Unprocessable:
            return Skip.OFF_RANGE
        return Outcome.NEW if is_new else Outcome.KNOWN

    first = [submission for submission in group if read_one(submission) == (None, None)]
    are_new = leaderboards.write_first(new_context(table, now), board, first)
    new = {submission for submission, is_new in zip(first, are_new, strict=True) if is_new}
    others = [submission for submission in group if submission not in new]
    return Counter([Outcome.NEW] * len(new) + map_concurrently(write_one, others, "import"))


# -- wait ----------------------------------------------------------------------------------------------


def wait(table: Table, board: Board, players: Sequence[str], report: Callable[[int], None]) -> bool:
    """Wait until these players' scores are in the ranking, and report each group.

    Pass the players in the order in which they were written. Return False after 60 s without progress.
    """

    def is_part_counted(part: Sequence[str]) -> bool:
        """Check the last players first. They are ranked last, and a check of all reads more."""
        return is_counted(table, board, part[-GROUP:]) and is_counted(table, board, part)

    return wait_until_counted(
        chunks(players, CHECKED), is_part_counted, lambda part: report(len(part)), TIMEOUT
    )


def is_counted(table: Table, board: Board, players: Iterable[str]) -> bool:
    """Return whether the ranking has the current scores of these players.

    It has them when no bucket of theirs is crowded, each has the players that the index has, and the counters
    above add up. Players without a score are ignored.

    Cost: 1 RCU per player, 1 for each node of their paths, and 0.5 per 30 players of their buckets.
    """
    keys = [leaderboards.score_key(board.name, board.season, player) for player in players]
    items = table.get_many(keys, consistent=True)
    found = [ranked for item in items.values() if (ranked := leaderboards.rank(item))]
    prefixes = {
        tree.bucket(submission.path, level) for submission in found for level in range(submission.depth + 1)
    }
    nodes = read_nodes(table, board.ranking, prefixes, consistent=True)
    if any(tree.is_crowded(submission.path, submission.depth, nodes) for submission in found):
        return False
    crowds = {prefix: tree.count_above(prefix, nodes) for prefix in prefixes - {""}}
    if any(deep != nodes.get(prefix, tree.Node()).total() for prefix, (_, deep) in crowds.items()):
        return False
    listings = []
    for prefix in {submission.bucket for submission in found}:
        least, most = board.scale.numbers(prefix)
        listings.append((prefix, start_listing_below(table, board.ranking, ALL, most + 1, least)))
    return all(len(listing()) == crowds[prefix][0] for prefix, listing in listings)
