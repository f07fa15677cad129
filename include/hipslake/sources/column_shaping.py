"""Columns of files made into those of a source: taken or left, renamed, cast, and derived by expressions.

Pure: schemas and batches come in, and go out. `hipslake.sources.shaped_source` reads the files.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial

import pyarrow as pa

from hipslake.errors import SchemaMismatchError
from hipslake.predicates.derived_values import DerivedValue
from hipslake.predicates.domains import UnfitError
from hipslake.predicates.expression_text import parse_expression
from hipslake.predicates.expression_types import number_columns
from hipslake.predicates.type_names import arrow_type
from hipslake.sources.conforming import conform
from hipslake.sources.distinct_names import check_distinct
from hipslake.sources.names import RESERVED
from hipslake.specs.source_columns import SourceColumnsSpec

_KEY = "source.columns"


@dataclass(frozen=True)
class ColumnShaping:
    """What `source.columns` of a spec makes of the columns of files.

    Attributes
    ----------
    spec : SourceColumnsSpec
    where : str
        The source, for messages.
    """

    spec: SourceColumnsSpec
    where: str

    @cached_property
    def derived(self) -> dict[str, DerivedValue]:
        """The expressions by the names of their columns, in the order of the spec."""
        return {name: parse_expression(text) for name, text in self.spec.derive.items()}

    @property
    def fixed(self) -> set[str]:
        """The columns of the source whose types follow from the spec: derived and cast ones."""
        return {*self.derived, *self.spec.cast}

    def shaped(self, files: pa.Schema) -> pa.Schema:
        """The columns of the source, for those of its files.

        First the columns of the files that are taken, then the derived ones. Units and descriptions of the
        files' columns stay; a derived column has those of the column that it is, if it is nothing else.

        Raises
        ------
        SchemaMismatchError
            A column that the spec names is not in the files, a type cannot be cast to another, or an
            expression does not fit; the message says which, and where in it.
        ReservedColumnError
            Two columns have one name, or names that differ only by case.
        """
        self._check_named(files)
        seen = self._seen(files)
        kept = [seen[self.name_of(name)] for name in self._kept(files.names)]
        fields = list(kept)
        for name, expression in self.derived.items():
            if name in {field.name for field in kept}:
                raise SchemaMismatchError(
                    f"{_KEY}.derive.{name}: the files have a column {name!r} too, which would stand beside "
                    f"it; write {_KEY}: {{drop: [{self._named_in_files(name)}]}}, or give the derived one "
                    "another name"
                )
            fields.append(self._derived_field(name, expression, seen))
            seen[name] = fields[-1]
        check_distinct([field.name for field in fields], f"{_KEY} of {self.where}")
        return pa.schema(fields, files.metadata)

    def needed(self, wanted: Collection[str], files: Collection[str]) -> list[str]:
        """The columns of the files that some columns of the source are made of, in the files' order."""
        operands = self._operands(wanted)
        return [name for name in files if self.name_of(name) in operands]

    def numbers(self, wanted: Collection[str]) -> set[str]:
        """The columns of files that are numbers, whatever they look like: of those that expressions
        compute with, the ones that are not taken themselves, and all that some columns are made of.

        Parameters
        ----------
        wanted : collection of str
            Columns of the source that are numbers.
        """
        found = {self._named_in_files(name) for name in self._operands(wanted)}
        for expression in self.derived.values():
            computed = {self._named_in_files(name) for name in number_columns(expression.tree)}
            found |= computed - set(self._kept(computed))
        return found

    def apply(self, rows: pa.RecordBatch, wanted: pa.Schema, uri: str) -> pa.RecordBatch:
        """Rows of the source made of rows of a file.

        Parameters
        ----------
        rows : pyarrow.RecordBatch
            With the columns that are `needed`; others are null.
        wanted : pyarrow.Schema
            Columns of the source. Those that the files give nothing for are null.
        uri : str
            Of the file, for messages.

        Raises
        ------
        SchemaMismatchError
            A value does not fit the type that it is cast to, or that the source's columns have; or a result
            is none: a sum of integers beyond 64 bits, say.
        """
        values = {self.name_of(name): rows.column(name) for name in rows.schema.names}
        for name, text in self.spec.cast.items():
            if name in values:
                values[name] = _explained(uri, f"cast.{name}", partial(_cast, values[name], arrow_type(text)))
        there = set(values)
        for name, expression in self.derived.items():
            if not self._is_made(name, wanted.names):
                continue
            operands = {
                each: values.get(each, pa.nulls(rows.num_rows)) for each in sorted(expression.columns)
            }
            batch = _batch(operands, rows.num_rows)
            values[name] = _explained(uri, f"derive.{name}", partial(expression.values, batch))
            there.add(name)
        made = {name: values[name] for name in wanted.names if name in there}
        return conform(_batch(made, rows.num_rows), wanted, uri) if made else _nulls(wanted, rows.num_rows)

    def name_of(self, column: str) -> str:
        """The name of a column of the files, after `rename`."""
        return self.spec.rename.get(column, column)

    def lines(self, files: pa.Schema) -> list[str]:
        """What the spec makes of columns, for people."""
        shaped, spec = self.shaped(files), self.spec
        told = [
            f"column {name} ({shaped.field(name).type}) = {' '.join(expression.text.split())}"
            for name, expression in self.derived.items()
        ]
        renamed = [(old, new) for old, new in spec.rename.items() if new in shaped.names]
        told += [f"column {new} = column {old} of the files" for old, new in renamed]
        cast = [(name, text) for name, text in spec.cast.items() if name in shaped.names]
        told += [f"column {name} is cast to {text}" for name, text in cast]
        left = [name for name in files.names if name not in self._kept(files.names)]
        return told + ([f"columns left out: {', '.join(left)}"] if left else [])

    def _kept(self, files: Iterable[str]) -> list[str]:
        """The columns of the files that are taken, by their names there."""
        if self.spec.select is not None:
            return list(self.spec.select)
        return [name for name in files if name not in self.spec.drop]

    def _operands(self, wanted: Collection[str]) -> set[str]:
        """The columns of the files, by their names after `rename`, that some columns are made of."""
        needed = set(wanted)
        for name, expression in reversed(self.derived.items()):
            if name in needed:
                needed = (needed - {name}) | expression.columns
        return needed

    def _is_made(self, name: str, wanted: Collection[str]) -> bool:
        """Whether a derived column is wanted, or needed for one that is."""
        needed = set(wanted)
        for later, expression in reversed(self.derived.items()):
            if later == name:
                return name in needed
            if later in needed:
                needed |= expression.columns
        return False

    def _named_in_files(self, name: str) -> str:
        return next((old for old, new in self.spec.rename.items() if new == name), name)

    def _check_named(self, files: pa.Schema) -> None:
        """Hold the names of the spec against those of the files; what catalogs keep may be dropped anyway."""
        drop = [name for name in self.spec.drop if name not in RESERVED]
        for key, names in (("select", self.spec.select or ()), ("drop", drop), ("rename", self.spec.rename)):
            _require(key, names, files.names)
        _require("cast", self.spec.cast, [self.name_of(name) for name in files.names])

    def _seen(self, files: pa.Schema) -> dict[str, pa.Field]:
        """The columns of the files by their names and with their types after `rename` and `cast`."""
        fields = [field.with_name(self.name_of(field.name)) for field in files]
        renamed = {new for old, new in self.spec.rename.items() if old != new}
        for field in fields:
            if field.name in renamed and field.name in files.names and self.name_of(field.name) == field.name:
                raise SchemaMismatchError(
                    f"{_KEY}.rename: the files have a column {field.name!r} already; rename that one too"
                )
        seen = {field.name: field for field in fields}
        for name, text in self.spec.cast.items():
            field, kind = seen[name], arrow_type(text)
            try:
                _cast(pa.nulls(0, field.type), kind)
            except pa.ArrowException:
                raise SchemaMismatchError(
                    f"{_KEY}.cast.{name}: values of type {field.type} cannot be cast to {kind}"
                ) from None
            seen[name] = field.with_type(kind)
        return seen

    def _derived_field(self, name: str, expression: DerivedValue, seen: Mapping[str, pa.Field]) -> pa.Field:
        try:
            kind = expression.kind(pa.schema(list(seen.values())))
        except UnfitError as error:
            raise SchemaMismatchError(f"{_KEY}.derive.{name}, {error}") from None
        same = seen[expression.column].metadata if expression.column is not None else None
        return pa.field(name, kind, metadata=same)


def _explained(uri: str, key: str, compute: Callable[[], pa.Array]) -> pa.Array:
    try:
        return compute()
    except UnfitError as error:
        raise SchemaMismatchError(f"{uri}: {_KEY}.{key}, {error}") from None
    except pa.ArrowException as error:
        said = str(error).partition("\n")[0]
        raise SchemaMismatchError(
            f"{uri}: {_KEY}.{key}: {said}; choose a type that holds all values"
        ) from None


def _cast(column: pa.Array, kind: pa.DataType) -> pa.Array:
    if pa.types.is_dictionary(column.type) and column.type != kind:
        column = column.dictionary_decode()
    if pa.types.is_float16(column.type) and column.type != kind:
        column = column.cast(pa.float32())
    return column.cast(kind)


def _require(key: str, names: Iterable[str], there: list[str]) -> None:
    for name in names:
        if name not in there:
            near = difflib.get_close_matches(name, there, n=3)
            mend = (
                f"did you mean {' or '.join(map(repr, near))}?" if near else f"there are {', '.join(there)}"
            )
            raise SchemaMismatchError(f"{_KEY}.{key}: the files have no column {name!r}; {mend}")


def _batch(columns: Mapping[str, pa.Array], rows: int) -> pa.RecordBatch:
    """Columns as a batch, which has its rows also without any."""
    if columns:
        return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
    return _nulls(pa.schema([("", pa.null())]), rows)


def _nulls(schema: pa.Schema, rows: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.nulls(rows, field.type) for field in schema], schema=schema)
