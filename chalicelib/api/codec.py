"""JSON and parameters on the wire: read strictly, written in one way.

What JSON allows and people do not mean is refused: a key that stands twice, NaN and infinity, a number that
DynamoDB cannot hold exactly, a lone surrogate, a nest that goes too deep. Decimals are read exactly, and only
from numbers. Every text that enters is in NFC afterwards, so that one name has one notation.
"""

import json
import re
import unicodedata
from collections import Counter
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from functools import cache
from math import isfinite
from typing import Any
from urllib.parse import unquote

import msgspec

from chalicelib.api.schemas import RULES

DIGITS = 38  # what a DynamoDB number holds exactly
LARGEST, SMALLEST = Decimal(f"9.{'9' * 37}e125"), Decimal("1e-130")  # and its range
DEPTH = 32
MARKS, TIBETAN = 30, "\u0f73\u0f75\u0f81"  # these three are no marks and consist of marks
ESCAPE = re.compile("%(?![0-9A-Fa-f]{2})")  # a % that begins no escape

_encoder = msgspec.json.Encoder(decimal_format="number")


def decode(raw: bytes, kind: Any) -> Any:
    """Read a body as a type. Raises ValueError, whose message begins with a field."""
    try:
        text = raw.decode("utf-8")
        value = json.loads(
            text, object_pairs_hook=_once, parse_int=_integer, parse_float=_decimal, parse_constant=_constant
        )
    except RecursionError:
        raise ValueError(f"body: it nests deeper than {DEPTH} levels") from None
    except UnicodeDecodeError:
        raise ValueError("body: it is not UTF-8") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"body: it is not JSON: {error}") from None
    value = _clean(value, DEPTH, "body", plain=text.isascii() and "\\u" not in text)
    found = _converted(value, kind)
    if _has_decimals(kind):
        _numbers(value, found, "body")
    return found


def texts(given: Mapping[str, str], kind: Any) -> Any:
    """Read path or query parameters as a struct. Raises as `decode` does."""
    found = _converted({name: normal(text, name) for name, text in given.items()}, kind, strict=False)
    for field in msgspec.structs.fields(kind):
        value = getattr(found, field.name)
        if value is None and field.encode_name in given:  # the text null: a parameter is there or it is not
            raise ValueError(f"{field.encode_name}: Expected a value, got `null`")
        if isinstance(value, float) and not isfinite(value):
            raise ValueError(f"{field.encode_name}: it must be a finite number")
        if isinstance(value, Decimal):
            _bounded(value, field.encode_name)
    return found


def unquoted(field: str, part: str) -> str:
    """Read one parameter of a path, as it stood in the URL. Raises ValueError naming the field."""
    try:
        if not ESCAPE.search(part):
            return unquote(part, errors="strict")
    except UnicodeError:
        pass
    raise ValueError(f"{field}: it is not UTF-8 in percent-encoding")


def encode(answer: Any) -> str:
    """Write an answer; decimals as numbers."""
    return _encoder.encode(answer).decode()


def normal(text: str, field: str) -> str:
    """Write a text in NFC. Raises ValueError naming the field for half of a surrogate pair.

    And for more than 30 combining marks in a row, the bound of UAX #15: putting them in order takes quadratic
    time, minutes for a megabyte.
    """
    if text.isascii():
        return text
    marks = 0
    for letter in text:
        if "\ud800" <= letter <= "\udfff":
            raise ValueError(f"{field[:40]}: a text has half of a surrogate pair")
        marks = marks + 1 if unicodedata.combining(letter) or letter in TIBETAN else 0
        if marks > MARKS:
            raise ValueError(f"{field[:40]}: a text has more than {MARKS} combining marks in a row")
    return unicodedata.normalize("NFC", text)


def _converted(value: Any, kind: Any, **options: Any) -> Any:
    """Convert as msgspec does; "Expected `int`, got `str` - at `$.limit`" becomes "limit: Expected …"."""
    try:
        return msgspec.convert(value, kind, **options)
    except msgspec.ValidationError as error:
        what, at, where = str(error).rpartition(" - at `$")
        field = where.rstrip("`").lstrip(".") if at else ""
        text = what if at else where
        for pattern, rule in RULES.items():
            text = text.replace(f"Expected `str` matching regex {pattern!r}", rule)
        raise ValueError(f"{field or 'request'}: {text[:200]}") from None


@cache
def _has_decimals(kind: Any) -> bool:
    return "DecimalType" in repr(msgspec.inspect.type_info(kind))


def _numbers(value: Any, found: Any, field: str) -> None:
    """Refuse a Decimal that msgspec has read from a text, such as "NaN" or "1e999"."""
    if isinstance(found, Decimal) and isinstance(value, str):
        raise ValueError(f"{field}: Expected a number, got `str`")
    if isinstance(found, msgspec.Struct):
        names = {one.encode_name: one.name for one in msgspec.structs.fields(found)}
        for name in names.keys() & value.keys():
            _numbers(value[name], getattr(found, names[name]), name)
    elif isinstance(found, dict):
        for (name, part), inner in zip(value.items(), found.values(), strict=True):
            _numbers(part, inner, name)
    elif isinstance(found, list | tuple):
        for part, inner in zip(value, found, strict=True):
            _numbers(part, inner, field)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        twice = next(name for name, times in Counter(name for name, _ in pairs).items() if times > 1)
        raise ValueError(f"body: the key {twice[:40]!a} stands twice")
    return found


def _integer(text: str) -> int:
    if len(text.lstrip("-")) > DIGITS:
        raise ValueError(f"body: a number has more than {DIGITS} digits")
    return int(text)


def _decimal(text: str) -> Decimal | int:
    """Read a number with a point or an exponent; a whole one as int, which JSON Schema takes it for."""
    try:
        number = Decimal(text)
    except InvalidOperation:  # an exponent of more than 18 digits
        raise ValueError(f"body: the number {text[:20]} is out of range") from None
    number = _bounded(number, "body")
    return int(number) if number.adjusted() < DIGITS and number == int(number) else number


def _bounded(number: Decimal, field: str) -> Decimal:
    """Answer a number as DynamoDB holds it. Compares without arithmetic, which would round, or overflow."""
    if not number.is_finite():
        raise ValueError(f"{field}: it must be a finite number")
    if len(number.as_tuple().digits) > DIGITS:
        raise ValueError(f"{field}: a number has more than {DIGITS} digits")
    if number and not SMALLEST <= number.copy_abs() <= LARGEST:
        raise ValueError(f"{field}: the number {str(number)[:20]} is out of range")
    return number or Decimal(0)  # -0.0 is 0


def _constant(text: str) -> None:
    raise ValueError(f"body: {text} is not a number")


def _clean(value: Any, depth: int, field: str, *, plain: bool) -> Any:
    """Answer a value with its texts in NFC. Raises ValueError for a nest too deep or a lone surrogate.

    `plain` says that the text around it is ASCII without escapes: then its texts are as they should be.
    """
    if depth < 0:
        raise ValueError(f"body: it nests deeper than {DEPTH} levels")
    if isinstance(value, dict):
        for name in () if plain else value:
            normal(name, "body")  # as a check: a name is kept as it is, for two must not become one
        return {name: _clean(part, depth - 1, name, plain=plain) for name, part in value.items()}
    if isinstance(value, list):
        return [_clean(part, depth - 1, field, plain=plain) for part in value]
    return normal(value, field) if isinstance(value, str) and not plain else value
