"""One SVG of the table: each figure as a share of its bar."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from .measuring import Result

WIDTH, LEFT, RIGHT, STEP, TOP = 880, 440, 130, 20, 54
# The bar stands here; what is twice as far from it as allowed ends at the right.
BAR = LEFT + (WIDTH - LEFT - RIGHT) / 2
KEPT, OVER, INK, FAINT = "#3b7a57", "#b5532f", "#24292f", "#8a929b"


def svg(results: Sequence[Result]) -> str:
    """The picture: a line a row, in the order of the table; rows that were not measured are left out."""
    shown = [(result, result.median) for result in results if result.median is not None]
    height = TOP + STEP * len(shown) + 12
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif"',
        'font-size="12">',
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
        text(12, 22, "Each figure as a share of its bar: what ends left of the line keeps it.", INK),
        text(BAR, 44, "bar", FAINT, "middle"),
    ]
    for number, (result, median) in enumerate(shown):
        row = result.row
        y = TOP + STEP * number
        share = row.bar / median if row.at_least and median else median / row.bar if row.bar else float(median > 0) * 2
        fill = KEPT if result.ok else OVER
        width = max(1.0, min(share, 2.0) * (BAR - LEFT))
        sign = "at least" if row.at_least else "at most"
        parts += [
            text(12, y + 13, f"{row.name}  {short(row.title)}", INK),
            f'<rect x="{LEFT}" y="{y + 3}" width="{width:.1f}" height="{STEP - 7}" fill="{fill}"/>',
            text(WIDTH - RIGHT + 6, y + 13, f"{median:.2f}, {sign} {row.bar:g}", INK),
        ]
    line = f'<line x1="{BAR}" x2="{BAR}" y1="{TOP - 4}" y2="{height - 8}" stroke="{FAINT}" stroke-dasharray="3 3"/>'
    return "\n".join([*parts, line, "</svg>", ""])


def short(title: str) -> str:
    """A title that fits beside its bar."""
    return title if len(title) <= 50 else title[:49] + "…"


def text(x: float, y: float, words: str, fill: str, anchor: str = "start") -> str:
    """Words at a place."""
    return f'<text x="{x}" y="{y}" fill="{fill}" text-anchor="{anchor}">{escape(words)}</text>'
