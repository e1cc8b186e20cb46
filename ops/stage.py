"""Puts a stage's configuration in effect for a command, as Chalice does for the app.

The local stage has a secret of its own, in a file that is made when it is first needed.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import tempfile
from pathlib import Path
from typing import Any

import click

from chalicelib.settings import Settings, read

ROOT = Path(__file__).parents[1]


def load(stage: str, root: Path = ROOT) -> Settings:
    """Set the variables that `.chalice/config.json` has for a stage, and answer its settings.

    A stage's variables go over those of all stages. One that is exported already stays as it is, so that a
    script can name another endpoint; but HUBBUB_STAGE is the stage that was asked for. A secret file's path
    is taken from the project's root. An unknown stage is click.BadParameter, a malformed setting or
    configuration click.ClickException.
    """
    for name, value in variables(stage, root).items():
        os.environ.setdefault(name, value)
    os.environ["HUBBUB_STAGE"] = stage
    if os.environ.get("HUBBUB_SECRET_FILE"):
        path = root / os.environ["HUBBUB_SECRET_FILE"]
        os.environ["HUBBUB_SECRET_FILE"] = str(path)
        if stage == "local" and not os.environ.get("HUBBUB_SECRET"):
            ensure_secret(path)
    try:
        return read(os.environ)
    except ValueError as error:
        raise click.ClickException(str(error)) from None


def variables(stage: str, root: Path = ROOT) -> dict[str, str]:
    """Read a stage's environment variables from the configuration; changes nothing."""
    file = root / ".chalice" / "config.json"
    try:
        config: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise click.ClickException(f"{file}: it cannot be read ({error})") from None
    stages = config.get("stages", {})
    if stage not in stages:
        raise click.BadParameter(f"there is no stage {stage!r} in {file.name}: it has {', '.join(stages)}")
    return {**config.get("environment_variables", {}), **stages[stage].get("environment_variables", {})}


def ensure_secret(path: Path) -> None:
    """Make a file with a random secret that its owner alone can read, unless the file exists.

    The file appears whole or not at all, and the first of several processes makes it: a link to a finished
    file, unlike a rename, never replaces one.
    """
    if path.exists():
        return
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor, draft = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")  # mode 0600
    try:
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(secrets.token_hex(32) + "\n")
        with contextlib.suppress(FileExistsError):
            os.link(draft, path)
    finally:
        Path(draft).unlink()
