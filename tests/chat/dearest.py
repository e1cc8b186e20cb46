"""The dearest frames of the chat, in a lobby where thirty connections of a visitor wait."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from chalicelib.chat import schemas
from tests.support.dearest import Dearest
from tests.support.deployed import Deployed, Invocation

LOBBY, TEXT = "𝕏" * 64, "x" * 2_000
INTERESTS = ",".join(f"{number}{'𝕏' * 7}{'x' * 3}" for number in range(10))
TOPIC = "views:https://x.example/" + "a" * 1_475
WAITING = 30
QUOTED = [{"text": "x" * 300, "mine": False}] * schemas.MOST_QUOTED


def dearest(site: Deployed) -> Iterator[Dearest]:
    """Match a connection with those of the visitor, and let it use each action."""
    guest = site.rest("POST /guests", body={}).run()
    token = json.loads(guest["body"])["token"]
    for number in range(WAITING):
        _connect(site, f"w{number}", "", token=token).run()
    site.drain()

    def frame(action: str, name: str = "", read: float = 20, write: float = 30, **fields: Any) -> Dearest:
        return Dearest(site.frame("a", name, action, **fields), read, write, 0)

    yield Dearest(_connect(site, "a", "a match, 29 others wait"), 20, 30, 0)
    yield frame("status")
    yield frame("message", "the first of a pair, of 2,000 characters", text=TEXT, ref="r" * 64)
    yield frame("message", "", text=TEXT, ref="r" * 64)
    yield frame("received", "40 messages", ids=["m" * schemas.MESSAGE_ID] * schemas.MOST_CONFIRMED)
    for action in ("check", "typing", "ping", "resume"):
        yield frame(action)
    yield frame("subscribe", "the longest address", topic=TOPIC)
    yield frame("unsubscribe", "the longest address", topic=TOPIC)
    yield frame("next", "29 others wait")
    yield frame("report", "of 20 messages, 29 others wait", reason="x" * 500, messages=QUOTED)
    yield frame("leave", "29 others wait")
    yield frame("find", "30 others wait")
    yield Dearest(site.socket("disconnect", "a", "a partner, 29 others wait"), 20, 30, 0)


def _connect(site: Deployed, id: str, name: str, **more: str) -> Invocation:
    query = {"lobby": LOBBY, "interests": INTERESTS, "receipts": "1", **more}
    return site.socket("connect", id, name, queryStringParameters=query)
