"""A stage whose variables Lambda would refuse is refused first, with the way out."""

from __future__ import annotations

import json
from pathlib import Path

import boto3
import click
import pytest
from click.testing import CliRunner
from moto import mock_aws

from ops.aws import chalice_config, environment
from ops.cli.main import main

ARN = "arn:aws:dynamodb:us-east-1:123456789012:table/hubbub-dev/stream/2026"


def name_sites(project: Path, size: int) -> None:
    """Set HUBBUB_SITES so that the variables have a number of bytes as Lambda measures them."""
    chalice_config.record_variables(project, "dev", {"HUBBUB_SITES": "x"})
    config = chalice_config.read(project)
    [(_, variables), *_] = environment._list_environments(config, config["stages"]["dev"], "dev")
    sites = "example.org/a/page," * 300
    chalice_config.record_variables(
        project, "dev", {"HUBBUB_SITES": sites[: size - environment.measure(variables) + 1]}
    )


def test_variables_of_4096_bytes_fit_and_one_more_does_not(project: Path) -> None:
    """Source: AWS Lambda Developer Guide, Lambda quotas: 4 KB for all variables of a function."""
    name_sites(project, 4096)
    environment.check_environment(project, "dev")
    name_sites(project, 4097)
    with pytest.raises(click.ClickException, match="have 4,097 bytes and Lambda takes 4,096") as error:
        environment.check_environment(project, "dev")
    assert "HUBBUB_SITES is the longest" in error.value.message
    assert "PUT /sites/{site}" in error.value.message


def test_a_functions_own_variables_count(project: Path) -> None:
    config = chalice_config.read(project)
    config["stages"]["dev"]["lambda_functions"]["push"]["environment_variables"] = {"OWN": "x" * 4000}
    (project / chalice_config.CONFIG).write_text(json.dumps(config))
    with pytest.raises(click.ClickException, match=r"function push .* OWN is the longest .*; shorten it"):
        environment.check_environment(project, "dev")


@mock_aws
@pytest.mark.parametrize(
    "arguments",
    [("provision", "--yes"), ("provision", "--only-secret"), ("deploy", "--yes"), ("package", "out")],
)
def test_nothing_is_written_for_a_stage_that_does_not_fit(project: Path, arguments: tuple[str, ...]) -> None:
    name_sites(project, 5000)
    before = {path: path.read_bytes() for path in project.rglob("*") if path.is_file()}
    done = CliRunner().invoke(main, [*arguments, "--stage", "dev"])
    assert (done.exit_code, "HUBBUB_SITES" in done.output) == (1, True), done.output
    assert len(done.output.splitlines()) == 1
    assert {path: path.read_bytes() for path in project.rglob("*") if path.is_file()} == before
    assert boto3.client("ssm").describe_parameters()["Parameters"] == []


def test_what_commands_record_is_measured_before_it_is_recorded(project: Path) -> None:
    names = set(environment.recorded_at_most("dev"))
    assert names == {*chalice_config.RECORDED, chalice_config.SOCKET}
