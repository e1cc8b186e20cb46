"""Import comments from a CSV file with the columns product, author, rating, language and text.

blogs.py reads other formats.

Invariant: importing a file again writes nothing. A rated row is validated and written like a comment posted
through the API. It is skipped if its author has already commented on the product. A later row becomes a newer
comment.

A comment without a rating, and a reply, have an id that is derived from their source. So each is written
once, also when the import was interrupted. The product of such a comment becomes a discussion unless it is
defined.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from functools import partial
from typing import NamedTuple

import msgspec

from chalicelib import times, ulids
from chalicelib.api import codec
from chalicelib.api.auth import Caller
from chalicelib.api.schemas import IDENTIFIER
from chalicelib.comments import comments, definitions, replies
from chalicelib.comments.schemas import CommentBody, ReplyBody, ReplyPath
from chalicelib.dynamo.items import Range, chunks
from chalicelib.dynamo.table import Table
from chalicelib.errors import BadRequest, Conflict, NotFound, Unprocessable
from ops.maintenance.audit import find_drift
from ops.stage import new_context
from ops.waiting import TIMEOUT, wait_until_counted

COLUMNS = ("product", "author", "rating", "language", "text")
WRITERS = 8
GROUP = 200
ALL = 2**31 - 1  # a query without a limit


class Skip(StrEnum):
    """Why a row is not written. A row counts under the first reason that applies."""

    MALFORMED = "malformed"  # the number of fields differs from the header
    BAD_PRODUCT = "bad_product"
    BAD_AUTHOR = "bad_author"
    BAD_RATING = "bad_rating"
    BAD_LANGUAGE = "bad_language"
    BAD_TEXT = "bad_text"
    BAD_TIME = "bad_time"
    NOT_PUBLISHED = "not_published"
    NO_COMMENT = "no_comment"  # a reply whose comment is not that of the file, or was not imported
    COMMENTED_ALREADY = "commented_already"  # by this author on the product, or imported before
    REPLIED_ALREADY = "replied_already"  # the reply was imported before


class Row(NamedTuple):
    """A valid row."""

    product: str
    author: str
    body: CommentBody
    name: str | None = None
    created: datetime | None = None
    id: str = ""  # of a comment without a rating


class Parent(NamedTuple):
    """The comment that a reply belongs to. Without an id its author has one on the product, of this time."""

    product: str
    author: str
    created: datetime
    id: str = ""


class ReplyRow(NamedTuple):
    """A valid reply. `source` identifies it in its system."""

    parent: Parent
    author: str
    body: ReplyBody
    name: str | None
    created: datetime
    source: str


class NotComments(Exception):
    """The file does not have the format, a column is missing, or the file ends within a row."""


@dataclass
class Summary:
    """Counts of a file's rows, and the products of the comments. `replies` of them were written."""

    rows: int = 0
    written: int = 0
    replies: int = 0
    products: set[str] = field(default_factory=set)
    skipped: Counter[Skip] = field(default_factory=Counter)


# -- read ----------------------------------------------------------------------------------------------


def read(lines: Iterable[str], languages: Sequence[str] = ()) -> Iterator[Row | ReplyRow | Skip]:
    """Yield a comment or a skip reason for each row of a file.

    With `languages`, rows get these languages in rotation instead of the file's.

    Raises: NotComments.
    """
    rows = csv.reader(lines, strict=True)
    try:
        header = next(rows, None)
        if header is None:
            raise NotComments("the file is empty")
        for column in COLUMNS:
            if header.count(column) != 1:
                number = "several columns" if column in header else "no column"
                raise NotComments(f"{number} {column!r}; required columns: {', '.join(COLUMNS)}")
        for i, row in enumerate(filter(None, rows)):
            language = {"language": languages[i % len(languages)]} if languages else {}
            is_whole = len(row) == len(header)
            fields = dict(zip(header, map(codec.unguard_cell, row), strict=False)) | language
            yield parse({name: fields[name] for name in COLUMNS}) if is_whole else Skip.MALFORMED
    except csv.Error:
        raise NotComments(f"line {rows.line_num} is not CSV: a quote is not closed, or not doubled") from None


def parse(fields: dict[str, str]) -> Row | Skip:
    """Parse a row into a comment or the first skip reason that applies."""
    normal = []
    for name in COLUMNS:
        try:
            normal.append(codec.normalize(fields[name], name))
        except ValueError:
            return Skip(f"bad_{name}")
    product, author, rating, language, text = normal
    try:
        if not IDENTIFIER.search(product):
            return Skip.BAD_PRODUCT
        if not IDENTIFIER.search(author):
            return Skip.BAD_AUTHOR
        if rating.strip() not in ("1", "2", "3", "4", "5"):
            return Skip.BAD_RATING
        value = {
            "rating": int(rating),
            "language": comments.parse_language(language.strip()),
            "text": text,
        }
        return Row(product, author, msgspec.convert(value, CommentBody))
    except BadRequest:
        return Skip.BAD_LANGUAGE
    except ValueError:
        return Skip.BAD_TEXT


# -- write ---------------------------------------------------------------------------------------------


def write(table: Table, found: Iterable[Row | ReplyRow | Skip], now: datetime) -> Summary:
    """Write the comments and the replies, 8 in parallel, and return the counts.

    Of several rated rows with the same author and product the first is written. A reply comes after its
    comment.

    Cost: 6 WCU per comment of 1 KB. 1 WCU per product without ratings. That of `write_reply` per reply.
    """
    summary = Summary()
    with ThreadPoolExecutor(WRITERS) as pool:
        for group in chunks(found, GROUP):
            firsts: dict[tuple[str, str, str], tuple[Row, datetime]] = {}
            threads: dict[Parent, list[ReplyRow]] = {}
            for i, row in enumerate(group):
                if isinstance(row, Row):
                    time = row.created or now + timedelta(milliseconds=summary.rows + i)
                    firsts.setdefault((row.product, row.author, row.id), (row, time))
                elif isinstance(row, ReplyRow):
                    threads.setdefault(row.parent, []).append(row)
            for product in {product for product, _, id in firsts if id} - summary.products:
                definitions.begin_discussion(table, product)
            summary.products |= {product for product, _, _ in firsts}
            written = sum(pool.map(lambda given: _post(table, row=given[0], time=given[1]), firsts.values()))
            summary.written += written
            summary.skipped[Skip.COMMENTED_ALREADY] += sum(isinstance(row, Row) for row in group) - written
            summary.rows += len(group)
            summary.skipped.update(row for row in group if isinstance(row, Skip))
            # The replies to one comment change the same number, so they are written one after the other.
            for results in pool.map(
                lambda rows: [write_reply(table, row) for row in rows],
                threads.values(),
            ):
                summary.replies += results.count(None)
                summary.skipped.update(result for result in results if result)
    return summary


def _post(table: Table, row: Row, time: datetime) -> bool:
    author = Caller(row.author, admin=True, name=row.name)
    if row.id:
        return comments.add(new_context(table, time), row.product, row.id, row.body, author)
    try:
        comments.post(new_context(table, time), row.product, row.body, author, None)
    except (Conflict, Unprocessable):  # or its product has no ratings
        return False
    return True


def write_reply(table: Table, row: ReplyRow) -> Skip | None:
    """Write a reply to the imported comment of its row. Return why it is not written, or None.

    Cost: 3 RCU, and for a reply of 1 KB 5 WCU, 4 if it is not listed. 2 RCU for one that was
    written before.
    """
    if not (id := row.parent.id or _find_parent(table, row.parent)):
        return Skip.NO_COMMENT
    path = ReplyPath(row.parent.product, id, ulids.derive(row.created, row.source))
    author = Caller(row.author, admin=True, name=row.name)
    try:
        is_new = replies.add(table, path, row.body, author)
    except NotFound:
        return Skip.NO_COMMENT
    return None if is_new else Skip.REPLIED_ALREADY


def _find_parent(table: Table, parent: Parent) -> str:
    """Return the id of a rated comment, or "" if the author's comment is another one."""
    found = table.get(comments.author_key(parent.product, parent.author), consistent=True) or {}
    id = str(found.get("id", ""))
    wanted = times.milliseconds(parent.created)
    return id if id and times.milliseconds(ulids.created_at(id)) == wanted else ""


# -- wait ----------------------------------------------------------------------------------------------


def wait(table: Table, products: Iterable[str], report: Callable[[], None]) -> bool:
    """Wait until these products are counted, and report each. False after 60 s without progress."""
    return wait_until_counted(products, partial(is_counted, table), lambda _: report(), TIMEOUT)


def is_counted(table: Table, product: str) -> bool:
    """Return whether a product's statistics are the sums over its comments.

    Cost: 1 RCU per 4 KB of comments.
    """
    pk = comments.statistics_key(product).pk
    return not find_drift([comments.contribution], table.query(Range(pk), limit=ALL, consistent=True).items)
