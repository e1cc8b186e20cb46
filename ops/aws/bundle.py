"""Makes the zip that a deploy uploads: what Chalice packages, without what no function needs, and compiled.

Chalice looks for a package of the same code and requirements before it makes one, so a deploy takes this
one, as long as it runs with the same Python and leaves no bytecode in chalicelib/ (PYTHONDONTWRITEBYTECODE):
Chalice would take that for code of ours. `ops deploy` and `ops package` both make the package here, so a
stage has the same zip whichever way it is deployed.

The libraries are the wheels of requirements.lock, each checked by its hash (ops/aws/lock.py). The zip's
comment names the lock that it was made from; a package of another lock, or of Chalice's own making, is made
again.

Lambda cannot write bytecode beside the code, so without it every cold start compiles all that it imports. A
deploy without this step works all the same, in a larger package that starts more slowly.
"""

from __future__ import annotations

import compileall
import os
import re
import shutil
import sys
import tempfile
from collections import Counter
from pathlib import Path
from py_compile import PycInvalidationMode
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

import click
from chalice.cli.factory import CLIFactory
from chalice.deploy.packager import DependencyBuilder, LambdaDeploymentPackager
from chalice.utils import UI, OSUtils

from ops.aws import lock, page_bundle

RUNTIME = "python3.13"
TASK = "/var/task"  # where Lambda unpacks it: what a traceback names
EPOCH = (1980, 1, 1, 0, 0, 0)  # the same files are the same zip
UNUSED = re.compile(
    r"__pycache__/"
    r"|^aws_lambda_powertools/event_handler/"  # a framework of its own, with its own Swagger UI: 1.9 MB
    r"|^aws_lambda_powertools/utilities/(?!__init__\.py|jmespath_utils/)"  # the logger imports this one
    r"|^crawleruseragents/(test_\w+\.py|package\S*\.json|crawler-user-agents\.d\.ts)$"  # its own development
    r"|\.pyi$|/py\.typed$"
    r"|^jmespath-[\d.]+\.data/"  # a command
    r"|^web/vendor/(package\S*\.json|\w+\.entry\.js)$"  # what the page's libraries are made from
    r"|^web/config\.json$"  # another host's: the app answers its own
)


class LockedBuilder(DependencyBuilder):
    """Unpacks the wheels of a lock, in place of resolving requirements and building source distributions."""

    def __init__(self, system: OSUtils, architecture: str, file: Path) -> None:
        super().__init__(system, architecture=architecture)
        self._file = file

    def build_site_packages(self, abi: str, requirements_filepath: str, target_directory: str) -> None:
        """Download the wheels for a Python such as cp313, check their hashes, and unpack them.

        Raises click.ClickException for a wheel that Lambda's runtime could not load.
        """
        if not self._has_at_least_one_package(requirements_filepath):
            return
        with tempfile.TemporaryDirectory() as folder:
            lock.download(self._file, f"{abi[2]}.{abi[3:]}", self._machine, Path(folder))
            wheels, others = self._categorize_wheel_files(abi, folder)
            if others:
                names = ", ".join(sorted(one.filename for one in others))
                raise click.ClickException(f"Lambda cannot load {names}: python -m ops lock")
            self._install_wheels(folder, target_directory, wheels)


def bundle(root: Path, stage: str) -> Path:
    """Make the package of a stage, for the Python that runs this; return its path.

    Takes some ten seconds and the network where requirements or code are new. What Chalice has to say goes to
    standard error. Raises click.ClickException when the lock does not satisfy the requirements.
    """
    made_from = lock.check_lock(root).encode()
    for folder in (root / "chalicelib").rglob("__pycache__"):
        shutil.rmtree(folder)
    config = CLIFactory(str(root), environ=os.environ).create_config_obj(stage)
    system, architecture = OSUtils(), config.lambda_architecture
    builder = LockedBuilder(system, architecture, root / lock.NAME)
    packager = LambdaDeploymentPackager(system, builder, UI(sys.stderr, sys.stderr), architecture)
    version = config.lambda_python_version
    former = Path(packager.deployment_package_filename(str(root), version))
    if former.exists() and read_comment(former) != made_from:
        former.unlink()
    made = Path(packager.create_deployment_package(str(root), version))
    trim(made, made_from)
    return made


def read_comment(package: Path) -> bytes:
    """Return a zip's comment: the SHA-256 of the lock that its libraries are from."""
    with ZipFile(package) as zipped:
        return zipped.comment


def trim(package: Path, made_from: bytes = b"") -> None:
    """Leave out of a zip what is unused, bundle its pages, and put bytecode beside what is left.

    Run again it changes nothing.

    The bytecode is never checked against its source: nobody changes either in the package.
    """
    with tempfile.TemporaryDirectory() as folder:
        with ZipFile(package) as whole:
            made_from = made_from or whole.comment
            whole.extractall(folder, [name for name in whole.namelist() if not UNUSED.search(name)])
        page_bundle.bundle(Path(folder) / "web")
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


def list_contents(package: Path) -> dict[str, int]:
    """Say what a package holds at its top, in compressed bytes, largest first."""
    sizes: Counter[str] = Counter()
    with ZipFile(package) as zipped:
        for info in zipped.infolist():
            sizes[info.filename.split("/")[0]] += info.compress_size
    return dict(sizes.most_common())
