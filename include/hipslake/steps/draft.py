"""The draft of a version: metadata.json as the run folder says it should be. Verified, then committed."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc

from hipslake.catalog.change import GroupChange, changed_group
from hipslake.catalog.describe import (
    describe_group,
    describe_margin,
    describe_position,
    describe_sources,
)
from hipslake.catalog.layouts import rejects_root
from hipslake.catalog.margin_change import MarginChange
from hipslake.catalog.metadata import CatalogMetadata, GroupMetadata, Increment, Margin, Rejects
from hipslake.catalog.partitions import COVERAGE_SCHEMA, write_sidecar
from hipslake.catalog.schema import check_columns
from hipslake.errors import ConflictError, VerificationError
from hipslake.specs.margin import margin_name
from hipslake.sphere.tree import PixelTree
from hipslake.steps.coverage import coverage_of
from hipslake.steps.histogram import HistogramReport, HistogramRequest
from hipslake.steps.margin import margin_files
from hipslake.steps.run import FrozenInputs, FrozenRun, RunFolder
from hipslake.steps.split_table import SplitTable
from hipslake.steps.tables import read_table
from hipslake.steps.write import WriteReport, WriteRequest
from hipslake.storage import Storage


def draft_version(folder: RunFolder, *, version: int, parent: int | None) -> CatalogMetadata:
    """Assemble the metadata of a run that has written its files.

    The same run folder gives the same metadata, but for the two numbers. Sidecars are written into the run's
    write folder, where nobody sees them before the commit.

    Parameters
    ----------
    folder : RunFolder
        Of a run whose write step is done.
    version, parent : int
        The number that the version is to have, and the newest one before it.

    Raises
    ------
    VerificationError
        If the steps of the run do not agree on how many rows there are.
    """
    run, inputs, schema = folder.run(), folder.inputs(), folder.schema()
    spec, storage = run.spec, Storage.at(run.catalog_uri)
    written = folder.read(RunFolder.report_path(WriteRequest.step), WriteReport)
    files = read_table(folder.storage, RunFolder.PARTITIONS)
    groups = tuple(
        describe_group(
            spec,
            group,
            group_schema,
            files.filter(pc.equal(files["group"], group)),
            storage=storage,
            write_id=run.write_id,
        )
        for group, group_schema in check_columns(spec, schema).items()
    )
    sources = describe_sources(_source_rows(folder, inputs), storage=storage, write_id=run.write_id)
    rejects = Rejects(rows=written.rows_rejected, path=written.rejects_path, reasons=written.rejected)
    counts = {f"column group {group.name}": group.rows for group in groups}
    counts["the source less the rejects"] = sources.rows - rejects.rows
    if set(counts.values()) != {written.rows_out}:
        raise VerificationError(
            f"the write step says {written.rows_out} rows, but there are "
            + ", ".join(f"{rows} in {what}" for what, rows in counts.items())
            + "; nothing is published. Start a new run"
        )
    key = run.window.start.isoformat() if run.window.start is not None else None
    return CatalogMetadata(
        catalog=run.catalog,
        version=version,
        parent=parent,
        write_id=run.write_id,
        created=run.created,
        fingerprint=inputs.fingerprint,
        library_version=run.library_version,
        description=spec.description,
        attribution=spec.attribution,
        layout=spec.layout,
        gathers=spec.gathers,
        position=describe_position(spec, schema),
        total_rows=written.rows_out,
        total_bytes=sum(group.bytes for group in groups),
        groups=groups,
        increments=(
            Increment(
                ordinal=0,
                key=key,
                rows=written.rows_out,
                write_id=run.write_id,
                fingerprint=inputs.fingerprint,
                sources=sources,
                rejects=rejects,
                coverage=write_sidecar(storage, run.write_id, "coverage", _coverage(folder)),
            ),
        ),
        co_partitioned=spec.co_partitioned,
        margins=_margins(folder),
        spec=spec.model_dump(mode="json"),
    )


def _margins(folder: RunFolder) -> tuple[Margin, ...]:
    """The margins that the run has made, in the order of the spec."""
    run, files = folder.run(), margin_files(folder)
    group = run.spec.column_groups[0].name
    named = {margin_name(run.spec.layout, group, arcsec): arcsec for arcsec in run.spec.margin.arcsec}
    return tuple(
        describe_margin(
            name,
            group,
            arcsec,
            files.filter(pc.equal(files["margin"], name)),
            storage=Storage.at(run.catalog_uri),
            write_id=run.write_id,
        )
        for name, arcsec in named.items()
    )


def draft_increment(
    folder: RunFolder,
    base: CatalogMetadata | None,
    changes: Mapping[str, GroupChange],
    *,
    margins: Mapping[float, MarginChange],
    worked_out_on: int | None,
    schema: pa.Schema,
    write_id: str,
    ordinal: int,
    created: datetime,
) -> CatalogMetadata:
    """Assemble the metadata of the version that comes after another by a run's increment.

    Parameters
    ----------
    folder : RunFolder
    base : CatalogMetadata or None
        The newest version; None if there is none yet.
    changes : mapping of str to GroupChange
        Per column group.
    margins : mapping of float to MarginChange
        Per distance.
    worked_out_on : int or None
        The version that the changes were worked out on; None: there was none.
    schema : pyarrow.Schema
        The source schema of the catalog with the increment.
    write_id : str
        The write that made the changes; sidecars are written into its folder.
    ordinal : int
        Of the increment. An increment of the same key is replaced.
    created : datetime

    Raises
    ------
    ConflictError
        If the changes do not fit to the base.
    VerificationError
        If the column groups do not agree on how many rows there are.
    """
    run, inputs = folder.run(), folder.inputs()
    spec, storage = run.spec, Storage.at(run.catalog_uri)
    counted = folder.read(RunFolder.report_path(HistogramRequest.step), HistogramReport)
    key = run.start.isoformat()
    groups = tuple(
        changed_group(
            base.group(group) if base else None,
            changes[group],
            spec=spec,
            name=group,
            schema=group_schema,
            storage=storage,
            write_id=write_id,
        )
        for group, group_schema in check_columns(spec, schema).items()
    )
    changed_margins = _changed_margins(base, groups[0], margins, worked_out_on, run, write_id)
    increment = Increment(
        ordinal=ordinal,
        key=key,
        rows=counted.rows_out,
        write_id=write_id,
        fingerprint=inputs.fingerprint,
        sources=describe_sources(_source_rows(folder, inputs), storage=storage, write_id=write_id),
        rejects=Rejects(
            rows=counted.rows_rejected,
            path=rejects_root(write_id) if counted.rows_rejected else None,
            reasons=counted.rejected,
        ),
        coverage=write_sidecar(storage, write_id, "coverage", _coverage(folder)),
    )
    others = [other for other in base.increments if other.key != key] if base else []
    increments = tuple(sorted([*others, increment], key=lambda increment: increment.ordinal))
    total = sum(increment.rows for increment in increments)
    counts = {f"column group {group.name}": group.rows for group in groups}
    if set(counts.values()) != {total}:
        raise VerificationError(
            f"the increments have {total} rows together, but there are "
            + ", ".join(f"{rows} in {what}" for what, rows in counts.items())
            + "; nothing is published. Run the step again; if it happens twice, report it as a bug"
        )
    return CatalogMetadata(
        catalog=run.catalog,
        version=base.version + 1 if base else 1,
        parent=base.version if base else None,
        write_id=write_id,
        created=created,
        fingerprint=inputs.fingerprint,
        library_version=run.library_version,
        description=spec.description,
        attribution=spec.attribution,
        layout=spec.layout,
        gathers=spec.gathers,
        position=describe_position(spec, schema),
        total_rows=total,
        total_bytes=sum(group.bytes for group in groups),
        groups=groups,
        increments=increments,
        co_partitioned=spec.co_partitioned,
        margins=changed_margins,
        indices=base.indices if base else (),
        spec=spec.model_dump(mode="json"),
    )


def _changed_margins(
    base: CatalogMetadata | None,
    group: GroupMetadata,
    changes: Mapping[float, MarginChange],
    worked_out_on: int | None,
    run: FrozenRun,
    write_id: str,
) -> tuple[Margin, ...]:
    """The margins after the changes; `group` is the primary column group as it will be."""
    storage = Storage.at(run.catalog_uri)
    if base is not None and {margin.radius_arcsec for margin in base.margins} != set(changes):
        raise ConflictError("another run has added a margin")
    if base is not None and changes and base.version != worked_out_on:
        before = PixelTree(*base.groups[0].leaf_pixels()).tiling()
        after = PixelTree(*group.leaf_pixels()).tiling()
        for margin in base.margins:
            changes[margin.radius_arcsec].check_fits(margin, before, after, storage)
    return tuple(
        change.apply(
            base.margin(arcsec) if base else None,
            name=margin_name(run.spec.layout, group.name, arcsec),
            group=group.name,
            arcsec=arcsec,
            storage=storage,
            write_id=write_id,
        )
        for arcsec, change in changes.items()
    )


def _coverage(folder: RunFolder) -> pa.Table:
    """Where the rows of the run lie, as `COVERAGE_SCHEMA`."""
    found = coverage_of(folder)
    columns = {"order": [found.order] * len(found.npix), "npix": found.npix, "rows": found.rows}
    return pa.table(columns, schema=COVERAGE_SCHEMA)


def _source_rows(folder: RunFolder, inputs: FrozenInputs) -> pa.Table:
    """Return the files of the run with the rows counted in each, as `SOURCE_SCHEMA`."""
    splits = SplitTable.read(folder.storage, RunFolder.SPLITS)
    return pa.table(
        {
            "uri": [file.uri for file in inputs.files],
            "size": [file.size for file in inputs.files],
            "stamp": [file.stamp for file in inputs.files],
            "rows": splits.rows_per_file(inputs.files),
        }
    )
