"""Verify: read back what a run wrote, before it is published, or any published version. Needs no Spark."""

from __future__ import annotations

from typing import ClassVar

from hipslake.catalog.checks.findings import ExpectedTotals, VerificationReport
from hipslake.catalog.metadata import CatalogMetadata
from hipslake.catalog.verification import verify_catalog
from hipslake.errors import VerificationError
from hipslake.steps.draft import draft_version
from hipslake.steps.histogram import HistogramReport, HistogramRequest
from hipslake.steps.report import Phases, Report, Request
from hipslake.steps.run import RunFolder
from hipslake.steps.write import WriteReport, WriteRequest
from hipslake.storage import Storage
from hipslake.versions.log import VersionLog


class VerifyRequest(Request):
    """Verify what the run wrote; or, where a catalog is given, a published version of it."""

    step: ClassVar[str] = "verify"
    reusable: ClassVar[bool] = False  # files can be damaged after they were verified

    catalog_uri: str | None = None
    version: int | None = None  # None: the newest

    def fingerprint(self) -> str:
        """Return the run's fingerprint, or, for a published version, that of the request itself."""
        if self.catalog_uri is None:
            return super().fingerprint()
        return self.digest()


class VerifyReport(Report):
    """Rows in: the rows that the metadata promises. Rows out: the rows found."""

    step: str = VerifyRequest.step
    version: int | None = None  # None: a run that is not published yet
    catalog_uri: str = ""


def run(request: VerifyRequest) -> VerifyReport:
    """Verify in this process.

    Raises
    ------
    VerificationError
        If anything is not as it should be; the message lists what.
    """
    phases = Phases()
    catalog, metadata = subject(request)
    with phases("verify"):
        found = verify_catalog(catalog, metadata, expected=expected_totals(request))
    return conclude(request, metadata, found, phases)


def subject(request: VerifyRequest) -> tuple[Storage, CatalogMetadata]:
    """Return the root of the catalog to verify, and the metadata to hold its files against."""
    if request.catalog_uri is None:
        return Storage.at(request.folder.run().catalog_uri), draft_version(
            request.folder, version=1, parent=None
        )
    catalog = Storage.at(request.catalog_uri)
    data = VersionLog(catalog).read(request.version)
    return catalog, CatalogMetadata.from_json(data, where=catalog.uri())


def expected_totals(request: VerifyRequest) -> ExpectedTotals | None:
    """Return what the run read from its source; None for a published version, which says so itself."""
    if request.catalog_uri is not None:
        return None
    counted = request.folder.read(RunFolder.report_path(HistogramRequest.step), HistogramReport)
    return ExpectedTotals(rows_read=counted.rows_in, rows_rejected=counted.rows_rejected)


def conclude(
    request: VerifyRequest, metadata: CatalogMetadata, found: VerificationReport, phases: Phases
) -> VerifyReport:
    """Return the report of a verification that found nothing wrong; raise what another found.

    All problems are kept in the run folder. What a run wrote is then not taken over by a later attempt: its
    write step has to write again.

    Raises
    ------
    VerificationError
        If anything is wrong; the message lists the first problems.
    """
    folder = request.folder
    catalog_uri = request.catalog_uri or folder.run().catalog_uri
    folder.write(RunFolder.FINDINGS, found)
    if not found.ok:
        mend = "restore the files, or ingest again with `force`"
        if request.catalog_uri is None:
            folder.storage.delete(RunFolder.report_path(WriteRequest.step))
            mend = "nothing is published; clear the write task to write again"
        try:
            found.raise_if_failed()
        except VerificationError as error:
            raise VerificationError(
                f"{error}\n{mend}. All problems: {folder.uri_of(RunFolder.FINDINGS)}"
            ) from None
    return VerifyReport(
        rows_in=metadata.total_rows,
        rows_out=found.rows,
        bytes=found.bytes,
        files=found.files,
        version=metadata.version if request.catalog_uri is not None else None,
        catalog_uri=catalog_uri,
        seconds=phases.seconds,
    )


def bytes_to_read(request: VerifyRequest) -> int:
    """Return how many bytes a verification reads; who asks decides where it runs."""
    if request.catalog_uri is None:
        return request.folder.read(RunFolder.report_path(WriteRequest.step), WriteReport).bytes
    return subject(request)[1].total_bytes
