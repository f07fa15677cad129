"""Verify: read back what a run wrote, before it is published, or any published version."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ExitStack, suppress

from hipslake.catalog.checks.findings import (
    ExpectedTotals,
    Problem,
    ProblemKind,
    SeenFile,
    SeenFiles,
    VerificationReport,
)
from hipslake.catalog.checks.pointer_checks import surrounding_problems
from hipslake.catalog.checks.version_checks import Verification
from hipslake.catalog.foreign.foreign_metadata import ForeignMetadata
from hipslake.catalog.foreign.foreign_verification import verify_foreign
from hipslake.catalog.metadata import CatalogMetadata
from hipslake.catalog.verification import verify_catalog, verify_log
from hipslake.catalog.view_tree import tree_markers, writes_of_pointers
from hipslake.engine.model import Engine
from hipslake.errors import CatalogFormatError, VerificationError, VersionNotFoundError
from hipslake.steps.frozen_run import FrozenRun
from hipslake.steps.ingest.draft import draft_version
from hipslake.steps.ingest.request import HistogramReport, HistogramRequest, WriteReport, WriteRequest
from hipslake.steps.margin.request import MarginReport, MarginRequest
from hipslake.steps.published import version_gone_on_from
from hipslake.steps.report import Phases
from hipslake.steps.run import RunFolder
from hipslake.steps.upkeep.pointers import TREE_POINTERS, WHERE_TO_LOOK, pointers_of
from hipslake.steps.upkeep.request import VerifyReport, VerifyRequest
from hipslake.storage.folder import Storage
from hipslake.versions.log import VersionLog


def run(request: VerifyRequest, engine: Engine) -> VerifyReport:
    """Verify what a run wrote, or a published version.

    Raises
    ------
    VerificationError
        If anything is not as it should be; the message lists what.
    StorageError
        If the store did not answer.
    """
    phases = Phases()
    catalog, metadata = subject(request)
    scratch = None if engine.holds_exchanges else request.folder.storage
    if request.catalog_uri is None:
        counted = request.folder.read(RunFolder.report_path(HistogramRequest.step), HistogramReport)
        expected = ExpectedTotals(
            rows_read=counted.rows_in,
            rows_rejected=counted.rows_rejected,
            rows_superseded=counted.rows_superseded,
        )
        with ExitStack() as held:
            seen = _verified_before(held, request.folder, catalog, metadata)
            found = verify_catalog(
                catalog, metadata, engine, expected=expected, seen=seen, scratch=scratch, phases=phases
            )
    else:
        found = verify_published(
            catalog, metadata, engine, all_versions=request.all_versions, scratch=scratch, phases=phases
        )
    return conclude(request, metadata, found, phases)


def _verified_before(
    held: ExitStack, folder: RunFolder, catalog: Storage, metadata: CatalogMetadata
) -> SeenFiles | None:
    """The files of earlier writes that a run names again: they were verified when they came."""
    if folder.read(RunFolder.report_path(WriteRequest.step), WriteReport).base_version is None:
        return None
    seen = SeenFiles()
    for each in metadata.with_files:
        for file in each.table(catalog).to_pylist():
            if not file["path"].startswith(f"{metadata.write_id}/"):
                known = SeenFile(file["rows"], file["bytes"], file["sha256"], digest=None, lost=False)
                seen.leaves[file["path"]] = known
    if metadata.margins:
        made = folder.read(RunFolder.report_path(MarginRequest.step), MarginReport)
        seen.margins_of = version_gone_on_from(held, catalog, made.base_version)
    return seen


def verify_published(
    catalog: Storage,
    metadata: CatalogMetadata,
    engine: Engine,
    *,
    all_versions: bool = False,
    scratch: Storage | None = None,
    phases: Phases | None = None,
) -> VerificationReport:
    """Verify a published version, and what stands around it.

    Parameters
    ----------
    catalog : Storage
        At the catalog's root.
    metadata : CatalogMetadata
        Of a version. If it is the newest, all that names it is looked at too.
    engine : Engine
    all_versions : bool
        Also the whole log, and every version that can be opened; each file is read once.
    scratch, phases
        As for `verify_catalog`.

    Returns
    -------
    VerificationReport
        All problems; `problem.readers` says whether readers are affected, `problem.mend` what to do.
    """
    if isinstance(metadata, ForeignMetadata):
        return verify_foreign(metadata, engine)
    seen, phases = SeenFiles() if all_versions else None, phases or Phases()
    found = verify_catalog(catalog, metadata, engine, seen=seen, scratch=scratch, phases=phases)
    found = found.with_problems(problems_around(catalog, metadata, found.problems))
    if seen is None:
        return found
    with phases("versions"):
        return verify_log(catalog, found, seen, engine, scratch=scratch)


def problems_around(
    catalog: Storage, metadata: CatalogMetadata, found: Iterable[Problem] = ()
) -> list[Problem]:
    """Return what is wrong with the file of a published version, and with what names it if it is the newest.

    Parameters
    ----------
    catalog : Storage
        At the catalog's root.
    metadata : CatalogMetadata
    found : iterable of Problem
        What is wrong with its own files. Where a tree lost its last file, it cannot be told what names it.
    """
    shown = _shown_before(catalog, metadata)
    views = [] if shown is None else _view_problems(catalog, shown)
    lost = {problem.path for problem in (*found, *views) if problem.kind is ProblemKind.VIEW}
    marks = {mark for each in (metadata, shown) if each is not None for mark in tree_markers(each)}
    not_judged = TREE_POINTERS if lost & marks else ()
    if not catalog.is_local:  # there a commit does not ask for trees: what it says comes with the step `view`
        not_judged = (*not_judged, WHERE_TO_LOOK)
    around = surrounding_problems(
        catalog, metadata, lambda newest: pointers_of(catalog, newest), not_judged=not_judged
    )
    return [*around, *views]


def _shown_before(catalog: Storage, metadata: CatalogMetadata) -> CatalogMetadata | None:
    """The version before the newest one whose tree readers are led to, if it is another's."""
    log = VersionLog(catalog)
    if log.newest() != metadata.version:
        return None
    for write_id in sorted(writes_of_pointers(catalog) - {metadata.write_id}):
        number = log.find(write_id)
        if number is not None:
            with suppress(VersionNotFoundError, CatalogFormatError):
                return CatalogMetadata.from_json(log.read(number))
    return None


def _view_problems(catalog: Storage, shown: CatalogMetadata) -> list[Problem]:
    """What is wrong with the tree of a version that is not the newest."""
    return [each for each in Verification(catalog, shown).beside if each.kind is ProblemKind.VIEW]


def subject(request: VerifyRequest) -> tuple[Storage, CatalogMetadata]:
    """Return the root of the catalog to verify, and the metadata to hold its files against."""
    if request.catalog_uri is None:
        return Storage.at(FrozenRun.of(request.folder).catalog_uri), draft_version(request.folder)
    catalog = Storage.at(request.catalog_uri)
    data = VersionLog(catalog).read(request.version)
    return catalog, CatalogMetadata.from_json(data, where=catalog.uri())


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
    catalog_uri = request.catalog_uri or FrozenRun.of(folder).catalog_uri
    folder.write(RunFolder.FINDINGS, found)
    if not found.ok:
        mend = "restore the files, or ingest again with `force`"
        if all(problem.repairable for problem in found.problems):
            mend = "start the repair of the catalog"
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
        versions=found.versions,
        catalog_uri=catalog_uri,
        seconds=phases.seconds,
    )


def bytes_to_read(request: VerifyRequest) -> int:
    """Return how many bytes a verification reads; that decides whether Spark runs the step."""
    if request.catalog_uri is None:
        written = request.folder.read(RunFolder.report_path(WriteRequest.step), WriteReport)
        return written.bytes if written.own_bytes is None else written.own_bytes
    return subject(request)[1].total_bytes
