"""The draft of a version: metadata.json as the run folder says it should be. Verified, then committed."""

from __future__ import annotations

import pyarrow.compute as pc

from hipslake.catalog.describe import describe_group
from hipslake.catalog.metadata import CatalogMetadata, Index, Margin, Rejects
from hipslake.catalog.schema import check_columns
from hipslake.specs.catalog_spec import CatalogSpec
from hipslake.steps.index.request import BuiltIndices
from hipslake.steps.ingest.histogram_request import HistogramReport, HistogramRequest
from hipslake.steps.ingest.version_metadata import assembled, check_total, increment_of, marks_of_run
from hipslake.steps.ingest.write_request import WriteReport, WriteRequest
from hipslake.steps.margin.margin_draft import margins_made
from hipslake.steps.run import RunFolder
from hipslake.steps.tables import read_table
from hipslake.storage.folder import Storage


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
    increment = increment_of(
        folder,
        run,
        inputs,
        key=None,  # it is the whole, not what came in the run's interval
        end=None,
        write_id=run.write_id,
        ordinal=0,
        rows=written.rows_out,
        rejects=Rejects(rows=written.rows_rejected, path=written.rejects_path, reasons=written.rejected),
    )
    metadata = assembled(
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
    check_total(
        metadata,
        f"the write step says {written.rows_out} rows",
        {"the source less the rejects": increment.sources.rows - increment.rejects.rows},
        mend="Start a new run",
    )
    return metadata


def _indices_of(folder: RunFolder, spec: CatalogSpec) -> tuple[Index, ...]:
    """What the index step has built, if the spec asks for it."""
    return folder.read(RunFolder.INDICES, BuiltIndices).indices if spec.index else ()
