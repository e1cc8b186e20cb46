"""The environment of commands, and the table that those of imports write to."""

from __future__ import annotations

import os
from collections.abc import Iterator
from unittest import mock

import boto3
import pytest

from chalicelib.dynamo.table import Table
from ops.aws import template


@pytest.fixture(autouse=True)
def environment() -> Iterator[None]:
    """Restore the environment after each test."""
    with mock.patch.dict(os.environ):
        yield


@pytest.fixture
def stage(environment: None, dev_table: template.Table) -> Table:
    """The dev stage's table, which the command finds too, and which takes views of every site."""
    for name in [name for name in os.environ if name.startswith("HUBBUB_") and name != "HUBBUB_TABLE"]:
        del os.environ[name]
    os.environ.update(HUBBUB_SITES="*", HUBBUB_SECRET="s" * 32)
    return Table(dev_table.name, boto3.client("dynamodb"))


@pytest.fixture
def table(stage: Table) -> Table:
    return stage
