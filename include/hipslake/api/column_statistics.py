"""What is known of the values of columns: from the footers of leaf files, and from the data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from hipslake.api.html import table_html
from hipslake.catalog.leaf_form import form_of
from hipslake.catalog.leaf_opening import read_errors
from hipslake.catalog.reading import Part, PartReader
from hipslake.catalog.schema import field_text
from hipslake.engine.this_process import read_ahead
from hipslake.sources.widening import is_bytes, is_text
from hipslake.sphere.pixels import HEALPIX_COLUMN
from hipslake.storage.column_chunks import ColumnChunks
from hipslake.tables.fitting import from_internal, number_type
from hipslake.tables.footers import extremes
from hipslake.versions.vacuumed_versions import vacuum_told

if TYPE_CHECKING:
    import pandas as pd

    from hipslake.api.scan import Scan

_WHOLE_BOUNDS = "parquet-cpp"
"""Begins the name of the writer whose footers hold bounds of texts whole, or not at all; others cut them."""


@dataclass(frozen=True)
class ColumnStatistics:
    """What is known of a column.

    Attributes
    ----------
    name, type, unit, ucd, description : str
        As the catalog has them; "" where it says nothing.
    rows : int
    nulls, nans : int or None
        How many values are null, or NaN (0 where the type has no NaN). None: footers do not tell.
    min, max : value or None
        The least and the greatest value, nulls and NaN left out. None: there is none, or footers do not tell.
        Times that Python does not hold are texts.
    mean : float or None
        Of numbers, nulls and NaN left out; only from the data.
    known : bool
        Whether `nulls`, `min` and `max` are what the data has. If not, `exact=True` tells.
    """

    name: str
    type: str
    unit: str
    ucd: str
    description: str
    rows: int
    nulls: int | None
    nans: int | None
    min: Any
    max: Any
    mean: float | None
    known: bool

    def numbers(self) -> list[str]:
        """Nulls, NaN, least, greatest and mean, as they are shown; what footers do not tell as "?"."""
        bounds = ["" if each is None and self.known else _shown(each) for each in (self.min, self.max)]
        return [
            _shown(self.nulls),
            _shown(self.nans),
            *bounds,
            "" if self.mean is None else _shown(self.mean),
        ]


@dataclass(frozen=True)
class Statistics:
    """Statistics of columns, in the order that they were asked for; by name as `statistics["mag"]`."""

    title: str
    rows: int
    columns: tuple[ColumnStatistics, ...]

    def __iter__(self) -> Iterator[ColumnStatistics]:
        return iter(self.columns)

    def __len__(self) -> int:
        return len(self.columns)

    def __getitem__(self, name: str) -> ColumnStatistics:
        for column in self.columns:
            if column.name == name:
                return column
        raise KeyError(name)

    def to_pandas(self) -> pd.DataFrame:
        """A row per column."""
        import pandas as pd

        return pd.DataFrame([vars(column) for column in self.columns], dtype=object).set_index("name")

    def __repr__(self) -> str:
        lines = [f"{self.title}: {self.rows:,} rows"]
        lines += [
            f"  {each.name} ({each.type}): {_shown(each.min)} to {_shown(each.max)}, "
            f"{_shown(each.nulls)} nulls"
            for each in self.columns
        ]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        heads = ("column", "type", "unit", "UCD", "nulls", "NaN", "min", "max", "mean", "description")
        rows = [
            (
                c.name,
                c.type,
                c.unit,
                c.ucd,
                *map(_shown, (c.nulls, c.nans, c.min, c.max, c.mean)),
                c.description,
            )
            for c in self.columns
        ]
        return table_html(heads, rows, caption=f"{self.title}: {self.rows:,} rows")


@dataclass(frozen=True)
class _Known:
    """What is known of the values of a column in some rows; values as numbers where they are times."""

    nulls: int | None = 0
    nans: int | None = 0
    low: Any = None
    high: Any = None
    total: float | None = 0.0  # of numbers; None: not known
    bounded: bool = True  # whether low and high are known

    def plus(self, other: _Known) -> _Known:
        lows = [value for value in (self.low, other.low) if value is not None]
        highs = [value for value in (self.high, other.high) if value is not None]
        return _Known(
            _sum(self.nulls, other.nulls),
            _sum(self.nans, other.nans),
            min(lows, default=None),
            max(highs, default=None),
            _sum(self.total, other.total),
            self.bounded and other.bounded,
        )


@dataclass(frozen=True)
class _PartKnown:
    """What is known of a part."""

    rows: int
    columns: dict[str, _Known] = field(default_factory=dict)


def statistics_of(scan: Scan, columns: Sequence[str] | None, *, exact: bool) -> Statistics:
    """Statistics of the rows of a scan; as `Catalog.statistics`."""
    scan = scan if columns is None else scan.select(columns)
    names = scan.columns
    # Rows are counted with the columns, so there has to be one.
    reader, parts = (scan if names else scan.select([HEALPIX_COLUMN])).reading()
    schema = scan.schema

    def known(part: Part) -> _PartKnown:
        if not exact and reader.takes_whole(part):
            return _of_footers(reader, part, schema)
        table = reader.read(part)
        return _PartKnown(table.num_rows, {each.name: _of_values(table[each.name]) for each in schema})

    begun = reader.ahead(parts, footers=lambda part: not exact and reader.takes_whole(part))
    found = list(read_ahead(known, begun))
    rows = sum(part.rows for part in found)
    summed = {name: reduce(_Known.plus, (part.columns[name] for part in found), _Known()) for name in names}
    title = f"{scan.catalog.name} version {scan.catalog.version}"
    return Statistics(
        title, rows, tuple(_described(schema.field(name), rows, summed[name]) for name in names)
    )


def _described(column: pa.Field, rows: int, known: _Known) -> ColumnStatistics:
    kind = _plain(column.type)
    values = rows - (known.nulls or 0) - (known.nans or 0)
    mean = known.total / values if _is_number(kind) and known.total is not None and values else None
    unit, ucd, description = (field_text(column, key) for key in ("unit", "ucd", "description"))
    return ColumnStatistics(
        column.name,
        str(column.type),
        unit or "",
        ucd or "",
        description or "",
        rows,
        known.nulls,
        known.nans,
        _value(known.low, kind) if known.bounded else None,
        _value(known.high, kind) if known.bounded else None,
        mean,
        known.bounded and known.nulls is not None,
    )


def _of_footers(reader: PartReader, part: Part, schema: pa.Schema) -> _PartKnown:
    """What the footers of the leaf files of a part tell."""
    owners = {name: group for group, names in reader.selection.columns.items() for name in names}
    found = {name: _Known() for name in schema.names}
    for group in dict.fromkeys(owners[name] for name in schema.names):
        mine = [each for each in schema if owners[each.name] == group]
        leaves = reader.schemas[group]
        form = form_of(leaves)
        computed = {HEALPIX_COLUMN} if form is not None and form.healpix == "computed" else set()
        for path, metadata in reader.footers(part, group):
            with vacuum_told(reader.storage, reader.version), read_errors(reader.storage, path):
                footer = _Footer(metadata)
                for each in mine:
                    known = _unknown(each.type) if each.name in computed else footer.known(each)
                    found[each.name] = found[each.name].plus(known)
    return _PartKnown(part.rows, found)


class _Footer:
    """The footer of a leaf file, and where its columns are."""

    def __init__(self, metadata: pq.FileMetaData) -> None:
        self._metadata = metadata
        self._chunks = ColumnChunks(metadata)
        paths = [metadata.schema.column(at).path for at in range(metadata.num_columns)]
        self._places = dict(zip(reversed(paths), reversed(range(len(paths))), strict=True))
        self._tops = {path.partition(".")[0] for path in paths}

    def known(self, column: pa.Field) -> _Known:
        """What it tells of a column."""
        kind = _plain(column.type)
        at = self._places.get(column.name)
        if at is None and column.name not in self._tops:  # the file is older than the column
            return _Known(nulls=self._metadata.num_rows)
        if at is None or not _is_bounded(kind) or pa.types.is_float16(kind):
            return _unknown(kind)
        writer = self._metadata.created_by or ""
        groups = range(self._metadata.num_row_groups)
        chunks = (_of_chunk(self._chunks(group, at).statistics, kind, writer) for group in groups)
        return replace(reduce(_Known.plus, chunks, _Known()), total=None)


def _of_chunk(statistics: pq.Statistics | None, kind: pa.DataType, writer: str) -> _Known:
    if statistics is None or not statistics.has_null_count:
        return _unknown(kind)
    unknown = replace(_unknown(kind), nulls=statistics.null_count)
    if not statistics.num_values:
        return _Known(statistics.null_count)
    if not statistics.has_min_max:  # only NaN, or texts that are too long
        return unknown
    if (is_text(kind) or is_bytes(kind)) and not writer.startswith(_WHOLE_BOUNDS):
        return unknown
    low, high = extremes(statistics, kind)
    return _Known(statistics.null_count, unknown.nans, low, high)


def _unknown(kind: pa.DataType) -> _Known:
    return _Known(None, None if pa.types.is_floating(kind) else 0, total=None, bounded=False)


def _of_values(column: pa.ChunkedArray) -> _Known:
    """What the values themselves tell."""
    kind = _plain(column.type)
    nulls = column.null_count
    if isinstance(column.type, pa.DictionaryType):  # its entries may be null, and some stand for no row
        column = column.cast(column.type.value_type)
        nulls = column.null_count
    if not _is_bounded(kind):
        return _Known(nulls, 0, total=None)
    if column.type != kind:
        column = column.cast(kind)
    nans = 0
    if pa.types.is_floating(kind):
        if pa.types.is_float16(kind):
            column = column.cast(pa.float32())
        numbers = pc.fill_null(pc.is_nan(column), False)
        nans = int(pc.sum(numbers).as_py() or 0)
        column = column.filter(pc.invert(numbers)) if nans else column
    column = column.drop_null()
    if not len(column):
        return _Known(nulls, nans)
    ends = _as_numbers(column) if pa.types.is_temporal(kind) else column
    low, high = (end.as_py() for end in pc.min_max(ends).values())
    total = float(np.sum(column.cast(pa.float64(), safe=False).to_numpy())) if _is_number(kind) else None
    return _Known(nulls, nans, low, high, total)


def _as_numbers(times: pa.ChunkedArray) -> pa.ChunkedArray:
    return pa.chunked_array([chunk.view(number_type(times.type)) for chunk in times.chunks])


def _plain(kind: pa.DataType) -> pa.DataType:
    """The type of the values: of dictionaries, that of their entries; views as what they view."""
    if isinstance(kind, pa.DictionaryType):
        return _plain(kind.value_type)
    return {pa.string_view(): pa.large_string(), pa.binary_view(): pa.large_binary()}.get(kind, kind)


def _is_number(kind: pa.DataType) -> bool:
    return pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)


def _is_bounded(kind: pa.DataType) -> bool:
    """Whether values have an order that footers and Arrow know."""
    return (
        _is_number(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_temporal(kind)
        or is_text(kind)
        or is_bytes(kind)
    )


def _value(number: Any, kind: pa.DataType) -> Any:
    """A bound as Python has it; a time that Python does not hold, as a text."""
    if number is None or not pa.types.is_temporal(kind):
        return number
    scalar = from_internal([number], kind)[0]
    try:
        return scalar.as_py()
    except (OverflowError, ValueError):
        return str(scalar.cast(pa.string()))


def _sum(left: Any, right: Any) -> Any:
    return None if left is None or right is None else left + right


def _shown(value: Any) -> str:
    if value is None:
        return "?"
    return f"{value:.6g}" if isinstance(value, float) else f"{value:,}" if type(value) is int else str(value)
