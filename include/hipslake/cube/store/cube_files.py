"""The tables of a cube's files, its indices, and its rows, as Parquet."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from hipslake.catalog.leaf_opening import read_errors
from hipslake.cube.dataset import CubeDataset, labels_column
from hipslake.cube.sorting import sorted_by
from hipslake.cube.store.layout import files_path
from hipslake.cube.store.metadata import CubeDatasetMetadata, FilesTable
from hipslake.engine.model import Engine
from hipslake.errors import CatalogFormatError, VerificationError
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


def write_table(cube: Storage, path: str, table: pa.Table) -> FilesTable:
    """Write a table that the metadata of a version refers to."""
    data = encoded(table)
    cube.write(path, data)
    return FilesTable(path=path, sha256=hashlib.sha256(data).hexdigest())


def read_table(cube: Storage, table: FilesTable) -> pa.Table:
    """Read what `write_table` has written.

    Raises
    ------
    CatalogFormatError
        It is damaged, or not the one that was written.
    """
    data = cube.read(table.path)
    if hashlib.sha256(data).hexdigest() != table.sha256:
        raise CatalogFormatError(
            f"{cube.uri(table.path)}: not the file that was written (SHA-256 differs); restore it, or build "
            "the cube again"
        )
    with damage_as_error(cube.uri(table.path)):
        return pq.ParquetFile(pa.BufferReader(data)).read()


def write_files(cube: Storage, write_id: str, dataset: str, files: pa.Table) -> FilesTable:
    """Keep the table of a dataset's files, in the order of the partitions and paths."""
    keys = [name for name in files.column_names if name not in {field.name for field in ABOUT_FILES}]
    return write_table(cube, files_path(write_id, dataset), sorted_by(files, [*keys, PATH]))


def read_files(cube: Storage, dataset: CubeDatasetMetadata) -> pa.Table:
    """The table of a dataset's files.

    Raises
    ------
    CatalogFormatError
        It is damaged, or not the one that was written.
    """
    return read_table(cube, dataset.table)


def index_schema(dataset: str, schema: pa.Schema, column: str) -> pa.Schema:
    """Of the index of a column: its values, and the labels of the files that hold them."""
    return pa.schema([schema.field(column), pa.field(labels_column(dataset), pa.string())])


def read_index(
    cube: Storage, dataset: CubeDatasetMetadata, column: str, conditions: Conjunction | None = None
) -> pa.Table:
    """An explicit index: the column, and the labels of the files; of it what meets some conditions.

    It may name files of older versions.
    """
    schema = index_schema(dataset.name, dataset.to_arrow(), column)
    return read_rows(cube, dataset.index(column).parts, schema, conditions)


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
        with read_errors(cube, path):
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


_TASKS_PER_CORE = 4
_SAID = pa.schema([("problem", pa.string())])


@dataclass(frozen=True)
class CheckFiles:
    """Tasks that read files and hold them against what is said of them, some files each."""

    cube: Storage
    tasks: tuple[pa.Table, ...]

    def __call__(self, task: int) -> Iterator[pa.RecordBatch]:
        said = [self._problem(**each) for each in self.tasks[task].to_pylist()]
        yield pa.record_batch([pa.array([each for each in said if each], pa.string())], schema=_SAID)

    def _problem(self, **file: str | int) -> str:
        path = str(file[PATH])
        try:
            found = self.cube.sha256(path)
        except FileNotFoundError:
            return f"{self.cube.uri(path)} is missing"
        if found != file[SHA256]:
            return f"{self.cube.uri(path)} is not what was written (its SHA-256 differs)"
        with read_errors(self.cube, path), self.cube.arrow_file(path) as opened:
            rows = pq.ParquetFile(opened).metadata.num_rows
        return "" if rows == file[ROWS] else f"{self.cube.uri(path)} has {rows} rows, not {file[ROWS]}"


def verify_written(
    cube: Storage, write_id: str, datasets: Iterable[CubeDatasetMetadata], engine: Engine
) -> None:
    """Read every data file of a write back, and hold it against its checksum and its rows.

    Raises
    ------
    VerificationError
        A file is missing or damaged.
    """
    tables = [read_files(cube, each).select([PATH, ROWS, SHA256]) for each in datasets]
    if not tables:
        return
    files = pa.concat_tables(tables).combine_chunks()
    own = [path.startswith(f"{write_id}/") for path in files[PATH].to_pylist()]
    files = files.filter(pa.array(own, pa.bool_()))
    if not files.num_rows:
        return
    share = max(1, -(-files.num_rows // max(1, engine.cores * _TASKS_PER_CORE)))
    parts = tuple(files.slice(at, share) for at in range(0, files.num_rows, share))
    with engine.progress("verify the cells"):
        found = engine.run(CheckFiles(cube, parts), tasks=len(parts), result=_SAID)
    problems = sorted(found["problem"].to_pylist())
    if problems:
        raise VerificationError(
            f"{problems[0]} ({len(problems)} files are wrong); nothing is committed, run it again"
        )
