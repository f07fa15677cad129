"""Where rows of a dataset come from: tables in memory, pandas frames, Parquet files."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from hipslake.catalog.leaf_opening import read_errors
from hipslake.cube.cube_rules import check_column_names
from hipslake.cube.dataset import listed
from hipslake.errors import CubeError, CubeRowsError, SchemaMismatchError, SourceNotFoundError
from hipslake.sources.links import LinkBounds, places_of, refuse_links_out
from hipslake.sources.plain_types import plain_type, with_plain_types
from hipslake.sources.table_formats import check_plain_files
from hipslake.storage.calendars import check_calendar
from hipslake.storage.entry import Entry
from hipslake.storage.folder import Storage
from hipslake.storage.int96 import check_int96, int96_columns, int96_unit, unit_for, with_int96_as

PART_ROWS = 1 << 20
"""Of a part, about, where a source can choose."""
_PART_BYTES = 1 << 28

_log = logging.getLogger(__name__)


class RowSource(Protocol):
    """Rows in parts. It travels to the tasks, so it is small, or stays in this process."""

    @property
    def schema(self) -> pa.Schema:
        """Of all columns."""

    @property
    def parts(self) -> int:
        """How many parts there are."""

    def read(self, part: int, columns: Sequence[str]) -> Iterator[pa.Table]:
        """Some columns of a part, in an order that does not change."""


@dataclass(frozen=True)
class TableRows:
    """A table in memory."""

    table: pa.Table

    @property
    def schema(self) -> pa.Schema:
        return self.table.schema

    @property
    def parts(self) -> int:
        return max(1, -(-self.table.num_rows // PART_ROWS))

    def read(self, part: int, columns: Sequence[str]) -> Iterator[pa.Table]:
        yield self.table.slice(part * PART_ROWS, PART_ROWS).select(list(columns))


@dataclass(frozen=True)
class ParquetRows:
    """Parquet files of one schema; a part is some row groups of a file.

    Parameters
    ----------
    storage : Storage
    row_groups : tuple of (str, int, int)
        Path, the first row group, and the one after the last, of each part.
    schema : pyarrow.Schema
    files : tuple of Entry
        As they were listed.
    places : tuple of str
        The folders that no link among them leads out of, as `hipslake.sources.links` says.
    """

    storage: Storage
    row_groups: tuple[tuple[str, int, int], ...]
    schema: pa.Schema
    files: tuple[Entry, ...] = ()
    places: tuple[str, ...] = ()

    @classmethod
    def at(cls, uri: str) -> ParquetRows:
        """The files that match a URI, which may hold `*` and `**`.

        Raises
        ------
        SourceNotFoundError
            No file matches.
        CubeRowsError
            Their schemas differ.
        InputError
            A link leads out of the folder.
        """
        storage, pattern = _split(uri)
        files, passed_over = storage.matches(pattern)
        paths = [entry.path for entry in files]
        if passed_over:
            _log.warning(
                "%s: hidden files, folders and pipes are not read: %s", uri, [e.path for e in passed_over]
            )
        if not paths:
            raise SourceNotFoundError(f"{uri}: no file matches; check the path")
        check_plain_files(storage.uri(path) for path in paths)
        places = places_of(storage)
        refuse_links_out(storage, paths)
        row_groups: list[tuple[str, int, int]] = []
        schema: pa.Schema | None = None
        for path in paths:
            with read_errors(storage, path), storage.arrow_file(path) as file:
                parquet = pq.ParquetFile(file)
                unit = int96_unit(file, parquet.metadata, rows=PART_ROWS)
                given = with_int96_as(parquet.schema_arrow, parquet.metadata, unit)
                found = pa.schema([field.with_type(plain_type(field.type)) for field in given])
                row_groups += [(path, *cut) for cut in parts_of(parquet.metadata)]
            if schema is not None and not found.equals(schema):
                raise CubeRowsError(
                    f"{storage.uri(path)}: its columns are not those of {paths[0]}; convert one"
                )
            schema = found
        return cls(storage, tuple(row_groups), schema, tuple(files), places)

    @property
    def parts(self) -> int:
        return len(self.row_groups)

    def read(self, part: int, columns: Sequence[str]) -> Iterator[pa.Table]:
        path, first, stop = self.row_groups[part]
        LinkBounds(self.places).within(self.storage.uri(path))
        with read_errors(self.storage, path), self.storage.arrow_file(path) as file:
            unit = unit_for(self.schema, columns)
            parquet = pq.ParquetFile(file, coerce_int96_timestamp_unit=unit)
            timed = [name for name in int96_columns(parquet.metadata) if name in columns]
            check_int96(file, timed, range(first, stop), unit, self.storage.uri(path))
            check_calendar(file, parquet.metadata, columns, range(first, stop), self.storage.uri(path))
            for number in range(first, stop):
                rows = parquet.read_row_group(number, columns=list(columns), use_threads=False)
                yield with_plain_types(rows, self.storage.uri(path))


def source_of(rows: Any, name: str) -> RowSource:
    """The rows of a dataset as a source, in whatever form they are given.

    Parameters
    ----------
    rows : pyarrow.Table, pandas.DataFrame or RowSource
    name : str
        Of the dataset.

    Raises
    ------
    CubeRowsError
        A pandas frame has a column that comes twice, is sparse, or holds what Arrow cannot.
    CubeError
        They are something else.
    """
    if isinstance(rows, pa.Table):
        return TableRows(_plain(rows, name))
    if hasattr(rows, "iloc"):
        return TableRows(_from_pandas(rows, name))
    if hasattr(rows, "parts") and hasattr(rows, "read"):
        source: RowSource = rows
        return source
    raise CubeError(
        f"dataset {name!r}: rows come as a pyarrow.Table, a pandas frame, or a source of rows, not as "
        f"{type(rows).__name__}"
    )


def _from_pandas(frame: Any, name: str) -> pa.Table:
    """A pandas frame as a table, without its index."""
    names = [str(each) for each in frame.columns]
    check_column_names(name, names)
    sparse = [each for each, kind in zip(names, frame.dtypes, strict=True) if hasattr(kind, "fill_value")]
    if sparse:
        raise CubeRowsError(
            f"dataset {name!r}: column {listed(sparse)} is sparse; call .sparse.to_dense() first"
        )
    try:
        table: pa.Table = pa.Table.from_pandas(frame, preserve_index=False)
    except pa.ArrowException as error:
        raise CubeRowsError(f"dataset {name!r}: {error}") from error
    return _plain(table, name)


def _plain(table: pa.Table, name: str) -> pa.Table:
    try:
        return with_plain_types(table.replace_schema_metadata(None), f"dataset {name!r}")
    except SchemaMismatchError as error:
        raise CubeRowsError(str(error)) from None


def parts_of(footer: pq.FileMetaData) -> Iterator[tuple[int, int]]:
    """Runs of row groups of a file that make a part each: the first, and the one after the last."""
    first = rows = size = 0
    for number in range(footer.num_row_groups):
        group = footer.row_group(number)
        if rows and (rows + group.num_rows > PART_ROWS or size + group.total_byte_size > _PART_BYTES):
            yield first, number
            first, rows, size = number, 0, 0
        rows, size = rows + group.num_rows, size + group.total_byte_size
    if rows:
        yield first, footer.num_row_groups


def _split(uri: str) -> tuple[Storage, str]:
    """The folder above the first part with a wildcard, and the rest."""
    parts = uri.split("/")
    first = next((at for at, part in enumerate(parts) if any(sign in part for sign in "*?[")), len(parts) - 1)
    folder = "/".join(parts[:first]) or ("/" if uri.startswith("/") else ".")
    return Storage.at(folder), "/".join(parts[first:])
