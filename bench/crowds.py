"""Players and their scores: the same for every design, drawn from a seed."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable
from uuid import UUID

MOST = 999_999  # scores lie from 0 to here
SEED = 20261121

Draw = Callable[[random.Random], int]

DISTRIBUTIONS: dict[str, Draw] = {
    "uniform": lambda chance: chance.randint(0, MOST),
    "normal": lambda chance: min(MOST, max(0, round(chance.gauss(MOST / 2, MOST / 8)))),
    # Zipf with exponent 1 is uniform in its logarithm: half of the players have less than 1,000.
    "Zipf": lambda chance: int((MOST + 1) ** chance.random()) - 1,
    "clustered": lambda chance: (
        chance.randint(500_000, 509_999) if chance.random() < 0.9 else chance.randint(0, MOST)
    ),
    "tied": lambda chance: 100_000 * chance.randint(0, 9),
}
"""Scores by name. Clustered: nine of ten within one percent of the range. Tied: ten different ones."""


def name(number: int) -> str:
    """Answer the name of a player or a board: a UUID, as the tokens of an issuer have."""
    return str(UUID(bytes=hashlib.blake2b(f"{SEED}-{number}".encode(), digest_size=16).digest(), version=4))


def crowd(distribution: str, count: int) -> dict[str, int]:
    """Answer so many players with scores."""
    chance, draw = random.Random(SEED), DISTRIBUTIONS[distribution]
    return {name(number): draw(chance) for number in range(count)}
