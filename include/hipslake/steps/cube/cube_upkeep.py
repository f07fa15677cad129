"""The cleanup of a cube, and the size of its datasets. One step, one run each."""

from __future__ import annotations

from hipslake.cube.store.cube_commit import point_at_newest_cube, read_version
from hipslake.cube.store.upkeep import cleanup, stats
from hipslake.steps.cube.cube_place import name_of
from hipslake.steps.cube.request import (
    CleanUpCubeReport,
    CleanUpCubeRequest,
    CubeStatsReport,
    CubeStatsRequest,
    NamedStats,
    totals_of,
)
from hipslake.steps.report import Phases
from hipslake.steps.upkeep.old_runs import old_runs_of_cube


def clean_up(request: CleanUpCubeRequest) -> CleanUpCubeReport:
    """Mend the pointers, and remove what no version that stays needs, and what died.

    Raises
    ------
    SpecError
        The retention makes no sense.
    CatalogNotFoundError
        There is no such cube.
    """
    phases, root, retention = Phases(), request.root, request.retention()
    if not request.dry_run:
        with phases("pointers"):
            point_at_newest_cube(root)
    with phases("cleanup"):
        outcome = cleanup(root, retention, now=request.created, dry_run=request.dry_run)
    with phases("runs"):
        folders = old_runs_of_cube(request.warehouse, name_of(root), request.runs_before)
        request.remove_runs(folders)
    return CleanUpCubeReport.of(outcome, folders, phases.seconds, cube_uri=root.uri())


def cube_stats(request: CubeStatsRequest) -> CubeStatsReport:
    """The size of the datasets of a version, by its metadata.

    Raises
    ------
    CatalogNotFoundError, VersionNotFoundError
        There is no such cube, or version.
    """
    phases, root = Phases(), request.root
    with phases("read"):
        metadata = read_version(root, request.version)
        found = stats(root, metadata.version)
    lines = [f"  {name}: {found[name]}" for name in sorted(found)]
    return CubeStatsReport(
        **totals_of(found.values()),
        cube=metadata.cube,
        cube_uri=root.uri(),
        version=metadata.version,
        datasets=tuple(NamedStats(dataset=name, weight=found[name]) for name in sorted(found)),
        text="\n".join([f"Version {metadata.version} of {metadata.cube}:", *lines]),
        seconds=phases.seconds,
    )
