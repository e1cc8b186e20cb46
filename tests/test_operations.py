"""What holds for every operation of the app: the stories of all features are played once, and observed.

The units are computed from the items by AWS's published rules (tests/support/meter.py), so every change of
an item, a key, an index or a call appears here. When a cost changes on purpose, update the docstring and
ops/table.md too. A write of a user and anonymous views cost 1 WCU more than their docstrings say: that of
the sender's bucket (api/rates.py).
"""

from __future__ import annotations

import json
import re
from io import StringIO
from logging import StreamHandler
from typing import Any, NamedTuple

import pytest

import app
from chalicelib import settings
from chalicelib.chat.handlers import ACTIONS
from chalicelib.dynamo.items import unpack
from chalicelib.feature import select
from chalicelib.telemetry import logs
from local.engines.engine import Engine
from ops.maintenance.erase import classify, parse_person
from tests.support import format, operations
from tests.support.deployed import Deployed, Invocation
from tests.support.meter import Meter
from tests.support.permissions import needed
from tests.support.records import Reader, follow, new_images

Cost = tuple[int, float, float]
"""A status, WCU and RCU."""

COSTS = operations.costs()
FEATURES = [feature.name for feature in app.FEATURES if feature.is_named]


class Played(NamedTuple):
    """The observations of a play."""

    costs: dict[tuple[str, str], Cost]
    actions: dict[str, set[str]]
    """The permissions that the calls below each path used."""
    images: list[dict[str, Any]]
    """Every item that was written, in DynamoDB's typed JSON."""
    log: str


@pytest.fixture(scope="module")
def played(engine: Engine) -> Played:
    found = Played({}, {}, [], "")
    readers: list[Reader] = []

    def run(site: Deployed, invocation: Invocation) -> None:
        top = invocation.operation.partition(" /")[2].split("/")[0]

        def see(params: Any, model: Any, **_: Any) -> None:
            actions = {permission.action for permission in needed("dynamodb", model.name, params)}
            found.actions.setdefault(top, set()).update(actions)

        events = site.table.client.meta.events
        with Meter(site.table.client) as meter:
            events.register("provide-client-params.dynamodb", see)
            result = invocation.run()
            events.unregister("provide-client-params.dynamodb", see)
        status = result.get("statusCode", 0) if isinstance(result, dict) else 0
        found.costs[invocation.operation, invocation.name] = (status, meter.write_units, meter.read_units)
        if not readers:
            readers.append(follow(engine, site.table))
        found.images.extend(new_images(readers[0]))

    logger, written = logs.logger(), StringIO()
    handler, level = StreamHandler(written), logger.log_level
    handler.setFormatter(logger.registered_formatter)
    logger.addHandler(handler)
    logger.setLevel("DEBUG")
    try:
        operations.play(engine, run)
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
    return found._replace(log=written.getvalue())


@pytest.mark.parametrize(("operation", "name"), COSTS, ids=map(" ".join, COSTS))
def test_an_operation_costs_exactly_this(played: Played, operation: str, name: str) -> None:
    assert played.costs[operation, name] == COSTS[operation, name]


def test_the_table_of_costs_has_every_measured_operation(played: Played) -> None:
    assert list(played.costs) == list(COSTS)


def test_every_call_action_and_handler_of_the_app_has_a_cost() -> None:
    calls = {f"{call.method} {call.path}" for call in app.router.routes}
    actions = {f"socket {action}" for action in ACTIONS}
    others = {
        "socket_connect": "socket $connect",
        "socket_disconnect": "socket $disconnect",
        "apply": "stream",
        "push": "push",
        "write_views": "queue",
        "sweep": "sweep",
        "identify": "authorizer",
    }
    assert {operation for operation, _ in COSTS} == calls | actions | set(others.values())
    handlers = (
        {call.name for call in app.router.routes} | {"socket_message", "probe"} | set(others)
    )  # the probe waits for the stream
    assert set(app.app.handler_map) == handlers


def test_every_contribution_is_in_a_batch_with_a_cost() -> None:
    for feature, module in zip(app.FEATURES, operations.features(), strict=True):
        batches = {name for operation, name in module.COSTS if operation == "stream"}
        assert batches or not feature.contribution, feature.name
    batches = {name for operation, name in COSTS if operation == "stream"}
    assert batches >= {
        "26 views of a new page",
        "25 views, visitors known",
        "an expired view",
        "a malformed item",
        "26 views of another site",
        "a view with sources, visitor known",
        "a small gain",
        "two paths that nobody has found before",
        "a path of a ranked challenge",
        "a comment",
        "the lag probe",
    }


def test_a_feature_names_each_action_that_its_routes_take(played: Played) -> None:
    """A stage with this feature alone has its actions and those of the features that serve it."""
    owners = {path: feature.name for feature in app.FEATURES for path in feature.paths}
    taken: dict[str, set[str]] = {}
    for top, actions in played.actions.items():
        taken.setdefault(owners.get(top, ""), set()).update(actions)
    for name in FEATURES:
        alone = select(app.FEATURES, settings.read({"HUBBUB_FEATURES": name}))
        assert taken[name] <= frozenset().union(*(feature.actions for feature in alone)), name


@pytest.mark.security
def test_every_item_of_a_run_that_holds_a_name_or_its_digest_is_that_persons(played: Played) -> None:
    """All calls, frames and batches. An item that no place lists would be neither exported nor erased."""
    people = [parse_person(app.stage, name, ()) for name in ("ann", "bob", "player-00000")]
    people.append(parse_person(app.stage, "nobody", ["visitor-000"]))
    seen = set()
    for item in map(unpack, played.images):
        words = set(re.split(r"[#'\" ,:{}\[\]()]+", str(item)))
        for person in people:
            if words & {person.name, person.digest, *person.clients}:
                kind = classify(item, person)
                assert kind, (person.name, item)
                seen.add(kind)
    assert seen >= {"scores", "paths", "comments", "replies", "votes", "views", "visitors", "limits"}


@pytest.mark.security
def test_no_line_of_any_call_frame_or_batch_names_a_person(played: Played) -> None:
    messages = [json.loads(line)["message"] for line in played.log.splitlines()]
    assert {"request", "admin write"} <= set(messages)
    assert re.findall(r"\b(ann|bob|player-\d+|visitor-\d+)\b|: ?\"admin\"", played.log) == []


# -- the stored format: what 1.0.0 stores keeps its keys, its names, its types and what it counts ------


def test_every_recorded_key_name_and_type_is_still_stored(played: Played) -> None:
    stored = {kind: format.names(item) for kind, item in format.merge(played.images).items()}
    recorded = {kind: format.names(entry["item"]) for kind, entry in format.read().items()}
    for kind, attributes in recorded.items():
        assert attributes.items() <= stored.get(kind, {}).items(), kind
    assert stored == recorded, "`make generate` records what is new"


def test_every_recorded_item_still_adds_what_it_added() -> None:
    for kind, entry in format.read().items():
        assert format.amounts(entry["item"]) == entry["adds"], kind
