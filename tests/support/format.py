"""The stored format: an item of each kind, as the stories of the features leave it.

`make generate` adds to tests/data/format.json what is new, and takes nothing away, because names that are
stored stay for ever from 1.0.0 on. tests/test_operations.py compares the file with what the code stores.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import app
from chalicelib.aggregates import engine as aggregates
from chalicelib.dynamo.items import unpack
from local.engines.engine import DYNOXIDE, Engine, start
from tests.support.deployed import Deployed, Invocation
from tests.support.operations import play
from tests.support.records import Reader, follow, new_images

FILE = Path(__file__).parents[1] / "data" / "format.json"
VARIABLE = re.compile(r"(?<=:).*|\d+$|(?<=^p)[\w-]{8}$")
"""The part of an attribute's name that a word, an hour or number, or the digest of an answer is."""

Format = dict[str, dict[str, Any]]
"""An item of each kind in DynamoDB's typed JSON: the last, with every attribute of the earlier ones."""


def kind_of(item: Mapping[str, Any]) -> str:
    """Return the kind of an item: both keys without what names a page, a board, a player or a time.

    >>> kind_of({"pk": {"S": "BOARD#kart#1"}, "sk": {"S": "SCORE#ann"}})
    'BOARD# SCORE#'
    """
    return " ".join(re.sub(r"(#).*|\d+", r"\1", item[name]["S"]) for name in ("pk", "sk"))


def names(item: Mapping[str, Any]) -> dict[str, str]:
    """Return the attributes of an item and their types, without the hours, words and digests in their names.

    >>> names({"v23": {"N": "1"}, "co:DE": {"N": "1"}, "pueF1ESco": {"B": ""}, "ttl": {"N": "9"}})
    {'v': 'N', 'co:': 'N', 'p': 'B', 'ttl': 'N'}
    """
    return {VARIABLE.sub("", name): next(iter(value)) for name, value in item.items()}


def merge(images: Iterable[Mapping[str, Any]]) -> Format:
    """Return the items of each kind among the images as one item."""
    found: Format = {}
    for image in images:
        found[kind_of(image)] = {**image, **found.get(kind_of(image), {})}
    return found


def record(engine: Engine) -> Format:
    """Play the stories of all features on a fresh table, and return what they store."""
    found: list[dict[str, Any]] = []
    readers: list[Reader] = []

    def run(site: Deployed, invocation: Invocation) -> None:
        if not readers:
            readers.append(follow(engine, site.table))
        invocation.run()
        found.extend(new_images(readers[0]))

    play(engine, run)
    return merge(found)


def amounts(item: Mapping[str, Any]) -> dict[str, str]:
    """Return what an item adds to each sum."""
    sums = aggregates.computed(app.CONTRIBUTIONS, unpack(item))
    return {" ".join((*key, name)): str(amount) for (key, name), amount in sums.items()}


def read() -> Format:
    """Return the recorded format."""
    recorded: Format = json.loads(FILE.read_text(encoding="utf-8"))
    return recorded


if __name__ == "__main__":
    with start(DYNOXIDE, data=None) as running:
        stored = record(running)
    recorded = read() if FILE.exists() else {}
    for kind, item in stored.items():
        known = recorded.get(kind, {"item": {}})["item"]
        if not names(item).items() <= names(known).items():
            recorded[kind] = {"item": item | known, "adds": amounts(item | known)}
    text = json.dumps(recorded, indent=1, ensure_ascii=False, sort_keys=True)
    FILE.write_text(text + "\n", encoding="utf-8")
