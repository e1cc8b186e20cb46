"""The month's bill of three sites is that of `python -m ops cost`."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from bench import sites
from local.engines.in_process import InProcessEngine
from ops.cli.main import main


@pytest.mark.parametrize("number", range(len(sites.SITES)))
def test_the_bill_of_a_site_is_the_one_that_ops_cost_prints(number: int) -> None:
    site = sites.SITES[number]
    options = [text for name, amount in site.used.items() for text in (f"--{name}", f"{amount:.0f}")]
    printed = CliRunner().invoke(main, ["cost", *options, "--json"])
    assert printed.exit_code == 0, printed.output
    bill = json.loads(printed.output)
    [figures] = sites.measure(InProcessEngine(), quick=True).figures
    name, usd, rest, *choice = figures.rows[number]
    assert (usd, rest) == pytest.approx((bill["usd"], bill["features"]["always"]))
    assert (name, *choice) == (site.name, site.choice.name, site.choice.usd)
