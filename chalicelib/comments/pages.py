"""Pages of a product's comments, newest first, filtered by ratings and language.

The items are those of comments.py. A page begins strictly after the last comment that the page before it has
returned or read, whichever plan it uses (planner.py).

Invariant: a comment that exists during the whole listing is on exactly one page, whatever is added or deleted
meanwhile. Filters use the statistics and gsi2, which follow the writes in their order and lag behind by well
under a second. A comment whose rating or language is edited meanwhile may be missed, but is never returned
twice.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

import msgspec
from msgspec import UNSET

from chalicelib import times
from chalicelib.api import cursors, listing
from chalicelib.api.auth import Caller
from chalicelib.comments import planner, replies
from chalicelib.comments.comments import (
    COMMENT,
    COMMENTS,
    HIDDEN,
    PRODUCTS,
    REPLIES,
    SHARDS,
    cell_key,
    id_of,
    parse_language,
    product_of,
    statistics_key,
    to_comment,
)
from chalicelib.comments.planner import Decision
from chalicelib.comments.schemas import (
    AllComments,
    AllReplies,
    Comment,
    Comments,
    CommentsQuery,
    HiddenQuery,
    ListedProduct,
    Plan,
    ProductComment,
    ProductReply,
    Products,
)
from chalicelib.concurrency import map_concurrently
from chalicelib.dynamo.items import Item, Key
from chalicelib.dynamo.table import Page, Table
from chalicelib.errors import Forbidden, NotFound
from chalicelib.settings import Settings
from chalicelib.telemetry import logs

RATINGS = frozenset(range(1, 6))
MOST = 2**108  # above the position of every comment in the list of all comments
LANGUAGES = 100  # languages of a product whose statistics one page reads, at most


@dataclass
class ReadCost:
    """The number of queries made for a page, and their RCU as DynamoDB counts them."""

    queries: int = 0
    units: float = 0.0

    def add(self, page: Page) -> list[Item]:
        """Add a query, and return its items."""
        self.queries += 1
        self.units += page.units
        return page.items


@dataclass
class SubQuery:
    """A query of one language and rating: its unread items, newest first, and its position."""

    pk: str
    size: int
    after: str
    items: deque[Item] = field(default_factory=deque)
    more: bool = True


def list_comments(
    table: Table, product: str, query: CommentsQuery, settings: Settings, caller: Caller
) -> Comments:
    """Return a page of comments, newest first.

    Cost: 0.5 RCU per 4 KB of comments read, at least 0.5 a query. Without a filter, that is one query of the
    page itself. With a filter, 0.5 to 2 RCU for statistics and the cheaper plan of planner.py, at most twice
    the cost of its sub-queries, which is 0.5 to 20 RCU beside the page.
    Raises: BadRequest, BadCursor; Forbidden when a caller who is no admin asks for the plan.
    """
    ratings = frozenset(map(int, query.rating.split(","))) if query.rating else RATINGS
    language = parse_language(query.language) if query.language else ""
    if query.explain and not caller.admin:
        raise Forbidden("explain: only an admin may see the plan. Send an admin's token.")
    cursor_scope = ("comments", product, ",".join(map(str, sorted(ratings))), language)
    after = cursors.decode(settings, cursor_scope, query.cursor)
    cost = ReadCost()
    decision = _decide(table, product, ratings, language, query.limit + 1, cost)
    found, last_read = _read(table, product, decision, ratings, language, query.limit + 1, after, cost)
    items = found[: query.limit]
    position = id_of(items[-1]) if len(found) > query.limit else last_read
    return Comments(
        items=_to_comments(items),
        cursor=cursors.encode(settings, cursor_scope, position),
        plan=_plan(decision, cost) if query.explain else UNSET,
    )


def list_hidden(table: Table, product: str, query: HiddenQuery, settings: Settings) -> Comments:
    """Return a page of the comments that an admin has hidden, newest first.

    Cost: 0.5 RCU per 4 KB.
    Raises: BadCursor.
    """
    cursor_scope = ("hidden", product)
    after = cursors.decode(settings, cursor_scope, query.cursor)
    pk = statistics_key(product).pk
    page = table.query(pk, _bounds(after, HIDDEN), limit=query.limit, newest_first=True)
    position = id_of(page.items[-1]) if page.next else ""
    return Comments(items=_to_comments(page.items), cursor=cursors.encode(settings, cursor_scope, position))


def list_products(table: Table, query: listing.ListQuery, settings: Settings) -> Products:
    """Return a page of the products that have had a comment, newest first.

    Cost: 0.5 RCU per 4 KB of index (about 40 products).
    Raises: BadCursor.
    """
    page = listing.read_entries(table, PRODUCTS, query, settings)
    items = [
        ListedProduct(product=product_of(one), created=times.to_iso(times.from_epoch(one["gsi1sk"])))
        for one in page.items
    ]
    return Products(items=items, cursor=page.cursor)


def _require_list(settings: Settings) -> None:
    """Raise NotFound if the stage keeps no list of all comments."""
    if not settings.comments_list:
        raise NotFound("This stage keeps no list of all comments (HUBBUB_COMMENTS_LIST is off).")


def list_all(table: Table, query: listing.ListQuery, settings: Settings) -> AllComments:
    """Return a page of the comments on all products, newest first, hidden ones too.

    The entries of the four shards are merged. A comment that is hidden, shown or deleted between the reads of
    its entry and of its item is left out of this page.

    Cost: 2 RCU for the entries, and 0.5 RCU per 4 KB of each comment.
    Raises: NotFound where the stage keeps no such list; BadCursor.
    """
    _require_list(settings)
    items, cursor = _read_newest(table, COMMENTS, query, settings)
    return AllComments(
        items=[
            ProductComment(product=product_of(item), **msgspec.structs.asdict(to_comment(item)))
            for item in items
        ],
        cursor=cursor,
    )


def list_all_replies(table: Table, query: listing.ListQuery, settings: Settings) -> AllReplies:
    """Return a page of the replies on all products, newest first, hidden ones too.

    A reply to a comment that is deleted is listed until the stream has removed it.

    Cost: 2 RCU for the entries, and 0.5 RCU per 4 KB of each reply.
    Raises: NotFound where the stage keeps no such list; BadCursor.
    """
    _require_list(settings)
    items, cursor = _read_newest(table, REPLIES, query, settings)
    return AllReplies(
        items=[
            ProductReply(
                product=product_of(item),
                comment=replies.path_of(item).id,
                **msgspec.structs.asdict(replies.to_reply(item)),
            )
            for item in items
        ],
        cursor=cursor,
    )


def _read_newest(
    table: Table, name: str, query: listing.ListQuery, settings: Settings
) -> tuple[list[Item], str | None]:
    """Return a page of the items of a list in four shards, newest first, and the next page's cursor."""
    scope = (f"{name.lower()} of all products",)
    below = cursors.decode(settings, scope, query.cursor)
    bounds = (0, int(below) - 1 if below else MOST)
    shards = [f"{name}#{shard}" for shard in range(SHARDS)]
    read = partial(table.query, sk=bounds, index="gsi1", limit=query.limit + 1, newest_first=True)
    found = [item for page in map_concurrently(read, shards) for item in page.items]
    entries = sorted(found, key=lambda one: -one["gsi1sk"])
    chosen = {Key(one["pk"], one["sk"]): one["gsi1sk"] for one in entries[: query.limit]}
    items = table.get_many(chosen)
    position = str(min(chosen.values())) if len(entries) > query.limit else ""
    return [items[key] for key in chosen if key in items], cursors.encode(settings, scope, position)


def _decide(
    table: Table, product: str, ratings: frozenset[int], language: str, limit: int, cost: ReadCost
) -> Decision:
    """Choose a plan from the statistics. Without a filter there is one plan, and nothing is read."""
    if ratings == RATINGS and not language:
        return Decision("all")
    whole = statistics_key(product)
    if language:
        one = statistics_key(product, language)
        found = table.get_many([whole, one])
        cost.add(Page([], None, 2 * planner.UNIT))
        return planner.decide(found.get(whole, {}), {language: found.get(one, {})}, ratings, limit)
    page = table.query(whole.pk, (whole.sk, f"{whole.sk}#~"), limit=LANGUAGES + 1)
    by_key = {item["sk"]: item for item in cost.add(page)}
    every = by_key.pop(whole.sk, {})
    languages = {sk.removeprefix("S#"): item for sk, item in by_key.items()}
    return planner.decide(every, languages, ratings, limit, complete=page.next is None)


def _read(
    table: Table,
    product: str,
    decision: Decision,
    ratings: frozenset[int],
    language: str,
    limit: int,
    after: str,
    cost: ReadCost,
) -> tuple[list[Item], str]:
    """Read about `limit` comments. Return them with the last id read where the reading stopped early."""
    match decision.way:
        case "none":
            return [], ""
        case "all":
            return cost.add(_query_newest(table, product, after, limit)), ""
        case "merge":
            return _merge(table, product, decision, limit, after, cost), ""
    found: list[Item] = []
    left = decision.reads
    languages = frozenset({language} if language else ())
    while left > 0 and len(found) < limit:
        size = min(left, planner.next_chunk_size(limit - len(found), decision))
        page = _query_newest(table, product, after, size)
        items = cost.add(page)
        found += planner.filter_comments(items, languages, ratings)
        if page.next is None:
            return found, ""
        left, after = left - len(items), id_of(items[-1])
    if len(found) < limit and "merge" in decision.expected:
        found += _merge(table, product, decision, limit - len(found), after, cost)
        return found, ""
    return found, after


def _merge(
    table: Table, product: str, decision: Decision, limit: int, after: str, cost: ReadCost
) -> list[Item]:
    """Read the newest `limit` comments of several ratings and languages.

    Sub-queries that have no unread items left run in parallel. A comment that is being edited may be in two
    of them for a moment. It is returned once.
    """
    sub_queries = [
        SubQuery(
            cell_key(product, cell.language, cell.rating),
            planner.first_size(cell, limit, decision.matching),
            after,
        )
        for cell in decision.cells
    ]
    found: list[Item] = []
    while len(found) < limit:
        if exhausted := [sub_query for sub_query in sub_queries if sub_query.more and not sub_query.items]:
            _fill(table, exhausted, limit - len(found), cost)
        heads = [sub_query for sub_query in sub_queries if sub_query.items]
        if not heads:
            break
        item = max(heads, key=lambda sub_query: str(sub_query.items[0]["sk"])).items.popleft()
        if not found or found[-1]["sk"] != item["sk"]:
            found.append(item)
    return found


def _fill(table: Table, sub_queries: Sequence[SubQuery], missing: int, cost: ReadCost) -> None:
    """Run sub-queries in parallel, each for twice as many items as before, at most for `missing`."""
    queries = [
        partial(
            table.query,
            sub_query.pk,
            _bounds(sub_query.after),
            index="gsi2",
            limit=min(sub_query.size, missing),
            newest_first=True,
        )
        for sub_query in sub_queries
    ]
    for sub_query, page in zip(sub_queries, map_concurrently(lambda query: query(), queries), strict=True):
        sub_query.items.extend(cost.add(page))
        sub_query.more, sub_query.size = page.next is not None, 2 * sub_query.size
        if page.items:
            sub_query.after = id_of(page.items[-1])


def _query_newest(table: Table, product: str, after: str, limit: int) -> Page:
    """Read a product's comments of all ratings and languages, newest first."""
    return table.query(statistics_key(product).pk, _bounds(after), limit=limit, newest_first=True)


def _bounds(after: str, prefix: str = COMMENT) -> tuple[str, str]:
    """Return the range of sort keys of comments that are older than `after`, or of all comments."""
    if not after:
        return prefix, f"{prefix}~"
    return prefix, f"{prefix}{after[:-1]}{chr(ord(after[-1]) - 1)}~"


def _to_comments(items: Sequence[Item]) -> list[Comment]:
    """Build the API's representation of comments. A malformed one is logged and left out."""
    found = []
    for item in items:
        try:
            found.append(to_comment(item))
        except (KeyError, ValueError, OverflowError):
            logs.logger().warning("a comment is malformed", extra={"pk": item["pk"], "sk": item["sk"]})
    return found


def _plan(decision: Decision, cost: ReadCost) -> Plan:
    return Plan(
        way=decision.way,
        sub_queries=len(decision.cells),
        skipped=decision.skipped,
        expected=dict(decision.expected),
        queries=cost.queries,
        rru=cost.units,
    )
