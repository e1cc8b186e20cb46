"""Map items to features by their keys."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from chalicelib.dynamo.items import Item

FEATURES = {
    "views": ("URL#", "SITE#"),
    "leaderboards": ("BOARD#", "PLAYER#", "TREE#BOARD#", "RANK#BOARD#"),
    "challenges": ("CHALLENGE#", "TREE#CHALLENGE#", "RANK#CHALLENGE#"),
    "comments": ("PRODUCT#",),
    "chat": ("CONN#", "WAITING#", "REPORTS", "REPORTER#", "TOPIC#", "BAN#"),
    "guests": ("GUESTS#",),
    "upkeep": ("GUARD", "QUARANTINE#", "BACKFILL#", "CONVERT#", "ERASE#", "PULSE", "IMPORT"),
}


def feature_of(item: Item) -> str:
    """Return the feature of an item; empty for an unknown item."""
    if item["pk"].startswith("PLAYER#") and item["sk"].startswith("RANKED#CHALLENGE#"):
        return "challenges"
    return next((name for name, starts in FEATURES.items() if item["pk"].startswith(starts)), "")
