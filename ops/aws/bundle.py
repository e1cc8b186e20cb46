"""Build the zip that a deploy uploads: Chalice's package without unused files and with bytecode.

Chalice reuses an existing package of the same code and requirements, so a deploy uploads this one. The deploy
must run with the same Python and must not write bytecode into chalicelib/ (PYTHONDONTWRITEBYTECODE), because
Chalice would treat it as changed code. `ops deploy` and `ops package` both build the package here, so both
deploy the same zip.

The libraries are the wheels of requirements.lock, each checked against its hash (ops/aws/lock.py). A stage
with HUBBUB_JWKS_URL has those of ops/aws/issuer.lock too. The zip's comment is the hash of the locks. A
package of other locks, or one that Chalice built itself, is built again.

Lambda cannot write bytecode, so without it every cold start compiles all imported modules. A deployment
without this step works, but its package is larger and starts more slowly.
"""

from __future__ import annotations

import compileall
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from py_compile import PycInvalidationMode
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

import click
from chalice.cli.factory import CLIFactory
from chalice.deploy.packager import DependencyBuilder, LambdaDeploymentPackager
from chalice.utils import UI, OSUtils

from ops.aws import lock, page_bundle
from ops.stage import read_variables

RUNTIME = "python3.13"
TASK = "/var/task"  # where Lambda unpacks the package, as shown in tracebacks
EPOCH = (1980, 1, 1, 0, 0, 0)  # a constant, so that the same files make the same zip
UNUSED = re.compile(
    r"__pycache__/"
    r"|^aws_lambda_powertools/event_handler/"  # a web framework with a Swagger UI: 1.9 MB
    r"|^aws_lambda_powertools/utilities/(?!__init__\.py|jmespath_utils/)"  # imported by the logger
    r"|^crawleruseragents/(test_\w+\.py|package\S*\.json|crawler-user-agents\.d\.ts)$"  # development files
    r"|\.pyi$|/py\.typed$"
    r"|^jmespath-[\d.]+\.data/"  # a command-line program
    r"|^web/vendor/(package\S*\.json|\w+\.entry\.js)$"  # sources of the page's libraries
    r"|^web/(package\.json|README\.md|lib/\w+\.d\.ts)$"  # of the client as an npm package
    r"|^web/config\.json$"  # the app generates its own
)


class LockedBuilder(DependencyBuilder):
    """Unpacks the wheels of locks instead of resolving requirements and building source distributions."""

    def __init__(self, system: OSUtils, architecture: str, files: Sequence[Path]) -> None:
        super().__init__(system, architecture=architecture)
        self._files = files

    def build_site_packages(self, abi: str, requirements_filepath: str, target_directory: str) -> None:
        """Download the wheels for a Python such as cp313, check their hashes, and unpack them.

        Raises: click.ClickException for a wheel that Lambda's runtime cannot load.
        """
        if not self._has_at_least_one_package(requirements_filepath):
            return
        with tempfile.TemporaryDirectory() as folder:
            for file in self._files:
                lock.download(file, f"{abi[2]}.{abi[3:]}", self._machine, Path(folder))
            wheels, others = self._categorize_wheel_files(abi, folder)
            if others:
                names = ", ".join(sorted(other.filename for other in others))
                raise click.ClickException(f"Lambda cannot load {names}: run .venv/bin/python -m ops lock")
            self._install_wheels(folder, target_directory, wheels)


def bundle(root: Path, stage: str) -> Path:
    """Build the package of a stage for the running Python, and return its path.

    Chalice's output goes to standard error.

    Cost: about ten seconds and network access if requirements or code have changed.

    Raises: click.ClickException when the lock does not satisfy the requirements.
    """
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    if version != RUNTIME:
        click.echo(
            f"warning: the functions will run on {version}, which packages them; Hubbub is tried for "
            f"{RUNTIME} (make PYTHON={RUNTIME})",
            err=True,
        )
    libraries = lock.choose(read_variables(stage, root))
    made_from = "+".join(lock.check_lock(root, library) for library in libraries).encode()
    for folder in (root / "chalicelib").rglob("__pycache__"):
        shutil.rmtree(folder)
    link_page(root)
    config = CLIFactory(str(root), environ=os.environ).create_config_obj(stage)
    system, architecture = OSUtils(), config.lambda_architecture
    builder = LockedBuilder(system, architecture, [root / library.lock for library in libraries])
    packager = LambdaDeploymentPackager(system, builder, UI(sys.stderr, sys.stderr), architecture)
    version = config.lambda_python_version
    former = Path(packager.deployment_package_filename(str(root), version))
    if former.exists() and read_comment(former) != made_from:
        former.unlink()
    made = Path(packager.create_deployment_package(str(root), version))
    trim(made, made_from)
    return made


def link_page(root: Path) -> None:
    """Link the page's files into `vendor/`, whose contents Chalice puts into the package. Idempotent."""
    link = root / "vendor" / "web"
    if not link.exists():
        link.parent.mkdir(exist_ok=True)
        link.symlink_to(Path("..") / "web")


def read_comment(package: Path) -> bytes:
    """Return a zip's comment: the SHA-256 of each lock of its libraries."""
    with ZipFile(package) as zipped:
        return zipped.comment


def trim(package: Path, made_from: bytes = b"") -> None:
    """Remove unused files from a zip, bundle its pages and add bytecode. Idempotent.

    Python does not check the bytecode against the source, because neither changes inside a package.
    """
    with tempfile.TemporaryDirectory() as folder:
        with ZipFile(package) as whole:
            made_from = made_from or whole.comment
            whole.extractall(folder, [name for name in whole.namelist() if not UNUSED.search(name)])
        if (web := Path(folder) / "web").is_dir():
            page_bundle.bundle(web)
        compileall.compile_dir(
            folder,
            quiet=2,
            stripdir=folder,
            prependdir=TASK,
            invalidation_mode=PycInvalidationMode.UNCHECKED_HASH,
        )
        finished = package.with_suffix(".new")
        with ZipFile(finished, "w", ZIP_DEFLATED, compresslevel=9) as zipped:
            for path in sorted(path for path in Path(folder).rglob("*") if path.is_file()):
                info = ZipInfo(path.relative_to(folder).as_posix(), EPOCH)
                info.compress_type, info.external_attr = ZIP_DEFLATED, 0o644 << 16
                zipped.writestr(info, path.read_bytes())
            zipped.comment = made_from
        finished.replace(package)
