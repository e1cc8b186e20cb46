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
        "a game with 50,000 players, 20 scores and 40 ranks each, 20 of them with the score",
        {"players": 50_000, "standings": 20 * 50_000, "ranks": 20 * 50_000},
        "a small Redis, without its server",
        0.017 * HOURS,
        "ElastiCache cache.t3.micro, https://dragonflydb.io/finops/elasticache/cache.t3.micro",
    ),
    Site(
        "a shop with 20,000 comments, and 50 pages of them read for each",
        {"comments": 20_000},
        "a small Postgres, without its server",
        0.016 * HOURS + 20 * 0.115,
        "RDS db.t4g.micro with 20 GB, https://infratally.com/articles/aws-rds-pricing-explained-2026.html",
    ),
)


def bill(site: Site) -> tuple[float, float, float]:
    """Return the bill of a site in USD, the part of it that is paid at rest, and it without the free tier."""
    uses = build_uses(site.used)
    free, full = (estimate_bill(uses, Assumed(free_tier=is_free)) for is_free in (True, False))
    rest = sum(line.usd for line in free if line.feature == "always")
    return sum(line.usd for line in free), rest, sum(line.usd for line in full)


def measure(_: Engine, quick: bool) -> list[Answer]:
    """Estimate the bill of each site from the measured units (ops/units.json) and AWS's price list."""
    rows = [(site.name, *bill(site), site.choice, site.usd) for site in SITES]
    sources = "; ".join(f"{site.choice}: {site.source}" for site in SITES)
    columns = ("site", "Hubbub", "of it at rest", "without the free tier", "usual choice", "its list price")
    note = (
        "Hubbub is a stage of the default size with all features in an account that has AWS's always-free "
        f"tier. The other prices are list prices of 22 November 2026, not measured. {sources}."
    )
    return [Answer("What is the month's bill of three sites, in USD?", columns, rows, note)]
