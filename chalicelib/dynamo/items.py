"""Items as plain Python values, and their notation on the wire."""

import base64
from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from itertools import islice
from typing import Any, NamedTuple, TypeVar

from boto3.dynamodb.types import TypeDeserializer, TypeSerializer

Item = dict[str, Any]
T = TypeVar("T")


class Key(NamedTuple):
    """Where an item lies."""

    pk: str
    sk: str


LARGEST = 125  # the exponent of DynamoDB's largest number; more zeros than that would fill the memory

_serializer = TypeSerializer()


class _Deserializer(TypeDeserializer):  # type: ignore[misc,unused-ignore]
    """Reads whole numbers as int, other ones as Decimal, and binary as bytes, wherever they stand."""

    def _deserialize_n(self, value: str) -> int | Decimal:
        number = Decimal(value)
        is_whole = number.adjusted() <= LARGEST and number == number.to_integral_value()
        return int(number) if is_whole else number

    def _deserialize_s(self, value: str) -> str:
        value.encode()  # half of a surrogate pair raises ValueError: DynamoDB would not take it back
        return value

    def _deserialize_b(self, value: Any) -> bytes:
        if isinstance(value, str):  # a stream record carries binary as base64
            return base64.b64decode(value, validate=True)
        return bytes(value)


_deserializer = _Deserializer()


def pack(item: Mapping[str, Any]) -> dict[str, Any]:
    """Turn a plain item into DynamoDB's typed JSON. Raises TypeError for a float."""
    return {name: _serializer.serialize(value) for name, value in item.items()}


def unpack(typed: Mapping[str, Any]) -> Item:
    """Turn DynamoDB's typed JSON, from an answer or a stream record, into a plain item."""
    return {name: _deserializer.deserialize(value) for name, value in typed.items()}


def groups(things: Iterable[T], size: int) -> Iterator[list[T]]:
    """Part things into lists of up to a size."""
    rest = iter(things)
    while some := list(islice(rest, size)):
        yield some
