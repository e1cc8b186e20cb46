"""The format of a notice at SNS, and the client.

The message is published with `MessageStructure=json`. Mail gets the text, a phone gets the subject, and
every other subscriber (https, a queue, a function) gets the JSON. The JSON has the schema of custom
notifications of Amazon Q Developer in chat applications, which brings it to Slack and Teams. The message
attribute `kind` is for the filter policies of subscriptions.
"""

import html
import json
import time
import unicodedata
from collections.abc import Sequence
from functools import cache, partial
from typing import Any, NamedTuple

from chalicelib.dynamo.items import chunks
from chalicelib.dynamo.retries import CONNECT_TIMEOUT, READ_TIMEOUT, TRANSIENT, budget, retry
from chalicelib.errors import Busy
from chalicelib.feature import Notice
from chalicelib.settings import Settings
from chalicelib.telemetry import logs

BATCH = 10  # messages of one PublishBatch, which takes 256 KB together; a notice has at most 20 KB
LONGEST_SUBJECT = 99  # characters that SNS accepts
PATIENCE = 3.0  # seconds that the failures of one batch may take, while live values wait


class Outcome(NamedTuple):
    """The ids of the notices that SNS has accepted, and of those that it has refused for good."""

    accepted: frozenset[str]
    refused: frozenset[str]


def send(settings: Settings, notices: Sequence[tuple[str, Notice]]) -> Outcome:
    """Publish notices with their ids. Those that are in no set of the outcome may be sent again.

    Never raise. A notice whose response is lost is published again.

    Cost: one request to SNS for each ten notices.
    """
    if not settings.notice_topic:
        logs.logger().error("HUBBUB_NOTICE_TOPIC is not set: run ops provision")
        return Outcome(frozenset(), frozenset(id for id, _ in notices))
    accepted, refused = set[str](), set[str]()
    with budget(PATIENCE):
        for group in chunks(notices, BATCH):
            entries = [build_entry(settings.stage, str(n), *pair) for n, pair in enumerate(group)]
            try:
                call = partial(
                    client(settings).publish_batch,
                    TopicArn=settings.notice_topic,
                    PublishBatchRequestEntries=entries,
                )
                reply = retry(call, time.sleep)
            except Busy as error:
                logs.log_error("SNS is unavailable, so that notices wait", error)
                continue
            except Exception as error:  # a missing topic or permission, for which another attempt is no help
                logs.log_error("SNS refuses the notices", error)
                refused.update(id for id, _ in group)
                continue
            accepted.update(group[int(entry["Id"])][0] for entry in reply.get("Successful", ()))
            failed = [entry for entry in reply.get("Failed", ()) if entry["SenderFault"]]
            # SNS calls a throttle the sender's fault too.
            final = [entry for entry in failed if entry["Code"] not in TRANSIENT]
            refused.update(group[int(entry["Id"])][0] for entry in final)
    return Outcome(frozenset(accepted), frozenset(refused))


def build_entry(stage: str, number: str, id: str, notice: Notice) -> dict[str, Any]:
    """Build the entry of a notice in a PublishBatch."""
    subject = build_subject(stage, notice.subject)
    message = {
        "default": json.dumps(build_json(stage, id, notice), ensure_ascii=False),
        "email": notice.text,
        "sms": subject,
    }
    return {
        "Id": number,
        "Subject": subject,
        "Message": json.dumps(message, ensure_ascii=False),
        "MessageStructure": "json",
        "MessageAttributes": {"kind": {"DataType": "String", "StringValue": notice.kind}},
    }


def build_subject(stage: str, subject: str) -> str:
    r"""Return a subject that SNS accepts: ASCII without control characters, shorter than 100 characters.

    >>> build_subject("dev", "New comment on Café\n東京")
    'Hubbub dev: New comment on Cafe ??'
    """
    folded = "".join(
        letter for letter in unicodedata.normalize("NFKD", subject) if not unicodedata.combining(letter)
    )
    plain = "".join(letter if letter.isprintable() else " " for letter in folded)
    text = " ".join(f"Hubbub {stage}: {plain}".encode("ascii", "replace").decode().split())
    return text if len(text) <= LONGEST_SUBJECT else f"{text[: LONGEST_SUBJECT - 3]}..."


def build_json(stage: str, id: str, notice: Notice) -> dict[str, Any]:
    """Build the JSON of a notice. Its description is escaped, so that a text mentions nobody in a chat."""
    return {
        "version": "1.0",
        "source": "custom",
        "id": id,
        "content": {
            "textType": "client-markdown",
            "title": build_subject(stage, notice.subject),
            "description": html.escape(notice.text, quote=False),
        },
        "metadata": {"eventType": notice.kind, "additionalContext": {"stage": stage, **notice.data}},
    }


@cache
def client(settings: Settings) -> Any:
    """Return the client of SNS in the region of the topic. A local run replaces this function."""
    import boto3  # lazily: only a stage with notices needs this client
    from botocore.config import Config

    config = Config(
        connect_timeout=CONNECT_TIMEOUT,
        read_timeout=5 if settings.endpoint else READ_TIMEOUT,
        retries={"mode": "standard", "total_max_attempts": 1},
    )
    options = {"region_name": settings.notice_topic.split(":")[3]} | settings.client_options()
    make: Any = boto3.session.Session().client
    return make("sns", config=config, **options)
