"""Repair: rewrite files that can be derived from others of a catalog; data and versions never change.

That is: pointers and the list of checksums, the view of readers that go by folders, coverages of increments,
the HATS files of indices, the note of tombstones, and the newest version's file where `metadata.json` is a
copy of it.

Runs may work beside it. Whatever belongs to a version is written while that is pinned, so no vacuum takes it
away meanwhile; pointers are published as by any run, and never go back; all other files say the same whoever
writes them, and are replaced whole.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import pyarrow as pa

from hipslake.catalog.checks.findings import Problem
from hipslake.catalog.checks.log_checks import WholeLog, read_whole_log, readable_increments
from hipslake.catalog.coverage import count_anew
from hipslake.catalog.hats.skymap import write_skymap
from hipslake.catalog.hats.view_files import (
    extension_path,
    hats_index_files,
    write_hats_group,
    write_hats_margin,
)
from hipslake.catalog.layouts import HATS, skymap_path, tree_marker
from hipslake.catalog.metadata import CatalogMetadata, Margin
from hipslake.catalog.verification import problems_beside
from hipslake.catalog.view_tree import marker_text, tree_markers
from hipslake.errors import CatalogNotFoundError, HipslakeError, VersionNotFoundError
from hipslake.specs.base import Frozen
from hipslake.specs.catalog_spec import Layout
from hipslake.steps.report import Phases
from hipslake.steps.run import catalog_uri
from hipslake.steps.upkeep.hats_view import point_map_of, second_name
from hipslake.steps.upkeep.pointers import SHA256SUMS, checksums, point_at_newest, unchanged_of
from hipslake.steps.upkeep.request import RepairReport, RepairRequest
from hipslake.steps.upkeep.verify import problems_around
from hipslake.storage.folder import Storage
from hipslake.versions.log import RootPointers, VersionLog
from hipslake.versions.log_files import (
    POINTER,
    TOMBSTONES,
    read_tombstone_list,
    tombstone,
    version_number,
    version_path,
    write_tombstone_list,
)
from hipslake.versions.ordinals import ORDINALS, claim_text
from hipslake.versions.pins import Pin, pinning

log = logging.getLogger(__name__)

_FAILURES = (HipslakeError, FileNotFoundError, pa.ArrowException)


class RepairOutcome(Frozen):
    """What a repair mended, or in a dry run would try to mend; and what is wrong that it cannot mend."""

    dry_run: bool
    mended: tuple[Problem, ...]
    left: tuple[Problem, ...]


def run(request: RepairRequest) -> RepairReport:
    """Mend.

    Raises
    ------
    CatalogNotFoundError
        If nothing is published.
    """
    phases = Phases()
    catalog = Storage.at(catalog_uri(request.warehouse, request.catalog))
    with phases("repair"):
        outcome = repair_catalog(catalog, dry_run=request.dry_run)
    return RepairReport(
        files=len(outcome.mended),
        dry_run=outcome.dry_run,
        mended=outcome.mended,
        left=outcome.left,
        problems_left=len(outcome.left),
        catalog_uri=catalog.uri(),
        text=told(outcome),
        seconds=phases.seconds,
    )


def told(outcome: RepairOutcome) -> str:
    """Return an outcome in words."""
    lines = [f"{'Would mend' if outcome.dry_run else 'Mended'} {len(outcome.mended)} files."]
    lines += [f"  {problem.path}: {problem.message}" for problem in outcome.mended]
    if outcome.left:
        lines.append(f"{len(outcome.left)} problems are left, which no other file can mend:")
        lines += [f"  {problem}" for problem in outcome.left]
    lines.append("Leaf files were not read: that is what `verify` does.")
    return "\n".join(lines)


def repair_catalog(catalog: Storage, *, dry_run: bool = True) -> RepairOutcome:
    """Mend what other files of a catalog say; leaf files and older versions are never touched.

    Parameters
    ----------
    catalog : Storage
        At the catalog's root.
    dry_run : bool
        Only say what would be mended, as things stand; nothing is written.

    Raises
    ------
    CatalogNotFoundError
        Nothing was ever committed here.
    StorageError
        The store did not answer.
    """
    if VersionLog(catalog).newest() is None:
        raise CatalogNotFoundError(f"{catalog.uri()}: nothing is published here; check the path")
    found = _Found.of(catalog)
    wrong = [problem for problem in found.problems if problem.repairable]
    if dry_run:
        left = tuple(problem for problem in found.problems if not problem.repairable)
        return RepairOutcome(dry_run=True, mended=tuple(wrong), left=left)
    if wrong:
        _mend(catalog, found, {problem.path for problem in wrong})
        found = _Found.of(catalog)
    left = tuple(found.problems)
    still = {problem.path for problem in left}
    mended = tuple(problem for problem in wrong if problem.path not in still)
    return RepairOutcome(dry_run=False, mended=mended, left=left)


@dataclass(frozen=True)
class _Found:
    """The log, and what is wrong with a catalog, but for its leaf files."""

    log: WholeLog
    problems: list[Problem]

    @classmethod
    def of(cls, catalog: Storage) -> _Found:
        whole = read_whole_log(catalog)
        problems = [*whole.problems, *problems_beside(catalog, whole)]
        newest = whole.kept.get(whole.newest)
        if newest is None:
            with suppress(HipslakeError):
                newest = CatalogMetadata.from_json(VersionLog(catalog).read())
        if newest is not None:
            problems += problems_around(catalog, newest, problems)
        once: dict[str, Problem] = {}
        for problem in problems:  # a file is named once, by what can be mended if anything can
            key = problem.path or problem.message
            if key not in once or problem.repairable:
                once[key] = problem
        return cls(whole, list(once.values()))


def _mend(catalog: Storage, found: _Found, paths: Collection[str]) -> None:
    """Write anew what is wrong, in such an order that each finds what it is derived from."""
    _mend_log(catalog, found.log, paths)
    whole = read_whole_log(catalog)
    with pinning(catalog) as pin:
        kept = _held(pin, whole.kept.values())
        _mend_coverages(catalog, kept, paths)
        _mend_indices(catalog, kept, paths)
        for metadata in kept:
            mine = {path for path in paths if path.startswith(f"{metadata.write_id}/")}
            if mine:
                with _trying(f"The view of version {metadata.version}"):
                    build_anew(catalog, metadata, mine)
        with _trying("RootPointers"):
            _point(catalog)


@contextmanager
def _trying(what: str) -> Iterator[None]:
    """Let a repair fail where other files are damaged too: it is logged, and the others are still tried."""
    try:
        yield
    except _FAILURES as error:
        log.warning("%s cannot be mended: %s", what, error)


def _held(pin: Pin, versions: Iterable[CatalogMetadata]) -> list[CatalogMetadata]:
    """Those of some versions that no vacuum has taken away, and none will; the newest first."""
    held = []
    for metadata in sorted(versions, key=lambda each: each.version, reverse=True):
        with suppress(VersionNotFoundError):
            pin.hold(metadata.version)
            held.append(metadata)
    return held


def _mend_log(catalog: Storage, whole: WholeLog, paths: Collection[str]) -> None:
    """Tombstones from the list of them, that list from tombstones, the newest version from its copy."""
    known = read_tombstone_list(catalog).vacuumed
    for path in paths:
        number = version_number(path)
        if number is None:
            continue
        if number in known and number < whole.newest:  # a tombstone stays one
            catalog.write(path, tombstone(number, known[number]))
        elif number == whole.newest:
            _restore(catalog, number)
    if TOMBSTONES in paths:
        stones = {number: stone.write_id for number, stone in whole.tombstones.items() if stone.sound}
        write_tombstone_list(catalog, {**known, **stones})
    for path in paths:
        if path.startswith(f"{ORDINALS}/"):
            _claim(catalog, path, whole)


def _restore(catalog: Storage, number: int) -> None:
    """Write the newest version's file from `metadata.json`, which was found to be a copy of it.

    No vacuum takes the newest version away; and none takes any while this file cannot be read.
    """
    copy = catalog.read(POINTER)
    if not catalog.create(version_path(number), copy) and VersionLog(catalog).newest() == number:
        catalog.write(version_path(number), copy)


def _claim(catalog: Storage, path: str, whole: WholeLog) -> None:
    """Claim an ordinal that an increment has; a claim of none is taken back, as by a run that died."""
    number = int(path.rpartition("/")[2].removesuffix(".json"))
    versions = whole.kept.values()
    known = (each for metadata in versions for each in readable_increments(metadata, catalog))
    owners = {each.ordinal: each.write_id for each in known}
    catalog.write(path, claim_text(number, owners.get(number, "unknown")))


def _mend_coverages(catalog: Storage, kept: Iterable[CatalogMetadata], paths: Collection[str]) -> None:
    """Count rows anew, for all lost coverages of a version in one pass."""
    todo = set(paths)
    for metadata in kept:
        increments = readable_increments(metadata, catalog)
        lost = [each for each in increments if each.coverage is not None and each.coverage.path in todo]
        if lost:
            with _trying(f"The coverage of version {metadata.version}"):
                for sidecar, data in count_anew(catalog, metadata, lost):
                    catalog.write(sidecar.path, data)
                    todo.discard(sidecar.path)


def _mend_indices(catalog: Storage, kept: Iterable[CatalogMetadata], paths: Collection[str]) -> None:
    todo = set(paths)
    for metadata in kept:
        for index in metadata.indices:
            if todo.isdisjoint(index.others):
                continue
            write, files = index.others[0].partition("/")[0], {}
            with _trying(f"The HATS view of the index of {index.column}"):
                files = hats_index_files(catalog, metadata, index, write)
            if files:
                for path in index.others:
                    catalog.write(path, files[path])
                todo.difference_update(index.others)


def _point(catalog: Storage) -> None:
    """Publish the pointers; those to trees only where that of the newest version is not damaged still."""
    newest = CatalogMetadata.from_json(VersionLog(catalog).read())
    around = {problem.path for problem in problems_beside_newest(catalog, newest)}
    if around & set(tree_markers(newest)):
        VersionLog(catalog).publish_pointers(
            lambda data: RootPointers(files={SHA256SUMS: checksums(CatalogMetadata.from_json(data))})
        )
    else:
        point_at_newest(catalog, hats_view=True)


def problems_beside_newest(catalog: Storage, newest: CatalogMetadata) -> list[Problem]:
    """Return what is wrong with what lies beside the leaf files of the newest version."""
    return list(problems_beside(catalog, WholeLog(newest=newest.version, kept={newest.version: newest})))


def build_anew(catalog: Storage, metadata: CatalogMetadata, paths: Collection[str]) -> None:
    """Write files of a version's tree anew: names of leaf files, HATS files, markers, pictures.

    A name is given again only to a leaf file that is, by its checksum, the one that the version names.

    Parameters
    ----------
    catalog : Storage
        At the catalog's root.
    metadata : CatalogMetadata
        Of a version that is pinned.
    paths : collection of str
        What is wrong; what is no part of the tree is left alone.

    Raises
    ------
    HipslakeError, pyarrow.ArrowException, FileNotFoundError
        A leaf file, or a coverage, is damaged.
    """
    wrong = set(paths)
    write = metadata.write_id
    for group in metadata.with_files:
        _name_again(catalog, metadata, group.table(catalog), wrong)
    if metadata.layout is Layout.HATS:
        point_map = None
        for group in metadata.with_files:
            root = HATS.group_root(write, group.name)
            mine = {path for path in wrong if path.startswith(f"{root}/") and "/dataset/Norder=" not in path}
            if isinstance(group, Margin):
                if mine:
                    write_hats_margin(catalog, metadata, group)
            elif mine or extension_path(write, group.name) in wrong:
                point_map = point_map or point_map_of(catalog, metadata, None)
                write_hats_group(catalog, metadata, group.name, point_map)
    elif tree_marker(write) in wrong:
        catalog.write(tree_marker(write), marker_text(metadata))
    for group in metadata.groups:
        if skymap_path(write, group.name) in wrong:
            write_skymap(catalog, metadata, group.name)


def _name_again(catalog: Storage, metadata: CatalogMetadata, partitions: pa.Table, wrong: set[str]) -> None:
    """Put leaf files of older writes into the tree where they are missing, or others stand in their place."""
    paths, in_tree = metadata.paths.of_other_writes(metadata.write_id, partitions["path"])
    sums = dict(zip(partitions["path"].to_pylist(), partitions["sha256"].to_pylist(), strict=True))
    for path, target in zip(paths.to_pylist(), in_tree.to_pylist(), strict=True):
        if target in wrong and catalog.sha256(path) == sums[path]:
            catalog.delete(target)
            second_name(catalog, (path, target), unchanged_of(metadata))
