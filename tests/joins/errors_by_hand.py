"""Which pairs position errors allow, and how near they are: by astropy's angles and plain algebra."""

from __future__ import annotations

from typing import NamedTuple

import astropy.units as u
import numpy as np
from astropy.coordinates import SkyCoord
from hipslake.joins.pair_grid import SkyPositions

EDGE = 2000  # points of the edge of an ellipse that are tried


class Judged(NamedTuple):
    """Of every pair, float64[n, m]: how near it is, the limit of that, and the separation."""

    nearness: np.ndarray
    limit: np.ndarray
    separation: np.ndarray


def judged(left: SkyPositions, right: SkyPositions, combine: str, sigmas: float, elliptical: bool) -> Judged:
    """Every pair of two small sides with errors."""
    assert left.errors is not None
    assert right.errors is not None
    here, there = (SkyCoord(side.ra * u.deg, side.dec * u.deg) for side in (left, right))
    apart = here[:, None].separation(there[None, :]).arcsec
    if not elliptical:
        one, other = left.errors.semi_major[:, None], right.errors.semi_major[None, :]
        limit = 1.0 if combine == "sum" else sigmas
        sigma = sigmas * (one + other) if combine == "sum" else np.sqrt(one**2 + other**2)
        with np.errstate(divide="ignore", invalid="ignore"):
            return Judged(np.where(apart > 0, apart / sigma, 0.0), np.full_like(apart, limit), apart)
    forth = here[:, None].position_angle(there[None, :]).rad
    back = there[None, :].position_angle(here[:, None]).rad
    found = np.full(apart.shape, np.inf)
    far = 1.01 * sigmas * (left.errors.largest[:, None] + right.errors.largest[None, :])
    pair = _in_sigmas if combine == "quadrature" else _overlap
    for i, j in np.argwhere(apart <= far):
        shapes = _shape(left, i, forth[i, j]), _shape(right, j, back[i, j] + np.pi)
        found[i, j] = pair(np.array([apart[i, j], 0.0]), *shapes, sigmas)
    limit = np.full(apart.shape, sigmas if combine == "quadrature" else 2.0)
    return Judged(found, limit, apart)


def _shape(side: SkyPositions, row: int, toward: float) -> np.ndarray:
    """The half axes of an ellipse as columns, where the other lies in the direction of x."""
    assert side.errors is not None
    a, b = side.errors.semi_major[row], side.errors.semi_minor[row]
    turn = np.radians(side.errors.angle[row]) - toward if a != b else 0.0
    return np.array([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]]) @ np.diag([a, b])


def _in_sigmas(offset: np.ndarray, one: np.ndarray, other: np.ndarray, _: float) -> float:
    covariance = one @ one.T + other @ other.T
    if not covariance.any():
        return np.inf if offset.any() else 0.0
    return float(np.sqrt(offset @ np.linalg.solve(covariance, offset)))


def _overlap(offset: np.ndarray, one: np.ndarray, other: np.ndarray, sigmas: float) -> float:
    one, other = sigmas * one, sigmas * other
    shapes = [shape for shape in (one, other) if shape.any()]
    centres = [float(np.linalg.norm(np.linalg.solve(shape, offset))) for shape in shapes]
    if not offset.any() or min(centres, default=np.inf) <= 1:
        return min(centres, default=0.0)
    if len(shapes) < 2:
        return np.inf
    edges = [_nearest_edge(offset, one, other), _nearest_edge(-offset, other, one)]
    return 1 + sum(edges) / 2 if max(edges) <= 1 else np.inf


def _nearest_edge(offset: np.ndarray, one: np.ndarray, other: np.ndarray) -> float:
    turn = np.linspace(0, 2 * np.pi, EDGE)
    edge = offset[:, None] + other @ np.stack([np.cos(turn), np.sin(turn)])
    return float(np.linalg.norm(np.linalg.solve(one, edge), axis=0).min())
