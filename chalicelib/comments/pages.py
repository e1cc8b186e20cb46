"""Pages of a product's comments, newest first, of any ratings and in one language or all.

A page goes on strictly after the last comment that the page before it has shown or looked at, whichever way
it is found: every comment that is there all the while is on one page, once, whatever is added and deleted
meanwhile. Filters follow the statistics and gsi2, which lag behind a write by well under a second: a comment
whose rating or language is edited while they are read may be missed, but is never shown twice.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

from msgspec import UNSET

from chalicelib.api import cursors
from chalicelib.api.auth import Caller
from chalicelib.comments import planner
from chalicelib.comments.comments import COMMENT, HIDDEN, cell_key, ident, shown, statistics_key, tag
from chalicelib.comments.planner import Decision
from chalicelib.comments.schemas import Comment, Comments, CommentsQuery, HiddenQuery, Plan
from chalicelib.concurrency import map_concurrently
from chalicelib.dynamo.items import Item
from chalicelib.dynamo.table import Page, Table
from chalicelib.errors import Forbidden
from chalicelib.settings import Settings
from chalicelib.telemetry import logs

RATINGS = frozenset(range(1, 6))
LANGUAGES = 100  # of one product, whose statistics are read for one page


@dataclass
class Tally:
    """The queries made for a page, and their RCU as DynamoDB counts them."""

    queries: int = 0
    units: float = 0.0

    def add(self, page: Page) -> list[Item]:
        """Count a query; answer its items."""
        self.queries += 1
        self.units += page.units
        return page.items


@dataclass
class Stream:
    """One sub-query: what it has brought, newest first, and where it goes on."""

    pk: str
    size: int
    after: str
    items: deque[Item] = field(default_factory=deque)
    more: bool = True


def newest(table: Table, product: str, query: CommentsQuery, settings: Settings, caller: Caller) -> Comments:
    """Answer a page of comments, newest first.

    Costs 0.5 RCU per 4 KB of comments read, at least 0.5 a query: unfiltered, one query of the page itself;
    filtered, 0.5 to 2 of statistics, and then the cheaper of the ways in comment_plans.py, at most twice what
    its sub-queries cost, 0.5 to 20 beside the page. Raises BadRequest, BadCursor, and Forbidden for a plan
    asked for by anybody but an admin.
    """
    ratings = frozenset(map(int, query.rating.split(","))) if query.rating else RATINGS
    language = tag(query.language) if query.language else ""
    if query.explain and not caller.admin:
        raise Forbidden("explain: only an admin may see the plan; send an admin's token.")
    cursor_scope = ("comments", product, ",".join(map(str, sorted(ratings))), language)
    after = cursors.decode(settings, cursor_scope, query.cursor)
    tally = Tally()
    decision = _decision(table, product, ratings, language, query.limit + 1, tally)
    found, looked_at = _read(table, product, decision, ratings, language, query.limit + 1, after, tally)
    items = found[: query.limit]
    place = ident(items[-1]) if len(found) > query.limit else looked_at
    return Comments(
        items=_shown(items),
        cursor=cursors.encode(settings, cursor_scope, place),
        plan=_plan(decision, tally) if query.explain else UNSET,
    )


def hidden(table: Table, product: str, query: HiddenQuery, settings: Settings) -> Comments:
    """Answer a page of the comments that an admin has hidden, newest first. Costs 0.5 RCU per 4 KB.

    Raises BadCursor.
    """

    def read_page(after: str) -> tuple[list[Item], str]:
        pk = statistics_key(product).pk
        page = table.query(pk, _bounds(after, HIDDEN), limit=query.limit, newest_first=True)
        return page.items, ident(page.items[-1]) if page.next else ""

    items, cursor = cursors.paginate(settings, ("hidden", product), query.cursor, read_page)
    return Comments(items=_shown(items), cursor=cursor)


def _decision(
    table: Table, product: str, ratings: frozenset[int], language: str, limit: int, tally: Tally
) -> Decision:
    """Decide from the statistics; without a filter there is nothing to decide, and nothing is read."""
    if ratings == RATINGS and not language:
        return Decision("all")
    whole = statistics_key(product)
    if language:
        one = statistics_key(product, language)
        found = table.get_many([whole, one])
        tally.add(Page([], None, 2 * planner.UNIT))
        return planner.decide(found.get(whole, {}), {language: found.get(one, {})}, ratings, limit)
    page = table.query(whole.pk, (whole.sk, f"{whole.sk}#~"), limit=LANGUAGES + 1)
    by_key = {item["sk"]: item for item in tally.add(page)}
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
    tally: Tally,
) -> tuple[list[Item], str]:
    """Read up to `limit` comments and maybe more; also the place looked at last, where it stopped early."""
    match decision.way:
        case "none":
            return [], ""
        case "all":
            return tally.add(_newest_of(table, product, after, limit)), ""
        case "merge":
            return _merged(table, product, decision, limit, after, tally), ""
    found: list[Item] = []
    left = decision.reads
    languages = frozenset({language} if language else ())
    while left > 0 and len(found) < limit:
        size = min(left, planner.chunk(limit - len(found), decision))
        page = _newest_of(table, product, after, size)
        items = tally.add(page)
        found += planner.only(items, languages, ratings)
        if page.next is None:
            return found, ""
        left, after = left - len(items), ident(items[-1])
    if len(found) < limit and "merge" in decision.expected:
        found += _merged(table, product, decision, limit - len(found), after, tally)
        return found, ""
    return found, after


def _merged(
    table: Table, product: str, decision: Decision, limit: int, after: str, tally: Tally
) -> list[Item]:
    """Read the newest `limit` comments of several ratings and languages, fewer if there are no more.

    All sub-queries that have nothing left to show are made at once. A comment that is being edited may stand
    in two of them for a moment: it is taken once.
    """
    streams = [
        Stream(
            cell_key(product, cell.language, cell.rating),
            planner.share(cell, limit, decision.matching),
            after,
        )
        for cell in decision.cells
    ]
    found: list[Item] = []
    while len(found) < limit:
        if hungry := [stream for stream in streams if stream.more and not stream.items]:
            _fill(table, hungry, limit - len(found), tally)
        heads = [stream for stream in streams if stream.items]
        if not heads:
            break
        item = max(heads, key=lambda stream: str(stream.items[0]["sk"])).items.popleft()
        if not found or found[-1]["sk"] != item["sk"]:
            found.append(item)
    return found


def _fill(table: Table, streams: Sequence[Stream], missing: int, tally: Tally) -> None:
    """Make sub-queries in parallel, each for twice as much as before, but no more than is missing."""
    asks = [
        partial(
            table.query,
            stream.pk,
            _bounds(stream.after),
            index="gsi2",
            limit=min(stream.size, missing),
            newest_first=True,
        )
        for stream in streams
    ]
    for stream, page in zip(streams, map_concurrently(lambda ask: ask(), asks), strict=True):
        stream.items.extend(tally.add(page))
        stream.more, stream.size = page.next is not None, 2 * stream.size
        if page.items:
            stream.after = ident(page.items[-1])


def _newest_of(table: Table, product: str, after: str, limit: int) -> Page:
    """Read a product's comments, newest first, whatever their ratings and languages."""
    return table.query(statistics_key(product).pk, _bounds(after), limit=limit, newest_first=True)


def _bounds(after: str, prefix: str = COMMENT) -> tuple[str, str]:
    """Bound sort keys to those of comments, and to strictly before one of them if there is one."""
    if not after:
        return prefix, f"{prefix}~"
    return prefix, f"{prefix}{after[:-1]}{chr(ord(after[-1]) - 1)}~"


def _shown(items: Sequence[Item]) -> list[Comment]:
    """Show comments; one that is malformed (nothing here writes such) must not keep the others from sight."""
    found = []
    for item in items:
        try:
            found.append(shown(item))
        except (KeyError, ValueError, OverflowError):
            logs.logger().warning("a comment is malformed", extra={"pk": item["pk"], "sk": item["sk"]})
    return found


def _plan(decision: Decision, tally: Tally) -> Plan:
    return Plan(
        way=decision.way,
        sub_queries=len(decision.cells),
        skipped=decision.skipped,
        expected=dict(decision.expected),
        queries=tally.queries,
        rru=tally.units,
    )
