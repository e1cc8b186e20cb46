"""`chalice local`, `chalice deploy` and `chalice package` work, or end with one sentence, in a fresh copy."""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote
from zipfile import ZipFile

import pytest

from local.ports import free_ports
from ops.aws import chalice_config
from ops.stage import find_run
from tests.support.running import ENVIRONMENT, PAGE, PATIENCE, Run, copied, until, view

CHALICE = str(Path(sys.executable).with_name("chalice"))


def call(port: int, path: str, body: Any = None) -> Any:
    """Send a request and return the decoded response; None while nothing listens."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}{path}", data, {"Content-Type": "application/json"}
    )
    with (
        suppress(ConnectionError, urllib.error.URLError, http.client.HTTPException),
        urllib.request.urlopen(request, timeout=PATIENCE) as response,
    ):
        return json.load(response)


@contextmanager
def chalice_local(copy: Path, *options: str) -> Iterator[tuple[int, Path]]:
    """Run `chalice local` in a copy. Yield its port and the file of its output when it responds."""
    [port] = free_ports(1)
    output = copy.with_suffix(".output")
    with output.open("wb") as file:
        process = subprocess.Popen(
            [CHALICE, "local", "--port", str(port), *options],
            cwd=copy,
            env=ENVIRONMENT,
            stdout=file,
            stderr=subprocess.STDOUT,
        )
    try:
        until(lambda: call(port, "/health") or process.poll() is not None, "chalice local responds")
        assert process.poll() is None, output.read_text()
        yield port, output
    finally:
        process.terminate()
        process.wait(PATIENCE)
        until(lambda: call(port, "/health") is None, "chalice local has ended")


def count(port: int) -> int:
    return int(call(port, f"/views?url={quote(PAGE, safe='')}")["views"])


@pytest.mark.parametrize("options", [(), ("--no-autoreload", "--stage", "local")])
def test_chalice_local_is_a_local_run(tmp_path: Path, options: tuple[str, ...]) -> None:
    """It counts, whichever stage it names, and never connects to AWS."""
    copy = copied(tmp_path)
    with chalice_local(copy, *options) as (port, output):
        assert call(port, "/health")["stage"] == "local"
        assert call(port, "/views", view("1"))["accepted"] == 1
        until(lambda: count(port) == 1, "the view is counted")
        assert output.read_text().count("ready") == 1, "it does not restart after a write"
    until(lambda: find_run(copy / ".local") is None, "its engine has ended too")


def test_beside_a_run_chalice_local_serves_the_same_data_and_does_not_restart(tmp_path: Path) -> None:
    copy = copied(tmp_path)
    with Run(copy / ".local", root=copy) as run, chalice_local(copy) as (port, output):
        for client in "abc":
            assert call(port, "/views", view(client))["accepted"] == 1
        run.wait_for_views(3)
        assert count(port) == 3
        assert call(port, "/web/config.json")["socket"] == f"ws://127.0.0.1:{run.socket_port}"
        assert output.read_text().count("ready") == 1


def refusal(copy: Path, *arguments: str, **variables: str) -> str:
    """Run a Chalice command that cannot work, check that it creates nothing, and return its only line."""
    before = {path: path.read_bytes() for path in copy.rglob("*") if path.is_file() and path.suffix != ".pyc"}
    done = subprocess.run(
        [CHALICE, *arguments],
        cwd=copy,
        env=ENVIRONMENT | variables,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.returncode, done.stdout
    assert not done.stdout
    after = {path: path.read_bytes() for path in copy.rglob("*") if path.is_file() and path.suffix != ".pyc"}
    assert after == before
    [line] = done.stderr.splitlines()
    return line


def test_a_stage_that_is_not_provisioned_is_neither_deployed_nor_packaged(tmp_path: Path) -> None:
    copy = copied(tmp_path)
    first = "Error: dev is not provisioned: run make provision STAGE=dev first"
    for command in (("deploy",), ("package", "--single-file", "out.zip")):
        assert refusal(copy, *command) == first
    assert "no stage named 'pord'" in refusal(copy, "deploy", "--stage", "pord")
    assert "start it with make run" in refusal(copy, "package", "out", "--stage", "local")
    arn = "arn:aws:dynamodb:eu-central-1:123456789012:table/hubbub-dev/stream/2026"
    chalice_config.record_variables(copy, "dev", {"HUBBUB_STREAM_ARN": arn})
    for other in (("package", "out"), ("delete",)):  # a second region would share the roles
        assert "dev is in eu-central-1" in refusal(copy, *other)


def test_variables_that_lambda_would_refuse_are_refused_first(tmp_path: Path) -> None:
    copy = copied(tmp_path)
    arn = "arn:aws:dynamodb:us-east-1:123456789012:table/hubbub-dev/stream/2026"
    sites = ",".join(f"example.org/page-{number}" for number in range(300))
    chalice_config.record_variables(copy, "dev", {"HUBBUB_STREAM_ARN": arn, "HUBBUB_SITES": sites})
    for command in (("deploy",), ("package", "out")):
        assert "PUT /sites/{site}" in refusal(copy, *command, AWS_DEFAULT_REGION="us-east-1")


def test_a_package_that_chalice_makes_itself_has_the_page(tmp_path: Path) -> None:
    copy = copied(tmp_path)
    (copy / "requirements.txt").write_text("")
    arn = "arn:aws:dynamodb:eu-central-1:123456789012:table/hubbub-dev/stream/2026"
    chalice_config.record_variables(copy, "dev", {"HUBBUB_STREAM_ARN": arn})
    done = subprocess.run(
        [CHALICE, "package", str(tmp_path / "out")],
        cwd=copy,
        env=ENVIRONMENT | {"AWS_DEFAULT_REGION": "eu-central-1"},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stderr
    with ZipFile(tmp_path / "out" / "deployment.zip") as package:
        assert {"app.py", "web/index.html", "web/beacon.js"} <= set(package.namelist())
