"""`python -m local` starts, serves, stops, survives a kill, and starts again with its data."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import signal
import sqlite3
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from websockets.sync.client import connect

from local.engines.engine import DYNOXIDE, ROOT, start
from local.ports import free_ports
from tests.support.running import (
    ENVIRONMENT,
    PAGE,
    PATIENCE,
    Run,
    addresses_of,
    copied,
    listens,
    small_disk,
    until,
    view,
)

needs_proc = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


def live(processes: set[int]) -> set[int]:
    def lives(process: int) -> bool:
        try:
            return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
        except OSError:
            return False

    return set(filter(lives, processes))


def refusal(*options: str) -> str:
    """Run a command that cannot start. Return its only line on standard error."""
    ended = subprocess.run(
        [sys.executable, "-m", "local", *options],
        cwd=ROOT,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert (ended.returncode, ended.stdout) == (1, ""), ended.stderr
    [line] = ended.stderr.splitlines()
    assert line.startswith("Error: ")
    return line


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """A run that several tests share."""
    with Run(tmp_path_factory.mktemp("run") / "data", "--no-reload") as running:
        yield running


def test_the_start_prints_every_address(run: Run) -> None:
    said = dict(line.split(maxsplit=1) for line in run.lines)
    assert said["page"] == f"http://127.0.0.1:{run.port}/"
    assert said["REST"] == f"http://127.0.0.1:{run.port}"
    assert said["sockets"] == f"ws://127.0.0.1:{run.socket_port}"
    assert said["engine"] == f"http://127.0.0.1:{run.engine_port}"
    assert run.call("GET", "/health")[0] == 200


def test_a_view_is_counted_in_well_under_a_second(run: Run) -> None:
    seconds = []
    before = run.views()
    for i in range(10):
        run.post(view(f"latency-{i}"))
        begin = time.perf_counter()
        run.wait_for_views(before + i + 1)
        seconds.append(time.perf_counter() - begin)
    assert statistics.median(seconds) < 0.5


def test_a_socket_waits_in_its_lobby_and_an_invalid_frame_is_a_bad_request(run: Run) -> None:
    with connect(f"ws://127.0.0.1:{run.socket_port}") as socket_:
        socket_.send('{"action":"status"}')
        assert json.loads(socket_.recv(timeout=60))["state"] == "waiting"
        socket_.send("nonsense")
        assert json.loads(socket_.recv(timeout=60)) == {"type": "error", "code": "bad_request"}


def test_only_the_page_and_its_files_are_served(run: Run) -> None:
    web = ROOT / "web"
    for file in [*web.glob("*.js"), *web.glob("*.css"), *web.glob("*/*.js")]:
        assert run.call("GET", f"/web/{file.relative_to(web)}") == (200, file.read_text(encoding="utf-8"))
    assert run.call("GET", "/")[1] == (web / "index.html").read_text(encoding="utf-8")
    for path in ("/web/../app.py", "/web/%2e%2e/app.py", "/web/..%2fapp.py", "/app.py", "/web//etc/passwd"):
        status, answer = run.call("GET", path)
        assert (status, answer["code"]) == (404, "NotFound")


@pytest.mark.long
@needs_proc
def test_an_idle_run_uses_at_most_one_percent_of_a_core(tmp_path: Path) -> None:
    def seconds(processes: set[int]) -> float:
        ticks = 0
        for process in processes:
            fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12])
        return ticks / os.sysconf("SC_CLK_TCK")

    with Run(tmp_path / "data") as run:
        run.post(view("1"))
        run.wait_for_views(1)
        time.sleep(2)  # until the records of the last sums are read
        processes = run.processes()
        before = seconds(processes)
        time.sleep(20)
        assert seconds(processes) - before < 0.2


@needs_proc
def test_every_process_listens_only_on_loopback(run: Run) -> None:
    listening = addresses_of(*run.processes())
    hidden = {address for address in listening if not address.startswith("0100007F:")}
    assert listening - hidden == {f"0100007F:{port:04X}" for port in run.ports()}
    assert all(address.partition(":")[0].endswith("7F") for address in hidden)  # of 127.0.0.0/8 too


def test_a_token_of_the_command_is_accepted_and_other_tokens_are_refused(run: Run) -> None:
    command = [sys.executable, "-m", "ops", "token", "--stage", "local", "--sub", "me", "--scope", "admin"]
    made = subprocess.run(
        command, cwd=ROOT, env=ENVIRONMENT, capture_output=True, text=True, check=True
    ).stdout.strip()
    events = f"/views/events?url={quote(PAGE, safe='')}&limit=5"
    assert run.call("GET", events, token=made)[0] == 200
    for wrong, status in ((run.token("player-1"), 403), ("nonsense", 401), ("", 401)):
        answer = run.call("GET", events, token=wrong)
        assert answer[0] == status
        assert set(answer[1]) == {"code", "message"}


def test_runs_that_start_at_once_do_not_share_an_engine(tmp_path: Path) -> None:
    """No engine port is named, so each run would like the same one."""
    with contextlib.ExitStack() as running:
        runs = [Run(tmp_path / str(i), "--no-reload", names_engine=False) for i in range(2)]
        for run in runs:
            running.callback(run.__exit__)
        for i, run in enumerate(runs):
            run.wait_for("ready")
            run.post(*(view(f"{i}-{j}") for j in range(i + 1)))
        for i, run in enumerate(runs):
            run.wait_for_views(i + 1)
        engines = {line for run in runs for line in run.lines if line.startswith("engine")}
        assert len(engines) == 2


def test_a_start_that_fails_prints_the_reason_in_one_line(run: Run, tmp_path: Path) -> None:
    first, two = map(str, free_ports(2))
    ports = ["--port", first, "--socket-port", two]
    data = ["--data", str(tmp_path / "data")]
    busy = f": port {run.port} cannot be used (Address already in use). These are free: --port "
    assert "--port" + busy in refusal("--port", str(run.port), "--socket-port", two, *data)
    assert "--socket-port" + busy in refusal("--port", first, "--socket-port", str(run.port), *data)
    assert f"--socket-port: port {first} cannot" in refusal("--port", first, "--socket-port", first, *data)
    assert "'nonsense' is not an engine" in refusal(*ports, *data, "--engine", "nonsense")
    at_a_url = refusal(*ports, *data, "--fresh", "--engine", "http://127.0.0.1:9")
    assert "--fresh cannot empty an engine at a URL" in at_a_url
    assert f"no DynamoDB at http://127.0.0.1:{first}" in refusal(
        *ports, *data, "--engine", f"http://127.0.0.1:{first}"
    )
    in_use = Path(dict(line.split(maxsplit=1) for line in run.lines)["data"])
    assert f"process {run.process.pid} is using {in_use}" in refusal(*ports, "--data", str(in_use))
    (tmp_path / "file").touch()
    assert "cannot be used (Not a directory)" in refusal(*ports, "--data", str(tmp_path / "file" / "data"))


def test_data_is_kept_for_its_owner_alone_until_a_start_with_fresh(tmp_path: Path) -> None:
    data, last = tmp_path / "data", view("the last moment")
    with Run(data, "--no-reload") as first:
        processes = first.processes()
        first.post(view("1"), view("2"))
        first.post(last)
        kept = [data, *data.rglob("*")]
        readable = [path for path in kept if path.exists() and path.stat().st_mode & 0o077]
        assert readable == [], "others may read them"
        assert {"run.lock", "stream.json", "queue.db"} <= {path.name for path in kept}
        assert first.interrupt() == 0
    assert not live(processes)
    assert not any(map(listens, first.ports()))
    with Run(data, "--no-reload") as second:
        second.wait_for_views(3)
        second.post(last)
        second.post(view("4"))
        second.wait_for_views(4)
        assert second.events() == 4
        assert second.interrupt() == 0
    with Run(data, "--no-reload", "--fresh") as third:
        assert third.views() == 0
        third.post(last)
        third.wait_for_views(1)
        assert third.interrupt() == 0
    assert "Traceback" not in first.stderr.read_text()


@pytest.mark.long
@needs_proc
def test_a_malformed_setting_is_one_line(tmp_path: Path) -> None:
    run = Run(tmp_path / "data", environment={"HUBBUB_PAGE_DAYS": "3"})
    try:
        until(lambda: "the app ended" in run.stderr.read_text(), "the end of the app")
    finally:
        run.interrupt()
    [setting, _] = run.stderr.read_text().splitlines()
    assert setting.startswith("Error: HUBBUB_PAGE_DAYS is 3: ")


def test_with_reload_nothing_is_left_behind_by_ctrl_c_or_a_kill(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with Run(data, root=copied(tmp_path)) as interrupted:
        processes = interrupted.processes()
        assert len(processes) >= 3
        interrupted.post(view("before Ctrl-C"))
        assert interrupted.interrupt() == 0
    assert not live(processes)
    assert not any(map(listens, interrupted.ports()))
    with Run(data, root=tmp_path / "copy") as killed:
        processes = killed.processes()
        killed.post(*(view(f"before kill -{i}") for i in range(50)))
        killed.process.kill()
        killed.process.wait()
        # At once: it waits for what the killed one has left to do.
        with Run(data, root=tmp_path / "copy") as after:
            assert not live(processes)
            after.wait_for_views(51)
            assert after.events() == 51
    assert "Traceback" not in after.stderr.read_text()


@pytest.mark.long
def test_the_app_starts_again_when_its_source_changes(tmp_path: Path) -> None:
    copy = copied(tmp_path)
    with Run(tmp_path / "data", root=copy) as run:
        run.post(view("before"))
        run.wait_for_views(1)
        (copy / "local" / "__init__.py").touch()
        run.wait_for("reloaded")
        run.post(view("after"))
        run.wait_for_views(2)

        app = copy / "app.py"
        source = app.read_text(encoding="utf-8")
        app.write_text("not Python", encoding="utf-8")
        until(lambda: "It starts again when its source changes" in run.stderr.read_text(), "the app to end")
        assert run.process.poll() is None
        app.write_text(source.replace("def get_health", "def get_my_health"), encoding="utf-8")
        run.wait_for("reloaded")
        run.wait_for_views(2)
        assert run.interrupt() == 0


@pytest.mark.long
def test_an_engine_at_a_url_is_used_and_keeps_running(tmp_path: Path) -> None:
    with start(DYNOXIDE, None) as engine:
        for life in (1, 2):
            with Run(tmp_path / "data", "--no-reload", "--engine", engine.endpoint) as run:
                run.post(view(f"{life}"))
                run.wait_for_views(life)
                assert run.interrupt() == 0
        assert engine.client("dynamodb").list_tables()["TableNames"] == ["hubbub-local"]


@needs_proc
def test_views_in_the_queue_survive_a_kill_and_count_once(tmp_path: Path) -> None:
    with Run(tmp_path / "data", "--no-reload", "--queue") as run:
        run.post(*(view(f"{i}") for i in range(25)))
        kill(run, engine_first=True)
    with Run(tmp_path / "data", "--no-reload") as run:
        run.wait_for_views(25)
        run.post(view("0"))
        run.wait_for_views(26)
        assert run.interrupt() == 0


def kill(run: Run, *, engine_first: bool) -> None:
    """Kill every process of a run, the engine included, by kill -9."""
    for process in sorted(run.processes(), key=lambda process: (process == run.process.pid) == engine_first):
        with contextlib.suppress(ProcessLookupError):  # it ended with the one before
            os.kill(process, signal.SIGKILL)
    run.process.wait()


@needs_proc
@pytest.mark.parametrize(
    ("killed", "options"),
    [
        ("dynoxide", ["--no-reload"]),
        pytest.param("guard", ["--no-reload"], marks=pytest.mark.long),
        pytest.param("dynoxide", [], marks=pytest.mark.long),
        pytest.param("guard", [], marks=pytest.mark.long),
    ],
)
def test_a_run_whose_engine_is_killed_ends_with_a_message(
    killed: str, options: list[str], tmp_path: Path
) -> None:
    with Run(tmp_path / "data", *options) as run:
        run.post(view("kept"))
        processes = run.processes()
        os.kill(run.commands()[killed], signal.SIGKILL)
        assert run.process.wait(15) == 1  # other threads may retry their calls for longer
        *_, last = run.stderr.read_text().splitlines()
        assert last.startswith("Error: the engine has ended (")
        assert "every acknowledged write is kept" in last
        until(lambda: not live(processes), "every process has ended")
    with Run(tmp_path / "data", *options) as again:
        again.wait_for_views(1)


@needs_proc
def test_a_run_whose_engine_is_killed_ends_although_frames_are_waiting(tmp_path: Path) -> None:
    with (
        Run(tmp_path / "data", "--no-reload") as run,
        connect(f"ws://127.0.0.1:{run.socket_port}/") as client,
    ):
        client.send('{"action": "status"}')
        assert "waiting" in client.recv(timeout=PATIENCE)
        engine = run.commands()["dynoxide"]
        os.kill(engine, signal.SIGSTOP)
        for _ in range(40):
            client.send('{"action": "status"}')
        os.kill(engine, signal.SIGKILL)
        assert run.process.wait(PATIENCE) == 1


def make_older(data: Path, seconds: int) -> None:
    """Make everything in the stream older, as if the run had been stopped for longer."""
    with contextlib.closing(sqlite3.connect(data / "dynoxide" / "dynoxide.db")) as database, database:
        database.execute("UPDATE _stream_records SET created_at = created_at - ?", [seconds])


def positions(data: Path) -> tuple[int, int]:
    """Return the number of the last record that was delivered, and of the last one in the stream."""
    with contextlib.closing(sqlite3.connect(data / "dynoxide" / "dynoxide.db")) as database:
        [[last]] = database.execute("SELECT MAX(CAST(sequence_number AS INTEGER)) FROM _stream_records")
    saved = json.loads((data / "stream.json").read_text())
    return max([int(number) for address in saved.values() for number, _ in address.values()], default=0), last


@needs_proc
@pytest.mark.parametrize("end", ["SIGKILL", pytest.param("SIGTERM", marks=pytest.mark.long)])
def test_changes_that_left_the_stream_before_they_were_counted_are_recounted(
    end: str, tmp_path: Path
) -> None:
    """A stop of 25 hours. Each way to stop leaves changes that are not counted."""
    data, views = tmp_path / "data", [view(f"{i}") for i in range(500)]
    with Run(data, "--no-reload") as run:
        run.post(view("counted"))
        run.wait_for_views(1)
        admin = run.token("admin-1", "admin")
        assert run.call("POST", "/views", {"events": views}, admin)[1]["accepted"] == 500
        if end == "SIGKILL":
            kill(run, engine_first=False)
        else:  # an engine that is too slow for the last changes
            engine = run.commands()["dynoxide"]
            os.kill(engine, signal.SIGSTOP)
            os.kill(run.process.pid, signal.SIGTERM)
            until(lambda: "is not drained" in run.stderr.read_text(), "the pump gives up")
            os.kill(engine, signal.SIGCONT)
            assert run.process.wait(PATIENCE) == 0
    delivered, last = positions(data)
    assert delivered < last
    make_older(data, 25 * 3600)
    with Run(data, "--no-reload") as run:
        assert run.views() == 501, "before the run says that it is ready"
        assert "recounting all sums" in run.stderr.read_text()
        run.post(view("new"))
        run.wait_for_views(502)
        assert run.interrupt() == 0
    with Run(data, "--no-reload") as run:
        assert run.views() == 502
    assert run.stderr.read_text().count("recounting all sums") == 1


@pytest.mark.long
@needs_proc
def test_a_full_disk_is_reported_and_loses_no_acknowledged_write(tmp_path: Path) -> None:
    disk, data = tmp_path / "disk", tmp_path / "data"
    data.symlink_to(disk)
    with small_disk(disk, 6) as resize, Run(data, "--no-reload") as run:
        admin, accepted = run.token("admin-1", "admin"), 0
        for batch in itertools.count():
            events = {"events": [view(f"{batch}-{i}") for i in range(100)]}
            status, answer = run.call("POST", "/views", events, admin)
            if status != 202:
                break
            accepted += answer["accepted"]
        assert (status, answer["code"]) == (503, "Busy")
        said = f"the engine cannot write to {disk} (database or disk is full): writes get 503"
        until(lambda: said in run.stderr.read_text(), "a message")
        assert accepted > 0
        assert resize(60) == 0
        assert run.call("POST", "/views", events, admin)[0] == 202
        run.wait_for_views(accepted + 100)
        assert run.interrupt() == 0


def test_an_old_python_gets_a_clear_message(tmp_path: Path) -> None:
    old = tmp_path / "python3"
    old.write_text('#!/bin/sh\n[ "$1" = --version ] && echo "Python 3.8.0" && exit 0\nexit 1\n')
    old.chmod(0o755)
    environment = tmp_path / ".venv"
    names = [f"PYTHON={old}", f"VENV={environment}", f"STAMP={environment}/.ready"]
    ended = subprocess.run(
        ["make", "setup", *names], cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE
    )
    assert ended.returncode != 0
    assert f"Hubbub needs Python 3.11 or later; {old} is Python 3.8.0. Try: make PYTHON=" in ended.stderr
    assert not environment.exists()


OTHER_THREAD = """
import signal, sys, threading, time
from local.serve import wait_for_signal

stopping, main = threading.Event(), threading.get_ident()

def interrupt():
    seen = 0  # how often the main thread was found waiting, after it could have gone on
    while seen < 20:
        seen = seen + 1 if sys._current_frames()[main].f_code is threading.Condition.wait.__code__ else 0
        time.sleep(0.01)
    signal.pthread_kill(threading.get_ident(), signal.SIGINT)

signal.signal(signal.SIGINT, lambda *_: stopping.set())
threading.Thread(target=interrupt).start()
wait_for_signal(stopping)
"""


def test_a_signal_that_another_thread_receives_stops_the_run() -> None:
    subprocess.run([sys.executable, "-c", OTHER_THREAD], cwd=ROOT, check=True, timeout=30)
