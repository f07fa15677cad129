"""Statistics of data files as the log of a Delta table has them: counts, and bounds as JSON.

Bounds must never be too narrow, since readers skip files by them. So what JSON cannot say exactly has none:
numbers that are not finite, decimals, bytes, and times outside of the years 1 to 9999.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

INDEXED = "delta.dataSkippingNumIndexedCols"
_INDEXED_COLUMNS = "delta.dataSkippingStatsColumns"
_INDEXED_BY_DEFAULT = 32
_TEXT = 32  # characters of a bound
_GREATEST = "\U0010ffff"
_DAY_RANGE = (-719162, 2932896)  # of the years 1 to 9999, in days since 1970
_MICROSECONDS = 86_400_000_000


def indexed_columns(schema: pa.Schema, properties: Mapping[str, str]) -> list[str]:
    """The columns that statistics are kept of: those that the table names, else its first ones."""
    if named := properties.get(_INDEXED_COLUMNS):
        chosen = {name.strip().strip("`") for name in named.split(",")}
        return [name for name in schema.names if name in chosen]
    try:
        count = int(properties.get(INDEXED, _INDEXED_BY_DEFAULT))
    except ValueError:
        count = _INDEXED_BY_DEFAULT
    return schema.names if count < 0 else schema.names[:count]


class FileStatistics:
    """The `stats` of a file whose rows come in parts.

    Parameters
    ----------
    columns : sequence of str
        Those that are counted; nested ones are not.
    """

    def __init__(self, columns: Sequence[str]) -> None:
        self._columns = columns
        self._rows = 0
        self._nulls: dict[str, int] = {}
        self._kinds: dict[str, pa.DataType] = {}
        self._least_greatest: dict[str, tuple[Any, Any] | None] = {}  # None: there is no bound

    def add(self, rows: pa.Table) -> None:
        """Take up rows of the file."""
        self._rows += rows.num_rows
        for name in self._columns:
            column = rows[name]
            if pa.types.is_nested(column.type):
                continue
            self._kinds[name] = column.type
            self._nulls[name] = self._nulls.get(name, 0) + column.null_count
            if self._least_greatest.get(name, ()) is None or column.null_count == len(column):
                continue
            found = _least_greatest(column)
            if found is not None and name in self._least_greatest:
                low, high = self._least_greatest[name] or found
                found = min(low, found[0]), max(high, found[1])
            self._least_greatest[name] = found

    def text(self) -> str:
        """What the log has of the file."""
        low: dict[str, Any] = {}
        high: dict[str, Any] = {}
        for name, found in self._least_greatest.items():
            bounds = None if found is None else _bounds(*found, self._kinds[name])
            if bounds is not None:
                low[name], high[name] = bounds
        told = {"numRecords": self._rows, "minValues": low, "maxValues": high, "nullCount": self._nulls}
        return json.dumps(told, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def _least_greatest(column: pa.ChunkedArray) -> tuple[Any, Any] | None:
    """The extremes of a column with some value, times as numbers; None where they are no bounds."""
    kind = column.type
    if pa.types.is_floating(kind):
        if not pc.all(pc.is_finite(column), min_count=0).as_py():  # NaN is greater than all numbers there
            return None
    elif not (
        pa.types.is_integer(kind)
        or pa.types.is_string(kind)
        or pa.types.is_date32(kind)
        or pa.types.is_timestamp(kind)
    ):
        return None
    if pa.types.is_timestamp(kind):
        column = column.cast(pa.int64())
    elif pa.types.is_date32(kind):
        column = column.cast(pa.int32())
    found = pc.min_max(column).as_py()
    return found["min"], found["max"]


def _bounds(low: Any, high: Any, kind: pa.DataType) -> tuple[Any, Any] | None:
    if pa.types.is_string(kind):
        return low[:_TEXT], _cut_upwards(high)
    if pa.types.is_date32(kind) or pa.types.is_timestamp(kind):
        unit = 1 if pa.types.is_date32(kind) else _MICROSECONDS
        if low // unit < _DAY_RANGE[0] or high // unit > _DAY_RANGE[1]:
            return None
        return time_text(low, kind), time_text(high, kind)
    return low, high


def _cut_upwards(text: str) -> str:
    """A bound that no text which begins as this one does is greater than."""
    if len(text) <= _TEXT:
        return text
    return text if text[_TEXT] == _GREATEST else text[:_TEXT] + _GREATEST


def time_text(number: int, kind: pa.DataType) -> str:
    """A date, or a time in microseconds, since 1970, as Delta's statistics write it.

    Examples
    --------
    >>> time_text(-1, pa.timestamp("us", "UTC"))
    '1969-12-31T23:59:59.999999Z'
    """
    days, rest = divmod(number, 1 if pa.types.is_date32(kind) else _MICROSECONDS)
    day = date.fromordinal(date(1970, 1, 1).toordinal() + days)
    if pa.types.is_date32(kind):
        return f"{day.year:04d}-{day:%m-%d}"
    seconds, micros = divmod(rest, 1_000_000)
    clock = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}.{micros:06d}"
    return f"{day.year:04d}-{day:%m-%d}T{clock}{'' if kind.tz is None else 'Z'}"


def bound_number(told: Any, kind: pa.DataType, *, upper: bool) -> Any:
    """A bound in statistics as a plain value, times as numbers; None if it is none that can be relied on.

    Parameters
    ----------
    told
        What the JSON has.
    kind : pyarrow.DataType
        Of the column.
    upper : bool
        Engines cut times to milliseconds, so that an upper bound may be too small by less than one.
    """
    if pa.types.is_integer(kind):
        return told if isinstance(told, int) and not isinstance(told, bool) else None
    if pa.types.is_floating(kind):
        return float(told) if isinstance(told, int | float) and math.isfinite(told) else None
    if not isinstance(told, str):
        return None
    if pa.types.is_string(kind):
        return told
    if pa.types.is_date32(kind) or pa.types.is_timestamp(kind):
        number = time_number(told, kind)
        if number is None or pa.types.is_date32(kind):
            return number
        fraction = told.rpartition(".")[2] if "." in told else ""
        exact = sum(character.isdigit() for character in fraction.partition("+")[0]) > 3
        return number if exact or not upper else number + 999
    return None


def time_number(text: str, kind: pa.DataType) -> int | None:
    """A date or a time as text as a number: days, or microseconds, since 1970; None: it is neither."""
    try:
        if pa.types.is_date32(kind):
            return date.fromisoformat(text[:10]).toordinal() - date(1970, 1, 1).toordinal()
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    if moment.tzinfo is not None and kind.tz is None:
        return None
    moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment
    since = moment - datetime(1970, 1, 1, tzinfo=UTC)
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds
