"""Pages of a product's comments, newest first, filtered by ratings and language.

The items are those of comments.py and counters.py. A page begins strictly after the last comment that the
page before it has returned or read, whichever plan it uses (planner.py). It has at most 64 KB. The comments
of a stretch of time are read after their counters, whose sizes show how many of them the page has room for.

Invariant: a comment that exists during the whole listing is on exactly one page, whatever is added or deleted
meanwhile. Filters use the statistics and gsi2, which follow the writes in their order and lag behind by well
under a second. A comment whose rating or language is edited during the listing may be missed, but never
appears twice.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

import msgspec
from msgspec import UNSET

from chalicelib import times
from chalicelib.api import cursors, listing
from chalicelib.api.auth import Caller
from chalicelib.comments import counters, planner, replies
from chalicelib.comments.comments import (
    COMMENT,
    COMMENTS,
    OVERHEAD,
    PENDING_COMMENTS,
    PENDING_REPLIES,
    PRODUCTS,
    REPLIES,
    SHARDS,
    cell_key,
    comment_key,
    id_of,
    parse_language,
    product_of,
    statistics_key,
    to_comment,
)
from chalicelib.comments.counters import COUNTERS, counters_key
from chalicelib.comments.planner import Decision
from chalicelib.comments.schemas import (
    AllComments,
    AllReplies,
    Comments,
    CommentsQuery,
    HiddenQuery,
    ListedProduct,
    ModerationQuery,
    Plan,
    ProductComment,
    ProductReply,
    Products,
)
from chalicelib.concurrency import map_concurrently
from chalicelib.context import Context
from chalicelib.dynamo.items import Item, Key, Range, chunks
from chalicelib.dynamo.table import Page, Table
from chalicelib.errors import Forbidden

T = TypeVar("T", bound=msgspec.Struct)

RATINGS = frozenset(range(6))  # with 0, which is no rating
MOST = 2**108  # above the position of every comment in the list of all comments
LANGUAGES = 100  # languages of a product whose statistics one page reads, at most
SPARSE = 40  # comments for each matching one, above which single counters are cheaper than their range


@dataclass
class Reading:
    """The reading of a page: the filter, the number of queries, and their RCU as DynamoDB counts them."""

    table: Table
    product: str
    ratings: frozenset[int]
    languages: frozenset[str]
    limit: int
    queries: int = 0
    units: float = 0.0

    @property
    def pk(self) -> str:
        """Return the partition key of the product."""
        return statistics_key(self.product).pk

    def add(self, page: Page) -> list[Item]:
        """Add a query, and return its items."""
        self.queries += 1
        self.units += page.units
        return page.items

    def query(self, prefix: str, after: str, limit: int) -> Page:
        """Read the newest items with a prefix that are older than `after`."""
        return self.table.query(Range(self.pk, _bounds(after, prefix)), limit=limit, newest_first=True)


@dataclass
class SubQuery:
    """A query of one language and rating: its unread items, newest first, and its position."""

    pk: str
    size: int
    after: str
    items: deque[Item] = field(default_factory=deque)
    more: bool = True


def list_comments(context: Context, product: str, query: CommentsQuery, caller: Caller) -> Comments:
    """Return a page of comments, newest first.

    Cost: 0.5 RCU per 4 KB of comments and of their counters, at least 0.5 a query. Without a filter, that is
    the counters of the page and the comments themselves, at most 22 RCU. With a filter, 0.5 to 2 RCU for
    statistics and the cheaper plan of planner.py, at most twice the cost of its sub-queries.
    Raises: BadRequest, BadCursor; Forbidden when a caller who is no admin asks for the plan.
    """
    ratings = frozenset(map(int, query.rating.split(","))) if query.rating else RATINGS
    language = parse_language(query.language) if query.language else ""
    if query.explain and not caller.admin:
        raise Forbidden("Only an admin may see the plan. Send an admin's token.")
    cursor_scope = ("comments", product, ",".join(map(str, sorted(ratings))), language)
    after = cursors.decode(context.settings, cursor_scope, query.cursor)
    reading = Reading(context.table, product, ratings, frozenset({language} if language else ()), query.limit)
    decision = _decide(reading, language)
    found, position = _read(reading, decision, after)
    items, rest = listing.fill_page(((item, id_of(item)) for item in found), query.limit, to_comment)
    if rest and rest != id_of(found[-1]):
        position = rest  # the page has no room for the others
    return Comments(
        items=items,
        cursor=cursors.encode(context.settings, cursor_scope, position),
        plan=_plan(decision, reading) if query.explain else UNSET,
    )


def list_hidden(context: Context, product: str, query: HiddenQuery) -> Comments:
    """Return a page of the comments that an admin has hidden, newest first.

    Cost: 0.5 RCU per 4 KB of each ten comments, and 0.5 RCU for the counters of each.
    Raises: BadCursor.
    """
    cursor_scope = ("hidden", product)
    after = cursors.decode(context.settings, cursor_scope, query.cursor)
    first = comment_key(product, "", hidden=True)

    def read(limit: int, start: Item | None) -> Page:
        bounds = (first.sk, f"{first.sk}~")
        page = context.table.query(Range(first.pk, bounds), limit=limit, start=start, newest_first=True)
        counted = context.table.get_many(counters_key(product, id_of(item)) for item in page.items)
        by_id = {id_of(item): item for item in counted.values()}
        return page._replace(
            items=[counters.with_counts(item, by_id.get(id_of(item))) for item in page.items]
        )

    start = {"pk": first.pk, "sk": first.sk + after} if after else None
    items, position = listing.fill_page(listing.read_texts(read, query.limit, start), query.limit, to_comment)
    following = id_of(position) if position else ""
    return Comments(items=items, cursor=cursors.encode(context.settings, cursor_scope, following))


def list_products(context: Context, query: listing.ListQuery) -> Products:
    """Return a page of the products that have had a comment, newest first.

    Cost: 0.5 RCU per 4 KB of index (about 40 products).
    Raises: BadCursor.
    """
    page = listing.read_entries(context, PRODUCTS, query)
    items = [
        ListedProduct(product=product_of(entry), created=times.to_iso(times.from_epoch(entry["gsi1sk"])))
        for entry in page.items
    ]
    return Products(items=items, cursor=page.cursor)


def list_all(context: Context, query: ModerationQuery) -> AllComments:
    """Return a page of the comments on all products, newest first, hidden ones too, or of the pending ones.

    The entries of the four shards are merged. A comment that is hidden, shown or deleted between the reads of
    its entry and of its item is left out of this page.

    Cost: 2 RCU for the entries, 0.5 RCU per 4 KB of each comment, and 0.5 RCU for its counters.
    Raises: BadCursor.
    """

    def convert(item: Item) -> ProductComment:
        return ProductComment(product=product_of(item), **msgspec.structs.asdict(to_comment(item)))

    name = PENDING_COMMENTS if query.state else COMMENTS
    items, cursor = _list_newest(context, name, query, convert)
    return AllComments(items=items, cursor=cursor)


def list_all_replies(context: Context, query: ModerationQuery) -> AllReplies:
    """Return a page of the replies on all products, newest first, hidden ones too, or of the pending ones.

    A reply to a comment that is deleted is listed until the stream has removed it.

    Cost: 2 RCU for the entries, and 0.5 RCU per 4 KB of each reply.
    Raises: BadCursor.
    """

    def convert(item: Item) -> ProductReply:
        path, reply = replies.path_of(item), msgspec.structs.asdict(replies.to_reply(item))
        return ProductReply(product=path.product, comment=path.id, **reply)

    name = PENDING_REPLIES if query.state else REPLIES
    items, cursor = _list_newest(context, name, query, convert)
    return AllReplies(items=items, cursor=cursor)


def _list_newest(
    context: Context, name: str, query: ModerationQuery, convert: Callable[[Item], T]
) -> tuple[list[T], str | None]:
    """Return a page of a list in four shards, newest first, and the next page's cursor."""
    scope = (f"{name.lower()} of all products",)
    below = cursors.decode(context.settings, scope, query.cursor)
    bounds = (0, int(below) - 1 if below else MOST)
    shards = [Range(f"{name}#{shard}", bounds, "gsi1") for shard in range(SHARDS)]
    read = partial(context.table.query, limit=query.limit + 1, newest_first=True)
    found = [item for page in map_concurrently(read, shards) for item in page.items]
    entries = sorted(found, key=lambda entry: -entry["gsi1sk"])

    def texts() -> Iterator[tuple[Item, str | None]]:
        for chunk in chunks(entries[: query.limit], listing.CHUNK):
            keys = [Key(entry["pk"], entry["sk"]) for entry in chunk]
            counted = [counters_key(product_of(entry), id_of(entry)) for entry in chunk]
            items = context.table.get_many([*keys, *(counted if name == COMMENTS else ())])
            for entry, key, counter in zip(chunk, keys, counted, strict=True):
                is_last = entry is entries[-1]
                item = counters.with_counts(items[key], items.get(counter)) if key in items else {}
                yield item, None if is_last else str(entry["gsi1sk"])

    items, position = listing.fill_page(texts(), query.limit, lambda item: convert(item) if item else None)
    return items, cursors.encode(context.settings, scope, position or "")


def _decide(reading: Reading, language: str) -> Decision:
    """Choose a plan from the statistics. Without a filter there is one plan, and nothing is read."""
    ratings, limit = reading.ratings, reading.limit
    if ratings == RATINGS and not language:
        return planner.unfiltered(limit)
    whole = statistics_key(reading.product)
    if language:
        key = statistics_key(reading.product, language)
        found = reading.table.get_many([whole, key])
        reading.add(Page([], None, 2 * planner.UNIT))
        return planner.decide(found.get(whole, {}), {language: found.get(key, {})}, ratings, limit)
    page = reading.table.query(Range(whole.pk, (whole.sk, f"{whole.sk}#~")), limit=LANGUAGES + 1)
    by_key = {item["sk"]: item for item in reading.add(page)}
    every = by_key.pop(whole.sk, {})
    languages = {sk.removeprefix("S#"): item for sk, item in by_key.items()}
    return planner.decide(every, languages, ratings, limit, complete=page.next is None)


def _read(reading: Reading, decision: Decision, after: str) -> tuple[list[Item], str]:
    """Read up to `limit` comments with their counts. Return the position where more may follow, or ""."""
    found: list[Item] = []
    if decision.way == "none":
        return found, ""
    left, room = decision.reads, decision.room
    while left > 0 and room > 0 and not _is_full(found, reading.limit):
        size = min(left, planner.next_chunk_size(reading.limit - len(found), decision))
        items, after = _read_stretch(reading, after, size, room)
        found += planner.filter_comments(items, reading.languages, reading.ratings)
        if len(found) > reading.limit:
            del found[reading.limit :]
            return found, id_of(found[-1])
        if not after:
            return found, ""
        left, room = left - size, room - sum(map(_bytes_of, items))
    if "merge" in decision.expected and not _is_full(found, reading.limit):
        return _merge(reading, decision, found, after)
    return found, after


def _bytes_of(item: Item) -> int:
    return OVERHEAD + len(str(item.get("text", "")).encode())


def _is_full(found: Sequence[Item], limit: int) -> bool:
    """Return whether a page has its number of comments, or its bytes."""
    return len(found) >= limit or sum(map(_bytes_of, found)) >= listing.PAGE


def _read_stretch(reading: Reading, after: str, limit: int, room: int) -> tuple[list[Item], str]:
    """Read the next comments: at most `limit`, of `room` bytes. Return the position where more follow, or "".

    Cost: 0.5 RCU per 4 KB of counters (about 35), and 0.5 RCU per 4 KB of comments.
    """
    counted = reading.add(reading.query(COUNTERS, after, limit + 1))
    taken: list[Item] = []
    for item in counted[:limit]:
        room -= 0 if item["hidden"] else 1024 * item["size"]
        if room < 0 and taken:
            break
        taken.append(item)
    more = len(taken) < len(counted)
    by_id = {id_of(item): item for item in taken if not item["hidden"]}
    if not by_id:
        return [], id_of(taken[-1]) if more else ""
    bounds = (f"{COMMENT}{min(by_id)}", f"{COMMENT}{max(by_id)}")
    page = reading.table.query(Range(reading.pk, bounds), limit=len(by_id), newest_first=True)
    items = [counters.with_counts(item, by_id.get(id_of(item))) for item in reading.add(page)]
    return items, id_of(taken[-1]) if more else ""


def _merge(reading: Reading, decision: Decision, found: list[Item], after: str) -> tuple[list[Item], str]:
    """Add the newest comments of several ratings and languages to those found before, with their counts.

    Sub-queries that have no unread items left run in parallel. A comment that is being edited may be in two
    of them for a moment. It is returned once. Returns the position where more follow, or "".
    """
    missing, before = reading.limit - len(found), len(found)
    sub_queries = [
        SubQuery(
            cell_key(reading.product, cell.language, cell.rating),
            planner.first_size(cell, min(missing, decision.limit), decision.matching),
            after,
        )
        for cell in decision.cells
    ]
    while not _is_full(found, reading.limit):
        if exhausted := [sub_query for sub_query in sub_queries if sub_query.more and not sub_query.items]:
            _fill(reading, exhausted, reading.limit - len(found))
        heads = [sub_query for sub_query in sub_queries if sub_query.items]
        if not heads:
            return _with_counts(reading, decision, found, before), ""
        item = max(heads, key=lambda sub_query: str(sub_query.items[0]["sk"])).items.popleft()
        if not found or found[-1]["sk"] != item["sk"]:
            found.append(item)
    more = any(sub_query.items or sub_query.more for sub_query in sub_queries)
    return _with_counts(reading, decision, found, before), id_of(found[-1]) if more else ""


def _fill(reading: Reading, sub_queries: Sequence[SubQuery], missing: int) -> None:
    """Run sub-queries in parallel, each for twice as many items as before, at most for `missing`.

    Together they read at most `planner.TOGETHER` items, or one each, because the comments may be long.
    """
    most = min(missing, planner.share(len(sub_queries)))
    queries = [
        partial(
            reading.table.query,
            Range(sub_query.pk, _bounds(sub_query.after), "gsi2"),
            limit=min(sub_query.size, most),
            newest_first=True,
        )
        for sub_query in sub_queries
    ]
    for sub_query, page in zip(sub_queries, map_concurrently(lambda query: query(), queries), strict=True):
        sub_query.items.extend(reading.add(page))
        sub_query.more, sub_query.size = page.next is not None, 2 * sub_query.size
        if page.items:
            sub_query.after = id_of(page.items[-1])


def _with_counts(reading: Reading, decision: Decision, items: list[Item], before: int) -> list[Item]:
    """Return comments with their counts. The first `before` comments have them already.

    Cost: 0.5 RCU per 4 KB of the counters between them, if they are dense; 0.5 RCU for each other one.
    """
    bare, found = items[before:], dict[str, Item]()
    if bare and decision.total <= SPARSE * decision.matching:
        bounds = (f"{COUNTERS}{id_of(bare[-1])}", f"{COUNTERS}{id_of(bare[0])}")
        page = reading.table.query(Range(reading.pk, bounds), limit=SPARSE * len(bare), newest_first=True)
        found = {id_of(item): item for item in reading.add(page)}
    missing = [counters_key(reading.product, id) for item in bare if (id := id_of(item)) not in found]
    found |= {id_of(item): item for item in reading.table.get_many(missing).values()}
    reading.units += planner.UNIT * len(missing)
    return items[:before] + [counters.with_counts(item, found.get(id_of(item))) for item in bare]


def _bounds(after: str, prefix: str = COMMENT) -> tuple[str, str]:
    """Return the range of sort keys of comments that are older than `after`, or of all comments."""
    if not after:
        return prefix, f"{prefix}~"
    return prefix, f"{prefix}{after[:-1]}{chr(ord(after[-1]) - 1)}~"


def _plan(decision: Decision, reading: Reading) -> Plan:
    return Plan(
        way=decision.way,
        sub_queries=len(decision.cells),
        skipped=decision.skipped,
        expected=dict(decision.expected),
        queries=reading.queries,
        rru=reading.units,
    )
