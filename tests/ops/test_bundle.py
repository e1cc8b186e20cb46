"""The deployment package is small, has only files that run, and has bytecode for arm64."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from zipfile import ZipFile

import click
import msgspec
import pytest
from packaging.utils import canonicalize_name
from packaging.version import Version

from chalicelib.api import static
from ops.aws import bundle, chalice_config, lock
from ops.stage import ROOT

MOST = 3_200_000  # bytes
VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"
TOP = {
    # ours
    "app.py",
    "chalicelib",
    "web",  # the pages and the drop-ins
    "__pycache__",  # of app.py and typing_extensions.py
    # what Lambda has not: Chalice's own run time, requirements.txt
    "chalice",
    "msgspec",
    "jwt",
    "aws_lambda_powertools",
    "url_normalize",
    "crawleruseragents",
    "tzdata",
    # what these need
    "jmespath",
    "typing_extensions.py",
    "idna",
}
LICENSED = {  # whose licence and version come with them
    "aws_lambda_powertools",
    "crawler_user_agents",
    "idna",
    "jmespath",
    "msgspec",
    "pyjwt",
    "tzdata",
    "typing_extensions",
    "url_normalize",
}
ARM64 = b"\xb7\x00"  # e_machine of an ELF file
QUIET = {"PYTHONDONTWRITEBYTECODE": "1", "AWS_DEFAULT_REGION": "eu-central-1"}


class Made:
    """A checkout of the project, and the package that was made in it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.package = bundle.bundle(root, "dev")
        with ZipFile(self.package) as zipped:
            self.names = zipped.namelist()

    def unpack(self, folder: Path) -> Path:
        with ZipFile(self.package) as zipped:
            zipped.extractall(folder)
        return folder


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Made]:
    """A package of a whole checkout, in which the app has run."""
    root = tmp_path_factory.mktemp("checkout") / "hubbub"
    left_out = shutil.ignore_patterns(".git", ".venv", ".local", "deployments", "deployed", ".*_cache")
    shutil.copytree(ROOT, root, ignore=left_out, symlinks=True)
    (root / "chalicelib" / "__pycache__").mkdir(exist_ok=True)
    (root / "chalicelib" / "__pycache__" / "old.cpython-39.pyc").write_bytes(b"stale")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_DEFAULT_REGION", "eu-central-1")
        yield Made(root)


def test_the_package_has_only_files_that_run(made: Made) -> None:
    tops = {name.split("/")[0] for name in made.names}
    info = {name for name in tops if name.endswith(".dist-info")}
    assert tops - info == TOP
    assert {name.split("-")[0] for name in info} == LICENSED
    ours = {path.relative_to(ROOT).as_posix() for path in (ROOT / "chalicelib").rglob("*") if path.is_file()}
    packed = {name for name in made.names if name.startswith("chalicelib/")}
    assert {name for name in packed if "__pycache__" not in name} == {
        name for name in ours if "__pycache__" not in name
    }
    pages = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "web").rglob("*")
        if path.suffix in static.CONTENT_TYPES
    }
    bundles = {name for name in made.names if static.BUNDLE.search(name)}
    assert {name for name in made.names if name.startswith("web/")} - bundles == pages - {
        "web/vendor/lit.entry.js"
    }
    kinds = {re.sub(r"-\w+\.", ".", name) for name in bundles}
    bundled = {f"web/{page}.{kind}" for page in ("admin", "dashboard", "page") for kind in ("css", "js")}
    assert kinds == (bundled | {"web/widgets/shared.js"} if shutil.which("npm") else set())
    assert not [name for name in made.names if re.search(r"(^|/)tests?(/|_|\.py$)|\.pyi$|/conftest", name)]


def test_it_is_small(made: Made) -> None:
    assert made.package.stat().st_size < MOST


def test_compiled_libraries_are_for_arm64_and_this_python(made: Made, tmp_path: Path) -> None:
    version = VERSION.replace(".", "")
    compiled = [name for name in made.names if re.search(r"\.(so|pyd|dylib)\b", name)]
    assert compiled == [f"msgspec/_core.cpython-{version}-aarch64-linux-gnu.so"]
    folder = made.unpack(tmp_path)
    assert (folder / compiled[0]).read_bytes()[18:20] == ARM64


def test_everything_has_its_bytecode(made: Made) -> None:
    """Lambda cannot write any: without it a cold start compiles all that it imports."""
    sources = {name for name in made.names if name.endswith(".py")}
    tag = sys.implementation.cache_tag
    compiled = {re.sub(r"([^/]+)\.py$", rf"__pycache__/\1.{tag}.pyc", name) for name in sources}
    assert {name for name in made.names if name.endswith(".pyc")} == compiled


def test_the_same_code_is_the_same_package(made: Made) -> None:
    before = made.package.read_bytes()
    bundle.trim(made.package)
    assert made.package.read_bytes() == before


@pytest.mark.security
def test_its_libraries_are_those_of_the_lock(made: Made) -> None:
    """Each wheel's name, version and hash were checked; nothing else came in, and nothing was built."""
    found = {name.split("/")[0] for name in made.names if ".dist-info/" in name}
    names = {name.removesuffix(".dist-info").rpartition("-")[::2] for name in found}
    versions = {canonicalize_name(name): version for name, version in names}
    assert versions == {requirement.name: requirement.version for requirement in lock.read(made.root)}
    assert bundle.read_comment(made.package).decode() == lock.check_lock(made.root)


def test_a_package_of_another_lock_is_made_again(made: Made) -> None:
    """Chalice names a package by requirements.txt and the code alone, and would take the old one."""
    with ZipFile(made.package, "a") as zipped:
        zipped.comment = b"another"
    assert bundle.bundle(made.root, "dev") == made.package
    assert bundle.read_comment(made.package).decode() == lock.check_lock(made.root)
    with ZipFile(made.package) as zipped:
        assert zipped.namelist() == made.names


@pytest.mark.long
def test_a_stage_with_an_issuer_has_the_library_for_its_keys(made: Made, tmp_path: Path) -> None:
    """Nothing else has to be done than to set the address. Without it the library is left out again."""
    root = tmp_path / "hubbub"
    shutil.copytree(made.root, root, symlinks=True)
    config = json.loads((root / ".chalice" / "config.json").read_text())
    variables = config["stages"]["dev"]["environment_variables"]
    variables["HUBBUB_JWKS_URL"] = "https://issuer.example/jwks.json"
    (root / ".chalice" / "config.json").write_text(json.dumps(config))
    package = bundle.bundle(root, "dev")
    with ZipFile(package) as zipped:
        added = set(zipped.namelist()) - set(made.names)
    assert {name.split("/")[0].split(".")[0].split("-")[0] for name in added} == {
        "cryptography",
        "cffi",
        "_cffi_backend",
        "pycparser",
    }
    [compiled] = [name for name in added if re.search(r"_rust\S*\.so$", name)]
    with ZipFile(package) as zipped:
        assert zipped.read(compiled)[18:20] == ARM64
    del variables["HUBBUB_JWKS_URL"]
    (root / ".chalice" / "config.json").write_text(json.dumps(config))
    with ZipFile(bundle.bundle(root, "dev")) as zipped:
        assert zipped.namelist() == made.names


@pytest.mark.parametrize("libraries", lock.LOCKED, ids=lambda requirement: requirement.lock)
def test_the_locks_satisfy_the_requirements_and_name_no_registry(libraries: lock.Libraries) -> None:
    assert lock.check_lock(ROOT, libraries)
    text = (ROOT / libraries.lock).read_text()
    assert "/" not in re.sub(r"^#.*$", "", text, flags=re.MULTILINE)
    for requirement in lock.read(ROOT, libraries):
        assert requirement.hashes
        assert all(re.fullmatch(r"[0-9a-f]{64}", digest) for digest in requirement.hashes), requirement.name


def test_the_lock_has_a_wheel_for_each_runtime() -> None:
    [compiled] = [requirement for requirement in lock.read(ROOT) if requirement.name == "msgspec"]
    assert len(compiled.hashes) == len(lock.PYTHONS) * len(lock.MACHINES)
    assert Version(
        next(requirement.version for requirement in lock.read(ROOT) if requirement.name == "pyjwt")
    ) >= Version("2.12")


@pytest.mark.parametrize("requirement", ["cryptography>=43", "msgspec>=99"])
def test_a_lock_that_does_not_satisfy_the_requirements_is_refused(tmp_path: Path, requirement: str) -> None:
    shutil.copy(ROOT / lock.NAME, tmp_path)
    (tmp_path / "requirements.txt").write_text(f"# a comment\n{requirement}  # another\n")
    with pytest.raises(click.ClickException, match="python -m ops lock"):
        lock.check_lock(tmp_path)


def test_a_library_that_was_replaced_is_not_bundled(tmp_path: Path) -> None:
    file = tmp_path / lock.NAME
    text = (ROOT / lock.NAME).read_text()
    file.write_text(re.sub(r"(?s)(url-normalize==\S+ \\\n +--hash=sha256:)\w+", r"\g<1>" + "0" * 64, text))
    assert file.read_text() != text
    with pytest.raises(click.ClickException, match=r"(?i)hash"):
        lock.download(file, VERSION, "aarch64", tmp_path)


@pytest.mark.parametrize("machine", lock.MACHINES)
@pytest.mark.parametrize("python", lock.PYTHONS)
def test_a_runtime_loads_newer_and_older_wheels_of_its_glibc(python: str, machine: str) -> None:
    """Lambda's Amazon Linux 2 has glibc 2.26, Amazon Linux 2023 has 2.34: AWS Lambda, Lambda runtimes."""
    names = lock.platforms(python, machine)
    newest = 26 if python == "3.11" else 34
    assert f"manylinux_2_{newest}_{machine}" in names
    assert f"manylinux_2_{newest + 1}_{machine}" not in names
    assert {f"manylinux_2_17_{machine}", f"manylinux2014_{machine}"} <= set(names)


def test_a_package_of_another_python_says_so(
    made: Made, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-central-1")
    monkeypatch.setattr(bundle, "RUNTIME", f"python{VERSION}")
    bundle.bundle(made.root, "dev")
    assert "warning: the functions" not in capsys.readouterr().err
    monkeypatch.setattr(bundle, "RUNTIME", "python3.99")
    bundle.bundle(made.root, "dev")
    assert f"warning: the functions will run on python{VERSION}" in capsys.readouterr().err


def test_a_deploy_takes_it(made: Made, tmp_path: Path) -> None:
    """Chalice finds it by code and requirements; every function is for arm64 and this Python."""
    stream = "arn:aws:dynamodb:eu-central-1:1:table/hubbub-dev/stream/1"
    chalice_config.record_variables(made.root, "dev", {"HUBBUB_STREAM_ARN": stream})
    chalice = (sys.executable, "-c", "from chalice.cli import main; main()")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HUBBUB_")}
    arguments = ("package", "--stage", "dev", str(tmp_path))
    subprocess.run([*chalice, *arguments], cwd=made.root, env=environment | QUIET, check=True)
    assert (tmp_path / "deployment.zip").read_bytes() == made.package.read_bytes()
    template = json.loads((tmp_path / "sam.json").read_text())
    functions = [
        resource["Properties"]
        for resource in template["Resources"].values()
        if resource["Type"].endswith("::Function")
    ]
    assert len(functions) == 9
    for function in functions:
        assert function["Architectures"] == ["arm64"]
        assert function["Runtime"] == f"python{VERSION}"
        assert function["MemorySize"] in (256, 512)


RUN = """
import datetime, json, sys, zoneinfo
sys.path.insert(0, {folder!r})
import app
late = {{"jwt", "aws_lambda_powertools", "crawleruseragents", "cryptography", "rich", "click", "yaml"}}
assert not late & set(sys.modules), late & set(sys.modules)
from chalicelib import settings, urls
from chalicelib.aggregates import engine
from chalicelib.api import auth
from chalicelib.telemetry import middleware
from chalicelib.views import crawlers, sources, traits

def get(path, parameters=None):
    context = {{"httpMethod": "GET", "resourcePath": path, "identity": {{}}}}
    event = {{"requestContext": context, "headers": {{}}, "multiValueQueryStringParameters": None}}
    event |= {{"pathParameters": parameters, "stageVariables": None, "body": "", "isBase64Encoded": False}}
    answer = app.app(event, None)
    assert answer["statusCode"] == 200, answer
    return answer["body"]

assert json.loads(get("/health"))["status"]
assert json.loads(get("/openapi.json"))["openapi"] == "3.1.0"
assert "<html" in get("/docs")
get("/docs/{{file}}", {{"file": "openapi-explorer.js"}})
middleware.count_batch(engine.Report(quarantined=1))
token = auth.mint(settings.current(), "me")
assert auth.authenticate(settings.current(), f"Bearer {{token}}")["sub"] == "me"
assert crawlers.is_crawler("Googlebot/2.1")
assert urls.canonical("HTTPS://EXAMPLE.org:443/x/../a") == "https://example.org/a"
zoneinfo.reset_tzpath(to=())  # a system without zones
assert "Europe/Berlin" in zoneinfo.available_timezones()
assert zoneinfo.ZoneInfo("Asia/Kathmandu").utcoffset(datetime.datetime(2026, 1, 1))
assert traits.read_zone("Europe/Berlin") == "DE" and sources.is_spam("semalt.com")
names = {{name.split(".")[0] for name in sys.modules}} & {names!r}
for name in sorted(names):
    assert sys.modules[name].__file__.startswith({folder!r}), name
print(*sorted(names))
"""


def test_the_package_has_every_module_that_the_app_imports(made: Made, tmp_path: Path) -> None:
    """Late imports of functions work too. Large modules that are rarely needed are imported late."""
    folder = made.unpack(tmp_path)
    for core in Path(msgspec.__file__).parent.glob("_core.*.so"):  # the package's own is for arm64
        shutil.copy(core, folder / "msgspec")
    names = {name.removesuffix(".py") for name in TOP} - {"__pycache__", "web"}
    environment = {"HUBBUB_SECRET": "0123456789abcdef0123456789abcdef", "PATH": os.environ["PATH"]}
    ran = subprocess.run(
        [sys.executable, "-c", RUN.format(folder=str(folder), names=names)],
        cwd=tmp_path,
        env=environment | QUIET,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert set(ran.stdout.splitlines()[-1].split()) == names
