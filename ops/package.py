"""Packages a stage as one stack: what `chalice package` makes, with the resources and the gateway's part.

Chalice takes one template to merge, so the two of `.chalice/` are put together first: no name is in both.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import yaml

from ops import deploy

PARTS = ("resources.yaml", "gateway.yaml")


def merged(root: Path, stage: str) -> dict[str, Any]:
    """Put the templates together for one stage; its name is the parameter's only value.

    The functions are packaged for one stage, so that the stack cannot be deployed as another by mistake.
    """
    whole: dict[str, Any] = {}
    for name in PARTS:
        part = yaml.safe_load((root / ".chalice" / name).read_text(encoding="utf-8"))
        for section, value in part.items():
            if isinstance(value, dict):
                whole[section] = {**whole.get(section, {}), **value}
    whole["Parameters"]["Stage"] |= {"Default": stage, "AllowedPattern": f"^{stage}$"}
    return whole


def package(root: Path, stage: str, output: Path) -> None:
    """Write `sam.yaml` and `deployment.zip` into a folder."""
    with tempfile.TemporaryDirectory() as folder:
        template = Path(folder) / "merge.yaml"
        template.write_text(yaml.safe_dump(merged(root, stage), sort_keys=False), encoding="utf-8")
        merge = ("--pkg-format", "cloudformation", "--merge-template", str(template))
        deploy.chalice(root, "package", "--stage", stage, *merge, str(output.resolve()))
