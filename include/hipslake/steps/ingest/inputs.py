"""Inputs: freeze the list of source files and take the fingerprint of the run.

The fingerprint covers the spec, the library version and, for every file, its URI, size and stamp: a step's
output is taken over only where all of it is the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from hipslake.catalog.committing import described_version
from hipslake.sources import open_source
from hipslake.sources.source_file import SourceFile
from hipslake.specs.catalog_spec import CatalogSpec
from hipslake.steps.frozen_run import FrozenInputs, FrozenObjects, FrozenRun
from hipslake.steps.ingest.request import InputsReport, InputsRequest
from hipslake.steps.ingest.source_checks import check_source
from hipslake.steps.known_catalog import known_catalog
from hipslake.steps.listed_ahead import Listed, listed_ahead
from hipslake.steps.listed_files import MOST_NAMED, list_files
from hipslake.steps.published import number_if_made_of
from hipslake.steps.report import Phases
from hipslake.steps.run import RunFolder, fingerprint_of
from hipslake.storage.folder import Storage
from hipslake.storage.small_files import beside
from hipslake.versions.heartbeat import abandon
from hipslake.versions.log import VersionLog


def run(request: InputsRequest) -> InputsReport:
    """Freeze the files.

    Raises
    ------
    SourceNotFoundError
        If no file matches the source's URI, unless the spec lets empty intervals pass.
    SchemaMismatchError, ReservedColumnError, SpecError, CorruptFileError
        If the files have not the columns that the spec names: see `check_source`.
    """
    phases = Phases()
    frozen = FrozenRun.of(request.folder)
    by_intervals, catalog = frozen.spec.mode.by_intervals, Storage.at(frozen.catalog_uri)
    may_be_empty = by_intervals and frozen.spec.on_empty != "fail"
    with phases("list"), beside(catalog) as begin:
        known = known_catalog(request.run_uri)
        ahead = None if request.files else listed_ahead(request.run_uri, frozen.source)
        found, newest = known.newest, None
        if found is None or ahead is None:  # else the step before has read it a moment ago
            look = partial(VersionLog(catalog).read_newest, found)
            newest = begin(look) if by_intervals or not frozen.force else None
        listed = None if ahead is None else ahead.taken()
        if listed is None:
            files, passed_over = list_files(frozen.source, request.files, may_be_empty=may_be_empty)
            listed = Listed(files, passed_over, open_source(frozen.source))
        files, passed_over, source = listed
        found = found if newest is None else newest.result()
    fingerprint = run_fingerprint(
        frozen.spec, frozen.library_version, files, frozen.objects, content=request.content
    )
    unchanged = None
    if found is not None and not frozen.force:
        with phases("compare"):
            unchanged = number_if_made_of(*found, catalog, frozen, fingerprint)
            if unchanged is not None and known.newest is not None:  # no commit will check what is known
                known.forget()
                found = VersionLog(catalog).read_newest()
                unchanged = number_if_made_of(*found, catalog, frozen, fingerprint) if found else None
    inputs = FrozenInputs(
        files=files, fingerprint=fingerprint, unchanged_version=unchanged, given=bool(request.files)
    )
    with beside(request.folder.storage) as begin:
        begin(lambda: request.folder.write(RunFolder.FILES, inputs))
        if unchanged is None and files:
            with phases("columns"):
                standing = described_version(catalog, *found) if by_intervals and found else None
                check_source(source, files, frozen.spec, standing, frozen.felis)
        else:  # nothing will be written, so the folder waits for no next step
            abandon(catalog, frozen.write_id)
    return InputsReport(
        files=len(files),
        bytes=inputs.total_bytes,
        run_fingerprint=fingerprint,
        unchanged_version=unchanged,
        empty=not files,
        passed_over=passed_over[:MOST_NAMED],
        passed_over_count=len(passed_over),
        seconds=phases.seconds,
    )


def run_fingerprint(
    spec: CatalogSpec,
    library_version: str,
    files: Sequence[SourceFile],
    objects: FrozenObjects | None = None,
    *,
    content: str | None = None,
) -> str:
    """Return the digest of what a version is made of and with.

    Parameters
    ----------
    spec : CatalogSpec
        With its overrides; the schedule does not count.
    library_version : str
        Version of hipslake.
    files : sequence of SourceFile
        In source order.
    objects : FrozenObjects, optional
        What the rows are placed by. Its rows count, not how they are filed: a compaction changes nothing.
    content : str, optional
        The digest of all rows, which counts in place of the files: they were written for this run alone.

    Returns
    -------
    str
        SHA-256 in hexadecimal.
    """
    listing = [[file.uri, file.size, file.stamp] for file in files] if content is None else content
    parts: list[object] = [spec.fingerprint_text(), library_version, listing]
    if objects is not None:
        parts.append([objects.catalog, *objects.writes])
    return fingerprint_of(parts)
