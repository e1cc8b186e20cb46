"""The servers of docs/embed.md, in Python and Node, submit to a board that no browser can write."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.running import Run

ROOT = Path(__file__).parents[2]
SECTION = (ROOT / "docs" / "embed.md").read_text().partition("### A game's server")[2].partition("\n### ")[0]


def sign(run: Run, sub: str, scope: str) -> str:
    options = ["--stage", "local", "--sub", sub, *(["--scope", scope] if scope else [])]
    command = [sys.executable, "-m", "ops", "token", *options]
    return subprocess.check_output(command, cwd=ROOT, env=run.environment, text=True).strip()


@pytest.mark.long
def test_the_documented_servers_submit_to_a_board_that_players_cannot_write(tmp_path: Path) -> None:
    [python] = re.findall(r"```python\n(.*?)```", SECTION, re.DOTALL)
    [node] = re.findall(r"```js\n(.*?)```", SECTION, re.DOTALL)
    client = (ROOT / "web" / "lib" / "hubbub.js").as_uri()
    (tmp_path / "server.py").write_text(python)
    (tmp_path / "server.mjs").write_text(node.replace('"hubbub-client"', f'"{client}"'))
    with Run(tmp_path / "data", "--no-reload") as run:
        board = {"title": "Race", "operator": "best", "submit": "server"}
        assert run.call("PUT", "/leaderboards/race", board, sign(run, "me", "admin"))[0] == 201
        assert (
            run.call("POST", "/leaderboards/race/scores", {"id": "1", "value": 9}, sign(run, "ann", ""))[0]
            == 403
        )
        environment = os.environ | {
            "HUBBUB": f"http://127.0.0.1:{run.port}",
            "TOKEN": sign(run, "game", "scores"),
        }
        for command in (["python3", "server.py"], ["node", "server.mjs"], ["python3", "server.py"]):
            printed = subprocess.check_output(command, cwd=tmp_path, env=environment, text=True, timeout=60)
            assert printed in {"1\n", "2\n"}
        entries = run.call("GET", "/leaderboards/race/entries")[1]["items"]
        assert [(item["player"], item["score"]) for item in entries] == [("bob", 430), ("ann", 420)]
