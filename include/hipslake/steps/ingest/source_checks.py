"""Whether the files of a run have the columns that its spec names, before any row of them is counted.

Headers and beginnings of files tell most of it in a second. What only all rows can tell, the histogram step
finds: nothing is refused here that it would take.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import get_args

import pyarrow as pa

from hipslake.catalog.claimed_pixels import check_claims
from hipslake.catalog.evolution import evolved_schema
from hipslake.catalog.metadata import CatalogMetadata
from hipslake.catalog.schema import as_described, check_columns, field_text, keyed_columns
from hipslake.errors import EmptySourceError, ReservedColumnError, SchemaMismatchError
from hipslake.sources import Source
from hipslake.sources.csv.inference import TYPES, chosen, held_types
from hipslake.sources.names import check_names
from hipslake.sources.source_file import SourceFile
from hipslake.specs.catalog_spec import CatalogSpec
from hipslake.specs.column_description import ColumnDescription
from hipslake.sphere.position_units import PositionUnit
from hipslake.steps.ingest.newest_rows import check_newest
from hipslake.steps.ingest.night_records import check_records
from hipslake.steps.listed_files import MOST_FILES, spread

_ANGLES = {
    **dict.fromkeys(("deg", "degree", "degrees", "°"), "deg"),
    **dict.fromkeys(("rad", "radian", "radians"), "rad"),
    **dict.fromkeys(("hourangle", "hour", "hours", "hr", "h"), "hour"),
    **dict.fromkeys(("arcmin", "arcminute", "arcminutes"), "arcminutes"),
    **dict.fromkeys(("arcsec", "arcsecond", "arcseconds", "mas", "uas", "marcsec", "uarcsec"), "arcseconds"),
}
"""Units of angles as files write them, and what each is of."""

_NUMBERS = ("float64", "int64", "uint64", "padded")


def check_source(
    source: Source,
    files: Sequence[SourceFile],
    spec: CatalogSpec,
    standing: CatalogMetadata | None = None,
    felis: Mapping[str, ColumnDescription] | None = None,
) -> None:
    """Hold the columns of files against what a spec says of them, and against the catalog that they add to.

    Of many files some are looked at, and all of them only where something seems to be wrong.

    Parameters
    ----------
    source : Source
        Of the spec, with the interval of the run.
    files : sequence of SourceFile
    spec : CatalogSpec
    standing : CatalogMetadata, optional
        The version that the run adds its rows to.
    felis : mapping of str to ColumnDescription, optional
        What the Felis schema of the spec says of columns.

    Raises
    ------
    SchemaMismatchError, ReservedColumnError
        If a column that the spec names (position, `co_partitioned`, `index`, `position_from`, `newest`,
        `columns`, column groups) is missing or of no type for that, a position is of another unit than the
        spec says, the files do not fit together or to the catalog, pixels are to be verified that the files
        do not have, or a column has a name that catalogs keep for themselves.
    SpecError
        If the spec was changed in a way that the files of the catalog do not follow.
    CorruptFileError
        If a file is damaged where its columns are described.
    """
    is_new = standing is None
    if not source.tells_types:
        standing = None  # which types columns have is known once all rows are read
    some, position = spread(files, MOST_FILES), (spec.position.ra, spec.position.dec)
    try:
        _check(source.peek(some, position), spec, standing, felis, is_new=is_new)
    except EmptySourceError:
        return  # whether that is an error depends on what the run is for: the histogram step knows
    except (SchemaMismatchError, ReservedColumnError):
        if len(some) < len(files):
            _check(
                source.peek(files, position), spec, standing, felis, is_new=is_new
            )  # the others may have what these lack
        elif standing is None or source.splits(files):  # without rows, nothing is added to a catalog
            raise


def _check(
    peeked: pa.Schema,
    spec: CatalogSpec,
    standing: CatalogMetadata | None,
    felis: Mapping[str, ColumnDescription] | None,
    *,
    is_new: bool,
) -> None:
    schema = as_described(spec, as_it_may_be(peeked, spec), felis)
    check_claims(spec, schema)
    check_names(schema, spec)
    check_columns(spec, schema)
    check_newest(spec, schema)
    check_records(spec, schema)
    if is_new:  # rows of earlier nights stand where the spec's unit places them
        check_units(spec, schema)
    if standing is not None and standing.total_rows:
        evolved_schema(standing, spec, schema)


def check_units(spec: CatalogSpec, schema: pa.Schema) -> None:
    """Hold the units that position columns have against the one that a spec says; unknown ones pass.

    Parameters
    ----------
    spec : CatalogSpec
    schema : pyarrow.Schema
        Of the source, with what the spec says of its columns.

    Raises
    ------
    SchemaMismatchError
        A column is of another unit: its rows would lie elsewhere.
    """
    for key, name in (("ra", spec.position.ra), ("dec", spec.position.dec)):
        told = field_text(schema.field(name), "unit") or ""
        unit = _ANGLES.get(told.strip().casefold())
        asked = "deg" if key == "dec" and spec.position.unit == "hour" else spec.position.unit
        if unit is None or unit == asked:
            continue
        units = ("deg", "rad") if key == "dec" else get_args(PositionUnit)
        mend = f"write position: {{unit: {unit}}}" if unit in units else "give it in degrees"
        raise SchemaMismatchError(
            f"position.{key} of {spec.name}: column {name!r} says that its unit is {told!r}, and "
            f"position.unit is {asked}; {mend}. If the column is wrong, say so: "
            f"columns: {{{name}: {{unit: {asked}}}}}"
        )


def as_it_may_be(peeked: pa.Schema, spec: CatalogSpec) -> pa.Schema:
    """Return a schema whose columns have, of the types that they may come to have, those that the spec needs.

    Parameters
    ----------
    peeked : pyarrow.Schema
        Of `Source.peek`.
    spec : CatalogSpec
    """
    keys = {column for columns in keyed_columns(spec).values() for column in columns}
    if spec.newest is not None:
        keys |= {*spec.newest.key, spec.newest.order}
    keys |= set(spec.key)
    wanted = dict.fromkeys(keys, ("string",)) | dict.fromkeys((spec.position.ra, spec.position.dec), _NUMBERS)
    fields = []
    for field in peeked:
        held = held_types(field)
        kind = field.type
        if held is not None:
            fitting = next((name for name in wanted.get(field.name, ()) if name in held), None)
            kind = TYPES[fitting] if fitting else chosen(held)
        fields.append(pa.field(field.name, kind) if held is not None else field)
    return pa.schema(fields, peeked.metadata)
