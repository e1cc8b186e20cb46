"""The chat bench: exact costs, the published design's faults, and no visitor left without a partner."""

from __future__ import annotations

from uuid import uuid4

import pytest

from bench.chat import capacity, messages_a_second, seconds_to_notice
from bench.published.chat import PublishedChat
from local.engines.engine import Engine
from ops.aws.template import create_table


def test_each_event_costs_exactly_this(ministack: Engine) -> None:
    assert {str(name): tuple(costs) for name, *costs in capacity(ministack).rows} == {
        "connect, nobody waits": (5, 1, 2, 0.5),
        "status, while waiting": (1, 3, "–", "–"),
        "connect, a match": (15, 2, 9, 0.5),
        "status, with a notice": (3, 2, "–", "–"),
        "message, the first": (2, 1, 0, 0.5),
        "message": (1, 0, 0, 0.5),
        "next, nobody else waits": (11, 4, "–", "–"),
        "disconnect, while waiting": (5, 1, "–", "–"),
        "connect, a match again": (15, 2, "–", "–"),
        "disconnect, of a pair": (9, 3, 6, 0.5),
    }


@pytest.mark.long
def test_every_pair_is_told_and_every_message_is_posted(ministack: Engine) -> None:
    assert all(seconds > 0 for seconds in seconds_to_notice(ministack, 3))
    assert messages_a_second(ministack, 2, 0.2) > 0


def test_the_published_chat_does_what_was_published_faults_included(ministack: Engine) -> None:
    client = ministack.client("dynamodb")
    name = create_table(client, "local", name=f"hubbub-bench-{uuid4().hex}").name
    chat = PublishedChat(client, name)
    assert chat.connect("a", "1") is None
    client.put_item(  # who came at the same moment saw an empty pool as well
        TableName=name, Item={"pk": {"S": "UNMATCHED"}, "sk": {"S": "1#b"}}
    )
    assert chat.connect("c", "2") == "b"  # the newest: a goes on waiting
    assert (chat.partner("c"), chat.partner("b"), chat.partner("a")) == ("b", "c", None)
    assert chat.disconnect("c") == "b"
    assert chat.partner("b") is None  # and b waits nowhere
    client.delete_table(TableName=name)
