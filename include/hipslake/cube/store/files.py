"""The tables of a cube's files, its indices, and its rows, as Parquet."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from hipslake.catalog.leaf_rows import told
from hipslake.cube.dataset import CubeDataset, labels_column
from hipslake.cube.sorting import sorted_by
from hipslake.cube.store.layout import files_path
from hipslake.cube.store.metadata import CubeDatasetMetadata, FilesTable
from hipslake.errors import CatalogFormatError
from hipslake.predicates.conditions import Conjunction
from hipslake.predicates.pruning import pushed_down
from hipslake.storage.column_chunks import check_chunks
from hipslake.storage.folder import Storage
from hipslake.storage.parquet_failures import damage_as_error

PATH, ROWS, BYTES, SHA256 = "__path", "__rows", "__bytes", "__sha256"
ABOUT_FILES = [
    pa.field(PATH, pa.string(), nullable=False),  # relative to the cube's root
    pa.field(ROWS, pa.int64(), nullable=False),
    pa.field(BYTES, pa.int64(), nullable=False),
    pa.field(SHA256, pa.string(), nullable=False),
]
ROW_GROUP_ROWS = 1 << 18
_FORMAT = ds.ParquetFileFormat()


def files_schema(schema: pa.Schema, partition_columns: Sequence[str]) -> pa.Schema:
    """Of the table of a dataset's files: its partition columns, and what is known of each file."""
    return pa.schema([*(schema.field(name) for name in partition_columns), *ABOUT_FILES])


def encoded(table: pa.Table, sorted_by_columns: Sequence[str] = ()) -> pa.Buffer:
    """A table as a Parquet file; the same table gives the same bytes."""
    sink = pa.BufferOutputStream()
    encodings = _encodings(table.schema, sorted_by_columns)
    repeating = [name for name in table.column_names if name not in encodings]
    order = [pq.SortingColumn(table.column_names.index(name)) for name in sorted_by_columns]
    pq.write_table(
        table.combine_chunks(),
        sink,
        row_group_size=ROW_GROUP_ROWS,
        compression="zstd",
        use_dictionary=repeating or False,
        column_encoding=encodings or None,
        sorting_columns=order or None,
        write_page_index=True,
    )
    return sink.getvalue()


def _encodings(schema: pa.Schema, order: Sequence[str]) -> dict[str, str]:
    """How columns are written that repeat little: real numbers, and the integers that rows are sorted by."""
    found = {
        field.name: "BYTE_STREAM_SPLIT" for field in schema if field.type in (pa.float32(), pa.float64())
    }
    if order and pa.types.is_integer(schema.field(order[0]).type):
        found[order[0]] = "DELTA_BINARY_PACKED"
    return found


def write_files(cube: Storage, write_id: str, dataset: str, files: pa.Table) -> FilesTable:
    """Keep the table of a dataset's files, in the order of the partitions and paths."""
    keys = [name for name in files.column_names if name not in {field.name for field in ABOUT_FILES}]
    data = encoded(sorted_by(files, [*keys, PATH]))
    path = files_path(write_id, dataset)
    cube.write(path, data)
    return FilesTable(path=path, sha256=hashlib.sha256(data).hexdigest())


def read_files(cube: Storage, dataset: CubeDatasetMetadata) -> pa.Table:
    """The table of a dataset's files.

    Raises
    ------
    CatalogFormatError
        It is damaged, or not the one that was written.
    """
    data = cube.read(dataset.table.path)
    if hashlib.sha256(data).hexdigest() != dataset.table.sha256:
        raise CatalogFormatError(
            f"{cube.uri(dataset.table.path)}: not the file that was written (SHA-256 differs); restore it, "
            "or build the cube again"
        )
    with damage_as_error(cube.uri(dataset.table.path)):
        return pq.read_table(pa.BufferReader(data))


def read_index(
    cube: Storage, dataset: CubeDatasetMetadata, column: str, conditions: Conjunction | None = None
) -> pa.Table:
    """An explicit index: the column, and the labels of the files; of it what meets some conditions.

    It may name files of older versions.
    """
    paths = dataset.index(column).parts
    schema = pa.schema([dataset.to_arrow().field(column), pa.field(labels_column(dataset.name), pa.string())])
    return read_rows(cube, paths, schema, conditions)


def read_rows(
    cube: Storage, paths: Iterable[str], schema: pa.Schema, conditions: Conjunction | None = None
) -> pa.Table:
    """Some columns of files, of the rows that meet some conditions; in the order of the files.

    Parameters
    ----------
    cube : Storage
        At the cube's root.
    paths : iterable of str
    schema : pyarrow.Schema
        The columns that are wanted.
    conditions : Conjunction, optional
        They may name other columns of the files.

    Raises
    ------
    VerificationError
        A file is missing or damaged.
    """
    tables = [schema.empty_table()]
    for path in paths:
        with told(cube, path):
            fragment = _FORMAT.make_fragment(cube.arrow_path(path), cube.arrow_filesystem())
            stored = fragment.physical_schema
            if conditions is None or not conditions.columns:
                tables.append(fragment.to_table(columns=schema.names).cast(schema))
                continue
            conditions.check(stored)
            skipping = pushed_down(conditions.predicate, stored, stored, nan_is_null=True)
            needed = list(dict.fromkeys([*schema.names, *sorted(conditions.columns)]))
            check_chunks(fragment, conditions.columns)
            found = conditions.meeting(fragment.to_table(columns=needed, filter=skipping))
            tables.append(found.select(schema.names).cast(schema))
    return pa.concat_tables(tables)


def planned(cube: Storage, dataset: CubeDatasetMetadata) -> CubeDataset:
    """A dataset as planning sees it."""
    files = read_files(cube, dataset)
    labels = labels_column(dataset.name)
    named = files.select([*dataset.partition_columns, PATH]).rename_columns(
        [*dataset.partition_columns, labels]
    )
    return CubeDataset(
        name=dataset.name,
        schema=dataset.to_arrow(),
        partition_columns=dataset.partition_columns,
        secondary=frozenset(index.column for index in dataset.indices),
        files=named,
    )
