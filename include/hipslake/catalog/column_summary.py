"""A column in few numbers: its range, its nulls, how its values are distributed. Pure."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds
from numpy.typing import NDArray

from hipslake.catalog.value_order import comparable, has_order, value_type

FREQUENT = 20
"""How many of the most frequent values are told."""
_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_DAY = 86_400


class ColumnSummary(NamedTuple):
    """What some rows say of a column. None: not of this type, or there is no value.

    Attributes
    ----------
    rows, nulls, nans : int
    ends : pyarrow.Array of 2 or None
        The least and the greatest value, NaN left out, in the column's own type (of dictionaries, that of
        their entries).
    mean, deviation : float or None
        Of numbers that are finite, and of durations in their unit; the deviation is that of the population.
    edges : float64[bins + 1] or None
        Of the histogram. Moments in seconds since 1970, times of day in seconds, durations in their unit.
    counts : int64[bins] or None
    frequent : list of (value, rows) or None
        The most frequent values of texts, truths and integers, most frequent first.
    """

    rows: int
    nulls: int
    nans: int
    ends: pa.Array | None
    mean: float | None
    deviation: float | None
    edges: NDArray[np.float64] | None
    counts: NDArray[np.int64] | None
    frequent: list[tuple[Any, int]] | None


def summarize_column(column: pa.ChunkedArray, bins: int) -> ColumnSummary:
    """Summarize the values of a column.

    Parameters
    ----------
    column : pyarrow.ChunkedArray
    bins : int
        Of the histogram, all of one width from the least to the greatest finite value.

    Examples
    --------
    >>> found = summarize_column(pa.chunked_array([[1.0, 2.0, None, 4.0]]), bins=3)
    >>> found.counts, found.nulls, found.mean
    (array([1, 1, 1]), 1, 2.3333333333333335)
    """
    rows, kind = len(column), value_type(column.type)
    column = column if column.type == kind else column.cast(kind)
    nulls, values, nans = column.null_count, column.drop_null(), 0
    if kinds.is_floating(kind):
        is_nan = pc.is_nan(values.cast(pa.float32()) if kinds.is_float16(kind) else values)
        nans = int(pc.sum(is_nan).as_py() or 0)
        values = values.filter(pc.invert(is_nan))
    numbers = _numbers(values)
    edges = counts = mean = deviation = None
    if numbers is not None:
        finite = numbers[np.isfinite(numbers)]
        if len(finite):
            counts, edges = np.histogram(finite, _bin_edges(finite, bins))
            if not kinds.is_temporal(kind) or kinds.is_duration(kind):
                with np.errstate(over="ignore", invalid="ignore"):
                    mean, deviation = float(finite.mean()), float(finite.std())
    return ColumnSummary(
        rows=rows,
        nulls=nulls,
        nans=nans,
        ends=_ends(values) if len(values) and (has_order(kind) or kinds.is_boolean(kind)) else None,
        mean=mean,
        deviation=deviation,
        edges=edges,
        counts=None if counts is None else counts.astype(np.int64),
        frequent=_frequent(values),
    )


def _ends(values: pa.ChunkedArray) -> pa.Array:
    """The least and the greatest of values without null and NaN."""
    kind, found = values.type, pc.min_max(comparable(values))
    ends = pa.concat_arrays([pa.repeat(found[name], 1) for name in ("min", "max")])
    return ends.view(kind) if kinds.is_temporal(kind) else ends.cast(kind)


def _bin_edges(finite: NDArray[np.float64], bins: int) -> NDArray[np.float64]:
    low, high = float(finite.min()), float(finite.max())
    edges = np.linspace(low, high, bins + 1)
    if np.isfinite(edges).all() and (np.diff(edges) > 0).all():
        return edges
    # One value, or so near to each other or so far apart that doubles do not tell the edges: a bin for all.
    return np.array([low, max(high, np.nextafter(low, np.inf))])


def _numbers(values: pa.ChunkedArray) -> NDArray[np.float64] | None:
    """Values as numbers, times in the units of `ColumnSummary.edges`; None where they are none."""
    kind = values.type
    if kinds.is_integer(kind) or kinds.is_floating(kind) or kinds.is_decimal(kind):
        return _as_floats(values)
    if kinds.is_date(kind):
        whole = _as_floats(comparable(values))
        return whole * _DAY if kinds.is_date32(kind) else whole / _PER_SECOND["ms"]
    if kinds.is_duration(kind):
        return _as_floats(comparable(values))
    if kinds.is_timestamp(kind) or kinds.is_time(kind):
        return _as_floats(comparable(values)) / _PER_SECOND[kind.unit]
    return None


def _as_floats(values: pa.ChunkedArray) -> NDArray[np.float64]:
    found: NDArray[np.float64] = values.cast(pa.float64(), safe=False).to_numpy()
    return found


def _frequent(values: pa.ChunkedArray) -> list[tuple[Any, int]] | None:
    kind = values.type
    if not (kinds.is_boolean(kind) or kinds.is_integer(kind) or _is_text(kind)):
        return None
    counted = pc.value_counts(values)
    counts = counted.field("counts").to_numpy()
    first = np.argsort(-counts, kind="stable")[:FREQUENT]
    told = counted.field("values").take(pa.array(first)).to_pylist()
    return list(zip(told, counts[first].tolist(), strict=True))


def _is_text(kind: pa.DataType) -> bool:
    return bool(kinds.is_string(kind) or kinds.is_large_string(kind) or kinds.is_string_view(kind))
