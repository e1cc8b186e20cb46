"""Costs of writing a comment and of reading a page of comments, ours and in the published designs."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from bench.report import Figures, Question, Report, Result
from bench.tables import drain, fresh_table, recounted
from chalicelib import ulids
from chalicelib.aggregates import engine as aggregates
from chalicelib.api.auth import Caller
from chalicelib.comments import comments
from chalicelib.comments import pages as comment_pages
from chalicelib.comments.schemas import CommentBody, Comments, CommentsQuery
from chalicelib.dynamo.items import Item, pack
from chalicelib.dynamo.table import Table
from chalicelib.settings import Settings
from local.engines.capacity import EVENTUAL, WRITE_BLOCK, item_size, read_units
from local.engines.engine import Engine
from local.engines.meter import Meter
from local.event_sources import StreamPump
from local.soak.target import Target

PRODUCT = "garment-1078"
LIMIT = 20
BATCH = 100  # records that Lambda hands to the aggregator at a time
START = datetime(2026, 1, 1, tzinfo=UTC)
RATINGS = {5: 55, 4: 22, 3: 13, 2: 6, 1: 4}  # of 100: those of the 1,000 real reviews, rounded
LANGUAGES = {"en": 70, "de": 20, "pt-BR": 8, "fi": 2}
TEXT = "a" * 308  # as long as the mean text of the reviews
COPIES = 32  # of a comment: its rating is in 16 of the 31 combinations, each with its language and without
INDEXES = 4
BOUND = 8.0  # RCU of any page of 20
BOUNDS = {1: 7.5, 100: 5.5}  # WCU of a comment, alone and of 100 at once
LIST = 1  # WCU more that the list of all comments costs, which moderators read (HUBBUB_COMMENTS_LIST)
SETTINGS = Settings(secret="bench" * 8)
ADMIN = Caller("bench", admin=True)
METHOD = f"""Comments. Read units (RCU, which on demand are RRU) of the first page of {LIMIT} comments, \
eventually consistent, computed from all that its queries read by AWS's published rules: the statistics \
that the planner reads, and each sub-query. Comments have {len(TEXT)} characters, the ratings of the \
tests' 1,000 real reviews, and are in four languages (70, 20, 8 and 2 of 100). They and their sums are put \
into the table directly. Published, by items and requests: copies of each comment for each of the 31 \
combinations of ratings with its own, with its language and without ({COPIES} items, one query a page); \
and {INDEXES} indexes with whole comments, one query of a full page for each rating, in parallel, merged. \
Write units (WCU) of a comment: ours is measured, from the post to the last change of an aggregate. The \
published designs' are of the comment alone, without conditions, statistics or redelivery. The questions \
compare with the four indexes, the cheaper of the two to write; the floor of a page is the size of its \
comments."""


class Filter(NamedTuple):
    """The filter of a page."""

    name: str
    ratings: tuple[int, ...] = ()
    language: str = ""

    @property
    def query(self) -> CommentsQuery:
        """Return the query for its first page, with its plan."""
        ratings = ",".join(map(str, self.ratings)) or None
        return CommentsQuery(rating=ratings, language=self.language or None, limit=LIMIT, explain=True)

    def cells(self) -> int:
        """Return the number of queries of the four indexes: one for each rating, unless all are wanted."""
        return len(self.ratings) or 1

    def share(self) -> float:
        """Return the share of comments that match."""
        ratings = sum(RATINGS[r] for r in self.ratings or RATINGS) / 100
        return ratings * (LANGUAGES[self.language] if self.language else 100) / 100


FILTERS = (
    Filter("all"),
    Filter("4 and 5", (4, 5)),
    Filter("5", (5,)),
    Filter("1", (1,)),
    Filter("1, 2 and 3", (1, 2, 3)),
    Filter("en", (), "en"),
    Filter("fi", (), "fi"),
    Filter("5 in en", (5,), "en"),
    Filter("1 in fi", (1,), "fi"),
    Filter("1 and 5 in de", (1, 5), "de"),
)


def body(number: int) -> CommentBody:
    """Return a comment; the same number returns the same one."""
    rng = random.Random(number)
    [rating] = rng.choices([*RATINGS], [*RATINGS.values()])
    [language] = rng.choices([*LANGUAGES], [*LANGUAGES.values()])
    return CommentBody(rating=rating, language=language, text=TEXT)


def fill(table: Table, count: int) -> Item:
    """Put `count` comments and their sums. Return one of them."""
    items = [
        comments.build_item(PRODUCT, ulids.new(START + timedelta(seconds=i)), f"reader-{i:06}", body(i))
        for i in range(count)
    ]
    table.batch_put(items)
    table.batch_put(recounted([comments.contribution], items).values())
    return items[0]


def page(table: Table, chosen: Filter) -> tuple[float, Comments]:
    """Read the first page; return its RCU too."""
    with Meter(table.client) as meter:
        found = comment_pages.list_comments(table, PRODUCT, chosen.query, SETTINGS, ADMIN)
    return meter.read_units, found


def published(chosen: Filter, count: int, size: int) -> tuple[float, float]:
    """Compute a first page's RCU in the designs with copies and with four indexes."""
    matching = min(LIMIT, round(count * chosen.share()))
    each = [min(LIMIT, round(count * Filter("", (r,), chosen.language).share())) for r in chosen.ratings]
    parallel = sum(read_units(n * size, EVENTUAL) for n in each or [matching])
    return read_units(matching * size, EVENTUAL), parallel


def pages(engine: Engine, count: int) -> tuple[Figures, Question, float]:
    """Measure the first page of every filter of a product with `count` comments. Return the dearest too."""
    question = Question(f"What does a page of {LIMIT} of {count:,} comments cost?", "RCU, by filter")
    figures = Figures(
        f"RCU of a page of {LIMIT}, {count:,} comments of a product",
        ("filter", "found by", "requests", "RCU", "copies: RCU", "4 indexes: requests", "RCU"),
    )
    dearest = 0.0
    with fresh_table(engine) as (table, _):
        size = item_size(pack(fill(table, count)))
        for chosen in FILTERS:
            units, found = page(table, chosen)
            plan: Any = found.plan
            theirs = published(chosen, count, size)
            row = (chosen.name, plan.way, plan.queries, units, theirs[0], chosen.cells(), theirs[1])
            figures.rows.append(row)
            least = read_units(min(LIMIT, round(count * chosen.share())) * size, EVENTUAL)
            question.results.append(Result(chosen.name, units, theirs[1], least))
            dearest = max(dearest, units)
    return figures, question, dearest


def write_costs(engine: Engine, count: int, is_listed: bool) -> tuple[float, float]:
    """Measure the WCU of each of some comments on a product, in one batch: of the post, and of all."""
    with fresh_table(engine) as (table, stream_arn):

        def apply(event: dict[str, Any], _: object) -> None:
            for record in event["Records"]:
                record["dynamodb"]["ApproximateCreationDateTime"] = START.timestamp()
            aggregates.apply(
                table,
                [comments.contribution],
                event["Records"],
                derivations=[comments.derive_rank],
                now=START.timestamp,
            )

        pump = StreamPump(engine.client("dynamodbstreams"), stream_arn, apply, BATCH)
        comments.post(table, PRODUCT, body(0), Caller("first"), None, START)
        drain(pump)
        with Meter(table.client) as meter:
            for i in range(count):
                moment = START + timedelta(seconds=1 + i)
                author = Caller(f"reader-{i:06}")
                comments.post(table, PRODUCT, body(i), author, None, moment, is_listed=is_listed)
            posted = meter.write_units
            drain(pump)
        return posted / count, meter.write_units / count


def writes(engine: Engine, counts: Sequence[int]) -> tuple[Figures, Question, list[Target]]:
    """Measure the cost of writing a comment, beside the published designs."""
    question = Question("What does a comment cost, with all that it adds to?", "WCU a comment")
    figures = Figures(
        "WCU for each comment",
        ("comments at once", "list of all", "the post", "ours, with all sums", "copies", "4 indexes"),
    )
    item = comments.build_item(PRODUCT, ulids.new(START), "reader-000000", body(0))
    blocks = math.ceil(item_size(pack(item)) / WRITE_BLOCK)
    targets = []
    for count, is_listed in itertools.product(counts, (False, True)):
        post, all_of_it = write_costs(engine, count, is_listed)
        switch = "on" if is_listed else "off"
        figures.rows.append((count, switch, post, all_of_it, COPIES * blocks, (1 + INDEXES) * blocks))
        name = "alone" if count == 1 else f"of {count} at once"
        name += ", in the list of all comments" if is_listed else ""
        question.results.append(Result(name, all_of_it, (1 + INDEXES) * blocks, blocks))
        if bound := BOUNDS.get(count):
            targets.append(Target(f"WCU of a comment, {name}", all_of_it, bound + LIST * is_listed))
    return figures, question, targets


def measure(engine: Engine, quick: bool) -> Report:
    """Measure it all on one engine; `quick` leaves the large products out."""
    written, question, targets = writes(engine, (1, 10) if quick else (1, 10, 100))
    report = Report([METHOD], [written], targets, [question])
    for count in (100, 1_000) if quick else (100, 10_000, 100_000):
        figures, question, dearest = pages(engine, count)
        report.figures.append(figures)
        report.questions.append(question)
        report.targets.append(Target(f"RCU of the dearest page, {count:,} comments", dearest, BOUND))
    return report
