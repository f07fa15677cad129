"""Publish: commit what a run wrote as the catalog's next version. Until then no reader sees any of it."""

from __future__ import annotations

import logging
from contextlib import ExitStack

from hipslake.catalog.committing import commit_next, committed_before
from hipslake.catalog.coverage import coverage_map
from hipslake.catalog.hats.known_leaves import NOTHING_KNOWN
from hipslake.catalog.hats.skymap import write_skymap
from hipslake.catalog.layouts import skymap_path
from hipslake.catalog.metadata import CatalogMetadata
from hipslake.catalog.view_tree import lies_in_own_write
from hipslake.errors import ConflictError, VerificationError, VersionNotFoundError
from hipslake.specs.catalog_spec import Layout
from hipslake.steps.frozen_run import FrozenRun
from hipslake.steps.ingest.draft import draft_version
from hipslake.steps.ingest.leaf_ends import stored_ends
from hipslake.steps.ingest.request import PublishReport, PublishRequest, WriteReport, WriteRequest
from hipslake.steps.report import Phases
from hipslake.steps.run import RunFolder
from hipslake.steps.upkeep.hats_view import write_hats_files
from hipslake.steps.upkeep.pointers import point_at_newest
from hipslake.steps.upkeep.request import VerifyReport, VerifyRequest
from hipslake.storage.folder import Storage
from hipslake.storage.small_files import beside
from hipslake.versions.heartbeat import HEARTBEAT, Heartbeat
from hipslake.versions.log import VersionLog
from hipslake.versions.orphans import delete_temporary_files
from hipslake.versions.pins import keep_for_reading

log = logging.getLogger(__name__)


def run(request: PublishRequest) -> PublishReport:
    """Commit.

    Run again, also after it was killed between the commit and its report, it finds the version that its write
    id stands for and only mends the pointers.

    Raises
    ------
    VerificationError
        If the run was not verified.
    ConflictError
        If others kept committing first.
    """
    phases = Phases()
    folder = request.folder
    frozen = FrozenRun.of(folder)
    catalog = Storage.at(frozen.catalog_uri)
    seen = VersionLog(catalog).newest() or 0
    metadata = committed_before(catalog, [frozen.write_id]) if seen else None
    committed: bytes | None = None
    if metadata is None:
        _check_verified(folder)
        with ExitStack() as stack:
            _hold_base(stack, folder, catalog)
            heartbeat = stack.enter_context(Heartbeat(catalog, frozen.write_id, rest=False))
            with phases("files"):
                draft = draft_version(folder, parent=seen or None)
                _write_files(folder, catalog, draft)
                delete_temporary_files(catalog, frozen.write_id, 0, recursive=True)  # of killed attempts
            with phases("commit"):
                numbered = _Numbered(catalog, draft)
                metadata = commit_next(catalog, heartbeat, numbered.next, seen=seen)
                if metadata is numbered.draft:  # and no other attempt has committed it
                    committed = metadata.to_json()
    else:  # an attempt was killed after its commit; its heart beats no more
        catalog.delete(catalog.join(frozen.write_id, HEARTBEAT))
    with phases("pointers"):
        newest = point_at_newest(catalog, known=metadata.version, committed=committed)
    log.info("Version %d of %s is published; the newest is %d.", metadata.version, frozen.catalog_uri, newest)
    return PublishReport(
        rows_in=metadata.rows_read,
        rows_out=metadata.total_rows,
        rows_rejected=metadata.rows_rejected,
        rows_superseded=metadata.rows_superseded,
        bytes=metadata.total_bytes,
        files=sum(group.files for group in metadata.groups),
        version=metadata.version,
        parent=metadata.parent,
        catalog_uri=frozen.catalog_uri,
        skymaps=tuple(catalog.uri(skymap_path(frozen.write_id, group.name)) for group in metadata.groups),
        seconds=phases.seconds,
    )


def _check_verified(folder: RunFolder) -> None:
    """Check that the files of this very write were verified: the fingerprint covers the write id."""
    path = RunFolder.report_path(VerifyRequest.step)
    verified = folder.read(path, VerifyReport) if folder.storage.is_file(path) else VerifyReport(ok=False)
    if not verified.ok or verified.fingerprint != VerifyRequest(run_uri=folder.uri).fingerprint():
        raise VerificationError(f"{folder.uri} was not verified, or not well; clear its verify task")


def _hold_base(held: ExitStack, folder: RunFolder, catalog: Storage) -> None:
    """Keep the version from vacuums whose leaf files the run names again, until another one names them."""
    base = folder.read(RunFolder.report_path(WriteRequest.step), WriteReport).base_version
    if base is None:
        return
    try:
        keep_for_reading(held, catalog, base)
    except VersionNotFoundError as error:
        raise ConflictError(
            f"{error}. The run names leaf files of that version; nothing is published: clear it from its "
            "first task, or start a new one"
        ) from None


def _write_files(folder: RunFolder, catalog: Storage, metadata: CatalogMetadata) -> None:
    """Write what goes with the leaf files, into the folder that nobody looks into yet."""
    with beside(catalog) as begin:  # a disk makes nobody wait, and two threads of Python make each other
        begin(lambda: _write_hats_files(folder, catalog, metadata))
        for group in metadata.groups:
            write_skymap(catalog, metadata, group.name)


def _write_hats_files(folder: RunFolder, catalog: Storage, metadata: CatalogMetadata) -> None:
    # Where leaves lie in other writes, the tree is built by the step `view`, which names them here first.
    if metadata.layout is Layout.HATS and lies_in_own_write(metadata):
        known = NOTHING_KNOWN._replace(written=stored_ends(folder))
        write_hats_files(catalog, metadata, coverage_map(metadata.increments[0], catalog), known)


class _Numbered:
    """A version that is built from the source alone: what others commit only moves its number."""

    def __init__(self, catalog: Storage, draft: CatalogMetadata) -> None:
        self._log, self.draft = VersionLog(catalog), draft
        self._is_first = True

    def next(self) -> CatalogMetadata:
        """The version after the newest one; the first time, after the one that was the newest at first."""
        if not self._is_first:
            parent = self._log.newest()
            self.draft = self.draft.model_copy(update={"version": (parent or 0) + 1, "parent": parent})
        self._is_first = False
        return self.draft
