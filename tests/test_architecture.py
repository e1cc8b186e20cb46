"""Hold the rules of the source tree: which module may import which, and where boto3 and chalice live."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MODULES = {path.stem: path for path in (ROOT / "chalicelib").glob("*.py") if path.stem != "__init__"}
MODULES["viewer"] = ROOT / "chalicelib" / "viewer" / "__init__.py"

CHAT = {"chat_schemas", "connections", "pool", "topics", "reports", "pairs", "notes", "resume", "lobby"}
FEATURES = {
    "views": {"view_schemas", "events", "views", "traffic"},
    "leaderboards": {"board_schemas", "score_schemas", "boards", "leaderboards", "standings"},
    "challenges": {
        "challenge_schemas",
        "answers",
        "placing",
        "challenge_rules",
        "challenges",
        "progress",
        "submissions",
        "finders",
    },
    "comments": {
        "comment_schemas",
        "comments",
        "ratings",
        "comment_changes",
        "comment_plans",
        "comment_pages",
    },
    "chat": CHAT | {"frames", "chat"},
}
BOTO = {
    "table": "it talks to DynamoDB",
    "attempts": "it reads DynamoDB's errors",
    "queue": "it talks to SQS",
    "sockets": "it makes the client that talks to connections",
    "posts": "it reads that client's errors",
    "auth": "it reads the secret from SSM",
    "items": "boto3's own notation of items",
    "sums": "boto3's own precision of numbers",
}
CHALICE = {"errors": "an error is a Chalice error", "door": "it registers routes"}


def imported(path: Path) -> set[str]:
    """Name what a file imports, anywhere in it; `chalicelib.x` for each x of `from chalicelib import x`."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            inside = node.module == "chalicelib"
            names |= {f"chalicelib.{alias.name}" for alias in node.names} if inside else {node.module}
    return names


def tops(path: Path) -> set[str]:
    return {name.split(".")[0] for name in imported(path)}


def test_features_do_not_import_each_other() -> None:
    for feature, modules in FEATURES.items():
        others = set().union(*(theirs for name, theirs in FEATURES.items() if name != feature))
        for module in modules:
            assert not {f"chalicelib.{other}" for other in others} & imported(MODULES[module])


@pytest.mark.parametrize("module", sorted(MODULES))
def test_chalicelib_knows_nothing_of_what_stands_around_it(module: str) -> None:
    assert not tops(MODULES[module]) & {"app", "local", "ops", "bench", "proof", "tests"}


@pytest.mark.parametrize("module", sorted(MODULES))
def test_boto3_and_chalice_live_where_they_must(module: str) -> None:
    names = tops(MODULES[module])
    assert not names & {"boto3", "botocore"} or module in BOTO
    assert "chalice" not in names or module in CHALICE


def test_app_is_a_table_of_contents() -> None:
    """Each handler has 1 to 8 lines, and no logic: no branch and no loop."""
    for node in ast.parse((ROOT / "app.py").read_text()).body:
        if isinstance(node, ast.FunctionDef):
            assert (node.end_lineno or 0) - node.lineno < 10, node.name
            logic = (ast.If, ast.For, ast.While, ast.Try)
            assert not [inner for inner in ast.walk(node) if isinstance(inner, logic)], node.name


def test_every_function_has_a_policy_of_its_own_without_a_star_for_an_action() -> None:
    config = json.loads((ROOT / ".chalice" / "config.json").read_text())
    functions = config["stages"]["dev"]["lambda_functions"]
    handlers = set(re.findall(r'\bname="(\w+)"', (ROOT / "app.py").read_text()))
    sockets = {"websocket_connect", "websocket_message", "websocket_disconnect"}
    assert set(functions) == {"api_handler", "identify", *handlers, *sockets}
    for function in functions.values():
        policy = json.loads((ROOT / ".chalice" / function["iam_policy_file"]).read_text())
        for statement in policy["Statement"]:
            assert not [action for action in statement["Action"] if "*" in action]
            assert statement["Resource"] != "*"
