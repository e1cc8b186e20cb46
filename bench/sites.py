"""The month's bill of three example sites, beside the list price of the usual choice for each."""

from __future__ import annotations

from typing import NamedTuple

from bench.report import Answer
from local.engines.engine import Engine
from ops.costs import Assumed, build_uses, estimate_bill

HOURS = 730  # of a month


class Site(NamedTuple):
    """An example site: the options of `python -m ops cost`, and the usual choice with its dollars a month."""

    name: str
    used: dict[str, float]
    choice: str
    usd: float
    source: str


SITES = (
    Site(
        "a blog with 100,000 views, and as many reads of a count",
        {"views": 100_000},
        "Plausible",
        19.0,
        "priv/plan_prices.json in plausible/analytics",
    ),
    Site(
        "a game with 50,000 players, 20 scores and 40 ranks each",
        {"players": 50_000},
        "a small Redis, and a server",
        0.017 * HOURS,
        "ElastiCache cache.t3.micro, https://dragonflydb.io/finops/elasticache/cache.t3.micro",
    ),
    Site(
        "a shop with 20,000 comments, and 50 pages of them read for each",
        {"comments": 20_000},
        "a small Postgres, and a server",
        0.016 * HOURS + 20 * 0.115,
        "RDS db.t4g.micro with 20 GB, https://infratally.com/articles/aws-rds-pricing-explained-2026.html",
    ),
)


def measure(_: Engine, quick: bool) -> list[Answer]:
    """Estimate the bill of each site from the measured units (ops/units.json) and AWS's price list."""
    rows = []
    for site in SITES:
        lines = estimate_bill(build_uses(site.used), Assumed())
        rest = sum(line.usd for line in lines if line.feature == "always")
        rows.append((site.name, sum(line.usd for line in lines), rest, site.choice, site.usd))
    sources = "; ".join(f"{site.choice}: {site.source}" for site in SITES)
    columns = ("site", "Hubbub", "of it at rest", "usual choice", "its list price")
    note = f"The other prices are list prices of 22 November 2026, not measured. {sources}."
    return [Answer("What is the month's bill of three sites, in USD?", columns, rows, note)]
