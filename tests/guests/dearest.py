"""The dearest request of guests."""

from __future__ import annotations

from collections.abc import Iterator

from tests.support.dearest import Dearest
from tests.support.deployed import Deployed


def dearest(site: Deployed) -> Iterator[Dearest]:
    """Sign in."""
    yield Dearest(site.rest("POST /guests", "a name of 60 characters", body={"name": "🦉" * 60}), 0, 2, 2)
