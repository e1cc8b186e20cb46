"""The views queue of a local run: a table in the data folder, with the calls of SQS that Hubbub makes.

A received message is hidden, and delivered again unless it is deleted. After as many failures as the template
allows it is a dead letter, which stays in the table and is not delivered again. A message is on disk before
the sender's call returns. A run is the only receiver, so the next run delivers hidden messages at its start.
"""

from __future__ import annotations

import json
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ops.aws.template import Queue, definition

FILE = "queue.db"
QUEUE = Queue("hubbub-local-views", "local", "arn:aws:sqs:us-east-1:000000000000:hubbub-local-views")


class LocalQueue:
    """A queue in a data folder. `wake` is called after messages were sent."""

    def __init__(self, data: Path) -> None:
        self.wake: Callable[[], None] = lambda: None
        properties = definition("local").views_queue
        self._hidden = float(properties["VisibilityTimeout"])
        self._receives = int(properties["RedrivePolicy"]["maxReceiveCount"])
        self._lock = threading.Lock()  # threads share the connection
        self._database = sqlite3.connect(data / FILE, check_same_thread=False, isolation_level=None)
        self._database.execute(
            "CREATE TABLE IF NOT EXISTS messages"
            " (id INTEGER PRIMARY KEY, body TEXT, visible REAL DEFAULT 0, receives INTEGER DEFAULT 0)"
        )
        self._database.execute("UPDATE messages SET visible = 0")

    def send_message_batch(self, *, QueueUrl: str, Entries: Sequence[Any]) -> dict[str, Any]:  # noqa: N803
        """Store messages, all or none."""
        bodies = json.dumps([entry["MessageBody"] for entry in Entries])
        with self._lock:
            self._database.execute("INSERT INTO messages (body) SELECT value FROM json_each(?)", [bodies])
        self.wake()
        return {}

    def receive_message(self, *, MaxNumberOfMessages: int, **_: Any) -> dict[str, Any]:  # noqa: N803
        """Return the oldest visible messages, and hide them."""
        now = time.time()
        with self._lock:
            rows = self._database.execute(
                "UPDATE messages SET visible = ?, receives = receives + 1 WHERE id IN"
                " (SELECT id FROM messages WHERE visible <= ? AND receives < ? ORDER BY id LIMIT ?)"
                " RETURNING id, body",
                [now + self._hidden, now, self._receives, MaxNumberOfMessages],
            ).fetchall()
        return {
            "Messages": [{"MessageId": str(id), "ReceiptHandle": str(id), "Body": body} for id, body in rows]
        }

    def delete_message_batch(self, *, QueueUrl: str, Entries: Sequence[Any]) -> dict[str, Any]:  # noqa: N803
        """Delete messages that were received."""
        handles = json.dumps([int(entry["ReceiptHandle"]) for entry in Entries])
        with self._lock:
            self._database.execute(
                "DELETE FROM messages WHERE id IN (SELECT value FROM json_each(?))", [handles]
            )
        return {}
