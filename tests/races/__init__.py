"""Scripts that run the races of the product over its real interfaces."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

BUSY = "import itertools; [None for _ in itertools.count()]"


@contextmanager
def loaded(is_loaded: bool) -> Iterator[None]:
    """Keep the machine busy with two processes for each core, if `is_loaded`."""
    count = 2 * (os.cpu_count() or 1) if is_loaded else 0
    busy = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(count)]
    try:
        yield
    finally:
        for process in busy:
            process.kill()
            process.wait()
