"""Reads the rows of a CSV file, each as a submission to a leaderboard, or a reason why it is none."""

from __future__ import annotations

import csv
import hashlib
import re
from codecs import BOM_UTF8
from collections.abc import Iterable, Iterator
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from typing import NamedTuple

import click

from chalicelib.api import codec
from chalicelib.api.schemas import IDENTIFIER
from chalicelib.errors import HubbubError, Unprocessable
from chalicelib.leaderboards import scores
from chalicelib.leaderboards.boards import Board
from chalicelib.leaderboards.scores import Submission

VALUE = re.compile(r"[+-]?\d{1,20}(\.\d{1,18})?", re.ASCII)


class Columns(NamedTuple):
    """The columns of a file that say whose a value is, its id (the player's name), its time (now)."""

    player: str
    value: str
    id: str | None = None
    time: str | None = None


class Skip(StrEnum):
    """Why a row is no submission; the first reason that holds is the one that is counted."""

    MALFORMED = "malformed"  # another number of fields than the header has
    BAD_PLAYER = "bad_player"
    BAD_ID = "bad_id"
    BAD_VALUE = "bad_value"  # no decimal number
    BAD_TIME = "bad_time"  # no ISO 8601 instant with an offset, or one in the future
    OFF_RANGE = "off_range"  # of the board, or too many decimals; or the sum of a player's values would be
    REPEATED = "repeated"  # an earlier row has the same player and id


def read(
    lines: Iterable[bytes], columns: Columns, board: Board, now: datetime
) -> Iterator[Submission | Skip]:
    """Read the rows of a file, each as a submission or a reason; an empty line is no row.

    Without a column for it, the time is `now`. ClickException for a header without these columns.
    Remembers 16 bytes of each row (about 100 MB for a million).
    """
    rows = _rows(csv.reader(line.removeprefix(BOM_UTF8).decode("utf-8", "surrogateescape") for line in lines))
    first = next(rows, Skip.MALFORMED)
    header = [] if isinstance(first, Skip) else [name.strip() for name in first]
    for column in filter(None, columns):
        if header.count(column) != 1:
            there = ", ".join(header)[:200]
            raise click.ClickException(f"no column {column!r}, or several; the first line has {there!r}")
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
    """Yield the rows, and a reason for what is none; the reader goes on with the line after it."""
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
    """Read one row: a submission that the board accepts, or why it is none."""
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
        moment = scores.moment(row[columns.time].strip() if columns.time else None, now)
    except HubbubError:
        return Skip.BAD_TIME
    try:
        return Submission(player, id, scores.accepted(board, Decimal(value)), moment)
    except Unprocessable:
        return Skip.OFF_RANGE


def _identifier(text: str) -> str | None:
    """Read a name as the door reads it; None for what is none."""
    try:
        name = codec.normalize(text.strip(), "name")
    except ValueError:
        return None
    return name if IDENTIFIER.match(name) else None
