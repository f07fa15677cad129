"""The metadata of a dataset, made of its files and indices."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from hipslake.catalog.schema import schema_text
from hipslake.cube.dataset import labels_column
from hipslake.cube.store.counting import DATASET
from hipslake.cube.store.files import (
    BYTES,
    PATH,
    ROWS,
    encoded,
    files_schema,
    read_files,
    read_index,
    write_files,
)
from hipslake.cube.store.layout import index_path
from hipslake.cube.store.metadata import CubeColumn, CubeDatasetMetadata, CubeIndex, CubeSource
from hipslake.cube.store.offers import Offer
from hipslake.cube.store.writing import COLUMN, FILE, INDEX, KIND, REMOVED
from hipslake.specs.cube_spec import CubeColumns
from hipslake.storage.folder import Storage
from hipslake.versions.write_id import is_write_id

_MOST_PARTS = 64  # of an index, before they are written as one


def index_columns(cube: CubeColumns, name: str, schema: pa.Schema) -> tuple[str, ...]:
    """The columns of a dataset that get an explicit index, sorted."""
    wanted = set(cube.index_columns) & set(schema.names)
    if name == cube.seed:
        wanted |= cube.seed_index_columns
    return tuple(sorted(wanted))


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
    cube: Storage,
    write_id: str,
    number: int,
    offer: Offer,
    done: pa.Table,
    indexed: Sequence[str],
    base: CubeDatasetMetadata | None = None,
) -> CubeDatasetMetadata:
    """A dataset after its rows were written.

    Parameters
    ----------
    cube : Storage
        At the cube's root.
    write_id : str
    number : int
        Of the offer.
    offer : Offer
    done : pyarrow.Table
        From `hipslake.cube.store.writing.write_offers`.
    indexed : sequence of str
    base : CubeDatasetMetadata, optional
        What it was before, where rows were appended or partitions replaced.
    """
    mine = done.filter(pc.equal(done[DATASET], number))
    schema = files_schema(offer.schema, offer.partition_columns)
    files = mine.filter(pc.equal(mine[KIND], FILE)).select(schema.names).cast(schema)
    parts = mine.filter(pc.equal(mine[KIND], INDEX))
    indices = {column: parts.filter(pc.equal(parts[COLUMN], column))[PATH].to_pylist() for column in indexed}
    if base is not None:
        gone = mine.filter(pc.equal(mine[KIND], REMOVED))[PATH].combine_chunks()
        stays = read_files(cube, base)
        stays = stays.filter(pc.invert(pc.is_in(stays[PATH], value_set=gone)))
        files = pa.concat_tables([stays.cast(schema), files])
        indices = {column: [*base.index(column).parts, *paths] for column, paths in indices.items()}
    source = offer.taken or (base.source if base is not None else None)
    found = described(
        cube, write_id, offer.name, offer.schema, offer.partition_columns, files, indices, source
    )
    crowded = [index for index in found.indices if len(index.parts) > _MOST_PARTS]
    if not crowded:
        return found
    together = {index.column: _as_one(cube, write_id, found, index.column, files) for index in crowded}
    return described(
        cube, write_id, offer.name, offer.schema, offer.partition_columns, files, indices | together, source
    )


def without_files(
    cube: Storage, write_id: str, base: CubeDatasetMetadata, files: pa.Table
) -> CubeDatasetMetadata:
    """A dataset of which only some files stay; its indices stay too, as files that are gone do not count."""
    indices = {index.column: index.parts for index in base.indices}
    return described(
        cube, write_id, base.name, base.to_arrow(), base.partition_columns, files, indices, base.source
    )


def _as_one(
    cube: Storage, write_id: str, dataset: CubeDatasetMetadata, column: str, files: pa.Table
) -> list[str]:
    """Write the parts of an index as one, without files that are gone."""
    whole = read_index(cube, dataset, column)
    alive = pc.is_in(whole[labels_column(dataset.name)], value_set=files[PATH].combine_chunks())
    path = index_path(write_id, dataset.name, column, 99_999)
    cube.write(path, encoded(whole.filter(alive).sort_by([(column, "ascending")]), [column]))
    return [path]


def _writes(paths: Iterable[str]) -> tuple[str, ...]:
    heads = {path.partition("/")[0] for path in paths}
    return tuple(sorted(each for each in heads if is_write_id(each)))
