"""Items as plain Python values, and their conversion to and from DynamoDB's typed JSON."""

import base64
from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from itertools import islice
from typing import Any, NamedTuple, TypeVar

from boto3.dynamodb.types import TypeDeserializer, TypeSerializer

Item = dict[str, Any]
T = TypeVar("T")


class Key(NamedTuple):
    """The primary key of an item."""

    pk: str
    sk: str


class Range(NamedTuple):
    """The items of a partition, of the table or of an index, between two sort keys, both included."""

    pk: str
    sk: tuple[Any, Any] | None = None
    index_name: str = ""


MAX_EXPONENT = 125  # of a DynamoDB number; an int with more zeros than that could fill the memory

_serializer = TypeSerializer()


class _Deserializer(TypeDeserializer):  # type: ignore[misc,unused-ignore]
    """Reads whole numbers as int, other numbers as Decimal, and binary as bytes, at any depth."""

    def _deserialize_n(self, value: str) -> int | Decimal:
        number = Decimal(value)
        is_whole = number.adjusted() <= MAX_EXPONENT and number == number.to_integral_value()
        return int(number) if is_whole else number

    def _deserialize_s(self, value: str) -> str:
        value.encode()  # raises ValueError for half of a surrogate pair, which DynamoDB would not accept
        return value

    def _deserialize_b(self, value: Any) -> bytes:
        if isinstance(value, str):  # a stream record has binary as base64
            return base64.b64decode(value, validate=True)
        return bytes(value)


_deserializer = _Deserializer()


def pack(item: Mapping[str, Any]) -> dict[str, Any]:
    """Convert a plain item to DynamoDB's typed JSON. Raises TypeError for a float."""
    return {name: _serializer.serialize(value) for name, value in item.items()}


def unpack(typed: Mapping[str, Any]) -> Item:
    """Convert DynamoDB's typed JSON, from a response or a stream record, to a plain item."""
    return {name: _deserializer.deserialize(value) for name, value in typed.items()}


Images = tuple[Key, Item, Item]
"""A key, and the old and new image of a change of its item. A missing image is empty."""


def read_key(body: Mapping[str, Any]) -> Key | None:
    """Return the key in the body of a stream record, or None for a malformed one. Never raise.

    >>> read_key({"Keys": {"pk": {"S": "a"}, "sk": {"S": "b"}}})
    Key(pk='a', sk='b')
    >>> read_key({"Keys": {"pk": {"L": []}, "sk": {"S": "b"}}}), read_key({})
    (None, None)
    """
    try:
        keys = unpack(body["Keys"])
        return Key(**keys) if all(isinstance(name, str) for name in keys.values()) else None
    except Exception:  # whatever its shape
        return None


def chunks(values: Iterable[T], size: int) -> Iterator[list[T]]:
    """Split values into lists of at most a size."""
    rest = iter(values)
    while chunk := list(islice(rest, size)):
        yield chunk
