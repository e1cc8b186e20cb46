"""Which feature an item is of, by its keys."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from chalicelib.dynamo.items import Item

FEATURES = {
    "views": ("URL#",),
    "leaderboards": ("BOARD#", "PLAYER#", "RANK#BOARD#"),
    "challenges": ("CHALLENGE#", "RANK#CHALLENGE#"),
    "comments": ("PRODUCT#",),
    "chat": ("CONN#", "WAITING#", "REPORTS", "REPORTER#", "TOPIC#"),
    "upkeep": ("GUARD#", "QUARANTINE#", "BACKFILL#", "ERASE#", "PULSE", "IMPORT"),
}


def feature(item: Item) -> str:
    """Say which feature an item is of; empty for what is none of ours."""
    if item["pk"].startswith("PLAYER#") and item["sk"].startswith("RANKED#CHALLENGE#"):
        return "challenges"
    return next((name for name, starts in FEATURES.items() if item["pk"].startswith(starts)), "")
