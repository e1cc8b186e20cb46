"""The rules of the source tree: the direction of imports, and the places of boto3 and chalice."""

from __future__ import annotations

import ast
import doctest
import json
import re
from functools import cache
from graphlib import CycleError, TopologicalSorter
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FEATURES = {
    path.parent.name for path in ROOT.glob("chalicelib/*/__init__.py") if "FEATURE =" in path.read_text()
} - {"aggregates"}
CORE = {"telemetry", "dynamo", "context", "feature", "api"}
SHARED = CORE | {"aggregates", "ranking"}
# The packages of chalicelib, and the other packages of chalicelib that each may import. `root` stands for the
# modules that lie in chalicelib itself: errors, settings, times and so on. Two of these, the context of an
# operation and the description of a feature, know the table's types, so they have a place of their own.
MAY_IMPORT: dict[str, set[str]] = {
    "root": set(),
    "telemetry": {"root"},
    "dynamo": {"root", "telemetry"},
    "context": {"root", "dynamo"},
    "feature": {"root", "dynamo", "context"},
    "api": {"root", *CORE - {"api"}},
    "aggregates": {"root", *CORE},
    "ranking": {"root", *CORE, "aggregates"},
    **{feature: {"root", *SHARED} for feature in FEATURES},
}
# The packages beside chalicelib, and those that each may import besides chalicelib.
OUTSIDE: dict[str, set[str]] = {
    "app": {"ops"},  # for Chalice's own commands only
    "ops": {"app"},
    "local": {"app", "ops"},
    "bench": {"app", "ops", "local", "tests"},
}
BOTO = {
    "dynamo/table": "creates the client of DynamoDB",
    "dynamo/retries": "reads DynamoDB's errors",
    "dynamo/items": "uses boto3's conversion of items",
    "aggregates/sums": "uses boto3's precision of numbers",
    "api/auth": "reads the secret from SSM",
    "views/queue": "sends messages to SQS",
    "notices/sns": "publishes to SNS",
    "chat/gateway": "creates the client that posts to connections, and reads its errors",
}
CHALICE = {"errors": "errors are Chalice errors", "api/router": "registers routes at Chalice"}


@cache
def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def read_imports(path: Path) -> set[str]:
    """Return the modules that a file imports anywhere, as dotted names.

    `from chalicelib.api import codec` gives `chalicelib.api.codec`. Imports for type checking count too.
    """
    names: set[str] = set()
    for node in ast.walk(parse(path)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            assert node.level == 0, f"{path} has a relative import"
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


@cache
def modules() -> dict[str, Path]:
    """Return the modules of chalicelib, such as `api/router` or `errors`, with their files."""
    folder = ROOT / "chalicelib"
    return {str(path.relative_to(folder).with_suffix("")): path for path in sorted(folder.rglob("*.py"))}


def package_of(module: str) -> str:
    """Return the package of a module of chalicelib; `root` for a module without a place of its own."""
    package = module.partition("/")[0]
    return package if "/" in module or package in MAY_IMPORT else "root"


def imported_packages(path: Path) -> set[str]:
    """Return the packages of chalicelib that a file imports."""
    packages = set(MAY_IMPORT) - {"root"}
    names = [name.split(".") for name in read_imports(path)]
    ours = [name[1] for name in names if name[0] == "chalicelib" and len(name) > 1]
    return {name if name in packages else "root" for name in ours}


def top_level(path: Path) -> set[str]:
    return {name.split(".")[0] for name in read_imports(path)}


@cache
def outside_graph() -> dict[str, set[str]]:
    """Return the imports between the packages beside chalicelib."""
    files = {name: sorted((ROOT / name).rglob("*.py")) for name in OUTSIDE if name != "app"}
    files["app"] = [ROOT / "app.py"]
    return {
        name: set().union(*map(top_level, paths)) & ({*OUTSIDE, "tests"} - {name})
        for name, paths in files.items()
    }


def test_every_package_of_chalicelib_has_a_place_in_the_order() -> None:
    assert {package_of(module) for module in modules()} == set(MAY_IMPORT)


@pytest.mark.parametrize("package", sorted(MAY_IMPORT))
def test_a_package_imports_only_packages_below_it(package: str) -> None:
    for module, path in modules().items():
        if package_of(module) == package:
            assert imported_packages(path) - {package} <= MAY_IMPORT[package], module


def test_features_do_not_import_each_other() -> None:
    for feature in FEATURES:
        assert not MAY_IMPORT[feature] & FEATURES
    for module, path in modules().items():
        if (feature := package_of(module)) in FEATURES:
            assert imported_packages(path) & FEATURES <= {feature}, module


def test_there_is_no_import_cycle_between_the_packages_of_chalicelib() -> None:
    graph: dict[str, set[str]] = {}
    for module, path in modules().items():
        package = package_of(module)
        graph.setdefault(package, set()).update(imported_packages(path) - {package})
    order = list(TopologicalSorter(graph).static_order())  # raises CycleError
    assert order[0] == "root"


def test_a_cycle_would_be_found() -> None:
    with pytest.raises(CycleError):
        list(TopologicalSorter({"a": {"b"}, "b": {"a"}}).static_order())


@pytest.mark.parametrize("module", sorted(modules()))
def test_chalicelib_does_not_import_the_packages_around_it(module: str) -> None:
    assert not top_level(modules()[module]) & {*OUTSIDE, "tests"}


@pytest.mark.parametrize("package", sorted(OUTSIDE))
def test_the_packages_around_chalicelib_import_only_what_they_may(package: str) -> None:
    assert outside_graph()[package] <= OUTSIDE[package]


def test_no_test_imports_the_benchmarks() -> None:
    for path in sorted((ROOT / "tests").rglob("*.py")):
        assert "bench" not in top_level(path), path


@pytest.mark.parametrize("module", sorted(modules()))
def test_boto3_and_chalice_are_imported_only_where_they_must_be(module: str) -> None:
    names = top_level(modules()[module])
    assert not names & {"boto3", "botocore"} or module in BOTO
    assert "chalice" not in names or module in CHALICE


def test_the_lists_of_boto3_and_chalice_modules_have_no_outdated_entry() -> None:
    for module in BOTO:
        assert top_level(modules()[module]) & {"boto3", "botocore"}, module
    for module in CHALICE:
        assert "chalice" in top_level(modules()[module]), module


def test_the_handlers_of_the_app_have_no_logic() -> None:
    """The body of a handler has at most 5 lines, without a branch or a loop."""
    for node in ast.parse((ROOT / "app.py").read_text()).body:
        if isinstance(node, ast.FunctionDef):
            body = node.body[1:] if ast.get_docstring(node) else node.body
            assert sum((inner.end_lineno or 0) - inner.lineno + 1 for inner in body) <= 5, node.name
            logic = (ast.If, ast.For, ast.While, ast.Try)
            assert not [inner for inner in ast.walk(node) if isinstance(inner, logic)], node.name


def test_the_app_imports_ops_for_chalices_own_commands_only() -> None:
    source = (ROOT / "app.py").read_text()
    assert re.findall(r".*import.*\bops\b.*|.*\bops\b.*import.*", source) == [
        "    from ops import chalice_command"
    ]
    assert '\nif "AWS_CHALICE_CLI_MODE" in os.environ and' in source


def test_every_function_has_a_policy_of_its_own_without_wildcard_actions() -> None:
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


@pytest.mark.parametrize("folder", ["chalicelib", "ops", "local", "bench", "tests"])
def test_names_say_what_they_hold(folder: str) -> None:
    """`of`, `one` and `some` are names of the REST interface's fields only."""
    for path in sorted((ROOT / folder).rglob("*.py")):
        tree = parse(path)
        fields = [node.target for node in ast.walk(tree) if isinstance(node, ast.AnnAssign)]
        for node in ast.walk(tree):
            match node:
                case ast.Name(id=name, ctx=ast.Store()) if node not in fields:
                    assert name not in ("of", "one", "some"), f"{path}:{node.lineno}"
                case ast.arg(arg=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                    assert name not in ("of", "one", "some"), f"{path}:{node.lineno}"


EXAMPLES = [
    ".".join(path.relative_to(ROOT).with_suffix("").parts)
    for folder in ("chalicelib", "ops", "local", "tests/support")
    for path in sorted((ROOT / folder).rglob("*.py"))
    if ">>> " in path.read_text()
]


@pytest.mark.parametrize("module", EXAMPLES)
def test_the_examples_of_a_docstring_hold(module: str) -> None:
    assert doctest.testmod(import_module(module)).failed == 0
