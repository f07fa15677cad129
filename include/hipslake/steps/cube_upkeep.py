"""The cleanup of a cube, and what it weighs. One step, one run each."""

from __future__ import annotations

from datetime import timedelta
from typing import ClassVar

from pydantic import AwareDatetime, Field

from hipslake.catalog.upkeep.leftovers import Removed
from hipslake.cube.store.committing import read_version
from hipslake.cube.store.upkeep import DatasetStats, cleanup, stats
from hipslake.specs.base import Frozen
from hipslake.specs.vacuum import Retention
from hipslake.steps.cube_place import cube_root, name_of
from hipslake.steps.old_runs import old_runs_of_cube
from hipslake.steps.report import Phases, Report, Request
from hipslake.steps.run import now_utc
from hipslake.storage import Storage
from hipslake.versions.heartbeat import resting_seconds
from hipslake.versions.log import VersionLog


class CubeUpkeepRequest(Request):
    """What a step that looks after a cube is told."""

    reads_sources: ClassVar[bool] = False
    reusable: ClassVar[bool] = False  # what there is to do, and to tell, changes by the hour

    warehouse: str
    cube: str = Field(min_length=1, max_length=2000)  # of the warehouse by name, or a URI
    created: AwareDatetime = Field(default_factory=now_utc)  # ages are counted up to then

    def fingerprint(self) -> str:
        """Return the digest of the request; there is nothing else."""
        return self.digest()

    @property
    def root(self) -> Storage:
        """The storage at the cube's root."""
        return cube_root(self.warehouse, self.cube)


class CleanUpCubeRequest(CubeUpkeepRequest):
    """Clean a cube up."""

    step: ClassVar[str] = "cube_cleanup"

    keep_versions: int
    keep_days: float
    dry_run: bool = True


class CleanUpCubeReport(Report):
    """Files and bytes: what was deleted; in a dry run, what would have been."""

    step: str = CleanUpCubeRequest.step
    dry_run: bool = True
    cube_uri: str = ""
    kept: tuple[int, ...] = ()
    vacuumed: tuple[int, ...] = ()  # numbers of the versions
    removed: tuple[Removed, ...] = ()
    run_folders: tuple[str, ...] = ()  # relative to the warehouse
    postponed: str = ""  # why files of vacuumed versions are left for the next time
    text: str = ""


class CubeStatsRequest(CubeUpkeepRequest):
    """Weigh a cube."""

    step: ClassVar[str] = "cube_stats"

    version: int | None = Field(default=None, ge=1)  # None: the newest


class NamedStats(Frozen):
    """What one dataset weighs."""

    dataset: str
    weight: DatasetStats


class CubeStatsReport(Report):
    """Rows, files and bytes: those of all datasets."""

    step: str = CubeStatsRequest.step
    cube: str = ""
    cube_uri: str = ""
    version: int | None = None
    datasets: tuple[NamedStats, ...] = ()
    text: str = ""


def clean_up(request: CleanUpCubeRequest) -> CleanUpCubeReport:
    """Mend the pointers, and remove what no version that stays needs, and what died.

    Raises
    ------
    SpecError
        The retention makes no sense.
    CatalogNotFoundError
        There is no such cube.
    """
    phases, root = Phases(), request.root
    retention = Retention.of(request.keep_versions, request.keep_days)
    if not request.dry_run:
        with phases("pointers"):
            VersionLog(root).publish_pointers()
    with phases("cleanup"):
        outcome = cleanup(root, retention, now=request.created, dry_run=request.dry_run)
    with phases("runs"):
        age = max(timedelta(days=retention.keep_days), timedelta(seconds=resting_seconds()))
        folders = old_runs_of_cube(request.warehouse, name_of(root), request.created - age)
        if not request.dry_run:
            for folder in folders:
                Storage.at(request.warehouse).delete_tree(folder)
    verb = "Would" if request.dry_run else "Did"
    numbers = {name: ", ".join(map(str, getattr(outcome, name))) or "none" for name in ("vacuumed", "kept")}
    lines = [
        f"{verb} vacuum versions: {numbers['vacuumed']}. Kept: {numbers['kept']}.",
        f"{verb} delete {outcome.files} files of {outcome.bytes} bytes, and {len(folders)} run folders.",
        *(
            f"  {each.path}: {each.files} files, {each.bytes} bytes"
            + (", all of it" if each.whole else ", the rest is needed")
            for each in outcome.removed
        ),
    ]
    if outcome.postponed:
        lines.append(f"Files of vacuumed versions are left for the next time: {outcome.postponed}.")
    return CleanUpCubeReport(
        files=outcome.files,
        bytes=outcome.bytes,
        dry_run=request.dry_run,
        cube_uri=root.uri(),
        kept=outcome.kept,
        vacuumed=outcome.vacuumed,
        removed=outcome.removed,
        run_folders=tuple(folders),
        postponed=outcome.postponed,
        text="\n".join(lines),
        seconds=phases.seconds,
    )


def weigh(request: CubeStatsRequest) -> CubeStatsReport:
    """Weigh the datasets of a version, by its metadata.

    Raises
    ------
    CatalogNotFoundError, VersionNotFoundError
        There is no such cube, or version.
    """
    phases, root = Phases(), request.root
    with phases("read"):
        metadata = read_version(root, request.version)
        found = stats(root, metadata.version)
    rows = sum(each.rows for each in found.values())
    return CubeStatsReport(
        rows_in=rows,
        rows_out=rows,
        files=sum(each.files for each in found.values()),
        bytes=sum(each.bytes for each in found.values()),
        cube=metadata.cube,
        cube_uri=root.uri(),
        version=metadata.version,
        datasets=tuple(NamedStats(dataset=name, weight=found[name]) for name in sorted(found)),
        text="\n".join(
            [
                f"Version {metadata.version} of {metadata.cube}:",
                *(
                    f"  {name}: {each.partitions} partitions, {each.files} files, {each.rows} rows, "
                    f"{each.bytes} bytes"
                    for name, each in sorted(found.items())
                ),
            ]
        ),
        seconds=phases.seconds,
    )
