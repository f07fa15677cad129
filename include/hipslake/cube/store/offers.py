"""The rows of a dataset, from any source, in the columns and types that the cube holds.

Columns are chosen, renamed and cast, rows are filtered, and partition columns that are pixels are computed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from hipslake.cube.cube_rules import check_column_names, check_schema
from hipslake.cube.dataset import listed
from hipslake.cube.store.cube_files import read_files
from hipslake.cube.store.metadata import CubeDatasetMetadata, CubeSource
from hipslake.cube.store.row_sources import RowSource
from hipslake.errors import CubeRowsError
from hipslake.joins.nested_forms import are_two_forms, in_other_form, other_form
from hipslake.predicates.evaluation import passing
from hipslake.predicates.filter_text import parse_filter
from hipslake.sources.widening import without_dictionaries
from hipslake.specs.cube_spec import CubeColumns
from hipslake.sphere.pixels import HEALPIX_COLUMN, coarsen
from hipslake.storage.folder import Storage


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
    taken : CubeSource, optional
        What the metadata of the dataset says of the source; None: rows are given by hand.
    """

    cube: CubeColumns
    name: str
    source: RowSource
    partition_columns: tuple[str, ...]
    schema: pa.Schema
    origin: dict[str, str]
    filters: str | None = None
    taken: CubeSource | None = None

    @property
    def cell(self) -> list[str]:
        """The columns that make a cell."""
        return [*self.partition_columns, *(n for n in self.cube.dimension_columns if n in self.schema.names)]

    @property
    def keys(self) -> list[str]:
        """The columns that may hold no null."""
        return [name for name in self.schema.names if name in {*self.cell, *self.cube.index_columns}]

    @property
    def indexed(self) -> list[str]:
        """The columns that get an explicit index, sorted."""
        wanted = {*self.cube.index_columns} & {*self.schema.names}
        return sorted(wanted | (self.cube.seed_index_columns if self.name == self.cube.seed else set()))

    def rows(self, part: int, columns: Sequence[str] | None = None) -> Iterator[pa.Table]:
        """Some columns of a part, by default all; in the order of the schema."""
        wanted = [name for name in self.schema.names if columns is None or name in columns]
        pixels = [name for name in wanted if name not in self.origin]
        taken = {self.origin[name] for name in wanted if name in self.origin}
        condition = None
        if self.filters is not None:
            condition = parse_filter(self.filters, self.source.schema)
            taken |= condition.columns
        if pixels:
            taken.add(HEALPIX_COLUMN)
        for table in self.source.read(part, sorted(taken)):
            kept = table if condition is None else passing(condition, table)
            yield pa.table(
                [self._column(kept, name) for name in wanted],
                schema=pa.schema([self.schema.field(name) for name in wanted]),
            )

    def _column(self, table: pa.Table, name: str) -> pa.ChunkedArray:
        kind = self.schema.field(name).type
        if name not in self.origin:
            index = table.column(HEALPIX_COLUMN).to_numpy()
            return pa.chunked_array([pa.array(coarsen(index, self.cube.pixel_orders[name]))], kind)
        column = table.column(self.origin[name])
        try:
            if are_two_forms(column.type, kind):
                column = pa.chunked_array(
                    [in_other_form(chunk) for chunk in column.chunks], other_form(column.type)
                )
            return column.cast(kind)
        except ValueError as error:  # among them those of Arrow
            raise CubeRowsError(
                f"dataset {self.name!r}: column {name!r} does not fit into {kind}, the cube's type ({error})"
            ) from error


@dataclass(frozen=True)
class DatasetChange:
    """A dataset that is written: whole, appended to, or partition by partition.

    Attributes
    ----------
    offer : Offer
        All of its rows; or, where `within` is given, those in some pixels.
    existing : CubeDatasetMetadata, optional
        The dataset in the version before; None: it is written whole.
    replaces : bool
        Whether partitions are replaced, not appended to.
    within : (str, pyarrow.Array), optional
        A partition column, and the values of it that are looked at; None: all partitions are.
    """

    offer: Offer
    existing: CubeDatasetMetadata | None = None
    replaces: bool = False
    within: tuple[str, pa.Array] | None = None

    def existing_files(self, cube: Storage) -> pa.Table | None:
        """The files of the version before that are looked at; None where the dataset is written whole."""
        if self.existing is None:
            return None
        files = read_files(cube, self.existing)
        if self.within is None:
            return files
        column, values = self.within
        return files.filter(pc.is_in(files[column], value_set=values))


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
    taken: CubeSource | None = None,
) -> Offer:
    """Offer rows for a dataset of a cube.

    Parameters
    ----------
    cube : CubeColumns
    name : str
    source : RowSource
    partition_columns, columns, rename, filters
        As in `hipslake.specs.cube_spec.CubeDatasetSpec`.
    like : pyarrow.Schema, optional
        The schema that the dataset has already; the rows must have its columns.
    taken : CubeSource, optional
        What the source is, for the metadata of the dataset.

    Raises
    ------
    CubeRowsError
        The rows do not fit: see `hipslake.cube.cube_rules.check_schema`.
    FilterError
        The filter is not understood.
    """
    given = source.schema
    check_column_names(name, given.names)
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
    return Offer(cube, name, source, cut, schema, origin, filters, taken)


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
    if are_two_forms(kind, into):
        return other_form(kind) == into
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
