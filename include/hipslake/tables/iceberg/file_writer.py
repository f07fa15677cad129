"""Writes data files: Parquet with Iceberg's field ids, and the statistics that a manifest holds of a file.

Of pyiceberg's own writer, its statistics from a Parquet footer are used (a part of pyiceberg that is not
meant for others; hence its upper bound in pyproject.toml). It counts no NaN; that is added here, since
readers may else skip files that hold some.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.conversions import to_bytes
from pyiceberg.io.pyarrow import (
    MetricModeTypes,
    MetricsMode,
    StatisticsCollector,
    data_file_statistics_from_parquet_metadata,
    parquet_path_to_id_mapping,
)
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import DateType, IcebergType, TimestampType, TimestamptzType, TimeType

from hipslake.specs.partition_fields import SortField
from hipslake.storage.dictionaries import repeating_columns
from hipslake.storage.folder import Storage
from hipslake.storage.write_out import native_output
from hipslake.tables.growing_parquet import GrowingParquet
from hipslake.tables.iceberg.data_files import WrittenFile, encoded_partition, partition_types
from hipslake.tables.iceberg.data_locations import DATA_PATH, SPREAD, data_location, folder_of_write
from hipslake.tables.iceberg.file_properties import PARQUET, ParquetSettings, statistics_plan
from hipslake.tables.iceberg.schemas import arrow_schema, with_name_mapping
from hipslake.tables.iceberg.table_partitioning import given_up, sort_order
from hipslake.tables.new_files import NewFile
from hipslake.tables.row_order import in_sort_order
from hipslake.tables.stored_files import NAME_MAPPING
from hipslake.tables.value_sketches import CountedColumn, as_texts, counted_column, sketches_of

_COUNTS = MetricsMode(MetricModeTypes.COUNTS)
_USED_PROPERTIES = (PARQUET, "write.metadata.", DATA_PATH, SPREAD, NAME_MAPPING)


@dataclass(frozen=True)
class FileWriter:
    """Writes data files of a table. Small and plain, so that it travels with tasks.

    Attributes
    ----------
    schema : pyiceberg.schema.Schema
    spec : pyiceberg.partitioning.PartitionSpec
    location : str
        Of the table.
    properties : tuple of (str, str)
        Those of the table that say how files are written.
    sort : tuple of SortField
        What rows of a file are sorted by; empty: they stay as they come.
    sort_order_id : int or None
        The table's number of that order, where it has one.
    write_id : str
        Names the folder that files go to, below the one of the table's data files.
    sorted_by : tuple of int
        Columns of the table's sort order, by their field ids.
    ndv : tuple of str
        Columns whose distinct values are counted as files are written.
    """

    schema: Schema
    spec: PartitionSpec
    location: str
    properties: tuple[tuple[str, str], ...]
    sort: tuple[SortField, ...]
    sort_order_id: int | None
    write_id: str
    sorted_by: tuple[int, ...] = ()
    ndv: tuple[str, ...] = ()

    @classmethod
    def of(
        cls, table: Table, sort: tuple[SortField, ...], write_id: str, ndv: tuple[str, ...] = ()
    ) -> FileWriter:
        """Return the writer of a table's present schema and partition spec."""
        schema = table.schema()
        order = sort_order(sort, schema)
        same = (o.order_id for o in table.sort_orders().values() if o.fields == order.fields)
        used = sorted((k, v) for k, v in table.properties.items() if k.startswith(_USED_PROPERTIES))
        return cls(
            schema,
            table.spec(),
            table.location(),
            tuple(used),
            sort,
            next(same, None) if sort else None,
            write_id,
            tuple(each.source_id for each in table.sort_order().fields if each.transform.preserves_order),
            ndv,
        )

    def _all(self, partition: tuple[Any, ...]) -> tuple[Any, ...]:
        """One value for each field of the spec."""
        if len(partition) == len(self.spec.fields):
            return partition
        gone, values = given_up(self.spec, self.schema), iter(partition)
        return tuple(None if at in gone else next(values) for at in range(len(self.spec.fields)))

    @cached_property
    def arrow_schema(self) -> pa.Schema:
        """What rows must have: the table's columns, field ids included.

        Its metadata tells what the columns are called in files that know no ids.
        """
        return with_name_mapping(arrow_schema(self.schema), dict(self.properties))

    def fitted(self, rows: pa.Table) -> pa.Table:
        """Rows with the very fields of `arrow_schema`, ids included; those that have them are not cast."""
        if rows.schema.remove_metadata().equals(self._stored_schema, check_metadata=True):
            return rows.replace_schema_metadata(None)
        return rows.cast(self._stored_schema)

    @cached_property
    def _stored_schema(self) -> pa.Schema:
        return self.arrow_schema.remove_metadata()

    @cached_property
    def storage(self) -> Storage:
        """The storage at the folder that files go to."""
        return Storage.at(self._folder)

    @cached_property
    def _folder(self) -> str:
        given = dict(self.properties)
        return f"{data_location(self.location, given)}/{folder_of_write(self.write_id, given)}"

    def sorted(self, rows: pa.Table) -> pa.Table:
        """Rows in the sort order; rows that are equal in it stay in their order."""
        return in_sort_order(rows, self.sort)

    def write(self, rows: pa.Table, partition: tuple[Any, ...], name: str) -> WrittenFile:
        """Write a file.

        Parameters
        ----------
        rows : pyarrow.Table
            With `arrow_schema`, all of one partition.
        partition : tuple
            The partition values, as records of Iceberg hold them; those of fields that were given up may
            be missing.
        name : str
            Of the file, in the folder of the write. Written again, it is replaced.
        """
        with self.opened(partition, name) as file:
            file.write(self.sorted(self.fitted(rows)))
        return file.written

    @contextmanager
    def opened(self, partition: tuple[Any, ...], name: str) -> Iterator[OpenFile]:
        """Open a file for rows that come by and by, and are written as they come; parameters as of `write`.

        It has its place once the block has ended, and has none if that raises.
        """
        path = f"{name}.parquet"
        with (
            self.storage.open(path, "wb") as file,
            native_output(file) as output,
            closing(OpenFile(self, output)) as opened,
        ):
            yield opened
            opened.end()
        opened.written = self._told(opened, path, partition)

    def _told(self, file: OpenFile, path: str, partition: tuple[Any, ...]) -> WrittenFile:
        plan, footer = self._statistics, file.footer
        timed = {number: each for number, each in plan.items() if _is_bounded_time(each)}
        counted = {number: replace(each, mode=_COUNTS) for number, each in timed.items()}
        told = data_file_statistics_from_parquet_metadata(
            footer, {**plan, **counted}, self._ids
        ).to_serialized_dict()
        low, high = self._bounds_of_times(footer, timed)
        return WrittenFile(
            path=f"{self._folder}/{path}",
            partition=encoded_partition(self._all(partition), self._partition_types),
            spec_id=self.spec.spec_id,
            sort_order_id=self.sort_order_id,
            rows=footer.num_rows,
            bytes=file.bytes,
            column_sizes=told["column_sizes"],
            value_counts=told["value_counts"],
            null_value_counts=told["null_value_counts"],
            nan_value_counts=dict(file.nans),
            lower_bounds=_hex({**(told["lower_bounds"] or {}), **low}),
            upper_bounds=_hex({**(told["upper_bounds"] or {}), **high}),
            split_offsets=tuple(told["split_offsets"]),
        )

    @property
    def takes_rows_as_they_come(self) -> bool:
        """Whether `opened` serves: rows of a file are not sorted, and nothing is sized by all of them."""
        return not (self.sort or self.ndv or self.settings.bloom_filters)

    def write_file(self, rows: pa.Table, partition: tuple[Any, ...], name: str) -> NewFile:
        """As `write`; with the sketches of the columns that are counted."""
        written = self.write(rows, partition, name).described()
        if not self.ndv:
            return written
        return written.model_copy(update={"sketches": as_texts(sketches_of([rows], self._counted))})

    def unsorted(self, sort_order: int | None) -> FileWriter:
        """The same, for rows that are in the sort order of this number already."""
        return replace(self, sort=(), sort_order_id=sort_order)

    def _bounds_of_times(
        self, footer: pq.FileMetaData, timed: Mapping[int, StatisticsCollector]
    ) -> tuple[dict[int, bytes], dict[int, bytes]]:
        """By field id. Of pyiceberg's own, those outside of the years 1 to 9999 end in an OverflowError."""
        low: dict[int, list[int]] = {}
        high: dict[int, list[int]] = {}
        if not timed:
            return {}, {}
        places = {self._ids[footer.schema.column(at).path]: at for at in range(footer.num_columns)}
        for number in timed:
            for group in range(footer.num_row_groups):
                statistics = footer.row_group(group).column(places[number]).statistics
                if statistics is not None and statistics.has_min_max:
                    low.setdefault(number, []).append(statistics.min_raw)
                    high.setdefault(number, []).append(statistics.max_raw)
        return (
            {number: to_bytes(timed[number].iceberg_type, min(found)) for number, found in low.items()},
            {number: to_bytes(timed[number].iceberg_type, max(found)) for number, found in high.items()},
        )

    def row_bytes(self, rows: pa.Table) -> float:
        """The size of a row as it will be written, in bytes, found by encoding some."""
        file = OpenFile(self, pa.BufferOutputStream())
        file.write(self.sorted(rows.cast(self.arrow_schema)))
        file.end()
        footer = file.footer
        groups = [footer.row_group(at) for at in range(footer.num_row_groups)]
        chunks = sum(
            group.column(c).total_compressed_size for group in groups for c in range(group.num_columns)
        )
        return chunks / max(rows.num_rows, 1)

    @cached_property
    def _statistics(self) -> dict[int, StatisticsCollector]:
        return statistics_plan(self.schema, dict(self.properties), self.sorted_by)

    @cached_property
    def _partition_types(self) -> list[IcebergType]:
        return partition_types(self.spec, self.schema)

    @cached_property
    def settings(self) -> ParquetSettings:
        """How the table wants its files to be written."""
        return ParquetSettings.of(dict(self.properties))

    @cached_property
    def _counted(self) -> tuple[CountedColumn, ...]:
        found = (counted_column(self.arrow_schema, name) for name in self.ndv)
        return tuple(column for column in found if column is not None)

    @cached_property
    def _ids(self) -> dict[str, int]:
        return parquet_path_to_id_mapping(self.schema)

    def parquet_writer(self, rows: pa.Table, file: BinaryIO | pa.NativeFile) -> pq.ParquetWriter:
        """What writes a file that begins with some rows.

        Columns whose values hardly repeat get no dictionary.
        """
        return pq.ParquetWriter(
            file,
            rows.schema,
            store_decimal_as_integer=True,
            write_page_index=True,
            sorting_columns=self._sorting_columns() or None,
            use_dictionary=repeating_columns(rows),
            **self.settings.told(rows, self.schema),
        )

    def _sorting_columns(self) -> list[pq.SortingColumn]:
        """The leading fields of the sort order that are plain columns, for the footer."""
        found = []
        if any(pa.types.is_nested(field.type) for field in self.arrow_schema):
            return []  # there, columns of the file are not those of the table
        for field in self.sort:
            if field.field.iceberg_transform != "identity":
                break
            at = self.arrow_schema.get_field_index(field.field.column)
            found.append(pq.SortingColumn(at, descending=field.descending, nulls_first=field.nulls_first))
        return found

    def nan_counts(self, rows: pa.Table) -> dict[int, int]:
        """How many NaN each column of some rows has, by field id, where the table wants to know."""
        counts, plan = {}, self._statistics
        for field in self.schema.fields:
            column = rows[field.name]
            if field.field_id in plan and plan[field.field_id].mode.type == MetricModeTypes.NONE:
                continue
            if pa.types.is_floating(column.type):
                counts[field.field_id] = _nan_count(column)
        return counts


class OpenFile(GrowingParquet):
    """A data file that rows are written to, each time as row groups of their own.

    Attributes
    ----------
    nans : Counter of int
        NaN by field id.
    written : WrittenFile
        What it has become, once `FileWriter.opened` has ended.
    """

    written: WrittenFile

    def __init__(self, writer: FileWriter, file: BinaryIO | pa.NativeFile) -> None:
        super().__init__(file, writer.parquet_writer)
        self.nans: Counter[int] = Counter()
        self._of = writer

    def write(self, rows: pa.Table) -> None:
        """Write rows with the columns of `FileWriter.arrow_schema`, in their order."""
        rows = self._of.fitted(rows)
        self.add(rows, self._of.settings.rows_per_group(rows))
        self.nans.update(self._of.nan_counts(rows))

    def new_file(self) -> NewFile:
        """What it has become, for the commit."""
        return self.written.described()


def _nan_count(column: pa.ChunkedArray) -> int:
    total = pc.sum(column).as_py()
    if total is None or math.isfinite(total):
        return 0  # a sum with a NaN is NaN
    return int(pc.sum(pc.is_nan(column)).as_py() or 0)


def _is_bounded_time(column: StatisticsCollector) -> bool:
    bounded = column.mode.type in (MetricModeTypes.FULL, MetricModeTypes.TRUNCATE)
    return bounded and isinstance(column.iceberg_type, TimestampType | TimestamptzType | DateType | TimeType)


def _hex(values: dict[int, bytes] | None) -> dict[int, str]:
    return {number: value.hex() for number, value in (values or {}).items()}
