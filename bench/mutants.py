"""Faults planted in the code on purpose, one at a time, to see whether the histories find them.

A mutant is a change of a module's source, made while the module is imported; no file is touched. They are
listed in mutants.toml.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
import tomllib
from collections.abc import Sequence
from importlib.util import spec_from_loader
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

LIST = Path(__file__).with_name("mutants.toml")


class Edit(NamedTuple):
    """A text of a module of chalicelib, which stands there once, and what stands there instead."""

    module: str
    old: str
    new: str


class Mutant(NamedTuple):
    """A fault, named by what the code then does."""

    name: str
    edits: tuple[Edit, ...]


class Unfit(Exception):
    """A mutant that does not fit the code any more: its text is not there, or is there more than once."""


def mutants() -> dict[str, Mutant]:
    """Read the list of them, by name."""
    listed = tomllib.loads(LIST.read_text(encoding="utf-8"))["mutant"]
    return {one["name"]: Mutant(one["name"], tuple(Edit(**edit) for edit in one["edit"])) for one in listed}


def source(edit: Edit, text: str) -> str:
    """Answer a module's text with an edit made. Raises Unfit."""
    if text.count(edit.old) != 1:
        raise Unfit(f"{edit.module} has {text.count(edit.old)} times: {edit.old}")
    return text.replace(edit.old, edit.new)


class Planter(importlib.abc.MetaPathFinder):
    """Finds the modules that a mutant changes, before anybody else does."""

    def __init__(self, planted: Mutant) -> None:
        self._edits = planted.edits

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Answer a loader that changes the source; None for all other modules."""
        edits = [edit for edit in self._edits if f"chalicelib.{edit.module}" == name]
        if not edits:
            return None
        found = importlib.machinery.PathFinder.find_spec(name, path)
        assert found is not None
        origin = str(found.origin)
        return spec_from_loader(name, Loader(name, origin, edits), origin=origin)


class Loader(importlib.machinery.SourceFileLoader):
    """Loads a module with its edits."""

    def __init__(self, name: str, path: str, edits: list[Edit]) -> None:
        super().__init__(name, path)
        self._edits = edits

    def get_code(self, fullname: str) -> object:  # type: ignore[override]
        """Compile the changed source; nothing of it is kept."""
        text = Path(self.path).read_text(encoding="utf-8")
        for edit in self._edits:
            text = source(edit, text)
        return compile(text, self.path, "exec", dont_inherit=True)


def plant(planted: Mutant) -> None:
    """Plant a mutant in this process. Raises Unfit when one of its modules is imported already."""
    if there := [edit.module for edit in planted.edits if f"chalicelib.{edit.module}" in sys.modules]:
        raise Unfit(f"imported already: {there}")
    sys.meta_path.insert(0, Planter(planted))
