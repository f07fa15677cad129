"""Writes position deletes: Parquet files that take rows out of data files, by Iceberg's format version 2.

A file has the path of a data file and a position in it per row, sorted by both. All data files that it names
are of one partition, which is its own too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pyiceberg.conversions import to_bytes
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.table import Table
from pyiceberg.types import LongType, StringType

from hipslake.errors import PlanError, SpecError
from hipslake.specs.base import Frozen
from hipslake.storage.folder import Storage
from hipslake.tables.deleted_rows import PATH_FIELD, POSITION_FIELD
from hipslake.tables.iceberg.data_files import IcebergFile
from hipslake.tables.iceberg.data_locations import DATA_PATH, SPREAD, data_location, folder_of_write
from hipslake.tables.iceberg.file_properties import (
    DELETE_FORMAT,
    DELETE_PARQUET,
    GRANULARITY,
    PARQUET,
    ParquetSettings,
    check_format,
)
from hipslake.tables.new_files import NewFile
from hipslake.tables.protocol import NewDeletes
from hipslake.tables.stored_files import field_id

_SCHEMA = pa.schema(
    [PATH_FIELD.with_nullable(False), POSITION_FIELD.with_nullable(False)],
    metadata={"delete-type": "position"},
)
_PATH_ID, _POSITION_ID = (int(field_id(field) or 0) for field in _SCHEMA)
_ROW_GROUP_ROWS = 1 << 20
_USED_PROPERTIES = (DATA_PATH, SPREAD, PARQUET, DELETE_PARQUET)
_GRANULARITIES = ("partition", "file")


class WrittenDeletes(Frozen):
    """What a manifest has to know of a file of position deletes, besides rows and bytes."""

    first: str  # the least path that it names
    last: str  # and the greatest
    low: int  # the least position
    high: int
    split_offsets: tuple[int, ...]


@dataclass(frozen=True)
class DeleteWriter:
    """Writes position deletes of a table. Small and plain, so that it travels with tasks.

    Attributes
    ----------
    location : str
        Of the table.
    properties : tuple of (str, str)
        Those of the table that say how files are written.
    write_id : str
        Names the folder that files go to, below the one of the table's data files.
    by_file : bool
        Whether each data file gets deletes of its own.
    """

    location: str
    properties: tuple[tuple[str, str], ...]
    write_id: str
    by_file: bool = False

    @classmethod
    def of(cls, table: Table, write_id: str) -> DeleteWriter:
        """That of a table.

        Raises
        ------
        SpecError
            A property of the table asks for what cannot be done.
        """
        name, given = ".".join(table.name()), table.properties
        check_format(name, given, DELETE_FORMAT)
        granularity = given.get(GRANULARITY, "partition")
        if granularity.strip().lower() not in _GRANULARITIES:
            raise SpecError(
                f"table {name}: its property {GRANULARITY} is {granularity!r}; it can be "
                f"{' or '.join(_GRANULARITIES)}. Mend it"
            )
        used = sorted((key, told) for key, told in given.items() if key.startswith(_USED_PROPERTIES))
        return cls(table.location(), tuple(used), write_id, granularity.strip().lower() == "file")

    def write_deletes(self, gone: Iterable[tuple[str, NDArray[np.int64]]], name: str) -> NewFile:
        """Write a file.

        Parameters
        ----------
        gone : iterable of (str, int64[n])
            Paths of data files, ascending by their UTF-8 bytes, and of each the positions of the rows that
            go: ascending, each once, and at least one.
        name : str
            Of the file, in the folder of the write. Written again, it is replaced.
        """
        path = f"{name}.parquet"
        paths: list[str] = []
        low, high, rows = np.iinfo(np.int64).max, 0, 0
        with (
            self._storage.open(path, "wb") as file,
            pq.ParquetWriter(
                file,
                _SCHEMA,
                use_dictionary=[PATH_FIELD.name],
                write_page_index=True,
                sorting_columns=[pq.SortingColumn(0), pq.SortingColumn(1)],
                **ParquetSettings.of(self._given, of_deletes=True).told(_SCHEMA.empty_table()),
            ) as writer,
        ):
            waiting: list[pa.Table] = []
            for data_file, positions in gone:
                paths.append(data_file)
                low, high = min(low, int(positions[0])), max(high, int(positions[-1]))
                rows += len(positions)
                for start in range(0, len(positions), _ROW_GROUP_ROWS):
                    waiting.append(_named(data_file, positions[start : start + _ROW_GROUP_ROWS]))
                    if sum(some.num_rows for some in waiting) >= _ROW_GROUP_ROWS:
                        writer.write_table(pa.concat_tables(waiting), row_group_size=_ROW_GROUP_ROWS)
                        waiting.clear()
            if waiting:
                writer.write_table(pa.concat_tables(waiting), row_group_size=_ROW_GROUP_ROWS)
            writer.close()
            footer = writer.writer.metadata
        offsets = (footer.row_group(at).column(0) for at in range(footer.num_row_groups))
        told = WrittenDeletes(
            first=paths[0],
            last=paths[-1],
            low=low,
            high=high,
            split_offsets=tuple(each.dictionary_page_offset or each.data_page_offset for each in offsets),
        )
        return NewFile(
            path=f"{self._folder}/{path}",
            rows=rows,
            bytes=self._storage.entry(path).size,
            details=told.model_dump_json(),
        )

    @cached_property
    def _given(self) -> Mapping[str, str]:
        return dict(self.properties)

    @cached_property
    def _folder(self) -> str:
        folder = folder_of_write(self.write_id, self._given)
        return f"{data_location(self.location, self._given)}/{folder}"

    @cached_property
    def _storage(self) -> Storage:
        return Storage.at(self._folder)


def _named(path: str, positions: NDArray[np.int64]) -> pa.Table:
    return pa.table([pa.repeat(pa.scalar(path, pa.string()), len(positions)), positions], schema=_SCHEMA)


def to_delete_file(deletes: NewDeletes) -> tuple[DataFile, str | None]:
    """The entry of a manifest, and the one data file that it names; None if it names several.

    Raises
    ------
    PlanError
        It names no data file of the table.
    """
    of = [file.entry for file in deletes.of if isinstance(file, IcebergFile)]
    if not of:
        raise PlanError(f"{deletes.file.path}: these deletes are of no data file of the table")
    told = WrittenDeletes.model_validate_json(deletes.file.details)
    entry = DataFile.from_args(
        content=DataFileContent.POSITION_DELETES,
        file_path=deletes.file.path,
        file_format=FileFormat.PARQUET,
        partition=of[0].partition,
        record_count=deletes.file.rows,
        file_size_in_bytes=deletes.file.bytes,
        lower_bounds=_bounds(told.first, told.low),
        upper_bounds=_bounds(told.last, told.high),
        split_offsets=list(told.split_offsets),
    )
    entry.spec_id = of[0].spec_id
    return entry, told.first if told.first == told.last else None


def _bounds(path: str, position: int) -> dict[int, bytes]:
    return {_PATH_ID: to_bytes(StringType(), path), _POSITION_ID: to_bytes(LongType(), position)}


def paths_named(deletes: Sequence[NewDeletes]) -> set[str]:
    """The data files that some files of deletes name."""
    return {file.path for each in deletes for file in each.of}
