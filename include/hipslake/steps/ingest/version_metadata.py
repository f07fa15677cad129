"""The metadata of a version from its parts: what every draft has, whole or increment."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import NamedTuple

import pyarrow as pa

from hipslake.catalog.checksums import HIDDEN_CHECKSUMS, checksum_list, list_folder
from hipslake.catalog.co_partitioning import marks_after, marks_of
from hipslake.catalog.coverage import coverage_table
from hipslake.catalog.describe import MAX_INLINE, describe_position, describe_sources
from hipslake.catalog.metadata import (
    CatalogMetadata,
    CoPartitioned,
    EarlierIncrements,
    GroupMetadata,
    Increment,
    Index,
    Margin,
    Rejects,
)
from hipslake.catalog.metadata.increments import LISTED_AGAIN, MOST_LISTED, set_aside
from hipslake.catalog.partitions import write_sidecar
from hipslake.errors import VerificationError
from hipslake.specs.catalog_spec import CatalogSpec
from hipslake.steps.ingest.coverage import coverage_of
from hipslake.steps.ingest.histogram_request import HistogramReport
from hipslake.steps.ingest.split_table import SplitTable
from hipslake.steps.run import FrozenInputs, FrozenRun, RunFolder
from hipslake.storage.folder import Storage


def increment_of(
    folder: RunFolder,
    run: FrozenRun,
    inputs: FrozenInputs,
    *,
    key: str | None,
    end: str | None,
    write_id: str,
    ordinal: int,
    rows: int,
    rejects: Rejects,
    max_inline: int = MAX_INLINE,
) -> Increment:
    """Describe the rows of a run; sidecars are written.

    Parameters
    ----------
    folder : RunFolder
        Of a run whose histogram step is done.
    run : FrozenRun
    inputs : FrozenInputs
    key : str or None
        Start of the interval that the rows are of; None for the whole.
    end : str or None
        End of that interval; None where it is open, and for the whole.
    write_id : str
        The write that holds the rows; sidecars go into its folder.
    ordinal : int
    rows : int
        Without those that were rejected.
    rejects : Rejects
    max_inline : int
        Most source files that are listed in metadata.json itself.
    """
    storage = Storage.at(run.catalog_uri)
    if rejects.path is not None:
        listing = checksum_list(list_folder(storage, rejects.path))
        storage.write(f"{rejects.path}/{HIDDEN_CHECKSUMS}", listing)
    return Increment(
        ordinal=ordinal,
        key=key,
        end=end,
        rows=rows,
        write_id=write_id,
        fingerprint=inputs.fingerprint,
        sources=describe_sources(
            _source_rows(folder, inputs), storage=storage, write_id=write_id, max_inline=max_inline
        ),
        rejects=rejects,
        coverage=write_sidecar(storage, write_id, "coverage", _coverage(folder, run.spec)),
    )


def assembled(
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
    marks : tuple of CoPartitioned
        Those that the rows of the run have.
    indices : tuple of Index
    version, parent : int
        The number of the version, and of the newest one before it.
    created : datetime
    """
    spec = run.spec
    increments = with_increment(base, increment, Storage.at(run.catalog_uri))
    return CatalogMetadata(
        catalog=run.catalog,
        version=version,
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
        total_rows=increments.total_rows,
        total_bytes=sum(group.bytes for group in groups),
        groups=groups,
        earlier=increments.earlier,
        increments=increments.listed,
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


def _coverage(folder: RunFolder, spec: CatalogSpec) -> pa.Table:
    """Where the rows of the run lie, as `COVERAGE_SCHEMA`."""
    return coverage_table(coverage_of(folder, spec))


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
