"""Strict decoding of JSON bodies and parameters, and one encoding of JSON responses.

The decoder rejects some valid JSON that is almost always a mistake: a repeated key, NaN and infinity, half of
a surrogate pair, deep nesting, and in a known field a number that DynamoDB cannot hold exactly. Decimals are
exact and are read only from numbers. Every decoded string is in Unicode's NFC, so a name has one
representation.

Every error is a ValueError whose message begins with the name of a field in backticks, or with "The body".
"""

import csv
import io
import json
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal, InvalidOperation
from functools import cache
from math import isfinite
from typing import Any, get_args, get_type_hints
from urllib.parse import unquote

import msgspec
from msgspec import inspect

from chalicelib.api.schemas import RULES

MAX_DIGITS = 38  # a DynamoDB number holds 38 digits exactly
LARGEST, SMALLEST = Decimal(f"9.{'9' * 37}e125"), Decimal("1e-130")  # the range of a DynamoDB number
MAX_DEPTH = 32
# UAX #15 limits a sequence of combining marks to 30. The three Tibetan characters are not marks themselves,
# but decompose into marks.
MAX_MARKS, TIBETAN = 30, "\u0f73\u0f75\u0f81"
FORMULA = frozenset("=+-@\uff1d\uff0b\uff0d\uff20")  # begin one; the last four are full-width
BLANK = "[\\u0000-\\u0020\\u007f-\\u00a0\\u2000-\\u200f\\u2028-\\u202f\\u205f-\\u206f\\u3000\\ufeff\"']"
BLANK_RUN = re.compile(f"(?:;|^|(?<!{BLANK})(?={BLANK})){BLANK}*")
CELL_BEGIN = re.compile("(?<=[;\\t\\r\\n])")
BAD_ESCAPE = re.compile("%(?![0-9A-Fa-f]{2})")
BOUND = re.compile(r"Expected `(\w+)[^`]*`( of length)? ([<>]=?) (\S+)")
TYPE, MISSING = re.compile("Expected `([^`]*)`, got"), re.compile("Object missing required field `(.*)`")
SIGNS = {">=": "at least", ">": "more than", "<=": "at most", "<": "less than"}
TYPES = {
    **{"int": "a whole number", "float": "a number", "decimal": "a number", "str": "a text"},
    **{"bool": "true or false", "array": "a list", "object": "an object"},
}
PATTERN_ERROR = "Expected `str` matching regex "
UNKNOWN_RULE = "must have the form that the API description states"

_encoder = msgspec.json.Encoder(decimal_format="number")


def decode(raw: bytes, kind: Any) -> Any:
    """Decode a JSON body as a type. A field that the type does not have may hold any number.

    In a value that is no struct, a number that DynamoDB cannot hold is an `Unusable`.

    Raises: ValueError.
    """
    try:
        text = raw.decode("utf-8")
        value = json.loads(
            text,
            object_pairs_hook=_unique_keys,
            parse_int=_integer,
            parse_float=_decimal,
            parse_constant=_constant,
        )
    except RecursionError:
        raise ValueError(f"The body must not be nested deeper than {MAX_DEPTH} levels") from None
    except UnicodeDecodeError:
        raise ValueError("The body must be UTF-8") from None
    except json.JSONDecodeError as error:
        place = f"is not at line {error.lineno}, column {error.colno}" if text.strip() else "is empty"
        raise ValueError(f"The body must be JSON, and {place}") from None
    value = _normalize_all(value, MAX_DEPTH, "", is_normal=text.isascii() and "\\u" not in text)
    decoded = _convert(value, kind)
    if isinstance(decoded, msgspec.Struct) and not getattr(kind, "TAKES_ANY_NUMBER", False):
        _refuse_unusable(decoded, "")
    if _has_decimals(kind):
        _check_decimals(value, decoded, "")
    return decoded


def decode_parameters(values: Mapping[str, str], kind: Any) -> Any:
    """Decode path or query parameters as a struct. Raises ValueError."""
    decoded = _convert({name: normalize(text, name) for name, text in values.items()}, kind, strict=False)
    for field in msgspec.structs.fields(kind):
        value = getattr(decoded, field.name)
        if value is None and field.encode_name in values:  # msgspec reads the text "null" as None
            raise ValueError(f"`{field.encode_name}` must not be `null`")
        if isinstance(value, float) and not isfinite(value):
            raise ValueError(f"`{field.encode_name}` must be a finite number")
        if isinstance(value, Decimal):
            _refuse_unusable(_fit(value), field.encode_name)
    return decoded


def unquote_parameter(field: str, part: str) -> str:
    """Decode the percent-encoding of one path parameter. Raises ValueError."""
    try:
        if not BAD_ESCAPE.search(part):
            return unquote(part, errors="strict")
    except UnicodeError:
        pass
    raise ValueError(f"`{field}` must be UTF-8 in percent-encoding")


def encode(value: Any) -> str:
    """Encode a value as JSON, with decimals as numbers."""
    return _encoder.encode(value).decode()


def encode_csv(value: Any) -> str:
    """Encode the rows of a list or of statistics as CSV (RFC 4180), with a header line.

    The rows are the items of a list, or what `rows()` of the value returns. An optional field that no row has
    is no column, and an object is written as JSON. Every text is quoted, and one that a spreadsheet would
    take for a formula is guarded.
    """
    rows = value.rows() if hasattr(value, "rows") else value.items
    [kind] = inspect_rows(type(value))
    fields = [
        field
        for field in msgspec.structs.fields(kind)
        if field.default is not msgspec.UNSET
        or any(getattr(row, field.name) is not msgspec.UNSET for row in rows)
    ]
    text = io.StringIO()
    writer = csv.writer(text, quoting=csv.QUOTE_NONNUMERIC)
    writer.writerow([field.encode_name for field in fields])
    for row in rows:
        writer.writerow([_to_cell(getattr(row, field.name)) for field in fields])
    return text.getvalue()


def inspect_rows(kind: Any) -> tuple[Any, ...]:
    """Return the type of the rows of a list or of statistics."""
    hints = get_type_hints(kind.rows if hasattr(kind, "rows") else kind)
    return get_args(hints["return" if hasattr(kind, "rows") else "items"])


def _to_cell(value: Any) -> Any:
    if value is None or value is msgspec.UNSET:
        return ""
    text = encode(value) if isinstance(value, dict) else value
    return guard_cell(text) if isinstance(text, str) else text


def guard_cell(text: str) -> str:
    """Return a text with an apostrophe in front of each part that a spreadsheet would take for a formula.

    A part begins with the text, and after each character at which a spreadsheet may split a line: a semicolon
    in many countries, a tab, a line end. Blanks and quotes before a formula are ignored, as spreadsheets do.
    Source: OWASP, CSV Injection. web/lib/csv.js has the same function.

    >>> guard_cell("=1+1"), guard_cell("x;=1"), guard_cell("'@ann"), guard_cell("a=1")
    ("'=1+1", "x;'=1", "''@ann", 'a=1')
    """
    return _change_beginnings(text, lambda beginning: f"'{beginning}")


def unguard_cell(text: str) -> str:
    """Remove the apostrophes of `guard_cell` from a text, one in each place."""
    return _change_beginnings(text, lambda beginning: beginning.removeprefix("'"))


def _change_beginnings(text: str, change: Callable[[str], str]) -> str:
    def change_run(found: re.Match[str]) -> str:
        is_formula = text[found.end() : found.end() + 1] in FORMULA
        first, *others = CELL_BEGIN.split(found[0])
        if found.start() == 0 and (is_formula or others) and not first.startswith(";"):
            first = change(first)
        return "".join([first, *(change(character) if is_formula else character for character in others)])

    return BLANK_RUN.sub(change_run, text)


def normalize(text: str, field: str) -> str:
    """Return a text in NFC.

    Raises: ValueError for half of a surrogate pair, and for more than 30 combining marks in a row. Sorting
    such marks takes quadratic time: minutes for a megabyte.
    """
    if text.isascii():
        return text
    marks = 0
    for letter in text:
        if "\ud800" <= letter <= "\udfff":
            raise ValueError(f"{_quote(field)} must not contain half of a surrogate pair")
        marks = marks + 1 if unicodedata.combining(letter) or letter in TIBETAN else 0
        if marks > MAX_MARKS:
            too_many = f"more than {MAX_MARKS} combining marks in a row"
            raise ValueError(f"{_quote(field)} must not contain {too_many}")
    return unicodedata.normalize("NFC", text)


def _quote(field: str) -> str:
    """Return the name of a field for a message. An empty name is the whole body."""
    return f"`{field[:40]}`" if field else "The body"


def _convert(value: Any, kind: Any, **options: Any) -> Any:
    """Convert a value with msgspec.

    Raises: ValueError that names the field and says what is accepted: "Expected `int` <= 100 - at `$.limit`"
    becomes "`limit` must be at most 100".
    """
    try:
        return msgspec.convert(value, kind, **options)
    except msgspec.ValidationError as error:
        first, separator, last = str(error).rpartition(" - at `$")
        message, path = (first, last.rstrip("`").lstrip(".")) if separator else (last, "")
        message = message[:200]
        if PATTERN_ERROR in str(error):
            message = _pattern_rule(str(error))
        elif unusable := next((kind for kind in UNUSABLE if f"got `{type(kind).__name__}`" in message), None):
            message = unusable.problem
        elif message.startswith("Invalid enum value"):
            choices = _find_choices(kind, path)
            message = f"must be one of {choices}" if "," in choices else f"must be {choices}"
        elif missing := MISSING.match(message):
            path, message = f"{path}.{missing[1]}".lstrip("."), "is required"
        else:
            message = _in_words(message)
        raise ValueError(f"{_quote(path)} {message}") from None


def _in_words(message: str) -> str:
    """Translate a message of msgspec about a type, a bound or a length into plain words.

    >>> _in_words("Expected `str` of length <= 5000"), _in_words("Expected `int | null`, got `str`")
    ('must have at most 5,000 characters', 'must be a whole number or null')
    """
    if found := BOUND.match(message):
        kind, length, sign, limit = found.groups()
        unit = {"str": " characters", "array": " items"}.get(kind, "") if length else ""
        unit = unit.removesuffix("s") if limit == "1" else unit
        limit = f"{Decimal(limit.removesuffix('.0')):,}"
        return f"must {'have' if length else 'be'} {SIGNS[sign]} {limit}{unit}"
    if found := TYPE.match(message):
        *others, last = (TYPES.get(kind, kind) for kind in found[1].split(" | "))
        return f"must be {', '.join(others)} or {last}" if others else f"must be {last}"
    return "must be a number" if message.startswith("Invalid decimal") else UNKNOWN_RULE


def _pattern_rule(message: str) -> str:
    """Return the rule of the pattern that a message of msgspec quotes."""
    rules = (rule for pattern, rule in RULES.items() if f"{PATTERN_ERROR}{pattern!r}" in message)
    return next(rules, UNKNOWN_RULE)


def _find_choices(kind: Any, path: str) -> str:
    """Return the accepted values of an enumerated field."""
    found = list(_alternatives(inspect.type_info(kind)))
    for name in re.findall(r"\w+|\[", path):
        found = [inner for outer in found for inner in _members(outer, name)]
    values = (value for choice in found if isinstance(choice, inspect.LiteralType) for value in choice.values)
    return ", ".join(f"`{value}`" for value in values)


def _members(kind: Any, name: str) -> Iterator[Any]:
    """Yield the types of a field of an object, or of the items of a list."""
    if isinstance(kind, inspect.StructType):
        for field in kind.fields:
            if field.encode_name == name:
                yield from _alternatives(field.type)
    elif isinstance(kind, inspect.ListType | inspect.VarTupleType) and name == "[":
        yield from _alternatives(kind.item_type)


def _alternatives(kind: Any) -> Iterator[Any]:
    """Yield the types of a union, without their Meta."""
    for part in kind.types if isinstance(kind, inspect.UnionType) else (kind,):
        if isinstance(part, inspect.Metadata):
            yield from _alternatives(part.type)
        else:
            yield part


@cache
def _has_decimals(kind: Any) -> bool:
    return "DecimalType" in repr(inspect.type_info(kind))


def _check_decimals(value: Any, decoded: Any, field: str) -> None:
    """Raise ValueError for a Decimal that msgspec has read from a text, such as "NaN" or "1e999"."""
    if isinstance(decoded, Decimal) and isinstance(value, str):
        raise ValueError(f"{_quote(field)} must be a number")
    if isinstance(decoded, msgspec.Struct):
        names = {field.encode_name: field.name for field in msgspec.structs.fields(decoded)}
        for name in names.keys() & value.keys():
            _check_decimals(value[name], getattr(decoded, names[name]), name)
    elif isinstance(decoded, dict):
        for (name, part), inner in zip(value.items(), decoded.values(), strict=True):
            _check_decimals(part, inner, name)
    elif isinstance(decoded, list | tuple):
        for part, inner in zip(value, decoded, strict=True):
            _check_decimals(part, inner, field)


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Build an object. Raises ValueError for a repeated key."""
    built = dict(pairs)
    if len(built) != len(pairs):
        repeated = next(name for name, n in Counter(name for name, _ in pairs).items() if n > 1)
        raise ValueError(f"The body must not repeat the key {json.dumps(repeated[:40])}")
    return built


class Unusable:
    """Stands for a number that DynamoDB cannot hold. No type of a field accepts it."""

    problem = ""


class _NotFinite(Unusable):
    problem = "must be a finite number"


class _TooLong(Unusable):
    problem = f"must have at most {MAX_DIGITS} digits"


class _OutOfRange(Unusable):
    problem = "must be 0, or at least 1e-130 and less than 1e126 without its sign"


# One of each, because a body may have many of them.
UNUSABLE = (NOT_FINITE, TOO_LONG, OUT_OF_RANGE) = (_NotFinite(), _TooLong(), _OutOfRange())


def _refuse_unusable(value: Any, field: str) -> None:
    """Raise ValueError for an unusable number in a field of any type."""
    if isinstance(value, msgspec.Struct):
        for member in msgspec.structs.fields(value):
            _refuse_unusable(getattr(value, member.name), member.encode_name)
    elif isinstance(value, dict):
        for name, part in value.items():
            _refuse_unusable(part, name[:40])
    elif isinstance(value, list | tuple):
        for part in value:
            _refuse_unusable(part, field)
    elif isinstance(value, Unusable):
        raise ValueError(f"{_quote(field)} {value.problem}")


def _integer(text: str) -> int | Unusable:
    return int(text) if len(text.lstrip("-")) <= MAX_DIGITS else TOO_LONG


def _decimal(text: str) -> Decimal | int | Unusable:
    """Read a number with a point or an exponent. A whole number is an int, as in JSON Schema."""
    try:
        number = _fit(Decimal(text))
    except InvalidOperation:  # an exponent of more than 18 digits
        return OUT_OF_RANGE
    if isinstance(number, Unusable) or number.adjusted() >= MAX_DIGITS or number != int(number):
        return number
    return int(number)


def _fit(number: Decimal) -> Decimal | Unusable:
    """Return a number that DynamoDB can hold, or an `Unusable` for any other number.

    Comparisons replace arithmetic here, because arithmetic would round or overflow.
    """
    if not number.is_finite():
        return NOT_FINITE
    if len(number.as_tuple().digits) > MAX_DIGITS:
        return TOO_LONG
    if number and not SMALLEST <= number.copy_abs() <= LARGEST:
        return OUT_OF_RANGE
    return number or Decimal(0)  # -0.0 is 0


def _constant(text: str) -> None:
    raise ValueError(f"The body must not contain {text}, which is not JSON")


def _normalize_all(value: Any, depth: int, field: str, *, is_normal: bool) -> Any:
    """Return a value with its texts in NFC. Raises ValueError for deep nesting and as `normalize` does.

    `is_normal`: the whole body is ASCII without escapes, so its texts are in NFC already.
    """
    if depth < 0:
        raise ValueError(f"The body must not be nested deeper than {MAX_DEPTH} levels")
    if isinstance(value, dict):
        for name in () if is_normal else value:
            normalize(name, "")  # only checked: normalizing could turn two names into one
        return {
            name: _normalize_all(part, depth - 1, name, is_normal=is_normal) for name, part in value.items()
        }
    if isinstance(value, list):
        return [_normalize_all(part, depth - 1, field, is_normal=is_normal) for part in value]
    return normalize(value, field) if isinstance(value, str) and not is_normal else value
