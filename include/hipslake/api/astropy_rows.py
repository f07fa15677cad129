"""Rows that astropy holds as Arrow: tables with units, times and masks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hipslake.api.numpy_columns import arrow_column, column_named
from hipslake.errors import InputError
from hipslake.sources.unification import described_field

_DAY_US = 86_400_000_000


def table_rows(table: Any) -> pa.Table:
    """Return an `astropy.table.Table` as Arrow.

    Units, descriptions and UCDs are kept, masked values become nulls, times (`astropy.time.Time`, of any
    scale) timestamps in UTC, and `TimeDelta` durations.

    Raises
    ------
    InputError
        If a column holds what Arrow has no type for; the message names it.
    """
    arrays, fields = [], []
    for name in table.colnames:
        column = table[name]
        with column_named(name):
            array = _column(column)
        info = column.info
        unit = getattr(column, "unit", None)
        ucd = (info.meta or {}).get("ucd") if isinstance(info.meta, dict | None) else None
        told = (str(each) if each else "" for each in (unit, info.description, ucd))
        arrays.append(array)
        fields.append(described_field(name, array.type, *told))
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields))


def utc_microseconds(time: Any) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return times of astropy as microseconds since 1970 in UTC, and where there is none.

    Seconds are counted as POSIX does: a leap second has the numbers of the one after it.

    Parameters
    ----------
    time : astropy.time.Time
        Of any scale but "local", and any shape.

    Raises
    ------
    InputError
        If its scale has no place in UTC, or a time is out of the years that have one.
    """
    from astropy.time import ScaleValueError, Time

    mask = np.broadcast_to(np.asarray(time.mask, bool), time.shape)
    plain = Time(
        np.where(mask, 2451545.0, np.asarray(time.jd1)),
        np.where(mask, 0.0, np.asarray(time.jd2)),
        format="jd",
        scale=time.scale,
        location=time.location,
    )
    try:
        parts = plain.utc.ymdhms
    except (ScaleValueError, ValueError, IndexError) as error:  # no such scale, years, or tables of UT1
        raise InputError(
            f"has times of scale {time.scale!r} that cannot be turned into UTC: {error}"
        ) from None
    days = _days_since_1970(*(np.asarray(parts[name], np.int64) for name in ("year", "month", "day")))
    of_day = np.asarray(parts["hour"], np.int64) * 3600 + np.asarray(parts["minute"], np.int64) * 60
    seconds = np.rint(np.asarray(parts["second"], np.float64) * 1e6).astype(np.int64)
    return days * _DAY_US + of_day * 1_000_000 + seconds, mask


def _column(column: Any) -> pa.Array:
    from astropy.time import Time, TimeDelta
    from astropy.utils.masked import Masked

    if isinstance(column, Time):
        values, mask = utc_microseconds(column)
        return arrow_column(values, mask, pa.timestamp("us", "UTC"))
    if isinstance(column, TimeDelta):
        mask = np.broadcast_to(np.asarray(column.mask, bool), column.shape)
        days = np.where(mask, 0.0, np.asarray(column.jd1)), np.where(mask, 0.0, np.asarray(column.jd2))
        values = sum(np.rint(part * _DAY_US).astype(np.int64) for part in days)
        return arrow_column(values, mask, pa.duration("us"))
    values = getattr(column, "value", column)  # of a quantity, without its unit
    if isinstance(values, Masked):
        return arrow_column(np.asarray(values.unmasked), np.asarray(values.mask))
    if isinstance(values, np.ma.MaskedArray):
        return arrow_column(values.data, np.ma.getmaskarray(values))
    if not isinstance(values, np.ndarray):
        raise InputError(
            f"is a {type(column).__name__}, which is no column of numbers, texts or times; put what it is "
            "made of into columns of their own"
        )
    return arrow_column(np.asarray(values))


def _days_since_1970(
    year: NDArray[np.int64], month: NDArray[np.int64], day: NDArray[np.int64]
) -> NDArray[np.int64]:
    months = ((year - 1970) * 12 + month - 1).astype("datetime64[M]")
    return months.astype("datetime64[D]").astype(np.int64) + day - 1
