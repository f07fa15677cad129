"""The margins of a version to come: those that a run has made, or those of the version before, changed."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from hipslake.catalog.committing import newest_version
from hipslake.catalog.describe import describe_margins
from hipslake.catalog.margin_change import MarginChange
from hipslake.catalog.metadata import CatalogMetadata, GroupMetadata, Margin
from hipslake.catalog.partitions import PARTITION_SCHEMA
from hipslake.errors import ConflictError, StepError
from hipslake.specs.margin_spec import margin_name
from hipslake.sphere.pixel_tree import PixelTree
from hipslake.steps.ingest.request import WriteReport, WriteRequest
from hipslake.steps.margin.request import MARGIN_FILES, MarginRequest
from hipslake.steps.run import FrozenRun, RunFolder
from hipslake.steps.tables import read_table
from hipslake.storage.folder import Storage


def margins_made(folder: RunFolder) -> tuple[Margin, ...]:
    """Describe the margins that a run has made, in the order of its spec.

    Raises
    ------
    StepError
        If the spec asks for some, and the margin step has not run.
    """
    run, files = folder.run(), margin_files(folder)
    group = run.spec.column_groups[0].name
    named = {margin_name(run.spec.layout, group, arcsec): arcsec for arcsec in run.spec.margin.arcsec}
    return describe_margins(named, group, files, storage=Storage.at(run.catalog_uri), write_id=run.write_id)


def changed_margins(
    run: FrozenRun,
    base: CatalogMetadata | None,
    group: GroupMetadata,
    changes: Mapping[float, MarginChange],
    *,
    worked_out_on: int | None,
    write_id: str,
) -> tuple[Margin, ...]:
    """Describe the margins of a version after a change.

    Parameters
    ----------
    run : FrozenRun
    base : CatalogMetadata or None
        The version before it; None if there is none yet.
    group : GroupMetadata
        The primary column group as it will be.
    changes : mapping of float to MarginChange
        Per distance, in the order of the margins.
    worked_out_on : int or None
        The version that the changes were worked out on; None: there was none.
    write_id : str
        The write that made the changes; sidecars are written into its folder.

    Raises
    ------
    ConflictError
        If the changes do not fit to the base.
    """
    storage = Storage.at(run.catalog_uri)
    if base is not None and {margin.radius_arcsec for margin in base.margins} != set(changes):
        raise ConflictError("another run has added or taken away a margin")
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


FILES_SCHEMA = pa.schema([("margin", pa.string()), *PARTITION_SCHEMA])


def margin_files(folder: RunFolder) -> pa.Table:
    """Return the files of the margins that a run made, as `FILES_SCHEMA`; none if it is to make none.

    Raises
    ------
    StepError
        If the margin step has not run.
    """
    if not folder.run().spec.margin.arcsec:
        return FILES_SCHEMA.empty_table()
    if not folder.storage.is_file(MARGIN_FILES):
        raise StepError(f"{folder.uri_of(MARGIN_FILES)} does not exist; run the margin step first")
    return read_table(folder.storage, MARGIN_FILES)


def missing_margins(base: CatalogMetadata, arcsec: tuple[float, ...]) -> tuple[float, ...]:
    """Return the distances at which a version has no margin."""
    return tuple(each for each in arcsec if base.margin(each) is None)


def bytes_to_read(request: MarginRequest) -> int:
    """Return how many bytes of leaf files are read at most; who asks decides where the step runs."""
    folder = request.folder
    if request.arcsec:
        base = newest_version(Storage.at(folder.run().catalog_uri))
        return base.groups[0].bytes if base else 0
    written = folder.read(RunFolder.report_path(WriteRequest.step), WriteReport)
    primary = folder.run().spec.column_groups[0].name
    if primary in written.group_bytes:
        return written.group_bytes[primary]
    files = read_table(folder.storage, RunFolder.PARTITIONS)
    return pc.sum(files.filter(pc.equal(files["group"], primary))["bytes"]).as_py() or 0
