"""Locks on data folders: a folder is used by one run and by one engine at a time."""

from __future__ import annotations

import contextlib
import fcntl
import os
import sys
import time
from pathlib import Path
from typing import Self


class InUse(Exception):
    """Another process holds the lock. The message names it."""


def open_private(path: Path, flags: int) -> int:
    """Open a file that only its owner can read, and return its descriptor."""
    return os.open(path, flags, 0o600)


class Lock:
    """A lock on a file, held until it is released here and in every process that inherited it.

    The file contains the id of the process that holds it. When that process has released the lock or died,
    its children may still be writing. The lock then waits for them, for at most `patience` seconds, and
    prints the `reason` to standard error every five seconds.

    Raises: InUse at once when the process that holds the lock is alive, OSError when the file cannot be
        written.
    """

    def __init__(self, path: Path, patience: float, reason: str = "it is still stopping") -> None:
        self._file = os.fdopen(
            open_private(path, os.O_RDWR | os.O_CREAT | os.O_APPEND), "a+", errors="replace"
        )
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

    def _acquire(self, path: Path, patience: float, reason: str) -> None:
        begin = printed = time.monotonic()
        while True:
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            self._file.seek(0)
            holder, now = self._file.read(), time.monotonic()
            if _is_alive(holder) or now > begin + patience:
                raise InUse(f"process {holder or '?'} is using {path.parent}")
            if now > printed + 5:
                message = f"waiting for the last run of {path.parent} ({now - begin:.0f} s): {reason}"
                print(message, file=sys.stderr, flush=True)
                printed = now
            time.sleep(0.05)

    def _name(self, holder: str) -> None:
        self._file.truncate(0)
        self._file.write(holder)
        self._file.flush()


def _is_alive(holder: str) -> bool:
    if not holder.isdecimal():
        return False  # released, or just acquired
    try:
        os.kill(int(holder), 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # it belongs to another user
        return True
    with contextlib.suppress(OSError):  # on Linux, a killed process is a zombie until its parent waits for it
        return Path(f"/proc/{holder}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return True
