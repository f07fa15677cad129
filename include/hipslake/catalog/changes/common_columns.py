"""The columns of two versions of a catalog together: a version that lacks one has nulls there."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from hipslake.catalog.leaf_form import given_field
from hipslake.catalog.metadata import CatalogMetadata
from hipslake.catalog.schema import ROW_COLUMN, schema_text
from hipslake.catalog.selection import joined_schema
from hipslake.errors import SchemaMismatchError
from hipslake.sources.unification import join_fields


def common_names(old: CatalogMetadata, new: CatalogMetadata) -> list[str]:
    """The columns that either version has: those of the new one first; without `_row`."""
    names = dict.fromkeys([*joined_schema(new).names, *joined_schema(old).names])
    return [name for name in names if name != ROW_COLUMN]


def common_schema(old: CatalogMetadata, new: CatalogMetadata, names: Sequence[str]) -> pa.Schema:
    """Some columns of two versions, each of a type that holds the values of both.

    Parameters
    ----------
    old, new : CatalogMetadata
        What is said of a column (its unit, its description) is that of the new one, if it has it.
    names : sequence of str
        Columns that one of them has.

    Raises
    ------
    SchemaMismatchError
        No type holds the values of both versions.
    """
    before, after = joined_schema(old), joined_schema(new)
    fields = []
    for name in names:
        if name not in before.names or name not in after.names:
            lone = after.field(name) if name in after.names else before.field(name)
            fields.append(lone.with_nullable(True))
            continue
        joined = join_fields(after.field(name), before.field(name), "null")
        if joined is None:
            raise SchemaMismatchError(
                f"catalog {new.catalog}: column {name!r} is {before.field(name).type} in version "
                f"{old.version} and {after.field(name).type} in version {new.version}, which cannot be "
                "compared; name the other columns in 'columns'"
            )
        fields.append(joined)
    return pa.schema(fields)


def with_columns_of(metadata: CatalogMetadata, other: CatalogMetadata) -> CatalogMetadata:
    """A version as it is read beside another one: it has the other's columns too, which are null in its rows.

    Parameters
    ----------
    metadata, other : CatalogMetadata
        Of one catalog. A column comes into the column group of the same name, else into the primary one.
    """
    have = set(joined_schema(metadata).names)
    own = {group.name: group.to_arrow() for group in metadata.groups}
    added: dict[str, list[pa.Field]] = {}
    for group in other.groups:
        home = group.name if group.name in own else metadata.groups[0].name
        for field in map(given_field, group.to_arrow()):
            if field.name not in have:
                have.add(field.name)
                added.setdefault(home, []).append(field.with_nullable(True))
    groups = tuple(
        group.model_copy(
            update={"arrow_schema": schema_text(pa.schema([*own[group.name], *added[group.name]]))}
        )
        if group.name in added
        else group
        for group in metadata.groups
    )
    return metadata.model_copy(update={"groups": groups}) if added else metadata
