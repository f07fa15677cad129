"""Names of source columns: what a catalog keeps for itself, what would collide, and where the position is."""

from __future__ import annotations

import difflib

import pyarrow as pa

from hipslake.errors import ReservedColumnError, SchemaMismatchError
from hipslake.sources.distinct_names import check_distinct
from hipslake.specs.catalog_spec import CatalogSpec, Layout, PositionSpec
from hipslake.sphere.angle_columns import is_text

RESERVED = ("_healpix_29", "_row", "Norder", "Npix", "Dir")
_VERIFIED = "; of HATS files, source: {healpix: verify} holds them against the positions and leaves them out"
REJECT_COLUMNS = ("_reject_reason", "_reject_file", "_reject_row")
"""What rows without a place on the sky are kept with, where they are quarantined."""


def check_names(schema: pa.Schema, spec: CatalogSpec) -> None:
    """Check a unified source schema against what its catalog needs.

    Raises
    ------
    ReservedColumnError
        When columns have reserved names (in any case), stand twice, or differ only by case.
    SchemaMismatchError
        When a position column is missing, or holds neither numbers nor texts of angles.
    """
    check_distinct(schema.names, f"the source of {spec.name}")
    kept = RESERVED + (REJECT_COLUMNS if spec.bad_rows.policy == "quarantine" else ())
    reserved = {name.casefold() for name in kept}
    if taken := [name for name in schema.names if name.casefold() in reserved]:
        raise ReservedColumnError(
            f"the source of {spec.name} has columns named {_listed(taken)}; a catalog keeps {_listed(kept)} "
            f"for itself: write source: {{columns: {{drop: [{', '.join(taken)}]}}}}, or rename them there"
            + _VERIFIED
            * (RESERVED[0] in taken)
        )
    for role, name in (("ra", spec.position.ra), ("dec", spec.position.dec)):
        if name not in schema.names:
            near = _nearest(name, schema.names)
            mend = f"did you mean {near!r}?" if near else f"there are {', '.join(schema.names)}"
            raise SchemaMismatchError(
                f"position.{role} of {spec.name}: the source has no column {name!r}; {mend}"
            )
        _check_numeric(role, schema.field(name), spec)


def _nearest(name: str, names: list[str]) -> str | None:
    folded = {other.casefold(): other for other in names}
    near = difflib.get_close_matches(name.casefold(), folded, n=1, cutoff=0.5)
    return folded[near[0]] if near else None


def _check_numeric(role: str, field: pa.Field, spec: CatalogSpec) -> None:
    kind = field.type
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return
    if is_text(kind) and spec.layout is Layout.HATS and takes_texts(spec.position):
        return
    mend = "name a column of numbers"
    if spec.source.format == "csv" and pa.types.is_string(kind):
        mend = (
            "some or all of its values are no numbers; "
            f"write source.options.types: {{{field.name}: float64}} to be told the first such line"
        )
    if is_text(kind) and spec.layout is Layout.HATS and spec.position.unit == "deg":
        mend += "; if it holds texts such as 05:34:31.9 or 05h34m31.9s, write position: {unit: hour}"
    raise SchemaMismatchError(
        f"position.{role} of {spec.name}: column {field.name!r} has type {kind}; {mend}"
    )


def takes_texts(position: PositionSpec) -> bool:
    """Whether position columns may hold sexagesimal texts: where those of right ascensions are hours."""
    return position.unit == "hour"


def _listed(names: tuple[str, ...] | list[str]) -> str:
    return ", ".join(repr(name) for name in names)
