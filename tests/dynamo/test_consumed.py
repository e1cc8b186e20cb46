"""The consumed capacity in a response is that of the meter; the default is no such header."""

from __future__ import annotations

import pytest
from chalice.app import Chalice
from chalice.test import Client

from chalicelib.api.router import Router
from chalicelib.concurrency import map_concurrently
from chalicelib.dynamo import capacity
from chalicelib.dynamo.items import Key, Range
from chalicelib.dynamo.table import Table, connect
from chalicelib.settings import Settings
from tests.conftest import EngineTable
from tests.support.meter import Meter


@pytest.fixture
def table(engine_table: EngineTable) -> Table:
    """A table whose capacity is counted, as in a stage with HUBBUB_CAPACITY=on."""
    engine, name, _ = engine_table
    return connect(Settings(endpoint=engine.endpoint, table=name, capacity=True))


def key(i: int) -> Key:
    return Key("A", f"{i:03}")


def item(i: int, size: int = 300) -> dict[str, object]:
    return key(i)._asdict() | {"text": "x" * size}


def test_the_counted_units_are_those_of_the_meter(table: Table) -> None:
    for i in range(40):
        table.put(item(i))
    with Meter(table.client) as meter, capacity.count_units() as units:
        table.get(key(1), consistent=True)
        table.get(key(99))
        table.get_many(map(key, range(30, 50)))
        table.get_snapshot(map(key, range(3)))
        table.query(Range("A"))
        table.put(item(1, 1500))
        table.update(key(2), "SET n = :n", values={":n": 1})
        table.delete(key(3))
        table.batch_put([item(4), item(5)])
    assert units.read == meter.read_units > 0
    assert units.write == meter.write_units > 0


def test_units_of_a_thread_count_for_its_request(table: Table) -> None:
    with capacity.count_units() as units:
        map_concurrently(lambda i: table.get(key(i), consistent=True), range(5))
    assert str(units) == "read=5, write=0"
    table.get(key(1))  # outside: nobody's
    assert units.read == 5


@pytest.mark.parametrize("shows", [True, False])
def test_a_response_has_its_units_only_if_the_stage_enables_them(shows: bool) -> None:
    small = Chalice("small", configure_logs=False)
    router = Router(small, shows_capacity=shows)

    @router.route("GET /a")
    def get_a() -> None:
        """Consume some capacity."""
        units = capacity._units.get()
        assert units
        units.add(1.5, is_read=True)

    with Client(small) as client:
        headers = client.http.get("/a").headers
    assert headers.get(capacity.HEADER) == ("read=1.5, write=0" if shows else None)
