"""The draft of a version: metadata.json as the run folder says it should be. Verified, then committed."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from hipslake.catalog.describe import describe_group, describe_position, describe_sources
from hipslake.catalog.metadata import CatalogMetadata, Increment, Rejects
from hipslake.catalog.schema import check_columns
from hipslake.errors import VerificationError
from hipslake.steps.run import FrozenInputs, RunFolder
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
        position=describe_position(spec, schema),
        total_rows=written.rows_out,
        total_bytes=sum(group.bytes for group in groups),
        groups=groups,
        increments=(Increment(ordinal=0, key=key, rows=written.rows_out, write_id=run.write_id),),
        co_partitioned=spec.co_partitioned,
        sources=sources,
        rejects=rejects,
        spec=spec.model_dump(mode="json"),
    )


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
