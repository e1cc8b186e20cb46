"""The policies in `.chalice` are complete and minimal.

Every function does all that it does, on an engine that refuses what its policy does not allow (ministack
with AUTH=true: it checks signatures, and actions on tables, indexes, the items of batches, the parts of
transactions, queues, parameters and connections). What is seen of it is held against the policies. So a
permission that a new feature needs, or that none needs any more, fails here; and one that any other test of
the suite needs fails there (conftest.py).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from unittest import mock

import boto3
import pytest
from botocore.exceptions import ClientError

import app
from chalicelib.aggregates import lag
from chalicelib.challenges import progress
from chalicelib.chat import bans, connections, subscriptions
from chalicelib.comments import comments
from chalicelib.dynamo.items import Key
from chalicelib.leaderboards import scores
from chalicelib.ranking import tree
from chalicelib.settings import Settings
from chalicelib.views import definitions, events
from chalicelib.views.events import View
from ops.aws import features
from ops.aws.template import function_name
from tests.support import permissions
from tests.support.chatting import CONNECTED, DISCONNECTED, text, without_time
from tests.support.contexts import new_context
from tests.support.dev_stage import DevStage, dev_stage
from tests.support.permissions import Permission, Seen
from tests.support.records import record, scan

FEATURES = tuple(feature.name for feature in app.FEATURES if feature.is_named)
FUNCTIONS = sorted(permissions.files())
STREAM = "arn:aws:dynamodb:*:*:table/hubbub-dev/stream/*"
READS_STREAM = {
    Permission(f"dynamodb:{action}", STREAM)
    for action in ("DescribeStream", "GetRecords", "GetShardIterator", "ListStreams")
}
QUEUE = "arn:aws:sqs:*:*:hubbub-dev-views"
PLATFORM = {
    # Lambda reads a stream and a queue as the function that it calls: these are the actions of AWS's
    # AWSLambdaDynamoDBExecutionRole and AWSLambdaSQSQueueExecutionRole, which have them on everything.
    "apply": {
        # … and writes down there which records it gave up.
        Permission("sqs:SendMessage", "arn:aws:sqs:*:*:hubbub-dev-stream-failures"),
        *READS_STREAM,
    },
    "push": READS_STREAM,
    "write_views": {
        Permission(f"sqs:{action}", QUEUE)
        for action in ("ReceiveMessage", "DeleteMessage", "GetQueueAttributes")
    },
}
"""Permissions that no recorded call needs, besides writing logs."""


def platform(function: str) -> set[Permission]:
    """Return the actions of Lambda on behalf of a function: logs (AWSLambdaBasicExecutionRole) and source."""
    group = f"arn:aws:logs:*:*:log-group:/aws/lambda/{function_name('dev', function)}:*"
    logs = {Permission(f"logs:{action}", group) for action in ("CreateLogStream", "PutLogEvents")}
    return logs | PLATFORM.get(function, set())


@pytest.fixture(scope="module")
def stage() -> Iterator[DevStage]:
    with pytest.MonkeyPatch.context() as patch:
        permissions.watch(patch)
        with dev_stage() as stage:
            yield stage


@pytest.fixture(scope="module")
def tour(stage: DevStage) -> set[Seen]:
    """Run every function on all of its work and return the permissions that each needed."""
    with permissions.seen() as calls:
        for feature, run in PARTS:
            with permissions.seen() as own:
                run(stage)
            BY_FEATURE.setdefault(feature, set()).update(own)
    return calls


EVERYTHING = Settings(guests=True, queue=True)
BY_FEATURE: dict[str, set[Seen]] = {}
"""The calls of each feature."""


@pytest.mark.parametrize("feature", FEATURES)
def test_a_stage_with_one_feature_has_the_permissions_of_that_feature_alone(
    feature: str, tour: set[Seen]
) -> None:
    policy = json.loads(permissions.files()["api_handler"].read_text())
    settings = EVERYTHING._replace(features=frozenset({feature}))
    allowed = permissions.parse(features.restrict("api_handler", policy, settings))
    seen = set().union(*(BY_FEATURE.get(feature.name, set()) for feature in features.enabled(settings)))
    needed = {permission.permission for permission in seen if permission.function == "api_handler"}
    assert [permission for permission in needed if not any(own.covers(permission) for own in allowed)] == []
    idle = {own for own in allowed if not any(own.covers(permission) for permission in needed)}
    assert idle == platform("api_handler")


def test_a_stage_with_every_feature_has_the_whole_policy() -> None:
    policy = json.loads(permissions.files()["api_handler"].read_text())
    assert features.restrict("api_handler", policy, EVERYTHING) == policy
    actions = {
        action
        for statement in policy["Statement"]
        if statement["Sid"] == "Table"
        for action in statement["Action"]
    }
    assert frozenset().union(*(feature.actions for feature in app.FEATURES)) == actions


@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_policy_has_nothing_to_add_and_nothing_to_take_away(function: str, tour: set[Seen]) -> None:
    needed = {permission.permission for permission in tour if permission.function == function}
    allowed = set(permissions.allowed(function))
    assert [permission for permission in needed if not any(own.covers(permission) for own in allowed)] == []
    idle = {own for own in allowed if not any(own.covers(permission) for permission in needed)}
    assert idle == platform(function)


def test_a_policy_says_everything_once() -> None:
    for function in FUNCTIONS:
        allowed = permissions.allowed(function)
        assert len(set(allowed)) == len(allowed)


def test_no_two_functions_share_a_policy() -> None:
    assert len(set(permissions.files().values())) == len(FUNCTIONS)


# -- the engine does refuse ----------------------------------------------------------------------------

KEY = {"pk": {"S": "permissions"}, "sk": {"S": "none"}}
QUERY = {
    "TableName": "hubbub-dev",
    "IndexName": "gsi1",
    "KeyConditionExpression": "gsi1pk = :pk",
    "ExpressionAttributeValues": {":pk": {"S": "permissions"}},
}
ONE = {"TableName": "hubbub-dev", "Key": KEY}
BATCH = {"RequestItems": {"hubbub-dev": {"Keys": [KEY]}}}
MESSAGES = {"Entries": [{"Id": "1", "MessageBody": "{}"}]}
NOTICES = {
    "TopicArn": "arn:aws:sns:us-east-1:000000000000:hubbub-dev-notices",
    "PublishBatchRequestEntries": [{"Id": "1", "Message": "a"}],
}
CALLS: list[tuple[str, str, str, str, dict[str, Any]]] = [
    ("sweep", "dynamodb:GetItem", "dynamodb", "GetItem", ONE),
    ("sweep", "dynamodb:Query", "dynamodb", "Query", QUERY),
    ("sweep", "dynamodb:BatchGetItem", "dynamodb", "BatchGetItem", BATCH),
    ("sweep", "dynamodb:DeleteItem", "dynamodb", "TransactWriteItems", {"TransactItems": [{"Delete": ONE}]}),
    ("api_handler", "dynamodb:GetItem", "dynamodb", "TransactGetItems", {"TransactItems": [{"Get": ONE}]}),
    ("api_handler", "sqs:SendMessage", "sqs", "SendMessageBatch", MESSAGES),
    ("push", "sns:Publish", "sns", "PublishBatch", NOTICES),
    ("identify", "ssm:GetParameter", "ssm", "GetParameter", {"Name": "/hubbub/dev/secret"}),
]


DENIED = ("AccessDeniedException", "AccessDenied", "AuthorizationError")


def code(function: str, client: Any, operation: str, asked: Any) -> str:
    """Make a call as a function, without recording it, and return AWS's error code or an empty string."""
    with permissions.run_as(function), permissions.seen() as calls:
        try:
            client._make_api_call(operation, asked)
        except ClientError as error:
            return str(error.response["Error"]["Code"])
        finally:
            calls.clear()
    return ""


def test_the_engine_refuses_a_removed_permission(stage: DevStage) -> None:
    """So what a function does here it does by its policy: one call of each kind."""
    for function, action, service, operation, asked in CALLS:
        asked = asked | ({"QueueUrl": stage.settings.queue_url} if service == "sqs" else {})
        client, whole = stage.engine.client(service), permissions.files()[function].read_text()
        policy = json.loads(whole)
        for statement in policy["Statement"]:
            statement["Action"] = [allowed for allowed in statement["Action"] if allowed != action] or [
                "none:None"
            ]
        assert code(function, client, operation, asked) == "", (function, operation)
        permissions.give(stage.engine, function, json.dumps(policy))
        assert code(function, client, operation, asked) in DENIED, (function, operation)
        permissions.give(stage.engine, function, whole)


def test_the_engine_refuses_another_stages_table_and_parameter(stage: DevStage) -> None:
    dynamodb, ssm = stage.engine.client("dynamodb"), stage.engine.client("ssm")
    assert code("api_handler", dynamodb, "GetItem", ONE | {"TableName": "hubbub-prod"}) in DENIED
    assert code("api_handler", ssm, "GetParameter", {"Name": "/hubbub/prod/secret"}) in DENIED


def test_the_engine_refuses_connection_actions_without_permission(stage: DevStage) -> None:
    """A handler that is told of a closed connection posts to others, and closes none."""
    url = f"{stage.engine.endpoint}/_aws/execute-api/abcdef1234/api"
    client = boto3.client("apigatewaymanagementapi", endpoint_url=url)
    asked, name = {"ConnectionId": "nobody"}, "websocket_disconnect"
    assert code("sweep", client, "GetConnection", asked) == "GoneException"
    assert code(name, client, "PostToConnection", asked | {"Data": b"{}"}) == "GoneException"
    for operation in ("GetConnection", "DeleteConnection"):
        assert code(name, client, operation, asked) in DENIED


# -- the tour: everything that a function does ---------------------------------------------------------

PAGE = "https://example.org/a"
POINTS = {"title": "Points", "operator": "best"}
HUNT = {"title": "Hunt", "paths": ["Oak", "Elm", "Ash"], "limit": 3, "ranked": True}


def view(client: str) -> dict[str, str]:
    source = {"referrer": "https://news.example/", "campaign": "spring"}
    return {"url": PAGE, "time": datetime.now(UTC).isoformat(), "clientId": client, **source}


def count_views(stage: DevStage) -> None:
    """Count views through the queue and without it, and read everything stored about them."""
    stage.call("POST", "/views", {"events": [view("one"), view("two")]}, status=202)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(app, "stage", stage.settings._replace(queue_url=""))
        stage.call("POST", "/views", view("three"), status=202)
    stage.settle()
    assert stage.call("GET", f"/views?url={PAGE}") == {"url": PAGE, "views": 3, "visitors": 3}
    assert stage.call("GET", "/views/top?site=example.org")["items"] == [{"url": PAGE, "views": 3}]
    assert sum(day["views"] for day in stage.call("GET", f"/views/series?url={PAGE}")["items"]) == 3
    first = stage.call("GET", f"/views/events?url={PAGE}&limit=2", who="admin")
    rest = stage.call("GET", f"/views/events?url={PAGE}&limit=2&cursor={first['cursor']}", who="admin")
    assert len(first["items"] + rest["items"]) == 3
    assert b"svg" in stage.call("GET", f"/views/badge.svg?url={PAGE}")
    assert stage.call("GET", "/views/site?site=example.org")["visitors"] == 3
    yesterday = (datetime.now(UTC) - timedelta(days=1)).date()
    for path in ("top", "referrers", "campaigns"):
        [row] = stage.call("GET", f"/views/{path}?site=example.org&from={yesterday}")["items"]
        assert row["views"] == 3
    assert stage.call("GET", "/sites", who="admin")["items"] == [{"site": "example.org", "views": 3}]
    site = "/sites/example.net"
    hosts = {"hosts": ["www.example.net"], "timezone": "Europe/Berlin"}
    stage.call("PUT", site, hosts, who="admin", status=201)
    assert stage.call("GET", site, who="admin")["timezone"] == "Europe/Berlin"
    link = {"expires": (datetime.now(UTC) + timedelta(hours=1)).isoformat()}
    stage.call("POST", f"{site}/links", link, who="admin", status=201)
    stage.call("DELETE", site, who="admin", status=204)
    ago = (datetime.now(UTC) - timedelta(days=99)).isoformat()
    wrong = {"url": "https://example.org/clock", "time": ago, "sent": ago}
    stage.call("POST", "/views", wrong, status=202)
    definitions.RECENT._kept.clear()  # as in another process
    queued = {"messageId": "m", "body": json.dumps(wrong | {"clientId": "c"})}
    assert app.write_views({"Records": [queued, queued]}, None) == {"batchItemFailures": []}


def rank_scores(stage: DevStage) -> None:
    """Create a board, submit valid and invalid scores, read ranks, end a season, remove a player."""
    stage.call("PUT", "/leaderboards/points", POINTS, who="admin", status=201)
    for player, value in (("ann", 5), ("bob", 7), ("cat", 7)):
        body = {"id": "1", "value": value}
        stage.call("POST", "/leaderboards/points/scores", body, who=player, status=201)
    stage.call("POST", "/leaderboards/points/scores", {"id": "2", "value": 1}, who="ann", status=201)
    stage.settle()
    assert stage.call("GET", "/leaderboards/points")["players"] == 3
    standing = stage.call("GET", "/leaderboards/points/players/ann")
    assert (standing["rank"], standing["of"]) == (3, 3)
    for query in ("limit=2", "place=3", "around=ann"):
        stage.call("GET", f"/leaderboards/points/entries?{query}")
    stage.call("GET", "/leaderboards/points/distribution")
    stage.call("GET", "/leaderboards/points/players/ann/activities?limit=1", who="ann")
    stage.call("POST", "/leaderboards/points/seasons", {"season": 1}, who="admin", status=201)
    stage.call("GET", "/leaderboards/points?season=1")
    stage.call("DELETE", "/leaderboards/points/players/cat", who="cat", status=204)
    stage.settle()
    deepen_and_complete(stage)


def deepen_and_complete(stage: DevStage) -> None:
    """Make the stream deepen a bucket, read a page of tags, and delete an activity that is out of range."""
    stage.call("PUT", "/leaderboards/sums", {"title": "Sums"}, who="admin", status=201)
    with mock.patch.object(tree, "LIMIT", 1), mock.patch.object(scores, "TAGS", 1):
        for number, player in enumerate(("ann", "bob", "ann", "ann")):
            body = {"id": f"3-{number}", "value": 3}
            stage.call("POST", "/leaderboards/sums/scores", body, who=player, status=201)
        stage.settle()
    assert [item for item in scan(stage.root) if item["sk"] == "DEEPEN"]
    first = stage.root.get(scores.activity_key("sums", "ann", "3-0"))
    assert first
    app.apply({"Records": [record(None, first)]}, None)
    most = {"value": 10**15, "version": first["version"] + 10**6}
    stage.root.put(first | {"sk": "ACTIVITY#sums#most"} | most)  # as a submission that crashed leaves it
    stage.call("POST", "/leaderboards/sums/scores", {"id": "most", "value": 3}, who="ann", status=422)
    late = first | {"sk": "ACTIVITY#sums#late", "value": 10**15, "version": first["version"] + 10**6}
    stage.root.put(late)
    stage.settle()
    assert stage.root.get(Key(late["pk"], late["sk"])) is None


def find_paths(stage: DevStage) -> None:
    """Create a challenge, find paths, guess one, read the progress, withdraw it."""
    stage.call("PUT", "/challenges/hunt", HUNT, who="admin", status=201)
    for path in ("Oak", "Elm"):
        stage.call("POST", "/challenges/hunt/paths", {"path": path}, who="ann", status=201)
    stage.call("POST", "/challenges/hunt/paths", {"path": "Fir"}, who="ann", status=422)
    stage.settle()
    assert stage.call("GET", "/challenges/hunt/statistics")["paths"] == 2
    assert len(stage.call("GET", "/challenges/hunt/leaders")["items"]) == 1
    assert stage.call("GET", "/challenges/hunt/players/ann", who="ann")["found"] == 2
    stage.call("GET", "/challenges/hunt")
    stage.call("DELETE", "/challenges/hunt/players/ann/paths/Oak", who="admin", status=204)
    stage.call("DELETE", "/challenges/hunt/players/ann", who="admin", status=204)
    stage.settle()


def add_up_comments(stage: DevStage) -> None:
    """Comment, edit, hide, list by ratings and language, read statistics and leaders, delete."""
    path, body = "/products/hat/comments", {"rating": 5, "language": "en", "text": "Fits."}
    [ann, bob] = [stage.call("POST", path, body, who=author, status=201)["id"] for author in ("ann", "bob")]
    stage.call("PATCH", f"{path}/{ann}", {"rating": 4}, who="ann")
    stage.call("PATCH", f"{path}/{bob}", {"hidden": True}, who="admin")
    stage.call("PATCH", f"{path}/{bob}", {"hidden": False}, who="admin")
    stage.settle()
    assert stage.call("GET", "/products/hat/statistics?language=en")["total"] == 2
    assert stage.call("GET", "/products/leaders")["items"] == [{"product": "hat", "fiveStar": 1}]
    for query in ("limit=1", "rating=5&language=en", "rating=4,5"):
        assert stage.call("GET", f"{path}?{query}")["items"]
    for language in ("", "en"):  # as if there were many: then a rare rating is looked for in its index
        counts = {"count_1": 1, "count_5": 5000, "count_total": 5001}
        assert stage.root.put(comments.statistics_key("shoe", language)._asdict() | counts)
    stage.call("GET", "/products/shoe/comments?rating=1&language=en")
    stage.call("GET", f"{path}/{ann}")
    stage.call("PUT", f"{path}/{bob}/vote", who="ann", status=201)  # the stream removes it with its comment
    answer = stage.call("POST", f"{path}/{bob}/replies", {"text": "Yes."}, who="ann", status=201)
    report = {"reason": "An insult.", "reply": answer["id"]}
    stage.call("POST", f"{path}/{bob}/reports", report, who="bob", status=201)
    assert stage.call("GET", "/comments/reports", who="admin")["items"]
    stage.call("DELETE", f"{path}/{bob}/reports?reply={answer['id']}", who="admin", status=204)
    stage.call("PUT", "/comments/bans/eve", {"hours": 1}, who="admin", status=201)
    stage.call("GET", "/comments/bans", who="admin")
    stage.call("DELETE", "/comments/bans/eve", who="admin", status=204)
    stage.call("DELETE", f"{path}/{bob}", who="bob", status=204)
    stage.settle()


def match_strangers(stage: DevStage) -> None:
    """Match, talk, report, come back with a token, go on, leave, and die in silence."""
    stage.open("a", lobby="one")
    stage.open("b", lobby="one")
    assert CONNECTED in stage.say("b", "status")
    assert CONNECTED in stage.wire.read("a")
    assert stage.say("a", "message", text="hi") == []
    assert without_time(stage.wire.read("b")) == [text("hi")]
    stage.say("a", "report", reason="insults")
    [report] = stage.call("GET", "/chat/reports", who="admin")["items"]
    stage.call("POST", f"/chat/reports/{report['id']}", {"action": "ban"}, who="admin", status=204)
    assert sorted(stage.wire.closed) == ["a", "b"]  # every connection here has the same address
    stage.wire.closed.clear()
    lift_ban(stage)
    for id in "ab":
        stage.close(id)
        stage.open(id + id, lobby="one")
    assert stage.say("aa", "ping", ref="1")[-1] == {"type": "ack", "ref": "1"}
    stage.open("l", listen="1")
    [first] = stage.say("l", "subscribe", topic=f"views:{PAGE}")
    assert first["type"] == "subscribed"
    stage.close("l")

    stage.open("c")
    stage.open("d")
    [resume] = [frame for frame in stage.say("c", "resume") if frame["type"] == "resume"]
    stage.say("c", "subscribe", topic=f"views:{PAGE}")
    stage.open("e", resume=resume["token"])
    assert stage.wire.closed == ["c"]
    assert CONNECTED in stage.say("e", "status")
    stage.say("e", "next")
    assert DISCONNECTED in stage.wire.read("d")
    stage.wait(20)  # who have just parted may meet again
    assert CONNECTED in stage.say("e", "ping")
    stage.say("d", "subscribe", topic=f"views:{PAGE}")
    stage.close("d")
    assert DISCONNECTED in stage.wire.read("e")
    stage.say("a stranger", "ping")
    assert stage.wire.closed == ["c", "a stranger"]

    stage.open("f")
    assert CONNECTED in stage.say("f", "status")
    stage.say("f", "subscribe", topic=f"views:{PAGE}")
    stage.wire.read("e")
    stage.die("f")
    stage.wait(100)
    stage.sweep()
    assert DISCONNECTED in stage.wire.read("e")
    network = stage.root.get(connections.key("e"))
    assert network
    bans.ban(new_context(stage.root), [network["network"]], 1)
    stage.sweep()
    assert "e" in stage.wire.closed
    lift_ban(stage)
    for id in ("aa", "bb", "e"):
        stage.close(id)


def match_persons(stage: DevStage) -> None:
    """Match persons with tokens, whose blocks are a condition: when they come, go on, are left, and wait."""
    for id, who in (("p", "ann"), ("q", "bob")):
        stage.open(id, lobby="two", token=stage.token(who))
    assert CONNECTED in stage.say("q", "status")
    stage.say("q", "next")
    stage.wait(20)  # who have just parted may meet again
    stage.say("q", "ping")
    assert CONNECTED in stage.wire.read("p")
    stage.open("r", lobby="two", token=stage.token("cat"))
    stage.close("q")
    assert CONNECTED in stage.wire.read("p")
    stage.say("r", "next")
    stage.wait(20)
    stage.wire.read("p")
    stage.sweep()
    assert CONNECTED in stage.wire.read("p")
    for id in "pr":
        stage.close(id)


def lift_ban(stage: DevStage) -> None:
    [ban] = [item for item in scan(stage.root) if item["sk"] == "BAN"]
    stage.root.delete(Key(ban["pk"], ban["sk"]))


def push_topics(stage: DevStage) -> None:
    """Push a change of each kind to who listens, and take away who does no more."""
    stage.open("g")
    for topic in (f"views:{PAGE}", "leaderboard:points", "challenge:hunt", "product:hat"):
        [first] = stage.say("g", "subscribe", topic=topic)
        assert (first["type"], first["topic"]) == ("subscribed", topic)
    stage.call("POST", "/views", view("four"), status=202)
    stage.call("POST", "/leaderboards/points/scores", {"id": "3", "value": 9}, who="ann", status=201)
    stage.call("POST", "/challenges/hunt/paths", {"path": "Ash"}, who="ann", status=201)
    body = {"rating": 3, "language": "en", "text": "Too big."}
    stage.call("POST", "/products/hat/comments", body, who="cat", status=201)
    stage.settle()
    pushed = {frame["topic"] for frame in stage.wire.read("g") if frame["type"] == "update"}
    assert pushed == {f"views:{PAGE}", "leaderboard:points", "challenge:hunt", "product:hat"}
    stage.say("g", "unsubscribe", topic="product:hat")
    stage.die("g")
    stage.call("POST", "/views", view("five"), status=202)
    stage.settle()
    assert stage.root.get(subscriptions.head_key(f"views:{PAGE}")) is None


def keep_what_is_damaged(stage: DevStage) -> None:
    """Put what nobody can compute into quarantine."""
    assert stage.root.put(progress.progress_key("hunt", "eve")._asdict() | {"found": "many"})
    stage.settle()
    assert [item for item in scan(stage.root) if item["pk"].startswith("QUARANTINE#")]


def sign_in_as_guests(stage: DevStage) -> None:
    for _ in range(2):
        stage.call("POST", "/guests", {"name": "Ann"}, status=201)


def look_at_the_service(stage: DevStage) -> None:
    """Read the lag and the quarantine."""
    stage.call("GET", "/quarantine", who="admin")
    with mock.patch.object(lag, "LATE", 2), pytest.raises(lag.SumsAreLate):  # the stream waits for the call
        stage.probe()
    stage.settle()
    stage.call("GET", "/lag", who="admin")


def deliver_again(stage: DevStage) -> None:
    """Deliver a batch twice: its guard page refuses it, and is read."""
    seen = events.build_item(View(PAGE, datetime.now(UTC), "six"), stage.settings)
    event = {"Records": [record(None, seen)]}
    before = stage.call("GET", f"/views?url={PAGE}")["views"]
    for _ in range(2):
        app.apply(event, None)
    assert stage.call("GET", f"/views?url={PAGE}")["views"] == before + 1


PARTS = (
    ("views", count_views),
    ("leaderboards", rank_scores),
    ("challenges", find_paths),
    ("comments", add_up_comments),
    ("chat", match_strangers),
    ("chat", match_persons),
    ("push", push_topics),
    ("stream", keep_what_is_damaged),
    ("guests", sign_in_as_guests),
    ("aggregates", look_at_the_service),
    ("stream", deliver_again),
)
"""What the tour does, each with the feature that needs it."""
