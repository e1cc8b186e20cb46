"""Wait for a condition, or for the stream, up to a time limit."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import TypeVar

import click

T = TypeVar("T")

TIMEOUT = 60.0  # seconds without progress
PAUSE = 0.25


def wait_until(condition: Callable[[], T], description: str, timeout: float, pause: float = PAUSE) -> T:
    """Repeat a condition until it returns a true value, and return that value.

    Raises: ClickException with the description when `timeout` seconds have passed.
    """
    deadline = time.monotonic() + timeout
    while not (found := condition()):
        if time.monotonic() > deadline:
            raise click.ClickException(f"timed out after {timeout:.0f} s waiting for: {description}")
        time.sleep(pause)
    return found


def wait_until_counted(
    parts: Iterable[T], is_counted: Callable[[T], bool], report: Callable[[T], None], timeout: float
) -> bool:
    """Wait until each part is counted, in order, and report each. Return False when one times out."""
    for part in parts:
        last = time.monotonic()
        while not is_counted(part):
            if time.monotonic() - last > timeout:
                return False
            time.sleep(PAUSE)
        report(part)
    return True
