"""Detection of crawlers by their User-Agent.

Source: the community's crawler-user-agents list. It is loaded with the first User-Agent that is checked.
"""

import re
from functools import cache

# Tags of programs that may post real views: a site's own server, or a browser under test.
TOOL_TAGS = frozenset({"http-library", "browser-automation"})


def is_crawler(user_agent: str, *, tools: bool = False) -> bool:
    """Return whether a User-Agent belongs to a crawler.

    With `tools`, HTTP libraries and automated browsers count as crawlers too.
    """
    return _pattern(tools).search(user_agent[:1000]) is not None


@cache
def _pattern(tools: bool) -> re.Pattern[str]:
    from crawleruseragents import CRAWLER_USER_AGENTS_DATA as KNOWN

    skipped = frozenset() if tools else TOOL_TAGS
    return re.compile("|".join(entry["pattern"] for entry in KNOWN if not skipped & set(entry["tags"])))
