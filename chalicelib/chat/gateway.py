"""The gateway to open connections: posts frames to them, asks whether they are open, and closes them.

Each connection's item has the endpoint of its management API. A client for an endpoint is built when it is
first needed. A post whose response was lost is not retried, because it may have arrived.
"""

import os
import time
from collections.abc import Callable
from threading import Lock
from typing import Any, Literal

from botocore.exceptions import BotoCoreError, ClientError, ConnectTimeoutError, EndpointConnectionError

from chalicelib.api import codec
from chalicelib.chat import connections
from chalicelib.context import CloseReason, Context, Outcome
from chalicelib.dynamo.retries import back_off, error_code
from chalicelib.telemetry import logs, metrics

Delivered = Literal["sent", "gone", "later"]

TRIES = 4
THROTTLED = {"LimitExceededException", "TooManyRequestsException", "ThrottlingException"}


TOO_FAST = CloseReason(4008, "keeps sending after slow_down")
BANNED = CloseReason(4003, "banned")
UNRESPONSIVE = CloseReason(4010, "does not confirm messages")


class Session:
    """The factory of management API clients. It imports boto3 when the first frame is sent."""

    @property
    def region_name(self) -> str:
        """Return the region that Lambda runs in."""
        return os.environ.get("AWS_REGION", "us-east-1")

    def client(self, name: str, **options: Any) -> Any:
        """Build a client with short timeouts.

        It does not retry, because a post whose response was lost may have arrived.
        """
        import boto3
        from botocore.config import Config

        config = Config(
            connect_timeout=1, read_timeout=2, retries={"total_max_attempts": 1}, max_pool_connections=32
        )
        return boto3.session.Session().client(name, config=config, **options)  # type: ignore[call-overload]


class ConnectionGateway:
    """The management API of connections. `session` returns a factory of clients, as Chalice's session is."""

    def __init__(self, session: Callable[[], Any], pause: Callable[[float], None] = time.sleep) -> None:
        self._session = session
        self._pause = pause
        self._lock = Lock()
        self._clients: dict[tuple[int, str], Any] = {}

    def send(self, endpoint: str, id: str, frame: str, *, tries: int = TRIES) -> Outcome:
        """Post a frame to a connection. Never raises for a failure of the other end.

        `gone` is API Gateway's 410: the connection is closed, or not open yet. A throttled post is retried a
        few times. It is `failed`, and logged, when it stays throttled or its response is lost.
        """
        return self._call(
            lambda client: client.post_to_connection(ConnectionId=id, Data=frame), endpoint, tries
        )

    def is_open(self, endpoint: str, id: str) -> bool:
        """Return whether a connection is open. When the question fails, it counts as open."""
        return self._call(lambda client: client.get_connection(ConnectionId=id), endpoint) != "gone"

    def close(self, endpoint: str, id: str, reason: CloseReason | None = None) -> None:
        """Close a connection. One that is gone is closed already.

        API Gateway accepts no close code (docs/api.md), so the reason is also sent as the last frame.
        The local gateway closes with the code.
        """

        def close(client: Any) -> None:
            if reason and (with_code := getattr(client, "close_connection", None)):
                with_code(ConnectionId=id, Code=reason.code, Reason=reason.text)
            else:
                client.delete_connection(ConnectionId=id)

        if reason:
            frame = codec.encode({"type": "close", "code": reason.code, "reason": reason.text})
            self.send(endpoint, id, frame, tries=1)
        self._call(close, endpoint)

    def _call(self, call: Callable[[Any], Any], endpoint: str, tries: int = TRIES) -> Outcome:
        for number in range(tries):
            try:
                call(self._client(endpoint))
                return "sent"
            except (EndpointConnectionError, ConnectTimeoutError) as error:  # the request was not sent
                problem: Exception = error
            except ClientError as error:
                if error_code(error) == "GoneException":
                    return "gone"
                problem = error
                if error_code(error) not in THROTTLED:
                    break
            except BotoCoreError as error:
                problem = error
                break
            if number < tries - 1:
                back_off(number + 1, self._pause)
        metrics.count(PostsFailed=1)
        logs.log_error("a post to a connection failed", problem)
        return "failed"

    def _client(self, endpoint: str) -> Any:
        session = self._session()
        with self._lock:  # threads that need the same client share it
            found = self._clients.get((id(session), endpoint))
            if found is None:
                found = session.client("apigatewaymanagementapi", endpoint_url=endpoint)
                self._clients[id(session), endpoint] = found
            return found


def deliver_frame(context: Context, id: str, endpoint: str, frame: str) -> Delivered:
    """Post a frame. Return `later` when the connection is not open yet, or cannot be reached now.

    After a 410 the connection's item decides. A young connection that has sent no frame may still be opening.
    For any other one the post is retried once, because it may have opened in the meantime.

    Cost: 1 RCU after a 410.
    """
    outcome = context.gateway.send(endpoint, id, frame)
    if outcome == "gone" and (item := connections.find(context.table, id)):
        is_opening = connections.may_be_opening(item, context.now)
        outcome = "failed" if is_opening else context.gateway.send(endpoint, id, frame)
    return "later" if outcome == "failed" else outcome


def endpoint_of(request: Any) -> str:
    """Return the management API's endpoint for the request of a socket event, as Chalice does."""
    region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION", "us-east-1")
    suffix = "amazonaws.com.cn" if region.startswith("cn-") else "amazonaws.com"
    return f"https://{request['apiId']}.execute-api.{region}.{suffix}/{request['stage']}"
