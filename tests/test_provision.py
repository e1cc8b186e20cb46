"""Provisioning: a stage's secret is made once, encrypted, and never shown."""

from __future__ import annotations

import os
from collections.abc import Iterator

import boto3
import pytest
from click.testing import CliRunner
from moto import mock_aws

from chalicelib import auth
from chalicelib.settings import Settings
from ops.__main__ import main

NAME = "/hubbub/dev/secret"


@pytest.fixture(autouse=True)
def environment() -> Iterator[None]:
    """What a command exports ends with its test."""
    before = dict(os.environ)
    yield
    os.environ.clear()
    os.environ.update(before)


@mock_aws
def test_the_secret_is_made_once_and_never_printed() -> None:
    first = CliRunner().invoke(main, ["provision", "--stage", "dev"])
    assert (first.exit_code, first.output) == (0, f"{NAME}: made\n")
    kept = boto3.client("ssm").get_parameter(Name=NAME, WithDecryption=True)["Parameter"]
    assert (len(kept["Value"]), kept["Type"]) == (64, "SecureString")
    again = CliRunner().invoke(main, ["provision", "--stage", "dev"])
    assert (again.exit_code, again.output) == (0, f"{NAME}: there already, left as it is\n")
    assert (
        boto3.client("ssm").get_parameter(Name=NAME, WithDecryption=True)["Parameter"]["Value"]
        == kept["Value"]
    )
    assert auth.secret(Settings(stage="dev", secret_parameter=NAME)) == kept["Value"].encode()


@mock_aws
def test_a_stage_without_a_parameter_is_one_line() -> None:
    done = CliRunner().invoke(main, ["provision", "--stage", "local"])
    assert done.exit_code == 1
    assert "HUBBUB_SECRET_PARAMETER" in done.output
