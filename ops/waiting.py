"""Waiting for a condition, and for the stream, with patience."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import TypeVar

import click

T = TypeVar("T")

PATIENCE = 60.0  # seconds in which nothing more is counted
PAUSE = 0.25


def until(condition: Callable[[], T], what: str, patience: float, pause: float = PAUSE) -> T:
    """Wait until a condition answers something, and return it; ClickException when it takes too long."""
    deadline = time.monotonic() + patience
    while not (found := condition()):
        if time.monotonic() > deadline:
            raise click.ClickException(f"{what}: still not, after {patience:.0f} s")
        time.sleep(pause)
    return found


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
