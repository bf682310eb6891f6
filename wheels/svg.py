"""The few shapes that a picture is made of, as SVG; how they look stands in the page's CSS."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from provision.report.plain import plain


def written(says: str) -> str:
    """Text within a page: what is no character to be seen becomes one."""
    return escape(plain(says))


def svg(width: float, height: float, says: str, drawn: Iterable[str]) -> str:
    """A drawing, with what it shows for those who can't see it."""
    inside = "\n".join(drawn)
    return (
        f'<figure><svg viewBox="0 0 {width:g} {height:g}" role="img" '
        f'aria-label="{written(says)}">\n{inside}\n</svg></figure>'
    )


def rect(x: float, y: float, width: float, height: float, kind: str, *, title: str = "") -> str:
    """A bar; `title` is shown where the pointer rests on it."""
    place = f'x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"'
    return f'<rect class="{kind}" {place}>{_title(title)}</rect>'


def path(points: Iterable[tuple[float, float]], kind: str) -> str:
    """A line from point to point."""
    return f'<path class="{kind}" d="M{"L".join(f"{x:.1f} {y:.1f}" for x, y in points)}"/>'


def text(
    x: float, y: float, says: str, kind: str = "", anchor: str = "start", *, title: str = ""
) -> str:
    """Words that begin, end or have their middle at a point."""
    place = f'class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"'
    return f"<text {place}>{_title(title)}{written(says)}</text>"


def _title(says: str) -> str:
    return f"<title>{written(says)}</title>" if says else ""
