"""The profile plays answers back: nothing is sent, and a handler that asks for others is left out."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from bench.deployed import deployed
from bench.operations import PAGE
from bench.profile import Changed, milliseconds
from local.engines.engine import Engine

pytestmark = pytest.mark.usefixtures("unwatched")


def test_an_answer_is_played_back_in_place_of_the_network(engine: Engine) -> None:
    sent: list[bytes] = []
    with deployed(engine) as site:
        client: Any = site.table.client
        session = client._endpoint.http_session
        real = session.send

        def send(request: Any) -> Any:
            sent.append(request.headers["X-Amz-Target"])
            return real(request)

        session.send = send
        try:
            invocation = site.rest("GET", "/views", "", query={"url": PAGE})
            assert milliseconds(client, invocation, runs=3) > 0
        finally:
            session.send = real
    assert sent == [b"DynamoDB_20120810.GetItem"]  # by the one run that is kept


def test_what_asks_for_something_else_each_time_is_not_measured(engine: Engine) -> None:
    with deployed(engine) as site:
        numbers = itertools.count()
        invocation = site.rest("GET", "/views", "", query={"url": PAGE})

        def handler(event: Any, context: Any) -> Any:
            for _ in range(1 + next(numbers) % 2):
                answer = site.app.app(event, context)
            return answer

        with pytest.raises(Changed):
            milliseconds(site.table.client, invocation._replace(handler=handler), runs=3)
