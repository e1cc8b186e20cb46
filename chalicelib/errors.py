"""The errors of the interface and of the table.

The class name is the `code` that a client sees, unless the class sets another one. The message names the
field or the resource and states what is accepted.
"""

from typing import Any

from chalice.app import ChaliceViewError


class HubbubError(ChaliceViewError):
    """The base class of the errors that a client can see. `retry_after` is the time to wait, in seconds."""

    STATUS_CODE = 500
    code = "HubbubError"
    retry_after: float | None = None

    def __init_subclass__(cls, code: str = "", **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.code = code or cls.__name__

    def __str__(self) -> str:
        # Chalice's own __str__ begins with the class name, which `code` has already.
        return str(self.args[0]) if self.args else type(self).__name__


class BadRequest(HubbubError):
    """The request is malformed. The message names the field and what is accepted."""

    STATUS_CODE = 400


class BadCursor(BadRequest):
    """The cursor does not belong to this query."""


class Unauthorized(HubbubError):
    """The call needs a valid bearer token."""

    STATUS_CODE = 401


class Forbidden(HubbubError):
    """The token is valid, but does not permit the call."""

    STATUS_CODE = 403


class NotFound(HubbubError):
    """The resource does not exist."""

    STATUS_CODE = 404


class Conflict(HubbubError):
    """The request conflicts with the existing resource."""

    STATUS_CODE = 409


class LimitReached(HubbubError):
    """The player has found the maximum number of paths."""

    STATUS_CODE = 409


class NotOpen(HubbubError):
    """The challenge is not open: it has not begun, or it is over."""

    STATUS_CODE = 409


class InvalidPath(HubbubError):
    """The path is not a valid path of the challenge."""

    STATUS_CODE = 422


class Unprocessable(HubbubError):
    """The request is well-formed, but its content is not accepted here. The message states the reason."""

    STATUS_CODE = 422


class TooOld(HubbubError, code="too_old"):
    """The view is older than the stage accepts."""

    STATUS_CODE = 422


class InTheFuture(HubbubError, code="in_the_future"):
    """The view's time is further in the future than the stage accepts."""

    STATUS_CODE = 422


class SiteNotAllowed(HubbubError, code="site_not_allowed"):
    """The stage does not count views of this page."""

    STATUS_CODE = 422


class Bot(HubbubError, code="bot"):
    """The User-Agent belongs to a crawler. Views of crawlers are not counted."""

    STATUS_CODE = 422


class PreconditionFailed(HubbubError):
    """The resource no longer has the ETag of If-Match. Read it again."""

    STATUS_CODE = 412


class TooLarge(HubbubError):
    """The body, or a list in it, is longer than the call accepts."""

    STATUS_CODE = 413


class UriTooLong(HubbubError):
    """The path is longer than API Gateway accepts on a call that needs a token."""

    STATUS_CODE = 414


class UnsupportedMediaType(HubbubError):
    """The call does not accept the Content-Type of the body."""

    STATUS_CODE = 415


class SlowDown(HubbubError):
    """The caller exceeds the rate limit of the operation. Retry after the time in Retry-After."""

    STATUS_CODE = 429

    def __init__(self, message: str, retry_after: float = 1) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class Busy(HubbubError):
    """The table is throttled or unreachable, or too many writes conflict on one item. Please retry.

    Raised only after the retries of `dynamo.retries`, which take at most 3 seconds of a request. A REST
    client sees 503. A stream or queue handler does not catch it, so that Lambda delivers the batch again.
    """

    STATUS_CODE = 503
    retry_after = 1


class Rejected(Exception):
    """DynamoDB rejects a write as invalid, for a type, a size or the range of a number.

    A client cannot cause it, and a retry cannot succeed. The aggregates engine finds the record that causes
    it and puts that record into quarantine.
    """
