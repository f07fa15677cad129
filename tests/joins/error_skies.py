"""Sides with position errors, where a matcher may go wrong."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
from hipslake.joins.error_regions import ErrorRegions
from hipslake.joins.pair_grid import SkyPositions
from hypothesis import strategies as st

from tests.joins.skies import PLACES, ascending, placed


def some_errors(rng: np.random.Generator, rows: int, size: float, *, elliptical: bool) -> ErrorRegions:
    """Circles or ellipses of about a size, arcseconds; some round, some of nothing, some not known."""
    major = size * rng.uniform(0.1, 2.0, rows)
    minor = major * rng.uniform(0.05, 1.5, rows) if elliptical else major.copy()
    angle = rng.uniform(-360.0, 360.0, rows) if elliptical else np.zeros(rows)
    kind = rng.uniform(size=rows)
    major[kind < 0.1] = minor[kind < 0.1] = 0.0
    minor[kind > 0.9] = major[kind > 0.9]
    angle[kind > 0.95] = np.nan  # of a circle it is no matter
    major[(kind > 0.8) & (kind < 0.83)] = np.nan
    if not elliptical:
        minor = major
    return ErrorRegions(major, minor, angle)


@st.composite
def sides_with_errors(draw: st.DrawFn, rows: int = 25) -> tuple[SkyPositions, SkyPositions, bool]:
    """Two sides around a place, some rows in the same one, with errors; and whether these are ellipses."""
    ra, dec = draw(st.sampled_from(PLACES))
    size, elliptical = 10.0 ** draw(st.floats(-3, 2.3)), draw(st.booleans())
    width = size / 3600 * draw(st.sampled_from([0.3, 1.5, 4.0]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))

    def side(number: int) -> SkyPositions:
        across = width * rng.normal(size=number) / max(np.cos(np.radians(dec)), 1e-3)
        return placed(ra + across, dec + width * rng.normal(size=number))

    left, right = side(rng.integers(0, rows)), side(rng.integers(0, rows))
    if len(left) and draw(st.booleans()):
        right = left.take(rng.integers(0, len(left), len(right)))
    both = [
        ascending(replace(each, errors=some_errors(rng, len(each), size, elliptical=elliptical)))
        for each in (left, right)
    ]
    return both[0], both[1], elliptical


def crowded_patch(seed: int, rows: int, *, degrees: float, size: float, dec: float = 0.0) -> pa.Table:
    """A patch around ra 0 with error ellipses of all shapes: id, ra, dec, a, b (arcseconds), pa (degrees)."""
    rng = np.random.default_rng(seed)
    ra = (degrees * rng.uniform(-0.5, 0.5, rows) / np.cos(np.radians(dec))) % 360.0
    major = size * rng.uniform(0.05, 1.0, rows)
    return pa.table(
        {
            "id": np.arange(rows),
            "ra": ra,
            "dec": dec + degrees * rng.uniform(-0.5, 0.5, rows),
            "a": major,
            "b": major * rng.uniform(0.1, 1.0, rows),
            "pa": rng.uniform(0.0, 180.0, rows),
        }
    )
