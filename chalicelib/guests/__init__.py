"""Guests: visitors who sign in without an identity provider."""

from chalicelib.feature import GET, NOTHING, UPDATE, Feature

FEATURE = Feature(
    name="guests",
    paths={"guests": "Visitors who sign in without an identity provider."},
    items=(),
    personal=NOTHING,  # a guest is in its token alone
    actions=frozenset({GET, UPDATE}),
    is_on=lambda settings: settings.guests,
)
