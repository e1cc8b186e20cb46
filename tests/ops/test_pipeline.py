"""The example pipeline calls existing commands with valid options and stores no key."""

from __future__ import annotations

import re
import shlex
from typing import Any

import click
import pytest
import yaml

from local.engines.engine import ROOT
from ops.cli.main import main

WORKFLOW = (ROOT / ".github" / "workflows" / "deploy.yml").read_text()


@pytest.fixture
def steps() -> list[dict[str, Any]]:
    [job] = yaml.safe_load(WORKFLOW)["jobs"].values()
    return list(job["steps"])


def commands(text: str) -> list[list[str]]:
    """Find the calls of `python -m ops` in a text, each as its arguments."""
    joined = text.replace("\\\n", " ")
    found = re.findall(
        r"\.venv/bin/python -m ops ([^\n`]*)|^    python -m ops ([^\n`#]*)", joined, re.MULTILINE
    )
    return [shlex.split(re.sub(r'"\$\([^)]*\)"', "https://x", first or second)) for first, second in found]


def test_a_tag_is_deployed_with_a_role_and_no_stored_key(steps: list[dict[str, Any]]) -> None:
    workflow = yaml.safe_load(WORKFLOW)
    assert workflow[True] == {"push": {"tags": ["v*"]}}  # YAML 1.1 reads `on` as true
    assert workflow["permissions"] == {"contents": "read", "id-token": "write"}
    [credentials] = [step for step in steps if "configure-aws-credentials" in step.get("uses", "")]
    assert set(credentials["with"]) == {"role-to-assume", "aws-region"}
    assert "secrets." not in WORKFLOW


@pytest.mark.security
def test_every_action_is_pinned_by_its_digest() -> None:
    """A tag can be moved to other code, a commit cannot.

    Source: GitHub, Security hardening for GitHub Actions, "Pin actions to a full length commit SHA".
    """
    for file in sorted((ROOT / ".github" / "workflows").iterdir()):
        used = re.findall(r"uses: *(\S+)( *#.*)?$", file.read_text(), re.MULTILINE)
        assert used, file.name
        for action, comment in used:
            assert re.fullmatch(r"[\w.-]+/[\w./-]+@[0-9a-f]{40}", action), (file.name, action)
            assert re.fullmatch(r" # v\d+\.\d+\.\d+", comment), (file.name, action)


def test_the_template_is_linted_before_it_is_deployed(steps: list[dict[str, Any]]) -> None:
    scripts = [step.get("run", "") for step in steps]
    place = {word: next(i for i, script in enumerate(scripts) if word in script) for word in WORDS}
    assert [place[word] for word in WORDS] == sorted(place.values())


WORDS = ("--only-secret", "ops package", "cfn-lint", "cloudformation deploy", "ops smoke")


@pytest.mark.parametrize("document", [".github/workflows/deploy.yml", "docs/deployment.md"])
def test_every_command_that_is_shown_can_be_called_so(document: str) -> None:
    shown = commands((ROOT / document).read_text())
    assert len(shown) > 1
    context = click.Context(main)
    for name, *arguments in shown:
        command = main.get_command(context, name)
        assert command, name
        command.make_context(name, arguments, parent=context)


def test_the_smoke_test_asks_for_outputs_that_the_stack_has() -> None:
    """Chalice names them; test_gateway_template.py packages the stack."""
    asked = set(re.findall(r"\$\(output (\w+)\)", WORKFLOW))
    assert asked == {"EndpointURL", "WebsocketConnectEndpointURL"}
