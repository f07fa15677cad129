"""Positions as sources give them: to float64, checked, and to ICRS degrees."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

REASONS: tuple[str, ...] = (
    "ok",
    "position null or NaN",
    "position infinite",
    "dec outside [-90, 90] degrees",
    "ra outside [-360, 720] degrees",
)
_NOT_A_NUMBER, _INFINITE, _DEC, _RA = 1, 2, 3, 4
# A pole or a full turn in radians is not a float64: what rounds to one is accepted.
_DEGREES = {"lat": 90.0, "low": -360.0, "high": 720.0}
_RADIANS = {key: float(np.radians(value)) * (1 + 4e-16 * np.sign(1)) for key, value in _DEGREES.items()}


def positions(
    lon: pa.Array | pa.ChunkedArray, lat: pa.Array | pa.ChunkedArray
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The position columns as float64; null becomes NaN. Numbers of any type, decimals too.

    Parameters
    ----------
    lon, lat : pyarrow arrays of n numbers

    Returns
    -------
    lon, lat : float64[n]
        Views where the columns are float64 without nulls.
    """
    return _as_float64(lon), _as_float64(lat)


def _as_float64(column: pa.Array | pa.ChunkedArray) -> NDArray[np.float64]:
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
        if isinstance(column, pa.ChunkedArray):
            column = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
    if not pa.types.is_float64(column.type):
        column = column.cast(pa.float64(), safe=False)
    values: NDArray[np.float64] = column.to_numpy(zero_copy_only=False)
    return values


def check_positions(lon: NDArray[np.float64], lat: NDArray[np.float64], *, unit: str) -> NDArray[np.uint8]:
    """Say which positions are not on the sky.

    Parameters
    ----------
    lon, lat : float64[n]
    unit : {"deg", "rad"}
        Of both; limits are those of `REASONS` in this unit.

    Returns
    -------
    uint8[n]
        Index into `REASONS`; 0 for positions on the sky.
    """
    limits = _DEGREES if unit == "deg" else _RADIANS
    # One comparison per limit; NaN fails them all, so good batches cost nothing more.
    good_lat = np.abs(lat) <= limits["lat"]
    good_lon = (lon >= limits["low"]) & (lon <= limits["high"])
    reasons = np.zeros(len(lon), np.uint8)
    if good_lat.all() and good_lon.all():
        return reasons
    reasons[~good_lon] = _RA
    reasons[~good_lat] = _DEC
    reasons[np.isinf(lon) | np.isinf(lat)] = _INFINITE
    reasons[np.isnan(lon) | np.isnan(lat)] = _NOT_A_NUMBER
    return reasons


def to_icrs_degrees(
    lon: NDArray[np.float64], lat: NDArray[np.float64], *, unit: str, frame: str
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """ICRS right ascension and declination.

    Parameters
    ----------
    lon, lat : float64[n]
    unit : {"deg", "rad"}
    frame : {"icrs", "galactic", "fk5"}
        fk5 is at equinox J2000.

    Returns
    -------
    ra, dec : float64[n]
        Degrees. The input itself if it is ICRS degrees; longitudes of ICRS are not wrapped.
    """
    if unit == "rad":
        lon, lat = np.degrees(lon), np.clip(np.degrees(lat), -90.0, 90.0)
    if frame == "icrs":
        return lon, lat
    from astropy import units
    from astropy.coordinates import SkyCoord

    place = SkyCoord(lon, lat, unit=units.deg, frame=frame).icrs
    return np.asarray(place.ra.deg), np.asarray(place.dec.deg)
