"""Comments on products, with ratings in many languages and their statistics."""

from chalicelib.api.schemas import parse_identifier
from chalicelib.comments import cleanup, comments, notices, statistics
from chalicelib.comments.personal import PERSONAL
from chalicelib.feature import CHECK, DELETE, GET, MANY, PUT, QUERY, UPDATE, Feature, Kind, Topic

FEATURE = Feature(
    name="comments",
    paths={
        "products": "Comments on products, with ratings.",
        "comments": "Comments on all products, for moderation.",
        "replies": "Replies to the comments on all products, for moderation.",
    },
    items=(
        Kind("PRODUCT#*", "COMMENT#*", is_applied=True, is_noticed=True),
        Kind("PRODUCT#*", "REPLY#*", is_noticed=True),
        Kind("PRODUCT#*", "REPORT#*", is_noticed=True),
        Kind("PRODUCT#*", "CLEANUP#*", is_applied=True),
        Kind("PRODUCT#*", "S", is_sum=True, is_live=True),
        Kind("PRODUCT#*", "S#*", is_sum=True),
        Kind("PRODUCT#*", "HIDDEN#*", is_noticed=True),
        Kind("PRODUCT#*", "*"),
        Kind("AUTHOR#*", "STANDING"),
    ),
    personal=PERSONAL,
    actions=frozenset({GET, MANY, QUERY, PUT, UPDATE, DELETE, CHECK}),
    indexes=("gsi1", "gsi2"),
    contribution=comments.contribution,
    derive=comments.derive,
    follow=cleanup.follow,
    notice=notices.find,
    topics={"product": Topic(statistics.topic, parse_identifier, statistics.live)},
)
