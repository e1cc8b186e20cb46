"""JSON log lines, which never hold a token, a client's address or a text that a person wrote."""

import traceback
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any

_importing = Lock()


@cache
def logger() -> Any:
    """Return the JSON logger of the process. POWERTOOLS_LOG_LEVEL sets its level.

    Only one thread at a time imports powertools. Its modules import each other, and two threads that begin at
    different modules would each find the other one half initialized. A local run has such threads.
    """
    with _importing:
        from aws_lambda_powertools.logging import Logger

        return Logger(service="hubbub")


def log_error(message: str, error: Exception, **fields: str) -> None:
    """Log an error with its type and the last lines of its traceback.

    The error's own message is left out, because it may quote a client's text. The caller must know that
    `fields` are safe to log.
    """
    frames = traceback.extract_tb(error.__traceback__)[-10:]
    where = [f"{Path(frame.filename).name}:{frame.lineno} {frame.name}" for frame in frames]
    response = getattr(error, "response", None)  # an SDK error carries AWS's own code
    code = response.get("Error", {}).get("Code") if isinstance(response, dict) else None
    kind = type(error).__name__ + (f" ({code})" if code else "")
    logger().error(message, extra={"error": kind, "where": where, **fields})
