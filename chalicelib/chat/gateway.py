"""Posts to connections: from a socket, a stream or a schedule, all alike.

Each connection's item says at which endpoint it can be reached; there is one client for each endpoint, made
when it is first needed. A post is never tried again when its answer was lost, for it may have arrived.
"""

import os
import time
from collections.abc import Callable
from threading import Lock
from typing import Any, Literal, NamedTuple

from botocore.exceptions import BotoCoreError, ClientError, ConnectTimeoutError, EndpointConnectionError

from chalicelib.api import codec
from chalicelib.dynamo.retries import back_off, error_code
from chalicelib.telemetry import logs, metrics

Outcome = Literal["sent", "gone", "failed"]

TRIES = 4
THROTTLED = {"LimitExceededException", "TooManyRequestsException", "ThrottlingException"}


class Closing(NamedTuple):
    """Why the server closes a connection, in a code of RFC 6455's private range (4000 to 4999)."""

    code: int
    reason: str


TOO_FAST = Closing(4008, "keeps sending after slow_down")


class Posts:
    """The line to the connections; `session` answers what makes a client, as `app.websocket_api.session`."""

    def __init__(self, session: Callable[[], Any], pause: Callable[[float], None] = time.sleep) -> None:
        self._session = session
        self._pause = pause
        self._lock = Lock()
        self._clients: dict[tuple[int, str], Any] = {}

    def send(self, at: str, id: str, frame: str, *, tries: int = TRIES) -> Outcome:
        """Post a frame to a connection; never raises for what the other end does.

        `gone` is API Gateway's 410: closed, or not open yet. A throttle is waited out a few times; when the
        answer is lost, or the throttle stays, it is `failed`, and a line in the log.
        """
        return self._call(lambda client: client.post_to_connection(ConnectionId=id, Data=frame), at, tries)

    def is_open(self, at: str, id: str) -> bool:
        """Tell whether a connection is open; one that cannot be asked about is taken to be."""
        return self._call(lambda client: client.get_connection(ConnectionId=id), at) != "gone"

    def close(self, at: str, id: str, why: Closing | None = None) -> None:
        """Close a connection; one that is gone is closed already.

        API Gateway takes no code (docs/contract.md), so a reason is also sent as the last frame. The local
        gateway closes with the code.
        """

        def close(client: Any) -> None:
            if why and (with_code := getattr(client, "close_connection", None)):
                with_code(ConnectionId=id, Code=why.code, Reason=why.reason)
            else:
                client.delete_connection(ConnectionId=id)

        if why:
            self.send(
                at, id, codec.encode({"type": "close", "code": why.code, "reason": why.reason}), tries=1
            )
        self._call(close, at)

    def _call(self, call: Callable[[Any], Any], at: str, tries: int = TRIES) -> Outcome:
        for number in range(tries):
            try:
                call(self._client(at))
                return "sent"
            except (EndpointConnectionError, ConnectTimeoutError) as error:  # it did not leave here
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

    def _client(self, at: str) -> Any:
        session = self._session()
        with self._lock:  # two threads that need the same client make one
            found = self._clients.get((id(session), at))
            if found is None:
                found = session.client("apigatewaymanagementapi", endpoint_url=at)
                self._clients[id(session), at] = found
            return found


def endpoint(context: Any) -> str:
    """Write the address that posts to a socket event's API go to, as Chalice does."""
    region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION", "us-east-1")
    suffix = "amazonaws.com.cn" if region.startswith("cn-") else "amazonaws.com"
    return f"https://{context['apiId']}.execute-api.{region}.{suffix}/{context['stage']}"
