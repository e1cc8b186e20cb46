"""Statistics of comments: a product's counts and averages, and the products with most ratings of 5.

The items are those of comments.py, which also defines their contribution. Nothing here writes.
"""

import msgspec
from msgspec import UNSET

from chalicelib.aggregates import toplist
from chalicelib.comments.comments import leaders_key, parse_language, product_of, statistics_key
from chalicelib.comments.schemas import (
    Leader,
    Leaders,
    LeadersQuery,
    ProductPath,
    RatingCounts,
    RatingStatistics,
    StatisticsQuery,
)
from chalicelib.context import Context
from chalicelib.dynamo.items import Item, Key
from chalicelib.dynamo.table import Table

PRIOR = 1  # votes of the Bayesian prior for each of the five ratings
TIES = 100  # products with the same count that are sorted where a page of leaders ends, at most


def get_statistics(
    table: Table, product: str, query: StatisticsQuery, *, consistent: bool = False
) -> RatingStatistics:
    """Return a product's counts and averages, in one language or in all. They are zero without a comment.

    Only comments with a rating have a part in the averages. The Bayesian average is the mean with one more
    vote for each rating. These five votes have the mean 3, and some dozen real votes outweigh them. Source:
    Evan Miller, "Ranking Items With Star Ratings", 2014 (the expectation under a uniform Dirichlet prior).

    Cost: 0.5 RCU; consistent, 1.
    """
    key = statistics_key(product, parse_language(query.language) if query.language else "")
    item = table.get(key, consistent=consistent) or {}
    votes = read_counts(item)
    rated, stars = sum(votes), sum(rating * n for rating, n in enumerate(votes, 1))
    return RatingStatistics(
        ratings=RatingCounts(**dict(zip(("one", "two", "three", "four", "five"), votes, strict=True))),
        total=item.get("count_total", 0),
        average=round(stars / rated, 4) if rated else None,
        bayesian_average=round((stars + 15 * PRIOR) / (rated + 5 * PRIOR), 4),
    )


def encode_ld_json(found: RatingStatistics, path: ProductPath) -> str:
    """Encode a product's statistics as an AggregateRating in JSON-LD. Without ratings it has no value.

    Source: https://schema.org/AggregateRating.
    """
    rated = sum(getattr(found.ratings, name) for name in found.ratings.__struct_fields__)
    value = {} if found.average is None else {"ratingValue": found.average}
    rating = {
        "@context": "https://schema.org",
        "@type": "AggregateRating",
        "itemReviewed": {"@type": "Product", "name": path.product},
        **value,
        "ratingCount": rated,
        "reviewCount": found.total,
        "bestRating": 5,
        "worstRating": 1,
    }
    return msgspec.json.encode(rating).decode()


def list_leaders(context: Context, query: LeadersQuery) -> Leaders:
    """Return the products with most ratings of 5, in one language or in all, and by name where they tie.

    Anybody with a token may comment on a product of any name. So a product needs HUBBUB_LEADERS_MIN ratings
    of 5 from as many authors. Where HUBBUB_LEADERS names products, only those are listed. Where more than 100
    products tie for the last rank, some of them are left out. `complete` is false if more than 200 other
    products may have as many ratings of 5 as the last one.

    Cost: that of `toplist.read_largest`, about 0.8 RCU a product. With HUBBUB_LEADERS, 0.5 RCU for each
    product.
    """
    language = parse_language(query.language) if query.language else ""
    if context.settings.leaders:
        return _list_named(context, query, language)
    found = toplist.read_largest(
        context.table,
        leaders_key(language),
        query.limit,
        "count_5",
        least=context.settings.leaders_min,
        ties=TIES,
    )
    items = [Leader(product=product_of(item), five_star=fives) for item, fives in found.items]
    return Leaders(items=items, complete=UNSET if found.complete else False)


def _list_named(context: Context, query: LeadersQuery, language: str) -> Leaders:
    """Return the leaders among the products that HUBBUB_LEADERS names, from their own counts."""
    items = context.table.get_many(statistics_key(product, language) for product in context.settings.leaders)
    fives = {product_of(item): read_counts(item)[4] for item in items.values()}
    best = sorted(fives.items(), key=lambda pair: (-pair[1], pair[0]))
    listed = [(product, count) for product, count in best if count >= context.settings.leaders_min][
        : query.limit
    ]
    return Leaders(items=[Leader(product=product, five_star=count) for product, count in listed])


def read_counts(item: Item) -> list[int]:
    """Return the number of comments with each rating, from 1 to 5."""
    return [item.get(f"count_{rating}", 0) for rating in range(1, 6)]


def read_cells(item: Item) -> list[int]:
    """Return the number of comments without a rating, then those with each rating from 1 to 5."""
    rated = read_counts(item)
    return [item.get("count_total", 0) - sum(rated), *rated]


def topic(key: Key) -> str | None:
    """Return the product of a key of statistics in all languages, or None for any other key."""
    is_ours = key.sk == "S" and key.pk.startswith("PRODUCT#")
    return key.pk.removeprefix("PRODUCT#") if is_ours else None


def live(context: Context, product: str) -> RatingStatistics | None:
    """Return a product's statistics for subscribers to its topic, or None for a product without comments.

    Cost: 1 RCU.
    """
    found = get_statistics(context.table, product, StatisticsQuery(), consistent=True)
    return found if found.total else None
