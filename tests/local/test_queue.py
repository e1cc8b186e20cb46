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


def test_messages_are_delivered_in_batches_and_deleted(tmp_path: Path) -> None:
    queue, seen = LocalQueue(tmp_path), list[str]()
    pump = QueuePump(queue, QUEUE, failing(seen=seen))
    woken: list[bool] = []
    queue.wake = lambda: woken.append(True)
    send(queue, *map(str, range(12)))
    assert woken == [True]
    assert [pump.step() for _ in range(3)] == [True, True, False]
    assert seen == [str(i) for i in range(12)]


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


def test_a_message_that_a_killed_run_had_received_comes_again(tmp_path: Path) -> None:
    send(LocalQueue(tmp_path), "a")
    for _ in range(2):
        queue = LocalQueue(tmp_path)
        [message] = queue.receive_message(MaxNumberOfMessages=10)["Messages"]
        assert queue.receive_message(MaxNumberOfMessages=10)["Messages"] == []
    queue.delete_message_batch(QueueUrl=QUEUE.url, Entries=[message])
    assert LocalQueue(tmp_path).receive_message(MaxNumberOfMessages=10)["Messages"] == []
