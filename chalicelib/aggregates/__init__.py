"""Sums over items, added up from the table's stream, exactly once."""

from chalicelib.aggregates import lag
from chalicelib.aggregates.personal import PERSONAL
from chalicelib.feature import GET, MANY, PUT, QUERY, UPDATE, Feature, Kind

FEATURE = Feature(
    name="aggregates",
    paths={
        "lag": "How far the sums are behind what is written.",
        "quarantine": "Items that could not be counted.",
    },
    items=(
        Kind("BUCKET#*", "BUCKET"),
        Kind("GUARD*", "*"),
        Kind("QUARANTINE#*", "*"),
        Kind("PULSE", "SENT", is_applied=True),
        Kind("PULSE", "COUNTED", is_sum=True),
        Kind("ERASE#*", "*"),
    ),
    personal=PERSONAL,  # images in quarantine belong to the features of their items
    actions=frozenset({GET, MANY, QUERY, PUT, UPDATE}),
    functions=("apply", "probe"),
    contribution=lag.contribution,
    serves=True,
)
