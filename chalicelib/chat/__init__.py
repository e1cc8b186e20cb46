"""Chat between two anonymous visitors over WebSockets, with live topics and reports."""

from chalicelib.feature import DELETE, GET, PUT, QUERY, Feature, Kind

FEATURE = Feature(
    name="chat",
    paths={"chat": "The reports of chat partners, for moderation."},
    items=(
        Kind("CONN#*", "*"),
        Kind("WAITING#*", "*"),
        Kind("REPORTS", "*"),
        Kind("REPORTER#*", "*"),
        Kind("BAN#*", "*"),
        Kind("TOPIC#*", "HEAD", is_live="missed"),
        Kind("TOPIC#*", "*"),
    ),
    actions=frozenset({GET, QUERY, PUT, DELETE}),
    functions=("push", "sweep", "websocket_connect", "websocket_message", "websocket_disconnect"),
)
