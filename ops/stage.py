"""The configuration of a stage for a command, the running local stage, and files that are written atomically.

`load` exports a stage's variables, as Chalice does for the app. The local stage has its own secret in a file,
which is created when it is first needed. Its engine is that of the run that uses the data folder (`.local`,
or `--data` of a command).
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import secrets
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from chalicelib.context import Context
from chalicelib.settings import Settings, current, read

if TYPE_CHECKING:
    from datetime import datetime

    from chalicelib.dynamo.table import Table

ROOT = Path(__file__).parents[1]
DATA = ROOT / ".local"
RUN = "run.json"
"""The file in the data folder of a local run with its addresses."""


def load(stage: str, root: Path = ROOT, *, has_engine: bool = True) -> Settings:
    """Export a stage's variables of `.chalice/config.json` and return its settings.

    A stage's own variables override those of all stages. A variable that is already exported is kept, so that
    a script can set another endpoint. HUBBUB_STAGE is always set to `stage`. The path of a secret file is
    relative to the project's root. Without `has_engine` the caller makes no call to the table.

    Raises: click.BadParameter for an unknown stage, click.ClickException for a malformed setting or
    configuration, and for the local stage without an engine.
    """
    for name, value in read_variables(stage, root).items():
        os.environ.setdefault(name, value)
    os.environ["HUBBUB_STAGE"] = stage
    if os.environ.get("HUBBUB_SECRET_FILE"):
        path = root / os.environ["HUBBUB_SECRET_FILE"]
        os.environ["HUBBUB_SECRET_FILE"] = str(path)
        if stage == "local" and not os.environ.get("HUBBUB_SECRET"):
            ensure_secret(path)
    if stage == "local" and has_engine and not os.environ.get("HUBBUB_ENDPOINT"):
        os.environ["HUBBUB_ENDPOINT"] = find_engine(data_folder())
    try:
        return read(os.environ)
    except ValueError as error:
        raise click.ClickException(str(error)) from None


def new_context(table: Table, now: datetime, settings: Settings | None = None) -> Context:
    """Return the context of a command's call of the product, by default with the settings of this process."""
    from chalicelib.chat.gateway import ConnectionGateway, Session  # few commands need it

    return Context(table, ConnectionGateway(Session), settings or current(), now)


def data_folder() -> Path:
    """Return the data folder that the command's option `--data` names, or the default one."""
    context = click.get_current_context(silent=True)
    return (context and context.meta.get(RUN)) or DATA


def find_engine(data: Path) -> str:
    """Return the address of the engine of the run that uses a data folder.

    Raises: click.ClickException when there is none.
    """
    if run := find_run(data):
        return run["engine"]
    raise click.ClickException(f"no run uses {data}: start it with make run, or name its folder with --data")


def find_run(data: Path) -> dict[str, str] | None:
    """Return the addresses of the run that uses a data folder; None when none is ready there.

    A run holds its lock as long as one of its processes lives, so the file of a run that was killed is
    ignored.
    """
    try:
        with (data / "run.lock").open() as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        with contextlib.suppress(OSError):  # it is starting
            return dict(json.loads((data / RUN).read_text(encoding="utf-8")))
    except OSError:
        pass
    return None


def read_variables(stage: str, root: Path = ROOT) -> dict[str, str]:
    """Read a stage's environment variables from the configuration."""
    file = root / ".chalice" / "config.json"
    try:
        config: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise click.ClickException(f"{file}: cannot be read ({error})") from None
    stages = config.get("stages", {})
    if stage not in stages:
        message = f"no stage named {stage!r} in {file.name}; stages: {', '.join(stages)}"
        raise click.BadParameter(message, param_hint="'--stage'")
    return {**config.get("environment_variables", {}), **stages[stage].get("environment_variables", {})}


def ensure_secret(path: Path) -> None:
    """Create a file with a random secret that only its owner can read, unless the file exists.

    The file is created atomically. The first of several processes creates it, because a hard link, unlike a
    rename, never replaces a file.
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


def write_atomically(path: Path, text: str, mode: int = 0o644) -> None:
    """Replace a file atomically, unless it already has this text."""
    if path.exists() and path.read_text(encoding="utf-8") == text:
        return
    descriptor, draft = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        Path(draft).chmod(mode)
        Path(draft).replace(path)
    finally:
        Path(draft).unlink(missing_ok=True)
