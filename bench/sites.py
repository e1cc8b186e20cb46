"""The month's bill of three example sites, beside the list price of the usual choice for each."""

from __future__ import annotations

from typing import NamedTuple

from bench.report import Figures, Report
from local.engines.engine import Engine
from ops.costs import Assumed, build_uses, estimate_bill

HOURS = 730  # of a month
READ = "22 November 2026"  # when the list prices were read
METHOD = f"""The month's bill. Hubbub's is that of `python -m ops cost`: the units of each operation \
(ops/units.json, which `python -m bench units` measures and a test checks) at the prices of AWS's price list \
(ops/prices.json), in batches of one record, with the assumptions that the command prints. At rest a stage \
pays for its alarms, metrics and dashboard, the limit of addresses and the idle queue. These can be left \
out. The other prices are list prices of the smallest choice, us-east-1, on demand, read on {READ}. A month \
has {HOURS} hours. They are not measured. Redis and Postgres need an API in front of them, whose requests \
cost what Hubbub's do."""


class Choice(NamedTuple):
    """The usual choice for a site: its name, its dollars a month, and the source of the price."""

    name: str
    usd: float
    source: str


class Site(NamedTuple):
    """An example site: the options of `python -m ops cost`, and the usual choice."""

    name: str
    used: dict[str, float]
    choice: Choice


SITES = (
    Site(
        "a blog with 100,000 views, and as many reads of a count",
        {"views": 100_000},
        Choice("Plausible", 19.0, "its plan for 100,000 views, priv/plan_prices.json in plausible/analytics"),
    ),
    Site(
        "a game with 50,000 players, 20 scores and 40 ranks each",
        {"players": 50_000},
        Choice(
            "a small Redis, and a server",
            0.017 * HOURS,
            "ElastiCache cache.t3.micro, 0.5 GB, one node, 0.017 an hour: "
            "https://dragonflydb.io/finops/elasticache/cache.t3.micro",
        ),
    ),
    Site(
        "a shop with 20,000 comments, and 50 pages of them read for each",
        {"comments": 20_000},
        Choice(
            "a small Postgres, and a server",
            0.016 * HOURS + 20 * 0.115,
            "RDS db.t4g.micro, one zone, 0.016 an hour, and 20 GB at 0.115: "
            "https://infratally.com/articles/aws-rds-pricing-explained-2026.html",
        ),
    ),
)


def measure(_: Engine, quick: bool) -> Report:
    """Estimate the bill of each site. The units are known, so no engine is used."""
    columns = ("site", "Hubbub", "of it at rest", "usual choice", "its list price")
    figures = Figures("The month's bill of three sites, USD", columns)
    for site in SITES:
        lines = estimate_bill(build_uses(site.used), Assumed())
        rest = sum(line.usd for line in lines if line.feature == "always")
        usd = sum(line.usd for line in lines)
        figures.rows.append((site.name, usd, rest, site.choice.name, site.choice.usd))
    sources = ". ".join(f"{site.choice.name}: {site.choice.source}" for site in SITES)
    return Report([METHOD, f"Sources of the list prices. {sources}."], [figures])
