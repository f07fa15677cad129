"""Where positions lie, as healpy has it; and skies of one order, or deeper than any screen."""

from __future__ import annotations

import healpy
import numpy as np
from hipslake.sphere.pixels import Pixel
from hipslake.sphere.sky_cells import Footprint, gather

ROTATIONS: dict[str, tuple[float, float, float]] = {
    "RA 0h": (0, 0, 0),
    "RA 6h": (-90, 0, 0),
    "RA 12h": (-180, 0, 0),
    "north pole": (0, -90, 0),
    "south pole": (0, 90, 0),
    "galactic centre": (-266.405, 28.936, 58.6),
    "anywhere": (37.3, -61.7, 123.4),
}
PROJECTIONS = ("mollweide", "hammer", "azimuthal")
PLANE_UNITS = 400.0  # of the page's planes, per radian
DEEP = (83.6331, 22.0145)


def whole_sky(order: int) -> Footprint:
    """Every pixel of an order."""
    pixels = 12 << 2 * order
    start = np.arange(pixels, dtype=np.int64) << 2 * (29 - order)
    return Footprint(start, np.full(pixels, order, np.int8), *np.ones((2, pixels), np.int64))


def deep_sky(order: int = 24) -> Footprint:
    """Leaves down to an order around one position, and pixels beside them all the way up."""
    leaves = [Pixel(0, npix) for npix in range(12)]
    for level in range(order):
        at = Pixel(level, int(healpy.ang2pix(1 << level, *DEEP, nest=True, lonlat=True)))
        leaves.remove(at)
        leaves.extend(at.children())
    leaves.sort(key=lambda leaf: leaf.interval)
    start = np.array([leaf.interval[0] for leaf in leaves])
    rows = np.arange(1, len(leaves) + 1)
    return Footprint(start, np.array([leaf.order for leaf in leaves], np.int8), rows, 100 * rows)


def places(count: int, seed: int = 11) -> list[list[float]]:
    """Positions all over the sky, near to the poles, and near to the deep one."""
    rng = np.random.default_rng(seed)
    ra = rng.uniform(0, 360, count)
    dec = np.degrees(np.arcsin(rng.uniform(-1, 1, count)))
    tenth = count // 10
    dec[:tenth] = np.sign(dec[:tenth]) * (90 - 10 ** rng.uniform(-5, 1, tenth))
    far = 10 ** rng.uniform(-4, 1, tenth)
    ra[tenth : 2 * tenth] = DEEP[0] + far * rng.normal(size=tenth)
    dec[tenth : 2 * tenth] = np.clip(DEEP[1] + far * rng.normal(size=tenth), -90, 90)
    return np.stack([ra % 360, dec], axis=1).tolist()


def disagreeing(picks: list[list[int]], at: list[list[float]], sky: Footprint) -> int:
    """How many picks are not the pixel of their order that healpy finds, or miss a cell that there is.

    Of more leaves than a map shows, the cells are those that the server gathers.
    """
    found, positions = np.array(picks), np.array(at)
    index = healpy.ang2pix(1 << 29, positions[:, 0], positions[:, 1], nest=True, lonlat=True)
    cells = gather(sky)
    shift = 2 * (29 - cells.order.astype(np.int64))
    start = cells.npix << shift
    cell = np.searchsorted(start, index, side="right") - 1
    there = (cell >= 0) & (index < start[cell] + (np.int64(1) << shift[cell]))
    order, npix = found[:, 0], found[:, 1]
    expected = index >> 2 * (29 - np.maximum(order, 0))
    right = np.where(there, (order == cells.order[cell]) & (npix == expected), order == -1)
    return int((~right).sum())


def shares(areas: list[float], order: int) -> np.ndarray:
    """Areas of cells on a plane as shares of what each would have if all had the same."""
    whole = 4 * np.pi * PLANE_UNITS**2
    return np.array(areas) / (whole / (12 << 2 * order))
