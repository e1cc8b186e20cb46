"""Decoding of JSON and parameters: exact values, and a ValueError that names the field for anything else."""

from __future__ import annotations

import ast
import json
import re
import time
import tracemalloc
import unicodedata
from collections.abc import Iterator
from decimal import Decimal
from typing import Annotated, Any, Literal

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import app
from chalicelib.api import codec
from chalicelib.api.schemas import RULES, Identifier, Schema

PATTERN = re.compile(r"""pattern=('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")""")


class Part(Schema):
    amount: Decimal | None = None


class Repeats(Schema):
    every: Annotated[Literal["day", "week"], msgspec.Meta(description="How often")]


class Score(Schema):
    """A body with a field of each kind."""

    player: Identifier | None = None
    value: Decimal | None = None
    rating: Annotated[int, msgspec.Meta(ge=1, le=5)] | None = None
    ratio: float | None = None
    order: Literal["asc", "desc"] | None = None
    text: Annotated[str, msgspec.Meta(max_length=10)] | None = None
    is_open: bool | None = None
    parts: list[Part] = msgspec.field(default_factory=list)
    by_name: dict[str, Decimal] = msgspec.field(default_factory=dict)
    free: Any = None
    repeats: Annotated[str, msgspec.Meta(max_length=9)] | Repeats | None = None


class Query(Schema):
    limit: Annotated[int, msgspec.Meta(ge=1, le=100)] = 10
    ratio: float = 0.0
    least: Decimal | None = None
    name: Identifier | None = None


def nested(depth: int) -> bytes:
    return b'{"free":' + b"[" * (depth - 1) + b"]" * (depth - 1) + b"}"


FIELD = r"^(`[^` ]+`|The body) ."
E_ACUTE, DECOMPOSED = "é", "e\u0301"
FLAG = "👍🏽🇩🇪"


def refused(sent: bytes | dict[str, str], kind: Any) -> str | None:
    """Return the error message, or None for a valid value. Any other exception is a failure."""
    try:
        codec.decode_parameters(sent, kind) if isinstance(sent, dict) else codec.decode(sent, kind)
    except ValueError as error:
        return str(error).encode().decode()
    return None


@pytest.mark.parametrize(
    ("raw", "field", "value"),
    [
        ('{"value":1.10}', "value", Decimal("1.10")),
        ('{"value":' + "9" * 38 + "}", "value", Decimal("9" * 38)),
        ('{"value":0.' + "1" * 38 + "}", "value", Decimal("0." + "1" * 38)),
        ('{"value":9.' + "9" * 37 + "E+125}", "value", Decimal("9." + "9" * 37 + "E+125")),
        ('{"value":1e-130}', "value", Decimal("1e-130")),
        ('{"value":0e999999999}', "value", Decimal(0)),
        ('{"ratio":3}', "ratio", 3.0),
        ('{"parts":[{"amount":0.1}]}', "parts", [Part(amount=Decimal("0.1"))]),
        ('{"byName":{"a":1,"b":2.5}}', "by_name", {"a": Decimal(1), "b": Decimal("2.5")}),
        ('{"isOpen":true}', "is_open", True),
        ('{"player":"' + DECOMPOSED + '"}', "player", E_ACUTE),
        ('{"player":"e\\u0301"}', "player", E_ACUTE),
        (f'{{"player":"{FLAG}"}}', "player", FLAG),
        ('{"player":"\\ud83d\\ude00"}', "player", "😀"),
        ('{"text":"a\\u0000b"}', "text", "a\0b"),
        ('{"text":"' + "😀" * 10 + '"}', "text", "😀" * 10),
        (' {"rating" : 5}\n', "rating", 5),
        (nested(codec.MAX_DEPTH).decode(), "text", None),
        ('{"unknown":1}', "text", None),
    ],
)
def test_a_well_formed_body_is_decoded_exactly(raw: str, field: str, value: Any) -> None:
    found = getattr(codec.decode(raw.encode(), Score), field)
    assert found == value
    assert type(found) is type(value)


def test_a_whole_number_is_an_integer_however_it_is_written() -> None:
    for text in ("5", "5.0", "0.5e1", "50E-1"):
        assert codec.decode(f'{{"rating":{text},"value":{text}}}'.encode(), Score).rating == 5


def test_a_field_that_the_type_does_not_have_may_hold_any_number() -> None:
    raw = b'{"rating":1,"unknown":[1e400,{"a":-1e-999,"b":' + b"9" * 39 + b"}]}"
    assert codec.decode(raw, Score).rating == 1
    with pytest.raises(ValueError, match=r"^`value` must be a number"):
        codec.decode(b'{"value":"5","unknown":1e400}', Score)


def test_a_number_that_dynamodb_cannot_hold_is_named_by_its_own_field() -> None:
    for raw, field in (
        (b'{"unknown":1e-999,"value":1e400}', "value"),
        (b'{"rating":1e400}', "rating"),
        (b'{"ratio":-1e400}', "ratio"),
        (b'{"parts":[{},{"amount":1e400}]}', "parts[1].amount"),
        (b'{"byName":{"a":1e400}}', "byName[...]"),
        (b'{"free":[{"deep":1e400}]}', "deep"),
    ):
        with pytest.raises(
            ValueError, match=rf"^`{re.escape(field)}` must be 0, or at least 1e-130 and less"
        ):
            codec.decode(raw, Score)


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"", "The body must be JSON"),
        (b"{}{}", "The body must be JSON"),
        (b'\xef\xbb\xbf{"rating":1}', "The body must be JSON"),
        (b'{"value":01}', "The body must be JSON"),
        (b"\xff", "The body must be UTF-8"),
        (b'{"text":"\xed\xa0\x80"}', "The body must be UTF-8"),
        ('{"text":"a"}'.encode("utf-16"), "The body must be UTF-8"),
        (b"[]", "The body must be an object"),
        (b"null", "The body must be an object"),
        (b'{"text":"\\ud83d"}', "`text` must not contain half of a surrogate pair"),
        (b'{"free":{"deep":["\\ude00\\ud83d"]}}', "`deep` must not contain half of a surrogate pair"),
        (b'{"\\ud83d":1}', "The body must not contain half of a surrogate pair"),
        (
            ('{"text":"e' + "\u0301" * 31 + '"}').encode(),
            "`text` must not contain more than 30 combining marks",
        ),
        (b'{"value":NaN}', "The body must not contain NaN"),
        (b'{"free":[Infinity]}', "The body must not contain Infinity"),
        (b'{"value":1e126}', "`value` must be 0, or at least 1e-130 and less than 1e126"),
        (b'{"value":1e-131}', "`value` must be 0, or at least 1e-130 and less than 1e126"),
        (b'{"value":1e9999999}', "`value` must be 0, or at least 1e-130 and less than 1e126"),
        (b'{"value":1e999999999999999999999}', "`value` must be 0, or at least 1e-130 and less than 1e126"),
        (b'{"value":' + b"9" * 39 + b"}", "`value` must have at most 38 digits"),
        (b'{"value":0.' + b"1" * 39 + b"}", "`value` must have at most 38 digits"),
        (b'{"value":"NaN"}', "`value` must be a number"),
        (b'{"parts":[{},{"amount":"1e999"}]}', "`amount` must be a number"),
        (b'{"byName":{"a":1,"b":"2"}}', "`b` must be a number"),
        (b'{"ratio":"nan"}', "`ratio` must be a number or null"),
        (b'{"value":true}', "`value` must be a number or null"),
        (b'{"rating":true}', "`rating` must be a whole number or null"),
        (b'{"rating":5.5}', "`rating` must be a whole number or null"),
        (b'{"rating":6}', "`rating` must be at most 5"),
        (b'{"isOpen":1}', "`isOpen` must be true or false or null"),
        (b'{"text":"12345678901"}', "`text` must have at most 10 characters"),
        (b'{"order":"best"}', "`order` must be one of `asc`, `desc`"),
        (b'{"repeats":{"every":"year"}}', "`repeats.every` must be one of `day`, `week`"),
        (b'{"repeats":5}', "`repeats` must be a text, an object or null"),
        (b" ", "The body must be JSON, and is empty"),
        (b'{"player":""}', "`player` must be 1 to 128 ASCII characters"),
        (b'{"player":"a#b"}', "`player` must be 1 to 128 ASCII characters"),
        (b'{"rating":1,"rating":2}', 'The body must not repeat the key "rating"'),
        (b'{"free":[{"a":1,"a":1}]}', 'The body must not repeat the key "a"'),
        (b'{"a":1,"\\u0061":1}', 'The body must not repeat the key "a"'),
        (nested(codec.MAX_DEPTH + 2), "The body must not be nested deeper than 32 levels"),
        (b'{"a":' * 50_000 + b"1" + b"}" * 50_000, "The body must not be nested deeper than 32 levels"),
    ],
)
def test_a_malformed_body_is_rejected_with_the_field(raw: bytes, message: str) -> None:
    with pytest.raises(ValueError, match=FIELD) as error:
        codec.decode(raw, Score)
    assert str(error.value).startswith(message)


def routes_with_patterns() -> Iterator[tuple[str, Any, str]]:
    """Yield the pattern of every text that a route takes, with the struct and the name of its argument."""
    for route in app.router.routes:
        for argument in ("path", "query", "body"):
            if kind := route.arguments.get(argument):
                for pattern in set(PATTERN.findall(repr(msgspec.inspect.type_info(kind)))):
                    yield f"{route.name}.{argument}", kind, ast.literal_eval(pattern)


def test_every_pattern_that_a_route_uses_has_a_rule_in_words() -> None:
    patterns = {pattern for _, _, pattern in routes_with_patterns()}
    assert len(patterns) > 5
    assert patterns - RULES.keys() == set()
    for rule in RULES.values():
        assert rule.startswith("must ")


def test_a_pattern_without_a_rule_is_not_quoted() -> None:
    class Code(Schema):
        code: Annotated[str, msgspec.Meta(pattern="^[a-z - at `$.]+$")]

    with pytest.raises(ValueError, match=r"^`code` must have the form"):
        codec.decode(b'{"code":"1"}', Code)


def test_an_error_message_is_short_for_a_long_body() -> None:
    for raw in (
        b'{"order":"' + b"x" * 900_000 + b'"}',
        b'{"%s":1,"%s":2}' % (b"k" * 400_000, b"k" * 400_000),
    ):
        with pytest.raises(ValueError, match=FIELD) as error:
            codec.decode(raw, Score)
        assert len(str(error.value)) < 300


@pytest.mark.security
@pytest.mark.parametrize(
    "raw",
    [
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b"9" * 1_000_000,
        b'{"value":1.' + b"0" * 999_000 + b"}",
        b'{"value":1e' + b"9" * 999_000 + b"}",
        b'{"free":"' + b"a" * 999_000 + b'"}',
        ('{"free":"' + "e\u0301" * 300_000 + '"}').encode(),
        ('{"free":"e' + "\u0301\u0327" * 240_000 + '"}').encode(),  # one letter with marks out of order
        b'{"free":"' + b"\\u0061" * 160_000 + b'"}',
        b'{"free":[' + b"{}," * 300_000 + b"{}]}",
        ('{"free":"' + "\u0f73" * 300_000 + '"}').encode(),
        ("{" + ",".join(f'"k{i}":0' for i in range(90_000)) + ',"k89999":0}').encode(),
        b"[" + b"1e400," * 160_000 + b"1]",
        b'{"free":[' + b"1e999999999999999999999," * 40_000 + b"1]}",
        b'{"free":[' + (b"9" * 39 + b",") * 25_000 + b"1]}",
        b'{"parts":[' + b'{"amount":1e400},' * 58_000 + b"{}]}",
    ],
    ids=lambda raw: raw[:24].decode(),
)
def test_any_megabyte_is_decoded_or_rejected_within_a_second(raw: bytes) -> None:
    begun = time.process_time()
    refusal = refused(raw, Score)
    assert refusal is None or len(refusal) < 300
    assert time.process_time() - begun < 1.5


@pytest.mark.security
def test_a_megabyte_of_numbers_that_no_field_takes_needs_little_memory() -> None:
    tracemalloc.start()
    assert refused(b'{"free":[' + b"1e400," * 160_000 + b"1]}", Score)
    assert tracemalloc.get_traced_memory()[1] < 20_000_000
    tracemalloc.stop()


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        ({}, Query()),
        (
            {"limit": "100", "ratio": "0.5", "least": "-1.50"},
            Query(limit=100, ratio=0.5, least=Decimal("-1.50")),
        ),
        ({"name": DECOMPOSED}, Query(name=E_ACUTE)),
        ({"name": FLAG}, Query(name=FLAG)),
    ],
)
def test_parameters_are_decoded_to_their_types(sent: dict[str, str], expected: Query) -> None:
    assert codec.decode_parameters(sent, Query) == expected


@pytest.mark.parametrize(
    ("field", "text"),
    [
        ("limit", ""),
        ("limit", "0"),
        ("limit", "101"),
        ("limit", "1e400"),
        ("limit", "NaN"),
        ("limit", "1.5"),
        ("limit", " 5"),
        ("limit", "٣"),
        ("limit", "1_0"),
        ("limit", "9" * 400),
        ("ratio", "nan"),
        ("ratio", "1e400"),
        ("least", "NaN"),
        ("least", "sNaN"),
        ("least", "9" * 39),
        ("name", "a#b"),
        ("name", "\ud800"),
    ],
)
def test_a_malformed_parameter_is_rejected_with_its_name(field: str, text: str) -> None:
    with pytest.raises(ValueError, match=f"^`{field}` .") as error:
        codec.decode_parameters({field: text}, Query)
    str(error.value).encode()  # the message can be sent, whatever the parameter was


NUMBERS = st.decimals(allow_nan=False, allow_infinity=False, places=6, min_value=-(10**30), max_value=10**30)
LEAVES = st.none() | st.booleans() | st.integers(-(10**37), 10**37) | NUMBERS | st.text()
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@settings(deadline=None, database=None)
@given(st.binary() | st.text().map(str.encode))
def test_any_bytes_are_decoded_or_rejected(raw: bytes) -> None:
    refused(raw, Score)
    refused(raw, Any)


@settings(deadline=None, database=None)
@given(VALUES, st.sampled_from([*Score.__struct_encode_fields__, "x"]), st.booleans())
def test_any_json_is_decoded_or_rejected(value: Any, field: str, ascii: bool) -> None:
    raw = json.dumps({field: value}, default=float, ensure_ascii=ascii).encode(errors="surrogatepass")
    refused(raw, Score)


@settings(deadline=None, database=None)
@given(st.dictionaries(st.sampled_from(["limit", "ratio", "least", "name"]), st.text()))
def test_any_parameters_are_decoded_or_rejected(sent: dict[str, str]) -> None:
    refused(sent, Query)


@settings(deadline=None, database=None)
@given(VALUES)
def test_encoding_reverses_decoding(value: Any) -> None:
    once = codec.decode(codec.encode(_normal(value)).encode(), Any)
    assert once == _normal(value)
    assert codec.decode(codec.encode(once).encode(), Any) == once


@settings(deadline=None, database=None)
@given(st.integers(-(10**38) + 1, 10**38 - 1), st.integers(-130, 88))
def test_a_decimal_comes_back_exactly(digits: int, exponent: int) -> None:
    value = Decimal(f"{digits}e{exponent}")
    found = codec.decode(codec.encode(Score(value=value)).encode(), Score).value
    assert found == value
    assert value == value.to_integral_value() or str(found) == str(value)


def _normal(value: Any) -> Any:
    """Return a value with its texts in NFC. Names of fields are unchanged."""
    if isinstance(value, dict):
        return {name: _normal(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_normal(part) for part in value]
    return unicodedata.normalize("NFC", value) if isinstance(value, str) else value


def test_a_bound_is_written_as_people_write_numbers() -> None:
    assert codec._in_words("Expected `float` <= 100.0") == "must be at most 100"
    assert codec._in_words("Expected `str` of length <= 5000") == "must have at most 5,000 characters"
