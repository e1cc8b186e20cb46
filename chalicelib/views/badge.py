"""A view counter as an SVG badge, in the flat style of shields.io."""

from html import escape

CROSS_ORIGIN = {"Cross-Origin-Resource-Policy": "cross-origin"}
HEADERS = {"Cache-Control": "public, max-age=30", **CROSS_ORIGIN}
# A transparent GIF of one pixel, in ASCII: API Gateway passes it on as a text.
PIXEL = "GIF89a\x01\0\x01\0\0\0\0,\0\0\0\0\x01\0\x01\0\0\x02\0;"
CHARACTER_WIDTH = 6.6  # mean width of Verdana at 11 px


def render(label: str, value: int) -> str:
    """Return the SVG of a badge such as "views | 1,539", with a title for screen readers."""
    text = f"{value:,}"
    left, right = (round(len(part) * CHARACTER_WIDTH + 12) for part in (label, text))
    title = escape(f"{label}: {text}")
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + right}" height="20" role="img" '
        f'aria-label="{title}"><title>{title}</title>'
        f'<rect width="{left + right}" height="20" rx="3" fill="#444"/>'
        f'<path fill="#0a6" d="M{left} 0h{right - 3}a3 3 0 0 1 3 3v14a3 3 0 0 1-3 3H{left}z"/>'
        '<g fill="#fff" text-anchor="middle" font-family="Verdana,Geneva,sans-serif" font-size="11">'
        f'<text x="{left / 2}" y="14">{escape(label)}</text>'
        f'<text x="{left + right / 2}" y="14">{text}</text></g></svg>'
    )
