"""A figure and its bound."""

from __future__ import annotations

from typing import NamedTuple


class Target(NamedTuple):
    """A figure and its bound. One that is not strict is shown, and does not decide the exit code."""

    name: str
    measured: float
    bound: float
    at_most: bool = True
    strict: bool = True

    @property
    def met(self) -> bool:
        """Return whether the figure is within its bound, the bound included."""
        return self.measured <= self.bound if self.at_most else self.measured >= self.bound
