"""The first request and the first batch may come at the same time, because a local run has threads."""

from __future__ import annotations

import subprocess
import sys

import pytest

AT_ONCE = """
import threading
import tests.conftest
import app
from chalicelib.aggregates import engine
from chalicelib.dynamo.table import connect
from chalicelib.telemetry import logs, metrics, middleware

problems, ready = [], threading.Barrier(3)

def run(work):
    ready.wait()
    try:
        work()
    except BaseException as problem:
        problems.append(repr(problem))

def publish():
    middleware.count_batch(engine.Report())
    metrics.publish()

work = (logs.logger, publish, connect)
threads = [threading.Thread(target=run, args=(one,)) for one in work]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
raise SystemExit("; ".join(problems) or 0)
"""


@pytest.mark.parametrize("again", range(2))
def test_the_first_imports_of_several_threads_do_not_interfere(again: int) -> None:
    """Lazy imports in several threads must not interfere with each other."""
    run = subprocess.run([sys.executable, "-c", AT_ONCE], capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stderr
