"""Leaderboards: boards with seasons, the scores of players, and ranks."""

from chalicelib.api.schemas import parse_identifier
from chalicelib.feature import DELETE, GET, MANY, PUT, QUERY, UPDATE, Feature, Kind, Topic
from chalicelib.leaderboards import boards, queries, scores
from chalicelib.leaderboards.personal import PERSONAL

FEATURE = Feature(
    name="leaderboards",
    paths={"leaderboards": "Scores of players, ranked."},
    items=(
        Kind("BOARD#*", "SEASON#*", is_noticed=True),
        Kind("BOARD#*", "*"),
        Kind("PLAYER#*", "BOARD#*", is_applied=True, is_live=True),
        Kind("PLAYER#*", "ACTIVITY#*", is_applied=True),
        Kind("TREE#BOARD#*", "NODE", is_sum=True, is_live=True),
        Kind("TREE#BOARD#*", "DEEPEN", is_applied=True),
    ),
    personal=PERSONAL,
    actions=frozenset({GET, MANY, QUERY, PUT, UPDATE, DELETE}),
    indexes=("gsi1",),
    contribution=scores.contribution,
    rank=scores.rank,
    follow=scores.follow,
    notice=boards.find_notice,
    topics={"leaderboard": Topic(queries.topic, parse_identifier, queries.live)},
)
