"""JSON on the wire: read strictly, written in one way.

What JSON allows and people do not mean is refused: a key that stands twice, NaN and infinity, a number that
DynamoDB cannot hold exactly, a lone surrogate, a nest that goes too deep. Decimals are read exactly.
"""

import json
from decimal import Decimal
from typing import Any

import msgspec

DIGITS = 38  # what a DynamoDB number holds exactly
LARGEST, SMALLEST = Decimal("9.99e125"), Decimal("1e-130")  # and its range
DEPTH = 32

_encoder = msgspec.json.Encoder(decimal_format="number")


def decode(raw: bytes, kind: Any) -> Any:
    """Read a body as a type. Raises ValueError (msgspec.ValidationError among them) that names the field."""
    try:
        text = raw.decode("utf-8")
        value = json.loads(
            text, object_pairs_hook=_once, parse_int=_integer, parse_float=_decimal, parse_constant=_constant
        )
    except RecursionError:
        raise ValueError(f"it nests deeper than {DEPTH} levels") from None
    except UnicodeDecodeError:
        raise ValueError("it is not UTF-8") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"it is not JSON: {error}") from None
    _check(value, DEPTH, escapes="\\u" in text)
    return msgspec.convert(value, kind)


def encode(answer: Any) -> str:
    """Write an answer; decimals as numbers."""
    return _encoder.encode(answer).decode()


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        twice = next(name for i, (name, _) in enumerate(pairs) if name in dict(pairs[:i]))
        raise ValueError(f"the key {twice[:40]!r} stands twice")
    return found


def _integer(text: str) -> int:
    if len(text.lstrip("-")) > DIGITS:
        raise ValueError(f"a number has more than {DIGITS} digits")
    return int(text)


def _decimal(text: str) -> Decimal:
    number = Decimal(text)
    if len(number.as_tuple().digits) > DIGITS:
        raise ValueError(f"a number has more than {DIGITS} digits")
    if number and not SMALLEST <= abs(number) <= LARGEST:
        raise ValueError(f"the number {text[:20]} is out of range")
    return number or Decimal(0)  # -0.0 is 0


def _constant(text: str) -> None:
    raise ValueError(f"{text} is not a number")


def _check(value: Any, depth: int, *, escapes: bool) -> None:
    """Raise ValueError for a nest too deep and, where the text has escapes, for a lone surrogate."""
    if depth < 0:
        raise ValueError(f"it nests deeper than {DEPTH} levels")
    if isinstance(value, dict):
        for name, part in value.items():
            _check(name, 0, escapes=escapes)
            _check(part, depth - 1, escapes=escapes)
    elif isinstance(value, list):
        for part in value:
            _check(part, depth - 1, escapes=escapes)
    elif escapes and isinstance(value, str) and any("\ud800" <= letter <= "\udfff" for letter in value):
        raise ValueError("a text has half of a surrogate pair")
