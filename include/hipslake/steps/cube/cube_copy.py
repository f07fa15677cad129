"""The copy of a cube: its newest version at another place, as one version there. One step, one run."""

from __future__ import annotations

from hipslake.cube.store.cube_commit import committed_before, newest
from hipslake.cube.store.upkeep import copy
from hipslake.steps.cube.cube_place import name_of, new_root
from hipslake.steps.cube.request import CopyCubeReport, CopyCubeRequest, totals_of
from hipslake.steps.report import Phases


def run(request: CopyCubeRequest) -> CopyCubeReport:
    """Copy; a retry finds the version that was committed.

    Raises
    ------
    SpecError, NotWritableError
        The target is no place for a cube; nothing was written.
    CatalogNotFoundError
        There is no such cube.
    CubeError
        As of `hipslake.cube.store.upkeep.copy`; the target is as it was.
    VerificationError
        A file of the cube is missing or damaged; the target is as it was.
    """
    phases = Phases()
    source = request.root
    target = new_root(request.warehouse, request.target, source)
    done = committed_before(target, request.run_uri) if newest(target) else None
    if done is None:
        with phases("copy"):
            done = copy(
                source,
                target,
                name=name_of(target),
                datasets=request.datasets,
                overwrite=request.overwrite,
                mark=request.run_uri,
            )
    copied = [each for each in done.datasets if request.datasets is None or each.name in request.datasets]
    return CopyCubeReport(
        **totals_of(copied),
        cube=done.cube,
        cube_uri=target.uri(),
        version=done.version,
        parent=done.parent,
        source_uri=source.uri(),
        text=f"Copied {', '.join(each.name for each in copied)} of {source.uri()} to {target.uri()}.",
        seconds=phases.seconds,
    )
