"""A leaderboard in a Redis sorted set, for comparison: a server on this machine, and its client."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from typing import Any

from chalicelib.dynamo.items import chunks
from local.ports import free_ports
from ops.waiting import wait_until

BOARD = "board"


@contextlib.contextmanager
def server() -> Iterator[Any]:
    """Start a Redis that keeps nothing on disk, and yield a client. Raises RuntimeError without a Redis."""
    import redis

    program = shutil.which("redis-server")
    if not program:
        raise RuntimeError("no redis-server on the PATH; on Debian: apt-get install redis-server")
    [port] = free_ports(1)
    command = [program, "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # noqa: S603
    client = redis.Redis(port=port, decode_responses=True)

    def responds() -> bool:
        with contextlib.suppress(redis.ConnectionError):
            return bool(client.ping())
        return False

    try:
        wait_until(responds, "redis-server responds", 10)
        yield client
    finally:
        client.close()
        process.terminate()
        process.wait()


def fill(client: Any, scores: Mapping[str, int]) -> None:
    """Replace the board."""
    client.flushall()
    for chunk in chunks(scores.items(), 10_000):
        client.zadd(BOARD, dict(chunk))


def rank(client: Any, player: str) -> int:
    """Return a player's shared rank, in two round trips: ZREVRANK gives equal scores ranks of their own."""
    score = client.zscore(BOARD, player)
    return 1 + int(client.zcount(BOARD, f"({score}", "+inf"))
