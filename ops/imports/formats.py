"""Descriptions of the files to import, in a module that is quick to import."""

from __future__ import annotations

from typing import NamedTuple


class Columns(NamedTuple):
    """The columns of player, value, id (default: the player) and time (default: now)."""

    player: str
    value: str
    id: str | None = None
    time: str | None = None


class Format(NamedTuple):
    """The format of a file of comments, and the rating and the languages that it may not have."""

    kind: str
    rating: int | None
    languages: list[str]
