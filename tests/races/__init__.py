"""Scripts that run the races of the product over its real interfaces."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import NamedTuple, TypeVar

from tests.support.running import Run

BUSY = "import itertools; [None for _ in itertools.count()]"
T = TypeVar("T")


class Result(NamedTuple):
    """The faults of the rounds of a race, and how many rounds were refused and played again."""

    faults: Counter[str]
    refused: int = 0


@contextmanager
def product(**environment: str) -> Iterator[Run]:
    """Run the product in a folder of its own."""
    with (
        tempfile.TemporaryDirectory() as folder,
        Run(Path(folder) / "data", "--no-reload", environment=environment) as run,
    ):
        yield run


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


def main(
    races: Iterable[str],
    running: Callable[[], AbstractContextManager[T]],
    play: Callable[[T, str, int], Result],
) -> int:
    """Play the races, and print the faults of each."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--rounds", type=int, default=100, help="of each race")
    parser.add_argument("--load", action="store_true", help="beside two busy processes for each core")
    parser.add_argument("--only", default="", help="the beginning of a race's name")
    options = parser.parse_args()
    failed = False
    with running() as stage, loaded(options.load):
        for name in (name for name in races if name.startswith(options.only)):
            begun = time.monotonic()
            faults, refused = play(stage, name, options.rounds)
            failed |= bool(faults)
            told = "; ".join(f"{count} times: {fault}" for fault, count in faults.items()) or "no fault"
            played = f"{options.rounds} rounds in {time.monotonic() - begun:.0f} s, {refused} refused"
            print(f"{name}: {played}: {told}", flush=True)
    return int(failed)
