"""What one request without a token may cost: units, bytes and time, for every public call."""

from __future__ import annotations

import pytest

from local.engines.engine import Engine
from tests.support import dearest
from tests.support.dearest import Rows

MOST_MS = 1_500  # of CPU time, on a busy machine

pytestmark = pytest.mark.long  # a busy year of a site and a crowd of players are written first


@pytest.fixture(scope="module")
def rows(engine: Engine) -> Rows:
    return dearest.measure(engine)


@pytest.mark.security
def test_no_request_exceeds_its_bounds(rows: Rows) -> None:
    for bound, figures in rows:
        case = f"{bound.invocation.operation}, {bound.invocation.name}"
        assert figures.read <= bound.read <= 100, case
        assert figures.write <= bound.write, case
        assert figures.kilobytes <= bound.kilobytes, case
        assert (figures.ms or 0) <= MOST_MS, case


def test_the_document_has_the_measured_table(rows: Rows) -> None:
    """`make dearest` writes it. The time depends on the machine."""
    assert dearest.without_time(dearest.documented()) == dearest.without_time(dearest.table(rows))


def test_the_document_bounds_the_dearest_hour(rows: Rows) -> None:
    """`make dearest` writes it, from the limits of the template and the price list."""
    assert dearest.documented(dearest.BEGIN_HOUR) == dearest.hour_table(rows)
