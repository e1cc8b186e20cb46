"""Lock the libraries of a deployment: one version of each, with the hashes of its wheels.

`requirements.txt` has the accepted versions. `python -m ops lock` resolves it for every architecture
and Python that Lambda runs, and writes `requirements.lock`. The bundler downloads the wheels with pip's
`--require-hashes`, so a file that was replaced at the registry or in transit stops the deployment. Source
distributions are never built.

`ops/aws/issuer.txt` has its own lock. A package of a stage with HUBBUB_JWKS_URL has these libraries too.
`ops/aws/requirements.txt` has one for the tools with which the pipeline builds and deploys.

`make setup` keeps the wheels for its own Python (`python -m ops.aws.lock`), so that a package can be made
without a network.

Invariant: the lock names no registry, so each machine takes the same files from its own.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import click
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from ops.stage import ROOT

PYTHONS = ("3.11", "3.12", "3.13", "3.14")
MACHINES = ("aarch64", "x86_64")
GLIBC = {"3.11": 26}  # minor version of glibc 2 in the runtime (Amazon Linux 2)
WHEELS = Path(sys.prefix) / "wheels"  # that are kept, in a folder for each runtime
LATER = 34  # … and in those of Python 3.12 and later (Amazon Linux 2023)
HEADER = """\
# Written by `python -m ops lock`, from {requirements}: do not edit.
# The hashes are those of the wheels for Lambda: arm64 and x86_64, Python 3.11 to 3.14.
"""


class Libraries(NamedTuple):
    """A file with accepted versions and the file that locks them."""

    requirements: str
    lock: str


EVERY_STAGE = Libraries("requirements.txt", "requirements.lock")
WITH_ISSUER = Libraries("ops/aws/issuer.txt", "ops/aws/issuer.lock")
DEPLOYING = Libraries("ops/aws/requirements.txt", "ops/aws/requirements.lock")
LOCKED = (EVERY_STAGE, WITH_ISSUER, DEPLOYING)
NAME = EVERY_STAGE.lock
JWKS_URL = "HUBBUB_JWKS_URL"
"""The variable of a stage that needs the libraries for an issuer's keys."""


def choose(variables: Mapping[str, str]) -> list[Libraries]:
    """Return the libraries of a stage with these variables."""
    return [EVERY_STAGE, WITH_ISSUER] if variables.get(JWKS_URL) else [EVERY_STAGE]


class Locked(NamedTuple):
    """One library: its version, and the SHA-256 of each of its wheels."""

    name: str
    version: str
    hashes: frozenset[str]


def platforms(python: str, machine: str) -> list[str]:
    """Return the wheel platforms that Lambda's runtime of a Python can load, newest first.

    pip takes `--platform` literally, so each glibc version is listed. `manylinux2014` covers the older names.
    """
    newest = GLIBC.get(python, LATER)
    names = [f"manylinux_2_{minor}_{machine}" for minor in range(newest, 16, -1)]
    return [*names, f"manylinux2014_{machine}"]


def pip_options(python: str, machine: str) -> list[str]:
    """Return the options that make pip choose only wheels, and only those for Lambda."""
    chosen = [part for name in platforms(python, machine) for part in ("--platform", name)]
    return ["--only-binary=:all:", "--implementation", "cp", "--python-version", python, *chosen]


def run_pip(*arguments: str) -> None:
    """Run pip.

    Raises: ClickException with pip's output when it fails.
    """
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 (our own arguments)
    if done.returncode:
        raise click.ClickException(f"pip {arguments[0]} failed:\n{done.stderr.strip()}")


def download(lock: Path, python: str, machine: str, folder: Path) -> None:
    """Copy the wheels of a lock for one runtime, each checked against its hashes.

    They are those that are kept, or else come from the registry.

    Raises: ClickException with pip's output when it fails.
    """
    arguments = ("--require-hashes", "--no-deps", "--requirement", str(lock), "--dest", str(folder))
    command, kept = (
        ("download", "--quiet", *pip_options(python, machine), *arguments),
        _folder(python, machine),
    )
    try:
        run_pip(*command, "--no-index", "--find-links", str(kept))
    except click.ClickException as missing:
        try:
            run_pip(*command)
        except click.ClickException as failed:
            raise click.ClickException(f"{failed.message}\nOf those in {kept}: {missing.message}") from None


def keep(root: Path) -> None:
    """Keep the wheels of a project's locks for this Python, if Lambda runs it.

    A deployment takes those for arm64. A rehearsal runs on this machine, perhaps x86_64.
    """
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    for machine in MACHINES if python in PYTHONS else ():
        folder = _folder(python, machine)
        folder.mkdir(parents=True, exist_ok=True)
        for libraries in (EVERY_STAGE, WITH_ISSUER):
            download(root / libraries.lock, python, machine, folder)


def _folder(python: str, machine: str) -> Path:
    return WHEELS / f"{python}-{machine}"


def resolve(requirements: Path) -> list[Locked]:
    """Resolve requirements for every runtime, without installing anything.

    Cost: one run of pip per runtime, a few seconds each.

    Raises: ClickException when two runtimes need different versions.
    """
    versions: dict[str, str] = {}
    hashes: dict[str, set[str]] = {}
    for python in PYTHONS:
        for machine in MACHINES:
            for name, version, digest in _report(requirements, python, machine):
                if versions.setdefault(name, version) != version:
                    raise click.ClickException(
                        f"{name}: runtimes need {versions[name]} and {version}; "
                        f"narrow it in {requirements.name}"
                    )
                hashes.setdefault(name, set()).add(digest)
    return [Locked(name, versions[name], frozenset(hashes[name])) for name in sorted(versions)]


def _report(requirements: Path, python: str, machine: str) -> Iterator[tuple[str, str, str]]:
    """Read pip's installation report: name, version and SHA-256 of each wheel that it would install."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "report.json"
        arguments = ("--ignore-installed", "--target", folder, "--requirement", str(requirements))
        run_pip(
            "install",
            "--quiet",
            "--dry-run",
            *pip_options(python, machine),
            *arguments,
            "--report",
            str(file),
        )
        found: Any = json.loads(file.read_text(encoding="utf-8"))
    for package in found["install"]:
        archive = package["download_info"]["archive_info"]
        digest = archive.get("hashes", {}).get("sha256") or archive["hash"].removeprefix("sha256=")
        yield canonicalize_name(package["metadata"]["name"]), package["metadata"]["version"], digest


def write(root: Path, libraries: Libraries = EVERY_STAGE) -> list[Locked]:
    """Write a lock of a project, and return its libraries."""
    found = resolve(root / libraries.requirements)
    parts = [
        " \\\n    ".join(
            [
                f"{requirement.name}=={requirement.version}",
                *(f"--hash=sha256:{h}" for h in sorted(requirement.hashes)),
            ]
        )
        for requirement in found
    ]
    header = HEADER.format(requirements=libraries.requirements)
    (root / libraries.lock).write_text(header + "\n".join(parts) + "\n", encoding="utf-8")
    return found


def read(root: Path, libraries: Libraries = EVERY_STAGE) -> list[Locked]:
    """Read a lock of a project; empty if it does not exist."""
    path = root / libraries.lock
    if not path.exists():
        return []
    found = []
    for line in path.read_text(encoding="utf-8").replace("\\\n", " ").splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        pin, *rest = line.split()
        name, _, version = pin.partition("==")
        hashes = frozenset(word.removeprefix("--hash=sha256:") for word in rest)
        found.append(Locked(canonicalize_name(name), version, hashes))
    return found


def read_requirements(root: Path, libraries: Libraries = EVERY_STAGE) -> list[Requirement]:
    """Read a project's requirements and those that they include, without their comments."""
    lines = (root / libraries.requirements).read_text(encoding="utf-8").splitlines()
    texts = [text for line in lines if (text := line.partition("#")[0].strip())]
    folder = Path(libraries.requirements).parent
    included = [
        libraries._replace(requirements=str(folder / text[3:])) for text in texts if text.startswith("-r ")
    ]
    own = [Requirement(text) for text in texts if not text.startswith("-r ")]
    return [*(requirement for file in included for requirement in read_requirements(root, file)), *own]


def check_lock(root: Path, libraries: Libraries = EVERY_STAGE) -> str:
    """Return the SHA-256 of a lock; empty for a project without requirements.

    Raises: ClickException unless the lock satisfies the requirements.
    """
    requirements = read_requirements(root, libraries)
    if not requirements:
        return ""
    locked = {requirement.name: requirement for requirement in read(root, libraries)}
    for requirement in requirements:
        name = canonicalize_name(requirement.name)
        if name not in locked:
            raise click.ClickException(f"{libraries.lock} lacks {name}; run .venv/bin/python -m ops lock")
        if not requirement.specifier.contains(Version(locked[name].version)):
            had = f"{name} {locked[name].version}"
            required = f"{libraries.requirements} requires {requirement.specifier}"
            raise click.ClickException(
                f"{libraries.lock} has {had}, but {required}; run .venv/bin/python -m ops lock"
            )
    return hashlib.sha256((root / libraries.lock).read_bytes()).hexdigest()


if __name__ == "__main__":
    keep(ROOT)
