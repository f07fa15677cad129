"""The metadata of a dataset, made of its files and indices; and how it differs between two versions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hipslake.catalog.schema import schema_text
from hipslake.cube.dataset import labels_column
from hipslake.cube.row_codes import bounds_of
from hipslake.cube.sorting import sorted_by
from hipslake.cube.store.cell_writing import COLUMN, FILE, INDEX, KIND, REMOVED
from hipslake.cube.store.counting import DATASET
from hipslake.cube.store.cube_files import (
    BYTES,
    PATH,
    ROWS,
    encoded,
    files_schema,
    index_schema,
    read_files,
    read_rows,
    write_files,
)
from hipslake.cube.store.layout import index_path
from hipslake.cube.store.metadata import CubeColumn, CubeDatasetMetadata, CubeIndex, CubeMetadata, CubeSource
from hipslake.cube.store.offers import DatasetChange, Offer
from hipslake.specs.base import Frozen
from hipslake.storage.folder import Storage
from hipslake.versions.write_id import is_write_id

_MOST_PARTS = 64  # of an index, before they are written as one


def described(
    cube: Storage,
    write_id: str,
    name: str,
    schema: pa.Schema,
    partition_columns: Sequence[str],
    files: pa.Table,
    indices: Mapping[str, Sequence[str]],
    source: CubeSource | None = None,
) -> CubeDatasetMetadata:
    """Keep the table of a dataset's files, and describe the dataset.

    Parameters
    ----------
    cube : Storage
        At the cube's root.
    write_id : str
        Of the write that keeps the table.
    name : str
    schema : pyarrow.Schema
    partition_columns : sequence of str
    files : pyarrow.Table
        As `files_schema`.
    indices : mapping of str to sequence of str
        Per column, the parts of its index.
    source : CubeSource, optional
        What the rows were taken from.
    """
    table = write_files(cube, write_id, name, files)
    parts = [path for paths in indices.values() for path in paths]
    return CubeDatasetMetadata(
        name=name,
        rows=pc.sum(files[ROWS]).as_py() or 0,
        bytes=pc.sum(files[BYTES]).as_py() or 0,
        files=files.num_rows,
        partition_columns=tuple(partition_columns),
        columns=tuple(CubeColumn(name=field.name, type=str(field.type)) for field in schema),
        arrow_schema=schema_text(schema),
        table=table,
        writes=_writes([table.path, *parts, *files[PATH].to_pylist()]),
        indices=tuple(
            CubeIndex(column=column, parts=tuple(paths)) for column, paths in sorted(indices.items())
        ),
        source=source,
    )


def with_written(
    cube: Storage, write_id: str, number: int, change: DatasetChange, done: pa.Table
) -> CubeDatasetMetadata:
    """A dataset after its rows were written.

    Parameters
    ----------
    cube : Storage
        At the cube's root.
    write_id : str
    number : int
        Of the change.
    change : DatasetChange
    done : pyarrow.Table
        From `hipslake.cube.store.cell_writing.write_changes`.
    """
    offer, base = change.offer, change.existing
    mine = done.filter(pc.equal(done[DATASET], number))
    schema = files_schema(offer.schema, offer.partition_columns)
    files = mine.filter(pc.equal(mine[KIND], FILE)).select(schema.names).cast(schema)
    parts = mine.filter(pc.equal(mine[KIND], INDEX))
    indices = {
        column: parts.filter(pc.equal(parts[COLUMN], column))[PATH].to_pylist() for column in offer.indexed
    }
    if base is not None:
        gone = mine.filter(pc.equal(mine[KIND], REMOVED))[PATH].combine_chunks()
        stays = read_files(cube, base)
        stays = stays.filter(pc.invert(pc.is_in(stays[PATH], value_set=gone)))
        files = pa.concat_tables([stays.cast(schema), files])
        indices = {column: [*base.index(column).parts, *paths] for column, paths in indices.items()}
    for column, paths in indices.items():
        if len(paths) > _MOST_PARTS:
            indices[column] = [_merged_index(cube, write_id, offer, column, paths, files)]
    source = offer.taken or (base.source if base is not None else None)
    return described(
        cube, write_id, offer.name, offer.schema, offer.partition_columns, files, indices, source
    )


def with_files(
    cube: Storage,
    write_id: str,
    base: CubeDatasetMetadata,
    files: pa.Table,
    indices: Mapping[str, Sequence[str]],
) -> CubeDatasetMetadata:
    """A dataset with other files and indices; parameters as for `described`."""
    return described(
        cube, write_id, base.name, base.to_arrow(), base.partition_columns, files, indices, base.source
    )


def _merged_index(
    cube: Storage, write_id: str, offer: Offer, column: str, parts: Sequence[str], files: pa.Table
) -> str:
    """Write the parts of an index as one, without files that are gone."""
    whole = read_rows(cube, parts, index_schema(offer.name, offer.schema, column))
    alive = pc.is_in(whole[labels_column(offer.name)], value_set=files[PATH].combine_chunks())
    path = index_path(write_id, offer.name, column, 99_999)
    cube.write(path, encoded(whole.filter(alive).sort_by([(column, "ascending")]), [column]))
    return path


def _writes(paths: Iterable[str]) -> tuple[str, ...]:
    heads = {path.partition("/")[0] for path in paths}
    return tuple(sorted(each for each in heads if is_write_id(each)))


class DatasetDifference(Frozen):
    """What became of the files of a dataset; partitions are those that have files before or after."""

    name: str
    rows: int  # after
    rows_written: int
    bytes_written: int
    files_written: int
    files_gone: int
    partitions: int
    partitions_touched: int

    def __str__(self) -> str:
        if not self.files_written and not self.files_gone:
            return f"{self.name}: as it was, {self.rows:,} rows in {self.partitions:,} partitions"
        return (
            f"{self.name}: {self.partitions_touched:,} of {self.partitions:,} partitions touched, "
            f"{self.rows_written:,} rows written in {self.files_written:,} files, "
            f"{self.files_gone:,} files gone; {self.rows:,} rows now"
        )


def differences(
    cube: Storage, after: CubeMetadata, before: CubeMetadata | None
) -> tuple[DatasetDifference, ...]:
    """Per dataset of a version, and of its joined rows, what is other than in another version.

    Parameters
    ----------
    cube : Storage
        At the cube's root.
    after : CubeMetadata
    before : CubeMetadata, optional
    """
    old = {} if before is None else {each.name: each for each in before.tables}
    return tuple(_difference(cube, each, old.get(each.name)) for each in after.tables)


def _difference(
    cube: Storage, after: CubeDatasetMetadata, before: CubeDatasetMetadata | None
) -> DatasetDifference:
    new = read_files(cube, after)
    old = new.slice(0, 0) if before is None else read_files(cube, before)
    came = new.filter(pc.invert(pc.is_in(new[PATH], value_set=old[PATH])))
    gone = old.filter(pc.invert(pc.is_in(old[PATH], value_set=new[PATH])))
    cut = list(after.partition_columns)
    same = before is not None and before.partition_columns == after.partition_columns
    return DatasetDifference(
        name=after.name,
        rows=after.rows,
        rows_written=pc.sum(came[ROWS]).as_py() or 0,
        bytes_written=pc.sum(came["__bytes"]).as_py() or 0,
        files_written=came.num_rows,
        files_gone=gone.num_rows,
        partitions=_partitions([new, old] if same else [new], cut),
        partitions_touched=_partitions([came, gone] if same else [came], cut),
    )


def _partitions(tables: list[pa.Table], cut: list[str]) -> int:
    """How many partitions files lie in."""
    if not cut:
        return int(np.sign(sum(table.num_rows for table in tables)))
    together = pa.concat_tables([table.select(cut).cast(tables[0].select(cut).schema) for table in tables])
    return len(bounds_of(sorted_by(together, cut), cut)) - 1
