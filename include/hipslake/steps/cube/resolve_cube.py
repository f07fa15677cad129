"""Resolve a run that makes a version of a cube: freeze the spec, and the version of every source.

Level-triggered: whatever event woke the run, it compares what the sources hold now with what the newest
version of the cube was made of. So a run that finds nothing new does nothing, and events may coalesce.
"""

from __future__ import annotations

from collections.abc import Sequence

from hipslake.cube.store.cube_commit import newest
from hipslake.cube.store.dataset_sources import CatalogSource, SourceNow, source_now
from hipslake.cube.store.derived_tables import is_aligned
from hipslake.cube.store.layout import cube_uri
from hipslake.cube.store.metadata import CubeMetadata
from hipslake.cube.store.offers import DatasetChange
from hipslake.cube.store.spec_changes import BuildMode, SpecBuild
from hipslake.errors import CatalogNotFoundError, SourceNotFoundError, SpecError
from hipslake.library_version import __version__
from hipslake.predicates.condition_text import check_conditions
from hipslake.specs.cube_spec import CubeSpec
from hipslake.specs.spec_folder import load_spec
from hipslake.steps.cube.frozen_cube import FrozenCube
from hipslake.steps.cube.request import ResolveCubeReport, ResolveCubeRequest
from hipslake.steps.free_space import check_free_space
from hipslake.steps.report import Phases
from hipslake.steps.run import RunFolder, now_utc
from hipslake.steps.upkeep.old_runs import remove_old_runs_of_dag
from hipslake.storage.folder import Storage
from hipslake.versions.orphans import sweep_orphans
from hipslake.versions.write_id import new_write_id


def run(request: ResolveCubeRequest) -> ResolveCubeReport:
    """Freeze the run.

    Raises
    ------
    SpecError
        If the spec is wrong, or has no dataset of a name that is given.
    CubeError, CubeRowsError, FilterError
        If the datasets are no cube together, or what is asked for does not go with what stands.
    CatalogNotFoundError, SourceNotFoundError, VersionNotFoundError
        If a source is not there, unless the run only aligns.
    NoSpaceError
        If the warehouse cannot take any more.
    """
    phases = Phases()
    with phases("spec"):
        spec = load_spec(request.spec_file, CubeSpec)
        named = _named(spec, request.datasets)
        check_conditions(spec.conditions or "")
    place = Storage.at(cube_uri(request.warehouse, spec.name))
    check_free_space(Storage.at(request.warehouse))
    with phases("sources"):
        found, missing = _sources(spec, named, request)
    frozen = FrozenCube(
        **dict(request),
        cube=spec.name,
        spec=spec,
        sources={name: each.source for name, each in found.items()},
        write_id=new_write_id(now_utc()),
        created=now_utc(),
        library_version=__version__,
    )
    nothing, size = missing, 0
    if not missing:
        with phases("changes"):
            nothing, size = _asked(frozen.target, newest(place), found)
    request.folder.write(RunFolder.RUN, frozen.model_copy(update={"nothing": nothing, "total_bytes": size}))
    with phases("sweep"):
        swept = sweep_orphans(place)
        removed = remove_old_runs_of_dag(request.run_uri)
    return ResolveCubeReport(
        bytes=size,
        cube=spec.name,
        mode=request.mode.value,
        nothing=nothing,
        swept=tuple(swept),
        removed=tuple(removed),
        seconds=phases.seconds,
    )


def _named(spec: CubeSpec, datasets: Sequence[str]) -> list[str]:
    strange = sorted(set(datasets) - set(spec.datasets))
    if strange:
        raise SpecError(
            f"{spec.name}: there is no dataset {', '.join(map(repr, strange))}; there is "
            f"{', '.join(sorted(spec.datasets))}"
        )
    return sorted(datasets or spec.datasets)


def _sources(
    spec: CubeSpec, named: Sequence[str], request: ResolveCubeRequest
) -> tuple[dict[str, SourceNow], str]:
    """What the datasets are read from now; and which is missing, where the run may wait for it."""
    found = {}
    for name in named:
        try:
            found[name] = source_now(spec.datasets[name], request.warehouse)
        except (CatalogNotFoundError, SourceNotFoundError) as error:
            if request.mode is not BuildMode.ALIGN:
                raise
            return {}, f"Dataset {name!r} has no source yet: {error}"
    return found, ""


def _asked(target: SpecBuild, base: CubeMetadata | None, found: dict[str, SourceNow]) -> tuple[str, int]:
    """Why there is nothing to do, if so; and about how many bytes are to be read."""
    plan = target.plan(base)
    if plan is None:
        return f"Version {base.version if base else 0} was made of what the sources hold now.", 0
    size = sum(_bytes(each, found[each.offer.name]) for each in plan.changes)
    if base is not None and not is_aligned(target.spec, base):
        size += sum(each.bytes for each in base.datasets)
    return "", size


def _bytes(change: DatasetChange, source: SourceNow) -> int:
    rows = change.offer.source
    if change.within is None or not isinstance(rows, CatalogSource):
        return source.bytes
    leaves = CatalogSource.of(rows.uri, rows.version).parts
    return round(source.bytes * rows.parts / max(1, leaves))
