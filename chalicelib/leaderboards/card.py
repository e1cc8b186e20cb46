"""A player's rank as an SVG picture to share: "211th of 1,539", in light and dark."""

from html import escape

from chalicelib.context import Context
from chalicelib.leaderboards import standings
from chalicelib.leaderboards.schemas import BoardQuery, Standing, StandingQuery

MOST = 34  # characters of a line
STYLE = (
    "text{font-family:system-ui,sans-serif;fill:#555}.r{font-size:30px;font-weight:700;fill:#111}"
    "rect{fill:#fff;stroke:#ccc}@media(prefers-color-scheme:dark){text{fill:#bbb}.r{fill:#fff}"
    "rect{fill:#161616;stroke:#444}}"
)


def draw(context: Context, name: str, player: str, query: BoardQuery) -> str:
    """Return the card of a player on a board.

    Cost: that of `standings.get`.
    Raises: NotFound.
    """
    board, standing = standings.find(context, name, player, StandingQuery(season=query.season))
    return render(board.title, standing)


def render(title: str, standing: Standing) -> str:
    """Return the SVG of a standing, with a title for screen readers. It has at most 2 KB."""
    place = f"{ordinal(standing.rank)} of {standing.of:,}"
    player, board = (escape(_shorten(text)) for text in (standing.name or standing.player, title))
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" width="360" height="120" role="img">'
        f"<title>{player}: {place}, {board}</title><style>{STYLE}</style>"
        '<rect x=".5" y=".5" width="359" height="119" rx="10"/>'
        f'<text x="20" y="34" font-size="15">{board}</text>'
        f'<text class="r" x="20" y="72">{place}</text>'
        f'<text x="20" y="100" font-size="15">{player}</text></svg>'
    )


def ordinal(number: int) -> str:
    """Return a rank in English, such as "211th".

    >>> [ordinal(number) for number in (1, 2, 3, 11, 112, 1_023)]
    ['1st', '2nd', '3rd', '11th', '112th', '1,023rd']
    """
    is_teen = number // 10 % 10 == 1
    ending = "th" if is_teen else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number:,}{ending}"


def _shorten(text: str) -> str:
    return text if len(text) <= MOST else text[: MOST - 1].rstrip() + "…"
