"""Challenges: treasure hunts with secret valid paths, and the players that find them."""

from chalicelib.api.schemas import parse_identifier
from chalicelib.challenges import progress, queries
from chalicelib.challenges.personal import PERSONAL
from chalicelib.feature import DELETE, GET, MANY, PUT, QUERY, UPDATE, Feature, Kind, Topic

FEATURE = Feature(
    name="challenges",
    paths={"challenges": "The paths of a challenge that each player has found."},
    items=(
        Kind("CHALLENGE#*", "DEFINITION"),
        Kind("CHALLENGE#*", "STATISTICS", is_sum=True, is_live=True),
        Kind("CHALLENGE#*", "FINDERS#*", is_sum=True),
        Kind("CHALLENGE#*", "PROGRESS", is_applied=True),
        Kind("CHALLENGE#*", "PATH#*", is_applied=True),
        Kind("CHALLENGE#*", "*"),
        Kind("TREE#CHALLENGE#*", "NODE", is_sum=True),
        Kind("TREE#CHALLENGE#*", "DEEPEN", is_applied=True),
    ),
    personal=PERSONAL,
    actions=frozenset({GET, MANY, QUERY, PUT, UPDATE, DELETE}),
    indexes=("gsi1",),
    contribution=progress.contribution,
    rank=progress.rank,
    follow=progress.follow,
    topics={"challenge": Topic(queries.topic, parse_identifier, queries.live)},
)
