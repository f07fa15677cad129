"""The draft of a version after an increment: the one before it, with what a run adds or replaces."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

import pyarrow as pa

from hipslake.catalog.change import GroupChange, changed_group
from hipslake.catalog.describe import MAX_INLINE
from hipslake.catalog.layouts import rejects_root
from hipslake.catalog.metadata import (
    CatalogMetadata,
    CoPartitioned,
    GroupMetadata,
    Increment,
    Margin,
    Rejects,
)
from hipslake.catalog.schema import check_columns
from hipslake.steps.ingest.request import HistogramReport
from hipslake.steps.ingest.version_metadata import assembled, check_total, increment_of
from hipslake.steps.run import FrozenInputs, FrozenRun, RunFolder
from hipslake.storage.folder import Storage


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
    run: FrozenRun,
    inputs: FrozenInputs,
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
    run : FrozenRun
    inputs : FrozenInputs
    counted : HistogramReport
        Of the run.
    base : CatalogMetadata or None
        The version that they were merged with; None if there is none yet.
    write_id : str
        The write that holds the rows.
    ordinal : int
        Of the increment.
    max_inline : int
        Most source files, of all increments that metadata.json lists together, that are in it: it is to stay
        a quick read.
    """
    key = run.start.isoformat()
    others = [other for other in base.increments if other.key != key] if base else []
    listed = sum(len(other.sources.entries or ()) for other in others)
    rejects = Rejects(
        rows=counted.rows_rejected,
        path=rejects_root(write_id) if counted.rows_rejected else None,
        reasons=counted.rejected,
    )
    return increment_of(
        folder,
        run,
        inputs,
        key=key,
        end=run.window.end.isoformat() if run.window.end is not None else None,
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
    metadata = assembled(
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
    check_total(
        metadata,
        f"the increments have {metadata.total_rows} rows together",
        mend="Run the step again; if it happens twice, report it as a bug",
    )
    return metadata
