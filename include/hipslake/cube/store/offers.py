"""What is offered to a cube: rows of a dataset, in parts that tasks can read alone.

Rows come from tables in memory, Parquet files, or a catalog. Whatever they come from, partition columns that
are pixels are computed, and types are brought to those of the cube.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from hipslake.catalog.filters import parse_filter
from hipslake.catalog.leaf_rows import told
from hipslake.cube.checks import check_schema
from hipslake.cube.dataset import listed
from hipslake.errors import CubeRowsError
from hipslake.sources.widening import without_dictionaries
from hipslake.specs.cube import CubeColumns
from hipslake.sphere.pixels import HEALPIX_COLUMN, coarsen
from hipslake.storage import Storage

_PART_ROWS = 1 << 20


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
        return max(1, -(-self.table.num_rows // _PART_ROWS))

    def read(self, part: int, columns: Sequence[str]) -> Iterator[pa.Table]:
        yield self.table.slice(part * _PART_ROWS, _PART_ROWS).select(list(columns))


@dataclass(frozen=True)
class ParquetRows:
    """Parquet files of one schema; a part is a row group.

    Parameters
    ----------
    storage : Storage
    row_groups : tuple of (str, int)
        Path and number of each.
    schema : pyarrow.Schema
    """

    storage: Storage
    row_groups: tuple[tuple[str, int], ...]
    schema: pa.Schema

    @classmethod
    def at(cls, uri: str) -> ParquetRows:
        """The files that match a URI, which may hold `*` and `**`.

        Raises
        ------
        CubeRowsError
            No file matches, or their schemas differ.
        """
        storage, pattern = _split(uri)
        paths = [entry.path for entry in storage.glob(pattern)]
        if not paths:
            raise CubeRowsError(f"{uri}: no file matches; check the path")
        row_groups: list[tuple[str, int]] = []
        schema: pa.Schema | None = None
        for path in paths:
            with told(storage, path), storage.arrow_file(path) as file:
                parquet = pq.ParquetFile(file)
                found = parquet.schema_arrow.remove_metadata()
                row_groups += [(path, number) for number in range(parquet.num_row_groups)]
            if schema is not None and not found.equals(schema):
                raise CubeRowsError(
                    f"{storage.uri(path)}: its columns are not those of {paths[0]}; convert one"
                )
            schema = found
        return cls(storage, tuple(row_groups), schema)

    @property
    def parts(self) -> int:
        return len(self.row_groups)

    def read(self, part: int, columns: Sequence[str]) -> Iterator[pa.Table]:
        path, number = self.row_groups[part]
        with told(self.storage, path), self.storage.arrow_file(path) as file:
            yield pq.ParquetFile(file).read_row_group(number, columns=list(columns), use_threads=False)


@dataclass(frozen=True)
class Offer:
    """Rows for one dataset, as the cube will hold them.

    Attributes
    ----------
    cube : CubeColumns
    name : str
        Of the dataset.
    source : RowSource
    partition_columns : tuple of str
        By which its files are cut, in the cube's order.
    schema : pyarrow.Schema
        Of the outcome: the partition columns, the dimension columns, and the payload, sorted.
    origin : dict of str to str
        From a column of the outcome to that of the source; computed pixels are not in it.
    filters : str, optional
        Which rows of the source take part.
    """

    cube: CubeColumns
    name: str
    source: RowSource
    partition_columns: tuple[str, ...]
    schema: pa.Schema
    origin: dict[str, str]
    filters: str | None = None

    @property
    def cell(self) -> list[str]:
        """The columns that make a cell."""
        return [*self.partition_columns, *(n for n in self.cube.dimension_columns if n in self.schema.names)]

    @property
    def keys(self) -> list[str]:
        """The columns that may hold no null."""
        return [name for name in self.schema.names if name in {*self.cell, *self.cube.index_columns}]

    def rows(self, part: int, columns: Sequence[str] | None = None) -> Iterator[pa.Table]:
        """Some columns of a part, by default all; in the order of the schema."""
        wanted = [name for name in self.schema.names if columns is None or name in columns]
        pixels = [name for name in wanted if name not in self.origin]
        taken = {self.origin[name] for name in wanted if name in self.origin}
        condition = None
        if self.filters is not None:
            condition = parse_filter(self.filters, self.source.schema)
            taken |= {name for name in self.source.schema.names if name in self.filters}
        if pixels:
            taken.add(HEALPIX_COLUMN)
        for table in self.source.read(part, sorted(taken)):
            kept = table if condition is None else table.filter(condition)
            yield pa.table(
                [self._column(kept, name) for name in wanted],
                schema=pa.schema([self.schema.field(name) for name in wanted]),
            )

    def _column(self, table: pa.Table, name: str) -> pa.ChunkedArray:
        kind = self.schema.field(name).type
        if name not in self.origin:
            index = table.column(HEALPIX_COLUMN).to_numpy()
            return pa.chunked_array([pa.array(coarsen(index, self.cube.pixel_orders[name]))], kind)
        try:
            return table.column(self.origin[name]).cast(kind)
        except pa.ArrowInvalid as error:
            raise CubeRowsError(
                f"dataset {self.name!r}: column {name!r} does not fit into {kind}, the cube's type ({error})"
            ) from error


def offer(
    cube: CubeColumns,
    name: str,
    source: RowSource,
    *,
    partition_columns: Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
    rename: Mapping[str, str] | None = None,
    filters: str | None = None,
    like: pa.Schema | None = None,
) -> Offer:
    """Offer rows for a dataset of a cube.

    Parameters
    ----------
    cube : CubeColumns
    name : str
    source : RowSource
    partition_columns, columns, rename, filters
        As in `hipslake.specs.cube.CubeDatasetSpec`.
    like : pyarrow.Schema, optional
        The schema that the dataset has already; the rows must have its columns.

    Raises
    ------
    CubeRowsError
        The rows do not fit: see `hipslake.cube.checks.check_schema`.
    FilterError
        The filter is not understood.
    """
    given = source.schema
    twice = {each for each in given.names if given.names.count(each) > 1}
    if twice:
        raise CubeRowsError(f"dataset {name!r}: column {listed(twice)} comes twice; rename one of them")
    cut = tuple(n for n in cube.partition_columns if partition_columns is None or n in partition_columns)
    renamed = dict(rename or {})
    strange = {*renamed, *(columns or ())} - set(given.names)
    if strange:
        raise CubeRowsError(
            f"dataset {name!r}: there is no column {listed(strange)}; there is {listed(given.names)}"
        )
    chosen = [each for each in given.names if columns is None or each in columns]
    pixels = [each for each in cut if each in cube.pixel_orders]
    if pixels and HEALPIX_COLUMN not in given.names:
        raise CubeRowsError(
            f"dataset {name!r}: {listed(pixels)} is computed from {HEALPIX_COLUMN!r}, which is missing; take "
            "the rows from a catalog, or add the column"
        )
    # The index of a position belongs to the seed: elsewhere it would be a payload that two datasets have.
    hidden = {HEALPIX_COLUMN} if cube.pixel_orders and name != cube.seed else set()
    named = {renamed.get(each, each): each for each in chosen if each not in hidden}
    origin = {new: old for new, old in named.items() if new not in pixels}
    own = {*cut, *cube.dimension_columns}
    types = {new: _stored(given.field(old).type, new in own) for new, old in origin.items()}
    types |= dict.fromkeys(pixels, pa.int64())
    keys = [*cut, *(each for each in cube.dimension_columns if each in types)]
    order = [*keys, *sorted(set(types) - own), *sorted(set(types) & own - {*keys})]
    schema = pa.schema([(each, types[each]) for each in order if each in types])
    check_schema(cube, name, schema, cut)
    if like is not None:
        schema = _alike(name, schema, like)
    if filters is not None:
        parse_filter(filters, given)  # raises while nothing is read yet
    return Offer(
        cube=cube,
        name=name,
        source=source,
        partition_columns=cut,
        schema=schema,
        origin=origin,
        filters=filters,
    )


def from_pandas(frame: Any, name: str) -> pa.Table:
    """A pandas frame as a table, without its index.

    Raises
    ------
    CubeRowsError
        A column comes twice, is sparse, or holds what Arrow cannot.
    """
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


def _alike(name: str, schema: pa.Schema, like: pa.Schema) -> pa.Schema:
    """The schema that a dataset has, if rows of another can be brought to it."""
    lacking, strange = set(like.names) - set(schema.names), set(schema.names) - set(like.names)
    if lacking or strange:
        raise CubeRowsError(
            f"dataset {name!r}: "
            + "; ".join(
                [f"column {listed(lacking)} is missing"] * bool(lacking)
                + [f"column {listed(strange)} is new"] * bool(strange)
            )
            + "; appended rows have the columns that the dataset has"
        )
    for each in like:
        kind = schema.field(each.name).type
        if kind != each.type and not _widens(kind, each.type):
            raise CubeRowsError(
                f"dataset {name!r}: column {each.name!r} is {kind}, but {each.type} in the cube; convert it"
            )
    return like


def _widens(kind: pa.DataType, into: pa.DataType) -> bool:
    if pa.types.is_integer(kind):
        return bool(pa.types.is_integer(into))
    if pa.types.is_floating(kind):
        return bool(pa.types.is_floating(into)) and kind.bit_width <= into.bit_width
    return bool(pa.types.is_null(kind))


def _stored(kind: pa.DataType, key: bool) -> pa.DataType:
    """The type in which values are kept: keys of all datasets are to be comparable."""
    kind = without_dictionaries(kind)
    if pa.types.is_large_string(kind):
        return pa.string()
    if pa.types.is_large_binary(kind):
        return pa.binary()
    if key and pa.types.is_integer(kind) and not pa.types.is_uint64(kind):
        return pa.int64()
    return kind


def _split(uri: str) -> tuple[Storage, str]:
    """The folder above the first part with a wildcard, and the rest."""
    parts = uri.split("/")
    first = next((at for at, part in enumerate(parts) if any(sign in part for sign in "*?[")), len(parts) - 1)
    return Storage.at("/".join(parts[:first]) or ("/" if uri.startswith("/") else ".")), "/".join(
        parts[first:]
    )
