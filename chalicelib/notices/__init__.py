"""Notices for the team: what has happened is published to a topic of SNS, and never to a visitor."""

from chalicelib.feature import Feature, Kind
from chalicelib.notices.personal import PERSONAL

FEATURE = Feature(
    name="notices",
    paths={},
    items=(Kind("NOTICE#*", "NOTICE", is_live="pending"),),
    personal=PERSONAL,
    functions=("push",),
    publishes=True,
    is_on=lambda settings: bool(settings.notices),
)
