"""Waiting for the stream, by a condition and with patience."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import TypeVar

T = TypeVar("T")

PATIENCE = 60.0  # seconds in which nothing more is counted
PAUSE = 0.25


def until_counted(
    parts: Iterable[T], is_counted: Callable[[T], bool], tick: Callable[[T], None], patience: float
) -> bool:
    """Wait until each part is counted, one after the other, a tick each; False when one takes too long."""
    for part in parts:
        last = time.monotonic()
        while not is_counted(part):
            if time.monotonic() - last > patience:
                return False
            time.sleep(PAUSE)
        tick(part)
    return True
