"""The place of every row of a batch on the sky, and the rows that have none."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hipslake.specs.catalog import PositionSpec
from hipslake.sphere.coordinates import check_positions, positions, to_icrs_degrees
from hipslake.sphere.pixels import order29


@dataclass(frozen=True)
class Placed:
    """Positions of a batch's rows, in its order.

    Attributes
    ----------
    lon, lat : float64[n]
        The position columns as the source has them, NaN for null.
    reasons : uint8[n] or None
        Why a row is not on the sky (0: it is), as `check_positions` codes it. None if all rows are.
    """

    lon: NDArray[np.float64]
    lat: NDArray[np.float64]
    reasons: NDArray[np.uint8] | None


def place(batch: pa.RecordBatch | pa.Table, position: PositionSpec) -> Placed:
    """Read the positions of a batch and check them."""
    lon, lat = positions(batch.column(position.ra), batch.column(position.dec))
    reasons = check_positions(lon, lat, unit=position.unit)
    return Placed(lon, lat, reasons if reasons.any() else None)


def icrs_and_index(
    lon: NDArray[np.float64], lat: NDArray[np.float64], position: PositionSpec
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.int64]]:
    """ICRS degrees and `_healpix_29` of good positions.

    Parameters
    ----------
    lon, lat : float64[n]
        In the unit and frame of `position`.

    Returns
    -------
    ra, dec : float64[n]
        ICRS, degrees; the values of the source where it has them.
    h29 : int64[n]
        NESTED pixel number at order 29.
    """
    ra, dec = to_icrs_degrees(lon, lat, unit=position.unit, frame=position.frame)
    return ra, dec, order29(ra, dec)


def icrs_of(
    rows: pa.RecordBatch | pa.Table, position: PositionSpec
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """ICRS ra and dec, float64[n] each in degrees, of rows that lie on the sky."""
    lon, lat = positions(rows.column(position.ra), rows.column(position.dec))
    return to_icrs_degrees(lon, lat, unit=position.unit, frame=position.frame)
