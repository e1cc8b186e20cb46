"""Locks on data folders: one run, and one engine, at a time."""

from __future__ import annotations

import contextlib
import fcntl
import os
import sys
import time
from pathlib import Path
from typing import Self


class InUse(Exception):
    """Another process holds the lock; the message names it."""


def private(path: Path, flags: int) -> int:
    """Open a file that its owner alone can read, and return its descriptor."""
    return os.open(path, flags, 0o600)


class Lock:
    """Locks a file, which then names this process, until it is released here and wherever it was inherited.

    A holder that lives is InUse at once. When it has released the lock or died, its children may still be
    writing what they know. They are waited for: `patience` seconds at most, or without it until they end, and
    every five seconds a line on standard error gives the `reason`. Raises OSError when the file cannot be
    written.
    """

    def __init__(self, path: Path, patience: float | None, reason: str = "it is still ending") -> None:
        self._file = os.fdopen(private(path, os.O_RDWR | os.O_CREAT | os.O_APPEND), "a+", errors="replace")
        try:
            self._acquire(path, patience, reason)
            self._name(str(os.getpid()))
        except BaseException:
            self._file.close()
            raise

    def fileno(self) -> int:
        """Return the descriptor that a child inherits to keep the file locked."""
        return self._file.fileno()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._name("")
        self._file.close()

    def _acquire(self, path: Path, patience: float | None, reason: str) -> None:
        begin = said = time.monotonic()
        while True:
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            self._file.seek(0)
            holder, now = self._file.read(), time.monotonic()
            if _lives(holder) or (patience is not None and now > begin + patience):
                raise InUse(f"process {holder or '?'} is using {path.parent}")
            if now > said + 5:
                waits = f"waiting for the last run of {path.parent} ({now - begin:.0f} s): {reason}"
                print(waits, file=sys.stderr, flush=True)
                said = now
            time.sleep(0.05)

    def _name(self, holder: str) -> None:
        self._file.truncate(0)
        self._file.write(holder)
        self._file.flush()


def _lives(holder: str) -> bool:
    if not holder.isdecimal():
        return False  # released, or taken and not named yet
    try:
        os.kill(int(holder), 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # it lives, and is someone else's
        return True
    with contextlib.suppress(OSError):  # killed, but its parent has yet to take note: on Linux, a zombie
        return Path(f"/proc/{holder}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return True
