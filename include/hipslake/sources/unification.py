"""One schema for many files: which columns there are, and what type holds each in all of them.

Units, texts in the field metadata, are compared by what they mean.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal, NamedTuple

import pyarrow as pa

from hipslake.errors import EmptySourceError, SchemaMismatchError
from hipslake.sources.distinct_names import check_distinct
from hipslake.sources.widening import widen, with_joint_dictionaries, without_views

_KEY = b"unit"
_SPELLINGS = ("generic", "fits", "cds")
Join = Callable[[pa.Field, pa.Field], "pa.Field | None"]


def check_unit(a: pa.Field, a_where: str, b: pa.Field, b_where: str) -> None:
    """Compare the units of a column in two files.

    Units that differ only in how they are written, such as `km/s` and `km s-1`, are the same. Nothing is said
    of units that astropy does not know, and of columns without one.

    Parameters
    ----------
    a, b
        The column in each place; its unit is in the field's metadata.
    a_where, b_where
        The places, for the message: say, the URIs of two files.

    Raises
    ------
    SchemaMismatchError
        When they mean different things: rows of both would stand side by side as if they did not.
    """
    mine, other = ((field.metadata or {}).get(_KEY, b"").decode("utf-8", "replace") for field in (a, b))
    if mine == other or not mine or not other:
        return
    known, found = _meaning(mine), _meaning(other)
    if known is not None and found is not None and known != found:
        raise SchemaMismatchError(
            f"column {a.name!r} has unit {other!r} in {b_where} but {mine!r} in {a_where}; convert the "
            "values of one, or correct its unit"
        )


def _meaning(text: str) -> Any:
    """Parse a unit; None if it is dimensionless or unknown to astropy."""
    from astropy.units import Unit, UnrecognizedUnit, dimensionless_unscaled

    units = (Unit(text, format=spelling, parse_strict="silent") for spelling in _SPELLINGS)
    known = next((unit for unit in units if not isinstance(unit, UnrecognizedUnit)), None)
    return None if known == dimensionless_unscaled else known


def described_field(name: str, kind: pa.DataType, unit: str, description: str, ucd: str = "") -> pa.Field:
    """Return a field with its unit, its description and its UCD, each where it is not empty."""
    metadata = {"unit": unit, "description": description, "ucd": ucd}
    return pa.field(name, kind, metadata={key: text for key, text in metadata.items() if text} or None)


class _Column(NamedTuple):
    field: pa.Field
    uri: str  # the file that gave the column its type


def join_fields(
    a: pa.Field, b: pa.Field, missing_fields: Literal["error", "null"] = "error"
) -> pa.Field | None:
    """Return the field that holds both, with the first one's metadata; None where there is none.

    `missing_fields` is whether a field that one of two structs lacks is an error, or null there.
    """
    kind = widen(a.type, b.type, missing_fields=missing_fields)
    if kind is None:
        return None
    return pa.field(a.name, kind, nullable=a.nullable or b.nullable, metadata=a.metadata or b.metadata)


def unify(
    found: Sequence[tuple[str, pa.Schema]],
    missing_columns: Literal["error", "null"],
    *,
    source: str,
    join: Join | None = None,
) -> pa.Schema:
    """Return the schema of all files together: the first file's columns, then those that later files add.

    Parameters
    ----------
    found
        URI and schema of every file that has one.
    missing_columns
        Whether a column, or a field of a struct, that some files lack is an error, or null there.
    source
        The source's URI, for messages.
    join
        Gives the field that holds two fields of one name, or None; `join_fields` by default.

    Raises
    ------
    SchemaMismatchError
        Naming file and column, when columns are missing, types do not widen to a common one, or units differ.
    EmptySourceError
        When no file has a schema.
    """
    join = join or partial(join_fields, missing_fields=missing_columns)
    # Surveys have thousands of files with one schema, so look at every different one once.
    different: dict[bytes, tuple[str, pa.Schema]] = {}
    for uri, schema in found:
        if len(schema):
            different.setdefault(schema.remove_metadata().serialize().to_pybytes(), (uri, schema))
    if not different:
        raise EmptySourceError(f"every file of {source} is empty; put files with rows there")
    first = next(iter(different.values()))[0]
    columns: dict[str, _Column] = {}
    lacking: dict[str, str] = {}
    for number, (uri, schema) in enumerate(different.values()):
        check_distinct(schema.names, uri)
        for name in columns.keys() - set(schema.names):
            lacking.setdefault(name, uri)
        for field in schema:
            if field.name not in columns and number > 0:
                lacking.setdefault(field.name, first)
            columns[field.name] = _joined(columns.get(field.name), field, uri, join)
    if lacking and missing_columns == "error":
        raise SchemaMismatchError(_lacking_message(lacking, columns))
    fields = [
        column.field.with_nullable(True) if name in lacking else column.field
        for name, column in columns.items()
    ]
    return pa.schema(
        [field.with_type(with_joint_dictionaries(without_views(field.type))) for field in fields]
    )


def _joined(column: _Column | None, field: pa.Field, uri: str, join: Join) -> _Column:
    if column is None:
        return _Column(field, uri)
    joined = join(column.field, field)
    if joined is None:
        raise SchemaMismatchError(
            f"column {field.name!r} is {field.type} in {uri} but {column.field.type} in {column.uri}, "
            f"and no type holds both; {_mend(column.field.type, field.type)}"
        )
    check_unit(column.field, column.uri, field, uri)
    return _Column(joined, column.uri if joined.type.equals(column.field.type) else uri)


def _mend(one: pa.DataType, other: pa.DataType) -> str:
    if pa.types.is_struct(one) and pa.types.is_struct(other):
        return "rewrite one of the files, or set source.missing_columns: null to have nulls in missing fields"
    if pa.types.is_timestamp(one) and pa.types.is_timestamp(other):
        return "write all times with one zone, or all without"
    return "rewrite one of the files"


def _lacking_message(lacking: dict[str, str], columns: dict[str, _Column]) -> str:
    names = sorted(lacking)
    shown = "; ".join(
        f"{lacking[name]} has no column {name!r}, which {columns[name].uri} has" for name in names[:5]
    )
    more = f"; and {len(names) - 5} more" if len(names) > 5 else ""
    return f"{shown}{more}; add the column, or set source.missing_columns: null to fill it with nulls"
