"""What each function takes of CPU and of memory, and so how much memory it should be given."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import NamedTuple

from bench.report import Figures, Report, Target
from bench.view_costs import fresh_table
from local.engine import ROOT, Engine
from ops import provision

WHOLE = 1769  # MB that have one vCPU: AWS's figure
SIZES = (128, 256, 512, 1024, WHOLE)  # MB
RUNTIME = 45  # MB that are left to Lambda's own part of the process, which does not run here
CALLS = {
    "api_handler": "GET /views",
    "identify": "a token of ours",
    "write_views": "10 messages of 25 views",
    "apply": "100 views of new visitors",
    "push": "100 changes of a page, no listeners",
    "sweep": "no connections",
    "websocket_connect": "nobody waits",
    "websocket_message": "leave",
    "websocket_disconnect": "nobody is left",
}
COMPILED = """
import sys, time
import app
there = sys.stdlib_module_names | {"boto3", "botocore", "s3transfer", "urllib3", "dateutil", "six", "app"}
modules = [module for name, module in sys.modules.items() if name.split(".")[0] not in there]
files = [getattr(module, "__file__", None) or "" for module in (app, *modules)]
files = [file for file in files if file.endswith(".py")]
begun = time.process_time()
for file in files:
    with open(file, encoding="utf-8") as source:
        compile(source.read(), file, "exec")
print(time.process_time() - begun)
"""
SECRET = "/hubbub/bench/secret"  # noqa: S105 (its name)
METHOD = f"""CPU time and memory. Each function runs in a process of its own that imports app first, as \
Lambda does, from compiled files, and is called {{calls}} times after the first. Counted is the process's \
own CPU time, the SDK's included, not the engine's: the import and the client of the table, the first call \
(which reads the secret, and imports what is needed late), the median of the others. Memory is the most that \
the process ever had, what prepares the calls included. Lambda gives one vCPU at {WHOLE} MB, and less in \
proportion: the second table divides by that share. It leaves out all waiting, which more memory does not \
shorten, and takes a vCPU of Lambda for as fast as this machine's core. What bytecode saves is the CPU time \
of compiling all that importing app imports, but for what Lambda has compiled: Python's own and the SDK."""


class Taken(NamedTuple):
    """What a function took: CPU seconds of its import, its first call and a later one; seconds; MB."""

    imported: float
    first: float
    cpu: float
    clock: float
    memory: float


def measure(engine: Engine, quick: bool) -> Report:
    """Measure every function; takes some 5 seconds for each, `quick` 2."""
    calls = 5 if quick else 50
    keep_secret(engine)
    taken = {function: run(engine, function, calls) for function in CALLS}
    saved = ("what bytecode saves a cold start", 1000 * compiling())
    return Report(
        [METHOD.format(calls=calls)],
        [costs(taken), shares(taken), Figures("CPU time in ms", ("what", "ms"), [saved])],
        [
            Target(f"MB of {name}, of {given}", one.memory, given - RUNTIME)
            for name, one in taken.items()
            for given in [configured()[name]]
        ],
    )


def keep_secret(engine: Engine) -> None:
    """Put a secret where the functions read it."""
    provision.secret(engine.client("ssm"), SECRET)


def run(engine: Engine, function: str, calls: int) -> Taken:
    """Run a function in a process, on a table of its own."""
    with fresh_table(engine) as (table, stream_arn):
        said = _said(
            *("-m", "bench.one_function", function, str(calls)),
            HUBBUB_ENDPOINT=engine.endpoint,
            HUBBUB_TABLE=table.name,
            HUBBUB_STREAM_ARN=stream_arn,
            HUBBUB_SECRET_PARAMETER=SECRET,
        )
    return Taken(**json.loads(said))


def compiling() -> float:
    """Compile what a cold start without bytecode compiles; answer the CPU seconds, the least of three."""
    return min(float(_said("-c", COMPILED)) for _ in range(3))


def _said(*arguments: str, **variables: str) -> str:
    """Run Python in an environment without anybody's credentials; answer the last line that it prints."""
    environment = {
        "PATH": os.environ.get("PATH", ""),
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
    }
    ran = subprocess.run(  # noqa: S603 (our own command)
        [sys.executable, *arguments],
        cwd=ROOT,
        env=environment | variables,
        check=True,
        capture_output=True,
        text=True,
    )
    return ran.stdout.splitlines()[-1]


def costs(taken: dict[str, Taken]) -> Figures:
    """Show what was measured."""
    figures = Figures(
        "CPU time in ms, and memory", ("function", "call", "import, client", "first call", "later call", "MB")
    )
    for name, one in taken.items():
        times = (1000 * seconds for seconds in (one.imported, one.first, one.cpu))
        figures.rows.append((name, CALLS[name], *times, one.memory))
    return figures


def shares(taken: dict[str, Taken]) -> Figures:
    """Show how long a cold start and a later call compute with each share of a CPU."""
    columns = ("function", *(f"{size} MB" for size in SIZES), "given")
    figures = Figures("ms of computing by memory: cold start / later call", columns)
    for name, one in taken.items():
        figures.rows.append((name, *(text(one, size) for size in SIZES), f"{configured()[name]} MB"))
    return figures


def text(one: Taken, size: int) -> str:
    """Write a cold start and a later call with so many MB, in milliseconds."""
    cold, warm = ((one.imported + one.first) * 1000, one.cpu * 1000)
    return f"{cold * WHOLE / size:,.0f} / {warm * WHOLE / size:,.0f}"


def configured() -> dict[str, int]:
    """Read the MB that each function of the dev stage is given."""
    stage = json.loads((ROOT / ".chalice" / "config.json").read_text())["stages"]["dev"]
    return {
        name: one.get("lambda_memory_size", stage["lambda_memory_size"])
        for name, one in stage["lambda_functions"].items()
    }
