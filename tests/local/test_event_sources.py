"""A pump delivers every record at least once, in the order of its shard, in Lambda's format."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from local import event_sources
from local.event_sources import Pump, StreamPump
from ops.maintenance.streams import Stream
from tests.support.streams import FakeStream, failure

ARN = "arn:aws:dynamodb:us-east-1:000000000000:table/hubbub-local/stream/2026-01-01T00:00:00.000"
Event = dict[str, Any]


class Taker:
    """A handler that records its batches, and raises a given number of times."""

    def __init__(self, failures: int = 0) -> None:
        self.failures = failures
        self.batches: list[str] = []

    def __call__(self, event: Event, context: Any) -> None:
        self.batches.append("".join(record["dynamodb"]["Keys"]["pk"]["S"] for record in event["Records"]))
        if self.failures:
            self.failures -= 1
            raise RuntimeError("not now")


def pump_of(
    stream: FakeStream, handler: Callable[[Event, Any], Any], checkpoint: Path | None = None, size: int = 2
) -> StreamPump:
    fake: Any = stream
    return StreamPump(Stream(fake, ARN), handler, size, checkpoint)


def drain(pump: StreamPump) -> None:
    while pump.step():
        pass


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_sources, "IDLE", 0.001)
    monkeypatch.setattr(event_sources, "LONGEST_PAUSE", 0.002)


def test_a_pump_continues_after_pages_without_records() -> None:
    """AWS may return empty pages before a page with records. `stop` may leave these to the next start."""

    stream, taker = FakeStream(a=list("12345")), Taker()
    stream.empties = 3
    pump = pump_of(stream, taker)
    steps = [pump.step() for _ in range(16)]
    assert taker.batches == ["12", "34", "5"]
    assert steps.count(True) == 3


def test_a_batch_whose_handler_raises_is_retried_before_later_records() -> None:
    stream, taker = FakeStream(a=list("12345")), Taker(failures=2)
    pump = pump_of(stream, taker)
    for _ in range(2):
        with pytest.raises(RuntimeError):
            pump.step()
        stream.shards["a"].append("6")  # what is new does not make the batch another one
    drain(pump)
    assert taker.batches == ["12", "12", "12", "34", "56", "6"]


def test_a_stopped_pump_first_drains_its_source() -> None:
    stream, taker = FakeStream(a=list("1234567")), Taker()
    pump = pump_of(stream, taker)
    pump.start()
    assert pump.stop()
    assert "".join(taker.batches) == "1234567"


class LastMinute(Pump):
    """A source that gets a record, and is stopped, just after it was found empty."""

    def __init__(self) -> None:
        super().__init__("last minute")
        self.delivered: list[int] = []

    def step(self) -> bool:
        if not self._stopping.is_set():
            self._stopping.set()
            return False
        self.delivered.append(len(self.delivered))
        return len(self.delivered) == 1


def test_a_pump_that_is_stopped_just_after_an_empty_page_reads_once_more() -> None:
    pump = LastMinute()
    pump.start()
    assert pump.stop()
    assert pump.delivered


def test_a_stopped_pump_reports_a_failing_batch_that_it_leaves() -> None:
    taker = Taker(failures=1_000_000)
    pump = pump_of(FakeStream(a=["1"]), taker)
    pump.start()
    assert not pump.stop()


def test_a_stopped_pump_reports_a_handler_that_does_not_return() -> None:
    release = threading.Event()
    pump = pump_of(FakeStream(a=["1"]), lambda event, context: release.wait(10))
    pump.start()
    assert not pump.stop(patience=0.01)
    release.set()


def test_a_pump_continues_after_its_checkpoint(tmp_path: Path) -> None:
    stream, before, after = FakeStream(a=list("123")), Taker(), Taker()
    drain(pump_of(stream, before, tmp_path / "stream.json"))
    stream.shards["a"] += "45"
    drain(pump_of(stream, after, tmp_path / "stream.json"))
    assert (before.batches, after.batches) == (["12", "3"], ["45"])


def test_a_pump_killed_before_its_checkpoint_delivers_the_batch_again(tmp_path: Path) -> None:
    stream, before, after = FakeStream(a=list("1234")), Taker(), Taker()
    killed = pump_of(stream, before, tmp_path / "stream.json")
    killed.step()

    def die(event: Event, context: Any) -> None:
        before(event, context)
        raise SystemExit  # between the handler and the checkpoint

    killed._handler = die
    with pytest.raises(SystemExit):
        killed.step()
    drain(pump_of(stream, after, tmp_path / "stream.json"))
    assert (before.batches, after.batches) == (["12", "34"], ["34"])


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[]",
        "null",
        '{"another stream": {"a": ["1", "1-a-2"]}}',
        json.dumps({ARN: None}),
        json.dumps({ARN: {"a": None}}),
        json.dumps({ARN: {"a": "1"}}),
        json.dumps({ARN: {"a": ["1", "an event of another stream"]}}),
        json.dumps({ARN: {"a": ["999", "1-a-999"]}}),
        b"\xff\xfe",
    ],
)
def test_a_malformed_checkpoint_is_ignored(tmp_path: Path, content: str | bytes) -> None:
    checkpoint, taker = tmp_path / "stream.json", Taker()
    checkpoint.write_bytes(content.encode() if isinstance(content, str) else content)
    drain(pump_of(FakeStream(a=list("123")), taker, checkpoint))
    assert taker.batches == ["12", "3"]
    again = Taker()
    drain(pump_of(FakeStream(a=list("1234")), again, checkpoint))
    assert again.batches == ["4"]


def test_a_checkpoint_of_lost_records_is_ignored(tmp_path: Path) -> None:
    stream, before, after = FakeStream(a=list("123")), Taker(), Taker()
    drain(pump_of(stream, before, tmp_path / "stream.json"))
    stream.generation = 2  # killed, and back where it started: other records have these numbers now
    drain(pump_of(stream, after, tmp_path / "stream.json"))
    assert after.batches == before.batches


def test_a_trimmed_checkpoint_starts_at_the_oldest_record(tmp_path: Path) -> None:
    stream, taker = FakeStream(a=list("123456")), Taker()
    pump_of(stream, Taker(), tmp_path / "stream.json").step()
    stream.trimmed = 4
    drain(pump_of(stream, taker, tmp_path / "stream.json"))
    assert taker.batches == ["56"]


@pytest.mark.parametrize("code", ["ExpiredIteratorException", "TrimmedDataAccessException"])
def test_an_iterator_that_has_expired_is_replaced(code: str) -> None:
    stream, taker = FakeStream(a=list("1234")), Taker()
    pump = pump_of(stream, taker)
    pump.step()
    stream.fails_once.append(failure(code))
    with pytest.raises(ClientError):
        pump.step()
    drain(pump)
    assert taker.batches == ["12", "34"]


def test_the_children_of_a_shard_are_read_after_it() -> None:
    stream, taker = FakeStream(a=list("123"), a_b=list("45"), a_c=list("67"), a_b_d=list("89")), Taker()
    stream.closed = {"a", "a_b"}
    drain(pump_of(stream, taker))
    order = "".join(taker.batches)
    assert sorted(order) == list("123456789")
    assert order.index("3") < min(order.index("4"), order.index("6"))
    assert order.index("5") < order.index("8")


def test_a_shard_that_closes_later_is_followed_by_its_children_while_others_are_read() -> None:
    stream, taker = FakeStream(a=list("1"), z=list("2")), Taker()
    pump = pump_of(stream, taker)
    drain(pump)
    stream.shards["a_b"] = ["3"]
    stream.closed.add("a")
    stream.shards["z"].append("4")
    drain(pump)
    assert sorted(taker.batches) == ["1", "2", "3", "4"]


def test_a_closed_shard_is_not_read_again_after_a_restart(tmp_path: Path) -> None:
    stream, taker = FakeStream(a=list("12"), a_b=list("3")), Taker()
    stream.closed = {"a"}
    drain(pump_of(stream, taker, tmp_path / "stream.json"))
    drain(pump_of(stream, taker, tmp_path / "stream.json"))
    assert taker.batches == ["12", "3"]


def test_a_record_has_the_format_of_lambda() -> None:
    events: list[Event] = []
    created = datetime(2026, 1, 1, tzinfo=UTC)
    streams: Any = FakeStream(a=["1"])
    streams.get_records = lambda ShardIterator, Limit: {  # noqa: N803
        "Records": [
            {
                "eventID": "e",
                "eventName": "REMOVE",
                "userIdentity": {"Type": "Service", "PrincipalId": "dynamodb.amazonaws.com"},
                "dynamodb": {
                    "ApproximateCreationDateTime": created,
                    "SequenceNumber": "1",
                    "OldImage": {
                        "b": {"B": b"\x00\xff"},
                        "many": {"BS": [b"a"]},
                        "in": {"M": {"x": {"B": b"b"}}},
                    },
                },
            }
        ]
    }
    pump_of(streams, lambda event, context: events.append(event)).step()
    assert events == [
        {
            "Records": [
                {
                    "eventID": "e",
                    "eventName": "REMOVE",
                    "eventSourceARN": ARN,
                    "userIdentity": {"type": "Service", "principalId": "dynamodb.amazonaws.com"},
                    "dynamodb": {
                        "ApproximateCreationDateTime": created.timestamp(),
                        "SequenceNumber": "1",
                        "OldImage": {
                            "b": {"B": "AP8="},
                            "many": {"BS": ["YQ=="]},
                            "in": {"M": {"x": {"B": "Yg=="}}},
                        },
                    },
                }
            ]
        }
    ]


def test_a_pump_that_begins_with_new_records_reads_no_older_ones() -> None:
    stream, taker = FakeStream(a=["1", "2"]), Taker()
    fake: Any = stream
    pump = StreamPump(Stream(fake, ARN), taker, 2, begins="LATEST")
    assert not pump.step()
    stream.shards["a"] += ["3"]
    drain(pump)
    assert taker.batches == ["3"]


def test_a_pump_cannot_continue_after_a_record_that_left_the_stream(tmp_path: Path) -> None:
    stream, checkpoint = FakeStream(a=list("123456")), tmp_path / "stream.json"
    assert not pump_of(stream, Taker(), checkpoint).is_continuous()  # without a checkpoint
    pump_of(stream, Taker(), checkpoint).step()
    assert pump_of(stream, Taker(), checkpoint).is_continuous()
    stream.trimmed = 4
    behind, taker = pump_of(stream, Taker(), checkpoint), Taker()
    assert not behind.is_continuous()
    behind.saves = False  # as while the sums are recounted
    drain(behind)
    assert not pump_of(stream, Taker(), checkpoint).is_continuous(), "an interrupted recount begins again"
    behind.save()
    assert pump_of(stream, taker, checkpoint).is_continuous()
    drain(pump_of(stream, taker, checkpoint))
    assert taker.batches == []


def test_a_pump_that_is_woken_reads_at_once_and_otherwise_waits() -> None:
    stream, delivered = FakeStream(a=["1"]), threading.Semaphore(0)
    pump = pump_of(stream, lambda event, context: delivered.release())
    pump.idle = 60
    pump.start()
    assert delivered.acquire(timeout=10)
    stream.shards["a"].append("2")
    assert not delivered.acquire(timeout=0.05)
    pump.wake()
    assert delivered.acquire(timeout=10)
    stream.shards["a"].append("3")
    assert pump.stop()
    assert delivered.acquire(timeout=0)
