"""`python -m local`: the whole product on one machine."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import click

from local.engine import ROOT, EngineUnavailable, start

ENGINE_PORT = 8002  # where `chalice local --stage local` looks for it (.chalice/config.json)


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--port", default=8000, show_default=True, help="REST and the page.")
@click.option("--socket-port", default=8001, show_default=True, help="Sockets.")
@click.option("--engine-port", type=int, help=f"The engine. [default: {ENGINE_PORT}, or a free one]")
@click.option("--data", type=click.Path(path_type=Path), default=ROOT / ".local", help="Where data is kept.")
@click.option("--fresh", is_flag=True, help="Start empty.")
@click.option(
    "--engine", "kind", default="ministack", show_default=True, metavar="URL|ministack|dynamodb-local"
)
@click.option("--queue", is_flag=True, help="Put the views queue behind POST /views.")
@click.option("--no-reload", is_flag=True, help="Do not restart the app when its source changes.")
@click.option("--child", is_flag=True, hidden=True, help="Run by a parent that holds the engine.")
@click.option("--word", default="ready", hidden=True)
def main(
    port: int,
    socket_port: int,
    engine_port: int | None,
    data: Path,
    fresh: bool,
    kind: str,
    queue: bool,
    no_reload: bool,
    child: bool,
    word: str,
) -> None:
    """Run Hubbub on this machine: the app, its engine, its sockets and its page, on 127.0.0.1 alone.

    One line `ready` on standard output says that all of it answers. Ctrl-C stops it cleanly.
    """
    from local.serve import prepare_environment, serve

    data = data.resolve()
    data.mkdir(parents=True, exist_ok=True)
    if child:
        prepare_environment()
        with start(kind, data) as engine:
            serve(
                engine,
                port=port,
                socket_port=socket_port,
                data=data,
                queue=queue,
                word=word,
                with_parent=True,
            )
        return
    for option, number in (("--port", port), ("--socket-port", socket_port)):
        _must_be_free(option, number)
    try:
        engine = start(kind, data, engine_port or _default_engine_port(), fresh)
    except EngineUnavailable as reason:
        raise click.ClickException(str(reason)) from None
    if fresh:
        (data / "stream.json").unlink(missing_ok=True)  # how far the pump had come
    with engine:
        if no_reload:
            prepare_environment()
            serve(
                engine,
                port=port,
                socket_port=socket_port,
                data=data,
                queue=queue,
                word=word,
                with_parent=False,
            )
        else:
            options = ["--port", str(port), "--socket-port", str(socket_port), "--data", str(data)]
            options += ["--queue"] if queue else []
            _supervise([*options, "--engine", engine.endpoint])


def _supervise(options: list[str]) -> None:
    """Run the app in a child, and run it anew whenever its source changes; the engine goes on."""
    from watchfiles import PythonFilter, watch

    stopping = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopping.set())
    command = [sys.executable, "-m", "local", "--child", *options]
    app, ended = _child(command), False
    sources = [ROOT / name for name in ("app.py", "chalicelib", "local", "ops", ".chalice", "web")]
    only = PythonFilter(extra_extensions=(".json", ".yaml"))
    for changes in watch(
        *sources, watch_filter=only, stop_event=stopping, yield_on_timeout=True, rust_timeout=300
    ):
        if stopping.is_set():
            break
        if changes:
            click.echo(f"changed: {', '.join(sorted(Path(path).name for _, path in changes))}", err=True)
            _end(app)
            app, ended = _child([*command, "--word", "reloaded"]), False
        elif app.poll() is not None and not ended:
            click.echo("the app ended: it starts again when its source changes (Ctrl-C stops)", err=True)
            ended = True
    _end(app)


def _child(command: list[str]) -> subprocess.Popen[bytes]:
    # A session of its own: Ctrl-C reaches this process, which ends the child and then the engine.
    return subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, start_new_session=True)


def _end(app: subprocess.Popen[bytes]) -> None:
    if app.stdin and not app.stdin.closed:
        app.stdin.close()
    app.terminate()
    try:
        app.wait(30)
    except subprocess.TimeoutExpired:
        app.kill()
        app.wait()


def _must_be_free(option: str, port: int) -> None:
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or error
        raise click.ClickException(
            f"port {port} cannot be used ({reason}): choose another with {option}"
        ) from None


def _default_engine_port() -> int | None:
    """Answer the port that `chalice local` knows, or None (any free one) when another run has it."""
    try:
        socket.create_server(("127.0.0.1", ENGINE_PORT)).close()
    except OSError:
        return None
    return ENGINE_PORT


if __name__ == "__main__":
    main()
