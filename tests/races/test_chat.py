"""The races of the chat show no fault. `python -m tests.races.chat` plays more of them, also under load."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from tests.races import chat


@pytest.fixture(scope="module")
def stage() -> Iterator[chat.Stage]:
    with chat.running() as running:
        yield running


@pytest.mark.parametrize(
    "race", ["leave against next", "report against leave", "insult against abort", "tabs", "replaced", "half"]
)
def test_a_race_of_the_chat_has_no_fault(stage: chat.Stage, race: str) -> None:
    name = next(name for name in chat.RACES if name.startswith(race))
    assert asyncio.run(chat.play(stage, name, 6)).faults == {}


@pytest.mark.long
@pytest.mark.parametrize("race", chat.RACES)
def test_many_rounds_have_no_fault(stage: chat.Stage, race: str) -> None:
    assert asyncio.run(chat.play(stage, race, 200)).faults == {}
