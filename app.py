"""Hubbub's table of contents: every route, socket, stream and queue handler, and no logic."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from chalice.app import AuthResponse, Chalice

from chalicelib import (
    aggregates,
    auth,
    badge,
    comment_changes,
    comment_pages,
    comment_schemas,
    comments,
    queue,
    ratings,
    schemas,
    settings,
    sockets,
    telemetry,
    traffic,
    view_schemas,
    viewer,
    views,
)
from chalicelib.auth import Caller
from chalicelib.calls import Answer
from chalicelib.door import Door
from chalicelib.errors import BadCursor, Conflict, Forbidden, NotFound, PreconditionFailed, TooLarge
from chalicelib.table import connect

VERSION = "0.1.0"

app = Chalice(app_name="hubbub", configure_logs=False)  # telemetry.py logs
app.experimental_feature_flags.add("WEBSOCKETS")
app.websocket_api.session = sockets.Session()
stage = settings.current()
door = Door(app, stage.origins)
app.api.cors = door.cors()

# One function a feature: what an item adds to which aggregates.
CONTRIBUTIONS = (views.contribution, comments.contribution)


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


# -- comments ------------------------------------------------------------------------------------------


@door("POST", "/products/{product}/comments", who="user", status=201, errors=(Conflict,))
def post_comment(
    path: comment_schemas.ProductPath,
    body: comment_schemas.CommentBody,
    caller: Caller,
    idempotency_key: str | None,
) -> Answer[comment_schemas.Comment]:
    """Comment on a product: once an author."""
    return comments.post(connect(), path.product, body, caller, idempotency_key, datetime.now(UTC))


@door("GET", "/products/{product}/comments", errors=(BadCursor, Forbidden))
def get_comments(
    path: comment_schemas.ProductPath, query: comment_schemas.CommentsQuery, caller: Caller
) -> comment_schemas.Comments:
    """Answer a product's comments, newest first; of some ratings, in one language, or all."""
    return comment_pages.newest(connect(), path.product, query, stage, caller)


@door("GET", "/products/{product}/comments/{id}", errors=(NotFound,))
def get_comment(path: comment_schemas.CommentPath, caller: Caller) -> Answer[comment_schemas.Comment]:
    """Answer one comment; its ETag is what If-Match takes."""
    return comments.find(connect(), path.product, path.id, caller)


@door(
    "PATCH",
    "/products/{product}/comments/{id}",
    who="user",
    errors=(Forbidden, NotFound, PreconditionFailed),
)
def patch_comment(
    path: comment_schemas.CommentPath,
    body: comment_schemas.CommentPatch,
    caller: Caller,
    if_match: str | None,
) -> Answer[comment_schemas.Comment]:
    """Change a comment: its author its rating, language or text, an admin whether it is hidden."""
    now = datetime.now(UTC)
    return comment_changes.patch(connect(), path.product, path.id, body, caller, if_match, now)


@door("DELETE", "/products/{product}/comments/{id}", who="user", status=204, errors=(Forbidden, NotFound))
def delete_comment(path: comment_schemas.CommentPath, caller: Caller) -> None:
    """Delete a comment: its author, or an admin."""
    comment_changes.delete(connect(), path.product, path.id, caller)


@door("GET", "/products/{product}/statistics")
def get_statistics(
    path: comment_schemas.ProductPath, query: comment_schemas.StatisticsQuery
) -> comment_schemas.Statistics:
    """Answer a product's counts by rating and its averages, in one language or in all."""
    return ratings.statistics(connect(), path.product, query)


@door("GET", "/products/leaders")
def get_leaders(query: comment_schemas.LeadersQuery) -> comment_schemas.Leaders:
    """Answer the products with most ratings of 5, in one language or in all."""
    return ratings.leaders(connect(), query)


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
    """Answer a frame."""
    app.websocket_api.send(event.connection_id, sockets.answer(event.body))


@app.on_ws_disconnect()
def socket_disconnect(event: Any) -> None:
    """Take note that a client left."""


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
