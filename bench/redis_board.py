"""A leaderboard in a Redis sorted set, for comparison: a server on this machine, and its client."""

from __future__ import annotations

import contextlib
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Any

START_SECONDS = 10.0
CHUNK = 10_000  # members added at once
BOARD = "board"


class RedisUnavailable(Exception):
    """There is no Redis here; the message says what is missing."""


@contextlib.contextmanager
def server() -> Iterator[Any]:
    """Start a Redis that keeps nothing on disk, and yield a client. Raises RedisUnavailable."""
    program = shutil.which("redis-server")
    if not program:
        raise RedisUnavailable("no redis-server on the PATH; on Debian: apt-get install redis-server")
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
                    raise RedisUnavailable("redis-server does not respond") from None
                time.sleep(0.02)
        yield client
    finally:
        client.close()
        process.terminate()
        process.wait()


def fill(client: Any, scores: Mapping[str, int]) -> int:
    """Replace the board; return the bytes of memory that the server uses for it."""
    client.flushall()
    before = client.info("memory")["used_memory"]
    rest = iter(scores.items())
    while some := dict(islice(rest, CHUNK)):
        client.zadd(BOARD, some)
    return int(client.info("memory")["used_memory"] - before)


def rank(client: Any, player: str) -> int:
    """Return a player's shared rank, in two round trips: ZREVRANK gives equal scores ranks of their own."""
    score = client.zscore(BOARD, player)
    with client.pipeline(transaction=False) as pipeline:
        pipeline.zcount(BOARD, f"({score}", "+inf")
        pipeline.zcard(BOARD)
        return 1 + int(pipeline.execute()[0])


def questions(client: Any, player: str, position: int) -> dict[str, Callable[[], Any]]:
    """Return the questions of a leaderboard, for a player at a position (from 1), and a change."""

    def entries(first: int) -> list[tuple[str, float]]:
        return list(client.zrange(BOARD, first, first + 9, desc=True, withscores=True))

    return {
        "rank": lambda: rank(client, player),
        "top 10": lambda: entries(0),
        "around": lambda: entries(max(0, client.zrevrank(BOARD, player) - 5)),
        "place": lambda: entries(position - 1),
        "change": lambda: client.zincrby(BOARD, 0, player),
    }
