"""Uses a deployed stage as its clients do: REST, the page, two sockets, the stream and the queue."""

from __future__ import annotations

import json
import re
import urllib.error
import urllib.request
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, NamedTuple
from urllib.parse import quote, urljoin

from websockets.sync.client import connect

from ops.waiting import wait_until

PATIENCE = 60.0  # seconds


class Stage(NamedTuple):
    """A deployed stage: its addresses, its site, and tokens of a player and of an admin."""

    rest: str
    socket: str
    site: str
    player: str
    admin: str

    def call(self, method: str, path: str, body: Any = None, token: str = "") -> dict[str, Any]:
        """Send a request and return the decoded response. Raises urllib.error.HTTPError."""
        headers = {"Content-Type": "application/json"} | (
            {"Authorization": f"Bearer {token}"} if token else {}
        )
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.rest + path, data, headers, method=method)  # noqa: S310
        with urllib.request.urlopen(request, timeout=PATIENCE) as response:  # noqa: S310
            return dict(json.load(response))

    def page(self, name: str) -> str:
        """Return the address of a page of the site."""
        return f"https://{self.site}/{name}"

    def view(self, name: str, client: str) -> dict[str, str]:
        """Return the view event of a client."""
        return {"url": self.page(name), "time": datetime.now(UTC).isoformat(), "clientId": client}

    def views(self, name: str) -> int:
        """Return the number of views of a page."""
        return int(self.call("GET", f"/views?url={quote(self.page(name), safe='')}")["views"])


def submit_score(stage: Stage) -> str:
    """Define a leaderboard, submit a score, and wait until the stream has ranked it."""
    board = {"title": "Race", "unit": "s", "decimals": 0, "min": 0, "max": 1000, "order": "desc"}
    stage.call("PUT", "/leaderboards/race", board | {"operator": "best"}, stage.admin)
    stage.call("POST", "/leaderboards/race/scores", {"id": "1", "value": 500}, stage.player)
    path = "/leaderboards/race/players/player-1"

    def standing() -> dict[str, Any]:
        found = stage.call("GET", path)
        return found if found.get("rank") else {}

    found = wait_until(standing, "the score has a rank", PATIENCE)
    return f"a score has rank {found['rank']} of {found['of']}"


def load_page(stage: Stage) -> str:
    """Load the page at the address that a deployment prints, and each file that its HTML names."""
    address = f"{stage.rest}/"
    with urllib.request.urlopen(address, timeout=PATIENCE) as response:  # noqa: S310
        html = response.read().decode()
    files = set(re.findall(r'(?:src|href)="([^"#]+\.(?:js|css|svg))"', html))
    if not {"js", "css", "svg"} <= {name.rpartition(".")[2] for name in files}:
        raise ValueError(f"the page must name a script, a style sheet and an icon: {sorted(files)}")
    for name in files:
        with urllib.request.urlopen(urljoin(address, name), timeout=PATIENCE) as response:  # noqa: S310
            response.read()
    return "the page opens at its address, and its files load"


def miss_other_features(stage: Stage) -> str:
    """Request a path of each feature that a stage of views alone does not have. Each is 404."""
    for path in ("/leaderboards/race", "/challenges/hunt", "/products/shoe/statistics", "/chat/reports"):
        try:
            stage.call("GET", path, token=stage.admin)
        except urllib.error.HTTPError as error:
            if error.code in (403, 404):  # 403 is API Gateway's own response to an unknown path
                continue
            raise
        raise ValueError(f"{path} exists in a stage of views alone")
    return "the paths of the other features do not exist"


def use_sockets(stage: Stage) -> Iterator[str]:
    """Match two clients, deliver a message, and push the views of a page to a subscriber."""
    address = f"{stage.socket}?lobby=rehearsal"
    with connect(address, proxy=None) as socket, connect(address, proxy=None) as other:
        for each in (socket, other):
            each.send('{"action": "status"}')
        for each in (socket, other):
            wait_for(
                each,
                lambda frame: frame.get("state") == "matched" or frame.get("code") == "partner_connected",
            )
        yield "two sockets are matched"
        socket.send('{"action": "message", "text": "hello"}')
        wait_for(other, lambda frame: frame.get("text") == "hello")
        yield "a message reaches the other"
        socket.send(json.dumps({"action": "subscribe", "topic": f"views:{stage.page('live')}"}))
        # ministack handles the frames of a connection in order, so the error follows the subscription.
        socket.send('{"action": "unknown"}')
        wait_for(socket, lambda frame: frame.get("type") == "error")
        stage.call("POST", "/views", stage.view("live", "listener"))
        wait_for(socket, lambda frame: frame.get("type") == "update" and frame["value"]["views"] == 1)
        yield "a view is pushed to its subscriber"


def wait_for(socket: Any, matches: Any) -> dict[str, Any]:
    """Return the first frame that matches. Raises TimeoutError."""
    while True:
        frame: dict[str, Any] = json.loads(socket.recv(timeout=PATIENCE))
        if matches(frame):
            return frame


def send_to_queue(stage: Stage, sqs: Any, url: str) -> str:
    """Send a view to the queue twice, as a producer that retries. It counts once."""
    before, view = stage.views("queued"), json.dumps(stage.view("queued", "producer"))
    for _ in range(2):
        sqs.send_message(QueueUrl=url, MessageBody=view)
    wait_until(lambda: stage.views("queued") > before, "the queue's view is counted", PATIENCE)
    return "a message in the queue is a view"


def tell_team(stage: Stage, sns: Any, sqs: Any) -> str:
    """Subscribe a queue to the topic of notices, post a comment, and wait for its notice."""
    [topic] = [found["TopicArn"] for found in sns.list_topics()["Topics"] if "-notices" in found["TopicArn"]]
    url = sqs.create_queue(QueueName="team")["QueueUrl"]
    arn = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    sns.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=arn)
    body = {"rating": 5, "language": "en", "text": "Fits well."}
    stage.call("POST", "/products/shoe/comments", body, stage.player)

    def received() -> list[Any]:
        return list(sqs.receive_message(QueueUrl=url, WaitTimeSeconds=1).get("Messages", ()))

    [message] = wait_until(received, "the team is told of the comment", PATIENCE)
    sqs.delete_queue(QueueUrl=url)
    notice = json.loads(json.loads(message["Body"])["Message"])
    if notice["metadata"]["additionalContext"]["text"] != "Fits well.":
        raise ValueError(f"the notice is of another text: {notice}")
    return "a new comment is a message of the topic of notices"
