"""Views of pages: events in, exact totals, series, visitors and top pages out."""

from chalicelib.feature import BATCH, DELETE, GET, MANY, PUT, QUERY, UPDATE, Feature, Kind, Topic
from chalicelib.views import events, queries, sites
from chalicelib.views.personal import PERSONAL

FEATURE = Feature(
    name="views",
    paths={
        "views": "Views and visitors of a site's pages, in total and over time.",
        "sites": "The sites that have views or a definition.",
    },
    items=(
        Kind("URL#*", "T#*", is_applied=True),
        Kind("URL#*", "GOAL#*", is_applied=True),
        Kind("URL#*", "CLOCK#*"),
        Kind("SALT#*", "SALT"),
        Kind("URL#*", "SENT", is_applied=True),
        Kind("URL#*", "COUNTED", is_sum=True),
        Kind("URL#*", "STATISTICS", is_sum=True, is_live=True),
        Kind("URL#*", "DAY#*", is_sum=True),
        Kind("URL#*", "VISITOR#*", is_applied=True),
        Kind("SITE#*", "DEFINITION"),
        Kind("SITE#*", "TOTAL"),
        Kind("SITE#*", "DAY#*", is_sum=True),
        Kind("SITE#*", "VISITOR#*", is_applied=True),
        Kind("IMPORT#*", "*"),
    ),
    personal=PERSONAL,
    actions=frozenset({GET, MANY, QUERY, PUT, UPDATE, DELETE, BATCH}),
    indexes=("gsi1",),
    consumers=("write_views",),
    contribution=events.contribution,
    derive=sites.derive,
    topics={"views": Topic(queries.topic, queries.parse_url, queries.live)},
)
