"""The queue of a local run delivers each message at least once, as SQS does."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from local.event_sources import QueuePump
from local.queue import QUEUE, LocalQueue


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time, in seconds."""
    now = [1000.0]
    monkeypatch.setattr("time.time", lambda: now[0])
    return now


def send(queue: LocalQueue, *bodies: str) -> None:
    entries = [{"Id": str(i), "MessageBody": body} for i, body in enumerate(bodies)]
    assert queue.send_message_batch(QueueUrl=QUEUE.url, Entries=entries) == {}


def failing(*bodies: str, seen: list[str]) -> Callable[[Any, Any], Any]:
    """Return a handler that fails for these bodies."""

    def handle(event: Any, _: Any) -> Any:
        seen.extend(record["body"] for record in event["Records"])
        failed = [record["messageId"] for record in event["Records"] if record["body"] in bodies]
        return {"batchItemFailures": [{"itemIdentifier": id} for id in failed]}

    return handle


def test_a_sender_wakes_the_pump_once_for_its_messages(tmp_path: Path) -> None:
    queue, woken = LocalQueue(tmp_path), list[bool]()
    queue.wake = lambda: woken.append(True)
    send(queue, *map(str, range(12)))
    assert woken == [True]


def test_a_failed_message_comes_again_and_is_given_up_after_five_times(
    tmp_path: Path, clock: list[float]
) -> None:
    queue, seen = LocalQueue(tmp_path), list[str]()
    pump = QueuePump(queue, QUEUE, failing("bad", seen=seen))
    send(queue, "bad", "good")
    assert pump.step()
    assert not pump.step(), "it is hidden"
    for _ in range(10):
        clock[0] += 180
        pump.step()
    assert seen == ["bad", "good", *["bad"] * 4]


def test_a_handler_that_raises_fails_all_its_messages(tmp_path: Path, clock: list[float]) -> None:
    queue, seen = LocalQueue(tmp_path), list[str]()
    send(queue, "a", "b")

    def fail(event: Any, _: Any) -> Any:
        raise RuntimeError("not now")

    with pytest.raises(RuntimeError):
        QueuePump(queue, QUEUE, fail).step()
    clock[0] += 180
    assert QueuePump(queue, QUEUE, failing(seen=seen)).step()
    assert seen == ["a", "b"]


def test_a_stopped_pump_first_delivers_the_waiting_messages_in_tens(tmp_path: Path) -> None:
    queue, sizes = LocalQueue(tmp_path), list[int]()
    send(queue, *map(str, range(25)))
    pump = QueuePump(queue, QUEUE, lambda event, _: sizes.append(len(event["Records"])))
    pump.start()
    assert pump.stop()
    assert sizes == [10, 10, 5]


def test_a_message_has_the_format_of_lambda(tmp_path: Path) -> None:
    queue, events = LocalQueue(tmp_path), list[Any]()
    send(queue, "a")
    QueuePump(queue, QUEUE, lambda event, _: events.append(event)).step()
    [message] = events[0]["Records"]
    fields = {"messageId": "1", "receiptHandle": "1", "body": "a", "md5OfBody": ""}
    fields |= {"eventSource": "aws:sqs", "eventSourceARN": QUEUE.arn, "awsRegion": "us-east-1"}
    assert message == fields | {"attributes": {}, "messageAttributes": {}}


def test_a_message_that_a_killed_run_had_received_comes_again(tmp_path: Path) -> None:
    send(LocalQueue(tmp_path), "a")
    for _ in range(2):
        queue = LocalQueue(tmp_path)
        [message] = queue.receive_message(MaxNumberOfMessages=10)["Messages"]
        assert queue.receive_message(MaxNumberOfMessages=10)["Messages"] == []
    queue.delete_message_batch(QueueUrl=QUEUE.url, Entries=[message])
    assert LocalQueue(tmp_path).receive_message(MaxNumberOfMessages=10)["Messages"] == []
