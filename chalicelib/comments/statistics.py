"""What comments add up to: a product's counts and averages, and the products that lead.

The items are those of comments.py. Nothing here writes.
"""

from chalicelib.comments.comments import leaders_key, product_of, statistics_key, tag
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

PRIOR = 1  # votes that each of the five ratings has before anybody votes
TIES = 100  # products that are put in order where a page of leaders ends among equals
MOST = 10**30


def statistics(
    table: Table, product: str, query: StatisticsQuery, *, consistent: bool = False
) -> RatingStatistics:
    """Answer a product's counts and averages, in one language or in all; zeros for one never rated.

    The Bayesian average is the mean after one more vote for each rating, that is five votes of 3: a prior
    that says nothing of a product and gives way to some dozen votes. Source: Evan Miller, "Ranking Items With
    Star Ratings", 2014 (the expected rating under a uniform Dirichlet prior). Costs 0.5 RCU, consistent 1.
    """
    key = statistics_key(product, tag(query.language) if query.language else "")
    item = table.get(key, consistent=consistent) or {}
    votes = counts(item)
    total, stars = sum(votes), sum(rating * n for rating, n in enumerate(votes, 1))
    return RatingStatistics(
        ratings=Ratings(**dict(zip(("one", "two", "three", "four", "five"), votes, strict=True))),
        total=total,
        average=round(stars / total, 4) if total else None,
        bayesian_average=round((stars + 15 * PRIOR) / (total + 5 * PRIOR), 4),
    )


def leaders(table: Table, query: LeadersQuery, settings: Settings) -> Leaders:
    """Answer the products with most ratings of 5, in one language or in all; of equals, by name.

    Anybody with a token may comment on a product of any name, so a product needs HUBBUB_LEADERS_MIN ratings
    of 5, from as many authors, and where HUBBUB_LEADERS names products, only those are listed.

    Where more than 100 products tie for the last places, any of them. Costs 0.5 RCU per 4 KB of index (about
    35 products), and 0.5 more where a tie goes on past the end; with HUBBUB_LEADERS 0.5 for each product.
    """
    language = tag(query.language) if query.language else ""
    if settings.leaders:
        return _among(table, query, language, settings)
    pk, least = leaders_key(language), settings.leaders_min
    page = table.query(pk, (least, MOST), index="gsi1", limit=query.limit, newest_first=True)
    found = page.items
    if page.next:  # an index has no order among equals: look at all of those that tie for the last place
        least = found[-1]["gsi1sk"]
        tied = table.query(pk, (least, least), index="gsi1", limit=TIES).items
        found = found + tied
    return _first({product_of(item): item["gsi1sk"] for item in found}, query)  # one may move between reads


def _among(table: Table, query: LeadersQuery, language: str, settings: Settings) -> Leaders:
    """Return the leaders among the products that HUBBUB_LEADERS names, from their own counts."""
    items = table.get_many(statistics_key(product, language) for product in settings.leaders)
    fives = {product_of(item): counts(item)[4] for item in items.values()}
    return _first({product: n for product, n in fives.items() if n >= settings.leaders_min}, query)


def _first(fives: dict[str, int], query: LeadersQuery) -> Leaders:
    first = sorted(fives.items(), key=lambda entry: (-entry[1], entry[0]))[: query.limit]
    return Leaders(items=[Leader(product=product, five_star=count) for product, count in first])


def counts(item: Item) -> list[int]:
    """Read how many comments have each rating, from 1 to 5."""
    return [item.get(f"count_{rating}", 0) for rating in range(1, 6)]


def topic(key: Key) -> str | None:
    """Name the product whose counts an item is; None for any other item."""
    is_ours = key.sk == "S" and key.pk.startswith("PRODUCT#")
    return key.pk.removeprefix("PRODUCT#") if is_ours else None


def live(table: Table, product: str) -> RatingStatistics:
    """Answer a product's counts for who listens to them. Costs 1 RCU."""
    return statistics(table, product, StatisticsQuery(), consistent=True)
