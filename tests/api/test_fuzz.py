"""Invalid stream records, queue bodies and socket frames neither stop a pump nor affect other records.

`make test` runs the same examples every time. `make test-all` runs twenty times as many, of a seed that a
failure prints (`HUBBUB_FUZZ_SEED=… pytest -m long tests/api/test_fuzz.py` runs it again), beside
hypothesis' own `@reproduce_failure`.
"""

from __future__ import annotations

import copy
import json
import os
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from threading import Lock
from typing import Any, get_args

import boto3
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import seed as seeded
from hypothesis import strategies as st
from hypothesis.stateful import run_state_machine_as_test
from moto import mock_aws

import app
from chalicelib.aggregates import engine, quarantine, tags
from chalicelib.aggregates.sums import KEPT
from chalicelib.dynamo.items import Item, Key, pack, unpack
from chalicelib.dynamo.table import TRANSACTION, Table, _packed
from chalicelib.errors import Busy, Rejected
from chalicelib.settings import Settings
from chalicelib.views import events as views
from chalicelib.views import totals
from chalicelib.views.events import View, check
from chalicelib.views.schemas import Reason
from ops.aws import template
from ops.aws.template import create_table
from ops.maintenance.audit import read_sums
from tests.support import interleavings
from tests.support.contexts import new_context
from tests.support.expressions import is_allowed, key_of, written
from tests.support.records import record, scan

Property = Callable[..., Any]
Fuzz = Callable[[int], Callable[[Property], None]]
FEATURES = app.CONTRIBUTIONS
NOW = datetime.now(UTC).replace(hour=12, minute=0, second=0, microsecond=0)
PAGE = "https://good.example/a"


@pytest.fixture(params=[1, pytest.param(20, marks=pytest.mark.long)], ids=["quick", "long"])
def fuzz(request: pytest.FixtureRequest) -> Fuzz:
    """Run a property on a number of examples: the same ones, or in a long run many of a seed."""
    times: int = request.param
    chosen = int(os.environ.get("HUBBUB_FUZZ_SEED") or random.randrange(2**32))

    def run(examples: int) -> Callable[[Property], None]:
        config = settings(
            max_examples=examples * times,
            stateful_step_count=30,
            derandomize=times == 1,
            database=None,
            deadline=None,
            print_blob=True,
            suppress_health_check=list(HealthCheck),
        )

        def now(property: Property) -> None:
            if times > 1:
                print(f"HUBBUB_FUZZ_SEED={chosen}")
                property = seeded(chosen)(property)
            if isinstance(property, type):
                run_state_machine_as_test(property, settings=config)
            else:
                config(property)()

        return now

    return run


# -- a table in memory ---------------------------------------------------------------------------------


class Memory(interleavings.Memory):
    """The table in memory, which also validates writes as DynamoDB does, has a stream, and can be busy."""

    def __init__(self, busy: Iterable[str] = ()) -> None:
        super().__init__()
        self.stream: list[dict[str, Any]] = []
        self._lock = Lock()
        self._busy = iter(busy)  # for each write: "before" or "after" it is done, or ""

    def get(self, key: Key, *, consistent: bool = False) -> Item | None:
        return super().get(key, consistent=True)

    def batch_put(self, items: Iterable[Item]) -> None:
        for item in items:
            self.change(Key(item["pk"], item["sk"]), unpack(pack(item)))

    def change(self, key: Key, new: Item | None, **fields: Any) -> None:
        """Write or delete an item; a change leaves a record."""
        old = self.items.get(key)
        if new == old:
            return
        if new is None:
            del self.items[key]
        else:
            _check(new)
            self.items[key] = new
        number = len(self.stream)
        self.stream.append(
            record(old, new, second=int(NOW.timestamp()) + number // 5, eventID=f"r{number}") | fields
        )

    def update(self, key: Key, expression: str, *, idempotent: bool = False, **given: Any) -> Item | None:
        given["values"] = unpack(pack(given.get("values") or {}))
        return super().update(key, expression, idempotent=True, **given)

    def _write(self, actions: Iterable[Mapping[str, Any]]) -> tuple[int, ...]:
        with self._lock:
            busy = next(self._busy, "")
            if busy == "before":
                raise Busy("before")
            packed = [next(iter(_packed(action, "memory").items())) for action in actions]
            fields = [{n: unpack(v) if n in TYPED else v for n, v in body.items()} for _, body in packed]
            keys = list(map(key_of, fields))
            if len(keys) > TRANSACTION or len(set(keys)) < len(keys):
                raise Rejected("too many actions, or two on one item")
            if refused := tuple(i for i, field in enumerate(fields) if not is_allowed(field, self.items)):
                return refused
            after = [(key_of(field), written(field, self.items)) for field in fields]
            for _, item in after:
                _check(item)
            for key, item in after:
                self.change(key, item)
            if busy == "after":
                raise Busy("after")
            return ()


TYPED = {"Item", "Key", "ExpressionAttributeValues"}


def _check(item: Item) -> None:
    """Raise for an item that DynamoDB rejects. Half of a surrogate pair is not a ClientError."""
    typed = pack(item)
    try:
        size = len(json.dumps(typed, default=bytes.hex, ensure_ascii=False).encode())
    except UnicodeEncodeError:
        raise RuntimeError("SerializationException") from None
    sizes = len(item["pk"].encode()), len(item["sk"].encode())
    if (
        not 0 < sizes[0] <= 2048
        or not 0 < sizes[1] <= 1024
        or size > 800_000
        or '": {"NS": []}' in str(typed)
    ):
        raise Rejected(f"an item that the table does not hold: {sizes}, {size}")


def state(items: Iterable[Item]) -> dict[Key, Item]:
    """Return the part of a table that does not depend on when or in which order records were applied.

    0 is as good as nothing: what cancels within a batch is not written, and its lifetime neither. Of several
    TTLs the last one is kept. A day that cancels may have been the newest of its site, so of a total only the
    views count.
    """
    lifetime = {"ttl", KEPT}
    clock = {"QUARANTINE": {"quarantined"}, "URL": lifetime, "SITE": lifetime | {"is_newest", "in_total"}}
    stored = {Key(item["pk"], item["sk"]): item for item in items}
    found = {}
    for key, item in stored.items():
        if item["pk"].startswith("GUARD"):
            continue
        if item["pk"].startswith("SITE#") and item["sk"] == "TOTAL":
            if views_of_all := totals.count_views(item, stored.get(totals.newest_key(item), {})):
                found[key] = {"views": views_of_all}
            continue
        passing = clock.get(item["pk"].split("#")[0], set())
        kept = {name: value for name, value in read_sums(item).items() if name not in passing and value != 0}
        if not {"gsi1sk", "views", "count_5"} & set(kept):
            kept.pop("gsi1pk", None)
        if kept:
            found[key] = kept
    return found


# -- what may come -------------------------------------------------------------------------------------


def nest(depth: int, kind: str) -> Any:
    """Build a nested value in typed JSON."""
    value: Any = {"S": "inside"}
    for _ in range(depth):
        value = {"L": [value]} if kind == "L" else {"M": {"a": value}} if kind == "M" else [value]
    return value


texts = st.text(st.characters(), max_size=30)  # half surrogate pairs among them
ODD = r"""
null true 0 -1 1e300 NaN Infinity 10000000000000000000000000000000000000000 "" "\ud800" {} [] {"":{}} {"?":1}
{"S":7} {"S":"\ud800"} {"S":"a","N":"1"} {"N":"NaN"} {"N":"sNaN"} {"N":"-Infinity"} {"N":"1e999999999"}
{"N":""}
{"N":1} {"N":1.5} {"N":"99999999999999999999999999999999999999999"} {"B":"!"} {"B":"eA"} {"B":"eA=="}
{"BS":"x"}
{"SS":["a","a"]} {"SS":[["a"]]} {"NS":[]} {"NS":["1","1.0","x"]} {"NULL":false} {"BOOL":"x"} {"L":1} {"M":[]}
"""
odd = st.sampled_from(ODD.split()).map(json.loads)
nests = st.builds(nest, st.sampled_from([5, 40, 990, 3000]), st.sampled_from("LM["))
long = st.builds(
    lambda kind, n: "x" * n if kind == "text" else 10 ** (n // 80),
    st.sampled_from(["text", "number"]),
    st.sampled_from([3000, 400_000]),
)
junk = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | texts | odd | nests | long,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=8,
)


@st.composite
def players(draw: st.DrawFn) -> Item:
    """Draw a player's progress in a challenge, also of other versions and of none."""
    pk = draw(st.sampled_from(["CHALLENGE#c#PLAYER#p", "CHALLENGE#c", "CHALLENGE#", "CHALLENGE##PLAYER#"]))
    wrong = ["2", "", None, True, [2], {"a": 1}, {2}, Decimal("1.5"), 10**30, b"2"]
    found = st.integers(-1, 101) | st.sampled_from(wrong)
    kept = draw(st.fixed_dictionaries({}, optional={"found": found, "latest": st.integers(0, 10**13)}))
    return {"pk": pk, "sk": draw(st.sampled_from(["PROGRESS", "PATH#p", "STATISTICS"])), **kept}


@st.composite
def remarks(draw: st.DrawFn) -> Item:
    """Draw an item of a product's: a comment, rightly or not, a count, an author's place."""
    sort = draw(
        st.sampled_from(["COMMENT#1", "COMMENT#2", "HIDDEN#1", "S", "S#en", "AUTHOR#a", "COMMENT", ""])
    )
    fields = {
        "rating": st.integers(1, 5) | st.sampled_from([0, 6, True, Decimal("4.5"), "5"]),
        "language": st.sampled_from(["en", "en", "pt-BR", "EN", "no tag", "x" * 400, 7]),
        "text": texts | st.sampled_from([None, 7, "x" * 5000]),
        "revision": st.integers(0, 3),
    }
    more = st.fixed_dictionaries(fields) | st.fixed_dictionaries({}, optional=fields)
    return {"pk": draw(st.sampled_from(["PRODUCT#a", "PRODUCT#b", "PRODUCT#"])), "sk": sort, **draw(more)}


@st.composite
def pages(draw: st.DrawFn) -> Item:
    """Draw an item of a page, of the kinds that the table holds, and of some that it does not."""
    url = draw(
        st.sampled_from(
            ["https://a.example/", "https://b.example/x", "https://b.example/\ud800", "http://[", "x" * 2040]
        )
    )
    sort = draw(
        st.sampled_from(
            [
                *("T#2026-11-21T10:00:00.000000Z#CID#c", "T#2026-11-21T10:00:00.000000Z#CID#" + "c" * 1000),
                *("T#9999-12-31T23:59:59.999999Z#CID#c", "T#yesterday#CID#c", "T#", "VISITOR#2026-11-21#c"),
                *("VISITOR#", "VISITOR", "STATISTICS", "DAY#2026-11-21", "", "\x00"),
            ]
        )
    )
    more = st.fixed_dictionaries(
        {},
        optional={
            "kept": st.just(True),
            "days": st.integers(-(10**20), 10**20) | st.just(400),
            "ttl": st.integers(-(10**20), 10**20) | st.just(1_800_000_000),
            "hours": st.sets(st.integers(0, 23), min_size=1)
            | st.sets(st.integers(-(10**30), 10**30), min_size=1, max_size=150),
            "blob": st.binary(max_size=20),
        },
    )
    return {"pk": f"URL#{url}", "sk": sort, **draw(more)}


def items() -> st.SearchStrategy[Item]:
    """Draw an item of any feature."""
    return pages() | players() | remarks()


@st.composite
def changes(draw: st.DrawFn) -> dict[str, Any]:
    """Draw a stream record as Lambda passes it."""
    old, new = draw(st.none() | items()), draw(st.none() | items())
    made = record(old, new, second=draw(st.integers(0, 2**40)), eventID=draw(st.uuids(version=4)).hex)
    if draw(st.integers(0, 5)) == 0:
        made["userIdentity"] = {"type": "Service", "principalId": "dynamodb.amazonaws.com"}
    return made


@st.composite
def mutants(draw: st.DrawFn, valid: st.SearchStrategy[Any]) -> Any:
    """Draw a valid value and drop, replace, retype, rename or repeat parts of it, at any depth."""
    whole = {"": copy.deepcopy(draw(valid))}
    for _ in range(draw(st.integers(1, 3))):
        place: Any = whole
        key: Any = ""
        while isinstance(place[key], dict | list) and place[key] and (place is whole or draw(st.booleans())):
            place = place[key]
            key = draw(st.sampled_from(list(place if isinstance(place, dict) else range(len(place)))))
        what = draw(st.sampled_from(["drop", "odd", "junk", "text", "list", "again"]))
        if what == "drop" and place is not whole:
            del place[key]
        elif what == "again" and isinstance(place, list):
            place.append(place[key])
        elif what == "again" and isinstance(place, dict) and place is not whole:
            place[draw(texts)] = place[key]
        elif what == "text":
            place[key] = place[key] if isinstance(place[key], str) else "text"
        else:
            place[key] = (
                [place[key]] if what == "list" else draw(odd | nests | long if what == "odd" else junk)
            )
    return whole[""]


records = changes() | mutants(changes()) | junk | st.fixed_dictionaries({"dynamodb": junk})


def shuffled(value: Any, depth: int = 60) -> Any:
    """Turn the order of every dict around, as far down as a record of DynamoDB's can reach."""
    if isinstance(value, dict) and depth:
        return {name: shuffled(value[name], depth - 1) for name in reversed(value)}
    return [shuffled(part, depth - 1) for part in value] if isinstance(value, list) and depth else value


def view(i: int, client: str = "") -> dict[str, str]:
    time = datetime.now(UTC).replace(microsecond=0) - timedelta(seconds=i)
    return {"url": PAGE, "time": time.isoformat(), "clientId": client or f"c{i}"}


def good(n: int) -> list[dict[str, Any]]:
    """Build the records of n views of a page."""
    table: Any = Memory()
    seen = [View(PAGE, NOW - timedelta(seconds=i), f"c{i % 3}") for i in range(n)]
    views.write(new_context(table, NOW), seen)
    return [record | {"eventID": f"good-{i}"} for i, record in enumerate(table.stream)]


def named(garbage: Sequence[Any]) -> list[Any]:
    """Rename records that claim an id, one name each; indistinguishable records share one name."""
    found = []
    for i, content in enumerate(garbage):
        if isinstance(content, dict) and (
            content.get("eventID") or "cannot be written" in quarantine.serialize(content)
        ):
            content = content | {"eventID": f"garbage-{i}"}
        found.append(content)
    return found


# -- stream records ------------------------------------------------------------------------------------


def test_a_record_of_any_shape_is_computed_and_the_same_way_each_time(fuzz: Fuzz) -> None:
    @fuzz(200)
    @given(records)
    def property(record: Any) -> None:
        first, again, turned = (
            engine.compute(FEATURES, given) for given in (record, record, shuffled(record))
        )
        assert (first.id, first.tag) == (turned.id, turned.tag) == (again.id, again.tag)
        assert first.sums == again.sums
        assert [(bad.sign, bad.reason) for bad in first.poison] == [
            (bad.sign, bad.reason) for bad in again.poison
        ]


def test_a_number_of_more_zeros_than_fit_into_memory_stays_as_it_is_written() -> None:
    assert unpack({"n": {"N": "1e999999999"}, "m": {"N": "1E+125"}}) == {
        "n": Decimal("1e999999999"),
        "m": 10**125,
    }


def delivered(table: Table | Memory, batches: Iterable[Sequence[Any]]) -> None:
    """Deliver batches as Lambda does. A batch that fails is delivered again.

    The creation times are random, so no tag may be dropped because its record has left the stream.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tags, "RETENTION", 2**32)
        patch.setattr(app, "connect", lambda: table)
        for batch in batches:
            for attempt in range(100):
                try:
                    app.apply({"Records": list(batch)}, None)
                    break
                except Busy:
                    assert attempt < 99


def portions(whole: Sequence[Any], chance: random.Random) -> Iterator[Sequence[Any]]:
    """Split a shuffled batch with repeated records into portions."""
    mixed = chance.sample(whole, len(whole)) + chance.choices(whole, k=len(whole) // 2)
    while mixed:
        size = chance.randint(1, len(mixed))
        yield mixed[:size]
        mixed = mixed[size:]


def test_among_garbage_every_good_record_counts_once_however_they_are_delivered(fuzz: Fuzz) -> None:
    @fuzz(60)
    @given(
        st.integers(1, 12),
        st.lists(records, min_size=1, max_size=8).map(named),
        st.lists(st.sampled_from(["", "", "before", "after"]), max_size=20),
        st.randoms(use_true_random=False),
    )
    def property(n: int, garbage: list[Any], busy: list[str], chance: random.Random) -> None:
        batch = [*good(n), *garbage]
        once, mixed = Memory(), Memory(busy)
        delivered(once, [batch])
        kept = state(once.items.values())
        assert kept[views.page_key(PAGE)]["views"] == n
        assert kept[views.day_key(PAGE, NOW.date().isoformat())]["views"] == n
        delivered(once, [batch])
        assert state(once.items.values()) == kept
        delivered(mixed, portions(batch, chance))
        assert state(mixed.items.values()) == kept
        each = {record.id: record for record in (engine.compute(FEATURES, given) for given in garbage)}
        entries = {key for key in kept if key.pk.startswith("QUARANTINE#")}
        for computed in each.values():
            for bad in computed.poison:
                assert quarantine.item_key(computed.tag, computed.second, bad.sign) in entries
            refused = [
                tags.make_tag(f"{computed.id} {key.pk} {key.sk}", computed.second) for key, _ in computed.sums
            ]
            entries -= {
                quarantine.item_key(tag, computed.second, sign)
                for tag in (computed.tag, *refused)
                for _, sign in computed.images
            }
        assert not entries


def test_garbage_beside_good_records_on_an_engines_table(fuzz: Fuzz) -> None:
    with mock_aws():
        client = boto3.client("dynamodb")
        numbers = iter(range(10**6))

        @fuzz(8)
        @given(st.lists(records, min_size=1, max_size=4).map(named))
        def property(garbage: list[Any]) -> None:
            name = f"test-fuzz-{next(numbers)}"
            create_table(client, "dev", name)
            table, twin = Table(name, client, pause=lambda _: None), Memory()
            batch = [*good(5), *garbage]
            for target in (table, table, twin):
                delivered(target, [batch])
            sums = [
                {k: v for k, v in state(found).items() if not k.pk.startswith(("GUARD", "QUARANTINE"))}
                for found in (scan(table), twin.items.values())
            ]
            assert sums[0] == sums[1]
            client.delete_table(TableName=name)


# -- queue bodies --------------------------------------------------------------------------------------

repeated = st.builds(
    lambda text, n: text * n, st.sampled_from(["[", '{"a":', "x", "\ud800", "é"]), st.integers(1, 200_000)
)
bodies = (
    texts
    | repeated
    | mutants(st.builds(lambda: view(1))).map(lambda value: quarantine.serialize(value))
    | mutants(st.builds(lambda: {"events": [view(1), view(2)]})).map(
        lambda value: quarantine.serialize(value)
    )
    | st.sampled_from(["1e999999999999999999999", "-1e99999999", '"\\ud800"', "\ud800", "NaN", "None", ""])
    | st.integers(2, 20_000).map(
        lambda n: "{" + "".join(f'"{i}":0,' for i in range(n)) + f'"{n - 1}":0' + "}"
    )
)


def test_valid_messages_are_written_and_the_others_are_reported(fuzz: Fuzz) -> None:
    @fuzz(60)
    @given(st.lists(bodies, max_size=9), st.lists(junk, max_size=2), st.randoms(use_true_random=False))
    def property(bad: list[str], shapeless: list[Any], chance: random.Random) -> None:
        kept = {"messageId": "good", "body": json.dumps({"events": [view(i) for i in range(3)]})}
        odd = [{"messageId": f"m{i}", "body": body} for i, body in enumerate(bad)]
        messages = chance.sample(
            [kept, *odd, *shapeless, {"messageId": "empty"}], len(odd) + len(shapeless) + 2
        )
        with pytest.MonkeyPatch.context() as patch:

            def failures(table: Memory, records: list[Any]) -> set[str]:
                patch.setattr(app, "connect", lambda: table)
                report = app.write_views({"Records": records}, None)
                return {failure["itemIdentifier"] for failure in report["batchItemFailures"]}

            alone = {"empty"}.union(*(failures(Memory(), [event]) for event in odd))
            table = Memory()
            failed = failures(table, messages)
        named = {event["messageId"] for event in (kept, *odd)} | {"empty"}
        assert failed & named == alone
        assert all(failed)  # a failure without a name would be a failure of all
        assert sum(item["pk"] == f"URL#{PAGE}" for item in table.items.values()) >= 3


def test_an_event_of_any_notation_is_a_view_or_gets_its_reason(fuzz: Fuzz) -> None:
    """An exception would also lose the other events of the message."""
    urls = st.builds(
        "".join, st.tuples(st.sampled_from(["http://", "https://", "HTTP:", "//", ""]), texts, texts)
    )
    hosts = st.text("ab.:[]%@/?#xn-é\u2024\u3002١", max_size=20).map(lambda text: f"https://{text}")
    times = texts | st.from_regex(
        r"\d{4}-?\d\d-?\d\d[T ]\d\d:?\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:?\d\d)", fullmatch=True
    )

    @fuzz(200)
    @given(st.one_of(urls, hosts, junk), st.one_of(times, junk), st.one_of(texts, junk))
    def property(url: Any, time: Any, client: Any) -> None:
        event = {"url": url, "time": time, "clientId": client}
        for sent in (
            event,
            view(1) | {"url": url},
            view(1) | {"time": time},
            view(1) | {"clientId": client},
            url,
        ):
            seen = check(sent, Settings(), NOW)
            assert isinstance(seen, View) or seen in get_args(Reason)


# -- socket frames -------------------------------------------------------------------------------------

frames = (
    bodies
    | texts.map(lambda text: json.dumps({"action": text}))
    | mutants(st.just({"action": "message", "text": "hello"})).map(lambda value: quarantine.serialize(value))
)


class Sent:
    """A session whose client stores the posted frames."""

    def __init__(self) -> None:
        self.frames: list[str] = []
        self.closed = 0

    def client(self, *_: Any, **__: Any) -> Sent:
        return self

    def post_to_connection(self, Data: str, ConnectionId: str) -> None:  # noqa: N803 (boto3's names)
        assert ConnectionId == "c"
        self.frames.append(Data)

    def delete_connection(self, ConnectionId: str) -> None:  # noqa: N803
        assert ConnectionId == "c"
        self.closed += 1


@pytest.mark.security
def test_a_frame_of_any_content_gets_one_reply_with_a_known_code(
    fuzz: Fuzz, dev_table: template.Table
) -> None:
    """The connection is unknown, so a valid frame closes it, and any other frame gets an error."""
    sent = Sent()
    context = {"apiId": "a", "stage": "api", "domainName": "d.example", "connectionId": "c"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(app.app, "websocket_api", copy.copy(app.app.websocket_api))
        handler: Any = app.socket_message
        patch.setattr(handler, "websocket_api", app.app.websocket_api, raising=False)
        app.app.websocket_api.session = sent
        app.app.websocket_api._client = None

        @fuzz(200)
        @given(frames | st.none())
        def property(body: str | None) -> None:
            sent.frames.clear()
            sent.closed = 0
            assert app.socket_message({"requestContext": context, "body": body}, None) == {"statusCode": 200}
            assert (sent.frames, sent.closed) == ([], 1)
