"""The version that comes after the newest one by an append: its column groups, margins and increments."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from hipslake.catalog.change import changed_group, changed_margin
from hipslake.catalog.describe import MAX_INLINE
from hipslake.catalog.metadata import (
    CatalogMetadata,
    GroupMetadata,
    Increment,
    KeyChanges,
    KeyRecords,
    Margin,
)
from hipslake.catalog.schema import check_columns
from hipslake.errors import ConflictError
from hipslake.specs.margin_spec import margin_name
from hipslake.sphere.pixel_tree import PixelTree
from hipslake.steps.append.append_run import AppendRun
from hipslake.steps.append.record_runs import check_records_fit
from hipslake.steps.ingest.draft import assembled, check_total, increment_of
from hipslake.steps.run import now_utc
from hipslake.storage.folder import Storage

if TYPE_CHECKING:
    from hipslake.steps.append.merge import Merged


def describe_increment(
    run: AppendRun,
    base: CatalogMetadata | None,
    *,
    write_id: str,
    ordinal: int,
    storage: Storage,
    changes: KeyChanges | None = None,
    max_inline: int = MAX_INLINE,
) -> Increment:
    """Describe the rows that a run adds; its sidecars are written.

    The description holds for whatever version the rows come to.

    Parameters
    ----------
    run : AppendRun
    base : CatalogMetadata or None
        The version that they were merged with; None if there is none yet.
    write_id : str
        The write that holds the rows.
    ordinal : int
        Of the increment.
    storage : Storage
        At the catalog's root.
    changes : KeyChanges, optional
        Mode upsert: what its records do.
    max_inline : int
        Most source files, of all increments that metadata.json lists together, that are in it: it is to stay
        a quick read.
    """
    others = [other for other in base.increments if other.key != run.key] if base else []
    listed = sum(len(other.sources.entries or ()) for other in others)
    end = run.frozen.window.end
    return increment_of(
        run.folder,
        run.frozen,
        run.inputs,
        run.counted,
        key=run.key,
        end=end.isoformat() if end is not None else None,
        write_id=write_id,
        ordinal=ordinal,
        storage=storage,
        changes=changes,
        max_inline=max_inline - listed,
    )


def next_version(merged: Merged, base: CatalogMetadata | None) -> CatalogMetadata:
    """The version that comes after the newest one.

    Parameters
    ----------
    merged : Merged
    base : CatalogMetadata or None
        The newest version by now; None if there is none. Before it was looked for, the one that was merged
        with: if there is another by now, the number is taken, and the commit says so.

    Raises
    ------
    ConflictError
        If what was merged does not fit to the newest version.
    """
    run, schema = merged.run, merged.schema
    if base is not None and base.version != merged.attempt.version:
        standing = base.increment(run.key, run.catalog)
        # The ordinal alone would not do: who replaces an increment takes over its ordinal.
        if (standing.write_id if standing else None) != merged.attempt.replaced_write:
            raise ConflictError(f"another run has added or replaced increment {run.key}")
        if merged.records is not None:
            check_records_fit(merged, base, schema)
        if run.frozen.spec.co_partitioned:
            raise ConflictError("co-partitioned columns were held against the rows of another version")
        schema = run.schema_after(base)
        if not schema.equals(merged.schema, check_metadata=True):
            raise ConflictError("another run has changed the columns, which our files do not have so")
        run.check_not_shared(base)
    return version_after(base, merged, schema)


def version_after(base: CatalogMetadata | None, merged: Merged, schema: pa.Schema) -> CatalogMetadata:
    """The version that comes after another by what was merged.

    Sidecars that differ are written into the folder of the write.

    Parameters
    ----------
    base : CatalogMetadata or None
        The version before it; None if there is none yet.
    merged : Merged
    schema : pyarrow.Schema
        The source schema of the catalog with the increment.

    Raises
    ------
    ConflictError
        If the changes do not fit to the base.
    VerificationError
        If the column groups do not agree on how many rows there are.
    """
    run, spec = merged.run, merged.run.frozen.spec
    groups = tuple(
        changed_group(
            base.group(group) if base else None,
            merged.changes[group],
            spec=spec,
            name=group,
            schema=group_schema,
            storage=run.catalog,
            write_id=merged.attempt.write_id,
        )
        for group, group_schema in check_columns(spec, schema).items()
    )
    metadata = assembled(
        run.frozen,
        schema,
        groups,
        _margins_after(base, merged, groups[0]),
        merged.increment,
        base,
        counted=run.counted,
        key_records=_key_records(merged, base),
        reassignment=run.reassignment(merged.attempt.write_id, merged.attempt.ordinal),
        indices=base.indices if base else (),
        parent=base.version if base else None,
        created=now_utc(),
        compared=merged.mark_after,
    )
    check_total(
        metadata,
        f"the increments have {metadata.total_rows} rows together"
        + (", without the superseded ones" if metadata.key_records is not None else "")
        + (", without the deleted ones" if metadata.rows_deleted else ""),
        mend="Run the step again; if it happens twice, report it as a bug",
    )
    return metadata


def _key_records(merged: Merged, base: CatalogMetadata | None) -> KeyRecords | None:
    """The key records of the version that comes after another; None if it is not of mode upsert."""
    if merged.records is None:
        return None
    spec, known = merged.run.frozen.spec, base.key_records if base is not None else None
    superseded = merged.rows_superseded + (known.rows_superseded if known is not None else 0)
    return merged.records.applied(
        known,
        key=spec.key,
        order_by=spec.order_by,
        validity=spec.validity,
        rows_superseded=superseded,
    )


def _margins_after(base: CatalogMetadata | None, merged: Merged, group: GroupMetadata) -> tuple[Margin, ...]:
    """The margins of the version, in the order of their changes; `group` is the primary one as it will be."""
    catalog, changes = merged.run.catalog, merged.margins
    if base is not None and {margin.radius_arcsec for margin in base.margins} != set(changes):
        raise ConflictError("another run has added or taken away a margin")
    if base is not None and changes and base.version != merged.attempt.version:
        before = PixelTree(*base.groups[0].leaf_pixels()).tiling()
        after = PixelTree(*group.leaf_pixels()).tiling()
        for margin in base.margins:
            changes[margin.radius_arcsec].check_fits(margin, before, after, catalog)
    return tuple(
        changed_margin(
            base.margin(arcsec) if base else None,
            change,
            name=margin_name(merged.run.frozen.spec.layout, group.name, arcsec),
            group=group.name,
            arcsec=arcsec,
            storage=catalog,
            write_id=merged.attempt.write_id,
        )
        for arcsec, change in changes.items()
    )
