"""Display names: kept as people write them, and two that look the same are the same."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chalicelib.api import names
from tests.support.site import Site

REAL = [
    "O\u2019Brien-N\u00fa\u00f1ez",
    "\u0639\u0644\u06cc\u200c\u0631\u0636\u0627",  # Persian, with a non-joiner
    "\u0dc1\u0dca\u200d\u0dbb\u0dd3",  # Sinhala and Bengali, with a joiner after and before a virama
    "\u09b0\u200d\u09cd\u09af\u09be\u09ac",
    "\u0d2e\u0d4b\u0d39\u0d28\u0d4d\u200d \u0d2a\u0d3f",  # Malayalam, at the end of a word
    "\u0915\u094d\u200c\u0937",  # Hindi, with a non-joiner after a virama
    "\u1794\u17ca\u200c\u17b8",  # Khmer, before a vowel sign
    "\u0e19\u0e49\u0e33\u0e1d\u0e19",  # Thai
    "\u0f66\u0f92\u0fb2\u0f7c\u0f63\u0f0b\u0f58",  # Tibetan, with three marks on one letter
    "\u05e9\u05b6\u05c1\u05de",  # Hebrew with points
    "\u845b\U000e0100\u57ce",  # Japanese, with the variant of an ideograph
    "\u1823\u1836\u1824\u1828\u180e\u1820",  # Mongolian, with a vowel separator
    "Nguy\u1ec5n V\u0103n \u1ea2nh",
    "\U0001f468\U0001f3fd\u200d\U0001f469\u200d\U0001f467",  # emoji: a family, a farmer, a flag, a heart
    "\U0001f9d1\U0001f3fe\u200d\U0001f33e",
    "\U0001f3f3\ufe0f\u200d\U0001f308",
    "\u2764\ufe0f\u200d\U0001f525 Bo",
    "\U0001f3f4\U000e0067\U000e0062\U000e0077\U000e006c\U000e0073\U000e007f",  # the flag of Wales
    "1\ufe0f\u20e3 Ann",  # a keycap
    "\U0001fae8 \U0001fae9 \u1c89 \U00016d40",  # code points of Unicode 15 and 16
    "\U0001cd00",  # and one that is not assigned yet in any table of Python's
]


@pytest.mark.parametrize("name", REAL)
def test_a_real_name_is_kept_as_it_is_written(name: str) -> None:
    assert names.clean(name) == name
    assert names.clean(f" {name}\n") == name


@pytest.mark.security
@pytest.mark.parametrize(
    "name",
    [
        "",
        " \t\u00a0\u3000",
        "\u3164",
        "\u2800\u2800",
        "\u115f\u1160",
        "\uffa0",
        "\u200b\u200d\ufeff",
        "\U000e0067\U000e007f",
        "\ufe0f",
        "\u0301",
        " \u0301\u0489",
        "\u0903 \U0001d16d",
        "\u034f\u17b4\u180e",
        "\U0001d159\U00016fe4",
        "\ue000\U000f0000",
        "\u202e\u2066",
        "\ud800",
    ],
)
def test_a_name_that_looks_blank_is_none(name: str) -> None:
    assert names.clean(name) is None


# One of each kind of character without a shape of its own.
HIDDEN = (
    "\u034f\ufe00\ufe0e\ufe0f\u00ad\u061c\u180b\u180e\u200b\u200c\u200d\u200e\u202e\u2060\u2064\ufeff"
    "\U00016fe4\U000e0100\U000e0061"
)


@pytest.mark.security
@pytest.mark.parametrize("hidden", HIDDEN)
@pytest.mark.parametrize(
    "name", ["Ann", "\u0410\u043d\u043d\u0430", "\uc548\ub098", "\U0001f600", "\u2605", "a b"]
)
def test_names_that_differ_only_in_a_hidden_character_are_equal(name: str, hidden: str) -> None:
    first, rest = name[:1], name[1:]
    for other in (
        f"{hidden}{name}",
        f"{name}{hidden}",
        f"{first}{hidden}{rest}",
        f"{first}{hidden}{hidden}{rest}",
    ):
        assert names.clean(other) == name


@pytest.mark.security
@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("\u0639\u0644\u06cc", "\u0639\u200d\u0644\u06cc"),  # a joiner between letters that join anyway
        ("\u062f\u0646", "\u062f\u200c\u0646"),  # a non-joiner after a letter that never joins the next
        ("\u0645\u0621", "\u0645\u200c\u0621"),  # and before one that never joins the one before it
        ("\u0645\u064e\u0661", "\u0645\u064e\u200c\u0661"),  # and before a digit
        ("\u0915\u0937", "\u0915\u200c\u0937"),  # either without a virama
        ("\u0915\u0937", "\u0915\u200d\u0937"),
        ("\u0915\u094d", "\u0915\u094d\u200c"),  # a non-joiner after a virama that is shown anyway
    ],
)
def test_a_joiner_that_changes_nothing_is_removed(name: str, other: str) -> None:
    assert names.clean(other) == names.clean(name) == name


@pytest.mark.security
@pytest.mark.parametrize("mark", "\u0301\u0338\u0489\u20dd\u0e47\u064b\u1ad0")
def test_a_stack_of_marks_is_cut_to_two(mark: str) -> None:
    stack = names.clean(f"q{mark * 40}r")
    assert stack == f"q{mark * 2}r"
    assert names.clean("\u0f40" + "\u0fb1" * 40) == "\u0f40" + "\u0fb1" * 4


def test_a_blank_of_any_kind_is_a_space() -> None:
    assert names.clean("Ann\u2800\u3164\n\u2003Lee") == "Ann Lee"


def test_a_long_name_is_not_cut_within_a_flag_or_before_a_joiner() -> None:
    flag = next(name for name in REAL if name.startswith("\U0001f3f4"))
    assert names.clean("a" * 56 + flag) == "a" * 56 + "\U0001f3f4"
    assert names.clean("a" * 58 + "\U0001f469\u200d\U0001f469") == "a" * 58 + "\U0001f469"
    assert names.clean("\u0301".join("e" * 100)) == "\u00e9" * 60


LETTERS = st.sampled_from(
    "ab =1#\u0903\u06cc"
    "\u0338\u0301\u0327\u0489\u20e3\u0f40\u0fb1\u09b0\u09cd\u200c\u200d\u0639\u1100\u1161\u11a8\u1820"
    "\u845b\ufa19\u2764\ufe0f\ufe00\U000e0100\u180e\U0001f600\U0001f3f4\U000e0067\U000e007f\u2800\u200b\u034f"
)


@given(st.text(LETTERS, max_size=80) | st.text(max_size=80))
def test_cleaning_a_name_twice_changes_nothing_and_no_notation_matters(text: str) -> None:
    name = names.clean(text)
    assert names.clean(unicodedata.normalize("NFD", text)) == name or len(text) > 20
    if name is None:
        return
    assert names.clean(name) == name
    assert 0 < len(name) <= names.MAX_NAME
    assert name == unicodedata.normalize("NFC", name).strip()
    assert any(not names.HIDDEN.match(letter) and unicodedata.category(letter)[0] != "M" for letter in name)


def test_a_guest_gets_its_name_as_it_is_seen(site: Site) -> None:
    for sent, name in ((REAL[1], REAL[1]), ("A\u034fnn\ufe0f", "Ann"), ("\u3164", None)):
        assert site.call("POST", "/guests", {"name": sent})[1]["name"] == name
