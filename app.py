"""Hubbub's table of contents: every route, socket, stream and queue handler, and no logic."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from chalice.app import AuthResponse, Chalice, Response

from chalicelib import aggregates, auth, badge, queue, schemas, settings, telemetry, traffic, views
from chalicelib.door import Door
from chalicelib.table import connect

app = Chalice(app_name="hubbub")
app.experimental_feature_flags.add("WEBSOCKETS")
app.api.cors = True
door = Door(app)
stage = settings.current()

# One function a feature: what an item adds to which aggregates.
CONTRIBUTIONS = (views.contribution,)


# -- who is calling ------------------------------------------------------------------------------------


# API Gateway answers 401 by itself when the header is missing, and keeps an answer per header value.
@app.authorizer(ttl_seconds=300)
def identify(request: Any) -> AuthResponse:
    """Say who sends a request; the door decides whether that is enough."""
    context = auth.context(stage, request.token)
    return AuthResponse(routes=["*"], principal_id=context.get("sub", "nobody"), context=context)


door.authorizer = identify


# -- views ---------------------------------------------------------------------------------------------


@door("POST", "/views", status=202)
def post_views(body: schemas.ViewsBody, headers: Mapping[str, str]) -> schemas.Accepted:
    """Take one view event, or up to 500."""
    return views.record(connect(), body, headers.get("user-agent", ""), stage, datetime.now(UTC))


@door("GET", "/views")
def get_views(query: schemas.PageQuery) -> schemas.PageViews:
    """Answer a page's views and uniques."""
    return views.count(connect(), query)


@door("GET", "/views/series")
def get_views_series(query: schemas.SeriesQuery) -> schemas.Series:
    """Answer a page's views by hour or by day."""
    return traffic.series(connect(), query, datetime.now(UTC))


@door("GET", "/views/events", who="admin")
def get_views_events(query: schemas.EventsQuery) -> schemas.ViewEvents:
    """Answer a page's view events in a time frame."""
    return traffic.events(connect(), query, stage, datetime.now(UTC))


@door("GET", "/views/top")
def get_views_top(query: schemas.TopQuery) -> schemas.TopPages:
    """Answer a site's most viewed pages."""
    return traffic.top(connect(), query)


@door("GET", "/views/badge.svg")
def get_views_badge(query: schemas.PageQuery) -> Response:
    """Draw a page's views as a badge."""
    return Response(badge.svg("views", views.count(connect(), query).views), badge.HEADERS)


# Both paths, with the queue and without, end in views.write. Only the messages that failed come again.
@app.on_sqs_message(queue=stage.queue_name, batch_size=10, name="write_views")
def write_views(event: Any) -> dict[str, list[dict[str, str]]]:
    """Write the view events that wait in the queue."""
    return queue.consume(
        event.to_dict(), lambda body: views.write_queued(connect(), body, stage, datetime.now(UTC))
    )


# -- the stream ----------------------------------------------------------------------------------------


# A stream's ARN is known only once the table exists; a stage without one is for its REST part alone.
@app.on_dynamodb_record(
    stream_arn=stage.stream_arn or "arn:aws:dynamodb:*:*:table/none", batch_size=100, name="apply"
)
def apply(event: Any) -> None:
    """Add a batch of changed items to the aggregates."""
    records = event.to_dict()["Records"]
    telemetry.publish(aggregates.apply(connect(), CONTRIBUTIONS, records, guard_pages=stage.guard_pages))


# -- sockets -------------------------------------------------------------------------------------------


@app.on_ws_connect()
def socket_connect(event: Any) -> None:
    """Let a client in. (No feature talks over the socket yet.)"""


@app.on_ws_message()
def socket_message(event: Any) -> None:
    """Answer every frame with bad_request, for there is no action yet."""
    app.websocket_api.send(event.connection_id, '{"type":"error","code":"bad_request"}')


@app.on_ws_disconnect()
def socket_disconnect(event: Any) -> None:
    """Take note that a client left."""


# -- service -------------------------------------------------------------------------------------------


@door("GET", "/health")
def get_health() -> schemas.Health:
    """Answer that the app is up; touches nothing else."""
    return schemas.Health(stage=stage.stage)
