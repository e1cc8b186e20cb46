"""The invariants of a history. Each yields what violates it, as text.

They are counted from the items and from the clients' knowledge, and not by the code that keeps the sums.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from proof.invariants import aggregates, permissions, rankings, transitions
from proof.invariants import chat as chats
from proof.invariants.chat import unmatched

if TYPE_CHECKING:
    from proof.history import History

__all__ = ["CHECKS", "unmatched"]

CHECKS: dict[str, Callable[[History], Iterator[str]]] = {
    "handlers": aggregates.handlers,
    "views": aggregates.views,
    "scores": aggregates.scores,
    "ranks": rankings.ranks,
    "challenge": aggregates.challenge,
    "comments": aggregates.comments,
    "quarantine": aggregates.quarantined,
    "recount": aggregates.recounts,
    "chat": chats.chat,
    "transitions": transitions.transitions,
    "permissions": permissions.permissions,
}
