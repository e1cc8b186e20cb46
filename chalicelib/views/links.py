"""Links to the dashboard of a private site. The token of a link reads the site's numbers until it ends."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from chalicelib.api import auth
from chalicelib.api.schemas import parse_instant
from chalicelib.context import Context
from chalicelib.errors import Unprocessable
from chalicelib.views import definitions
from chalicelib.views.schemas import Link

SUBJECT = "statistics"  # of the tokens in links


def make(context: Context, site: str, expires: str, address: str) -> Link:
    """Return a link to the dashboard of a defined site. `address` is that of the stage.

    Cost: 1 RCU.
    Raises: NotFound; BadRequest for a malformed time, Unprocessable for one that is past or later than tokens
    last.
    """
    definitions.get(context.table, site, context.now)
    end = parse_instant("expires", expires)
    seconds, most = int((end - context.now).total_seconds()), context.settings.token_life.total_seconds()
    if not 0 < seconds <= most:
        raise Unprocessable(
            f"`expires` must be within the next {int(most / 3600)} hours (HUBBUB_TOKEN_HOURS)"
        )
    claims: dict[str, str | bool] = {"site": site, "link": True}
    token = auth.mint(context.settings, SUBJECT, scope="statistics", seconds=seconds, claims=claims)
    return Link(url=f"{address}web/dashboard.html?site={quote(site)}#token={token}")


def find_address(headers: Mapping[str, str], request_context: Mapping[str, Any]) -> str:
    """Return the address of the stage that a request was sent to, with a slash at its end."""
    host = headers.get("host") or request_context.get("domainName", "")
    scheme = headers.get("x-forwarded-proto") or "http"
    path = request_context.get("path", "")
    stage = request_context.get("stage", "")
    base = f"/{stage}/" if stage and path.startswith(f"/{stage}/") else "/"
    return f"{scheme}://{host}{base}"
