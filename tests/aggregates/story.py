"""Every operation of the stream in each of its cases, and what it costs."""

from __future__ import annotations

from collections.abc import Iterator

from tests.support.deployed import Deployed, Invocation

COSTS = {
    ("GET /quarantine", "one entry"): (200, 0, 8),
    ("GET /lag", "nothing pending"): (200, 1, 22),
    ("stream", "the lag probe"): (0, 1, 0),
}
"""The status, WCU and RCU of each case; a handler without an answer has status 0."""


def story(site: Deployed) -> Iterator[Invocation]:
    """Look at the stream as an admin."""
    yield site.rest("GET /quarantine", "one entry", sub="admin")
    site.drain()
    yield site.rest("GET /lag", "nothing pending", sub="admin")
    yield site.delivery("the lag probe")
