"""A command uses the stage's configuration, and an error is one line."""

from __future__ import annotations

import itertools
import json
import os
import stat
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any
from unittest import mock
from wsgiref.simple_server import WSGIRequestHandler, make_server

import click
import pytest
from botocore.exceptions import ClientError, EndpointConnectionError, NoCredentialsError, NoRegionError
from click.testing import CliRunner

from chalicelib.api import auth
from chalicelib.errors import Busy
from chalicelib.settings import Settings
from ops.cli.main import explain, main
from ops.stage import ROOT, ensure_secret, load, read_variables
from tests.support.running import Run

CONFIG = {
    "environment_variables": {"HUBBUB_VIEWS_WINDOW_DAYS": "3", "HUBBUB_TOPIC_LISTENERS": "2"},
    "stages": {
        "local": {"environment_variables": {"HUBBUB_SECRET_FILE": ".local/secret"}},
        "dev": {"environment_variables": {"HUBBUB_STAGE": "dev", "HUBBUB_TOPIC_LISTENERS": "4"}},
        "bare": {},
    },
}


@pytest.fixture(autouse=True)
def no_settings(environment: None) -> None:
    """Run each test without settings in the environment."""
    for name in [name for name in os.environ if name.startswith("HUBBUB_")]:
        del os.environ[name]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / ".chalice").mkdir()
    (tmp_path / ".chalice" / "config.json").write_text(json.dumps(CONFIG))
    return tmp_path


# -- stages --------------------------------------------------------------------------------------------


def test_a_stages_variables_override_those_of_all_stages(root: Path) -> None:
    settings = load("dev", root)
    assert (settings.stage, settings.table, settings.topic_listeners) == ("dev", "hubbub-dev", 4)
    assert settings.views_window.days == 3
    assert os.environ["HUBBUB_TOPIC_LISTENERS"] == "4"


def test_an_exported_variable_is_kept_and_the_stage_is_the_requested_one(root: Path) -> None:
    os.environ.update(HUBBUB_TOPIC_LISTENERS="7", HUBBUB_ENDPOINT="http://localhost:1", HUBBUB_STAGE="prod")
    settings = load("bare", root)
    assert (settings.topic_listeners, settings.endpoint, settings.stage) == (7, "http://localhost:1", "bare")


def test_the_local_stage_gets_its_secret_when_it_is_first_loaded(root: Path) -> None:
    settings = load("local", root, has_engine=False)
    assert settings.secret_file == str(root / ".local" / "secret")
    assert len(auth.read_secret(settings)) == 64
    assert auth.read_secret(load("local", root, has_engine=False)) == auth.read_secret(settings)


def test_no_other_stage_gets_a_secret_of_its_own(root: Path) -> None:
    os.environ["HUBBUB_SECRET_FILE"] = "elsewhere"
    assert load("dev", root).secret_file == str(root / "elsewhere")
    assert not (root / "elsewhere").exists()


def test_the_error_for_an_unknown_stage_lists_the_stages(root: Path) -> None:
    with pytest.raises(click.BadParameter, match=r"no stage named 'prod' .* local, dev, bare"):
        load("prod", root)


@pytest.mark.parametrize("text", [None, "{", "\xff"])
def test_the_error_names_an_unreadable_configuration(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / ".chalice").mkdir()
        (tmp_path / ".chalice" / "config.json").write_bytes(text.encode("latin-1"))
    with pytest.raises(click.ClickException, match=r"config\.json: cannot be read"):
        load("local", tmp_path)


def test_a_malformed_setting_is_named(root: Path) -> None:
    os.environ["HUBBUB_TOPIC_LISTENERS"] = "many"
    with pytest.raises(click.ClickException, match="HUBBUB_TOPIC_LISTENERS is 'many'"):
        load("dev", root)


def test_the_projects_own_configuration_has_a_local_stage() -> None:
    assert read_variables("local")["HUBBUB_STAGE"] == "local"
    assert read_variables("local")["HUBBUB_SECRET_FILE"] == ".local/secret"


# -- the engine of the local run ----------------------------------------------------------------------------


def test_a_command_uses_the_engine_of_the_run_in_the_data_folder(tmp_path: Path) -> None:
    commands, data = ("status", "audit", "redrive", "export"), str(tmp_path / "data")
    line = f"Error: no run uses {data}: start it with make run, or name its folder with --data\n"
    for command in commands:
        assert run(command, "--data", data) == (1, "", line)
    with Run(tmp_path / "data", "--no-reload"):
        for command in commands:
            os.environ.pop("HUBBUB_ENDPOINT", None)
            assert run(command, "--data", data)[0] == 0
    os.environ.pop("HUBBUB_ENDPOINT", None)
    assert run("status", "--data", data)[0] == 1, "the run has ended"


@pytest.mark.parametrize("endpoint", ["localhost:8002", "http://127.0.0.1:99999", "http://a b", "ftp://a"])
def test_a_malformed_endpoint_is_one_line(endpoint: str) -> None:
    os.environ["HUBBUB_ENDPOINT"] = endpoint
    code, _, err = run("status")
    assert (code, err.count("\n")) == (1, 1)
    assert f"HUBBUB_ENDPOINT is '{endpoint}': it must be like http://127.0.0.1:8002" in err


def test_an_endpoint_that_is_no_engine_is_one_line() -> None:
    with make_server("127.0.0.1", 0, web_server, handler_class=Silent) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        os.environ["HUBBUB_ENDPOINT"] = f"http://127.0.0.1:{server.server_port}"
        code, _, err = run("status")
        server.shutdown()
    assert (code, err.count("\n")) == (1, 1)
    assert f"there is no DynamoDB at {os.environ['HUBBUB_ENDPOINT']}: HTTP 501" in err


class Silent(WSGIRequestHandler):
    def log_message(self, *_: object) -> None:
        """Write nothing."""


def web_server(_: Any, start: Any) -> list[bytes]:
    """Respond as a web server does to a method that it does not support."""
    start("501 Unsupported method", [("Content-Type", "text/html")])
    return [b"<html>\n<body>Unsupported</body>\n</html>"]


# -- the secret ----------------------------------------------------------------------------------------


def test_a_secret_is_random_and_its_owners_alone(tmp_path: Path) -> None:
    first, other = tmp_path / "a" / "secret", tmp_path / "b" / "secret"
    ensure_secret(first)
    ensure_secret(other)
    assert len(bytes.fromhex(first.read_text())) == 32
    assert first.read_text() != other.read_text()
    assert stat.S_IMODE(first.stat().st_mode) == 0o600


def test_an_existing_secret_is_never_replaced(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("mine")
    ensure_secret(tmp_path / "secret")
    assert (tmp_path / "secret").read_text() == "mine"


def test_processes_that_make_a_secret_at_once_get_the_same_one(tmp_path: Path) -> None:
    script = (
        "import sys, pathlib; from ops.stage import ensure_secret; print('here', flush=True); "
        "sys.stdin.readline(); p = pathlib.Path(sys.argv[1]); ensure_secret(p); print(p.read_text())"
    )
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", script, str(tmp_path / "secret")],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(6)
    ]
    for process in processes:
        assert process.stdout
        assert process.stdout.readline() == "here\n"
    seen = [process.communicate("go\n", timeout=300)[0] for process in processes]
    assert len(set(seen)) == 1
    assert len(seen[0].strip()) == 64
    assert [file.name for file in tmp_path.iterdir()] == ["secret"]


# -- tokens --------------------------------------------------------------------------------------------


def run(*words: str, secret: str = "s" * 32) -> tuple[int, str, str]:
    done = CliRunner().invoke(main, words, env={"HUBBUB_SECRET": secret})
    return done.exit_code, done.stdout, done.stderr


def test_a_token_is_printed_and_nothing_else() -> None:
    code, out, err = run("token", "--stage", "local", "--sub", "player-1")
    assert (code, err, out.count("\n")) == (0, "", 1)
    context = auth.authenticate(Settings(secret="s" * 32), f"Bearer {out.strip()}")
    assert (context["sub"], context["scope"]) == ("player-1", "")


def test_a_token_is_for_the_stage_that_was_named() -> None:
    _, out, _ = run("token", "--stage", "dev", "--sub", "a", "--scope", "admin")
    assert auth.authenticate(Settings(stage="dev", secret="s" * 32), f"Bearer {out}")["scope"] == "admin"
    assert "problem" in auth.authenticate(Settings(stage="local", secret="s" * 32), f"Bearer {out}")


@pytest.mark.parametrize(
    ("ttl", "seconds"), [("90s", 90), ("15m", 900), ("1h", 3600), ("7d", 604_800), (None, 3600)]
)
def test_a_token_has_the_requested_lifetime(ttl: str | None, seconds: int) -> None:
    with mock.patch("time.time", return_value=1e9):
        _, out, _ = run("token", "--sub", "a", *(["--ttl", ttl] if ttl else []))
    import jwt

    claims = jwt.decode(out.strip(), options={"verify_signature": False})
    assert claims["exp"] - claims["iat"] == seconds


@pytest.mark.parametrize("ttl", ["", "1", "0s", "-1h", "1.5h", "1w", "1h30m", "1 h", "1234567d", "٣h"])
def test_a_malformed_ttl_is_a_usage_error(ttl: str) -> None:
    code, out, err = run("token", "--sub", "a", "--ttl", ttl)
    assert (code, out) == (2, "")
    assert "is not a duration such as 90s, 15m, 1h or 7d" in err


def test_a_token_lives_no_longer_than_its_stage_accepts() -> None:
    code, out, err = run("token", "--sub", "a", "--ttl", "31d")
    assert (code, out) == (2, "")
    assert "'--ttl': a token of this stage lives for up to 720 hours (HUBBUB_TOKEN_HOURS)" in err
    assert run("token", "--sub", "a", "--ttl", "30d")[0] == 0


def test_an_unreadable_secret_is_a_one_line_error(tmp_path: Path) -> None:
    os.environ["HUBBUB_SECRET_FILE"] = str(tmp_path / "none")
    code, out, err = run("token", "--stage", "dev", "--sub", "a", secret="")
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert "the stage's secret cannot be read" in err


# -- commands ------------------------------------------------------------------------------------------


def test_an_unknown_command_is_a_usage_error() -> None:
    code, _, err = run("deplyo")
    assert code == 2
    assert "deplyo" in err


def test_the_module_runs_and_imports_no_sdk_for_a_token() -> None:
    run_it = [sys.executable, "-X", "importtime", "-m", "ops", "token", "--sub", "a"]
    done = subprocess.run(
        run_it, cwd=ROOT, env={**os.environ, "HUBBUB_SECRET": "s" * 32}, capture_output=True, text=True
    )
    assert done.returncode == 0
    assert done.stdout.count(".") == 2
    assert "chalicelib.api.auth" in done.stderr
    assert "botocore" not in done.stderr


def _busy(cause: Exception | None) -> Busy:
    error = Busy("The table cannot be reached. Please retry.")
    error.__cause__ = cause
    return error


DOWN = EndpointConnectionError(endpoint_url="http://127.0.0.1:8002")
MISSING = ClientError({"Error": {"Code": "ResourceNotFoundException", "Message": "no"}}, "PutItem")


@pytest.mark.parametrize(
    ("error", "endpoint", "line"),
    [
        (_busy(DOWN), "http://127.0.0.1:8002", "cannot connect to http://127.0.0.1:8002. Is `make run`"),
        (_busy(DOWN), "", "cannot connect to AWS"),
        (_busy(None), "http://127.0.0.1:8002", "The table cannot be reached. Please retry"),
        (MISSING, "", "a table or another resource of the stage does not exist"),
        (NoCredentialsError(), "", "no AWS credentials; set AWS_PROFILE, or AWS_ACCESS_KEY_ID and"),
    ],
)
def test_an_error_of_aws_or_of_an_engine_is_one_line(error: Exception, endpoint: str, line: str) -> None:
    os.environ["HUBBUB_ENDPOINT"] = endpoint
    with mock.patch("chalicelib.api.auth.mint", side_effect=error):
        code, out, err = run("token", "--sub", "a")
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert err.startswith(f"Error: {line}")


def test_an_interrupted_command_exits_with_130() -> None:
    with mock.patch("chalicelib.api.auth.mint", side_effect=KeyboardInterrupt):
        assert run("token", "--sub", "a") == (130, "", "interrupted\n")


# -- one clear line --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (("destroy", "--stage", "local"), "the local stage is not deployed: make run starts it"),
        (("deploy", "--stage", "local"), "the local stage is not deployed: make run starts it"),
        (("destroy", "--stage", "typo"), "no stage named 'typo' in config.json; stages: local, dev"),
        (("smoke", "--stage", "typo"), "no stage named 'typo' in config.json; stages: local, dev"),
        (
            ("token", "--stage", "typo", "--sub", "a"),
            "no stage named 'typo' in config.json; stages: local, dev",
        ),
        (("token", "--sub", "a b"), "Invalid value for '--sub': it must be 1 to 128 ASCII characters"),
        (("status", "--stage", "typo"), "Invalid value for '--stage': no stage named 'typo'"),
        (("replay",), "Missing argument '{views|stream}'. Choose from: views, stream"),
        (("audit", "--settle", "x"), "Invalid value for '--settle': 'x' is not a number."),
        (("export", "--segments", "x"), "Invalid value for '--segments': 'x' is not a whole number."),
        (("export", "--client", "x"), "Invalid value for '--client': needs the --person"),
        (("token", "--sub", "a", "--ttl", "soon"), "Invalid value for '--ttl': 'soon' is not a duration"),
    ],
)
def test_a_wrong_option_is_one_line(arguments: tuple[str, ...], line: str) -> None:
    code, out, err = run(*arguments)
    assert (code in (1, 2), out, err.count("\n")) == (True, "", 1), err
    assert line in err


def test_a_missing_region_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", "/dev/null")
    assert explain(NoRegionError()) == "no region; set AWS_DEFAULT_REGION, for example to eu-central-1"
    code, _, err = run("destroy", "--stage", "dev", "--yes")
    assert (code, err) == (1, "Error: no region; set AWS_DEFAULT_REGION, for example to eu-central-1\n")


def test_a_package_of_a_mistyped_stage_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-central-1")
    folder = ROOT / ".chalice"
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    code, _, err = run("package", "--stage", "typo")
    assert (code, err.count("\n")) == (2, 1)
    assert "no stage named 'typo'" in err
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


def test_another_python_says_which_one_to_use(tmp_path: Path) -> None:
    for package, name in itertools.product(("ops", "local"), ("click", "boto3", "msgspec")):
        code = (
            f"import sys, runpy; sys.modules['{name}'] = None; sys.argv = ['x', *sys.argv[1:]]; "
            f"runpy.run_module('{package}', run_name='__main__')"
        )
        arguments = ["status"] if package == "ops" else ["--port", "auto", "--data", str(tmp_path)]
        done = subprocess.run(
            [sys.executable, "-c", code, *arguments], cwd=ROOT, capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stderr.count("\n")) == (1, 1), done.stderr
        assert f".venv/bin/python -m {package}" in done.stderr
