"""The running product agrees with its OpenAPI document; schemathesis sends valid and invalid requests.

All checks of schemathesis are enabled. There is no 5xx. Every status, header, content type and body is
documented. Valid requests are accepted, and invalid ones and those without the required token are rejected.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from functools import cache
from typing import Any
from unittest.mock import patch

import pytest
import schemathesis
from hypothesis import strategies as st
from hypothesis.strategies._internal import regex
from schemathesis import BaseSchema, Case, CheckContext, Response
from schemathesis.specs.openapi.adapter import parameters
from schemathesis.specs.openapi.checks import negative_data_rejection
from schemathesis.transport.serialization import quote_all

import app
from chalicelib import settings, times
from chalicelib.api import auth, codec
from chalicelib.api.openapi import describe
from chalicelib.views.events import MAX_ANONYMOUS_EVENTS
from tests.support.running import Run, view

DESCRIPTION = describe(app.router, app.VERSION)
TOLERATED = {"referrer", "campaign", "source", "automated", "timezone"}  # ignored where it is malformed

# What a format means here, which JSON Schema cannot say: an address is that of a web page, a time frame is
# short and lies in the past.
NOW = datetime.now(UTC).replace(tzinfo=None)
INSTANTS = st.datetimes(
    min_value=NOW - timedelta(days=20),
    max_value=NOW - timedelta(hours=14),  # in the past in every time zone
    timezones=st.integers(-14 * 60, 14 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes))),
)
LABEL = "[a-z0-9]{1,9}(-[a-z0-9]{1,9})?"
HOST = rf"({LABEL}\.){{1,3}}[a-z]{{2,9}}"
CHARACTER = "([a-zA-Z0-9._~!$&'()*+,;=:@-]|%[0-9a-fA-F]{2})"
PATH, QUERY = rf"(/{CHARACTER}{{0,9}}){{0,4}}", rf"(\?({CHARACTER}|[/?]){{0,19}})?"
URL = rf"[hH][tT][tT][pP][sS]?://{HOST}(:[1-9][0-9]{{1,3}})?{PATH}{QUERY}(#x)?"
schemathesis.openapi.format("host", st.from_regex(HOST, fullmatch=True))
ADDRESS = rf"({URL}|{HOST}(:[1-9][0-9]{{1,3}})?{PATH}{QUERY}(#x)?)"
schemathesis.openapi.format("address", st.from_regex(ADDRESS, fullmatch=True))
schemathesis.openapi.format("uri", st.from_regex(URL, fullmatch=True))
schemathesis.openapi.format("timezone", st.sampled_from(["UTC", "Europe/Berlin", "Asia/Kathmandu"]))
schemathesis.openapi.format("path", st.from_regex(r"/[a-z0-9/]{0,20}\*?", fullmatch=True))
schemathesis.openapi.format("network", st.sampled_from(["192.0.2.1", "203.0.113.0/24", "2001:db8::/32"]))
schemathesis.openapi.format("date-time", INSTANTS.map(datetime.isoformat))
schemathesis.openapi.format("date", INSTANTS.map(lambda moment: moment.date().isoformat()))


def api(examples: int, *, thorough: bool) -> BaseSchema:
    """The document, with the configuration of its tests.

    A thorough test sends other random requests in each run, and each boundary value of each field besides.
    """
    token = auth.mint(settings.current(), "admin-1", scope="admin", seconds=86_400)
    options: Any = {
        "seed": 424242,
        "headers": {"User-Agent": "a browser"},
        "auth": {"openapi": {"bearer": {"bearer": token}}},
        "generation": {"max-examples": examples, "deterministic": not thorough},
        "phases": {"coverage": {"enabled": thorough}},
        "checks": {
            # A name that nothing has is 404, what contradicts what is there 409, what the board or the game
            # does not take 422, a guess too many 429, what another has changed 412, a path longer than API
            # Gateway authorizes 414, a body that unknown fields make too long 413: no schema knows them.
            "positive_data_acceptance": {
                "expected-statuses": ["2xx", "404", "409", "412", "413", "414", "422", "429"]
            },
            "negative_data_rejection": {
                "expected-statuses": ["400", "401", "404", "409", "412", "413", "414", "415", "422"]
            },
        },
    }
    config = schemathesis.Config.from_dict(options)
    return schemathesis.openapi.from_dict(DESCRIPTION, config=config)


# Fixtures, so that requests are generated when a test runs, and not whenever pytest collects it.
@pytest.fixture(scope="module")
def examples() -> BaseSchema:
    return api(3, thorough=False)


@pytest.fixture(scope="module")
def many_examples() -> BaseSchema:
    return api(500, thorough=True)


@pytest.fixture(scope="module", autouse=True)
def patterns_are_read_once() -> Iterator[None]:
    """Keep what hypothesis builds of each pattern. It takes half a second for that of names, once a field."""
    with patch.object(regex, "regex_strategy", cache(regex.regex_strategy)):
        yield


@pytest.fixture(scope="module", autouse=True)
def names_are_sent_as_they_are() -> Iterator[None]:
    """Encode the `%` of a name. schemathesis decodes a name first: the valid `a%DA` became U+FFFD."""

    def encode(values: dict[str, Any]) -> dict[str, Any]:
        return quote_all({k: v.replace("%", "%25") if type(v) is str else v for k, v in values.items()})

    with patch.object(parameters, "quote_all", encode):
        yield


@pytest.fixture(scope="module")
def product(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """The running product with the views, the challenge and the comment of the document's examples."""
    with Run(tmp_path_factory.mktemp("data") / "run", "--no-reload") as running:
        urls = ("https://example.org/a", "https://www.example.org/")
        running.post(*({**view(f"c-{i}"), "url": url} for url in urls for i in range(3)))
        make_the_hunt(running)
        comment = {"rating": 5, "language": "en", "text": "Fits."}
        made = running.call("POST", "/products/garment-767/comments", comment, running.token("me"))
        assert made[0] == 201
        yield running


def make_the_hunt(running: Run) -> None:
    """Create the challenge of the examples, with a player who has found a path."""
    hunt = {"title": "Treasure hunt", "paths": ["oak/bridge/mill", "oak/well"]}
    for who, method, path, body in (
        ("admin-1", "PUT", "challenges/hunt", hunt),
        ("player-1", "POST", "challenges/hunt/paths", {"path": "oak/bridge/mill"}),
    ):
        token = running.token(who, "admin" if who == "admin-1" else "")
        assert running.call(method, f"/{path}", body, token)[0] == 201


def test_the_product_serves_the_document_that_is_tested_here(product: Run) -> None:
    assert product.call("GET", "/openapi.json") == (200, DESCRIPTION)


@schemathesis.pytest.from_fixture("examples").parametrize()
def test_a_call_does_what_its_description_says(case: Case[Any], product: Run) -> None:
    call(case, product)


@pytest.mark.security
@pytest.mark.long
@schemathesis.pytest.from_fixture("many_examples").parametrize()
def test_a_call_does_what_its_description_says_500_times(case: Case[Any], product: Run) -> None:
    call(case, product)


def call(case: Case[Any], product: Run) -> None:
    """Send a request and check its response, also against rules that no schema can state."""
    for name in ("Host", "Origin", "Sec-Fetch-Site"):
        # hypothesis takes also the words of the code as names, and a page of another site is refused (403)
        case.headers.pop(name, None)
    if case.meta and case.meta.generation.mode.is_positive:
        case.query.pop("cursor", None)  # only an answer holds a right one
        case.query.pop("explain", None)  # a public call's part for admins
        start, end = case.query.get("from"), case.query.get("to")
        if start and end and times.parse_bound(start) >= times.parse_bound(end, end=True):
            case.query["from"] = end
            del case.query["to"]  # now: two equal instants are no time frame in either order
        if isinstance(case.body, dict) and case.operation.path == "/products/{product}/comments":
            # only a product's definition says that it may be absent or null
            case.body["rating"] = case.body.get("rating") or 5
        if isinstance(case.body, dict) and case.body.get("opens") and case.body.get("closes"):
            opens, closes = sorted((str(case.body["opens"]), str(case.body["closes"])), key=times.parse)
            together = times.parse(opens) == times.parse(closes)
            case.body |= {"opens": opens, "closes": None if together else closes}
        if not storable(case.body):
            return
        events = case.body.get("events") if isinstance(case.body, dict) else None
        if isinstance(events, list) and len(events) > MAX_ANONYMOUS_EVENTS:
            case.headers["Authorization"] = f"Bearer {product.token('player-1')}"
    case.call_and_validate(
        base_url=product.page,
        excluded_checks=[negative_data_rejection],
        additional_checks=[what_is_wrong_is_refused],
    )


def storable(body: Any) -> bool:
    """Return whether DynamoDB can hold the numbers of a body. No other can be encoded again."""
    try:
        codec.encode(codec.decode(json.dumps(body, default=str).encode(), Any))
    except (TypeError, ValueError):
        return False
    return True


def what_is_wrong_is_refused(context: CheckContext, response: Response, case: Case[Any]) -> bool | None:
    """Check for an error response, or for a reason in `rejected` of a batch of events.

    A view with a malformed referrer, campaign, source, `automated` or zone is a view nevertheless.
    """
    if response.status_code == 202:
        body: Any = case.body
        events = body.get("events", [body]) if isinstance(body, dict) else []
        has_source = any(TOLERATED & set(event) for event in events if isinstance(event, dict))
        if response.json()["rejected"] or has_source:
            return None
    return negative_data_rejection(context, response, case)
