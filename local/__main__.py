"""`python -m local`: the whole product on one machine."""

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

try:
    import click
except ModuleNotFoundError:  # another Python than the environment's
    sys.exit("Hubbub's environment is in .venv: use `make run`, or .venv/bin/python -m local")

from local.engines.engine import KINDS, ROOT, EngineUnavailable, default_kind, start
from local.engines.locks import InUse, Lock

ENGINE_PORT = 8002  # where `chalice local --stage local` looks for it (.chalice/config.json)
SOURCES = [ROOT / name for name in ("app.py", "chalicelib", "local", "ops", ".chalice")]
PORT = click.IntRange(1, 65535)
PREFIX = re.compile(r"(/[A-Za-z0-9_-]+)*")


def _prefix(ctx: click.Context, parameter: click.Parameter, text: str) -> str:
    if not PREFIX.fullmatch(text):
        raise click.BadParameter(f"{text!r} is not a path such as /api")
    return text


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--port", type=PORT, default=8000, show_default=True, help="REST and the page.")
@click.option("--socket-port", type=PORT, default=8001, show_default=True, help="Sockets.")
@click.option("--engine-port", type=PORT, help=f"The engine. [default: {ENGINE_PORT}, or a free one]")
@click.option("--data", type=click.Path(path_type=Path), default=ROOT / ".local", help="Where data is kept.")
@click.option("--fresh", is_flag=True, help="Start empty.")
@click.option(
    "--engine",
    "kind",
    metavar=f"{'|'.join(KINDS)}|URL",
    help="[default: dynoxide where it can be installed, else ministack]",
)
@click.option("--queue", is_flag=True, help="Put the views queue behind POST /views.")
@click.option(
    "--prefix",
    default="",
    callback=_prefix,
    metavar="PATH",
    help="Serve below a path such as /api, as a stage.",
)
@click.option("--no-reload", is_flag=True, help="Do not restart the app when its source changes.")
@click.option("--child", is_flag=True, hidden=True, help="Run by a parent that holds the engine.")
@click.option("--word", default="ready", hidden=True)
def main(
    port: int,
    socket_port: int,
    engine_port: int | None,
    data: Path,
    fresh: bool,
    kind: str | None,
    queue: bool,
    prefix: str,
    no_reload: bool,
    child: bool,
    word: str,
) -> None:
    """Run Hubbub on this machine: the app, its engine, its sockets and its page, on 127.0.0.1 alone.

    One line `ready` on standard output says that all of it answers. Ctrl-C stops it cleanly.
    """
    from local.serve import serve

    os.umask(0o077)  # what is kept here is its owner's alone
    if fresh and kind and kind.startswith(("http://", "https://")):
        raise click.ClickException("--fresh empties an engine that is started here, not one at a URL")
    data = data.resolve()
    with contextlib.ExitStack() as running:
        try:
            if not child:
                # 1. Nothing else uses the folder, nor the ports.
                data.mkdir(mode=0o700, parents=True, exist_ok=True)
                lock = running.enter_context(Lock(data / "run.lock", 60, "its app is still counting"))
                engine_port = engine_port or _engine_port({port, socket_port})
                _must_be_free({"--port": port, "--socket-port": socket_port, "--engine-port": engine_port})
            # 2. The engine, which goes on while the app is restarted.
            kind = kind or default_kind(data)
            engine = running.enter_context(start(kind, data, engine_port, fresh))
        except InUse as holder:
            raise click.ClickException(f"{holder}: stop it, or choose another folder with --data") from None
        except EngineUnavailable as reason:
            raise click.ClickException(str(reason)) from None
        except OSError as error:
            raise click.ClickException(
                f"{data} cannot be used ({os.strerror(error.errno or 0)}): see --data"
            ) from None
        if queue and not engine.has_queues:
            raise click.ClickException("--queue needs an engine with SQS: add --engine ministack")
        # 3. The app, in this process, or in one that is replaced when its source changes.
        if child or no_reload:
            serve(
                engine,
                port=port,
                socket_port=socket_port,
                data=data,
                queue=queue,
                word=word,
                with_parent=child,
                prefix=prefix,
            )
        else:
            options = ["--port", str(port), "--socket-port", str(socket_port), "--data", str(data)]
            options += ["--queue"] if queue else []
            options += ["--prefix", prefix]
            _supervise([*options, "--engine", engine.endpoint], lock)


def _supervise(options: list[str], lock: Lock) -> None:
    """Run the app in a child, and run it anew whenever its source changes; the engine goes on."""
    from watchfiles import PythonFilter, watch

    stopping = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopping.set())
    app, ended = _child(options, lock), False
    only = PythonFilter(extra_extensions=(".json", ".yaml"))
    for changes in watch(
        *SOURCES, watch_filter=only, stop_event=stopping, yield_on_timeout=True, rust_timeout=300
    ):
        if stopping.is_set():
            break
        if changes:
            click.echo(f"changed: {', '.join(sorted(Path(path).name for _, path in changes))}", err=True)
            _end(app)
            app, ended = _child([*options, "--word", "reloaded"], lock), False
        elif app.poll() is not None and not ended:
            click.echo("the app ended: it starts again when its source changes (Ctrl-C stops)", err=True)
            ended = True
    _end(app)


def _child(options: list[str], lock: Lock) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "local", "--child", *options],
        cwd=ROOT,
        stdin=subprocess.PIPE,  # whose end tells the child that this process has gone, even by kill -9
        # A session of its own: Ctrl-C reaches this process, which ends the child and then the engine.
        start_new_session=True,
        # Should this process be killed, the folder stays in use until the child has ended as well.
        pass_fds=[lock.fileno()],
    )


def _end(app: subprocess.Popen[bytes]) -> None:
    if app.stdin and not app.stdin.closed:
        app.stdin.close()
    app.terminate()
    try:
        app.wait(30)
    except subprocess.TimeoutExpired:
        app.kill()
        app.wait()


def _must_be_free(ports: dict[str, int | None]) -> None:
    """Raise click.ClickException for a port that is in use, or stands twice."""
    with contextlib.ExitStack() as probes:
        for option, port in ports.items():
            try:
                probes.enter_context(socket.create_server(("127.0.0.1", port or 0)))
            except OSError as error:
                reason = os.strerror(error.errno or 0)
                raise click.ClickException(
                    f"port {port} cannot be used ({reason}): choose another with {option}"
                ) from None


def _engine_port(taken: set[int]) -> int | None:
    """Return the port that `chalice local` knows, or None (any free one) when something else has it."""
    if ENGINE_PORT in taken:
        return None
    try:
        socket.create_server(("127.0.0.1", ENGINE_PORT)).close()
    except OSError:
        return None
    return ENGINE_PORT


if __name__ == "__main__":
    main()
