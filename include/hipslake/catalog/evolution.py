"""Whether an increment fits to the catalog that it is added to, and what its schema becomes."""

from __future__ import annotations

import pyarrow as pa

from hipslake.catalog.metadata import CatalogMetadata
from hipslake.catalog.published_spec import published_spec
from hipslake.catalog.schema import ROW_COLUMN, check_columns, keyed_columns, position_group
from hipslake.catalog.selection import joined_schema
from hipslake.catalog.validity import validity_of
from hipslake.errors import SchemaMismatchError, SpecError
from hipslake.sources.distinct_names import check_distinct
from hipslake.sources.unification import check_unit, join_fields
from hipslake.specs.catalog_spec import CatalogSpec, Layout, PositionFromSpec
from hipslake.specs.margin_spec import distances_text
from hipslake.specs.upsert_spec import Validity
from hipslake.sphere.pixels import HEALPIX_COLUMN

_WAY_OUT = "undo the change, or ingest into a catalog of another name"


def evolved_schema(metadata: CatalogMetadata, spec: CatalogSpec, schema: pa.Schema) -> pa.Schema:
    """The source schema of a catalog after an increment.

    The catalog's columns keep their types and units. Columns that the increment brings come last and are null
    in the rows before; columns that it lacks are null in its own rows.

    Parameters
    ----------
    metadata : CatalogMetadata
        The version that is added to.
    spec : CatalogSpec
        Of the run.
    schema : pyarrow.Schema
        Of the increment's files.

    Raises
    ------
    SpecError
        If the spec was changed in a way that the files of the catalog do not follow.
    SchemaMismatchError
        If a column has another type or unit than in the catalog, or is missing where it may not be.
    ReservedColumnError
        If the name of a new column differs from another only by case.
    """
    _check_spec(metadata, spec)
    standing = source_schema(metadata)
    fields = []
    for field in standing:
        if field.name in schema.names:
            fields.append(_kept(field, schema.field(field.name), spec))
        elif spec.source.missing_columns == "null":
            fields.append(field.with_nullable(True))
        else:
            raise SchemaMismatchError(
                f"catalog {spec.name} has a column {field.name!r}, and the files of this run have not; write "
                "'missing_columns: null' into the spec's source to fill it with nulls"
            )
    fresh = [field for field in typed_columns(spec, schema) if field.name not in standing.names]
    fields += [field.with_nullable(True) for field in fresh]
    evolved = pa.schema(fields, schema.metadata)
    check_distinct(evolved.names, f"catalog {spec.name} with the files of this run")
    _check_groups(metadata, spec, evolved)
    return evolved


def as_it_stands(metadata: CatalogMetadata, spec: CatalogSpec) -> CatalogSpec:
    """The spec of an append to a version whose groups may repeat the source's positions.

    Groups did so once, also where ICRS degrees were added; their files, those of later nights too, still do.

    Parameters
    ----------
    metadata : CatalogMetadata
        The version that is added to.
    spec : CatalogSpec
        Of the run.
    """
    if metadata.layout is not Layout.HATS or metadata.position.icrs_ra == metadata.position.ra:
        return spec
    position = {spec.position.ra, spec.position.dec}
    standing = {group.name for group in metadata.groups if position <= set(group.to_arrow().names)}
    repeating = standing - {position_group(spec)}
    groups = tuple(
        group.model_copy(update={"repeats_position": True}) if group.name in repeating else group
        for group in spec.column_groups
    )
    return spec.model_copy(update={"column_groups": groups})


def _kept(standing: pa.Field, given: pa.Field, spec: CatalogSpec) -> pa.Field:
    joined = join_fields(standing, given)
    if joined is None or not joined.type.equals(standing.type):
        found = spec.source.format == "csv"  # the types of its columns are found from a night's values alone
        raise SchemaMismatchError(
            f"column {standing.name!r} is {standing.type} in catalog {spec.name}, which cannot hold the "
            f"{given.type} of this run's files; store it in the catalog's type"
            + (f", or write source.options.types: {{{standing.name}: {standing.type}}}" if found else "")
        )
    check_unit(standing, f"catalog {spec.name}", given, "the files of this run")
    return joined


def typed_columns(spec: CatalogSpec, schema: pa.Schema) -> pa.Schema:
    """A source schema without the columns that hold nothing but nulls and say of no type.

    Such a column says nothing, but its type would be that of the catalog from then on, and could hold nothing
    else. Left out, it comes with the first night that has values in it. Columns that the spec names stay.
    """
    groups = [group.columns for group in spec.column_groups if group.columns != "*"]
    named = {name for columns in (*groups, *keyed_columns(spec).values()) for name in columns}
    return pa.schema(
        [field for field in schema if not pa.types.is_null(field.type) or field.name in named],
        schema.metadata,
    )


def _check_spec(metadata: CatalogMetadata, spec: CatalogSpec) -> None:
    """Hold the spec against what cannot change under files that stay."""
    position = metadata.position.model_dump(exclude={"icrs_ra", "icrs_dec", "placed_by"})
    records = metadata.key_records
    own_marks = [mark.column for mark in metadata.co_partitioned if mark.objects is None]
    pairs = {
        "layout": (metadata.layout, spec.layout),
        "append: add_file": (metadata.gathers, spec.gathers),
        "position": (position, spec.position.model_dump()),
        "column_groups": ([group.name for group in metadata.groups], [g.name for g in spec.column_groups]),
        "key": (list(records.key) if records is not None else [], list(spec.key)),
        "order_by": (records.order_by if records is not None else None, spec.order_by),
        "validity": (_interval(validity_of(metadata)), _interval(spec.validity)),
        "co_partitioned": (own_marks, list(spec.co_partitioned)),
        "position_from": (
            _placing(published_spec(metadata).position_from),
            _placing(spec.position_from),
        ),
    }
    for key, (standing, given) in pairs.items():
        if standing != given:
            raise SpecError(
                f"{spec.name}: {key} is {given}, but version {metadata.version} was made with {standing}; "
                f"{_WAY_OUT}"
            )
    if lacking := [each for each in spec.margin.arcsec if metadata.margin(each) is None]:
        raise SpecError(
            f"{spec.name}: the spec asks for a margin of {distances_text(lacking)}, but version "
            f"{metadata.version} has none, and an append only follows those that there are; build it with "
            f"catalog_margin__{spec.name} (or Catalog.build_margin), then append"
        )
    for group in metadata.groups:
        threshold = spec.threshold_of(group.name)
        if threshold.unit is not group.threshold.unit or threshold.value < group.threshold.value:
            raise SpecError(
                f"{spec.name}: the threshold of column group {group.name!r} is {threshold}, but version "
                f"{metadata.version} has leaves of up to {group.threshold}, which an append does not split; "
                f"{_WAY_OUT}"
            )


def _placing(given: PositionFromSpec | None) -> str:
    """The `position_from` of a spec as text, without its rule for rows that have no object."""
    return "nothing" if given is None else f"{given.column} = {given.catalog}.{given.key}"


def _interval(given: Validity | None) -> str:
    """The `validity` of a spec as text."""
    return "nothing" if given is None else f"from {given.begin}, to {given.end}"


def source_schema(metadata: CatalogMetadata) -> pa.Schema:
    """The columns that a catalog has from its source, as its leaves hold them."""
    position = metadata.position
    added: set[str | None] = {HEALPIX_COLUMN, ROW_COLUMN}
    if position.icrs_ra != position.ra:
        added |= {position.icrs_ra, position.icrs_dec}
    validity = validity_of(metadata)
    added |= set(validity.columns) if validity is not None else set()
    return pa.schema([field for field in joined_schema(metadata) if field.name not in added])


def _check_groups(metadata: CatalogMetadata, spec: CatalogSpec, evolved: pa.Schema) -> None:
    known = set(joined_schema(metadata).names)
    for name, schema in check_columns(spec, evolved).items():
        standing = metadata.group(name).to_arrow().names
        lost = [column for column in standing if column not in schema.names]
        moved = [column for column in schema.names if column not in standing and column in known]
        wrong = [f"lose {', '.join(lost)}"] if lost else []
        wrong += [f"take {', '.join(moved)} from another group"] if moved else []
        if wrong:
            raise SpecError(
                f"{spec.name}: column group {name!r} would {' and '.join(wrong)}, but the leaves of version "
                f"{metadata.version} are as they are; {_WAY_OUT}"
            )
