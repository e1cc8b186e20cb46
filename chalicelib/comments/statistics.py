"""Statistics of comments: a product's counts and averages, and the products with most ratings of 5.

The items are those of comments.py, which also defines their contribution. Nothing here writes.
"""

from chalicelib.comments.comments import leaders_key, parse_language, product_of, statistics_key
from chalicelib.comments.schemas import (
    Leader,
    Leaders,
    LeadersQuery,
    Ratings,
    RatingStatistics,
    StatisticsQuery,
)
from chalicelib.dynamo.items import Item, Key
from chalicelib.dynamo.table import Table
from chalicelib.settings import Settings

PRIOR = 1  # votes of the Bayesian prior for each of the five ratings
TIES = 100  # products with the same count that are sorted where a page of leaders ends, at most
MOST = 10**30


def get_statistics(
    table: Table, product: str, query: StatisticsQuery, *, consistent: bool = False
) -> RatingStatistics:
    """Return a product's counts and averages, in one language or in all. They are zero without a comment.

    The Bayesian average is the mean with one more vote for each rating. These five votes have the mean 3, and
    some dozen real votes outweigh them. Source: Evan Miller, "Ranking Items With Star Ratings", 2014 (the
    expected rating under a uniform Dirichlet prior).

    Cost: 0.5 RCU; consistent, 1.
    """
    key = statistics_key(product, parse_language(query.language) if query.language else "")
    item = table.get(key, consistent=consistent) or {}
    votes = read_counts(item)
    total, stars = sum(votes), sum(rating * n for rating, n in enumerate(votes, 1))
    return RatingStatistics(
        ratings=Ratings(**dict(zip(("one", "two", "three", "four", "five"), votes, strict=True))),
        total=total,
        average=round(stars / total, 4) if total else None,
        bayesian_average=round((stars + 15 * PRIOR) / (total + 5 * PRIOR), 4),
    )


def list_leaders(table: Table, query: LeadersQuery, settings: Settings) -> Leaders:
    """Return the products with most ratings of 5, in one language or in all, and by name where they tie.

    Anybody with a token may comment on a product of any name. So a product needs HUBBUB_LEADERS_MIN ratings
    of 5 from as many authors. Where HUBBUB_LEADERS names products, only those are listed. Where more than 100
    products tie for the last rank, some of them are left out.

    Cost: 0.5 RCU per 4 KB of index (about 35 products), and 0.5 more where a tie goes on past the end. With
    HUBBUB_LEADERS, 0.5 RCU for each product.
    """
    language = parse_language(query.language) if query.language else ""
    if settings.leaders:
        return _list_named(table, query, language, settings)
    pk, least = leaders_key(language), settings.leaders_min
    page = table.query(pk, (least, MOST), index="gsi1", limit=query.limit, newest_first=True)
    found = page.items
    if page.next:  # gsi1 does not sort by name: read all products that tie for the last rank
        least = found[-1]["gsi1sk"]
        tied = table.query(pk, (least, least), index="gsi1", limit=TIES).items
        found = found + tied
    # A product whose count changes between the reads is in both: the later read counts.
    return _select({product_of(item): item["gsi1sk"] for item in found}, query)


def _list_named(table: Table, query: LeadersQuery, language: str, settings: Settings) -> Leaders:
    """Return the leaders among the products that HUBBUB_LEADERS names, from their own counts."""
    items = table.get_many(statistics_key(product, language) for product in settings.leaders)
    fives = {product_of(item): read_counts(item)[4] for item in items.values()}
    return _select({product: n for product, n in fives.items() if n >= settings.leaders_min}, query)


def _select(fives: dict[str, int], query: LeadersQuery) -> Leaders:
    best = sorted(fives.items(), key=lambda one: (-one[1], one[0]))[: query.limit]
    return Leaders(items=[Leader(product=product, five_star=count) for product, count in best])


def read_counts(item: Item) -> list[int]:
    """Return the number of comments with each rating, from 1 to 5."""
    return [item.get(f"count_{rating}", 0) for rating in range(1, 6)]


def topic(key: Key) -> str | None:
    """Return the product of a key of statistics in all languages, or None for any other key."""
    is_ours = key.sk == "S" and key.pk.startswith("PRODUCT#")
    return key.pk.removeprefix("PRODUCT#") if is_ours else None


def live(table: Table, product: str) -> RatingStatistics:
    """Return a product's statistics for subscribers to its topic.

    Cost: 1 RCU.
    """
    return get_statistics(table, product, StatisticsQuery(), consistent=True)
