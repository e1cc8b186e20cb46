"""DynamoDB Local, AWS's own emulator: fetches it on first use, and says how it is run."""

from __future__ import annotations

import contextlib
import hashlib
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path

from local.engine import ROOT, EngineUnavailable

PACKAGE = "amplify-dynamodb-simulator@2.9.30"
"""The npm package that carries DynamoDB Local's jar. Its licence forbids passing it on, so it is fetched."""
PACKAGE_SHA256 = "3503ffac19f183407909fecdacf4db51ab1fdad1da7b2f177016670b2d80e4b9"
CACHE = ROOT / ".local" / "dynamodb-local"

RUN = 'cd "$0"; exec 3<&0; { cat <&3 >/dev/null; kill 0; } & exec "$@" </dev/null 3<&-'
"""Shell: run a command, in the folder $0, that ends when the pipe on standard input is closed.

DynamoDB Local leaves a file with its installation's id in the folder it runs in. `kill 0` reaches the process
group: in a session of its own, that is the command and its watcher alone.
"""


def command(port: int, state: Path | None) -> list[str]:
    """Return the command that serves on `port`, in memory without a folder; fetches the program if need be.

    Raises EngineUnavailable when Java or the program is missing.
    """
    java = shutil.which("java")
    if java is None:
        raise EngineUnavailable("dynamodb-local needs java: install a Java runtime (default-jre-headless)")
    emulator = fetch()
    options = ["-sharedDb", "-disableTelemetry", "-port", str(port)]
    options += ["-dbPath", str(state)] if state else ["-inMemory"]
    libraries = f"-Djava.library.path={emulator / 'DynamoDBLocal_lib'}"
    run = [java, libraries, "-jar", str(emulator / "DynamoDBLocal.jar"), *options]
    return ["sh", "-c", RUN, str(CACHE), *run]


def fetch() -> Path:
    """Return the folder of DynamoDB Local's jar, fetching its package (57 MB) with npm the first time."""
    emulator = CACHE / PACKAGE.rpartition("@")[2]
    if emulator.exists():
        return emulator
    npm = shutil.which("npm")
    if npm is None:
        raise EngineUnavailable(
            "dynamodb-local is fetched with npm: install npm, or use the engine ministack"
        )
    CACHE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE) as folder:
        try:
            subprocess.run([npm, "pack", PACKAGE], cwd=folder, check=True, capture_output=True, timeout=600)
        except subprocess.SubprocessError as error:
            reason = (getattr(error, "stderr", None) or b"").decode(errors="replace").strip()
            raise EngineUnavailable(f"npm pack {PACKAGE} failed: {reason or error}") from error
        [archive] = Path(folder).glob("*.tgz")
        if hashlib.sha256(archive.read_bytes()).hexdigest() != PACKAGE_SHA256:
            raise EngineUnavailable(f"{PACKAGE} is not the package this project knows: its SHA-256 differs")
        with tarfile.open(archive) as package:
            wanted = [member for member in package if member.name.startswith("package/emulator/")]
            package.extractall(folder, wanted, filter="data")
        # The folder appears whole or not at all; another process may have been faster.
        with contextlib.suppress(OSError):
            Path(folder, "package", "emulator").rename(emulator)
    return emulator
