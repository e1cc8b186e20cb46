"""Hubbub's handlers: every route and every socket, stream, queue and schedule handler, without any logic."""

import os
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Any

from chalice.app import AuthResponse, Chalice, Rate

from chalicelib import feature as features
from chalicelib import settings
from chalicelib.aggregates import engine, lag
from chalicelib.aggregates import queries as stream_queries
from chalicelib.aggregates import schemas as stream_schemas
from chalicelib.api import auth, listing, rates, schemas, static, viewer
from chalicelib.api.auth import Caller
from chalicelib.api.caching import ResponseCache
from chalicelib.api.etags import parse_if_match, with_etag
from chalicelib.api.router import (
    AS_CSV,
    CACHED,
    CACHED_ROWS,
    HTML,
    JSON,
    KB,
    LD_JSON,
    MAX_BODY,
    REPRESENTATION,
    ROWS,
    TEXT,
    Body,
    Media,
    Response,
    Router,
    created,
    prefers_representation,
)
from chalicelib.challenges import definitions, progress, submissions
from chalicelib.challenges import queries as challenge_queries
from chalicelib.challenges import schemas as challenge_schemas
from chalicelib.chat import connections, handlers, matchmaker, reports, subscriptions
from chalicelib.chat import schemas as chat_schemas
from chalicelib.chat.gateway import ConnectionGateway, Session
from chalicelib.comments import comments, feed, moderation, pages, replies, statistics, votes
from chalicelib.comments import definitions as product_definitions
from chalicelib.comments import reports as text_reports
from chalicelib.comments import schemas as comment_schemas
from chalicelib.context import Context
from chalicelib.dynamo import retries
from chalicelib.dynamo.items import Images
from chalicelib.dynamo.table import connect
from chalicelib.errors import (
    BadCursor,
    Bot,
    Conflict,
    Forbidden,
    InTheFuture,
    InvalidPath,
    LimitReached,
    NotFound,
    NotOpen,
    PreconditionFailed,
    SiteNotAllowed,
    SlowDown,
    TooLarge,
    TooOld,
    Unauthorized,
    Unprocessable,
)
from chalicelib.guests import guests
from chalicelib.guests import schemas as guest_schemas
from chalicelib.leaderboards import boards, card, ranks, scores, standings
from chalicelib.leaderboards import queries as board_queries
from chalicelib.leaderboards import schemas as board_schemas
from chalicelib.notices import notices
from chalicelib.ranking import deepening
from chalicelib.telemetry import middleware
from chalicelib.views import badge, events, links, queue, site_queries
from chalicelib.views import definitions as site_definitions
from chalicelib.views import queries as view_queries
from chalicelib.views import schemas as view_schemas

VERSION = "1.0.0"

if "AWS_CHALICE_CLI_MODE" in os.environ and "HUBBUB_OPS" not in os.environ:  # Chalice's own commands
    from ops import chalice_command

    chalice_command.prepare()
stage = settings.current()
# The name of the REST API, by which its metrics are found. chalicelib/telemetry logs.
app = Chalice(app_name=f"hubbub-{stage.stage}", configure_logs=False)
app.experimental_feature_flags.add("WEBSOCKETS")
app.websocket_api.session = Session()
gateway = ConnectionGateway(lambda: app.websocket_api.session)
refusals = connections.RefusalCache()
app.register_middleware(middleware.measure)  # of every handler
app.register_middleware(retries.apply_budget)
# Each package describes its feature. Everything that enumerates features is derived from this list.
FEATURES = features.load(
    "guests",
    "views",
    "leaderboards",
    "challenges",
    "comments",
    "chat",
    "notices",
    "aggregates",
)
CONTRIBUTIONS = tuple(feature.contribution for feature in FEATURES if feature.contribution)
DERIVATIONS = tuple(feature.derive for feature in FEATURES if feature.derive)
RANKS = tuple(feature.rank for feature in FEATURES if feature.rank)
router = Router(app, stage.origins, stage.capacity, features.select(FEATURES, stage), FEATURES)
app.api.cors = router.cors()
TOPICS = {kind: topic for feature in router.enabled for kind, topic in feature.topics.items()}


def clock() -> float:
    """Return the time in epoch seconds."""
    return datetime.now(UTC).timestamp()


def new_context() -> Context:
    """Return the table, the gateway, the settings and the time for a handler."""
    return Context(connect(), gateway, stage, datetime.now(UTC))


# -- authentication ------------------------------------------------------------------------------------


# API Gateway itself returns 401 when the header is missing, and caches one result per header value.
@app.authorizer(ttl_seconds=300)
def identify(request: Any) -> AuthResponse:
    """Authenticate a request. The router decides whether the caller may make it."""
    context = auth.authenticate(stage, request.token)
    return AuthResponse(routes=["*"], principal_id=auth.principal_id(context), context=context)


def limit_writer(caller: Caller) -> None:
    """Count a write of a user, who may be a guest."""
    rates.admit(new_context(), rates.write_limits(stage), caller)


app.api.binary_types.remove("image/gif")  # the pixel is a text
router.authorizer = identify
router.limiter = limit_writer
router.find_address = partial(viewer.find_address, stage)
router.cache = ResponseCache(stage.cache_seconds)


@router.route("POST /guests", status=201, errors=(SlowDown,), body=Body(4 * KB))
def post_guest(body: guest_schemas.GuestBody, caller: Caller) -> guest_schemas.Guest:
    """Sign in as a guest, or rename one.

    A new guest has a random `sub`. A guest with a token keeps the `sub` and gets another name. An address may
    have 60 guests at once, and one more every ten seconds. Only a stage that allows guests has this path
    (`HUBBUB_GUESTS`).
    """
    return guests.sign_in(new_context(), body, caller)


# -- views ---------------------------------------------------------------------------------------------


# A route that counts views. A browser sends text/plain with sendBeacon without a preflight request.
counting_route = partial(
    router.route,
    status=(202, 200),
    errors=(TooLarge, TooOld, InTheFuture, SiteNotAllowed, Bot, SlowDown),
    body=Body(MAX_BODY, 128 * KB, types=(JSON, "text/plain")),
)


@counting_route("POST /views")
def post_views(
    body: view_schemas.ViewsBody, headers: Mapping[str, str], caller: Caller
) -> Response[view_schemas.Accepted | view_schemas.Counted]:
    """Count one view event, or a list of up to 25 events; with a user's or admin's token up to 500.

    A single event that is malformed is rejected with 400. A single event that is not counted is rejected with
    422 and the reason as `code`. The events of a list are validated one by one, and `rejected` lists those
    that are not counted. The error is 413 for a list of more than 25 events without a valid token or with a
    guest's token, and for a list of more than 500 events. The JSON may be sent as text/plain, as a browser
    does without a preflight request. With `Prefer: return=representation` the response to a single event is
    200 with the views and visitors of its page, this one included.
    """
    return accept_views(body, headers, caller)


def accept_views(
    body: view_schemas.ViewsBody, headers: Mapping[str, str], caller: Caller
) -> Response[view_schemas.Accepted | view_schemas.Counted]:
    """Count the views of a body, and return the response to it."""
    reply = events.accept(new_context(), body, caller, headers, counts=prefers_representation(headers))
    is_counted = isinstance(reply, view_schemas.Counted)
    return Response(reply, 200, REPRESENTATION) if is_counted else Response(reply)


if stage.beacon and router.has("views"):  # for visitors whose browser blocks the usual names

    @router.route(f"GET {stage.beacon}", media=TEXT)
    def get_beacon() -> Response[str]:
        """Return the beacon, which posts to the path that it comes from."""
        return static.serve_file(stage, "beacon.js")

    @counting_route(f"POST {stage.beacon}")
    def post_beacon(
        body: view_schemas.ViewsBody, headers: Mapping[str, str], caller: Caller
    ) -> Response[view_schemas.Accepted | view_schemas.Counted]:
        """Count the views of the beacon at its own path."""
        return accept_views(body, headers, caller)


@router.route("GET /views")
def get_views(query: view_schemas.PageQuery) -> view_schemas.PageViews:
    """Return a page's views and visitors."""
    return view_queries.count_views(connect(), query)


@router.route("GET /views/series", media=CACHED_ROWS)
def get_views_series(query: view_schemas.SeriesQuery) -> view_schemas.Series:
    """Return a page's views by hour, day, week or month."""
    return view_queries.read_series(new_context(), query)


@router.route("GET /views/events", access="admin", errors=(BadCursor,))
def get_views_events(query: view_schemas.EventsQuery) -> view_schemas.ViewEvents:
    """List a page's view events in a time frame."""
    return view_queries.list_events(new_context(), query)


@router.route("GET /views/top", errors=(Unauthorized, Forbidden), media=CACHED_ROWS)
def get_views_top(query: view_schemas.TopQuery, caller: Caller) -> view_schemas.TopPages:
    """List a site's most viewed pages, of all time or of a period of its days."""
    return site_queries.list_top_pages(new_context(), query, caller)


@router.route("GET /views/site", errors=(Unauthorized, Forbidden), media=CACHED_ROWS)
def get_views_site(query: view_schemas.SiteSeriesQuery, caller: Caller) -> view_schemas.SiteSeries:
    """Return a site's views and visitors by hour, day, week or month."""
    return site_queries.read_site(new_context(), query, caller)


@router.route("GET /views/referrers", errors=(Unauthorized, Forbidden), media=CACHED_ROWS)
def get_views_referrers(query: view_schemas.ReferrersQuery, caller: Caller) -> view_schemas.Referrers:
    """List the sources that led to a site in a period of its days, or the hosts of a source."""
    return site_queries.list_referrers(new_context(), query, caller)


@router.route("GET /views/visitors", errors=(Unauthorized, Forbidden), media=CACHED_ROWS)
def get_views_visitors(query: view_schemas.TraitsQuery, caller: Caller) -> view_schemas.TraitViewsList:
    """Count a site's views in a period by country, device, browser, operating system or language."""
    return site_queries.count_traits(new_context(), query, caller)


@router.route("GET /views/campaigns", errors=(Unauthorized, Forbidden), media=CACHED_ROWS)
def get_views_campaigns(query: view_schemas.SourcesQuery, caller: Caller) -> view_schemas.Campaigns:
    """List the campaigns that led to a site in a period of its days."""
    return site_queries.list_campaigns(new_context(), query, caller)


@router.route("GET /views/goals", errors=(Unauthorized, Forbidden), media=CACHED_ROWS)
def get_views_goals(query: view_schemas.SourcesQuery, caller: Caller) -> view_schemas.Goals:
    """List the goals of a site in a period of its days, with their events and visitors."""
    return site_queries.list_goals(new_context(), query, caller)


@router.route("GET /sites", access="admin", errors=(BadCursor,), media=ROWS)
def get_sites(query: listing.ListQuery) -> view_schemas.Sites:
    """List the sites that have views, largest first, and then those that are only defined."""
    return site_queries.list_sites(new_context(), query)


@router.route("PUT /sites/{site}", access="admin", status=(200, 201), errors=(Conflict,), body=Body(16 * KB))
def put_site(
    path: view_schemas.SitePath, body: view_schemas.SiteBody
) -> Response[view_schemas.SiteDefinition]:
    """Define a site: its zone, its privacy and its addresses. Views of a defined site count.

    Another zone begins with a later day, which `since` names. The days before it stay as they are counted.
    """
    site = site_queries.parse_site(path.site)
    return created(*site_definitions.define(connect(), site, body, datetime.now(UTC)))


@router.route("GET /sites/{site}", access="admin", errors=(NotFound,))
def get_site(path: view_schemas.SitePath) -> view_schemas.SiteDefinition:
    """Return the definition of a site."""
    return site_definitions.get(connect(), site_queries.parse_site(path.site), datetime.now(UTC))


@router.route("DELETE /sites/{site}", access="admin", status=204, errors=(NotFound,))
def delete_site(path: view_schemas.SitePath) -> None:
    """Remove the definition of a site. Its counted views stay."""
    site_definitions.remove(connect(), site_queries.parse_site(path.site), datetime.now(UTC))


@router.route(
    "POST /sites/{site}/links",
    access="admin",
    status=201,
    errors=(NotFound, Unprocessable),
    body=Body(4 * KB),
)
def post_site_link(path: view_schemas.SitePath, body: view_schemas.LinkBody) -> view_schemas.Link:
    """Make a link to a site's dashboard that reads the site's numbers, and nothing else, until it expires."""
    request: Any = app.current_request
    address = links.find_address(request.headers, request.context)
    return links.make(new_context(), site_queries.parse_site(path.site), body.expires, address)


@router.route("GET /views/badge.svg", media=Media("image/svg+xml", is_cached=True))
def get_views_badge(query: view_schemas.PageQuery) -> Response[str]:
    """Return a badge with a page's views."""
    return Response(
        badge.render("views", view_queries.count_views(connect(), query).views), headers=badge.HEADERS
    )


@router.route(
    "GET /views/pixel.gif", errors=(TooOld, SiteNotAllowed, Bot, SlowDown), media=Media("image/gif")
)
def get_views_pixel(
    query: view_schemas.PageQuery, headers: Mapping[str, str], caller: Caller
) -> Response[str]:
    """Count one view of a page that may not run scripts, and return an image that shows nothing."""
    # The page shows the image, so nothing says what led to it.
    body = view_schemas.ViewsBody(url=query.url, referrer=query.url)
    events.accept(new_context(), body, caller, headers)
    return Response(badge.PIXEL, headers=badge.CROSS_ORIGIN)


# With the queue or without it, `events` writes the views. Only messages that failed are delivered again.
@router.only(
    "views",
    app.on_sqs_message(queue=stage.queue_name, batch_size=10, name="write_views"),
    if_too=stage.queue,
)
def write_views(event: Any) -> dict[str, list[dict[str, str]]]:
    """Write view events from the queue."""
    return queue.consume(event.to_dict(), lambda body: events.write_queued(new_context(), body))


# -- leaderboards --------------------------------------------------------------------------------------


@router.route(
    "PUT /leaderboards/{board}",
    access="admin",
    status=(200, 201),
    errors=(Conflict, Unprocessable),
    body=Body(8 * KB),
)
def put_board(
    path: board_schemas.BoardPath, body: board_schemas.BoardBody
) -> Response[board_schemas.BoardDetails]:
    """Create a leaderboard, or change its title, unit or reset date."""
    return created(*boards.define(new_context(), path.board, body))


@router.route("GET /leaderboards", access="admin", errors=(BadCursor,))
def get_boards(query: listing.ListQuery) -> board_schemas.Boards:
    """List the leaderboards, newest first."""
    return boards.list_boards(new_context(), query)


@router.route("GET /leaderboards/{board}", errors=(NotFound,))
def get_board(path: board_schemas.BoardPath, query: board_schemas.BoardQuery) -> board_schemas.BoardDetails:
    """Return a leaderboard and the number of ranked players."""
    return boards.describe(new_context(), path.board, query.season)


@router.route(
    "POST /leaderboards/{board}/seasons",
    access="admin",
    status=(201, 200),
    errors=(NotFound, Conflict),
    body=Body(4 * KB),
)
def post_season(
    path: board_schemas.BoardPath, body: board_schemas.SeasonBody
) -> Response[board_schemas.BoardDetails]:
    """End a season.

    The next season begins without players. The past season stays readable.
    """
    return created(*boards.end_season(new_context(), path.board, body))


@router.route(
    "POST /leaderboards/{board}/scores",
    access="user",
    status=(201, 200),
    errors=(Forbidden, NotFound, Unprocessable),
    body=Body(4 * KB),
)
def post_score(
    path: board_schemas.BoardPath,
    query: board_schemas.ScoreQuery,
    body: board_schemas.ScoreBody,
    caller: Caller,
) -> Response[board_schemas.ScoreResult]:
    """Submit a score.

    A repeated `id` of the same player counts once. With `standing=true` the response has the player's rank
    with this submission, so that no second request has to read it.
    """
    submit = standings.submit if query.standing else scores.submit
    return created(*submit(new_context(), path.board, body, caller))


@router.route("GET /leaderboards/{board}/rank", errors=(NotFound, Unprocessable))
def get_rank(path: board_schemas.BoardPath, query: board_schemas.RankQuery) -> board_schemas.ScoreRank:
    """Return the rank that a score has or would have."""
    return ranks.find_rank(new_context(), path.board, query)


@router.route("GET /leaderboards/{board}/score", errors=(NotFound,))
def get_score(
    path: board_schemas.BoardPath, query: board_schemas.PercentileQuery
) -> board_schemas.PercentileScore:
    """Return the score at a percentile."""
    return ranks.find_score(new_context(), path.board, query)


@router.route("GET /leaderboards/{board}/standings", errors=(NotFound,))
def get_standings(
    path: board_schemas.BoardPath, query: board_schemas.StandingsQuery
) -> board_schemas.Standings:
    """Return the ranks of some players, on the leaderboard and among each other."""
    return ranks.compare(new_context(), path.board, query)


@router.route("GET /leaderboards/{board}/players/{player}", errors=(NotFound,))
def get_player(path: board_schemas.PlayerPath, query: board_schemas.StandingQuery) -> board_schemas.Standing:
    """Return a player's score and rank."""
    return standings.get(new_context(), path.board, path.player, query)


@router.route(
    "GET /leaderboards/{board}/players/{player}/card.svg",
    errors=(NotFound,),
    media=Media("image/svg+xml", is_cached=True),
)
def get_card(path: board_schemas.PlayerPath, query: board_schemas.BoardQuery) -> Response[str]:
    """Return a picture of a player's rank, to share."""
    return Response(card.draw(new_context(), path.board, path.player, query), headers=badge.HEADERS)


@router.route(
    "DELETE /leaderboards/{board}/players/{player}",
    access="user",
    status=204,
    errors=(Forbidden, NotFound),
)
def delete_player(path: board_schemas.PlayerPath, caller: Caller) -> None:
    """Remove a player from all seasons of a leaderboard."""
    scores.remove_player(new_context(), path.board, path.player, caller)


@router.route(
    "GET /leaderboards/{board}/players/{player}/activities",
    access="user",
    errors=(Forbidden, NotFound, BadCursor),
)
def get_activities(
    path: board_schemas.PlayerPath, query: board_schemas.ActivitiesQuery, caller: Caller
) -> board_schemas.Activities:
    """List a player's submissions."""
    return board_queries.list_activities(new_context(), path.board, path.player, query, caller)


@router.route("GET /leaderboards/{board}/entries", errors=(NotFound, BadCursor), media=ROWS)
def get_entries(path: board_schemas.BoardPath, query: board_schemas.EntriesQuery) -> board_schemas.Entries:
    """List a part of a leaderboard, best score first."""
    return board_queries.list_entries(new_context(), path.board, query)


@router.route("GET /leaderboards/{board}/distribution", errors=(NotFound,), media=ROWS)
def get_distribution(
    path: board_schemas.BoardPath, query: board_schemas.BoardQuery
) -> board_schemas.Distribution:
    """Count the players of a leaderboard in each range of scores."""
    return board_queries.get_distribution(new_context(), path.board, query)


# -- challenges ----------------------------------------------------------------------------------------


@router.route(
    "PUT /challenges/{challenge}", access="admin", status=(201, 200), errors=(Conflict,), body=Body(MAX_BODY)
)
def put_challenge(
    path: challenge_schemas.ChallengeParams, body: challenge_schemas.ChallengeBody
) -> Response[challenge_schemas.Challenge]:
    """Create or replace a challenge.

    The paths that players have found stay found.
    """
    return created(*definitions.define(new_context(), path.challenge, body))


@router.route("GET /challenges", access="admin", errors=(BadCursor,))
def get_challenges(query: listing.ListQuery) -> challenge_schemas.Challenges:
    """List the challenges, newest first."""
    return challenge_queries.list_challenges(new_context(), query)


@router.route("GET /challenges/{challenge}", errors=(NotFound,))
def get_challenge(path: challenge_schemas.ChallengeParams) -> challenge_schemas.Challenge:
    """Return a challenge without its valid paths."""
    return definitions.describe(connect(), path.challenge)


@router.route(
    "POST /challenges/{challenge}/paths",
    access="user",
    status=(201, 200),
    errors=(NotFound, NotOpen, Forbidden, LimitReached, InvalidPath),
    body=Body(4 * KB),
)
def post_challenge_path(
    path: challenge_schemas.ChallengeParams, body: challenge_schemas.PathBody, caller: Caller
) -> Response[challenge_schemas.SubmissionResult]:
    """Submit a path.

    The status is 201 for a new path, and 200 for a path that the player has found before.
    """
    return created(*submissions.submit(new_context(), path.challenge, caller, body.path))


@router.route("GET /challenges/{challenge}/players/{player}", access="user", errors=(Forbidden, NotFound))
def get_challenge_player(path: challenge_schemas.PlayerParams, caller: Caller) -> challenge_schemas.Progress:
    """List the paths that a player has found.

    Only the player and admins may read them.
    """
    return progress.get_progress(connect(), path, caller)


@router.route(
    "DELETE /challenges/{challenge}/players/{player}", access="admin", status=204, errors=(NotFound,)
)
def delete_challenge_player(path: challenge_schemas.PlayerParams) -> None:
    """Delete all paths that a player has found."""
    progress.withdraw_player(connect(), path)


@router.route(
    "DELETE /challenges/{challenge}/players/{player}/paths/{path}",
    access="admin",
    status=204,
    errors=(NotFound,),
)
def delete_challenge_path(path: challenge_schemas.FoundPathParams) -> None:
    """Delete one path that a player has found."""
    progress.withdraw_path(connect(), path)


@router.route("GET /challenges/{challenge}/leaders", errors=(NotFound, BadCursor), media=ROWS)
def get_challenge_leaders(
    path: challenge_schemas.ChallengeParams, query: challenge_schemas.ChallengeLeadersQuery
) -> challenge_schemas.ChallengeLeaders:
    """List a part of a ranked challenge's players, most paths first, then earliest."""
    return challenge_queries.list_leaders(new_context(), path.challenge, query)


@router.route("GET /challenges/{challenge}/statistics", errors=(NotFound,), media=ROWS)
def get_challenge_statistics(
    path: challenge_schemas.ChallengeParams,
) -> challenge_schemas.ChallengeStatistics:
    """Count the players of a challenge by the number of paths that they have found."""
    return challenge_queries.get_statistics(connect(), path.challenge)


# -- comments ------------------------------------------------------------------------------------------


@router.route("PUT /products/{product}", access="admin", status=(200, 201), body=Body(KB))
def put_product(
    path: comment_schemas.ProductPath, body: comment_schemas.ProductBody
) -> Response[comment_schemas.ProductDefinition]:
    """Define a product: whether its comments have ratings, and how many an author may write."""
    return created(*product_definitions.define(new_context(), path.product, body))


@router.route("GET /products/{product}")
def get_product(path: comment_schemas.ProductPath) -> comment_schemas.ProductDefinition:
    """Return how a product takes comments, by its definition or by the stage's mode."""
    return product_definitions.describe(new_context(), path.product)


@router.route("DELETE /products/{product}", access="admin", status=204, errors=(NotFound,))
def delete_product(path: comment_schemas.ProductPath) -> None:
    """Remove the definition of a product. Its comments stay."""
    product_definitions.remove(connect(), path.product)


@router.route(
    "POST /products/{product}/comments",
    access="user",
    status=201,
    errors=(Forbidden, Conflict, Unprocessable),
    body=Body(64 * KB),
)
def post_comment(
    path: comment_schemas.ProductPath,
    body: comment_schemas.CommentBody,
    caller: Caller,
    idempotency_key: str | None,
) -> Response[comment_schemas.Comment]:
    """Comment on a product, once for each author unless its definition says otherwise."""
    return with_etag(*comments.post(new_context(), path.product, body, caller, idempotency_key))


@router.route("GET /products/{product}/comments", errors=(BadCursor, Forbidden))
def get_comments(
    path: comment_schemas.ProductPath, query: comment_schemas.CommentsQuery, caller: Caller
) -> comment_schemas.Comments:
    """Return a product's comments in one of five orders. They can be filtered by ratings and language."""
    return pages.list_comments(new_context(), path.product, query, caller)


@router.route(
    "GET /comments",
    access="admin",
    errors=(BadCursor,),
    media=Media(others={feed.TYPE: lambda found, _: feed.encode(stage.stage, found)}),
)
def get_all_comments(query: comment_schemas.ModerationQuery) -> comment_schemas.AllComments:
    """List the comments on all products, newest first, hidden ones too. Pending ones have their own list."""
    return pages.list_all(new_context(), query)


@router.route("GET /products", access="admin", errors=(BadCursor,))
def get_products(query: listing.ListQuery) -> comment_schemas.Products:
    """List the products that have had a comment or a definition, newest first."""
    return pages.list_products(new_context(), query)


@router.route("GET /products/{product}/hidden", access="admin", errors=(BadCursor,))
def get_hidden(
    path: comment_schemas.ProductPath, query: comment_schemas.HiddenQuery
) -> comment_schemas.Comments:
    """Return the comments on a product that an admin has hidden, or that wait for approval."""
    return pages.list_hidden(new_context(), path.product, query)


@router.route("GET /products/{product}/comments/{id}", errors=(NotFound,))
def get_comment(path: comment_schemas.CommentPath, caller: Caller) -> Response[comment_schemas.Comment]:
    """Return a comment, with an ETag for If-Match."""
    return with_etag(*comments.find(connect(), path.product, path.id, caller))


@router.route(
    "PATCH /products/{product}/comments/{id}",
    access="user",
    errors=(Forbidden, NotFound, PreconditionFailed, Unprocessable),
    body=Body(64 * KB),
)
def patch_comment(
    path: comment_schemas.CommentPath,
    body: comment_schemas.CommentPatch,
    caller: Caller,
    if_match: str | None,
) -> Response[comment_schemas.Comment]:
    """Change a comment.

    The author may change its rating, language and text. An admin may hide it, show it again, and approve it.
    """
    return with_etag(
        *comments.patch(new_context(), path.product, path.id, body, caller, parse_if_match(if_match))
    )


@router.route(
    "DELETE /products/{product}/comments/{id}", access="user", status=204, errors=(Forbidden, NotFound)
)
def delete_comment(path: comment_schemas.CommentPath, caller: Caller) -> None:
    """Delete a comment with its replies and votes, as its author or as an admin."""
    comments.delete(connect(), path.product, path.id, caller)


@router.route(
    "PUT /products/{product}/comments/{id}/vote",
    access="user",
    status=(200, 201),
    errors=(Forbidden, NotFound),
)
def put_vote(path: comment_schemas.CommentPath, caller: Caller) -> Response[comment_schemas.Votes]:
    """Vote for a comment that is helpful, once for each reader.

    The status is 201 for a new vote, and 200 when the reader has voted before. Authors may not vote for their
    own comments.
    """
    return created(*votes.cast(new_context(), path.product, path.id, caller))


@router.route("DELETE /products/{product}/comments/{id}/vote", access="user", status=204, errors=(NotFound,))
def delete_vote(path: comment_schemas.CommentPath, caller: Caller) -> None:
    """Withdraw the caller's vote, if there is one."""
    votes.withdraw(connect(), path.product, path.id, caller)


@router.route(
    "POST /products/{product}/comments/{id}/replies",
    access="user",
    status=201,
    errors=(Forbidden, NotFound, Conflict, Unprocessable),
    body=Body(64 * KB),
)
def post_reply(
    path: comment_schemas.CommentPath,
    body: comment_schemas.ReplyBody,
    caller: Caller,
    idempotency_key: str | None,
) -> comment_schemas.Reply:
    """Reply to a comment."""
    return replies.post(new_context(), path.product, path.id, body, caller, idempotency_key)


@router.route("GET /products/{product}/comments/{id}/replies", errors=(NotFound, BadCursor))
def get_replies(
    path: comment_schemas.CommentPath, query: comment_schemas.RepliesQuery, caller: Caller
) -> comment_schemas.Replies:
    """Return the replies to a comment, oldest first."""
    return replies.list_replies(new_context(), path.product, path.id, query, caller)


@router.route(
    "PATCH /products/{product}/comments/{id}/replies/{reply}",
    access="user",
    errors=(Forbidden, NotFound, Unprocessable),
    body=Body(64 * KB),
)
def patch_reply(
    path: comment_schemas.ReplyPath, body: comment_schemas.ReplyPatch, caller: Caller
) -> comment_schemas.Reply:
    """Change a reply.

    The author may change its language and text. An admin may hide it, show it again, and approve it.
    """
    return replies.patch(new_context(), path, body, caller)


@router.route(
    "DELETE /products/{product}/comments/{id}/replies/{reply}",
    access="user",
    status=204,
    errors=(Forbidden, NotFound),
)
def delete_reply(path: comment_schemas.ReplyPath, caller: Caller) -> None:
    """Delete a reply, as its author or as an admin."""
    replies.delete(connect(), path, caller)


@router.route("GET /replies", access="admin", errors=(BadCursor,))
def get_all_replies(query: comment_schemas.ModerationQuery) -> comment_schemas.AllReplies:
    """List the replies on all products, newest first, hidden ones too. Pending ones have their own list."""
    return pages.list_all_replies(new_context(), query)


@router.route(
    "POST /products/{product}/comments/{id}/reports",
    access="user",
    status=(200, 201),
    errors=(Forbidden, NotFound),
    body=Body(4 * KB),
)
def post_comment_report(
    path: comment_schemas.CommentPath, body: comment_schemas.ReportBody, caller: Caller
) -> Response[comment_schemas.Receipt]:
    """Report a comment or a reply to the admins, once for each reader. Again: 200, and nothing changes."""
    return created(*text_reports.report(new_context(), path, body, caller))


@router.route(
    "DELETE /products/{product}/comments/{id}/reports", access="admin", status=204, errors=(NotFound,)
)
def delete_comment_reports(path: comment_schemas.CommentPath, query: comment_schemas.DismissQuery) -> None:
    """Dismiss the reports of a comment or of a reply."""
    text_reports.dismiss(connect(), path, query.reply or "")


@router.route("GET /comments/reports", access="admin", errors=(BadCursor,))
def get_comment_reports(query: listing.ListQuery) -> comment_schemas.ReportedTexts:
    """List the comments and replies that readers have reported, the last one to be reported first."""
    return text_reports.list_reported(new_context(), query)


@router.route("GET /comments/bans", access="admin", errors=(BadCursor,))
def get_comment_bans(query: listing.ListQuery) -> comment_schemas.Bans:
    """List the authors that may not write, the last ban to end first."""
    return moderation.list_bans(new_context(), query)


@router.route("PUT /comments/bans/{author}", access="admin", status=(200, 201), body=Body(4 * KB))
def put_comment_ban(
    path: comment_schemas.AuthorPath, body: comment_schemas.BanBody
) -> Response[comment_schemas.Ban]:
    """Refuse the comments, replies, votes and reports of an author for some hours."""
    return created(*moderation.ban(new_context(), path.author, body))


@router.route("DELETE /comments/bans/{author}", access="admin", status=204, errors=(NotFound,))
def delete_comment_ban(path: comment_schemas.AuthorPath) -> None:
    """End the ban of an author."""
    moderation.lift_ban(connect(), path.author)


@router.route(
    "GET /products/{product}/statistics", media=Media(others={**AS_CSV, LD_JSON: statistics.encode_ld_json})
)
def get_statistics(
    path: comment_schemas.ProductPath, query: comment_schemas.StatisticsQuery
) -> comment_schemas.RatingStatistics:
    """Return a product's counts by rating and its averages, in one language or in all."""
    return statistics.get_statistics(connect(), path.product, query)


@router.route("GET /products/leaders", media=CACHED_ROWS)
def get_leaders(query: comment_schemas.LeadersQuery) -> comment_schemas.Leaders:
    """Return the products with most ratings of 5, in one language or in all.

    A stage may limit the list to some products, and set the number of ratings of 5 that a product needs.
    """
    return statistics.list_leaders(new_context(), query)


# -- the stream ----------------------------------------------------------------------------------------


# Provisioning records the stream's ARN, which is unknown until the table exists. A new mapping begins with
# the stream's last 24 hours. The aggregates remember the changes that they have counted.
@router.only(
    "aggregates",
    app.on_dynamodb_record(
        stream_arn=stage.stream_arn,
        batch_size=100,
        starting_position="TRIM_HORIZON",
        name="apply",
    ),
)
def apply(event: Any) -> None:
    """Add a batch of changed items to the aggregates."""
    apply_records(event.to_dict()["Records"])


def apply_records(records: list[Any]) -> None:
    """Add a batch of stream records to the aggregates, and run the followers of the features. Idempotent."""
    context = new_context()
    report = engine.apply(context.table, CONTRIBUTIONS, records, derivations=DERIVATIONS, now=clock)
    middleware.count_batch(report)
    complete(context, report.changes)


def complete(context: Context, changes: list[Images]) -> None:
    """Run the followers of a batch, for submissions, index keys, depths and deleted comments."""
    features.follow(context, FEATURES, changes)
    deepening.follow(context, RANKS, changes)


# A consumer of its own, so that neither a listener nor SNS can delay counting. A shard may have two consumers
# (tests/ops/test_mappings.py). A new mapping begins with new changes.
@router.only(
    "chat" if router.has("chat") else "notices",
    app.on_dynamodb_record(
        stream_arn=stage.stream_arn,
        batch_size=100,
        starting_position="LATEST",
        name="push",
    ),
)
def push(event: Any) -> None:
    """Push a batch of changed aggregates to the connections that subscribe to them. Publish its notices."""
    context, records = new_context(), event.to_dict()["Records"]
    subscriptions.push(context, TOPICS, records)
    notices.publish(context, router.enabled, records)


# The alarm stream-lag watches its errors, and its missing runs too.
@router.only("aggregates", app.schedule(Rate(5, unit=Rate.MINUTES), name="probe"))
def probe(event: Any) -> None:
    """Check that a change reaches the aggregates within a minute."""
    lag.check_lag(connect(), lambda: datetime.now(UTC))


@router.route("GET /lag", access="admin")
def get_lag() -> stream_schemas.Lag:
    """Measure how far the sums lag behind the writes."""
    return lag.measure_lag(connect(), lambda: datetime.now(UTC))


@router.route("GET /quarantine", access="admin", errors=(BadCursor,))
def get_quarantine(query: stream_schemas.QuarantineQuery) -> stream_schemas.Quarantine:
    """List the item images in quarantine, newest first: their contribution could not be computed."""
    return stream_queries.list_quarantined(new_context(), query)


# -- chat ----------------------------------------------------------------------------------------------


# Nothing can be posted to a connection before this has returned. An open client asks for its status.
@router.only("chat", app.on_ws_connect())
def socket_connect(event: Any) -> dict[str, int]:
    """Admit a client to its lobby, and match it."""
    return handlers.connect(new_context(), event.to_dict())


@router.only("chat", app.on_ws_message())
def socket_message(event: Any) -> None:
    """Handle a frame."""
    handlers.receive_frame(new_context(), TOPICS, event.to_dict(), refusals)


# API Gateway sends this event at best effort. Without it, a failed post or the sweep finds a dead connection.
@router.only("chat", app.on_ws_disconnect())
def socket_disconnect(event: Any) -> None:
    """Mark a closed connection as gone, and free its partner."""
    handlers.disconnect(new_context(), event.to_dict())


@router.only("chat", app.schedule(Rate(1, unit=Rate.MINUTES), name="sweep"))
def sweep(event: Any) -> None:
    """Free the partners of dead connections, and complete the work that a crash has interrupted."""
    matchmaker.sweep(new_context(), lambda: datetime.now(UTC))


@router.route("GET /chat/reports", access="admin", errors=(BadCursor,))
def get_chat_reports(query: chat_schemas.ReportsQuery) -> chat_schemas.Reports:
    """Return the reports of chat partners, newest first."""
    return reports.list_reports(new_context(), query)


@router.route(
    "POST /chat/reports/{id}", access="admin", status=204, errors=(NotFound, Conflict), body=Body(4 * KB)
)
def post_chat_report(path: chat_schemas.ReportPath, body: chat_schemas.ReportAction) -> None:
    """Dismiss a report, or ban the address and the subject of the reported visitor for some hours.

    A ban closes all their open connections.
    """
    context = new_context()
    matchmaker.expel(context, reports.act(context, path.id, body))


# -- service -------------------------------------------------------------------------------------------


@router.route("GET /health")
def get_health() -> schemas.Health:
    """Return the state of the app, without any call to the table."""
    return schemas.Health(stage=stage.stage)


# The path of a stage of API Gateway begins with its name, so the page's addresses are relative.
@router.route("GET /", status=(200, 302), media=HTML)
def get_page() -> Response[str]:
    """Return the page with the live numbers.

    A stage's path without its last slash is redirected to the path with it.
    """
    request: Any = app.current_request
    return static.serve_index(stage, request.context.get("path", "/"), request.query_params)


@router.route("GET /web/config.json")
def get_page_config() -> schemas.PageConfig:
    """Return the configuration of the page."""
    return static.configure_page(stage)


@router.route("GET /web/{name}", errors=(NotFound,), media=TEXT)
def get_page_file(path: schemas.PagePath) -> Response[str]:
    """Return a file of the page or of its widgets."""
    return static.serve_file(stage, path.name)


@router.route("GET /web/{name}/{file}", errors=(NotFound,), media=TEXT)
def get_page_part(path: schemas.PagePartPath) -> Response[str]:
    """Return a file in a folder of the page."""
    return static.serve_file(stage, path.file, path.name)


@router.route("GET /openapi.json", media=CACHED)
def get_openapi() -> Response[Any]:
    """Return the OpenAPI 3.1 document."""
    from chalicelib.api.openapi import describe  # imported here, because only this handler needs it

    return Response(describe(router, VERSION), headers={"Cache-Control": "public, max-age=300"})


@router.route("GET /docs", media=HTML)
def get_docs() -> Response[str]:
    """Return the API reference."""
    return static.serve_reference()


@router.route("GET /docs/{file}", errors=(NotFound,), media=TEXT)
def get_docs_file(path: schemas.FilePath) -> Response[str]:
    """Return a file of the API reference."""
    return static.serve_reference(path.file)
