"""The schema of a column group: which of the source's columns it stores, and what the catalog adds."""

from __future__ import annotations

import base64
import difflib
from collections.abc import Iterable, Mapping
from itertools import chain

import pyarrow as pa

from hipslake.catalog.validity import validity_fields
from hipslake.errors import CatalogFormatError, FilterError, ReservedColumnError, SchemaMismatchError
from hipslake.joins.key_codes import key_kind
from hipslake.predicates.filter_text import parse_filter
from hipslake.specs.catalog_spec import CatalogSpec, Layout
from hipslake.specs.column_description import ColumnDescription
from hipslake.specs.hips_spec import HipsSpec
from hipslake.specs.source_columns import PIXEL_COLUMNS
from hipslake.sphere.angle_columns import is_text
from hipslake.sphere.pixels import HEALPIX_COLUMN

ROW_COLUMN = "_row"
HEALPIX_FIELD, ROW_FIELD = pa.field(HEALPIX_COLUMN, pa.int64()), pa.field(ROW_COLUMN, pa.int64())
ROW_IDENTITY = (HEALPIX_COLUMN, ROW_COLUMN)
"""What identifies a row, and what the rows of every leaf file are sorted by; `_row` where it is stored."""
ICRS_COLUMNS = ("ra_icrs", "dec_icrs")
OBJECT_COLUMNS = ("ra_object", "dec_object")


def stores_rows(spec: CatalogSpec) -> bool:
    """Whether `_row` is stored: it joins the rows of column groups, and says which increment a row is of."""
    return len(spec.column_groups) > 1 or spec.mode.by_intervals


def adds_icrs(spec: CatalogSpec, source_schema: pa.Schema) -> bool:
    """Whether the catalog adds `ra_icrs` and `dec_icrs`, float64 degrees.

    HATS readers take positions as ICRS degrees in a numeric column, so layout `hats` adds them where the
    source has radians, hours, another frame, decimals, or texts. The schema may also be that of a column
    group: one that lacks the position columns of the source has those that were added.
    """
    position = spec.position
    if spec.layout is not Layout.HATS:
        return False
    if position.needs_icrs:
        return True
    return any(
        source_schema.get_field_index(name) < 0 or not _is_plain_number(source_schema.field(name).type)
        for name in (position.ra, position.dec)
    )


def _is_plain_number(kind: pa.DataType) -> bool:
    """Whether HATS readers take a column of a type for degrees: decimals and texts they do not."""
    return not (pa.types.is_decimal(kind) or is_text(kind))


def added_positions(spec: CatalogSpec, source_schema: pa.Schema) -> tuple[str, str] | None:
    """Names of the position columns that the catalog adds, float64 ICRS degrees, if it adds any.

    Rows that lie where their objects do have `ra_object` and `dec_object`, the center of the object's
    order-29 pixel (within a milliarcsecond of the object), in every layout: who looks for rows by their place
    on the sky must look where they are filed.
    """
    if spec.position_from is not None:
        return OBJECT_COLUMNS
    return ICRS_COLUMNS if adds_icrs(spec, source_schema) else None


def hats_position(spec: CatalogSpec, source_schema: pa.Schema) -> tuple[str, str] | None:
    """Names of the columns that hold ICRS degrees, or None where no such columns are stored."""
    added = added_positions(spec, source_schema)
    if added is not None:
        return added
    return None if spec.position.needs_icrs else (spec.position.ra, spec.position.dec)


def group_columns(spec: CatalogSpec, source_schema: pa.Schema, group: str) -> list[str]:
    """Names of the source's columns that a group stores, in source order.

    Parameters
    ----------
    spec : CatalogSpec
    source_schema : pyarrow.Schema
        The unified schema of the source files.
    group : str
        Name of a column group. A group of `"*"` takes what no other group names. With layout `hats` every
        group repeats the position columns, since each group is opened as a catalog of its own. Where the
        catalog adds positions, every group has those, and one has the source's: who joins two groups would
        have two positions beside two. The column of operations is in none.

    Raises
    ------
    SchemaMismatchError
        A column that the group names is not in the source; the message lists the nearest names.
    """
    _require(
        (spec.position.ra, spec.position.dec), source_schema, f"spec {spec.name!r}, position of the source"
    )
    given = spec.group(group)
    columns = given.columns
    if columns == "*":
        elsewhere = {name for other in spec.column_groups if other.columns != "*" for name in other.columns}
        chosen = {name for name in source_schema.names if name not in elsewhere}
    else:
        _require(columns, source_schema, f"spec {spec.name!r}, column group {group!r}")
        chosen = set(columns)
    if spec.layout is Layout.HATS:
        position = {spec.position.ra, spec.position.dec}
        repeated = given.repeats_position or added_positions(spec, source_schema) is None
        if repeated or group == position_group(spec):
            chosen |= position
        elif columns == "*":
            chosen -= position
    if spec.operation is not None:
        chosen.discard(spec.operation.column)
    return [name for name in source_schema.names if name in chosen]


def position_group(spec: CatalogSpec) -> str:
    """The group that has the source's position columns if one alone has: it names both, or is the first."""
    position, groups = {spec.position.ra, spec.position.dec}, spec.column_groups
    naming = (group.name for group in groups if group.columns != "*" and position <= set(group.columns))
    return next(naming, groups[0].name)


def group_schema(spec: CatalogSpec, source_schema: pa.Schema, group: str) -> pa.Schema:
    """The schema of a group's leaf files.

    `_healpix_29` first, the group's columns in source order, then the positions that the catalog adds and the
    columns of `validity`, and `_row` last where it is stored. Field metadata (unit, description) is carried
    on; metadata of the source's schema as a whole (say, of pandas) is dropped, as it describes other files.

    Raises
    ------
    SchemaMismatchError
        A column that the spec names is not in the source.
    ReservedColumnError
        The source already has a column that the catalog adds.
    """
    body = [source_schema.field(name) for name in group_columns(spec, source_schema, group)]
    added = [HEALPIX_FIELD]
    tail = []
    if (positions := added_positions(spec, source_schema)) is not None:
        tail += [_icrs_field(name, axis) for name, axis in zip(positions, _AXES, strict=True)]
    if spec.validity is not None:
        if spec.order_by is not None:
            _require((spec.order_by,), source_schema, f"spec {spec.name!r}, order_by")
        _check_validity_names(spec, [field.name for field in tail])
        tail += validity_fields(spec, source_schema)
    if stores_rows(spec):
        tail.append(ROW_FIELD)
    _refuse_taken([field.name for field in added + tail], source_schema, spec)
    return pa.schema(added + body + tail)


def as_described(
    spec: CatalogSpec, source_schema: pa.Schema, felis: Mapping[str, ColumnDescription] | None = None
) -> pa.Schema:
    """The schema of the source with what is said of its columns: unit, description, UCD.

    What the spec does not say of a column is as its Felis schema has it, and else as the files do.

    Parameters
    ----------
    spec : CatalogSpec
    source_schema : pyarrow.Schema
    felis : mapping of str to ColumnDescription, optional
        What the Felis schema says that the spec names, also of columns that the source lacks.

    Raises
    ------
    SchemaMismatchError
        The source lacks a column that the spec describes, or all that the Felis schema does.
    """
    _require(spec.columns, source_schema, f"spec {spec.name!r}, columns")
    if felis and not any(field.name in felis for field in source_schema):
        assert spec.felis is not None, "who names no schema has nothing of it"
        raise SchemaMismatchError(
            f"spec {spec.name!r}, felis: table {spec.felis.table!r} describes none of the columns of the "
            f"source, which are {', '.join(source_schema.names)}; name the table that does"
        )
    fields = []
    for field in source_schema:
        told = dict(field.metadata or {})
        for said in ((felis or {}).get(field.name), spec.columns.get(field.name)):
            if said is not None:
                told |= {key.encode(): text.encode() for key, text in said.metadata.items()}
        fields.append(field.with_metadata(told) if told != (field.metadata or {}) else field)
    return pa.schema(fields, source_schema.metadata)


def schema_text(schema: pa.Schema) -> str:
    """A schema as JSON holds it: an Arrow IPC schema message in base64."""
    return base64.b64encode(schema.serialize()).decode()


def schema_of_text(text: str) -> pa.Schema:
    """The inverse of `schema_text`.

    Raises
    ------
    CatalogFormatError
        It is no such text.
    """
    try:
        return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(text, validate=True)))
    except (ValueError, OSError, pa.ArrowException) as error:
        raise CatalogFormatError(
            f"metadata: arrow_schema is no schema ({error}); restore the file"
        ) from error


def check_columns(spec: CatalogSpec, source_schema: pa.Schema) -> dict[str, pa.Schema]:
    """Hold the whole spec against the source's schema; gives every group's schema.

    Raises
    ------
    SchemaMismatchError
        A column group, the position, `co_partitioned`, `index`, `position_from`, `hats` or `hips` names a
        column that the source lacks, or one that cannot be what is asked of it; or no group stores the
        position columns, so that nobody could check where the rows lie.
    FilterError
        That of `hips` is not understood.
    ReservedColumnError
        The source already has a column that the catalog adds.
    """
    for key, columns in keyed_columns(spec).items():
        _require(columns, source_schema, f"spec {spec.name!r}, {key}")
        for column in columns:
            key_kind(source_schema.field(column).type, f"spec {spec.name!r}, {key}: column {column!r}")
    schemas = {group.name: group_schema(spec, source_schema, group.name) for group in spec.column_groups}
    position = (spec.position.ra, spec.position.dec)
    if not any(set(position) <= set(schema.names) for schema in schemas.values()):
        raise SchemaMismatchError(
            f"spec {spec.name!r}: no column group stores both position columns {position[0]!r} and "
            f"{position[1]!r}; name them in one group"
        )
    fields = {each.name: each for each in chain(*schemas.values())}
    for key, columns in keyed_columns(spec).items():
        if lost := [column for column in columns if column not in fields]:
            raise SchemaMismatchError(
                f"spec {spec.name!r}, {key}: no column group stores {', '.join(lost)}; name it in one"
            )
    if spec.hats is not None:
        for key in ("hats_cols_default", "hats_cols_survey_id"):
            _require(getattr(spec.hats, key), pa.schema(fields.values()), f"spec {spec.name!r}, hats.{key}")
    if spec.hips is not None:
        _check_shown(spec.hips, pa.schema(fields.values()), spec)
    return schemas


def _check_shown(hips: HipsSpec, stored: pa.Schema, spec: CatalogSpec) -> None:
    """Hold what a HiPS is to show against the columns of the catalog."""
    shown = [*(hips.columns or ()), *([hips.order_by] if hips.order_by is not None else [])]
    _require(shown, stored, f"spec {spec.name!r}, hips")
    if hips.filters is not None:
        try:
            parse_filter(hips.filters, stored)
        except FilterError as error:
            raise FilterError(f"spec {spec.name!r}, hips: {error}") from error


def keyed_columns(spec: CatalogSpec) -> dict[str, tuple[str, ...]]:
    """The columns that rows are found or joined by, per key of the spec."""
    given = spec.position_from
    return {
        "co_partitioned": spec.co_partitioned,
        "index": spec.index,
        "position_from": (given.column,) if given is not None else (),
    }


_AXES = ("right ascension", "declination")


def _icrs_field(name: str, axis: str) -> pa.Field:
    return pa.field(
        name, pa.float64(), metadata={"unit": "deg", "description": f"ICRS {axis}, added by hipslake"}
    )


def _require(names: Iterable[str], source_schema: pa.Schema, where: str) -> None:
    missing = [name for name in names if name not in set(source_schema.names)]
    if not missing:
        return
    folded = {name.casefold(): name for name in source_schema.names}
    parts = []
    for name in missing:
        near = difflib.get_close_matches(name.casefold(), folded, n=3, cutoff=0.6)
        hint = " or ".join(repr(folded[key]) for key in near)
        parts.append(f"{name!r}" + (f" (did you mean {hint}?)" if hint else ""))
    raise SchemaMismatchError(
        f"{where}: the source has no column {', '.join(parts)}; its columns are "
        + ", ".join(sorted(source_schema.names))
    )


def _refuse_taken(added: list[str], source_schema: pa.Schema, spec: CatalogSpec) -> None:
    reserved = {name.casefold() for name in added}
    taken = sorted(name for name in source_schema.names if name.casefold() in reserved)
    if taken:
        raise ReservedColumnError(
            f"source of catalog {spec.name!r}: column {', '.join(map(repr, taken))} has a name that the "
            "catalog adds itself; rename it in the source"
        )


def _check_validity_names(spec: CatalogSpec, others: list[str]) -> None:
    """Refuse names of the columns of `validity` that catalogs have for others."""
    assert spec.validity is not None
    reserved = {name.casefold() for name in (*PIXEL_COLUMNS, ROW_COLUMN, *others)}
    if taken := [name for name in spec.validity.columns if name.casefold() in reserved]:
        raise ReservedColumnError(
            f"spec {spec.name!r}, validity: {', '.join(map(repr, taken))} is a name that the catalog uses "
            "itself; give the column another one"
        )


def field_text(field: pa.Field, key: str) -> str | None:
    """What the metadata of a column say under a key: `unit`, `ucd`, `description`. None: nothing."""
    value = (field.metadata or {}).get(key.encode())
    return value.decode("utf-8", "replace") if value else None
