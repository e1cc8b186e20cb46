"""Comments: the price of a comment and of a page by any filter, beside four indexes with whole comments."""

from __future__ import annotations

import math
import random
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from bench.report import Answer
from chalicelib import ulids
from chalicelib.aggregates import engine as aggregates
from chalicelib.aggregates import sums
from chalicelib.aggregates.updates import Update
from chalicelib.api.auth import Caller
from chalicelib.comments import comments, pages
from chalicelib.comments.schemas import CommentBody, CommentsQuery
from chalicelib.dynamo.items import Item, pack
from chalicelib.dynamo.table import Table
from chalicelib.settings import Settings
from local.engines.engine import Engine
from local.event_sources import StreamPump
from ops.maintenance.streams import Stream
from tests.support.capacity import EVENTUAL, WRITE_BLOCK, item_size, read_units
from tests.support.contexts import new_context
from tests.support.meter import Meter
from tests.support.tables import drain, fresh_table

PRODUCT, LIMIT, BATCH, INDEXES = "garment-1078", 20, 100, 4
START = datetime(2026, 1, 1, tzinfo=UTC)
RATINGS = {5: 55, 4: 22, 3: 13, 2: 6, 1: 4}  # of 100: those of the tests' 1,000 real reviews, rounded
LANGUAGES = {"en": 70, "de": 20, "pt-BR": 8, "fi": 2}
TEXT = "a" * 308  # as long as the mean text of the reviews
ADMIN = Caller("bench", admin=True)
SETTINGS = Settings(secret="bench" * 8)


class Filter(NamedTuple):
    """The filter of a page."""

    name: str
    ratings: tuple[int, ...] = ()
    language: str = ""

    def share(self) -> float:
        """Return the share of comments that match."""
        ratings = sum(RATINGS[rating] for rating in self.ratings or RATINGS) / 100
        return ratings * (LANGUAGES[self.language] if self.language else 100) / 100


FILTERS = (
    Filter("all"),
    Filter("4 and 5", (4, 5)),
    Filter("5", (5,)),
    Filter("1, 2 and 3", (1, 2, 3)),
    Filter("en", (), "en"),
    Filter("fi", (), "fi"),
    Filter("5 in en", (5,), "en"),
    Filter("1 in fi", (1,), "fi"),
)


def make_body(number: int) -> CommentBody:
    """Return a comment; the same number returns the same one."""
    rng = random.Random(number)
    [rating] = rng.choices([*RATINGS], [*RATINGS.values()])
    [language] = rng.choices([*LANGUAGES], [*LANGUAGES.values()])
    return CommentBody(rating=rating, language=language, text=TEXT)


def fill(table: Table, count: int) -> Item:
    """Put comments and their sums directly. Return one of them."""
    items = [
        comments.build_item(PRODUCT, ulids.new(START + timedelta(seconds=i)), f"reader-{i:06}", make_body(i))
        for i in range(count)
    ]
    table.batch_put(items)
    for key, amounts in sums.group_by_key(sums.recount([comments.contribution], items)).items():
        table.update(key, **Update(amounts).arguments())
    return items[0]


def measure_pages(engine: Engine, count: int) -> list[tuple[str, float, float]]:
    """Return the RCU of the first page of each filter, ours and by four indexes merged."""
    rows = []
    with fresh_table(engine) as (table, _):
        size = item_size(pack(fill(table, count)))
        for chosen in FILTERS:
            ratings = ",".join(map(str, chosen.ratings)) or None
            query = CommentsQuery(rating=ratings, language=chosen.language or None, limit=LIMIT)
            with Meter(table.client) as meter:
                pages.list_comments(new_context(table, settings=SETTINGS), PRODUCT, query, ADMIN)
            parts = [Filter("", (rating,), chosen.language) for rating in chosen.ratings] or [chosen]
            published = sum(
                read_units(min(LIMIT, round(count * part.share())) * size, EVENTUAL) for part in parts
            )
            rows.append((chosen.name, meter.read_units, published))
    return rows


def measure_writes(engine: Engine, count: int) -> float:
    """Return the WCU of each of some comments on a product, from the post to the last change of a sum."""
    with fresh_table(engine) as (table, stream_arn):

        def apply(event: dict[str, Any], _: object) -> None:
            derivations = [comments.derive]
            aggregates.apply(table, [comments.contribution], event["Records"], derivations=derivations)

        pump = StreamPump(Stream(engine.client("dynamodbstreams"), stream_arn), apply, BATCH)
        comments.post(new_context(table, START), PRODUCT, make_body(0), Caller("first"), None)
        drain(pump)
        with Meter(table.client) as meter:
            for i in range(count):
                at = START + timedelta(seconds=1 + i)
                comments.post(new_context(table, at), PRODUCT, make_body(i), Caller(f"reader-{i:06}"), None)
            drain(pump)
    return meter.write_units / count


def measure(engine: Engine, quick: bool) -> list[Answer]:
    """Measure the price of a comment, and of pages of a product with many comments."""
    size = item_size(pack(comments.build_item(PRODUCT, ulids.new(START), "reader", make_body(0))))
    blocks = math.ceil(size / WRITE_BLOCK)
    count = 1_000 if quick else 100_000
    writes = [
        (name, measure_writes(engine, number), (1 + INDEXES) * blocks)
        for name, number in (("alone", 1), ("of 100 at once", 100))
    ]
    return [
        Answer(
            "What does a comment cost, with all that it adds to?",
            ("WCU a comment", "ours", "published"),
            writes,
            "Published: four indexes with whole comments, and no statistics.",
        ),
        Answer(
            f"What does a page of {LIMIT} of {count:,} comments cost?",
            ("RCU, by filter", "ours", "published"),
            measure_pages(engine, count),
            "Ours reads the statistics first and plans its queries by them.",
        ),
    ]
