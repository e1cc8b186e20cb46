"""`python -m local`: run all of Hubbub on this machine."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import IO, Any

OTHER_PYTHON = "Hubbub's environment is in .venv: use `make run`, or .venv/bin/python -m local"
if sys.platform == "win32":
    sys.exit("On Windows Hubbub runs in WSL: https://learn.microsoft.com/windows/wsl/install")
try:
    import click

    from local.engines import EngineUnavailable
    from local.engines.engine import DYNOXIDE, ROOT, Engine, start
    from local.engines.locks import InUse, Lock
    from local.options import Options
    from local.ports import free_ports
    from local.queue import FILE
    from ops.stage import RUN
except ModuleNotFoundError:
    sys.exit(OTHER_PYTHON)

ENGINE_PORT = 8002  # unless it is in use
SOURCES = [ROOT / name for name in ("app.py", "chalicelib", "local", "ops", ".chalice")]
PORT = click.IntRange(1, 65535)


class PortOrAuto(click.ParamType[int]):
    """A port, or `auto` for free ones."""

    name = "port|auto"

    def convert(self, value: Any, parameter: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the port; 0 for `auto`."""
        if value == "auto":
            return 0
        try:
            return PORT.convert(value, parameter, ctx)
        except click.BadParameter:
            self.fail(f"{value!r} is not auto or a port from {PORT.min} to {PORT.max}", parameter, ctx)


PREFIX = re.compile(r"(/[A-Za-z0-9_-]+)*")


def _prefix(ctx: click.Context, parameter: click.Parameter, text: str) -> str:
    if not PREFIX.fullmatch(text):
        raise click.BadParameter(f"{text!r} is not a path such as /api")
    return text


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--port",
    type=PortOrAuto(),
    default=8000,
    show_default=True,
    help="Port of REST and the page. auto: free ports for everything.",
)
@click.option(
    "--socket-port", type=PortOrAuto(), default=8001, show_default=True, help="Port of the WebSocket API."
)
@click.option("--engine-port", type=PORT, help=f"Port of the engine. [default: {ENGINE_PORT}, or a free one]")
@click.option("--data", type=click.Path(path_type=Path), default=ROOT / ".local", help="Data folder.")
@click.option("--fresh", is_flag=True, help="Delete the stored data first.")
@click.option(
    "--engine",
    "name_or_url",
    default=DYNOXIDE,
    show_default=True,
    metavar=f"{DYNOXIDE}|URL",
    help="The engine, or the address of one that is running.",
)
@click.option("--queue", is_flag=True, help="Send views of POST /views through the queue.")
@click.option(
    "--prefix",
    default="",
    callback=_prefix,
    metavar="PATH",
    help="Serve below a path such as /api, as a stage does.",
)
@click.option("--no-reload", is_flag=True, help="Do not restart the app when its source changes.")
@click.option("--rest-only", is_flag=True, hidden=True, help="Serve REST on --engine, beside another run.")
@click.option("--child", is_flag=True, hidden=True, help="Run by a parent process that owns the engine.")
@click.option("--word", default="ready", hidden=True)
def main(**given: Any) -> None:
    """Run Hubbub on 127.0.0.1: the app, its engine, its sockets and its page.

    The line `ready` on standard output means that everything is serving. Ctrl-C stops it cleanly.
    """
    from local.serve import serve, serve_rest

    os.umask(0o077)  # the data is readable only by its owner
    options = Options(**given)
    if options.fresh and options.name_or_url != DYNOXIDE:
        raise click.ClickException("--fresh cannot empty an engine at a URL")
    data = options.data.resolve()
    options = options._replace(data=data)
    lock: Lock | None = None
    with contextlib.ExitStack() as running:
        try:
            if options.rest_only and not options.child:
                _check_ports({"--port": options.port})
            elif not options.child:
                # 1. Lock the data folder and check the ports.
                data.mkdir(mode=0o700, parents=True, exist_ok=True)
                lock = running.enter_context(Lock(data / "run.lock", 60, "its app is still processing views"))
                (data / RUN).unlink(missing_ok=True)  # of a run that was killed
                options = _choose_ports(options)
            # 2. Start the engine, which keeps running while the app restarts.
            preferred = None if ENGINE_PORT in (options.port, options.socket_port) else ENGINE_PORT
            started = start(options.name_or_url, data, options.engine_port, options.fresh, preferred)
            engine = running.enter_context(started)
        except InUse as holder:
            raise click.ClickException(f"{holder}: stop it or choose another folder with --data") from None
        except EngineUnavailable as reason:
            raise click.ClickException(str(reason)) from None
        except OSError as error:
            raise click.ClickException(
                f"--data: {data} cannot be used ({os.strerror(error.errno or 0)})"
            ) from None
        if options.fresh:
            (data / FILE).unlink(missing_ok=True)
        # 3. Run the app in this process, or in a child that is replaced when its source changes.
        if options.child or options.no_reload:
            run = serve_rest if options.rest_only else serve
            run(engine, options)
        else:
            _supervise([*options.for_child(), "--engine", engine.endpoint], lock, engine)
        if engine.has_ended():
            raise EngineEndedError(engine.explain_end())


class EngineEndedError(click.ClickException):
    """Ends the process at once, because other threads may still retry their calls for half a minute."""

    def show(self, file: IO[Any] | None = None) -> None:
        """Print the message, and end the process."""
        super().show(file)
        sys.stderr.flush()
        os._exit(self.exit_code)


def _supervise(options: list[str], lock: Lock | None, engine: Engine) -> None:
    """Run the app in a child process, and restart the child whenever its source changes.

    Returns after a signal, and when the engine or the `chalice local` that became this process has ended.
    """
    from watchfiles import PythonFilter, watch

    parent = os.getppid() if "CHALICE_WORKER" in os.environ else None
    stopping = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopping.set())
    app, has_ended = _start_child(options, lock), False
    only = PythonFilter(extra_extensions=(".json", ".yaml"))
    for changes in watch(
        *SOURCES, watch_filter=only, stop_event=stopping, yield_on_timeout=True, rust_timeout=300
    ):
        if stopping.is_set() or engine.has_ended() or (parent and os.getppid() != parent):
            break
        if changes:
            click.echo(f"changed: {', '.join(sorted(Path(path).name for _, path in changes))}", err=True)
            _stop_child(app, 30)
            app, has_ended = _start_child([*options, "--word", "reloaded"], lock), False
        elif app.poll() is not None and not has_ended:
            click.echo("the app ended. It starts again when its source changes. Ctrl-C stops.", err=True)
            has_ended = True
    _stop_child(app, 0 if engine.has_ended() else 30)


def _start_child(options: list[str], lock: Lock | None) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "local", "--child", *options],
        cwd=ROOT,
        stdin=subprocess.PIPE,  # it closes when this process ends, even by kill -9, and stops the child
        # In its own session the child does not get Ctrl-C. This process stops the child and then the engine.
        start_new_session=True,
        # If this process is killed, the folder stays locked until the child has ended.
        pass_fds=[lock.fileno()] if lock else [],
    )


def _stop_child(app: subprocess.Popen[bytes], patience: float) -> None:
    """Stop the child. It is killed after `patience` seconds."""
    if app.stdin and not app.stdin.closed:
        app.stdin.close()
    app.terminate()
    try:
        app.wait(patience)
    except subprocess.TimeoutExpired:
        app.kill()
        app.wait()


def _choose_ports(options: Options) -> Options:
    """Return the options with free ports for those that are 0. Raises click.ClickException."""
    if not options.port:
        port, socket_port, engine_port = free_ports(3)
        options = options._replace(port=port, socket_port=socket_port, engine_port=engine_port)
    if not options.socket_port:
        options = options._replace(socket_port=free_ports(1)[0])
    _check_ports(
        {
            "--port": options.port,
            "--socket-port": options.socket_port,
            "--engine-port": options.engine_port,
        }
    )
    return options


def _check_ports(ports: dict[str, int | None]) -> None:
    """Raise click.ClickException for a port that is in use or given twice."""
    with contextlib.ExitStack() as probes:
        for option, port in ports.items():
            try:
                probes.enter_context(socket.create_server(("127.0.0.1", port or 0)))
            except OSError as error:
                reason = os.strerror(error.errno or 0)
                free = free_ports(3)
                raise click.ClickException(
                    f"{option}: port {port} cannot be used ({reason}). These are free: --port {free[0]} "
                    f"--socket-port {free[1]} --engine-port {free[2]}; --port auto takes free ones"
                ) from None


if __name__ == "__main__":
    try:
        main()
    except ModuleNotFoundError:
        sys.exit(OTHER_PYTHON)
