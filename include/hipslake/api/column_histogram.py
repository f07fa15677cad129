"""How the values of a column are distributed, counted leaf by leaf."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from hipslake.engine.this_process import read_ahead
from hipslake.errors import SpecError

if TYPE_CHECKING:
    from hipslake.api.scan import Scan

MOST_BINS = 1_000_000


@dataclass(frozen=True, eq=False)
class ColumnHistogram:
    """Rows per range of values.

    Attributes
    ----------
    column, unit : str
    edges : float64[n + 1] or datetime64[n + 1]
        Ascending. A range has its lower edge, and the last one its upper edge too.
    counts : int64[n]
    below, above : int
        Rows with values outside of all ranges.
    nulls, nans : int
    """

    column: str
    unit: str
    edges: NDArray[Any]
    counts: NDArray[np.int64]
    below: int
    above: int
    nulls: int
    nans: int

    def __repr__(self) -> str:
        return (
            f"ColumnHistogram({self.column!r}, {len(self.counts)} bins from {self.edges[0]} to "
            f"{self.edges[-1]}, {int(self.counts.sum()):,} rows)"
        )

    def plot(self, axes: Any = None, **options: Any) -> Any:
        """Draw it as steps.

        Parameters
        ----------
        axes : matplotlib.axes.Axes, optional
            New ones if not given.
        **options
            Of `matplotlib.axes.Axes.stairs`.

        Returns
        -------
        matplotlib.axes.Axes
        """
        if axes is None:
            from matplotlib import pyplot

            axes = pyplot.subplots()[1]
        edges = self.edges
        if edges.dtype.kind == "M":
            from matplotlib.dates import date2num

            edges = date2num(edges)
            axes.xaxis_date()
        axes.stairs(self.counts, edges, **{"fill": True, **options})
        axes.set(xlabel=f"{self.column} [{self.unit}]" if self.unit else self.column, ylabel="rows")
        return axes


@dataclass
class _Counts:
    counts: NDArray[np.int64]
    below: int = 0
    above: int = 0
    nulls: int = 0
    nans: int = 0


def histogram_of(
    scan: Scan, column: str, bins: int | Sequence[float], ends: tuple[Any, Any] | None
) -> ColumnHistogram:
    """A histogram of the rows of a scan; as `Catalog.histogram`."""
    scan = scan.select([column])
    kind = scan.schema.field(column).type
    values_of = _reader_of(kind, column)
    as_numbers = _number_of(kind)
    if isinstance(bins, int | np.integer):
        if not 1 <= bins <= MOST_BINS:
            raise SpecError(f"bins is {bins}: there are 1 to {MOST_BINS:,}")
        low, high = _ends(scan, column, values_of) if ends is None else map(as_numbers, ends)
        if not (np.isfinite(low) and np.isfinite(high) and low <= high):
            raise SpecError(f"range is {ends!r}: it runs from a number upwards to another")
        edges = np.histogram_bin_edges(np.empty(0), int(bins), range=(low, high))
    else:
        edges = np.array([as_numbers(each) for each in bins], np.float64)
        if len(edges) < 2 or not np.all(np.isfinite(edges)) or np.any(np.diff(edges) < 0):
            raise SpecError("bins are edges of ranges: two or more numbers, ascending")
    found = _Counts(np.zeros(len(edges) - 1, np.int64))
    reader, parts = scan.reading()

    def count(part: Any) -> _Counts:
        given = reader.read(part)[column]
        numbers = values_of(given)
        real = numbers[~np.isnan(numbers)]
        return _Counts(
            np.histogram(real, edges)[0].astype(np.int64),
            int(np.count_nonzero(real < edges[0])),
            int(np.count_nonzero(real > edges[-1])),
            len(given) - len(numbers),
            len(numbers) - len(real),
        )

    for part in read_ahead(count, reader.ahead(parts)):
        found.counts += part.counts
        for name in ("below", "above", "nulls", "nans"):
            setattr(found, name, getattr(found, name) + getattr(part, name))
    unit = (scan.schema.field(column).metadata or {}).get(b"unit", b"").decode("utf-8", "replace")
    shown = edges if not _is_time(kind) else edges.round().astype(np.int64).astype(_numpy_time(kind))
    return ColumnHistogram(
        column, unit, shown, found.counts, found.below, found.above, found.nulls, found.nans
    )


def _ends(scan: Scan, column: str, values_of: Any) -> tuple[float, float]:
    """The least and the greatest finite value; by the footers, where they tell."""
    told = scan.statistics()[column]
    kind = scan.schema.field(column).type
    if told.known and told.min is not None and not isinstance(told.min, str):
        low, high = (_number_of(kind)(end) for end in (told.min, told.max))
        if np.isfinite(low) and np.isfinite(high):
            return low, high
    elif told.known and told.min is None:
        return 0.0, 1.0
    reader, parts = scan.reading()

    def ends(part: Any) -> tuple[float, float]:
        numbers = values_of(reader.read(part)[column])
        numbers = numbers[np.isfinite(numbers)]
        return (float(numbers.min()), float(numbers.max())) if len(numbers) else (np.inf, -np.inf)

    found = list(read_ahead(ends, reader.ahead(parts)))
    low, high = min(low for low, _ in found), max(high for _, high in found)
    return (low, high) if low <= high else (0.0, 1.0)


def _is_time(kind: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(kind) or pa.types.is_date(kind))


def _numpy_time(kind: pa.DataType) -> str:
    return "datetime64[D]" if pa.types.is_date(kind) else f"datetime64[{kind.unit}]"


def _reader_of(kind: pa.DataType, column: str) -> Any:
    """A function that gives the values that are not null as float64."""
    if _is_time(kind):
        number = pa.int64()
        through = pa.int32() if pa.types.is_date(kind) else number
        day = pa.date32() if pa.types.is_date(kind) else kind
        return lambda given: (
            given.drop_null().cast(day).cast(through).cast(number).to_numpy().astype(np.float64)
        )
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)):
        raise SpecError(
            f"column {column!r} is of type {kind}: histograms are of numbers, dates and timestamps"
        )
    return lambda given: pc.cast(given.drop_null(), pa.float64(), safe=False).to_numpy()


def _number_of(kind: pa.DataType) -> Any:
    """A function that gives one end of a range as float."""
    if not _is_time(kind):
        return float

    def number(end: Any) -> float:
        try:
            aware = getattr(end, "tzinfo", None) is not None
            naive = end.astimezone(UTC).replace(tzinfo=None) if aware else end
            return float(np.datetime64(naive).astype(_numpy_time(kind)).astype(np.int64))
        except (TypeError, ValueError):
            raise SpecError(
                f"{end!r} is no time: give a date, a datetime or a text such as '2026-11-01'"
            ) from None

    return number
