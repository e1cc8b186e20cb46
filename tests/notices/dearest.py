"""No public call belongs to notices."""

from __future__ import annotations

from collections.abc import Iterator

from tests.support.dearest import Dearest
from tests.support.deployed import Deployed


def dearest(site: Deployed) -> Iterator[Dearest]:
    """Yield nothing."""
    yield from ()
