"""Pages of a product's comments in five orders, filtered by ratings and language.

The items are those of comments.py and counters.py. A page begins strictly after the last comment that the
page before it has returned or read, whichever plan it uses (planner.py). It has at most 64 KB.

| order | reads |
|---|---|
| `newest`, `oldest` | the comments, or their cells of gsi2, by time |
| `highest`, `lowest` | one rating after the other, then comments without one; each newest first |
| `helpful` | the comments with votes by gsi1 of their counters, then the others; ties newest first |

Invariant: a comment that exists during the whole listing is on exactly one page, whatever is added or deleted
meanwhile. Filters and ratings use the statistics and gsi2, which follow the writes in their order and lag
behind by well under a second. A comment whose rating or language is edited during the listing may be missed.
By time it never appears twice. A comment whose place in another order changes during the listing may.

A page costs at most UNITS (planner.py), because no query reads more comments than the rest of them allows for
the longest ones.
"""

import math
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple, TypeVar

import msgspec
from msgspec import UNSET

from chalicelib import times
from chalicelib.api import cursors, listing
from chalicelib.api.auth import Caller
from chalicelib.comments import counters, planner, products, replies
from chalicelib.comments.comments import (
    COMMENT,
    COMMENTS,
    OVERHEAD,
    PENDING_COMMENTS,
    PENDING_REPLIES,
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
from chalicelib.comments.counters import COUNTERS, VOTE, counters_key, helpful_key
from chalicelib.comments.planner import Decision, Statistics
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
TOP = 10**37  # above the index key of every comment with votes


@dataclass
class Reading:
    """The reading of a page: filter, order, plan, the number of queries, and their RCU as DynamoDB counts."""

    table: Table
    product: str
    ratings: frozenset[int]
    languages: frozenset[str]
    limit: int
    newest_first: bool = True
    queries: int = 0
    units: float = 0.0
    decision: Decision = planner.UNFILTERED

    @property
    def pk(self) -> str:
        """Return the partition key of the product."""
        return statistics_key(self.product).pk

    def most(self, found: int = 0) -> int:
        """Return how many comments of any length the next query may read, after the counters of some."""
        left = planner.UNITS - self.units - (0 if self.decision.is_dense else planner.UNIT * found)
        return min(planner.TOGETHER, int(left / planner.LONGEST))

    def add(self, page: Page) -> list[Item]:
        """Add a query, and return its items."""
        self.queries += 1
        self.units += page.units
        return page.items

    def query(self, span: Range, limit: int) -> Page:
        """Read comments in the order of the page."""
        return self.table.query(span, limit=limit, newest_first=self.newest_first)

    def get(self, keys: Sequence[Key]) -> dict[Key, Item]:
        """Read items by their keys, as one query."""
        found = self.table.get_many(keys)
        sizes = [_bytes_of(found[key]) if key in found else 0 for key in keys]
        self.add(Page([], None, sum(map(planner.estimate_units, sizes))))
        return found

    def bounds(self, after: str) -> tuple[str, str]:
        """Return the range of sort keys of the comments that follow a comment, or of all comments."""
        first, last = COMMENT, f"{COMMENT}~"
        if after and self.newest_first:
            last = f"{COMMENT}{after[:-1]}{chr(ord(after[-1]) - 1)}~"
        elif after:
            first = f"{COMMENT}{after}~"
        return first, last


@dataclass
class SubQuery:
    """A query of one language and rating: its unread items in order, and its position."""

    pk: str
    size: int
    after: str
    items: deque[Item] = field(default_factory=deque)
    more: bool = True


class Text(NamedTuple):
    """A comment of a page, and the position after it."""

    item: Item
    position: str


def list_comments(context: Context, product: str, query: CommentsQuery, caller: Caller) -> Comments:
    """Return a page of comments.

    Cost: 0.5 RCU per 4 KB of comments and of their counters, at least 0.5 a query. With a filter or by
    rating, 0.5 to 2 RCU for statistics, the cheaper plan of planner.py, at most twice the cost of its
    sub-queries, and up to 0.5 RCU for the counters of each comment. By votes 0.5 RCU for each comment and for
    its counters. At most 100 RCU.
    Raises: BadRequest, BadCursor; Forbidden when a caller who is no admin asks for the plan.
    """
    ratings = frozenset(map(int, query.rating.split(","))) if query.rating else RATINGS
    language = parse_language(query.language) if query.language else ""
    if query.explain and not caller.admin:
        raise Forbidden("Only an admin may see the plan. Send an admin's token.")
    cursor_scope = ("comments", product, ",".join(map(str, sorted(ratings))), language, query.order)
    after = cursors.decode(context.settings, cursor_scope, query.cursor)
    reading = Reading(
        context.table,
        product,
        ratings,
        frozenset({language} if language else ()),
        query.limit,
        newest_first=query.order != "oldest",
    )
    read = {"highest": _read_by_rating, "lowest": _read_by_rating, "helpful": _read_by_votes}
    found, position = read.get(query.order, _read_by_time)(reading, query.order, after)
    # The position after the last comment is that of the reading, which may have read others since.
    ends = [text.position for text in found[:-1]] + [position]
    texts = [(text.item, end or None) for text, end in zip(found, ends, strict=True)] if found else []
    items, following = listing.fill_page(texts, query.limit, to_comment)
    return Comments(
        items=items,
        cursor=cursors.encode(context.settings, cursor_scope, (following or "") if found else position),
        plan=_plan(reading) if query.explain else UNSET,
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
    """Return a page of the products that have had a comment or a definition, newest first.

    Cost: 0.5 RCU per 4 KB of index (about 40 products).
    Raises: BadCursor.
    """
    page = listing.read_entries(context, products.PRODUCTS, query)
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


# -- orders --------------------------------------------------------------------------------------------


def _read_by_time(reading: Reading, _: str, after: str) -> tuple[list[Text], str]:
    """Read the comments of a page by time. Return the position where more may follow, or ""."""
    if reading.ratings != RATINGS or reading.languages:
        reading.decision = planner.decide(_read_statistics(reading), reading.ratings, reading.limit)
    items, position = _read(reading, after)
    return [Text(item, id_of(item)) for item in items], position


def _read_by_rating(reading: Reading, order: str, after: str) -> tuple[list[Text], str]:
    """Read the comments of a page, one rating after the other.

    A position is a rating, followed by the id of the last comment that was read with it.
    """
    statistics, limit = _read_statistics(reading), reading.limit
    ratings = sorted(reading.ratings - {0}, reverse=order == "highest") + [0] * (0 in reading.ratings)
    found: list[Text] = []
    place = ratings.index(int(after[0])) if after else 0
    after = after[1:]
    while True:
        rating, reading.limit = ratings[place], limit - len(found)
        reading.ratings = frozenset({rating})
        reading.decision = planner.decide(statistics, reading.ratings, reading.limit)
        items, after = _read(reading, after)
        found += [Text(item, f"{rating}{id_of(item)}") for item in items]
        if after:
            return found, f"{rating}{after}"
        place += 1
        if place == len(ratings):
            return found, ""
        if _is_full([text.item for text in found], limit):
            return found, str(ratings[place])


def _read_by_votes(reading: Reading, _: str, after: str) -> tuple[list[Text], str]:
    """Read the comments of a page with votes, most first, and then the others.

    A position is `V` and an index key, or `N` and the id of the last comment without votes that was read.
    """
    found: list[Text] = []
    limit = reading.limit
    if not after.startswith("N"):
        reading.decision = Decision("votes", limit=planner.FIRST)
        found, after = _read_voted(reading, after[1:])
        if after.startswith("V"):
            return found, after
    if reading.languages or reading.ratings != RATINGS:
        reading.decision = planner.decide(_read_statistics(reading), reading.ratings, limit)
    else:
        reading.decision = planner.UNFILTERED
    after = after[1:]
    while not _is_full([text.item for text in found], limit):
        reading.limit, before = limit - len(found), after
        items, after = _read(reading, after)
        found += [Text(item, f"N{id_of(item)}") for item in items if not item.get("votes")]
        if not after:
            return found, ""
        if after == before:
            break
    return found, f"N{after}"


def _read_voted(reading: Reading, below: str) -> tuple[list[Text], str]:
    """Read comments with votes whose index keys are less than `below`. Return "N" when there are no more.

    Cost: 0.5 RCU per 4 KB of index, and 0.5 RCU for each comment and 4 KB, and for its counters.
    """
    found: list[Text] = []
    while not _is_full([text.item for text in found], reading.limit):
        if (most := min(reading.most(), _expect(reading, [text.item for text in found]))) < 1:
            break
        span = Range(helpful_key(reading.product), (VOTE, int(below) - 1 if below else TOP), "gsi1")
        page = reading.table.query(span, limit=most, newest_first=True)
        entries = {id_of(entry): str(entry["gsi1sk"]) for entry in reading.add(page)}
        keys = {id: (comment_key(reading.product, id), counters_key(reading.product, id)) for id in entries}
        items = reading.get([key for pair in keys.values() for key in pair])
        for id, (key, counted) in keys.items():
            if key in items and planner.filter_comments([items[key]], reading.languages, reading.ratings):
                item = counters.with_counts(items[key], items.get(counted))
                found.append(Text(item, f"V{entries[id]}"))
        if page.next is None:
            return found, "N"
        below = list(entries.values())[-1]
    return found, f"V{below}"


def _read_statistics(reading: Reading) -> Statistics:
    """Read the counts that a plan is chosen from."""
    whole = statistics_key(reading.product)
    if reading.languages:
        [language] = reading.languages
        key = statistics_key(reading.product, language)
        found = reading.get([whole, key])
        return Statistics(found.get(whole, {}), {language: found.get(key, {})})
    page = reading.table.query(Range(whole.pk, (whole.sk, f"{whole.sk}#~")), limit=LANGUAGES + 1)
    by_key = {item["sk"]: item for item in reading.add(page)}
    every = by_key.pop(whole.sk, {})
    languages = {sk.removeprefix("S#"): item for sk, item in by_key.items()}
    return Statistics(every, languages, is_complete=page.next is None)


# -- plans ---------------------------------------------------------------------------------------------


def _read(reading: Reading, after: str) -> tuple[list[Item], str]:
    """Read up to `limit` comments with their counts. Return the position where more may follow, or ""."""
    found: list[Item] = []
    decision, begun = reading.decision, reading.units
    if decision.way == "none":
        return found, ""
    while reading.units - begun < decision.budget and not _is_full(found, reading.limit):
        size = min(reading.most(len(found)), planner.next_chunk_size(_expect(reading, found), decision))
        if size < 1:
            return _with_counts(reading, found, after)
        page = reading.query(Range(reading.pk, reading.bounds(after)), size)
        items = reading.add(page)
        found += planner.filter_comments(items, reading.languages, reading.ratings)
        if len(found) > reading.limit:
            del found[reading.limit :]
            return _with_counts(reading, found, id_of(found[-1]))
        if page.next is None:
            return _with_counts(reading, found, "")
        after = id_of(items[-1])
    if "merge" in decision.expected and not _is_full(found, reading.limit):
        after = _merge(reading, found, after)
    return _with_counts(reading, found, after)


def _bytes_of(item: Item) -> int:
    return OVERHEAD + len(str(item.get("text", "")).encode())


def _is_full(found: Sequence[Item], limit: int) -> bool:
    """Return whether a page has its number of comments, or its bytes."""
    return len(found) >= limit or sum(map(_bytes_of, found)) >= listing.PAGE


def _expect(reading: Reading, found: Sequence[Item]) -> int:
    """Return how many more comments the page probably has room for."""
    missing = reading.limit - len(found)
    if not found:
        return min(missing, reading.decision.limit)
    total = sum(map(_bytes_of, found))
    return min(missing, math.ceil((listing.PAGE - total) * len(found) / total))


def _merge(reading: Reading, found: list[Item], after: str) -> str:
    """Add the next comments of several ratings and languages to those found before.

    Sub-queries that have no unread items left run in parallel. A comment that is being edited may be in two
    of them for a moment. It is returned once. Returns the position where more follow, or "".
    """
    decision, choose = reading.decision, max if reading.newest_first else min
    missing = reading.limit - len(found)
    sub_queries = [
        SubQuery(
            cell_key(reading.product, cell.language, cell.rating),
            planner.first_size(cell, min(missing, decision.limit), decision.matching),
            after,
        )
        for cell in decision.cells
    ]
    while not _is_full(found, reading.limit):
        exhausted = [sub_query for sub_query in sub_queries if sub_query.more and not sub_query.items]
        if exhausted and not _fill(reading, exhausted, reading.limit - len(found)):
            return after
        heads = [sub_query for sub_query in sub_queries if sub_query.items]
        if not heads:
            return ""
        item = choose(heads, key=lambda sub_query: str(sub_query.items[0]["sk"])).items.popleft()
        after = id_of(item)
        if not found or found[-1]["sk"] != item["sk"]:
            found.append(item)
    more = any(sub_query.items or sub_query.more for sub_query in sub_queries)
    return after if more else ""


def _fill(reading: Reading, sub_queries: Sequence[SubQuery], missing: int) -> bool:
    """Run sub-queries in parallel, each for twice as many items as before, at most for `missing`.

    Return False when the page may not read a comment of each of them any more.
    """
    if (most := reading.most(reading.limit - missing) // len(sub_queries)) < 1:
        return False
    queries = [
        partial(
            reading.query,
            Range(sub_query.pk, reading.bounds(sub_query.after), "gsi2"),
            min(sub_query.size, missing, most),
        )
        for sub_query in sub_queries
    ]
    for sub_query, page in zip(sub_queries, map_concurrently(lambda query: query(), queries), strict=True):
        sub_query.items.extend(reading.add(page))
        sub_query.more, sub_query.size = page.next is not None, 2 * sub_query.size
        if page.items:
            sub_query.after = id_of(page.items[-1])
    return True


def _with_counts(reading: Reading, items: list[Item], after: str) -> tuple[list[Item], str]:
    """Return comments with their counts, and the position after them.

    Most comments have no counters, so one query reads those between the comments. If it ends before them, the
    others are read by their keys. Where the comments are dense, the page ends there instead.

    Cost: 0.5 RCU per 4 KB of the counters between the comments, at most 8. Where they are not dense, at most
    0.5 RCU for each comment and 8 more.
    """
    if not items:
        return items, after
    ids, is_dense = [id_of(item) for item in items], reading.decision.is_dense
    bounds = (f"{COUNTERS}{min(ids)}", f"{COUNTERS}{max(ids)}")
    limit = planner.DENSE if is_dense else min(planner.DENSE, planner.NEAR * (len(ids) + 1))
    page = reading.query(Range(reading.pk, bounds), limit)
    counted = {id_of(item): item for item in reading.add(page)}
    if page.next:
        last = id_of(page.items[-1])
        known = [id for id in ids if id == last or (id > last) is reading.newest_first]
        if is_dense:
            items, after = items[: len(known)], known[-1]
        else:
            found = reading.get([counters_key(reading.product, id) for id in ids[len(known) :]])
            counted |= {id_of(item): item for item in found.values()}
    return [counters.with_counts(item, counted.get(id_of(item))) for item in items], after


def _plan(reading: Reading) -> Plan:
    decision = reading.decision
    return Plan(
        way=decision.way,
        sub_queries=len(decision.cells),
        skipped=decision.skipped,
        expected=dict(decision.expected),
        queries=reading.queries,
        rru=reading.units,
    )
