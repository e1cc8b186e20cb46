"""What an operator reads: JSON lines without a token, a client's address or a text that a person wrote."""

import traceback
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any

_importing = Lock()


@cache
def logger() -> Any:
    """Answer the process's JSON logger; its level is POWERTOOLS_LOG_LEVEL.

    One thread at a time imports powertools: its modules import each other, and two threads that begin at
    different ones would each find the other's half done. A local run has such threads.
    """
    with _importing:
        from aws_lambda_powertools.logging import Logger

        return Logger(service="hubbub")


def failure(what: str, error: Exception, **more: str) -> None:
    """Log an error by its type and its way through the code.

    Its message stays out, because it may quote what a client sent; `more` is known to be safe.
    """
    frames = traceback.extract_tb(error.__traceback__)[-10:]
    where = [f"{Path(frame.filename).name}:{frame.lineno} {frame.name}" for frame in frames]
    response = getattr(error, "response", None)  # an SDK error has AWS's own code in it
    code = response.get("Error", {}).get("Code") if isinstance(response, dict) else None
    kind = type(error).__name__ + (f" ({code})" if code else "")
    logger().error(what, extra={"error": kind, "where": where, **more})
