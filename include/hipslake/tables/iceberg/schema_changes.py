"""What a table's columns lack before some rows fit: columns and parts of nested ones, and wider types."""

from __future__ import annotations

from typing import NamedTuple

import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.types import (
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StructType,
)

from hipslake.errors import SchemaMismatchError
from hipslake.joins.nested_forms import are_two_forms
from hipslake.tables.fitting import holds_type
from hipslake.tables.iceberg.schemas import arrow_schema, check_addable, iceberg_schema

Path = tuple[str, ...]


class SchemaChanges(NamedTuple):
    """Columns that a table gets.

    Attributes
    ----------
    added : tuple of (Path, IcebergType)
        Columns, and parts of nested ones; all may hold nulls.
    widened : tuple of (Path, IcebergType, IcebergType)
        From which type, to which.
    """

    added: tuple[tuple[Path, IcebergType], ...] = ()
    widened: tuple[tuple[Path, IcebergType, IcebergType], ...] = ()


def schema_changes(table: str, standing: Schema, stored: pa.Schema) -> SchemaChanges:
    """What a table lacks before rows fit.

    Parameters
    ----------
    table : str
        Its name, for messages.
    standing : Schema
        Of the table.
    stored : pyarrow.Schema
        The columns of the rows, as a table keeps them.

    Raises
    ------
    SchemaMismatchError
        A column has a type that no change of the table can hold beside its own; a name is taken; or the table
        requires a column, or a part of one, that the rows lack.
    """
    kinds = {field.name: field.type for field in arrow_schema(standing)}
    old = {field.name: field for field in standing.fields}
    new = {field.name: field for field in iceberg_schema(stored).fields}
    look = _Comparison(table, [], [])
    for field in stored:
        if field.name not in kinds:
            check_addable(table, field.name, standing)
            look.added.append(((field.name,), new[field.name].field_type))
        elif holds_type(kinds[field.name], field.type):
            continue
        elif are_two_forms(kinds[field.name], field.type):
            raise _unlike(table, (field.name,), kinds[field.name], field.type)
        else:
            look.compare((field.name,), old[field.name].field_type, new[field.name].field_type)
    given = set(stored.names)
    required = sorted(f.name for f in standing.fields if f.required and f.name not in given)
    if required:
        raise SchemaMismatchError(
            f"table {table} requires column {', '.join(required)}, which the source lacks; add it to "
            "the source"
        )
    return SchemaChanges(tuple(look.added), tuple(look.widened))


class _Comparison:
    """Compares types of a table with those of rows, and notes what the table lacks."""

    def __init__(
        self,
        table: str,
        added: list[tuple[Path, IcebergType]],
        widened: list[tuple[Path, IcebergType, IcebergType]],
    ) -> None:
        self.table, self.added, self.widened = table, added, widened

    def compare(self, path: Path, old: IcebergType, new: IcebergType) -> None:
        if old == new or widens(new, old):
            return
        if isinstance(old, StructType) and isinstance(new, StructType):
            self._parts(path, old.fields, new.fields)
        elif isinstance(old, ListType) and isinstance(new, ListType):
            self.compare((*path, "element"), old.element_type, new.element_type)
        elif isinstance(old, MapType) and isinstance(new, MapType):
            if not (old.key_type == new.key_type or widens(new.key_type, old.key_type)):
                raise _unlike(self.table, (*path, "key"), old.key_type, new.key_type)
            self.compare((*path, "value"), old.value_type, new.value_type)
        elif widens(old, new):
            self.widened.append((path, old, new))
        else:
            raise _unlike(self.table, path, old, new)

    def _parts(self, path: Path, old: tuple[NestedField, ...], new: tuple[NestedField, ...]) -> None:
        standing, given = {field.name: field for field in old}, {field.name for field in new}
        if lacking := sorted(field.name for field in old if field.required and field.name not in given):
            raise SchemaMismatchError(
                f"table {self.table} requires part {', '.join(lacking)} of column {'.'.join(path)}, which "
                "the source lacks; add it to the source"
            )
        for field in new:
            if field.name in standing:
                self.compare((*path, field.name), standing[field.name].field_type, field.field_type)
                continue
            if alike := [name for name in standing if name.casefold() == field.name.casefold()]:
                raise SchemaMismatchError(
                    f"table {self.table}: part {'.'.join((*path, field.name))} differs by case only from "
                    f"{alike[0]!r} of the table, and many engines could not tell them apart; rename one"
                )
            self.added.append(((*path, field.name), field.field_type))


def widens(old: IcebergType, new: IcebergType) -> bool:
    """Whether a type may be widened into another one, as Iceberg promotes types."""
    if isinstance(old, DecimalType) and isinstance(new, DecimalType):
        return old.scale == new.scale and old.precision < new.precision
    return (isinstance(old, IntegerType) and isinstance(new, LongType)) or (
        isinstance(old, FloatType) and isinstance(new, DoubleType)
    )


def arrow_type(kind: IcebergType) -> pa.DataType:
    """The Arrow type of a type of a table; messages name types of both sides alike."""
    return arrow_schema(Schema(NestedField(1, "", kind, required=False))).field(0).type


def _unlike(
    table: str, path: Path, old: IcebergType | pa.DataType, new: IcebergType | pa.DataType
) -> SchemaMismatchError:
    there, here = (each if isinstance(each, pa.DataType) else arrow_type(each) for each in (old, new))
    return SchemaMismatchError(
        f"table {table}: column {'.'.join(path)!r} is of type {there} there and {here} in the source; the "
        "table's is another type, which cannot be widened into it. Change the source, or leave it out"
    )
