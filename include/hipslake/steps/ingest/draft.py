"""The draft of a version: metadata.json as a run folder says it should be. Verified, then committed.

`draft_version` drafts that of a run which is the whole of its catalog. What every version has, also one that
an append makes (`hipslake.steps.append.next_version`), is put together by `assembled`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from hipslake.catalog.checksums import HIDDEN_CHECKSUMS, checksum_list, list_folder
from hipslake.catalog.co_partitioning import MarkAfter, marks_after, marks_of
from hipslake.catalog.coverage import write_coverage
from hipslake.catalog.describe import MAX_INLINE, describe_group, describe_position, describe_sources
from hipslake.catalog.hats.point_map import MAP_ORDER, PointMap
from hipslake.catalog.layouts import rejects_root
from hipslake.catalog.metadata import (
    CatalogMetadata,
    CoPartitioned,
    EarlierIncrements,
    GroupMetadata,
    Increment,
    Index,
    KeyChanges,
    KeyRecords,
    Margin,
    Reassignment,
    Rejects,
)
from hipslake.catalog.metadata.increments import LISTED_AGAIN, MOST_LISTED, set_aside
from hipslake.catalog.partitions import PARTITION_SCHEMA, Sidecar
from hipslake.catalog.schema import check_columns
from hipslake.errors import StepError, VerificationError
from hipslake.planning.pixel_histogram import CELL_COLUMNS
from hipslake.specs.catalog_spec import CatalogSpec
from hipslake.steps.frozen_run import FrozenInputs, FrozenRun
from hipslake.steps.index.request import BuiltIndices
from hipslake.steps.ingest.request import HistogramReport, HistogramRequest, WriteReport, WriteRequest
from hipslake.steps.ingest.split_table import SplitTable
from hipslake.steps.margin.request import MARGIN_FILES
from hipslake.steps.margin.state import MarginOrder
from hipslake.steps.run import RunFolder
from hipslake.steps.tables import read_table
from hipslake.storage.folder import Storage

FILES_SCHEMA = pa.schema([("margin", pa.string()), *PARTITION_SCHEMA])


def draft_version(folder: RunFolder, *, parent: int | None = None) -> CatalogMetadata:
    """Assemble the metadata of a run that has written its files.

    The same run folder gives the same metadata, but for the numbers of the version and its parent. Sidecars
    are written into the run's write folder, where nobody sees them before the commit.

    Parameters
    ----------
    folder : RunFolder
        Of a run whose write step is done.
    parent : int, optional
        The newest version, which this one is to follow; the first version follows none.

    Raises
    ------
    StepError
        If the spec asks for margins or indices, and their step has not run.
    VerificationError
        If the steps of the run do not agree on how many rows there are.
    """
    spec = FrozenRun.of(folder).spec
    indices = folder.read(RunFolder.INDICES, BuiltIndices).indices if spec.index else ()
    return _drafted(folder, _margins_made(folder), indices, parent)


def draft_leaves(folder: RunFolder) -> CatalogMetadata:
    """As `draft_version`, of the leaves alone: what margins and indices are made from."""
    return _drafted(folder, (), (), None)


def _drafted(
    folder: RunFolder, margins: tuple[Margin, ...], indices: tuple[Index, ...], parent: int | None
) -> CatalogMetadata:
    run, inputs, schema = FrozenRun.of(folder), FrozenInputs.of(folder), folder.schema()
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
    increment = increment_of(
        folder,
        run,
        inputs,
        written,
        key=None,  # it is the whole, not what came in the run's interval
        end=None,
        write_id=run.write_id,
        ordinal=0,
        storage=storage,
    )
    metadata = assembled(
        run,
        schema,
        groups,
        margins,
        increment,
        None,
        counted=counted,
        indices=indices,
        parent=parent,
        created=run.created,
        rows_near_borders=written.rows_near_borders,
    ).model_copy(update={"base_version": written.base_version, "full_because": written.full_because})
    check_total(
        metadata,
        f"the write step says {written.rows_out} rows",
        {"the source less what was left out": increment.sources.rows - increment.left_out},
        mend="Start a new run",
    )
    return metadata


def _margins_made(folder: RunFolder) -> tuple[Margin, ...]:
    """Describe the margins that a run has made, in the order of its spec.

    Raises
    ------
    StepError
        If the spec asks for some, and the margin step has not run.
    """
    run = FrozenRun.of(folder)
    order = MarginOrder(write_id=run.write_id, spec=run.spec, radii=run.spec.margin.arcsec)
    return order.described(margin_files(folder), Storage.at(run.catalog_uri))


def increment_of(
    folder: RunFolder,
    run: FrozenRun,
    inputs: FrozenInputs,
    report: HistogramReport | WriteReport,
    *,
    key: str | None,
    end: str | None,
    write_id: str,
    ordinal: int,
    storage: Storage,
    changes: KeyChanges | None = None,
    max_inline: int = MAX_INLINE,
) -> Increment:
    """Describe the rows of a run; sidecars are written.

    Parameters
    ----------
    folder : RunFolder
        Of a run whose histogram step is done.
    run : FrozenRun
    inputs : FrozenInputs
    report : HistogramReport or WriteReport
        Counts the rows, and those that were left out.
    key, end : str or None
        Start and end of the interval that the rows are of; None for the whole, and where it is open.
    write_id : str
        The write that holds the rows; sidecars go into its folder.
    ordinal : int
    storage : Storage
        At the catalog's root, where the run has written what it has rejected.
    changes : KeyChanges, optional
        Mode upsert: what its records do.
    max_inline : int
        Most source files that are listed in metadata.json itself.
    """
    rejects = rejects_root(write_id) if report.rows_rejected else None
    if rejects is not None:
        storage.write(f"{rejects}/{HIDDEN_CHECKSUMS}", checksum_list(list_folder(storage, rejects)))
    written = None if run.spec.mode.by_intervals else _written_coverage(folder)
    return Increment(
        ordinal=ordinal,
        key=key,
        end=end,
        rows=report.rows_out,
        write_id=write_id,
        fingerprint=inputs.fingerprint,
        sources=describe_sources(
            _source_rows(folder, inputs), storage=storage, write_id=write_id, max_inline=max_inline
        ),
        rejects=Rejects(rows=report.rows_rejected, path=rejects, reasons=report.rejected),
        superseded=report.rows_superseded or None,
        changes=changes,
        coverage=written or write_coverage(storage, write_id, _counted_coverage(folder, run.spec)),
    )


def assembled(
    run: FrozenRun,
    schema: pa.Schema,
    groups: tuple[GroupMetadata, ...],
    margins: tuple[Margin, ...],
    increment: Increment,
    base: CatalogMetadata | None,
    *,
    counted: HistogramReport,
    key_records: KeyRecords | None = None,
    reassignment: Reassignment | None = None,
    indices: tuple[Index, ...],
    parent: int | None,
    created: datetime,
    rows_near_borders: int | None = None,
    compared: MarkAfter | None = None,
) -> CatalogMetadata:
    """The version that an increment makes: by itself, or of another version by taking its key's place.

    Parameters
    ----------
    run : FrozenRun
    schema : pyarrow.Schema
        The source schema of the catalog with the increment.
    groups, margins
        As they are with the increment.
    increment : Increment
    base : CatalogMetadata or None
        The version before it, whose other increments stay; None if the increment stands by itself.
    counted : HistogramReport
        Of the rows of the run.
    key_records : KeyRecords, optional
        Mode upsert: those of the version. Superseded rows do not count for its total, nor deleted ones.
    reassignment : Reassignment, optional
        Of an increment that gives rows to other objects: the spec of the version stays that of the base.
    indices : tuple of Index
    parent : int or None
        The newest version, which this one follows; None if it is the first.
    created : datetime
    rows_near_borders : int, optional
        Of a match without a margin: left rows that may lack partners.
    compared : MarkAfter, optional
        Where objects placed the rows that are others than those of the version before.
    """
    spec = run.spec
    increments = with_increment(base, increment, Storage.at(run.catalog_uri))
    deletions = base.deletions_after(increment.ordinal) if base is not None else None
    gone = sum(deletion.rows_gone for deletion in deletions or ())
    reassignments = (base.reassignments or () if base is not None else ()) + (
        () if reassignment is None else (reassignment,)
    )
    spec_text = spec.model_dump(mode="json")
    if reassignment is not None and base is not None:
        spec_text = base.spec
    superseded = key_records.rows_superseded if key_records is not None else 0
    return CatalogMetadata(
        catalog=run.catalog,
        version=(parent or 0) + 1,
        parent=parent,
        write_id=increment.write_id,
        created=created,
        fingerprint=increment.fingerprint,
        library_version=run.library_version,
        owner=run.owner,
        description=spec.description,
        attribution=spec.attribution,
        layout=spec.layout,
        gathers=spec.gathers,
        position=describe_position(spec, schema),
        total_rows=increments.total_rows - superseded - gone,
        total_bytes=sum(group.bytes for group in groups),
        groups=groups,
        earlier=increments.earlier,
        increments=increments.listed,
        key_records=key_records,
        deletions=deletions,
        reassignments=reassignments or None,
        co_partitioned=marks_after(base, marks_of_run(run, counted), compared),
        margins=margins,
        indices=indices,
        association=run.association,
        rows_near_borders=rows_near_borders,
        spec=spec_text,
    )


def marks_of_run(run: FrozenRun, counted: HistogramReport) -> tuple[CoPartitioned, ...]:
    """The marks that the rows of a counted run have."""
    writes, moves = (run.objects.writes, run.objects.moves) if run.objects is not None else (None, False)
    return marks_of(run.spec, writes, objects_move=moves, unmatched=counted.unmatched)


class Increments(NamedTuple):
    """All increments of a version: those that metadata.json lists, and those before them."""

    earlier: EarlierIncrements | None
    listed: tuple[Increment, ...]

    @property
    def total_rows(self) -> int:
        """Rows of all of them."""
        return (self.earlier.total_rows if self.earlier else 0) + sum(each.rows for each in self.listed)


def with_increment(base: CatalogMetadata | None, increment: Increment, catalog: Storage) -> Increments:
    """The increments of a version with one more, which takes the place of that of its key.

    Where metadata.json would list too many, or an earlier one changes, a sidecar is written into the folder
    of the increment's write.

    Parameters
    ----------
    base : CatalogMetadata or None
        The version before it; None if there is none.
    increment : Increment
    catalog : Storage
        At the catalog's root.
    """
    earlier = base.earlier if base else None
    listed = _placed(base.increments if base else (), increment)
    late = earlier is not None and increment.ordinal <= earlier.last
    if base is None or not (late or len(listed) > MOST_LISTED):
        return Increments(earlier, listed)
    every = _placed(base.all_increments(catalog), increment)
    aside = len(every) - LISTED_AGAIN
    return Increments(set_aside(every[:aside], catalog, increment.write_id), every[aside:])


def _placed(others: Iterable[Increment], increment: Increment) -> tuple[Increment, ...]:
    """Increments with one more, ascending by ordinal."""
    stay = [other for other in others if other.key != increment.key]
    return tuple(sorted([*stay, increment], key=lambda each: each.ordinal))


def check_total(
    metadata: CatalogMetadata, said: str, counts: Mapping[str, int] | None = None, *, mend: str
) -> None:
    """Hold the rows of every column group, and those that were counted elsewhere, against the total.

    Parameters
    ----------
    metadata : CatalogMetadata
    said : str
        Who gives the total, for the message.
    counts : mapping of str to int, optional
        Rows that were counted elsewhere, by what was counted.
    mend : str
        What to do, for the message.

    Raises
    ------
    VerificationError
        If a number differs.
    """
    counts = {f"column group {group.name}": group.rows for group in metadata.groups} | dict(counts or {})
    if set(counts.values()) != {metadata.total_rows}:
        found = ", ".join(f"{rows} in {what}" for what, rows in counts.items())
        raise VerificationError(f"{said}, but there are {found}; nothing is published. {mend}")


def _source_rows(folder: RunFolder, inputs: FrozenInputs) -> pa.Table:
    """Return the files of the run with the rows counted in each, as `SOURCE_SCHEMA`."""
    splits = SplitTable.read(folder.storage, RunFolder.SPLITS)
    columns = {name: [getattr(file, name) for file in inputs.files] for name in ("uri", "size", "stamp")}
    return pa.table({**columns, "rows": splits.rows_per_file(inputs.files)})


def _written_coverage(folder: RunFolder) -> Sidecar | None:
    """The coverage of a join, which has written it itself; None of other runs."""
    return folder.read(RunFolder.COVERAGE, Sidecar) if folder.storage.is_file(RunFolder.COVERAGE) else None


def _counted_coverage(folder: RunFolder, spec: CatalogSpec) -> PointMap:
    """The rows of a counted run per pixel, at the order of HATS maps or coarser."""
    counted = max(spec.mapping_order, spec.lowest_order)  # every row is in a cell of this order, or deeper
    order = pc.field("order") == min(MAP_ORDER, counted)
    cells = read_table(folder.storage, RunFolder.PER_ORDER, CELL_COLUMNS, order)
    if not cells.num_rows:  # none is deeper
        cells = read_table(folder.storage, RunFolder.HISTOGRAM, CELL_COLUMNS)
    return PointMap.from_cells(*(cells[name].to_numpy() for name in CELL_COLUMNS))


def margin_files(folder: RunFolder) -> pa.Table:
    """Return the files of the margins that a run made, as `FILES_SCHEMA`; none if it is to make none.

    Raises
    ------
    StepError
        If the margin step has not run.
    """
    if not FrozenRun.of(folder).spec.margin.arcsec:
        return FILES_SCHEMA.empty_table()
    if not folder.storage.is_file(MARGIN_FILES):
        raise StepError(f"{folder.uri_of(MARGIN_FILES)} does not exist; run the margin step first")
    return read_table(folder.storage, MARGIN_FILES)
