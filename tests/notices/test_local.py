"""A local run prints the notices, and keeps the last hundred."""

from __future__ import annotations

import json
from pathlib import Path

from local.notices import ARN, LocalTopic
from tests.notices.test_notices import SUBJECT_RULE
from tests.support.running import Run, until


def test_a_local_run_lists_its_notices(tmp_path: Path) -> None:
    with Run(tmp_path / "run", "--no-reload") as run:
        _, guest = run.call("POST", "/guests", {"name": "Ann"})
        body = {"rating": 5, "language": "en", "text": "Fits well."}
        assert run.call("POST", "/products/hat/comments", body, token=guest["token"])[0] == 201

        def listed() -> object:
            return run.call("GET", "/local/notices")[1]["items"]

        [notice] = until(listed, "a notice")
    assert notice["kind"] == "comment"
    assert notice["subject"] == "Hubbub local: New comment on hat"
    assert len(notice["subject"]) <= SUBJECT_RULE
    assert notice["text"].startswith("Ann (")
    assert notice["data"]["text"] == "Fits well."


def test_a_hundred_notices_are_kept() -> None:
    topic = LocalTopic()
    for number in range(101):
        whole = {"id": str(number), "metadata": {"additionalContext": {}}}
        message = json.dumps({"default": json.dumps(whole), "email": "a text"})
        kind = {"kind": {"DataType": "String", "StringValue": "comment"}}
        entry = {"Id": "0", "Subject": "a", "Message": message, "MessageAttributes": kind}
        topic.publish_batch(TopicArn=ARN, PublishBatchRequestEntries=[entry])
    ids = [notice["id"] for notice in topic.list_newest()]
    assert (len(ids), ids[0], ids[-1]) == (100, "100", "1")
