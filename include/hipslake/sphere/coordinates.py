"""Positions as sources give them: to float64, checked, and to ICRS degrees."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hipslake.sphere.angle_columns import angles_of, is_text
from hipslake.sphere.position_units import PositionUnit

REASONS: tuple[str, ...] = (
    "ok",
    "position null or NaN",
    "position infinite",
    "dec outside [-90, 90] degrees",
    "ra outside [-360, 720] degrees",
)
_NOT_A_NUMBER, _INFINITE, _LAT, _LON = 1, 2, 3, 4


class _Limits(NamedTuple):
    lat: float
    lon_low: float
    lon_high: float


def _in_radians(degrees: float) -> float:
    """A limit as a column of single precision holds it: a little past the pole, which is no float32."""
    return float(np.float32(np.radians(degrees)))


_LIMITS = {
    "deg": _Limits(90.0, -360.0, 720.0),
    "rad": _Limits(_in_radians(90.0), _in_radians(-360.0), _in_radians(720.0)),
    "hour": _Limits(90.0, -24.0, 48.0),
}


def positions(
    lon: pa.Array | pa.ChunkedArray, lat: pa.Array | pa.ChunkedArray, *, unit: PositionUnit = "deg"
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The position columns as float64; null becomes NaN. Numbers of any type, decimals too, or texts.

    Parameters
    ----------
    lon, lat : pyarrow arrays of n numbers, or of sexagesimal texts
    unit : {"deg", "rad", "hour"}
        Of longitudes in texts: hours, or else degrees.

    Returns
    -------
    lon, lat : float64[n]
        Views where the columns are float64 without nulls.
    """
    values = angles_of(lon, "hour" if unit == "hour" else "deg") if is_text(lon.type) else _as_float64(lon)
    return values, angles_of(lat, "deg") if is_text(lat.type) else _as_float64(lat)


def _as_float64(column: pa.Array | pa.ChunkedArray) -> NDArray[np.float64]:
    if not pa.types.is_float64(column.type):
        column = column.cast(pa.float64(), safe=False)  # integers past 2**53 are rounded, not refused
    if isinstance(column, pa.ChunkedArray):
        column = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    values: NDArray[np.float64] = column.to_numpy(zero_copy_only=False)
    return values


def check_positions(
    lon: NDArray[np.float64], lat: NDArray[np.float64], *, unit: PositionUnit
) -> NDArray[np.uint8]:
    """Say which positions are not on the sky.

    Parameters
    ----------
    lon, lat : float64[n]
    unit : {"deg", "rad", "hour"}
        Limits are those of `REASONS` in this unit. In radians they are rounded to single precision,
        which lies outside of them, so that the pole of a float32 column is on the sky.

    Returns
    -------
    uint8[n]
        Index into `REASONS`; 0 for positions on the sky.
    """
    limits = _LIMITS[unit]
    reasons = np.zeros(len(lon), np.uint8)
    if _all_on_the_sky(lon, lat, limits):
        return reasons
    # From the weakest reason to the strongest: a row keeps the last one that fits.
    reasons[(lon < limits.lon_low) | (lon > limits.lon_high)] = _LON
    reasons[np.abs(lat) > limits.lat] = _LAT
    reasons[np.isinf(lon) | np.isinf(lat)] = _INFINITE
    reasons[np.isnan(lon) | np.isnan(lat)] = _NOT_A_NUMBER
    return reasons


def _all_on_the_sky(lon: NDArray[np.float64], lat: NDArray[np.float64], limits: _Limits) -> bool:
    """Four reductions: the price of a good batch. numpy hands a NaN on, which fails."""
    return not len(lon) or bool(
        lat.min() >= -limits.lat
        and lat.max() <= limits.lat
        and lon.min() >= limits.lon_low
        and lon.max() <= limits.lon_high
    )


def to_icrs_degrees(
    lon: NDArray[np.float64], lat: NDArray[np.float64], *, unit: PositionUnit, frame: str
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """ICRS right ascension and declination.

    Parameters
    ----------
    lon, lat : float64[n]
    unit : {"deg", "rad", "hour"}
    frame : {"icrs", "galactic", "fk5"}
        fk5 is at equinox J2000.

    Returns
    -------
    ra, dec : float64[n]
        Degrees. The input itself if it is ICRS degrees; longitudes of ICRS are not wrapped.
    """
    if unit == "rad":  # of single precision, a pole lies past 90 degrees
        lon, lat = np.degrees(lon), np.clip(np.degrees(lat), -90.0, 90.0)
    if unit == "hour":
        lon = lon * 15.0
    if frame == "icrs":
        return lon, lat
    from astropy import units
    from astropy.coordinates import SkyCoord

    place = SkyCoord(lon, lat, unit=units.deg, frame=frame).icrs
    return np.asarray(place.ra.deg), np.asarray(place.dec.deg)
