"""Where rows of a dataset come from: tables in memory, pandas frames, Parquet files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from hipslake.catalog.leaf_rows import told
from hipslake.cube.dataset import listed
from hipslake.errors import CubeError, CubeRowsError, SourceNotFoundError
from hipslake.files.entry import Entry
from hipslake.storage import Storage

PART_ROWS = 1 << 20
"""Of a part, about, where a source can choose."""
_PART_BYTES = 1 << 28


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
    """

    storage: Storage
    row_groups: tuple[tuple[str, int, int], ...]
    schema: pa.Schema
    files: tuple[Entry, ...] = ()

    @classmethod
    def at(cls, uri: str) -> ParquetRows:
        """The files that match a URI, which may hold `*` and `**`.

        Raises
        ------
        SourceNotFoundError
            No file matches.
        CubeRowsError
            Their schemas differ.
        """
        storage, pattern = _split(uri)
        files = tuple(storage.glob(pattern))
        paths = [entry.path for entry in files]
        if not paths:
            raise SourceNotFoundError(f"{uri}: no file matches; check the path")
        row_groups: list[tuple[str, int, int]] = []
        schema: pa.Schema | None = None
        for path in paths:
            with told(storage, path), storage.arrow_file(path) as file:
                parquet = pq.ParquetFile(file)
                found = parquet.schema_arrow.remove_metadata()
                row_groups += [(path, *cut) for cut in parts_of(parquet.metadata)]
            if schema is not None and not found.equals(schema):
                raise CubeRowsError(
                    f"{storage.uri(path)}: its columns are not those of {paths[0]}; convert one"
                )
            schema = found
        return cls(storage, tuple(row_groups), schema, files)

    @property
    def parts(self) -> int:
        return len(self.row_groups)

    def read(self, part: int, columns: Sequence[str]) -> Iterator[pa.Table]:
        path, first, stop = self.row_groups[part]
        with told(self.storage, path), self.storage.arrow_file(path) as file:
            parquet = pq.ParquetFile(file)
            for number in range(first, stop):
                yield parquet.read_row_group(number, columns=list(columns), use_threads=False)


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
        return TableRows(rows.replace_schema_metadata(None))
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
    twice = {each for each in names if names.count(each) > 1}
    if twice:
        raise CubeRowsError(f"dataset {name!r}: column {listed(twice)} comes twice; rename one of them")
    sparse = [each for each, kind in zip(names, frame.dtypes, strict=True) if hasattr(kind, "fill_value")]
    if sparse:
        raise CubeRowsError(
            f"dataset {name!r}: column {listed(sparse)} is sparse; call .sparse.to_dense() first"
        )
    try:
        table: pa.Table = pa.Table.from_pandas(frame, preserve_index=False)
    except pa.ArrowException as error:
        raise CubeRowsError(f"dataset {name!r}: {error}") from error
    return table.replace_schema_metadata(None)


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
    return Storage.at("/".join(parts[:first]) or ("/" if uri.startswith("/") else ".")), "/".join(
        parts[first:]
    )
