"""The draft of a version: metadata.json as the run folder says it should be. Verified, then committed."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc

from hipslake.catalog.change import GroupChange, changed_group
from hipslake.catalog.co_partitioning import marks_after, marks_of
from hipslake.catalog.describe import MAX_INLINE, describe_group, describe_position, describe_sources
from hipslake.catalog.layouts import rejects_root
from hipslake.catalog.metadata import (
    CatalogMetadata,
    CoPartitioned,
    GroupMetadata,
    Increment,
    Index,
    Margin,
    Rejects,
)
from hipslake.catalog.partitions import COVERAGE_SCHEMA, write_sidecar
from hipslake.catalog.schema import check_columns
from hipslake.errors import VerificationError
from hipslake.specs.catalog import CatalogSpec
from hipslake.steps.coverage import coverage_of
from hipslake.steps.histogram import HistogramReport, HistogramRequest
from hipslake.steps.index import BuiltIndices
from hipslake.steps.margin_draft import margins_made
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
    StepError
        If the spec asks for margins or indices, and their step has not run.
    VerificationError
        If the steps of the run do not agree on how many rows there are.
    """
    return _drafted(
        folder,
        margins_made(folder),
        _indices_of(folder, folder.run().spec),
        version=version,
        parent=parent,
    )


def draft_leaves(folder: RunFolder) -> CatalogMetadata:
    """As `draft_version`, of the leaves alone: for who derives margins or indices of them."""
    return _drafted(folder, (), (), version=1, parent=None)


def _drafted(
    folder: RunFolder,
    margins: tuple[Margin, ...],
    indices: tuple[Index, ...],
    *,
    version: int,
    parent: int | None,
) -> CatalogMetadata:
    run, inputs, schema = folder.run(), folder.inputs(), folder.schema()
    storage = Storage.at(run.catalog_uri)
    counted = folder.read(RunFolder.report_path(HistogramRequest.step), HistogramReport)
    written = folder.read(RunFolder.report_path(WriteRequest.step), WriteReport)
    files = read_table(folder.storage, RunFolder.PARTITIONS)
    groups = tuple(
        describe_group(
            run.spec,
            group,
            group_schema,
            files.filter(pc.equal(files["group"], group)),
            storage=storage,
            write_id=run.write_id,
        )
        for group, group_schema in check_columns(run.spec, schema).items()
    )
    increment = _increment(
        folder,
        run,
        inputs,
        key=None,  # it is the whole, not what came in the run's interval
        write_id=run.write_id,
        ordinal=0,
        rows=written.rows_out,
        rejects=Rejects(rows=written.rows_rejected, path=written.rejects_path, reasons=written.rejected),
    )
    metadata = _assembled(
        run,
        schema,
        groups,
        margins,
        increment,
        None,
        marks=marks_of_run(run, counted),
        indices=indices,
        version=version,
        parent=parent,
        created=run.created,
    )
    _check_rows(
        metadata,
        f"the write step says {written.rows_out} rows",
        {"the source less the rejects": increment.sources.rows - increment.rejects.rows},
        mend="Start a new run",
    )
    return metadata


def changed_groups(
    run: FrozenRun,
    base: CatalogMetadata | None,
    changes: Mapping[str, GroupChange],
    *,
    schema: pa.Schema,
    write_id: str,
) -> tuple[GroupMetadata, ...]:
    """Describe the column groups of a version after a change.

    Parameters
    ----------
    run : FrozenRun
    base : CatalogMetadata or None
        The version before it; None if there is none yet.
    changes : mapping of str to GroupChange
        Per column group.
    schema : pyarrow.Schema
        The source schema of the catalog with the increment.
    write_id : str
        The write that made the changes; sidecars are written into its folder.

    Raises
    ------
    ConflictError
        If the changes do not fit to the base.
    """
    storage = Storage.at(run.catalog_uri)
    return tuple(
        changed_group(
            base.group(group) if base else None,
            changes[group],
            spec=run.spec,
            name=group,
            schema=group_schema,
            storage=storage,
            write_id=write_id,
        )
        for group, group_schema in check_columns(run.spec, schema).items()
    )


def describe_increment(
    folder: RunFolder,
    counted: HistogramReport,
    base: CatalogMetadata | None,
    *,
    write_id: str,
    ordinal: int,
    max_inline: int = MAX_INLINE,
) -> Increment:
    """Describe the rows that a run adds; its sidecars are written.

    The description holds for whatever version the rows come to.

    Parameters
    ----------
    folder : RunFolder
    counted : HistogramReport
        Of the run.
    base : CatalogMetadata or None
        The version that they were merged with; None if there is none yet.
    write_id : str
        The write that holds the rows.
    ordinal : int
        Of the increment.
    max_inline : int
        Most source files, of all increments together, that are listed in metadata.json itself: it is to stay
        a quick read.
    """
    run = folder.run()
    key = run.start.isoformat()
    others = _others(base, key)
    listed = sum(len(other.sources.entries or ()) for other in others)
    rejects = Rejects(
        rows=counted.rows_rejected,
        path=rejects_root(write_id) if counted.rows_rejected else None,
        reasons=counted.rejected,
    )
    return _increment(
        folder,
        run,
        folder.inputs(),
        key=key,
        write_id=write_id,
        ordinal=ordinal,
        rows=counted.rows_out,
        rejects=rejects,
        max_inline=max_inline - listed,
    )


def draft_increment(
    run: FrozenRun,
    base: CatalogMetadata | None,
    groups: tuple[GroupMetadata, ...],
    margins: tuple[Margin, ...],
    increment: Increment,
    *,
    marks: tuple[CoPartitioned, ...],
    schema: pa.Schema,
    created: datetime,
) -> CatalogMetadata:
    """Assemble the metadata of the version that comes after another by a run's increment.

    Parameters
    ----------
    run : FrozenRun
    base : CatalogMetadata or None
        The newest version; None if there is none yet.
    groups : tuple of GroupMetadata
        As `changed_groups` gives them.
    margins : tuple of Margin
        As `changed_margins` gives them.
    increment : Increment
        As `describe_increment` gives it. One of the same key is replaced.
    marks : tuple of CoPartitioned
        Those that the rows of the run have, as `marks_of_run` gives them.
    schema : pyarrow.Schema
        The source schema of the catalog with the increment.
    created : datetime

    Raises
    ------
    VerificationError
        If the column groups do not agree on how many rows there are.
    """
    metadata = _assembled(
        run,
        schema,
        groups,
        margins,
        increment,
        base,
        marks=marks,
        indices=base.indices if base else (),
        version=base.version + 1 if base else 1,
        parent=base.version if base else None,
        created=created,
    )
    _check_rows(
        metadata,
        f"the increments have {metadata.total_rows} rows together",
        mend="Run the step again; if it happens twice, report it as a bug",
    )
    return metadata


def _increment(
    folder: RunFolder,
    run: FrozenRun,
    inputs: FrozenInputs,
    *,
    key: str | None,
    write_id: str,
    ordinal: int,
    rows: int,
    rejects: Rejects,
    max_inline: int = MAX_INLINE,
) -> Increment:
    """Describe the rows of the run; the sidecars go into the folder of the write."""
    storage = Storage.at(run.catalog_uri)
    return Increment(
        ordinal=ordinal,
        key=key,
        rows=rows,
        write_id=write_id,
        fingerprint=inputs.fingerprint,
        sources=describe_sources(
            _source_rows(folder, inputs), storage=storage, write_id=write_id, max_inline=max_inline
        ),
        rejects=rejects,
        coverage=write_sidecar(storage, write_id, "coverage", _coverage(folder)),
    )


def _assembled(
    run: FrozenRun,
    schema: pa.Schema,
    groups: tuple[GroupMetadata, ...],
    margins: tuple[Margin, ...],
    increment: Increment,
    base: CatalogMetadata | None,
    *,
    marks: tuple[CoPartitioned, ...],
    indices: tuple[Index, ...],
    version: int,
    parent: int | None,
    created: datetime,
) -> CatalogMetadata:
    """The version that an increment makes: by itself, or of another version by taking its key's place."""
    spec = run.spec
    increments = sorted([*_others(base, increment.key), increment], key=lambda increment: increment.ordinal)
    return CatalogMetadata(
        catalog=run.catalog,
        version=version,
        parent=parent,
        write_id=increment.write_id,
        created=created,
        fingerprint=increment.fingerprint,
        library_version=run.library_version,
        description=spec.description,
        attribution=spec.attribution,
        layout=spec.layout,
        gathers=spec.gathers,
        position=describe_position(spec, schema),
        total_rows=sum(increment.rows for increment in increments),
        total_bytes=sum(group.bytes for group in groups),
        groups=groups,
        increments=tuple(increments),
        co_partitioned=marks_after(base, marks),
        margins=margins,
        indices=indices,
        association=run.association,
        spec=spec.model_dump(mode="json"),
    )


def marks_of_run(run: FrozenRun, counted: HistogramReport) -> tuple[CoPartitioned, ...]:
    """The marks that the rows of a counted run have."""
    writes = run.objects.writes if run.objects is not None else None
    return marks_of(run.spec, writes, unmatched=counted.unmatched)


def _indices_of(folder: RunFolder, spec: CatalogSpec) -> tuple[Index, ...]:
    """What the index step has built, if the spec asks for it."""
    return folder.read(RunFolder.INDICES, BuiltIndices).indices if spec.index else ()


def _others(base: CatalogMetadata | None, key: str | None) -> list[Increment]:
    """The increments of a version that one of this key leaves standing."""
    return [other for other in base.increments if other.key != key] if base else []


def _check_rows(
    metadata: CatalogMetadata, said: str, counts: Mapping[str, int] | None = None, *, mend: str
) -> None:
    """Hold the rows of every column group, and those that were counted elsewhere, against the total."""
    counts = {f"column group {group.name}": group.rows for group in metadata.groups} | dict(counts or {})
    if set(counts.values()) != {metadata.total_rows}:
        found = ", ".join(f"{rows} in {what}" for what, rows in counts.items())
        raise VerificationError(f"{said}, but there are {found}; nothing is published. {mend}")


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
