"""The rehearsal runs a whole deployment on an engine, as docs/deployment.md shows it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from local.engines.engine import ROOT
from tests.support.running import ENVIRONMENT

TIMES_AND_IDS = (
    (r"127\.0\.0\.1:\d+", "127.0.0.1:PORT"),
    (r"\b[0-9a-f]{8}\b", "ID"),
    (r"\d{4}-\d\d-\d\dT[\d:.]+Z?", "TIME"),
    (r"in \d+ s$", "in N s"),
)


def masked(line: str) -> str:
    """Replace the parts that differ in each run."""
    for pattern, word in TIMES_AND_IDS:
        line = re.sub(pattern, word, line)
    return line.rstrip()


def transcript() -> list[str]:
    """Return the document's transcript. A line of three dots stands for omitted lines."""
    document = (ROOT / "docs" / "deployment.md").read_text()
    [text] = re.findall(r"```text\n\$ make rehearse\n(.*?)```", document, re.DOTALL)
    return [masked(line) for line in text.splitlines()]


def project() -> dict[Path, bytes]:
    """Return every file of the project that a deployment could change."""
    folders = [ROOT / ".chalice", ROOT / "ops", ROOT / "chalicelib"]
    files = [path for folder in folders for path in folder.rglob("*") if "__pycache__" not in path.parts]
    return {path: path.read_bytes() for path in [ROOT / "app.py", *files] if path.is_file()}


def rehearse(*options: str) -> list[str]:
    """Run the rehearsal and return its output."""
    before = project()
    done = subprocess.run(
        [sys.executable, "-m", "local.rehearsal", *options],
        cwd=ROOT,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    assert project() == before, "a rehearsal leaves the project as it was"
    return [masked(line) for line in done.stdout.splitlines()]


@pytest.mark.long
def test_the_documented_transcript_is_what_a_rehearsal_prints() -> None:
    rehearsed, place, may_skip = rehearse(), 0, False
    for line in transcript():
        if line.strip() == "...":
            may_skip = True
            continue
        found = rehearsed.index(line, place) if line in rehearsed[place:] else -1
        assert found == place or (may_skip and found > place), (line, rehearsed[place : place + 5])
        place, may_skip = found + 1, False
    assert place == len(rehearsed)


@pytest.mark.long
def test_a_mapping_on_a_deleted_stream_is_repaired_by_the_next_deployment() -> None:
    lines = rehearse("--loses-stream")
    assert "  ✓ the new stream has the one mapping" in lines
    drift = [line for line in lines if line.endswith("which is no longer its source: mapping deleted")]
    assert [line.partition(":")[0] for line in drift] == ["hubbub-dev-apply", "hubbub-dev-push"]
    place = lines.index(drift[0])
    assert [line for line in lines[place:] if line.startswith("Subscribing hubbub-dev-apply to")]
    assert [line for line in lines[place:] if line.startswith("ok      a view is counted")]


@pytest.mark.long
def test_the_alarm_of_the_lag_fires_while_the_mapping_is_disabled() -> None:
    """The probe runs as a function, and the alarm is evaluated from its definition and its metric."""
    steps = [line.strip() for line in rehearse("--alarms")]
    assert "✓ two late probes are the alarm stream-lag" in steps
    assert "✓ after the mapping is enabled, the probe is counted again" in steps


@pytest.mark.long
def test_a_command_that_is_interrupted_is_completed_by_the_next_one_from_any_directory() -> None:
    """Chalice writes its record at the end: chalice/deploy/deployer.py, `Deployer._deploy`."""
    lines = [line for line in rehearse("--interrupts", "operations") if " continues after " in line]
    seen = {line.partition(" continues after ")[2].partition(",")[0] for line in lines}
    assert seen > {"CreateRole", "CreateFunction", "CreateEventSourceMapping", "PutRule", "ImportRestApi"}
    assert seen > {"CreateApi", "CreateStage", "DeleteFunction", "DeleteRole", "DeleteRestApi", "DeleteApi"}


@pytest.mark.long
def test_a_restored_table_takes_the_stage_over_with_the_view_that_was_in_the_stream() -> None:
    lines = rehearse("--restores")
    steps = [line.removeprefix("  ✓ ") for line in lines if line.startswith("  ✓ ")]
    assert steps[:4] == [
        "a view is in the stream and not counted",
        "the repair has counted it",
        "only a table has been added",
        "its stream is counted",
    ]
