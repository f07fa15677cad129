"""The few marks that pictures are made of, as SVG text: the same numbers give the same bytes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

INK, PAPER = "#222", "#fff"
LEAF, SPLIT, EMPTY = "#cfe3d4", "#f7e3c8", "#eee"

Point = tuple[float, float]


def picture(width: float, height: float, marks: Iterable[str], *, title: str) -> str:
    """Return a whole picture on white paper, so that it can be read on dark pages too."""
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_n(width)} {_n(height)}" '
        f'width="{_n(width)}" height="{_n(height)}" font-family="sans-serif" role="img">'
    )
    paper = f'<rect width="{_n(width)}" height="{_n(height)}" rx="6" fill="{PAPER}"/>'
    return "\n".join([head, f"<title>{escape(title)}</title>", paper, *marks, "</svg>", ""])


def polygon(points: Sequence[Point], *, fill: str, stroke: str = INK, width: float = 1) -> str:
    """Return a filled outline."""
    at = " ".join(f"{_n(x)},{_n(y)}" for x, y in points)
    return f'<polygon points="{at}" fill="{fill}" stroke="{stroke}" stroke-width="{_n(width)}"/>'


def rectangle(x: float, y: float, width: float, height: float, *, fill: str, stroke: str = INK) -> str:
    """Return a box."""
    return (
        f'<rect x="{_n(x)}" y="{_n(y)}" width="{_n(width)}" height="{_n(height)}" '
        f'fill="{fill}" stroke="{stroke}"/>'
    )


def text(x: float, y: float, words: str, *, size: float = 12, anchor: str = "middle", fill: str = INK) -> str:
    """Return words whose middle is at a height of y."""
    return (
        f'<text x="{_n(x)}" y="{_n(y)}" font-size="{_n(size)}" text-anchor="{anchor}" '
        f'dominant-baseline="central" fill="{fill}">{escape(words)}</text>'
    )


def _n(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
