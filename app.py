"""Hubbub's table of contents: every route, socket, stream and queue handler, and no logic."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from chalice.app import AuthResponse, Chalice, Rate

from chalicelib import (
    aggregates,
    auth,
    badge,
    chat,
    chat_schemas,
    lobby,
    queue,
    reports,
    schemas,
    settings,
    sockets,
    telemetry,
    topics,
    traffic,
    view_schemas,
    viewer,
    views,
)
from chalicelib.calls import Answer
from chalicelib.door import Door
from chalicelib.errors import BadCursor, NotFound, TooLarge
from chalicelib.posts import Posts
from chalicelib.table import connect

VERSION = "0.1.0"

app = Chalice(app_name="hubbub", configure_logs=False)  # telemetry.py logs
app.experimental_feature_flags.add("WEBSOCKETS")
app.websocket_api.session = sockets.Session()
stage = settings.current()
posts = Posts(lambda: app.websocket_api.session)
door = Door(app, stage.origins)
app.api.cors = door.cors()

# One function a feature: what an item adds to which aggregates.
CONTRIBUTIONS = (views.contribution,)

# One source a feature: what is pushed to those who listen to it.
TOPICS = {"views": topics.Source(views.topic, views.address, views.live)}


# -- who is calling ------------------------------------------------------------------------------------


# API Gateway answers 401 by itself when the header is missing, and keeps an answer per header value.
@app.authorizer(ttl_seconds=300)
def identify(request: Any) -> AuthResponse:
    """Say who sends a request; the door decides whether that is enough."""
    context = auth.context(stage, request.token)
    return AuthResponse(routes=["*"], principal_id=context.get("sub", "nobody"), context=context)


door.authorizer = identify


# -- views ---------------------------------------------------------------------------------------------


# text/plain is what sendBeacon sends without asking the browser's leave first (a preflight).
@door("POST", "/views", status=202, accepts=("application/json", "text/plain"), errors=(TooLarge,))
def post_views(body: view_schemas.ViewsBody, headers: Mapping[str, str]) -> view_schemas.Accepted:
    """Take one view event, or up to 500."""
    return views.take(connect(), body, headers.get("user-agent", ""), stage, datetime.now(UTC))


@door("GET", "/views")
def get_views(query: view_schemas.PageQuery) -> view_schemas.PageViews:
    """Answer a page's views and uniques."""
    return views.count(connect(), query)


@door("GET", "/views/series")
def get_views_series(query: view_schemas.SeriesQuery) -> view_schemas.Series:
    """Answer a page's views by hour or by day."""
    return traffic.series(connect(), query, datetime.now(UTC))


@door("GET", "/views/events", who="admin", errors=(BadCursor,))
def get_views_events(query: view_schemas.EventsQuery) -> view_schemas.ViewEvents:
    """Answer a page's view events in a time frame."""
    return traffic.events(connect(), query, stage, datetime.now(UTC))


@door("GET", "/views/top")
def get_views_top(query: view_schemas.TopQuery) -> view_schemas.TopPages:
    """Answer a site's most viewed pages."""
    return traffic.top(connect(), query)


@door("GET", "/views/badge.svg", produces="image/svg+xml")
def get_views_badge(query: view_schemas.PageQuery) -> Answer[str]:
    """Draw a page's views as a badge."""
    return Answer(badge.svg("views", views.count(connect(), query).views), headers=badge.HEADERS)


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
    topics.push(connect(), posts, TOPICS, records, datetime.now(UTC))


# -- chat ----------------------------------------------------------------------------------------------


# Nothing can be posted to a connection before this has returned; a client that is open asks for its status.
@app.on_ws_connect()
def socket_connect(event: Any) -> dict[str, int]:
    """Let a client into its lobby, and match it."""
    return chat.connect(connect(), posts, event.to_dict(), datetime.now(UTC), stage)


@app.on_ws_message()
def socket_message(event: Any) -> None:
    """Take a frame."""
    chat.hear(connect(), posts, TOPICS, event.to_dict(), datetime.now(UTC), stage)


# Best effort: where it never comes, a post that fails or the sweep finds out.
@app.on_ws_disconnect()
def socket_disconnect(event: Any) -> None:
    """Free whoever was with a client that left."""
    chat.disconnect(connect(), posts, event.to_dict(), datetime.now(UTC), stage)


@app.schedule(Rate(1, unit=Rate.MINUTES), name="sweep")
def sweep(event: Any) -> None:
    """Free whoever's partner died in silence; match and tell whom a crash has forgotten."""
    lobby.sweep(connect(), posts, stage, lambda: datetime.now(UTC))


@door("GET", "/chat/reports", who="admin", errors=(BadCursor,))
def get_chat_reports(query: chat_schemas.ReportsQuery) -> chat_schemas.Reports:
    """Answer the reports of chat partners."""
    return reports.page(connect(), query, stage, datetime.now(UTC))


# -- service -------------------------------------------------------------------------------------------


@door("GET", "/health")
def get_health() -> schemas.Health:
    """Answer that the app is up; touches nothing else."""
    return schemas.Health(stage=stage.stage)


@door("GET", "/openapi.json")
def get_openapi() -> Answer[Any]:
    """Describe every call, as OpenAPI 3.1."""
    from chalicelib.openapi import describe  # only this call needs it

    return Answer(describe(door.calls, VERSION), headers={"Cache-Control": "public, max-age=300"})


@door("GET", "/docs", produces="text/html; charset=utf-8")
def get_docs() -> Answer[str]:
    """Show the calls, to read and to try."""
    return Answer(viewer.file("index.html")[0], headers=viewer.HEADERS)


@door("GET", "/docs/{file}", produces="text/plain", errors=(NotFound,))
def get_docs_file(path: schemas.FilePath) -> Answer[str]:
    """Answer one of the files that the page of the calls is made of."""
    text, kind = viewer.file(path.file)
    return Answer(text, headers=viewer.HEADERS | {"Content-Type": kind})
