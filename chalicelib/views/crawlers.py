"""Detection of crawlers by their User-Agent.

Source: the community's crawler-user-agents list. It is loaded with the first User-Agent that is checked.
"""

import re
from functools import cache

# The tag of programs that may post real views: those of a site's own server.
TOOL_TAG = "http-library"

MORE = ("(?i:prerender)", "Electron.*Cypress", "jsdom")  # not in the list


def is_crawler(user_agent: str, *, tools: bool = False) -> bool:
    """Return whether a User-Agent belongs to a crawler, a browser under automation or a prerenderer.

    With `tools`, HTTP libraries count as crawlers too.
    """
    return _pattern(tools).search(user_agent[:1000]) is not None


@cache
def _pattern(tools: bool) -> re.Pattern[str]:
    from crawleruseragents import CRAWLER_USER_AGENTS_DATA as KNOWN

    found = (entry["pattern"] for entry in KNOWN if tools or TOOL_TAG not in entry["tags"])
    return re.compile("|".join([*found, *MORE]))
