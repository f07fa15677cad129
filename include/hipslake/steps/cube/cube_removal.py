"""Removal from a cube: some of its partitions, some datasets, or the whole cube.

Each is a run of one step, so the request holds everything that the step depends on.
"""

from __future__ import annotations

from collections.abc import Mapping

from hipslake.cube.store.cube_commit import committed_before, read_version
from hipslake.cube.store.metadata import CubeMetadata
from hipslake.cube.store.removal import (
    check_deletable,
    delete_datasets,
    delete_files,
    files_of_partitions,
    remove_partitions,
)
from hipslake.cube.store.upkeep import DatasetStats, stats, stats_of
from hipslake.errors import ConflictError, SpecError
from hipslake.steps.cube.cube_place import name_of
from hipslake.steps.cube.request import (
    DeleteCubeRequest,
    Gone,
    RemovalReport,
    RemovalRequest,
    RemovePartitionsRequest,
    totals_of,
)
from hipslake.steps.report import Phases
from hipslake.storage.folder import Storage
from hipslake.versions.log import VersionLog

STARTED = "cube_delete/started"
"""In the run folder: the write id of the version that was the newest when the cube began to be deleted."""


def remove(request: RemovePartitionsRequest) -> RemovalReport:
    """Remove partitions, as one version; a retry finds the version that was committed.

    Raises
    ------
    CatalogNotFoundError
        There is no such cube.
    CubeError, ConditionError
        As of `hipslake.cube.store.removal.remove_partitions`; the cube is as it was.
    """
    phases, root = Phases(), request.root
    done = committed_before(root, request.run_uri)
    with phases("plan"):
        base = read_version(root, None if done is None else done.parent)
        files = files_of_partitions(root, base, request.conditions, request.datasets)
    gone = _gone({name: stats_of(base.dataset(name), table) for name, table in files.items()})
    if done is None and not request.dry_run and any(each.files for each in gone):
        with phases("commit"):
            done = remove_partitions(
                root, request.conditions, datasets=request.datasets, mark=request.run_uri
            )
    return _report(request, root, base, done, gone, phases)


def delete(request: DeleteCubeRequest) -> RemovalReport:
    """Delete datasets, as one version, or the cube; a retry goes on where an attempt ended.

    Raises
    ------
    SpecError
        The name that confirms is another.
    CatalogNotFoundError
        There is no such cube.
    CubeError
        There is no such dataset, or it is the seed.
    ConflictError
        The cube was built anew since an attempt began to delete it.
    """
    phases, root = Phases(), request.root
    if request.confirm.strip() != name_of(root):
        raise SpecError(
            f"confirm: {request.confirm!r} is not {name_of(root)!r}, the name of the cube that is to be "
            "deleted; type it once more"
        )
    root.refuse_web_server("metadata.json")
    if request.datasets is None:
        return _delete_all(request, root, phases)
    done = committed_before(root, request.run_uri)
    base = read_version(root, None if done is None else done.parent)
    check_deletable(base, request.datasets)
    if done is None and not request.dry_run:
        with phases("commit"):
            done = delete_datasets(root, request.datasets, mark=request.run_uri)
    found = stats(root, base.version)
    gone = _gone({name: found[name] for name in request.datasets})
    return _report(request, root, base, done, gone, phases)


def _delete_all(request: DeleteCubeRequest, root: Storage, phases: Phases) -> RemovalReport:
    folder = request.folder.storage
    begun = folder.read(STARTED).decode() if folder.is_file(STARTED) else None
    if begun is not None and VersionLog(root).newest() is None:
        with phases("delete"):
            delete_files(root)
        return RemovalReport(
            step=request.step,
            dry_run=False,
            cube=name_of(root),
            cube_uri=root.uri(),
            text="Deleted the cube.",
        )
    base = read_version(root)
    if begun is not None and begun != base.write_id:
        raise ConflictError(
            f"{root.uri()}: version {base.version} was committed since this run began to delete the cube; "
            "nothing more is deleted. Start a new run if it is to go"
        )
    gone = _gone(stats(root, base.version))
    report = _report(request, root, base, None, gone, phases)
    if not request.dry_run:
        folder.write(STARTED, base.write_id.encode())
        with phases("delete"):
            delete_files(root)
    return report.model_copy(update={"seconds": phases.seconds})


def _gone(found: Mapping[str, DatasetStats]) -> tuple[Gone, ...]:
    return tuple(Gone(dataset=name, **found[name].model_dump()) for name in sorted(found))


def _report(
    request: RemovalRequest,
    root: Storage,
    base: CubeMetadata,
    done: CubeMetadata | None,
    gone: tuple[Gone, ...],
    phases: Phases,
) -> RemovalReport:
    verb = "Would remove" if request.dry_run else "Removed"
    lines = [f"  {each.dataset}: {each}" for each in gone]
    return RemovalReport(
        step=request.step,
        **totals_of(gone),
        cube=base.cube,
        cube_uri=root.uri(),
        version=None if done is None else done.version,
        parent=None if done is None else done.parent,
        dry_run=request.dry_run,
        gone=gone,
        text="\n".join([f"{verb} of version {base.version} of {base.cube}:", *lines]),
        seconds=phases.seconds,
    )
