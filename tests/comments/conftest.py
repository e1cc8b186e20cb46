"""The shop that the tests of comments share."""

from __future__ import annotations

import pytest

from tests.support.shop import Shop
from tests.support.site import Site


@pytest.fixture
def shop(site: Site) -> Shop:
    return Shop(site.table, site.stream, site.http)
