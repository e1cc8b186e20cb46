"""Starts an account of AWS on this machine, for a rehearsal: ministack in a process of its own."""

from __future__ import annotations

import contextlib
import sys
import tempfile
from pathlib import Path

from local.engines.engine import Engine, Program, launch, listen

FUNCTIONS = "SERVE_FUNCTIONS"
"""The variable that is set for a stage that is deployed here. Its corrections cost more imports."""


def start(*, has_functions: bool = False, checks_policies: bool = False) -> Engine:
    """Start an account without resources, and return it once it responds.

    `has_functions` lets it run functions. `checks_policies` makes it refuse what no policy of IAM allows.
    """
    with contextlib.ExitStack() as opened:
        log = opened.enter_context(tempfile.TemporaryFile())
        folder = opened.enter_context(tempfile.TemporaryDirectory(prefix="hubbub-account-"))
        listener = opened.enter_context(listen())
        environment = {
            "GATEWAY_PORT": str(listener.getsockname()[1]),
            "BIND_HOST": "127.0.0.1",
            "MINISTACK_HOST": "127.0.0.1",
            # The account's root user, whom policies do not restrict.
            "AWS_ACCESS_KEY_ID": "local",
            "AWS_SECRET_ACCESS_KEY": "local",
            # These services would listen on every interface.
            "SFTP_ENABLED": "0",
            "IOT_MTLS_ENABLED": "0",
            # With access to a Docker daemon it would remove the containers of every other ministack.
            "DOCKER_HOST": "unix:///nonexistent",
            "PERSIST_STATE": "0",
            "STATE_DIR": "",
            "S3_DATA_DIR": str(Path(folder) / "s3"),
            "AUTH": str(checks_policies).lower(),
            FUNCTIONS: "1" if has_functions else "",
        }
        command = [sys.executable, "-m", "local.rehearsal.ministack", str(listener.fileno())]
        return launch(Program(command, environment, ready="/_ministack/ready"), listener, log, opened)
