"""A leaderboard in a Redis sorted set, for comparison: a server on this machine, and its client."""

from __future__ import annotations

import contextlib
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, NamedTuple

START_SECONDS = 10.0
CHUNK = 10_000  # members added at once

BOARD = "board"


class RedisUnavailable(Exception):
    """There is no Redis here; the message says what is missing."""


class Standing(NamedTuple):
    """What our own rank answers, of a sorted set."""

    score: int
    rank: int
    of: int


@contextlib.contextmanager
def server() -> Iterator[Any]:
    """Start a Redis that keeps nothing on disk, and yield a client. Raises RedisUnavailable."""
    program = shutil.which("redis-server")
    if not program:
        raise RedisUnavailable(
            "there is no redis-server on the PATH; on Debian: apt-get install redis-server"
        )
    try:
        import redis
    except ImportError:
        raise RedisUnavailable("the package redis is not installed") from None
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    command = [program, "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # noqa: S603
    client = redis.Redis(port=port, decode_responses=True)
    try:
        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                client.ping()
                break
            except redis.ConnectionError:
                if time.monotonic() > deadline or process.poll() is not None:
                    raise RedisUnavailable("redis-server does not answer") from None
                time.sleep(0.02)
        yield client
    finally:
        client.close()
        process.terminate()
        process.wait()


def fill(client: Any, scores: Mapping[str, int]) -> int:
    """Make the board anew; answer how many bytes of memory the server holds for it."""
    client.flushall()
    before = client.info("memory")["used_memory"]
    rest = iter(scores.items())
    while some := dict(islice(rest, CHUNK)):
        client.zadd(BOARD, some)
    return int(client.info("memory")["used_memory"] - before)


def standing(client: Any, player: str) -> Standing:
    """Answer a player's score, shared rank and number of players, in two round trips.

    ZREVRANK would take one, but gives equal scores ranks of their own.
    """
    score = client.zscore(BOARD, player)
    with client.pipeline(transaction=False) as pipeline:
        pipeline.zcount(BOARD, f"({score}", "+inf")
        pipeline.zcard(BOARD)
        ahead, count = pipeline.execute()
    return Standing(int(score), 1 + ahead, count)


def top(client: Any) -> list[tuple[str, float]]:
    """Answer the first ten, in one round trip."""
    return list(client.zrange(BOARD, 0, 9, desc=True, withscores=True))


def around(client: Any, player: str) -> list[tuple[str, float]]:
    """Answer ten with a player in the middle, in two round trips."""
    place = client.zrevrank(BOARD, player)
    first = max(0, place - 5)
    return list(client.zrange(BOARD, first, first + 9, desc=True, withscores=True))


def from_place(client: Any, place: int) -> list[tuple[str, float]]:
    """Answer ten from a place (from 1), in one round trip."""
    return list(client.zrange(BOARD, place - 1, place + 8, desc=True, withscores=True))


def change(client: Any, player: str, by: int) -> None:
    """Add to a player's score, in one round trip."""
    client.zincrby(BOARD, by, player)
