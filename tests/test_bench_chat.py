"""What the bench says of chat: exact costs, the published design's faults, nobody of ours left alone."""

from __future__ import annotations

from uuid import uuid4

from bench.chat import capacity, messages_a_second, seconds_to_both
from bench.published_chat import PublishedChat
from local.engine import Engine
from ops.definition import create_table


def test_each_event_costs_exactly_this(engine: Engine) -> None:
    assert {str(name): tuple(costs) for name, *costs in capacity(engine).rows} == {
        "connect, nobody waits": (5, 1, 2, 0.5),
        "status, of one who waits": (1, 3, "–", "–"),
        "connect, and a match": (15, 2, 9, 0.5),
        "status, and being told": (3, 2, "–", "–"),
        "message, the first": (1, 1, 0, 0.5),
        "message": (1, 0, 0, 0.5),
        "next, and nobody else": (11, 4, "–", "–"),
        "disconnect, of one who waits": (5, 1, "–", "–"),
        "connect, and a match again": (15, 2, "–", "–"),
        "disconnect, of a pair": (9, 3, 6, 0.5),
    }


def test_every_pair_is_told_and_every_message_is_posted(engine: Engine) -> None:
    assert all(seconds > 0 for seconds in seconds_to_both(engine, 3))
    assert messages_a_second(engine, 2, 0.2) > 0


def test_the_published_chat_does_what_was_published_faults_included(engine: Engine) -> None:
    client = engine.client("dynamodb")
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
