"""docs/your-own-feature.md is followed in a copy of the project, and its feature runs."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.running import ENVIRONMENT, Run, until

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "your-own-feature.md"
BLOCK = re.compile(r"^`([\w/.]+)`:\n\n```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINE = re.compile(r"^```diff\n (.*\n)\+(.*\n) (.*\n)```$", re.MULTILINE)
ROUTES = re.compile(r"^Append to `app.py`:\n\n```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
CENTRAL = (  # the tests that enumerate features, routes or items
    "tests/polls",
    "tests/test_architecture.py",
    "tests/test_dearest.py",
    "tests/test_operations.py",
    "--deselect=tests/test_operations.py::test_every_recorded_key_name_and_type_is_still_stored",
    "tests/api/test_features.py",
    "tests/api/test_keys.py",
    "tests/api/test_openapi.py",
    "tests/local/test_filters.py",
    "tests/ops/test_data.py",
)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the project in which the page has been followed."""
    copy = tmp_path_factory.mktemp("own") / "hubbub"
    skipped = shutil.ignore_patterns(".git", ".venv", ".local", "__pycache__", ".*_cache", "out")
    shutil.copytree(ROOT, copy, symlinks=True, ignore=skipped)
    text = PAGE.read_text(encoding="utf-8")
    for name, code in BLOCK.findall(text):
        path = copy / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(code, encoding="utf-8")
    app = copy / "app.py"
    [(above, line, below)] = LINE.findall(text)
    [routes] = ROUTES.findall(text)
    before = app.read_text(encoding="utf-8")
    assert before.count(above + below) == 1
    followed = before.replace(above + below, above + line + below)
    app.write_text(f"{followed}\n\n{routes}", encoding="utf-8")
    subprocess.run([sys.executable, "-m", "ops", "client"], cwd=copy, env=ENVIRONMENT, check=True)
    return copy


def test_the_page_adds_one_package_one_line_its_routes_and_one_test_file() -> None:
    names = [Path(name) for name, _ in BLOCK.findall(PAGE.read_text(encoding="utf-8"))]
    assert {path.parent for path in names[:-1]} == {Path("chalicelib/polls")}
    assert names[-1] == Path("tests/polls/test_polls.py")


@pytest.mark.parametrize(
    "command",
    [
        "ruff check .",
        "ruff format --check .",
        pytest.param("mypy app.py chalicelib/polls tests/polls", marks=pytest.mark.long),
    ],
)
def test_its_style_and_types_pass(project: Path, command: str) -> None:
    run = [sys.executable, "-m", *command.split()]
    done = subprocess.run(run, cwd=project, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_the_feature_runs_and_is_shown_live(project: Path, tmp_path: Path) -> None:
    from websockets.sync.client import connect

    with Run(tmp_path / "run", "--no-reload", root=project) as run:
        admin = run.token("admin-1", "admin")
        ann = run.token("ann")
        poll = {"title": "Tea or coffee?", "answers": ["tea", "coffee"]}
        assert run.call("PUT", "/polls/drinks", poll, token=admin)[0] == 200
        with connect(f"ws://127.0.0.1:{run.socket_port}/?listen=1") as socket:
            socket.send('{"action": "subscribe", "topic": "poll:drinks"}')
            assert '"tea":0' in str(socket.recv(timeout=30)).replace(" ", "")
            assert run.call("POST", "/polls/drinks/votes", {"answer": "tea"}, token=ann)[0] == 200
            until(lambda: '"tea":1' in str(socket.recv(timeout=30)).replace(" ", ""), "the vote is shown")


@pytest.mark.long
def test_the_tests_that_enumerate_features_pass_with_it(project: Path) -> None:
    command = [sys.executable, "-m", "pytest", "-n", "2", *CENTRAL]
    done = subprocess.run(command, cwd=project, env=ENVIRONMENT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-5000:]
