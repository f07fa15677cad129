"""A polygon whose edges are great circles."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hipslake.errors import RegionError
from hipslake.sphere.regions.region import TOLERANCE, Cover, checked_dec, checked_ra, cover_of, written
from hipslake.sphere.vectors import Vectors, angles, pixel_centers, unit_vectors

_PAIRS = 200_000  # of a point and an edge, that are looked at together
MAX_VERTICES = 2000
_NEAR = 1e-11  # radians: far more than what rounding may do to where longitudes are compared


@dataclass(frozen=True, eq=False)
class Edges:
    """A closed chain of arcs, each the shorter one from a vertex to the next.

    Attributes
    ----------
    vertices : float64[m, 3]
        Unit vectors; neighbours are neither equal nor antipodal.
    """

    vertices: Vectors

    @property
    def ends(self) -> Vectors:
        """Where each edge ends, float64[m, 3]; it starts at the vertex of its number."""
        return np.roll(self.vertices, -1, axis=0)

    def chunks(self, points: Vectors) -> list[Vectors]:
        """Points in pieces for which all pairs with edges fit into memory."""
        pieces = -(-len(points) * len(self.vertices) // _PAIRS)
        return np.array_split(points, max(1, pieces))

    def sides(self, points: Vectors) -> NDArray[np.float64]:
        """Determinants of the ends of each edge and each point, float64[n, m]; positive on the left.

        They are taken of differences: so they are as exact as the vectors, also where edges are short.
        """
        along = self.ends - self.vertices
        return np.einsum(
            "nmk,nk->nm", np.cross(self.vertices - points[:, None], along), points, optimize=True
        )

    def bends(self) -> NDArray[np.float64]:
        """Determinants of each vertex and its neighbours, float64[m]; positive where the chain turns left."""
        before, after = np.roll(self.vertices, 1, axis=0), self.ends
        return np.einsum("mk,mk->m", np.cross(before - after, self.vertices - before), after)

    def distances(self, points: Vectors) -> NDArray[np.float64]:
        """Angles from each point to each edge, in radians, float64[n, m]."""
        normals = np.cross(self.vertices, self.ends - self.vertices)
        lengths = np.linalg.norm(normals, axis=-1)
        units = normals / lengths[:, None]
        # The foot of a point lies on an edge if it is past its start and before its end.
        past = points @ np.cross(units, self.vertices).T >= 0
        before = points @ np.cross(self.ends, units).T >= 0
        across = np.arcsin(np.clip(np.abs(self.sides(points)) / lengths, 0, 1))
        corners = angles(points[:, None], self.vertices)
        corners = np.minimum(corners, np.roll(corners, -1, axis=1))
        return np.asarray(np.where(past & before, np.minimum(across, corners), corners))

    def crossings(self) -> NDArray[np.bool_]:
        """Which pairs of edges cross each other in a point within both, bool[m, m]."""
        # Of vertex i to edge j.
        sides = np.concatenate([self.sides(piece) for piece in self.chunks(self.vertices)])
        start, end = sides, np.roll(sides, -1, axis=0)  # of edge i to edge j
        apart = (start * end < 0) & (start.T * end.T < 0)
        return apart & (start.T * start < 0)

    def touches(self, within: float) -> NDArray[np.bool_]:
        """Which vertices lie on which edges that they are no end of, bool[m, m]; `within` is in radians."""
        near = np.concatenate([self.distances(piece) <= within for piece in self.chunks(self.vertices)])
        number = np.arange(len(self.vertices))
        near[number, number] = near[np.roll(number, -1), number] = False
        return near


@dataclass(frozen=True, init=False)
class Polygon:
    """All positions on one side of a closed chain of great-circle arcs, the arcs too.

    The inside is the side of the smaller area; in which direction the vertices run does not matter.

    Parameters
    ----------
    vertices : iterable of (float, float)
        ra and dec in ICRS degrees, at least three; the arc to the next one is the shorter of the two. The
        first may be repeated at the end.

    Raises
    ------
    RegionError
        There are fewer than three vertices or more than `MAX_VERTICES`, neighbours are one point or
        antipodes, edges cross or touch each other, or both sides are of one area.

    Examples
    --------
    >>> polygon = Polygon([(350, -5), (10, -5), (0, 10)])
    >>> str(polygon)
    'polygon 350 -5, 10 -5, 0 10'
    >>> polygon.contains([0, 350, 180], [0, -5, 0])
    array([ True,  True, False])
    """

    vertices: tuple[tuple[float, float], ...]

    def __init__(self, vertices: Iterable[tuple[float, float]]) -> None:
        object.__setattr__(self, "vertices", _checked_vertices(vertices))
        _check_simple(self.vertices, self._edges)
        _ = self._frame

    def __str__(self) -> str:
        return "polygon " + ", ".join(f"{written(ra)} {written(dec)}" for ra, dec in self.vertices)

    def cover(self) -> Cover:
        return cover_of(self)

    def contains(self, ra: ArrayLike, dec: ArrayLike) -> NDArray[np.bool_]:
        lon, lat = np.broadcast_arrays(np.asarray(ra, np.float64), np.asarray(dec, np.float64))
        distance, inside = self.border(unit_vectors(lon.ravel(), lat.ravel()))
        return (inside | (distance <= TOLERANCE)).reshape(lon.shape)

    def border(self, points: Vectors) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        edges, frame = self._edges, self._frame
        pieces = edges.chunks(points)
        distance = np.concatenate([edges.distances(piece).min(axis=1) for piece in pieces])
        inside = np.concatenate([frame.inside(edges, piece) for piece in pieces])
        near = distance < _NEAR
        if near.any():
            beside = [frame.inside_beside(edges, piece) for piece in edges.chunks(points[near])]
            inside[near] = np.concatenate(beside)
        return distance, inside

    @cached_property
    def _edges(self) -> Edges:
        return Edges(unit_vectors(*np.array(self.vertices).T))

    @cached_property
    def _frame(self) -> _Frame:
        return _Frame.of(self._edges)


@dataclass(frozen=True, eq=False)
class _Frame:
    """A pole that is far from all edges, from which they are counted.

    Between a point and this pole, along the meridian, lies an odd number of edges if one of the two is inside
    and the other is not.
    """

    axes: Vectors  # [3, 3]: the last one is the pole
    longitudes: NDArray[np.float64] = field(repr=False)  # of the vertices, radians
    pole_sides: NDArray[np.float64] = field(repr=False)  # of the pole to each edge
    pole_inside: bool
    turn: int  # 1 if the inside is on the left of the edges, -1 if on the right
    convex: NDArray[np.bool_] = field(repr=False)  # of the inside, at each vertex

    @classmethod
    def of(cls, edges: Edges) -> _Frame:
        axes = _axes(_pole_far_from(edges))
        longitudes = _longitudes(edges.vertices, axes)
        sides = edges.sides(axes[2:])[0]
        steps = _wrapped(np.roll(longitudes, -1) - longitudes)
        around = round(float(steps.sum()) / (2 * np.pi)) != 0  # the chain goes around the pole
        signed = _excesses(edges, axes[2]).sum()
        area = abs(signed)  # of the side that the triangles at the pole make up; a left one if positive
        if abs(area - 2 * np.pi) < 1e-9:
            raise RegionError(
                "both sides of the polygon are half of the sky, so neither is the inside; "
                "give a cone of 90 degrees for a hemisphere"
            )
        turn = 1 if (signed > 0) == (area < 2 * np.pi) else -1
        convex = turn * edges.bends() > 0
        return cls(axes, longitudes, sides, around == (area < 2 * np.pi), turn, convex)

    def inside(self, edges: Edges, points: Vectors) -> NDArray[np.bool_]:
        """Which points are inside, bool[n]; near an edge either answer may come.

        How near, depends on how an edge lies: where one runs along a meridian of the frame, the side of a
        point and the order of longitudes are lost in rounding at once, tens of roundings away from its end.
        """
        ahead = _wrapped(self.longitudes - _longitudes(points, self.axes)[:, None])
        following = np.roll(ahead, -1, axis=1)
        # Each vertex is east or west of a point, never both: no edge is counted twice, and none is missed.
        passed = ((ahead < 0) != (following < 0)) & (np.abs(ahead - following) < np.pi)
        between = (edges.sides(points) < 0) != (self.pole_sides < 0)
        return np.asarray(((passed & between).sum(axis=1) % 2 == 1) != self.pole_inside)

    def inside_beside(self, edges: Edges, points: Vectors) -> NDArray[np.bool_]:
        """Which points near the border are inside, bool[n], judged by the nearest edge or corner.

        Nothing lies between a point and the nearest point of the border: so the side of that edge says it. At
        a corner it is the sides of both of its edges.
        """
        row = np.arange(len(points))
        distances, sides = edges.distances(points), self.turn * edges.sides(points)
        nearest = np.argmin(distances, axis=1)
        before, after = (nearest - 1) % len(edges.vertices), (nearest + 1) % len(edges.vertices)
        least = distances[row, nearest]
        starts, ends = distances[row, before] == least, distances[row, after] == least
        other = np.where(starts, before, np.where(ends, after, nearest))
        here, there = sides[row, nearest] > 0, sides[row, other] > 0
        convex = self.convex[np.where(starts, nearest, after)]
        return np.where(starts | ends, np.where(convex, here & there, here | there), here)


def _checked_vertices(vertices: Iterable[tuple[float, float]]) -> tuple[tuple[float, float], ...]:
    found = []
    for number, vertex in enumerate(vertices, 1):
        try:
            ra, dec = vertex
        except (TypeError, ValueError):
            raise RegionError(f"vertex {number} of a polygon is (ra, dec), not {vertex!r}") from None
        what = f"of vertex {number} of a polygon"
        found.append((checked_ra(ra, what=f"ra {what}"), checked_dec(dec, what=f"dec {what}")))
    if len(found) > 1 and found[0] == found[-1]:
        found.pop()
    if not 3 <= len(found) <= MAX_VERTICES:
        raise RegionError(
            f"a polygon has 3 to {MAX_VERTICES} vertices, not {len(found)}"
            + ("; give a MOC for an outline that is so fine" if len(found) > 3 else "")
        )
    return tuple(found)


def _check_simple(vertices: tuple[tuple[float, float], ...], edges: Edges) -> None:
    lengths = angles(edges.vertices, edges.ends)
    for wrong, what in (
        (lengths <= TOLERANCE, "are one point; leave one out"),
        (lengths >= np.pi - TOLERANCE, "are antipodes, which many great circles join; put one between"),
    ):
        if wrong.any():
            number = int(np.argmax(wrong))
            pair = " and ".join(_place(vertices, at) for at in (number, number + 1))
            raise RegionError(f"polygon: its vertices {pair} {what}")
    for wrong, kind in ((edges.crossings(), "cross"), (edges.touches(TOLERANCE), "touch")):
        if wrong.any():
            first, second = (int(at) for at in np.argwhere(wrong)[0])
            raise RegionError(
                f"polygon: the edges that start at its vertices {_place(vertices, first)} and "
                f"{_place(vertices, second)} {kind} each other, so that its inside is not known"
            )


def _place(vertices: tuple[tuple[float, float], ...], at: int) -> str:
    number = at % len(vertices)
    ra, dec = vertices[number]
    return f"{number + 1} ({ra:g}, {dec:g})"


def _pole_far_from(edges: Edges) -> Vectors:
    """A direction that is far from all edges, and so is its antipode."""
    candidates = pixel_centers(2, np.arange(12 << 4))
    nearest = edges.distances(candidates).min(axis=1)
    opposite = edges.distances(-candidates).min(axis=1)
    return np.asarray(candidates[np.argmax(np.minimum(nearest, opposite))])


def _axes(pole: Vectors) -> Vectors:
    """A right-handed frame with this pole, float64[3, 3]."""
    start = np.eye(3)[np.argmin(np.abs(pole))]
    east = np.cross(pole, start)
    east /= np.linalg.norm(east)
    return np.stack([east, np.cross(pole, east), pole])


def _longitudes(points: Vectors, axes: Vectors) -> NDArray[np.float64]:
    return np.asarray(np.arctan2(points @ axes[1], points @ axes[0]))


def _wrapped(angle: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray((angle + np.pi) % (2 * np.pi) - np.pi)


def _excesses(edges: Edges, pole: Vectors) -> NDArray[np.float64]:
    """Signed areas of the triangles of the pole and each edge, in steradians.

    Source: van Oosterom and Strackee 1983, IEEE Trans. Biomed. Eng. 30, 125.
    """
    volume = edges.sides(pole[None])[0]
    start, end = edges.vertices @ pole, edges.ends @ pole
    along = np.einsum("mk,mk->m", edges.vertices, edges.ends)
    return np.asarray(2 * np.arctan2(volume, 1 + start + end + along))
