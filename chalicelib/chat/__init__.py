"""Chat between two anonymous visitors over WebSockets, with live topics and reports."""

from chalicelib.chat import reports
from chalicelib.chat.personal import PERSONAL
from chalicelib.feature import DELETE, GET, MANY, PUT, QUERY, UPDATE, Feature, Kind

FEATURE = Feature(
    name="chat",
    paths={"chat": "The reports of chat partners, for moderation."},
    items=(
        Kind("CONN#*", "*"),
        Kind("WAITING#*", "*"),
        Kind("PAIR#*", "PARTED"),
        Kind("REPORTS", "2*", is_noticed=True),  # an instant of this millennium
        Kind("BAN#*", "*"),
        Kind("BLOCKED#*", "BLOCKED"),
        Kind("TOPIC#*", "HEAD", is_live="missed"),
        Kind("TOPIC#*", "*"),
    ),
    personal=PERSONAL,
    actions=frozenset({GET, MANY, QUERY, PUT, UPDATE, DELETE}),
    indexes=("gsi1",),
    posts=True,
    notice=reports.find_notice,
    functions=("push", "sweep", "websocket_connect", "websocket_message", "websocket_disconnect"),
)
