"""A restore refuses a wrong time before it writes. `make rehearse ARGS=--restores` runs it as a whole."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import click
import pytest
from click.testing import CliRunner, Result

from local.engines.engine import Engine
from ops.aws import restore
from ops.aws.provision import Clients, provision
from ops.cli.main import main

Command = Callable[..., Result]


@pytest.fixture
def stage(clients: Clients) -> str:
    name = f"t{uuid4().hex[:8]}"
    provision(clients, name, {}, lambda *_: True)
    return name


@pytest.fixture
def command(cloud: Engine, project: Path) -> Command:
    """The command, in a project of its own."""
    os.environ["HUBBUB_ENDPOINT"] = cloud.endpoint
    del os.environ["HUBBUB_TABLE"]
    return lambda *arguments, **options: CliRunner().invoke(main, ["restore", *arguments], **options)


def tables(clients: Clients) -> list[str]:
    return clients.dynamodb.list_tables()["TableNames"]


def test_a_table_is_restored_into_a_new_one_and_a_second_run_takes_that(clients: Clients, stage: str) -> None:
    """Source: Amazon DynamoDB Developer Guide, PITR: "always restores to a new table"."""
    moment = datetime.now(UTC)
    clients.dynamodb.put_item(TableName=f"hubbub-{stage}", Item={"pk": {"S": "a"}, "sk": {"S": "b"}})
    target = restore.target_name(stage, moment)
    for _ in range(2):
        restore.restore(clients.dynamodb, f"hubbub-{stage}", target, moment)
    assert clients.dynamodb.scan(TableName=target)["Count"] == 1
    assert clients.dynamodb.scan(TableName=f"hubbub-{stage}")["Count"] == 1


@pytest.mark.parametrize("away", [timedelta(days=-36), timedelta(minutes=5)])
def test_a_time_out_of_the_range_is_refused_with_the_range(
    clients: Clients, stage: str, away: timedelta
) -> None:
    with pytest.raises(click.ClickException, match=r"can be restored to a time from .*Z to .*Z"):
        restore.check_moment(clients.dynamodb, f"hubbub-{stage}", datetime.now(UTC) + away)


def test_a_table_without_recovery_and_one_that_is_gone_are_refused(clients: Clients, stage: str) -> None:
    off: Any = {"PointInTimeRecoveryEnabled": False}
    table = f"hubbub-{stage}"
    clients.dynamodb.update_continuous_backups(TableName=table, PointInTimeRecoverySpecification=off)
    with pytest.raises(click.ClickException, match="no point-in-time recovery"):
        restore.check_moment(clients.dynamodb, table, datetime.now(UTC))
    with pytest.raises(click.ClickException, match="Restore the backup"):
        restore.check_moment(clients.dynamodb, "hubbub-gone", datetime.now(UTC))


@pytest.mark.parametrize("text", ["yesterday", "2026-11-25T12:00:00", "2026-11-25", ""])
def test_a_time_without_a_zone_is_refused(command: Command, text: str) -> None:
    done = command("--stage", "dev", "--to", text, "--yes")
    assert (done.exit_code, "2026-11-25T12:00:00Z" in done.output) == (2, True)


def test_an_unknown_stage_is_not_created(command: Command, tmp_path: Path, clients: Clients) -> None:
    before, names = (tmp_path / ".chalice" / "config.json").read_bytes(), tables(clients)
    done = command("--stage", "pord", "--to", "2026-11-25T12:00:00Z", "--yes")
    assert (done.exit_code, "pord" in done.output) == (2, True)
    assert (tmp_path / ".chalice" / "config.json").read_bytes() == before
    assert tables(clients) == names


def test_a_restore_that_is_declined_changes_nothing(
    command: Command, tmp_path: Path, clients: Clients
) -> None:
    provision(clients, "dev", {}, lambda *_: True)
    before, names = (tmp_path / ".chalice" / "config.json").read_bytes(), tables(clients)
    done = command("--stage", "dev", "--to", datetime.now(UTC).isoformat(), input="n\n")
    assert (done.exit_code, "dev loses later writes, which hubbub-dev keeps" in done.output) == (1, True)
    assert (tmp_path / ".chalice" / "config.json").read_bytes() == before
    assert tables(clients) == names
