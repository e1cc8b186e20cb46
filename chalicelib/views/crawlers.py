"""Who views pages without being a person: crawlers, by the names that they give themselves.

Source: the crawler-user-agents list, kept by its community; loaded at the first request that is judged.
"""

import re
from functools import cache

# Programs that a site's own server may post its visitors' views with, and browsers under test.
TOOLS = frozenset({"http-library", "browser-automation"})


def is_crawler(user_agent: str, *, tools: bool = False) -> bool:
    """Tell whether a User-Agent is a crawler's; with `tools`, an HTTP library's or a test browser's too."""
    return _pattern(tools).search(user_agent[:1000]) is not None


@cache
def _pattern(tools: bool) -> re.Pattern[str]:
    from crawleruseragents import CRAWLER_USER_AGENTS_DATA as KNOWN

    skipped = frozenset() if tools else TOOLS
    return re.compile("|".join(entry["pattern"] for entry in KNOWN if not skipped & set(entry["tags"])))
