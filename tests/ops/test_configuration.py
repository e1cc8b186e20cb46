"""Chalice's files are written atomically in one format, and a new stage is a copy of dev."""

from __future__ import annotations

import json
import re
from pathlib import Path

import click
import pytest

from chalicelib.settings import Settings
from local.engines.engine import ROOT
from ops.aws import chalice_config


def test_the_file_in_the_repository_is_in_the_notation_that_is_written() -> None:
    text = (ROOT / chalice_config.CONFIG).read_text()
    assert chalice_config.format_config(json.loads(text)) == text


def test_recording_changes_the_variables_and_nothing_else(project: Path) -> None:
    before = (project / chalice_config.CONFIG).read_text()
    assert chalice_config.record_variables(
        project, "dev", {"HUBBUB_TABLE": "hubbub-dev", "HUBBUB_QUEUE_URL": ""}
    )
    after = (project / chalice_config.CONFIG).read_text()
    assert json.loads(after)["stages"]["dev"]["environment_variables"].pop("HUBBUB_TABLE") == "hubbub-dev"
    assert len(after.splitlines()) == len(before.splitlines()) + 1
    assert not chalice_config.record_variables(project, "dev", {"HUBBUB_TABLE": "hubbub-dev"})
    assert chalice_config.record_variables(project, "dev", {"HUBBUB_TABLE": ""})
    assert (project / chalice_config.CONFIG).read_text() == before
    assert [path.name for path in (project / ".chalice").glob(".*")] == []


@pytest.mark.parametrize("partition", ["aws-cn", "aws-us-gov", "aws"])
@pytest.mark.parametrize("stage", ["dev", "prod"])
def test_policies_are_written_for_the_partition_that_is_deployed_to(
    project: Path, stage: str, partition: str
) -> None:
    """An ARN begins with its partition, and IAM refuses another's: IAM User Guide, ARNs; AWS in China."""
    chalice_config.ensure_stage(project, stage)
    chalice_config.record_variables(project, stage, {"HUBBUB_QUEUE": "on", "HUBBUB_NOTICES": "on"})
    for before in ("aws-cn", partition, partition):  # from another partition, and again
        chalice_config.ensure_stage(project, stage)
        chalice_config.localize_policies(project, Settings(stage=stage, table=f"hubbub-{stage}"), before)
    functions = chalice_config.read(project)["stages"][stage]["lambda_functions"]
    dev = chalice_config.read(project)["stages"]["dev"]["lambda_functions"]
    for name, settings in functions.items():
        text = (project / ".chalice" / settings["iam_policy_file"]).read_text()
        assert set(re.findall(r"arn:([^:]*):", text)) == {partition}
        pattern = (ROOT / ".chalice" / dev[name]["iam_policy_file"]).read_text()
        assert text == chalice_config.rename_stage(pattern, stage).replace("arn:aws:", f"arn:{partition}:")


def test_policies_are_written_for_the_restored_table_of_a_stage(project: Path) -> None:
    chalice_config.ensure_stage(project, "prod")
    settings = Settings(stage="prod", table="hubbub-prod-20261125t120000")
    for _ in range(2):
        chalice_config.localize_policies(project, settings, "aws")
    found = {
        name
        for path in (project / ".chalice").glob("policy-*-prod.json")
        for name in re.findall(r":table/([^/\"]+)", path.read_text())
    }
    assert found == {settings.table}
    dev = (project / ".chalice" / "policy-apply.json").read_text()
    assert set(re.findall(r":table/([^/\"]+)", dev)) == {"hubbub-dev"}


def test_no_arn_is_written_for_one_partition_elsewhere() -> None:
    """Policies are rewritten per partition."""
    folders = [ROOT / "chalicelib", ROOT / "ops", ROOT / ".chalice"]
    files = [path for folder in folders for path in folder.rglob("*") if path.suffix in {".py", ".yaml"}]
    written = [
        line.strip()
        for path in (ROOT / "app.py", *files)
        for line in path.read_text().splitlines()
        if "arn:aws:" in line and "'Resource'" not in line and '"Resource"' not in line
    ]
    assert written == []


def test_a_new_stage_is_a_copy_of_dev_without_the_values_of_its_account(project: Path) -> None:
    own = {
        "HUBBUB_SITES": "www.example.org",
        "HUBBUB_STREAM_ARN": "arn:stream",
        "HUBBUB_QUEUE_URL": "https://q",
    }
    chalice_config.record_variables(project, "dev", own)
    assert chalice_config.ensure_stage(project, "prod")
    text = (project / chalice_config.CONFIG).read_text()
    prod = json.loads(text)["stages"]["prod"]
    assert prod["environment_variables"] == {
        "HUBBUB_STAGE": "prod",
        "HUBBUB_SITES": "",
        "HUBBUB_SECRET_PARAMETER": "/hubbub/prod/secret",
    }
    policies = list((project / ".chalice").glob("policy-*-prod.json"))
    assert {function["iam_policy_file"] for function in prod["lambda_functions"].values()} == {
        path.name for path in policies
    }
    assert not [path for path in policies if "dev" in path.read_text().split("hubbub-")[0]]
    assert not [path for path in policies if "hubbub-dev" in path.read_text() or "/dev/" in path.read_text()]
    assert not chalice_config.ensure_stage(project, "prod")
    assert (project / chalice_config.CONFIG).read_text() == text


def test_an_older_stage_gets_devs_functions_and_policies_and_keeps_its_settings(
    project: Path,
) -> None:
    chalice_config.ensure_stage(project, "prod")
    file = project / chalice_config.CONFIG
    config = json.loads(file.read_text())
    functions = config["stages"]["prod"]["lambda_functions"]
    del functions["sweep"]
    functions["apply"]["lambda_memory_size"] = 2048
    file.write_text(chalice_config.format_config(config))
    policy = project / ".chalice" / "policy-apply.json"
    policy.write_text(policy.read_text().replace("dynamodb:GetItem", "dynamodb:Query"))
    assert not chalice_config.ensure_stage(project, "prod")
    functions = json.loads(file.read_text())["stages"]["prod"]["lambda_functions"]
    assert functions["sweep"]["iam_policy_file"].endswith("-prod.json")
    assert functions["apply"]["lambda_memory_size"] == 2048
    own = project / ".chalice" / functions["apply"]["iam_policy_file"]
    assert own.read_text() == policy.read_text().replace("hubbub-dev", "hubbub-prod")


def test_a_malformed_configuration_is_a_one_line_error(tmp_path: Path) -> None:
    (tmp_path / ".chalice").mkdir()
    (tmp_path / chalice_config.CONFIG).write_text("{")
    with pytest.raises(click.ClickException, match="cannot be read"):
        chalice_config.record_variables(tmp_path, "dev", {})
