"""Engines and tables for the tests, and an environment in which no test can reach AWS."""

from __future__ import annotations

import functools
import os
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from unittest import mock

# Before boto3 or app.py is imported: remove the developer's credentials, profiles and endpoints.
for _name in [name for name in os.environ if name.startswith("AWS_")]:
    del os.environ[_name]
os.environ.update(
    AWS_ACCESS_KEY_ID="testing",
    AWS_SECRET_ACCESS_KEY="testing",
    AWS_DEFAULT_REGION="us-east-1",
    AWS_REGION="us-east-1",
    AWS_EC2_METADATA_DISABLED="true",
    AWS_CONFIG_FILE=os.devnull,
    AWS_SHARED_CREDENTIALS_FILE=os.devnull,
)
# The settings that app.py reads when it is imported.
for _name in [name for name in os.environ if name.startswith("HUBBUB_")]:
    del os.environ[_name]
os.environ.update(
    HUBBUB_STAGE="local",
    HUBBUB_TABLE="hubbub-dev",
    HUBBUB_CACHE_SECONDS="0",
    HUBBUB_QUEUE="on",
    HUBBUB_SECRET="0123456789abcdef0123456789abcdef",
    POWERTOOLS_METRICS_DISABLED="true",
    POWERTOOLS_LOG_LEVEL="CRITICAL",
)

ENVIRONMENT = dict(os.environ)

import boto3  # noqa: E402
import botocore.session  # noqa: E402
import pytest  # noqa: E402
from chalice.test import Client  # noqa: E402

import app  # noqa: E402
from chalicelib import settings  # noqa: E402
from chalicelib.dynamo.table import connect  # noqa: E402
from local.engines.engine import DYNOXIDE, ROOT, Engine, start  # noqa: E402
from local.rehearsal.account import start as start_account  # noqa: E402
from ops.aws.provision import Clients  # noqa: E402
from ops.aws.template import Table  # noqa: E402
from tests.support.running import Run  # noqa: E402
from tests.support.tables import table_on  # noqa: E402

botocore.session.create_loader = functools.cache(botocore.session.create_loader)  # each session reads 1 MB

if TYPE_CHECKING:
    from playwright.sync_api import Browser

    from tests.support.site import Site

EngineTable = tuple[Engine, str, str]
"""An engine, the name of a table on it, and the ARN of the table's stream."""

FIRST = (
    *("test_dropins.py", "test_contract.py", "test_rankings.py", "test_rehearsal.py"),
    *("test_page.py", "test_admin_page.py", "test_provision.py", "test_mutants.py"),
)
"""The files that take longest. They begin first, so that the others run beside them."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the longest files first, and refuse tests that share an id.

    Of several tests with one id xdist would run one and drop the others silently.
    """
    shared = [id for id, count in Counter(item.nodeid for item in items).items() if count > 1]
    if shared:
        raise pytest.UsageError(f"{len(shared)} ids belong to several tests, the first is {shared[0]}")
    order = {name: number for number, name in enumerate(FIRST)}
    items.sort(key=lambda item: order.get(item.path.name, len(order)))


@pytest.fixture(scope="session")
def engine() -> Iterator[Engine]:
    """The engine of `make run`, without data and without TTL sweeps."""
    with pytest.MonkeyPatch.context() as environment:
        # The tests share the engine, so a TTL sweep must not delete items that another test still reads.
        environment.setenv("TTL_SWEEP_SECONDS", "86400")
        running = start(DYNOXIDE, data=None)
    with running:
        yield running


@pytest.fixture(scope="session")
def account() -> Iterator[Engine]:
    """The account of a rehearsal, for tests that need queues, functions, policies or CloudFormation."""
    with start_account() as running:
        yield running


@pytest.fixture(scope="module")
def cloud() -> Iterator[Engine]:
    """A separate account for a module, with functions."""
    with start_account(has_functions=True) as running:
        yield running


@pytest.fixture
def clients(cloud: Engine) -> Clients:
    """The SDK clients that provisioning uses, on an engine with CloudFormation."""
    return Clients(cloud.client("cloudformation"), cloud.client("dynamodb"), cloud.client("sqs"))


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the configuration for Chalice, which the commands use."""
    shutil.copytree(ROOT / ".chalice", tmp_path / ".chalice", ignore=shutil.ignore_patterns("deploy*"))
    monkeypatch.setattr("ops.stage.ROOT", tmp_path)
    return tmp_path


@pytest.fixture
def engine_table(engine: Engine) -> Iterator[EngineTable]:
    """A separate table for the test, on the engine."""
    with table_on(engine) as made:
        yield engine, made.name, made.stream_arn


def _read_settings(**changes: str) -> None:
    """Read the app's settings again, from the environment of the tests and not from that of one test."""
    settings.current.cache_clear()
    connect.cache_clear()
    with mock.patch.dict(os.environ, ENVIRONMENT | changes, clear=True):
        settings.current()


@pytest.fixture
def dev_table(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> Iterator[Table]:
    """A separate table on the engine, which is the dev stage's during the test. boto3's clients reach it."""
    with table_on(engine) as made:
        monkeypatch.setenv("AWS_ENDPOINT_URL_DYNAMODB", engine.endpoint)
        monkeypatch.setenv("AWS_ENDPOINT_URL_DYNAMODB_STREAMS", engine.endpoint)
        monkeypatch.setenv("HUBBUB_TABLE", made.name)
        _read_settings(HUBBUB_TABLE=made.name)
        yield made
    _read_settings()


@pytest.fixture
def site(dev_table: Table) -> Iterator[Site]:
    """The app, as its clients see it."""
    from tests.support.records import Reader
    from tests.support.site import Site

    with Client(app.app) as client:
        yield Site(connect(), Reader(boto3.client("dynamodbstreams"), dev_table.stream_arn), client.http)


CHROMIUM_FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run "
    "--disable-background-networking --disable-component-update --disable-sync "
    "--disable-blink-features=AutomationControlled "  # a browser under automation is not counted
    # The popup of the address bar is a page of its own in each window, and takes half of the browser's time.
    # Chromium obeys the last list of features, so this one has those of playwright that a page would notice.
    "--disable-features=WebUIOmniboxPopup,WebUIOmniboxAimPopup,HttpsUpgrades,"
    "HttpsFirstBalancedModeAutoEnable,PaintHolding,ThirdPartyStoragePartitioning"
)


CHROME = (
    "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36"
)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A headless Chromium. Without Chromium the tests are skipped."""
    api = pytest.importorskip("playwright.sync_api", reason="the package playwright is not installed")
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if not chromium:
        pytest.skip("chromium is not on the PATH; on Debian: apt-get install chromium")
    with api.sync_playwright() as playwright:
        flags = [
            *CHROMIUM_FLAGS.split(),
            f"--user-agent={CHROME}",
            "--host-resolver-rules=MAP evil.example 127.0.0.1",
        ]
        running: Browser = playwright.chromium.launch(executable_path=chromium, args=flags)
        yield running
        running.close()


@pytest.fixture(scope="module")
def product(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """The running product, without data."""
    with Run(tmp_path_factory.mktemp("data") / "run", "--no-reload") as running:
        yield running
