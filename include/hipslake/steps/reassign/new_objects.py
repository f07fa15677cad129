"""Which object each row gets, and the rows as they are then. Pure but for the reading of a version."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hipslake.catalog.evolution import source_schema
from hipslake.catalog.metadata import CatalogMetadata, RowsOfNight
from hipslake.catalog.reading import read_parts
from hipslake.catalog.records.key_columns import KeyColumns, as_plain
from hipslake.catalog.records.record_order import RecordOrder
from hipslake.catalog.schema import ROW_COLUMN
from hipslake.catalog.selection import select
from hipslake.engine.reordering import in_order
from hipslake.errors import InputError, SchemaMismatchError, SpecError, VerificationError
from hipslake.predicates.predicate_tree import InArray
from hipslake.specs.catalog_spec import CatalogSpec
from hipslake.sphere.intervals import Intervals
from hipslake.sphere.pixels import HEALPIX_COLUMN
from hipslake.steps.rows_to_correct import FoundRows, key_table
from hipslake.storage.folder import Storage


def object_column(metadata: CatalogMetadata, spec: CatalogSpec, given: str | None) -> str:
    """The column that names the object of each row.

    Parameters
    ----------
    metadata : CatalogMetadata
        The version.
    spec : CatalogSpec
        That it was made by.
    given : str or None
        The column; None: that of `position_from`, or the only one of `co_partitioned`.

    Raises
    ------
    SpecError
        None is known, or it is one that cannot change.
    SchemaMismatchError
        There is no such column.
    """
    if given is None:
        marked = [each for each in spec.co_partitioned if each not in spec.key]
        if spec.position_from is not None:
            given = spec.position_from.column
        elif len(marked) == 1:
            given = marked[0]
        else:
            raise SpecError(
                f"column: the spec of catalog {metadata.catalog} does not say which column names the object "
                "of a row (position_from, or one of co_partitioned); give it"
            )
    names = source_schema(metadata).names
    if given not in names:
        raise SchemaMismatchError(
            f"column: catalog {metadata.catalog} has no column {given!r}; there are {', '.join(names)}"
        )
    fixed = {
        "key": spec.key,
        "order_by": (spec.order_by,),
        "position": (spec.position.ra, spec.position.dec),
    }
    for what, columns in fixed.items():
        if given in columns:
            raise SpecError(f"column: {given} is a column of {what}, and names no object; give another one")
    return given


@dataclass(frozen=True)
class NewObjects:
    """The objects that rows are given to.

    Attributes
    ----------
    column : str
        That names them.
    given : pyarrow.Table
        Columns of the key, and `column`, in the catalog's types; without any, and one row, the same object
        for all.
    """

    column: str
    given: pa.Table

    @classmethod
    def of(cls, metadata: CatalogMetadata, column: str, keys: Any, to: Any) -> NewObjects:
        """The objects that a request names, by `to` or by a column of `keys`.

        Raises
        ------
        SpecError
            By both, or by none.
        SchemaMismatchError, InputError
            They are not of the column's type, or null; or a key has two.
        """
        schema, records = source_schema(metadata), metadata.key_records
        assert records is not None
        field = schema.field(column)
        if (to is None) is not (keys is not None and (to is None or _has(keys, column))):
            what = "neither of them" if to is None else "both"
            raise SpecError(
                f"a reassignment takes the object that all rows are given to (to), or keys with a column "
                f"{column!r}, which says it of each; {what} was given"
            )
        if to is not None:
            return cls(column, key_table({column: [to]}, pa.schema([field])))
        fields = [schema.field(name) for name in records.key]
        objects = cls(column, key_table(keys, pa.schema([*fields, field])))
        objects._check_one_for_each(records.key)
        return objects

    def _check_one_for_each(self, key: tuple[str, ...]) -> None:
        by, (codes,) = _codes(key, self.given)
        objects = self.given[self.column].combine_chunks().dictionary_encode().indices.to_numpy()
        along = np.lexsort((objects, codes))
        codes, objects = codes[along], objects[along]
        twice = np.flatnonzero((codes[1:] == codes[:-1]) & (objects[1:] != objects[:-1]))
        if len(twice):
            row = self.given.take(pa.array(along[twice[:1]])).to_pylist()[0]
            told = ", ".join(f"{name} {row[name]!r}" for name in by.names)
            raise InputError(f"keys: {told} is given to two objects; leave one of them out")

    def for_rows(self, rows: pa.Table, key: tuple[str, ...]) -> pa.ChunkedArray:
        """The object that each of some rows is given to, in the order of the rows."""
        if self.given.num_columns == 1:
            return pa.chunked_array([pa.repeat(self.given[self.column][0], rows.num_rows)])
        _, (wanted, known) = _codes(key, rows, self.given)
        first = np.unique(known, return_index=True)
        at = first[1][np.searchsorted(first[0], wanted)]
        return self.given[self.column].take(pa.array(at))


def _has(keys: Any, column: str) -> bool:
    """Whether keys are a table, a frame or a mapping with some column."""
    if isinstance(keys, pa.Table | pa.RecordBatch):
        return column in keys.schema.names
    return (isinstance(keys, Mapping) or hasattr(keys, "columns")) and column in keys


def _codes(key: tuple[str, ...], *tables: pa.Table) -> tuple[KeyColumns, tuple[np.ndarray, ...]]:
    """A number for the key of each row, the same in all tables for the same key."""
    by = KeyColumns.of(tables[0].schema, key)
    plain = [
        pa.table(
            [as_plain(table[name], kind) for name, kind in zip(by.names, by.types, strict=True)],
            schema=by.schema,
        )
        for table in tables
    ]
    return by, tuple(by.ranks(*plain))


class ReassignedRows(NamedTuple):
    """Rows as they are after a reassignment.

    Attributes
    ----------
    rows : pyarrow.Table
        All columns that the catalog has from its source, by the nights that they were of.
    nights : tuple of RowsOfNight
    unchanged : int
        Rows that were chosen, and are of their object already: they are left out.
    """

    rows: pa.Table
    nights: tuple[RowsOfNight, ...]
    unchanged: int


def changed_rows(
    storage: Storage, metadata: CatalogMetadata, found: FoundRows, objects: NewObjects
) -> ReassignedRows:
    """Read rows of a version, and give them to their objects.

    Parameters
    ----------
    storage : Storage
        At the catalog's root.
    metadata : CatalogMetadata
        The version.
    found : FoundRows
    objects : NewObjects

    Raises
    ------
    VerificationError
        A leaf file is missing or damaged, or rows that records name are not there.
    """
    records, schema = metadata.key_records, source_schema(metadata)
    assert records is not None
    numbers = found.rows[ROW_COLUMN].combine_chunks()
    selection = select(metadata, [*schema.names, ROW_COLUMN], InArray(ROW_COLUMN, numbers))
    h29 = found.rows[HEALPIX_COLUMN].to_numpy()
    parts = read_parts(storage, metadata, selection, Intervals.union(h29, h29 + 1))
    rows = pa.concat_tables([selection.schema.empty_table(), *parts])
    if rows.num_rows != found.rows.num_rows:
        raise VerificationError(
            f"{found.rows.num_rows} rows were to be reassigned, and {rows.num_rows} of them are where their "
            "records say; nothing is changed. Run Catalog.verify()"
        )
    return ReassignedRows(*_given(rows, schema, objects, records.key, RecordOrder.of(metadata, ())))


def _given(
    rows: pa.Table, schema: pa.Schema, objects: NewObjects, key: tuple[str, ...], order: RecordOrder
) -> tuple[pa.Table, tuple[RowsOfNight, ...], int]:
    column = objects.for_rows(rows, key).cast(schema.field(objects.column).type)
    differs = pc.fill_null(pc.not_equal(*map(_comparable, (column, rows[objects.column]))), True)
    at = rows.schema.get_field_index(objects.column)
    changed = rows.set_column(at, schema.field(objects.column), column).filter(differs)
    numbers = changed[ROW_COLUMN].to_numpy()
    nights = order.nights(numbers)
    along = np.lexsort((numbers, nights))
    changed = in_order(changed.select(schema.names).combine_chunks(), along)
    found, first = np.unique(nights[along], return_index=True)
    told = zip(first.tolist(), found.tolist(), strict=True)
    return (
        changed.cast(schema),
        tuple(RowsOfNight(first=at, ordinal=ordinal) for at, ordinal in told),
        rows.num_rows - changed.num_rows,
    )


def _comparable(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column
