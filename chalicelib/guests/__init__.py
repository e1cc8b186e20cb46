"""Guests: visitors who sign in without an identity provider."""

from chalicelib.feature import GET, UPDATE, Feature

FEATURE = Feature(
    name="guests",
    paths={"guests": "Visitors who sign in without an identity provider."},
    items=(),
    actions=frozenset({GET, UPDATE}),
    is_on=lambda settings: settings.guests,
)
