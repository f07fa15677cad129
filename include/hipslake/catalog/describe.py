"""From what a run wrote to what metadata.json says of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hipslake.catalog.metadata import (
    Column,
    GroupMetadata,
    Margin,
    Partition,
    Position,
    SourceEntry,
    Sources,
)
from hipslake.catalog.partitions import (
    SOURCE_SCHEMA,
    curve_sorted,
    pixel_ranges,
    total_of,
    write_partition_sidecars,
    write_sidecar,
)
from hipslake.catalog.schema import field_text, hats_position, schema_text
from hipslake.specs.catalog_spec import CatalogSpec
from hipslake.storage.folder import Storage

MAX_INLINE = 4096  # rows of a table that metadata.json holds itself, or one sidecar of a longer one


def describe_group(
    spec: CatalogSpec,
    group: str,
    schema: pa.Schema,
    partitions: pa.Table,
    *,
    storage: Storage,
    write_id: str,
    max_inline: int = MAX_INLINE,
) -> GroupMetadata:
    """Describe a column group; write its sidecars when its partitions are many.

    Parameters
    ----------
    spec : CatalogSpec
    group : str
    schema : pyarrow.Schema
        From `group_schema`.
    partitions : pyarrow.Table
        The columns of `PARTITION_SCHEMA`, in any order of rows: the outcome does not depend on it.
    storage : Storage
        At the catalog's root.
    write_id : str
        The write that the sidecars belong to.
    max_inline : int
        Most partitions that are listed in metadata.json itself, or in one sidecar.
    """
    table = curve_sorted(partitions)
    pixels = np.unique(np.stack([table["order"].to_numpy(), table["npix"].to_numpy()], axis=1), axis=0)
    return GroupMetadata(
        name=group,
        leaves=len(pixels),
        threshold=spec.threshold_of(group),
        parquet=spec.parquet,
        columns=describe_columns(schema),
        arrow_schema=schema_text(schema),
        **_describe_files(group, table, storage, write_id, max_inline),
    )


def describe_margin(
    name: str,
    group: str,
    arcsec: float,
    partitions: pa.Table,
    *,
    storage: Storage,
    write_id: str,
    max_inline: int = MAX_INLINE,
) -> Margin:
    """Describe a margin; write its sidecars when its partitions are many.

    Parameters
    ----------
    name, group, arcsec
        The margin's name, the column group that it is of, and its distance.
    partitions, storage, write_id, max_inline
        As for `describe_group`.
    """
    table = curve_sorted(partitions)
    files = _describe_files(name, table, storage, write_id, max_inline)
    return Margin(name=name, group=group, radius_arcsec=arcsec, **files)


def describe_margins(
    named: Mapping[str, float], group: str, files: pa.Table, *, storage: Storage, write_id: str
) -> tuple[Margin, ...]:
    """Describe the margins of a column group.

    Parameters
    ----------
    named : mapping of str to float
        From the name of a margin to its distance in arcseconds.
    group : str
    files : pyarrow.Table
        The columns of `PARTITION_SCHEMA`, and the name of the `margin` that each file is of.
    storage, write_id
        As for `describe_group`.
    """
    return tuple(
        describe_margin(
            name,
            group,
            arcsec,
            files.filter(pc.equal(files["margin"], name)),
            storage=storage,
            write_id=write_id,
        )
        for name, arcsec in named.items()
    )


def _describe_files(
    name: str, table: pa.Table, storage: Storage, write_id: str, max_inline: int
) -> dict[str, Any]:
    """The fields that groups and margins have in common."""
    inline = table.num_rows <= max_inline
    return {
        "rows": total_of(table, "rows"),
        "bytes": total_of(table, "bytes"),
        "files": table.num_rows,
        "pixels": pixel_ranges(table["order"].to_numpy(), table["npix"].to_numpy()),
        "partitions": tuple(Partition.model_validate(row) for row in table.to_pylist()) if inline else None,
        "sidecars": None
        if inline
        else write_partition_sidecars(storage, write_id, f"partitions_{name}", table, most=max_inline),
    }


def describe_columns(schema: pa.Schema) -> tuple[Column, ...]:
    """Columns with readable Arrow types; unit, description and UCD come from the fields' metadata."""
    return tuple(
        Column(
            name=field.name,
            type=str(field.type),
            nullable=field.nullable,
            unit=field_text(field, "unit"),
            description=field_text(field, "description"),
            ucd=field_text(field, "ucd"),
        )
        for field in schema
    )


def describe_position(spec: CatalogSpec, source_schema: pa.Schema) -> Position:
    """The position columns of the source, and the columns that hold ICRS degrees."""
    icrs = hats_position(spec, source_schema)
    return Position(
        **spec.position.model_dump(),
        icrs_ra=icrs[0] if icrs else None,
        icrs_dec=icrs[1] if icrs else None,
        placed_by=spec.position_from.catalog if spec.position_from else None,
    )


def describe_sources(
    sources: pa.Table, *, storage: Storage, write_id: str, max_inline: int = MAX_INLINE
) -> Sources:
    """The source files of a run, in source order, as a list or, when there are many, as a sidecar.

    Parameters
    ----------
    sources : pyarrow.Table
        The columns of `SOURCE_SCHEMA`.
    storage, write_id, max_inline
        As for `describe_group`.
    """
    table = sources.select(SOURCE_SCHEMA.names).cast(SOURCE_SCHEMA)
    inline = table.num_rows <= max_inline
    return Sources(
        files=table.num_rows,
        rows=total_of(table, "rows"),
        bytes=total_of(table, "size"),
        entries=tuple(SourceEntry.model_validate(row) for row in table.to_pylist()) if inline else None,
        sidecar=None if inline else write_sidecar(storage, write_id, "sources", table),
    )
