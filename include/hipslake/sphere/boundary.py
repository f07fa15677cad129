"""Whether positions lie within a distance of pixels as HEALPix defines them: with curved edges.

An edge is a curve on the sphere whose second derivative is known to be bounded, so between two of its points
it stays that close to the straight chord. Where a chord does not decide, the edge is cut into finer ones. So
nothing is assumed about where on an edge the nearest place is, nor that there is only one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hipslake.sphere.faces import RING_OF_CORNER, places, vectors_on

_DECIDED = 1e-13  # radians (2e-8 arcsec): closer to the limit than that, either answer is right
_PIECES = 4  # that an edge is cut into where it has to be cut
_PAIRS = 1 << 16  # looked at together: the arrays stay small


def within_distance(
    vectors: NDArray[np.float64],
    order: NDArray[np.int64],
    npix: NDArray[np.int64],
    radians: float,
) -> NDArray[np.bool_]:
    """Which positions lie within a great-circle distance of the boundary of a pixel.

    Parameters
    ----------
    vectors : float64[n, 3]
        Unit vectors of the positions.
    order, npix : int64[n]
        The pixel that each position is held against.
    radians : float
        The distance, below pi.

    Returns
    -------
    bool[n]
        Right to 1e-7 arcsec.
    """
    found = np.zeros(len(npix), bool)
    for start in range(0, len(npix), _PAIRS):
        piece = slice(start, start + _PAIRS)
        found[piece] = _within(vectors[piece], order[piece], npix[piece], 2.0 * np.sin(radians / 2.0))
    return found


class _Edges(NamedTuple):
    """Pieces of pixels' edges, each with the position it is held against."""

    pair: NDArray[np.int64]
    face: NDArray[np.int64]
    along_y: NDArray[np.bool_]  # else along x
    fixed: NDArray[np.float64]  # the other coordinate
    low: NDArray[np.float64]  # from here
    high: NDArray[np.float64]  # to here

    def select(self, chosen: NDArray[np.bool_]) -> _Edges:
        return _Edges._make(column[chosen] for column in self)

    def cut(self) -> _Edges:
        """All pieces in equal finer ones."""
        steps = np.arange(_PIECES) / _PIECES
        width = (self.high - self.low)[:, None]
        low = self.low[:, None] + width * steps
        high = np.append(low[:, 1:], self.high[:, None], axis=1)
        repeated = (np.repeat(column, _PIECES) for column in self[:4])
        return _Edges._make([*repeated, low.ravel(), high.ravel()])

    def ends(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Unit vectors of both ends, float64[n, 3] each."""
        return self._at(self.low), self._at(self.high)

    def bend(self) -> NDArray[np.float64]:
        """How far a piece strays from its chord, at most: a bound of the second derivative times h**2 / 8.

        By coordinate of the face it is below 2 in the equatorial zone. In the polar ones, at a way s from the
        pole and u from the meridian at which the face ends, it is below 2 + 2.1 u**2 / s**3.
        """
        ring = RING_OF_CORNER[self.face] - self.fixed
        north = np.minimum(ring - self.high, ring - self.low)
        south = np.minimum(4.0 - ring + self.high, 4.0 - ring + self.low)
        upper = self.face < 4
        s = np.where(upper, north, south)
        u = np.where(upper, 1.0 - self.fixed, self.fixed)
        polar = (upper | (self.face > 7)) & (s < 1.0) & (u > 0.0)
        with np.errstate(invalid="ignore", divide="ignore"):
            second = 2.0 + np.where(polar, 2.1 * u * u / (s * s * s), 0.0)
        return second * (self.high - self.low) ** 2 / 8.0

    def _at(self, moving: NDArray[np.float64]) -> NDArray[np.float64]:
        x = np.where(self.along_y, self.fixed, moving)
        y = np.where(self.along_y, moving, self.fixed)
        return vectors_on(self.face, x, y)


def _within(
    vectors: NDArray[np.float64], order: NDArray[np.int64], npix: NDArray[np.int64], chord: float
) -> NDArray[np.bool_]:
    found = np.zeros(len(npix), bool)
    edges = _edges_of(order, npix)
    while len(edges.pair):
        away = _distance(vectors[edges.pair], *edges.ends())
        bend = edges.bend()
        decided = bend < _DECIDED
        found[edges.pair[away <= np.where(decided, chord, chord - bend)]] = True
        edges = edges.select((away <= chord + bend) & ~decided & ~found[edges.pair]).cut()
    return found


def _edges_of(order: NDArray[np.int64], npix: NDArray[np.int64]) -> _Edges:
    """The four edges of every pixel."""
    face, column, row = places(order, npix)
    side = 2.0**-order
    pair = np.arange(len(npix))
    x, y = column * side, row * side
    next_x, next_y = (column + 1) * side, (row + 1) * side
    yes, no = np.ones(len(npix), bool), np.zeros(len(npix), bool)
    four = [
        _Edges(pair, face, yes, x, y, next_y),
        _Edges(pair, face, yes, next_x, y, next_y),
        _Edges(pair, face, no, y, x, next_x),
        _Edges(pair, face, no, next_y, x, next_x),
    ]
    return _Edges._make(np.concatenate(columns) for columns in zip(*four, strict=True))


def _distance(
    position: NDArray[np.float64], begin: NDArray[np.float64], end: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Straight distance of positions from chords, float64[n]."""
    way = end - begin
    there = position - begin
    length = np.einsum("ij,ij->i", way, way)
    with np.errstate(invalid="ignore", divide="ignore"):
        share = np.clip(np.nan_to_num(np.einsum("ij,ij->i", there, way) / length), 0.0, 1.0)
    rest = there - share[:, None] * way
    return np.sqrt(np.einsum("ij,ij->i", rest, rest))
