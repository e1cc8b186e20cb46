"""The topic of a local run: it prints each notice, and keeps the last hundred for `GET /local/notices`."""

from __future__ import annotations

import json
import sys
from collections import deque
from datetime import UTC, datetime
from typing import Any

from chalicelib import times

ARN = "arn:aws:sns:us-east-1:000000000000:hubbub-local-notices"
KEPT = 100


class LocalTopic:
    """The part of an SNS client that publishes, for this process alone."""

    def __init__(self) -> None:
        self._kept: deque[dict[str, Any]] = deque(maxlen=KEPT)

    def publish_batch(self, *, TopicArn: str, PublishBatchRequestEntries: list[Any]) -> dict[str, Any]:  # noqa: N803 (boto3's names)
        """Print the notices and keep them."""
        for entry in PublishBatchRequestEntries:
            message = json.loads(entry["Message"])
            whole = json.loads(message["default"])
            notice = {
                "id": whole["id"],
                "kind": entry["MessageAttributes"]["kind"]["StringValue"],
                "time": times.to_iso(datetime.now(UTC)),
                "subject": entry["Subject"],
                "text": message["email"],
                "data": whole["metadata"]["additionalContext"],
            }
            self._kept.appendleft(notice)
            print(f"notice   {notice['subject']}", file=sys.stderr, flush=True)
        return {"Successful": [{"Id": entry["Id"]} for entry in PublishBatchRequestEntries]}

    def list_newest(self) -> list[dict[str, Any]]:
        """Return the last notices, newest first."""
        return list(self._kept)
