"""Free ports of this machine, for servers that bind them later."""

from __future__ import annotations

import contextlib
import secrets
import socket

HOST = "127.0.0.1"
FIRST, COUNT = 10_000, 22_000  # below those that Linux and macOS give to outgoing connections


def free_ports(count: int) -> list[int]:
    """Return random ports on which nothing listens.

    A port that the system chooses could be given to a connection before its server binds it.
    """
    with contextlib.ExitStack() as probes:
        ports: list[int] = []
        while len(ports) < count:
            port = FIRST + secrets.randbelow(COUNT)
            with contextlib.suppress(OSError):
                probes.enter_context(socket.create_server((HOST, port)))
                ports.append(port)
        return ports
