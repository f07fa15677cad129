"""Export: rows of a published version go to one file. Needs no Spark; for many rows it reads with it."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import ClassVar

import pyarrow as pa
from pydantic import AwareDatetime, Field

from hipslake.catalog.catalog_reader import CatalogReader
from hipslake.catalog.exporting import Export
from hipslake.catalog.metadata import CatalogMetadata
from hipslake.exports.writers import Exported
from hipslake.specs.base import NAME_PATTERN
from hipslake.steps.export.outputs import output_uri, refuse_published
from hipslake.steps.given_files import check_region
from hipslake.steps.report import Phases, Report, Request
from hipslake.steps.run import catalog_uri, now_utc
from hipslake.storage.folder import Storage
from hipslake.versions.log import VersionLog
from hipslake.versions.pins import pinning

MARKS = "export/marks"
"""In the run folder: the marks of the files that its attempts have made at the output."""


class ExportRequest(Request):
    """Export rows of a catalog."""

    step: ClassVar[str] = "export"
    reads_sources: ClassVar[bool] = False

    warehouse: str
    catalog: str = Field(pattern=NAME_PATTERN)
    version: int | None = None  # None: the newest
    region: str | None = None
    columns: tuple[str, ...] | None = None
    filters: str | None = None
    format: str | None = None  # None: by the ending of the output
    output: str  # a path or a URI; a relative path lies below `exports/` of the warehouse
    overwrite: bool = False
    task_bytes: int = Field(default=256 << 20, ge=1)  # of leaf files that one task of Spark reads
    created: AwareDatetime = Field(default_factory=now_utc)

    def fingerprint(self) -> str:
        """Return the digest of what is asked for, whenever that was."""
        return self.digest(without={"created"})

    @property
    def output_uri(self) -> str:
        """Where the file goes.

        Raises
        ------
        SpecError
            It is no file, or it lies among the catalogs or other things of the warehouse.
        """
        return output_uri(self.warehouse, self.output)


class ExportReport(Report):
    """Rows in and out: the rows that were exported. Bytes: of the file."""

    step: str = ExportRequest.step
    version: int | None = None
    catalog_uri: str = ""
    output: str = ""


def run(request: ExportRequest) -> ExportReport:
    """Export in this process, leaf by leaf.

    Run again, also after it was killed before its report, it writes the file anew.

    Raises
    ------
    CatalogNotFoundError, VersionNotFoundError
        If there is no such catalog or version.
    SpecError
        If the region, a filter, the format or the output makes no sense.
    SchemaMismatchError
        If there is no such column, or the format has no form for one.
    NotWritableError
        If something lies at the output already.
    """
    phases = Phases()
    with preparing(request, phases) as export:
        with phases("write"):
            exported = written(request, export, export.rows())
        return report_of(export, exported, phases)


def written(request: ExportRequest, export: Export, rows: Iterable[pa.Table]) -> Exported:
    """Write the rows of an export where nothing stands but, maybe, what an earlier attempt has left.

    Raises
    ------
    NotWritableError
        Somebody else has written there meanwhile, and is not to be overwritten.
    """
    folder = request.folder.storage

    def note(mark: str) -> None:
        folder.write(folder.join(MARKS, f"{secrets.token_hex(4)}.txt"), mark.encode())

    if not request.overwrite and _stands_by_this_run(request, export):
        place, name = Storage.of_file(export.uri)
        place.delete(name)
    return export.write(rows, overwrite=request.overwrite, note=note)


def _stands_by_this_run(request: ExportRequest, export: Export) -> bool:
    """Whether an attempt at this run made what lies at the output."""
    marks = request.folder.storage.list(MARKS)
    if not marks:
        return False
    place, name = Storage.of_file(export.uri)
    try:
        standing = place.mark_of(name)
    except FileNotFoundError:
        return False
    return standing in {request.folder.storage.read(entry.path).decode() for entry in marks}


@contextmanager
def preparing(request: ExportRequest, phases: Phases) -> Iterator[Export]:
    """Resolve an export and look whether it can be written; no vacuum takes its version while the block runs.

    Errors as of `run`.
    """
    root = Storage.at(catalog_uri(request.warehouse, request.catalog))
    with phases("prepare"):
        metadata = CatalogMetadata.from_json(VersionLog(root).read(request.version), where=root.uri())
        refuse_published(request.output_uri)
        export = export_of(request, CatalogReader(root, metadata))
        export.check(overwrite=request.overwrite or _stands_by_this_run(request, export))
    with pinning(root) as pin:
        pin.hold(metadata.version)
        yield export


def export_of(request: ExportRequest, catalog: CatalogReader) -> Export:
    """Return the export that a request asks for, of a catalog."""
    check_region(request.region, request.warehouse)
    return Export.of(
        catalog,
        request.output_uri,
        region=request.region,
        columns=request.columns,
        filters=request.filters,
        format=request.format,
    )


def report_of(export: Export, exported: Exported, phases: Phases) -> ExportReport:
    """Return the report of an export that was written."""
    return ExportReport(
        rows_in=exported.rows,
        rows_out=exported.rows,
        bytes=exported.bytes,
        files=1,
        version=export.catalog.version,
        catalog_uri=export.catalog.uri,
        output=exported.uri,
        seconds=phases.seconds,
    )


def bytes_to_export(request: ExportRequest) -> int:
    """Return how many bytes of leaf files an export reads; who asks decides where it runs."""
    root = catalog_uri(request.warehouse, request.catalog)
    return sum(part.bytes for part in export_of(request, CatalogReader.open(root, request.version)).parts())
