"""Notices: what has happened reaches the topic once, and never delays a count."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError

import app
from chalicelib import feature as features
from chalicelib import settings, times, ulids
from chalicelib.comments import comments
from chalicelib.comments.schemas import CommentBody
from chalicelib.dynamo import retries
from chalicelib.dynamo.items import Item, Key
from chalicelib.feature import Notice
from chalicelib.leaderboards import boards
from chalicelib.notices import notices, sns
from local import filters
from tests.notices.dearest import dearest  # noqa: F401 (for the tests of the whole app)
from tests.notices.story import COSTS, story  # noqa: F401 (for the tests of the whole app)
from tests.support.records import record, scan
from tests.support.shop import P, Shop
from tests.support.site import Site

ARN = "arn:aws:sns:us-east-1:000000000000:hubbub-dev-notices"
SUBJECT_RULE = 99
"""Subjects must be ASCII text that begins with a letter, number or punctuation mark, must not include line
breaks or control characters, and must be less than 100 characters long: Amazon SNS API Reference, Publish,
Subject. Later versions of that page allow UTF-8 and keep the other rules."""
MESSAGES = 262_144
"""Bytes of all messages of one PublishBatch: Amazon SNS API Reference, PublishBatch."""


INTERNAL = {"Code": "InternalError", "SenderFault": False}


class Topic:
    """A client of SNS whose calls may fail."""

    def __init__(self) -> None:
        self.entries: list[Any] = []
        self.calls = 0
        self.failures: list[Any] = []
        """What the next calls do: an exception is raised, and a dict has the fields of each failed entry."""

    def publish_batch(self, *, TopicArn: str, PublishBatchRequestEntries: list[Any]) -> dict[str, Any]:  # noqa: N803
        assert TopicArn == ARN
        assert len(PublishBatchRequestEntries) <= 10
        self.calls += 1
        failure = self.failures.pop(0) if self.failures else None
        if isinstance(failure, Exception):
            raise failure
        if failure is not None:
            entry = {"Code": "InvalidParameter", "SenderFault": True} | failure
            return {"Failed": [entry | {"Id": sent["Id"]} for sent in PublishBatchRequestEntries]}
        self.entries += PublishBatchRequestEntries
        return {"Successful": [{"Id": entry["Id"]} for entry in PublishBatchRequestEntries]}

    @property
    def kinds(self) -> list[str]:
        return [entry["MessageAttributes"]["kind"]["StringValue"] for entry in self.entries]

    @property
    def texts(self) -> list[str]:
        return [json.loads(entry["Message"])["email"] for entry in self.entries]


@pytest.fixture
def topic(monkeypatch: pytest.MonkeyPatch) -> Topic:
    made = Topic()
    monkeypatch.setattr(sns, "client", lambda _: made)
    monkeypatch.setattr(sns, "PATIENCE", retries.SLOWEST)  # one attempt in a call
    monkeypatch.setattr(app, "stage", settings.current()._replace(notices="on", notice_topic=ARN))
    return made


@pytest.fixture
def shop(site: Site, topic: Topic) -> Shop:
    return Shop(site.table, site.stream, site.http)


def push(records: list[Any]) -> None:
    filters.filtered(app.push, "push")({"Records": records}, None)


def deliver(shop: Shop) -> list[Any]:
    """Deliver the stream to `push` until it is empty. Return the records of the first read."""
    first = records = shop.stream.read_all()
    for _ in range(20):
        push(records)
        if not (records := shop.stream.read_all()):
            return first
    raise AssertionError("the notices do not come to an end")


def unavailable() -> Exception:
    return EndpointConnectionError(endpoint_url="https://sns")


def test_a_new_comment_and_a_reply_are_each_published_once(shop: Shop, topic: Topic) -> None:
    comment = shop.write("me", text="Fits well.")
    shop.call("POST", f"{P}/comments/{comment['id']}/replies", {"text": "Thank you!"}, "shop")
    records = deliver(shop)
    push(records)  # Lambda may deliver a batch again
    assert topic.kinds == ["comment", "reply"]
    assert "me wrote:\n\nFits well.\n\nProduct: garment-767" in topic.texts[0]
    whole = json.loads(json.loads(topic.entries[0]["Message"])["default"])
    assert whole["metadata"]["additionalContext"] == {
        "stage": "local",
        "product": P.removeprefix("/products/"),
        "comment": comment["id"],
        "author": "me",
        "text": "Fits well.",
    }


def test_an_edit_a_vote_and_a_comment_shown_again_are_no_news(shop: Shop, topic: Topic) -> None:
    comment = shop.write("me")
    own = f"{P}/comments/{comment['id']}"
    shop.call("PATCH", own, {"text": "Fits."}, "me")
    shop.call("PUT", f"{own}/vote", who="ann")
    for hidden in (True, False):
        assert shop.call("PATCH", own, {"hidden": hidden}, "admin")[0] == 200
    deliver(shop)
    assert topic.kinds == ["comment"]


def test_an_imported_comment_of_last_year_is_no_news(shop: Shop, topic: Topic) -> None:
    now = datetime.now(UTC)
    body = CommentBody(rating=5, language="en", text="Old.")
    for age in (timedelta(days=365), timedelta(hours=1)):
        item = comments.build_item("imported", ulids.new(now - age), f"{age.days}", body)
        push([record(None, item)])
    assert topic.kinds == ["comment"]


def test_a_notice_waits_for_sns_and_is_published_once(shop: Shop, topic: Topic) -> None:
    shop.write("me")
    topic.failures = [unavailable(), INTERNAL, unavailable()]
    deliver(shop)
    assert topic.kinds == ["comment"]
    [left] = [item for item in scan(shop.table) if item["pk"].startswith("NOTICE#")]
    assert set(left) == {"pk", "sk", "ttl"}, "a published notice keeps no text"


@pytest.mark.parametrize("code", ["Throttled", "ThrottlingException", "KMSThrottling"])
def test_a_throttled_notice_is_sent_again(shop: Shop, topic: Topic, code: str) -> None:
    shop.write("me")
    throttled = {"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": 429}}
    topic.failures = [ClientError(throttled, "PublishBatch"), {"Code": code}]  # type: ignore[arg-type]
    deliver(shop)
    assert (topic.kinds, topic.calls) == (["comment"], 3)


def test_a_refused_notice_is_not_sent_again(shop: Shop, topic: Topic) -> None:
    shop.write("me")
    missing = ClientError({"Error": {"Code": "NotFound", "Message": "no topic"}}, "PublishBatch")
    topic.failures = [missing]
    deliver(shop)
    assert topic.calls == 1
    shop.call("POST", f"{P}/comments/{shop.write('ann')['id']}/replies", {"text": "Hi"}, "me")
    topic.failures = [{}]
    deliver(shop)
    assert topic.calls == 2


def test_a_notice_is_given_up_after_a_day_without_sns(
    shop: Shop, topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.write("me")
    topic.failures = [unavailable()]
    push(shop.stream.read_all())
    [left] = [item for item in scan(shop.table) if item["pk"].startswith("NOTICE#")]
    assert left["pending"] == "comment"
    shop.table.put(left | {"since": left["since"] - 86_401})
    topic.failures = [unavailable()]
    deliver(shop)
    assert topic.kinds == []
    assert "pending" not in (shop.table.get(Key(left["pk"], left["sk"])) or {})


def test_no_failure_of_sns_stops_a_batch(shop: Shop, topic: Topic) -> None:
    for number, failure in enumerate((RuntimeError("a bug"), unavailable(), {}, INTERNAL)):
        shop.write(f"author-{number}")
        topic.failures = [failure]
        push(shop.stream.read_all())
    shop.stream = shop.stream.again()
    shop.settle()
    assert shop.get(f"{P}/statistics")["total"] == 4, "apply is another consumer"


def test_a_crash_after_the_publication_repeats_it_with_the_same_id(
    shop: Shop, topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.write("me")
    records = shop.stream.read_all()
    with monkeypatch.context() as patch:
        patch.setattr(type(shop.table), "batch_put", lambda self, items: list(items) and 1 / 0)
        with pytest.raises(ZeroDivisionError):
            shop.table.batch_put([{"pk": "a", "sk": "b"}])
        push(records)  # the notice is published, and its item is lost
    push(records)
    ids = [json.loads(json.loads(entry["Message"])["default"])["id"] for entry in topic.entries]
    assert len(ids) == 2
    assert len(set(ids)) == 1


def test_the_end_of_a_season_and_a_chat_report_are_published(shop: Shop, topic: Topic) -> None:
    past = boards.season_key("points", 3)._asdict()
    ended = past | {"started": "2026-11-01T00:00:00Z", "ended": "2026-11-25T00:00:00Z"}
    report: Item = {"pk": "REPORTS", "sk": f"{times.to_sort_key(datetime.now(UTC))}#PAIR#1", "lobby": "main"}
    report |= {"reason": "spam", "messages": [{"text": "a secret"}], "ttl": 1}
    push([record(None, ended), record(ended, ended | {"ended": "later"}), record(None, report)])
    assert topic.kinds == ["season", "chat-report"]
    assert "lasted from 2026-11-01T00:00:00Z to 2026-11-25T00:00:00Z" in topic.texts[0]
    assert "Reason: spam" in topic.texts[1]
    assert "secret" not in topic.texts[1]


def test_without_the_setting_nothing_is_published(
    shop: Shop, topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app, "stage", settings.current())
    shop.write("me")
    deliver(shop)
    assert topic.calls == 0
    assert not [item for item in scan(shop.table) if item["pk"].startswith("NOTICE#")]


def test_twelve_of_the_longest_texts_fit_into_two_requests(shop: Shop, topic: Topic) -> None:
    hostile = '\U0001f600"\\\n<&>' * 1_000
    body = CommentBody(rating=5, language="en", text=hostile[:5_000])
    now = datetime.now(UTC)
    items = [comments.build_item("p" * 100, ulids.new(now), f"a{n}", body, "N" * 60) for n in range(12)]
    push([record(None, item) for item in items])
    assert topic.calls == 2
    assert sum(len(entry["Message"].encode()) for entry in topic.entries[:10]) < MESSAGES
    assert all("…" in text for text in topic.texts)


@pytest.mark.parametrize(
    "subject",
    ["", "Ключ 東京", "a" * 500, "line\nbreak\r\n\x07 bell\u2028", "Cafe\u0301 – “quoted”", "\u202e"],
)
def test_a_subject_obeys_the_rule_of_sns(subject: str) -> None:
    made = sns.build_subject("dev", subject)
    assert made.isascii()
    assert made.isprintable()
    assert made[0].isalpha()
    assert 0 < len(made) <= SUBJECT_RULE


def test_a_text_mentions_nobody_in_a_chat() -> None:
    notice = Notice("comment", "a", "b", "<!channel> & <@U1>", {})
    assert sns.build_json("dev", "1", notice)["content"]["description"] == (
        "&lt;!channel&gt; &amp; &lt;@U1&gt;"
    )


def test_a_stage_with_notices_has_at_most_five_filters() -> None:
    assert len(features.filter_patterns(app.FEATURES, "push")) <= 5


def test_the_setting_is_on_or_a_standard_topic() -> None:
    read = settings.read
    assert (read({}).notices, read({"HUBBUB_NOTICES": "off"}).notices) == ("", "")
    assert read({"HUBBUB_NOTICES": ARN}).notice_topic == ARN
    named = read({"HUBBUB_NOTICES": "on", "HUBBUB_NOTICE_TOPIC": ARN})
    assert (named.notices, named.notice_topic) == ("on", ARN)
    for wrong in ("yes", f"{ARN}.fifo", "arn:aws:sqs:us-east-1:000000000000:q"):
        with pytest.raises(ValueError, match="HUBBUB_NOTICES is"):
            read({"HUBBUB_NOTICES": wrong})


def test_a_pending_notice_survives_a_round_trip() -> None:
    notice = Notice("comment", "a", "b", "c", {"d": "e"}, "me")
    assert notices.read(notices._build_pending(notice)) == notice
