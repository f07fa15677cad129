"""Chains of great-circle arcs: on which side of them points lie, and how far away."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hipslake.sphere.vectors import Vectors, angles

_PAIRS = 200_000  # of a point and an edge, that are looked at together


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
