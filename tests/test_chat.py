"""Chat, connection by connection: the contract's frames, and every state that an event can meet."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from chalicelib.table import connect
from ops import definition
from tests.chatting import CONNECTED, Chat


@pytest.fixture
def chat(moto_table: definition.Table) -> Iterator[Chat]:
    connect.cache_clear()
    yield Chat(connect())
    connect.cache_clear()


# -- matched at once -----------------------------------------------------------------------------------


def test_two_who_come_are_matched_and_both_are_told(chat: Chat) -> None:
    [status] = chat.come("a")
    assert {**status, "since": ""} == {"type": "status", "state": "waiting", "since": ""}
    status, note = chat.come("b")
    assert (status["type"], status["state"], note) == ("status", "matched", CONNECTED)
    assert chat.wire.read("a") == [CONNECTED]
    assert (chat.partner("a"), chat.partner("b")) == ("b", "a")
    assert chat.pool() == []
