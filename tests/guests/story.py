"""Every operation of guests in each of its cases, and what it costs."""

from __future__ import annotations

from collections.abc import Iterator

from tests.support.deployed import Deployed, Invocation

COSTS = {
    ("POST /guests", "the first of an address"): (201, 1, 0),
    ("POST /guests", "another"): (201, 1, 0),
}
"""The status, WCU and RCU of each case; a handler without an answer has status 0."""


def story(site: Deployed) -> Iterator[Invocation]:
    """Sign in as guests from one address."""
    yield site.rest("POST /guests", "the first of an address", body={"name": "Ann"})
    yield site.rest("POST /guests", "another", body={})
