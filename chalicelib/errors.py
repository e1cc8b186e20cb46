"""What goes wrong for a client, and for a caller of the table.

A class name is the client's `Code`, unless the class gives another one; its message names the offender and
says what to do.
"""

from typing import Any

from chalice.app import ChaliceViewError


class HubbubError(ChaliceViewError):
    """Stand above every error that an answer can carry; `retry_after` are the seconds to wait, if any."""

    STATUS_CODE = 500
    code = "HubbubError"
    retry_after: float | None = None

    def __init_subclass__(cls, code: str = "", **more: Any) -> None:
        super().__init_subclass__(**more)
        cls.code = code or cls.__name__

    def __str__(self) -> str:
        # Chalice's own __str__ puts the class name before the message; `Code` has it already.
        return str(self.args[0]) if self.args else type(self).__name__


class BadRequest(HubbubError):
    """The request is malformed: the message names the field."""

    STATUS_CODE = 400


class BadCursor(BadRequest):
    """The cursor was not made by this server for this query."""


class Unauthorized(HubbubError):
    """No valid bearer token came with a call that needs one."""

    STATUS_CODE = 401


class Forbidden(HubbubError):
    """The token is valid and its scope is too little."""

    STATUS_CODE = 403


class NotFound(HubbubError):
    """What was asked for does not exist."""

    STATUS_CODE = 404


class Conflict(HubbubError):
    """What is there contradicts the request."""

    STATUS_CODE = 409


class LimitReached(HubbubError):
    """The player has found as many paths as the challenge allows."""

    STATUS_CODE = 409


class NotOpen(HubbubError):
    """The challenge takes no paths now: it has not opened yet, or has closed."""

    STATUS_CODE = 409


class InvalidPath(HubbubError):
    """The path is none of the challenge's."""

    STATUS_CODE = 422


class Unprocessable(HubbubError):
    """The request is well-formed, and what it says is not acceptable here: the message says why."""

    STATUS_CODE = 422


class TooOld(HubbubError, code="too_old"):
    """The view is older than the stage counts."""

    STATUS_CODE = 422


class InTheFuture(HubbubError, code="in_the_future"):
    """The view's time is further ahead than the stage allows a client's clock to be."""

    STATUS_CODE = 422


class SiteNotAllowed(HubbubError, code="site_not_allowed"):
    """The stage counts no views of this page."""

    STATUS_CODE = 422


class Bot(HubbubError, code="bot"):
    """The User-Agent is a crawler's, and views of crawlers are not counted."""

    STATUS_CODE = 422


class PreconditionFailed(HubbubError):
    """What is to be changed is no longer what If-Match names: read it again."""

    STATUS_CODE = 412


class TooLarge(HubbubError):
    """The body, or a list in it, is longer than the call takes."""

    STATUS_CODE = 413


class UriTooLong(HubbubError):
    """The path is longer than API Gateway takes on a call that needs a token."""

    STATUS_CODE = 414


class UnsupportedMediaType(HubbubError):
    """The body's Content-Type is none that the call takes."""

    STATUS_CODE = 415


class SlowDown(HubbubError):
    """The caller does this more often than the operation allows: wait as long as Retry-After says."""

    STATUS_CODE = 429

    def __init__(self, message: str, retry_after: float = 1) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class Busy(HubbubError):
    """The table is throttled or out of reach, or too many writers meet on one item: try again in a moment.

    Raised only after the bounded retries of `attempts`: a request has lost at most 3 seconds by then. A
    stream or queue handler lets it through, so that Lambda delivers the batch again; a REST client sees 503.
    """

    STATUS_CODE = 503
    retry_after = 1


class Rejected(Exception):
    """DynamoDB says that a write itself is not valid (a type, a size, a number's range).

    Never a client's fault and never cured by trying again: the aggregates engine looks for the record that
    causes it and puts that one into quarantine.
    """
