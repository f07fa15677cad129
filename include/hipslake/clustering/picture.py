"""A picture of the bounds of files, on the first two columns that they are clustered by.

An SVG, which needs no library: to load one that draws takes a good part of the time that clustering a small
table does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from xml.etree.ElementTree import Element, SubElement, tostring

import numpy as np
from numpy.typing import NDArray

from hipslake.clustering.layout_quality import FileBoxes

_MOST_DRAWN = 2000
_WIDTH, _HEIGHT = 1210, 616
_PANEL = 540  # width of each
_TOP, _BOTTOM = 86, 554
_LEFTS = (73, 653)
_TICKS = (0, 0.2, 0.4, 0.6, 0.8, 1)
_INK = "#333333"
_COLOURS = (
    *("#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee"),
    *("#aa3377", "#997700", "#bb5566", "#44bb99", "#777777"),
)


def draw_boxes(before: FileBoxes, after: FileBoxes, columns: Sequence[str], title: str) -> bytes:
    """Draw the boxes of files before and after a compaction, side by side; return an SVG.

    Parameters
    ----------
    before, after : FileBoxes
        In shares of the rows, [0, 1].
    columns : sequence of str
        Their columns; one is drawn with a box per row of the picture.
    title : str
    """
    size = {"width": str(_WIDTH), "height": str(_HEIGHT), "viewBox": f"0 0 {_WIDTH} {_HEIGHT}"}
    picture = Element("svg", size, xmlns="http://www.w3.org/2000/svg")
    picture.attrib |= {"font-family": "sans-serif", "font-size": "13", "fill": _INK}
    SubElement(picture, "rect", width="100%", height="100%", fill="#ffffff")
    _write(picture, title, _WIDTH / 2, 32, size=16, anchor="middle")
    for left, boxes, when in zip(_LEFTS, (before, after), ("before", "after"), strict=True):
        _write(picture, f"{when}: {len(boxes)} files", left, _TOP - 10, size=16)
        panel = SubElement(picture, "g", {"id": when, "fill-opacity": "0.35", "stroke": _INK})
        panel.set("stroke-width", "0.5")
        for number, (x, y, width, height) in enumerate(_rectangles(boxes, left)):
            at = {"x": f"{x:.2f}", "y": f"{y:.2f}", "width": f"{width:.2f}", "height": f"{height:.2f}"}
            SubElement(panel, "rect", at, fill=_COLOURS[number % len(_COLOURS)])
        _draw_frame(picture, left)
        _write(picture, f"{columns[0]}, share of the rows", left + _PANEL / 2, _BOTTOM + 42, anchor="middle")
    side = f"{columns[1]}, share of the rows" if len(columns) > 1 else "files"
    turned = _write(picture, side, 0, 0, anchor="middle")
    turned.set("transform", f"translate(26 {(_TOP + _BOTTOM) / 2:g}) rotate(-90)")
    return tostring(picture)


def _draw_frame(picture: Element, left: int) -> None:
    frame = {"x": str(left), "y": str(_TOP), "width": str(_PANEL), "height": str(_BOTTOM - _TOP)}
    SubElement(picture, "rect", frame, fill="none", stroke=_INK)
    for tick in _TICKS:
        x, y = left + tick * _PANEL, _BOTTOM - tick * (_BOTTOM - _TOP)
        SubElement(picture, "path", d=f"M{x:g} {_BOTTOM}v5M{left} {y:g}h-5", stroke=_INK)
        _write(picture, f"{tick:.1f}", x, _BOTTOM + 20, anchor="middle")
        if left == _LEFTS[0]:
            _write(picture, f"{tick:.1f}", left - 9, y + 4, anchor="end")


def _write(picture: Element, text: str, x: float, y: float, size: int = 13, anchor: str = "start") -> Element:
    """Add a text; what XML cannot hold is shown as a question mark."""
    written = SubElement(picture, "text", {"x": f"{x:g}", "y": f"{y:g}", "text-anchor": anchor})
    written.set("font-size", str(size))
    written.text = "".join(each if each.isprintable() else "?" for each in text)
    return written


def _rectangles(boxes: FileBoxes, left: int) -> Iterator[tuple[float, float, float, float]]:
    """The left, upper side, width and height of each box in a panel."""
    low, high = _drawn(boxes)
    scale = np.array([_PANEL, _BOTTOM - _TOP])
    sides = (high - low) * scale
    corners = np.column_stack([left + low[:, 0] * scale[0], _BOTTOM - high[:, 1] * scale[1]])
    yield from np.hstack([corners, sides]).tolist()


def _drawn(boxes: FileBoxes) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    low, high = boxes.low[:_MOST_DRAWN, :2], boxes.high[:_MOST_DRAWN, :2]
    if boxes.low.shape[1] == 1:
        row = np.arange(len(low))[:, None] / max(1, len(low))
        low, high = np.hstack([low, row]), np.hstack([high, row + 1 / max(1, len(low))])
    whole = np.isfinite(low).all(axis=1) & np.isfinite(high).all(axis=1)
    return low[whole], high[whole]
