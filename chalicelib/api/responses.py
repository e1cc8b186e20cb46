"""What a call is, and what it answers when its struct alone does not say it all."""

from collections.abc import Mapping
from typing import Any, Generic, Literal, NamedTuple, TypeVar

from chalicelib.errors import HubbubError

T = TypeVar("T")
Who = Literal["public", "user", "admin"]

JSON = "application/json"


class Answer(NamedTuple, Generic[T]):
    """An answer with a status of its own (one that its call declares), or with headers."""

    body: T
    status: int | None = None
    headers: Mapping[str, str] = {}


class Call(NamedTuple):
    """A registered call: all that its description needs."""

    method: str
    path: str
    name: str
    who: Who
    statuses: tuple[int, ...]
    accepts: tuple[str, ...]
    takes: Mapping[str, Any]
    answers: Any
    produces: str
    errors: tuple[type[HubbubError], ...]
    text: str
